"""A folder of checkpoints: what is there, and what may go."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import time
from typing import Collection, List, NamedTuple

from .. import _files
from .._errors import CheckpointError, warn
from . import format as fmt
from .writer import failed_path, is_committed, part_path


_LOCK_PREFIX = ".saver-"
# A saver whose rank has gone ends within 30 s.
ORPHANS_END_S = 35.0
_LOOK_AGAIN_S = 0.02


class Found(NamedTuple):
    """One checkpoint folder, in the order of age: step first, then attempt."""

    step: int
    attempt: int
    path: str
    has_manifest: bool


def scan(folder: str) -> List[Found]:
    """Checkpoint folders in `folder`, oldest first; other names are not ours and are left out.

      Errors: CheckpointError if `folder` cannot be read. A folder that does not exist is empty.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint folder {folder}: {error.strerror}; give another dir=") from error
    found = []
    for name in names:
        parsed = fmt.parse_directory(name)
        path = os.path.join(folder, name)
        if parsed is not None and os.path.isdir(path):
            found.append(Found(*parsed, path, os.path.lexists(os.path.join(path, fmt.MANIFEST))))
    return sorted(found)


def prepare(folder: str) -> None:
    """Makes `folder`. Errors: CheckpointError."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot make the checkpoint folder {folder}: {error.strerror}; give another dir=") from error


def next_attempt(folder: str) -> int:
    """An attempt number for a start outside the platform, equal on all ranks.

    Only committed checkpoints count. A new one needs a part of every rank of this start, so none can appear between
    the moments at which two ranks look.
    """
    return 1 + max((item.attempt for item in scan(folder) if item.has_manifest), default=0)


def drop_own_leftovers(folder: str, attempt: int, rank: int) -> None:
    """Removes what an earlier start of this attempt wrote for `rank` and never committed."""
    for item in scan(folder):
        if item.attempt == attempt and not item.has_manifest:
            for path in (part_path(item.path, rank), failed_path(item.path, rank)):
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    pass


def lock_path(folder: str, rank: int) -> str:
    """What the saver of `rank` locks while it is saving, where no agent fences one start from the next."""
    return os.path.join(folder, f"{_LOCK_PREFIX}{rank:05d}")


def await_orphans(folder: str, deadline: float) -> None:
    """Waits for savers whose ranks have been killed: what they commit must be there for all ranks or for none.

      deadline: time.monotonic() seconds; who is still there then is named on stderr.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith(_LOCK_PREFIX))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        while _is_orphan_saving(path):
            if time.monotonic() >= deadline:
                warn(f"{path} is still locked by the saver of an earlier start; a checkpoint of it may come late")
                break
            time.sleep(_LOOK_AGAIN_S)


def _is_orphan_saving(path: str) -> bool:
    """True while the lock is held for a rank of this machine that has ended, or for one of another machine."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        host, pid, start = (os.read(fd, 512).decode(errors="replace").split() + ["", "", ""])[:3]
        return host != socket.gethostname() or start != _start_of(pid)
    except OSError:
        return False
    finally:
        os.close(fd)


def _start_of(pid: str) -> str:
    """When a process started, in clock ticks since boot; "" if there is none."""
    try:
        with open(f"/proc/{int(pid)}/stat", encoding="utf-8", errors="replace") as source:
            return source.read().rsplit(")", 1)[1].split()[19]
    except (OSError, ValueError, IndexError):
        return ""


def collect_garbage(folder: str, newest: Found, keep: int, damaged: Collection[str]) -> List[str]:
    """Called by rank 0 after committing `newest`. Keeps the last `keep` good ones. Returns the paths removed.

      damaged: folders found broken by resume(); they do not count, and go once training is past their step.
    """
    found = scan(folder)
    good = [item for item in found if item.has_manifest and item.path not in damaged]
    kept = {item.path for item in good[-max(1, keep):]} | {newest.path}
    removed = []
    for item in found:
        if item.path in kept:
            continue
        if item.has_manifest and item.path in damaged and item.step >= newest.step:
            continue
        # Without a manifest: of an older attempt, or of a step this attempt has passed. Others may be in progress.
        if not item.has_manifest and (item.attempt > newest.attempt or
                                      (item.attempt == newest.attempt and item.step >= newest.step)):
            continue
        _remove(item)
        removed.append(item.path)
    return removed


def newest_committed(path: str) -> str:
    """`path` if it is a committed checkpoint, else the newest one inside. Errors: CheckpointError if there is none."""
    if is_committed(path):
        return path
    for item in reversed(scan(path)):
        if is_committed(item.path):
            return item.path
    raise CheckpointError(f"{path} is not a checkpoint and holds none with a whole {fmt.MANIFEST}")


def _remove(item: Found) -> None:
    """The manifest goes first and durably: a crash half way must leave no folder that looks committed."""
    if item.has_manifest:
        os.unlink(os.path.join(item.path, fmt.MANIFEST))
        _files.sync_directory(item.path)
    shutil.rmtree(item.path, ignore_errors=True)
