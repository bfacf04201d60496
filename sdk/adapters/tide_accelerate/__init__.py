"""accelerate under Tide: what accelerator.save_state() writes, saved when the platform asks.

    run = tide.attach()
    step = tide_accelerate.resume(run, accelerator)     # after accelerator.prepare(...)
    ...
        step += 1                                       # after each optimizer step
        tide_accelerate.answer(run, accelerator, step)
"""

from __future__ import annotations

from typing import Any, Optional

import tide_adapters_common as common


def resume(run, accelerator, allow_restart: bool = False) -> int:
    """Loads the newest checkpoint on all ranks. Returns its step, 0 if there is none. Errors: as common.resume()."""
    newest = common.resume(run, allow_restart)
    if newest is None:
        return 0
    accelerator.load_state(newest.folder)
    return newest.step


def answer(run, accelerator, step: int, loss: Any = None, total: Optional[int] = None, keep: int = common.KEEP) -> None:
    """Asks after `step` finished optimizer steps, and saves or leaves. To be called by all ranks.

    Between two optimizer steps (accelerator.accumulate) it publishes only. ProjectConfiguration's automatic names must
    be off: save_state() would write elsewhere.
    """
    request = run.request(step, loss, total, safe=accelerator.sync_gradients)
    if request is not None:
        common.answer(request, accelerator.save_state, keep)
