"""A folder of checkpoints: what is there, and what may go."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import time
from typing import Collection, Dict, List, NamedTuple, Optional, Tuple

from .. import _files
from .._errors import CheckpointError, warn
from . import format as fmt
from .writer import is_committed


_LOCK_PREFIX = ".saver-"
# A saver whose rank has gone ends within 30 s.
ORPHANS_END_S = 35.0
_LOOK_AGAIN_S = 0.02
PIN_PREFIX = ".pin-"


class Found(NamedTuple):
    """One checkpoint folder."""

    name: fmt.Name
    path: str
    has_manifest: bool
    is_pinned: bool = False

    @property
    def step(self) -> int:
        return self.name.step


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
            found.append(Found(parsed, path, os.path.lexists(os.path.join(path, fmt.MANIFEST)), os.path.lexists(pin_path(path))))
    return sorted(found, key=lambda item: (item.name.age, item.path))


def prepare(folder: str) -> None:
    """Makes `folder`. Errors: CheckpointError."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot make the checkpoint folder {folder}: {error.strerror}; give another dir=") from error


def place_of(folder: str, start: str) -> "Tuple[int, Dict[str, int]]":
    """Where `start` comes in `folder`: its number, above those of all others, and the last generation of each step in its name.

    There are such steps only where its ranks were started again under one name.
    """
    others, own = 0, {}
    for item in scan(folder):  # generations come in their order
        if item.name.start == start:
            own[str(item.step)] = item.name.generation
        else:
            others = max(others, item.name.attempt)
    return others + 1, own


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

    Of one step that a start saved several times the last one counts, and stays. Those that are pinned stay, and do not count.
      damaged: folders found broken by resume(); they do not count, and go once training is past their step.
      Errors: OSError, of the first that could not be removed, once all others are.
    """
    found = scan(folder)
    good = {(item.step, item.name.start or item.path): item.path for item in found
            if item.has_manifest and item.path not in damaged and not item.is_pinned}
    kept = set(list(good.values())[-max(1, keep):]) | {newest.path}
    removed: List[str] = []
    failure: Optional[OSError] = None
    for item in found:
        if item.path in kept or item.is_pinned:
            continue
        if item.has_manifest and item.path in damaged and item.step >= newest.step:
            continue
        # Without a manifest: of an older start, or of a save this start has passed. Others may be in progress.
        if not item.has_manifest and (item.name.age >= newest.name.age or
                                      item.name.attempt == newest.name.attempt and item.name.start != newest.name.start):
            continue
        try:
            remove(item)
            removed.append(item.path)
        except FileNotFoundError:
            pass  # another one cleans up, too
        except OSError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return removed


def is_replaced(folder: str, name: fmt.Name) -> bool:
    """True where a checkpoint is gone and its start has committed a later one, with which rank 0 removes what that replaces."""
    if os.path.lexists(os.path.join(folder, fmt.directory_name(name))):
        return False
    try:
        return any(item.has_manifest and item.name.start == name.start and item.name.age > name.age for item in scan(folder))
    except OSError:
        return False


def pin_path(path: str) -> str:
    """The file whose being there keeps the checkpoint `path`. Beside it: nothing is written into what is committed."""
    folder, name = os.path.split(path)
    return os.path.join(folder, PIN_PREFIX + name)


def pin(item: Found) -> None:
    _files.write_durably(pin_path(item.path), b"")


def unpin(item: Found) -> None:
    _files.remove_quietly(pin_path(item.path))


def newest_committed(path: str) -> str:
    """`path` if it is a committed checkpoint, else the newest one inside. Errors: CheckpointError if there is none."""
    if is_committed(path):
        return path
    for item in reversed(scan(path)):
        if is_committed(item.path):
            return item.path
    raise CheckpointError(f"{path} is not a checkpoint and holds none with a whole {fmt.MANIFEST}")


def remove(item: Found) -> None:
    """Removes a checkpoint. The manifest goes first and durably: a crash half way must leave no folder that looks committed."""
    if item.has_manifest:
        os.unlink(os.path.join(item.path, fmt.MANIFEST))
        _files.sync_directory(item.path)
    shutil.rmtree(item.path, ignore_errors=True)
