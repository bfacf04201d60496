"""DeepSpeed under Tide: what engine.save_checkpoint() writes, saved when the platform asks.

    run = tide.attach()
    step, client = tide_deepspeed.resume(run, engine)
    ...
        engine.step()
        tide_deepspeed.answer(run, engine, client={"epoch": epoch})
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from tide import TideError

import tide_adapters_common as common

_TAG = "state"


def resume(run, engine, allow_restart: bool = False) -> "Tuple[int, Dict[str, Any]]":
    """Loads the newest checkpoint on all ranks. Returns its step and client state, (0, {}) if there is none.

      Errors: TideError where DeepSpeed loads nothing, and as common.resume().
    """
    newest = common.resume(run, allow_restart)
    if newest is None:
        return 0, {}
    loaded, client = engine.load_checkpoint(newest.folder, tag=_TAG)
    if loaded is None:
        raise TideError(f"DeepSpeed finds no checkpoint in {newest.folder}; resume another one")
    return newest.step, client or {}


def answer(run, engine, client: Optional[Dict[str, Any]] = None, loss: Any = None, total: Optional[int] = None,
           safe: bool = True, keep: int = common.KEEP) -> None:
    """Asks after engine.step(), and saves or leaves. To be called by all ranks. Steps are engine.global_steps.

      client: what else is to come back.
      safe: False while gradients are being accumulated: engine.micro_steps % engine.gradient_accumulation_steps() == 0.
    A checkpoint engine that writes behind training is not waited for; use the plain one.
    """
    request = run.request(engine.global_steps, loss, total, safe)
    if request is not None:
        common.answer(request, lambda folder: engine.save_checkpoint(folder, tag=_TAG, client_state=dict(client or {})), keep)
