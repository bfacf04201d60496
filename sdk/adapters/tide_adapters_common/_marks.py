"""Marks: the small files that say which folders are whole, and which of them is the newest."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from typing import List, NamedTuple, Optional

from tide._files import remove_quietly, sync_directory, write_durably

_MARK = "complete-"


class Found(NamedTuple):
    """A whole checkpoint. step: finished steps; number: rises with each checkpoint; folder: full path, "" = no longer whole."""

    step: int
    number: int
    folder: str


def found(run) -> List[Found]:
    """All whole checkpoints of the job, the newest first. Errors: OSError but for a folder that is not there."""
    return sorted((mark for mark in _all(run) if os.path.isdir(mark.folder)), key=lambda mark: -mark.number)


def next_number(run) -> int:
    """The number of the next checkpoint: above all that were given."""
    return max((mark.number for mark in _all(run)), default=0) + 1


def unmark(run, step: int) -> None:
    """Takes a step's mark back, before the framework writes to its folder again. By rank 0; the others do nothing."""
    mark = at(run, step) if run.rank == 0 else None
    if mark is not None:
        put(run, step, mark.number, "")  # its number is not given again: others may wait for a new one


def _all(run) -> List[Found]:
    try:
        names = os.listdir(run.checkpoint_dir)
    except FileNotFoundError:
        return []
    marks = [_read(run, name) for name in names if name.startswith(_MARK) and ".tmp-" not in name]
    return [mark for mark in marks if mark is not None]


def _read(run, name: str) -> Optional[Found]:
    try:
        with open(os.path.join(run.checkpoint_dir, name), encoding="utf-8") as file:
            data = json.load(file)
        folder = os.path.join(run.checkpoint_dir, data["folder"]) if data["folder"] else ""
        return Found(int(data["step"]), int(data["number"]), folder)
    except (FileNotFoundError, IsADirectoryError, ValueError, KeyError, TypeError):
        return None  # a file of somebody else's


def at(run, step: int) -> Optional[Found]:
    """What the mark of `step` says, None = there is none."""
    return _read(run, os.path.basename(_path(run, step)))


def put(run, step: int, number: int, name: str) -> None:
    """Says durably that folder `name` is whole, the last act of a save; "" = that none is any longer."""
    sync_directory(run.checkpoint_dir)
    data = {"step": step, "number": number, "folder": name}
    write_durably(_path(run, step), json.dumps(data).encode())


def remove_old(run, name: str, step: int, before: List[Found], keep: int) -> None:
    """Removes all but `keep` checkpoints. before: the checkpoints before that of `step` in folder `name`, the newest first."""
    others = [old for old in before if old.step != step]
    for old in others[keep - 1:]:
        remove_quietly(_path(run, old.step))  # first: what it names is whole
        shutil.rmtree(old.folder, ignore_errors=True)
    for old in before:
        if old.step == step and os.path.basename(old.folder) != name:
            shutil.rmtree(old.folder, ignore_errors=True)  # its mark has been replaced


def remove_leftovers(run) -> None:
    """Removes what saves of earlier starts have left unfinished."""
    if not os.path.isdir(run.checkpoint_dir):
        return
    whole = {os.path.basename(item.folder) for item in found(run)}
    ours = f"-{start_name(run)}-" if run.start else "no name"  # another rank may have begun to save by now
    for name in os.listdir(run.checkpoint_dir):
        if name.startswith("saving-") and ours not in name or name.startswith("step-") and name not in whole:
            shutil.rmtree(os.path.join(run.checkpoint_dir, name), ignore_errors=True)


def start_name(run) -> str:
    """Tells this start from others, for names."""
    return f"{zlib.crc32(run.start.encode()):08x}" if run.start else "local"


def _path(run, step: int) -> str:
    return os.path.join(run.checkpoint_dir, f"{_MARK}{step:012d}")
