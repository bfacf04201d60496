"""The lease on a folder of checkpoints: one start writes there at a time.

Rank 0 locks `.lease` (flock) before it reads anything, for the life of its process, and writes into it who it is. The
kernel lets go when the process ends, however it ends. Where the file system has no locks there is no lease; names keep
two starts from writing to one checkpoint all the same.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from typing import Dict

from .._errors import CheckpointError

FILE = ".lease"
# A start that was ended a moment ago lets go soon; what a dead machine held, a file server keeps for longer.
PATIENCE_S = 10.0
_SAME_JOB_PATIENCE_S = 100.0
_LOOK_AGAIN_S = 0.02
_DENIED = (BlockingIOError, PermissionError)

# {lease file: descriptor}, for the life of the process: of several Checkpoints of one folder the last one counts.
_held: Dict[str, int] = {}


def hold(folder: str, job: str, attempt: int, patience_s: float = PATIENCE_S) -> None:
    """Takes the lease for this process. Errors: CheckpointError naming who has it; OSError."""
    path = os.path.realpath(os.path.join(folder, FILE))
    if path in _held and not _is_in_place(path, _held[path]):
        os.close(_held.pop(path))
    if path not in _held:
        _held[path] = _locked(path, job, patience_s)
    who = {"job": job, "attempt": attempt, "host": socket.gethostname(), "pid": os.getpid()}
    os.pwrite(_held[path], json.dumps(who).ljust(512).encode(), 0)


def _locked(path: str, job: str, patience_s: float) -> int:
    begun = time.monotonic()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except _DENIED:
                who = _holder(fd)
                is_ours = bool(job) and who.get("job") == job
                if time.monotonic() - begun >= (max(patience_s, _SAME_JOB_PATIENCE_S) if is_ours else patience_s):
                    raise CheckpointError(
                        f"{os.path.dirname(path)} is in use: {who.get('job') or 'a program'} saves there, process "
                        f"{who.get('pid', 'unknown')} on {who.get('host', 'an unknown machine')}; end that, give another dir=, or read "
                        "what is there with tide.load()") from None
            except OSError:
                return fd  # no locks here
            time.sleep(_LOOK_AGAIN_S)
    except BaseException:
        os.close(fd)
        raise


def _is_in_place(path: str, fd: int) -> bool:
    """False where the folder was removed and made anew."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def _holder(fd: int) -> "Dict[str, object]":
    try:
        return dict(json.loads(os.pread(fd, 512, 0)))
    except (OSError, ValueError, TypeError):
        return {}
