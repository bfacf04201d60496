"""What the ranks of one start agree on before the first step, through the folder that all of them see.

Rank 0 decides: which checkpoint the start resumes from, the start's number in this folder, and its nonce, which no
other start has and which is in the name of every checkpoint it writes. It leaves a note; the others take what the note
says, or fail. So no two ranks train on from different steps, and no two starts write to one checkpoint.

A note must be of this start and not of the one before. The platform names each start (TIDE_START), and rank 0 need not
wait for anybody; where ranks are started again under one name, each waits for another note than it took before, which it
remembers in its task's scratch folder. Elsewhere each rank first leaves a token of its own, and rank 0 writes the note when it has the
tokens of all; a rank takes no note that lacks its token, and rank 0 writes another until all have taken it.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from .. import _files
from .._errors import CheckpointError
from .._run import Run
from .writer import ranks_text

_NOTE = ".start-"
_TOKEN = ".rank-"
_GONE = ".gone-"  # of ranks that died in an earlier start (sdk/native/folder.h)
_FIRST_NAP_S = 0.0005
_LONGEST_NAP_S = 0.05


class Start(NamedTuple):
    """number: of the starts that this folder has seen, later ones are larger; nonce: eight hexadecimal digits;
    checkpoint: the name of what it resumes from, "" = nothing; generations: the last one of each step that was saved under
    this nonce already."""

    number: int
    nonce: str
    checkpoint: str = ""
    generations: Dict[str, int] = {}


def agree(folder: str, run: Run, decide: Callable[[str], Start], deadline: float) -> Start:
    """What rank 0 decided. To be called by all ranks.

      decide: called on rank 0 alone, with a nonce.   deadline: time.monotonic() seconds, for the other ranks.
      Errors: CheckpointError naming the ranks that did not come; OSError.
    """
    if run.rank == 0:
        _clean(folder)
    if run.world_size == 1:
        return decide(_nonce_of(run.start) if run.start else os.urandom(4).hex())
    if run.start:
        return _agree_by_name(folder, run, decide, deadline)
    return _agree_by_tokens(folder, run, decide, deadline)


def _agree_by_name(folder: str, run: Run, decide: Callable[[str], Start], deadline: float) -> Start:
    nonce = _nonce_of(run.start)
    path = os.path.join(folder, _NOTE + nonce)
    if run.rank == 0:
        start = decide(nonce)
        _files.write_durably(path, _text(start, [os.urandom(8).hex()]))
        return start
    taken = _Taken(folder, run)
    nap = _Nap(deadline, lambda: f"{folder}: rank 0 did not say in time what this start resumes from; its log says why")
    while True:
        note = _read(path)
        if note is not None and note["tokens"] != taken.before:
            taken.note(note["tokens"])
            return _start_of(note)
        nap.take()


def _agree_by_tokens(folder: str, run: Run, decide: Callable[[str], Start], deadline: float) -> Start:
    mine = os.urandom(8).hex()
    path = os.path.join(folder, _NOTE + "local")
    if run.rank == 0:
        return _collect(folder, run, path, decide(os.urandom(4).hex()), deadline)
    token_path = _token_path(folder, run.rank)
    _files.write_durably(token_path, _record(token=mine, world=run.world_size, taken=""))
    nap = _Nap(deadline, lambda: f"{folder}: rank 0 did not say in time what this start resumes from; its log says why")
    while True:
        note = _read(path)
        if note is not None and mine in note.get("tokens", ()):
            _files.write_durably(token_path, _record(token=mine, world=run.world_size, taken=note["nonce"]))
            return _start_of(note)
        nap.take()


def _collect(folder: str, run: Run, path: str, start: Start, deadline: float) -> Start:
    """Rank 0: writes the note anew until every rank has taken it. Tokens of an earlier start are taken for ours until
    their ranks replace them."""
    told: List[str] = []
    missing = list(range(1, run.world_size))
    nap = _Nap(deadline, lambda: f"{folder}: {ranks_text(missing)} of {run.world_size} did not call resume() in time")
    while True:
        found = {rank: _read(_token_path(folder, rank)) for rank in range(1, run.world_size)}
        here = {rank: record for rank, record in found.items() if record and record.get("world") == run.world_size}
        missing = [rank for rank in found if rank not in here or here[rank].get("taken") != start.nonce]
        if not missing:
            for name in [path, *(_token_path(folder, rank) for rank in found)]:
                _files.remove_quietly(name)
            return start
        tokens = [str(record.get("token")) for record in here.values()]
        if len(here) == len(found) and tokens != told:
            _files.write_durably(path, _text(start, tokens))
            told = tokens
        nap.take()


def _clean(folder: str) -> None:
    """Rank 0: removes what earlier starts left."""
    for prefix in (_NOTE, _GONE):
        for old in glob.glob(os.path.join(glob.escape(folder), prefix + "*")):
            _files.remove_quietly(old)


class _Taken:
    """Remembers the note that this rank took, for the life of its task: in its scratch folder, where it has one."""

    def __init__(self, folder: str, run: Run) -> None:
        name = f".tide-start-{run.rank}-{_nonce_of(f'{run.start} {os.path.realpath(folder)}')}"
        self._path = os.path.join(run.scratch, name) if run.scratch else ""
        record = _read(self._path) if self._path else None
        self.before = None if record is None else record["tokens"]

    def note(self, tokens: List[str]) -> None:
        if self._path:
            with contextlib.suppress(OSError), open(self._path, "wb") as out:
                out.write(_record(tokens=tokens))


class _Nap:
    """Looks again and again, ever more slowly: the ranks know one another by their files only."""

    def __init__(self, deadline: float, why: Callable[[], str]) -> None:
        self._deadline, self._why, self._length_s = deadline, why, _FIRST_NAP_S

    def take(self) -> None:
        if time.monotonic() >= self._deadline:
            raise CheckpointError(self._why())
        time.sleep(self._length_s)
        self._length_s = min(self._length_s * 2, _LONGEST_NAP_S)


def _nonce_of(name: str) -> str:
    return f"{zlib.crc32(name.encode()):08x}"


def _token_path(folder: str, rank: int) -> str:
    return os.path.join(folder, f"{_TOKEN}{rank:05d}")


def _text(start: Start, tokens: List[str]) -> bytes:
    return _record(**start._asdict(), tokens=tokens)


def _record(**values: Any) -> bytes:
    return json.dumps(values).encode()


def _read(path: str) -> Optional[Dict[str, Any]]:
    """A note or token, None while there is none. Files are put in place whole."""
    try:
        with open(path, "rb") as source:
            return dict(json.load(source))
    except (FileNotFoundError, ValueError):
        return None


def _start_of(note: Dict[str, Any]) -> Start:
    return Start(int(note["number"]), str(note["nonce"]), str(note["checkpoint"]), dict(note["generations"]))
