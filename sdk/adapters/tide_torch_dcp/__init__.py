"""torch.distributed.checkpoint (torch 2.3 or later) under Tide: what dcp.save() writes, saved when the platform asks.

    run = tide.attach()
    state = {"app": AppState(model, optimizer)}     # a Stateful, as torch's guide has it
    step = tide_torch_dcp.resume(run, state)
    ...
        step += 1
        tide_torch_dcp.answer(run, state, step)
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import tide_adapters_common as common


def resume(run, state: Dict[str, Any], load: Optional[Callable[..., Any]] = None, allow_restart: bool = False) -> int:
    """Loads the newest checkpoint into `state` on all ranks, of whatever number. Returns its step, 0 if there is none.

      load: called as load(state, checkpoint_id=folder); default: dcp.load.   Errors: as common.resume().
    """
    newest = common.resume(run, allow_restart)
    if newest is None:
        return 0
    (load or _dcp().load)(state, checkpoint_id=newest.folder)
    return newest.step


def answer(run, state: Dict[str, Any], step: int, save: Optional[Callable[..., Any]] = None, loss: Any = None,
           total: Optional[int] = None, safe: bool = True, keep: int = common.KEEP) -> None:
    """Asks after `step` finished steps, and saves or leaves. To be called by all ranks.

      save: called as save(state, checkpoint_id=folder); default: dcp.save, which returns when all is written.
      safe: False while gradients are being accumulated.
    """
    request = run.request(step, loss, total, safe)
    if request is not None:
        write = save or _dcp().save
        common.answer(request, lambda folder: write(state, checkpoint_id=folder), keep)


def _dcp():
    import torch.distributed.checkpoint as dcp  # only where it is used: it takes a while
    return dcp
