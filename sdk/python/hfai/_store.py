"""The program's own torch.distributed store as a second way to tell all ranks, for nodes that share no folder."""

from __future__ import annotations

import sys
import threading
from typing import Any, Optional

_KEY = "tide-hfai-go"
# Counted up when the key is set: asking for a key that is not there would wait for it.
_SAID = "tide-hfai-said"
_POST_S = 0.5


def distributed() -> Optional[Any]:
    """torch.distributed where it is in use, else None."""
    torch = sys.modules.get("torch")
    dist = getattr(torch, "distributed", None)
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def post(leave_at: float) -> None:
    """Leaves the moment to go in the store, if there is one. Returns within half a second, whatever the store does."""
    store = _store()
    if store is not None:
        sender = threading.Thread(target=_set_quietly, args=(store, leave_at), daemon=True)
        sender.start()
        sender.join(_POST_S)


def read() -> Optional[float]:
    """The moment to go, None while nobody has said it. May wait for a store that does not answer."""
    store = _store()
    try:
        if store is None or store.add(_SAID, 0) == 0:
            return None
        return float(store.get(_KEY))
    except Exception:  # whatever a store raises whose process is gone
        return None


def _store() -> Optional[Any]:
    dist = distributed()
    try:
        return None if dist is None else dist.distributed_c10d._get_default_store()
    except Exception:  # not a public call: a later PyTorch may have none
        return None


def _set_quietly(store: Any, leave_at: float) -> None:
    try:
        store.set(_KEY, repr(leave_at))
        store.add(_SAID, 1)
    except Exception:
        pass
