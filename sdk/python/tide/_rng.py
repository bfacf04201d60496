"""The random states of one process as one object with state_dict(), for Checkpoint(local={"rng": tide.rng()})."""

from __future__ import annotations

import random
import sys
from typing import Any, Dict

from ._errors import warn


class RandomStates:
    """Python's random, and numpy's and torch's global generators if those are imported (torch: CPU and, where CUDA
    is in use, this process's device)."""

    def state_dict(self) -> Dict[str, Any]:
        state: Dict[str, Any] = {"python": random.getstate()}
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None:
            state["numpy"] = numpy.random.get_state()
        if torch is not None:
            state["torch"] = torch.get_rng_state()
            if torch.cuda.is_available() and torch.cuda.is_initialized():
                state["cuda"] = torch.cuda.get_rng_state()
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        random.setstate(state["python"])
        if "numpy" in state and numpy is not None:
            numpy.random.set_state(state["numpy"])
        if "torch" in state and torch is not None:
            torch.set_rng_state(state["torch"])
        if "cuda" in state:
            if torch is not None and torch.cuda.is_available():
                torch.cuda.set_rng_state(state["cuda"])
            else:
                warn("the checkpoint was saved with CUDA, this process has none: its random state is not restored")


def rng() -> RandomStates:
    """The random states of this process."""
    return RandomStates()


def device() -> Any:
    """cuda:LOCAL_RANK where torch sees CUDA devices, else the CPU: a torch.device, or "cpu" without torch."""
    from ._run import attach
    torch = sys.modules.get("torch")
    if torch is None:
        return "cpu"
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # Under one visible device per rank every rank's own device has index 0.
    return torch.device("cuda", attach().local_rank % torch.cuda.device_count())
