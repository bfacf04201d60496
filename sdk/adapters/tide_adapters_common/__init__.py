"""What the adapters share: folders that frameworks write, of which a mark says that they are whole.

    <run.checkpoint_dir>/step-000000000012-0003/     what the framework wrote, moved into place
    <run.checkpoint_dir>/complete-000000000012       written last: {"step", "number", "folder"}
    <run.checkpoint_dir>/saving-000000000012-.../    under way, or left by a start that was ended: counts for nothing

Invariants: what a mark names is whole and durable. A mark's number is above all others' when it is written, and the highest is
the newest, so a run that went back goes on from what it saves there. Marks are replaced in one step.
"""

from __future__ import annotations

import os
from typing import Callable, Optional

from tide import TideError

from ._marks import Found, found, remove_leftovers, unmark
from ._votes import sync_tree, together, work_folder

__all__ = ["KEEP", "Found", "answer", "carry_out", "found", "mark", "resume", "save", "unmark"]

KEEP = 3


def resume(run, allow_restart: bool = False) -> Optional[Found]:
    """Returns the checkpoint to load, None = begin at step 0. To be called by all ranks before the first step, once.

    The newest, or that of the step which `tide resume --step` asked for. Rank 0 removes what unfinished saves left.
      allow_restart: begin below the step on record where nothing newer is left.
      Errors: TideError where the step asked for is not there, or the one on record.
    """
    whole = found(run)
    if run.resume_step is not None:
        whole = [item for item in whole if item.step == run.resume_step]
        if run.resume_step and not whole:
            raise TideError(f"{run.checkpoint_dir} holds no whole checkpoint of step {run.resume_step}; resume another one")
    elif run.resume_before:
        whole = [item for item in whole if item.step < run.resume_before]
        if not whole:
            raise TideError(f"{run.checkpoint_dir} holds no whole checkpoint below step {run.resume_before}")
    newest = whole[0] if whole and run.resume_step != 0 else None
    run.resumed(newest.step if newest else 0, allow_restart)
    if run.rank == 0:
        remove_leftovers(run)
    return newest


def answer(request, write: Callable[[str], object], keep: int = KEEP) -> None:
    """Does what the platform asks: saves, and leaves the process where that is asked. To be called by all ranks.

      write: writes this rank's part into the folder it is given, which exists; returns when it is written.
    A save that fails is one line on stderr; earlier checkpoints stay, and training goes on.
    """
    carry_out(request, lambda: save(request.run, request.step, write, keep, request.deadline))


def carry_out(request, save_all: Callable[[], str]) -> None:
    """Does so where a save is one call. save_all: saves with all ranks and returns the checkpoint's name."""
    if request.kind != "stop":
        try:
            name = save_all()
        except Exception as error:  # whatever the framework raises
            request.failed(error)
            return
        request.saved(name)
    if request.leaves:
        request.run.exit()


def save(run, step: int, write: Callable[[str], object], keep: int = KEEP, deadline: Optional[float] = None) -> str:
    """Saves on all ranks, and returns the folder's name once it counts.

      write: as in answer().   keep: checkpoints that stay.   deadline: Unix seconds, None = ten minutes from now.
      Errors: TideError where another rank failed or did not come; what `write` raises. Earlier checkpoints stay.
    """
    work = work_folder(run, step)
    inside = os.path.join(work, "files")

    def write_inside() -> None:
        os.makedirs(inside, exist_ok=True)
        write(inside)
        sync_tree(inside)

    def move(number: int) -> str:
        name = f"step-{step:012d}-{number:04d}"
        os.rename(inside, os.path.join(run.checkpoint_dir, name))
        return name

    return together(run, step, work, write_inside, move, keep, deadline)


def mark(run, step: int, folder: str, keep: int = 0, deadline: Optional[float] = None) -> str:
    """Marks a folder inside run.checkpoint_dir that the framework has written under its own name. Otherwise like save().

      keep: 0 = the framework removes old ones itself.
    """
    name = os.path.relpath(folder, run.checkpoint_dir)
    if name.split(os.sep)[0] == os.pardir:
        raise TideError(f"{folder} is not inside {run.checkpoint_dir}; let the framework write there (run.checkpoint_dir)")

    def is_written(number: int) -> str:
        if not os.path.isdir(folder):
            raise TideError(f"{folder} is not there; does the framework remove its newest checkpoint, after a run that went back?")
        return name

    return together(run, step, work_folder(run, step), lambda: sync_tree(folder), is_written, keep, deadline)
