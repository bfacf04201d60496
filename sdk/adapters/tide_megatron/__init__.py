"""Megatron-LM under Tide: what its save_checkpoint() writes, saved when the platform asks.

    run = tide.attach()
    tide_megatron.resume(run, get_args())         # before load_checkpoint()
    ...
        iteration += 1                            # after each train_step()
        tide_megatron.answer(run, get_args(), iteration,
                             lambda: save_checkpoint(iteration, model, optimizer, opt_param_scheduler, flops))
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional

import tide_adapters_common as common


def resume(run, args, allow_restart: bool = False) -> int:
    """Lets args.load name the newest checkpoint. Returns its step, 0 if there is none. Errors: as common.resume().

    Where there is none, args.load stays what it is: weights to begin with.
    """
    newest = common.resume(run, allow_restart)
    if newest is None:
        return 0
    args.load = newest.folder
    args.finetune = False  # else Megatron begins at iteration 0
    return newest.step


def answer(run, args, iteration: int, save: Callable[[], object], loss: Any = None, total: Optional[int] = None,
           keep: int = common.KEEP) -> None:
    """Asks after `iteration` finished iterations, and saves or leaves. To be called by all ranks.

      save: calls Megatron's save_checkpoint(), which writes to args.save.
    An asynchronous save of Megatron's own must be over (maybe_finalize_async_save(blocking=True)).
    """
    request = run.request(iteration, loss, total)
    if request is not None:
        def write(folder: str) -> None:
            with _told(args, save=folder, async_save=False):
                save()
        common.answer(request, write, keep)


@contextlib.contextmanager
def _told(args, **values: Any) -> Iterator[None]:
    """Gives arguments other values for a while."""
    before = {name: getattr(args, name, None) for name in values}
    vars(args).update(values)
    try:
        yield
    finally:
        vars(args).update(before)
