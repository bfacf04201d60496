"""One save by all ranks: each says in a file of its own that its part is written, and rank 0 decides."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from typing import Callable, Optional

from tide import TideError
from tide._files import sync_directory, write_durably

from . import _marks

TIMEOUT_S = 600.0
# Rank 0 decides; the others wait this much longer for what it decides.
_DECIDED_GRACE_S = 10.0
_POLL_S = 0.005
_saves = itertools.count(1)  # of this process: all ranks save the same in the same order


def work_folder(run, step: int) -> str:
    """Where all ranks do the next save, until it is moved into place."""
    return os.path.join(run.checkpoint_dir, f"saving-{step:012d}-{_marks.start_name(run)}-{next(_saves)}")


def together(run, step: int, work: str, write: Callable[[], None], place: Callable[[int], str], keep: int,
             deadline: Optional[float]) -> str:
    """Writes on all ranks; rank 0 places the whole and marks it. One rank that fails fails all. Returns the folder's name.

      work: of this save, the same on all ranks.   place: puts checkpoint `number` in place and returns its name, on rank 0.
      deadline: Unix seconds, None = TIMEOUT_S after this rank has written.
    """
    patience_s = TIMEOUT_S if deadline is None else max(1.0, deadline - time.time())
    before = _marks.at(run, step)
    votes = os.path.join(work, "ranks")
    os.makedirs(votes, exist_ok=True)
    try:
        write()
        _vote(votes, run.rank, "")
        # Written parts are waited for that long; how long writing took does not matter.
        end = time.monotonic() + patience_s + (0 if run.rank == 0 else _DECIDED_GRACE_S)
        if run.rank == 0:
            _await(lambda: _all_voted(votes, run.world_size), end, f"all ranks to write step {step}")
            return _commit(run, step, work, place, keep)
        seen = _await(lambda: _decided(run, step, votes, before), end, f"rank 0 to complete step {step}")
        return os.path.basename(seen.folder)
    except BaseException as error:
        _vote(votes, run.rank, str(error) or type(error).__name__)
        raise


def sync_tree(folder: str) -> None:
    """Makes all files below `folder` durable. Those that vanish meanwhile are other ranks' temporary ones."""
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                file = os.open(os.path.join(parent, name), os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                os.fsync(file)
            finally:
                os.close(file)
        sync_directory(parent)


def _commit(run, step: int, work: str, place: Callable[[int], str], keep: int) -> str:
    whole, number = _marks.found(run), _marks.next_number(run)
    name = place(number)
    _marks.put(run, step, number, name)
    if keep:
        _marks.remove_old(run, name, step, whole, keep)
    shutil.rmtree(work, ignore_errors=True)
    return name


def _decided(run, step: int, votes: str, before: Optional[_marks.Found]) -> Optional[_marks.Found]:
    now = _marks.at(run, step)
    if now is not None and now.folder and now != before:
        return now
    _all_voted(votes, run.world_size)  # raises where one failed
    return None


def _all_voted(votes: str, world_size: int) -> bool:
    """True once all ranks have written. Errors: TideError where one says that it failed."""
    written = 0
    for rank in range(world_size):
        try:
            with open(os.path.join(votes, str(rank)), encoding="utf-8") as vote:
                why = vote.read()
        except FileNotFoundError:
            continue
        if why:
            raise TideError(f"rank {rank}: {why}")
        written += 1
    return written == world_size


def _vote(votes: str, rank: int, why: str) -> None:
    try:
        write_durably(os.path.join(votes, str(rank)), why.encode())
    except OSError:
        if not why:  # who waits for a rank that failed is told by its own deadline
            raise


def _await(ready: Callable[[], object], end: float, what: str):
    while True:
        value = ready()
        if value:
            return value
        if time.monotonic() > end:
            raise TideError(f"waited in vain for {what}")
        time.sleep(_POLL_S)
