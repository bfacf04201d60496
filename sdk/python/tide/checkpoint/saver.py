"""This rank's end of its saver, the process that writes what was staged (sdk/native/saver.h)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import socket
import subprocess
import time
import weakref
from typing import Callable, Dict, List, NamedTuple, Optional, Protocol, Sequence, Set

from .._errors import CheckpointError, warn
from . import format as fmt
from ._native import Native
from .device import DeviceBytes
from .plan import Plan, Taken
from .staging import CALLED_OFF, Slot, Slots, slot_bytes
from .writer import Gathered, Identity, PartText, part_of

_PACKET_BYTES = 128 << 10


class Staged(NamedTuple):
    """A save that is under way. started: time.monotonic() seconds; bytes: of this rank's data file."""

    number: int
    identity: Identity
    slot: Slot
    bytes: int
    started: float


class Answer(NamedTuple):
    """How a save ended. error: None = committed; errno: 0 = no error of the system; bytes: of the whole checkpoint on rank 0, of this rank's file
    elsewhere; written_s: seconds until this rank's part was durable; total_s: until the commit was seen."""

    staged: Staged
    error: Optional[str]
    errno: int = 0
    bytes: int = 0
    written_s: float = 0.0
    total_s: float = 0.0


class SaverGone(CheckpointError):
    """The saver ended. What it had not finished is not committed, and will not be."""


class Saver:
    """Starts the process and talks to it. Used by the training thread."""

    def __init__(self, native: Native, locks: Sequence[str], for_life: bool, is_done: Callable[[], bool]) -> None:
        """locks: files that the saver locks while a save is under way. is_done: asked at the end whether all went well.

          for_life: they are locked until it ends, from before it is there: what it has not heard of yet counts, too.
          Errors: OSError.
        """
        self.slots = Slots(native)
        self._native = native
        self._known: Dict[int, Slot] = {}   # slots that the process has mapped
        self._staged: Dict[int, Staged] = {}  # not answered yet
        self._tidying: Set[int] = set()       # answered; old checkpoints may still be removed
        self._next = 1
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given = [theirs.fileno(), *(_locked(locks) if for_life else [])]
        try:
            self._process = subprocess.Popen(
                [native.saver or "", str(theirs.fileno()), *locks], pass_fds=given, stdin=subprocess.DEVNULL,
                start_new_session=True, close_fds=True)
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
            for lock in given[1:]:
                os.close(lock)
        weakref.finalize(self, _let_go, self._socket, self._process, is_done)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def busy(self) -> bool:
        """True while a save is under way, or what it made superfluous is being removed."""
        return bool(self._staged or self._tidying)

    def prepare(self, gathered: Gathered, wait: bool) -> None:
        """Makes the slots ready for saves of this size. wait: until they are, else in the background."""
        devices = [entry.data.device for entry in gathered.layout.entries if isinstance(entry.data, DeviceBytes)]
        self.slots.prepare(slot_bytes(gathered.layout.bytes, len(gathered.layout.header)), devices[0] if devices else None, wait)

    def stage(self, identity: Identity, source: "Source", order: "Order") -> "tuple[Optional[Staged], bool]":
        """Copies the state and hands it over: (the save, whether a slot was free or memory is missing).

        The state may change once this returns.   Errors: SaverGone, OSError.
        """
        file = fmt.free_name(identity.directory, identity.rank)
        ticket = _ticket(identity, file, source.part(identity, file), order)
        slot, is_free = self.slots.take(slot_bytes(source.nbytes, len(ticket)))
        if slot is None:
            return None, is_free
        try:
            source.fill(slot, ticket, self._native)
            if self._known.get(slot.index) is not slot:
                self._send(f"slot {slot.index} {slot.nbytes}", slot.fd)
                self._known[slot.index] = slot
            staged = Staged(self._next, identity, slot, source.nbytes, order.started)
            self._send(f"save {staged.number} {slot.index} {staged.bytes} {len(ticket)}")
        except BaseException:
            slot.busy = False
            raise
        self._next += 1
        self._staged[staged.number] = staged
        return staged, True

    def skip(self, identity: Identity) -> None:
        """Has the other ranks told that this one does not save this step. Errors: SaverGone."""
        self._send("skip 0\n" + _fields(_identity_fields(identity, "none")).decode())

    def introduce(self, identity: Identity) -> None:
        """Says where and as whom this rank will save, so that the saver can tell the others where it dies before. Errors:
        SaverGone."""
        self._send("start 0\n" + _fields(_identity_fields(identity, "none")).decode())

    def leave(self) -> None:
        """Says that this rank begins no save any more. Errors: SaverGone."""
        self._send("leave 0")

    def hurry(self, deadline: float) -> None:
        """Saves under way wait for other ranks no longer than this, time.monotonic() seconds. Errors: SaverGone."""
        self._send(f"hurry {int(deadline * 1e9)}")

    def poll(self, timeout_s: float = 0.0) -> List[Answer]:
        """Saves that have ended since the last look. timeout_s: waits so long for one. Errors: SaverGone."""
        answers: List[Answer] = []
        while self.busy:
            try:
                if not select.select([self._socket], [], [], timeout_s)[0]:
                    break
                packet = self._socket.recv(_PACKET_BYTES)
            except OSError as error:
                raise self._gone() from error
            if not packet:
                raise self._gone()
            answer = self._understand(packet.decode(errors="replace"))
            if answer is not None:
                answers.append(answer)
            timeout_s = 0.0
        return answers

    def wait(self, staged: Staged, deadline: float) -> "tuple[Optional[Answer], List[Answer]]":
        """(the answer for `staged`, answers for other saves). None: not by the deadline, time.monotonic() seconds.

          Errors: SaverGone.
        """
        others: List[Answer] = []
        while True:
            for answer in self.poll(max(0.0, deadline - time.monotonic())):
                if answer.staged is staged:
                    return answer, others
                others.append(answer)
            if staged.number not in self._staged or time.monotonic() >= deadline:
                return None, others

    def call_off(self, staged: Staged) -> bool:
        """Takes a save back that waits for the disk. False: this rank's part may be in its place already.

        Only for the end of a rank's patience: its slot stays busy until the saver has answered.
        """
        return self._native.settle(staged.slot.address, CALLED_OFF)

    def abandoned(self) -> List[Staged]:
        """After SaverGone: the saves that nobody will finish. Their slots are free again."""
        left, self._staged = list(self._staged.values()), {}
        self._tidying.clear()
        for staged in left:
            staged.slot.busy = False
        return left

    def _send(self, text: str, fd: Optional[int] = None) -> None:
        try:
            if fd is None:
                self._socket.send(text.encode())
            else:
                socket.send_fds(self._socket, [text.encode()], [fd])
        except OSError as error:
            raise self._gone() from error

    def _gone(self) -> SaverGone:
        self._socket.close()
        try:
            code = self._process.wait(timeout=1.0)
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            how = "its connection broke"
        return SaverGone(f"the saver of this rank has ended ({how})")

    def _understand(self, text: str) -> Optional[Answer]:
        word, number, *rest = text.split(" ", 2)
        self._tidying.discard(int(number))
        if word == "over":
            return None
        self._tidying.add(int(number))
        staged = self._staged.pop(int(number), None)
        if staged is None:
            return None
        staged.slot.busy = False
        if word != "done":
            code, _, why = rest[0].partition(" ")
            return Answer(staged, why, int(code))
        size, written_s, total_s = rest[0].split(" ")
        return Answer(staged, None, 0, int(size), float(written_s), float(total_s))


class Order(NamedTuple):
    """How a save is to be done. deadline: time.monotonic() seconds, for the other ranks; started: the same clock."""

    keep: int
    deadline: float
    started: float
    damaged: Sequence[str] = ()


# Savers that were let go and had not ended at once: they may outlive this process. A Popen that is forgotten while its process runs
# warns on stderr.
_left: "List[subprocess.Popen[bytes]]" = []


def _let_go(connection: socket.socket, process: "subprocess.Popen[bytes]", is_done: Callable[[], bool]) -> None:
    """Ends the connection. The process finishes what it has, and ends; an idle one at once."""
    if is_done():
        with contextlib.suppress(OSError):
            connection.send(b"leave 0")
    connection.close()
    try:
        process.wait(timeout=0.05)
    except subprocess.TimeoutExpired:
        _left[:] = [each for each in _left if each.poll() is None] + [process]


def _locked(paths: Sequence[str]) -> List[int]:
    """Descriptors that hold the locks. One that cannot be had is done without: the data is safe all the same."""
    held = []
    for path in paths:
        try:
            held.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
            fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
    return held


def start(native: Optional[Native], locks: Sequence[str], for_life: bool, is_done: Callable[[], bool]) -> Optional[Saver]:
    """A saver, or None where there is none to start: then saves are written by this process."""
    if native is None or native.saver is None or not hasattr(os, "memfd_create"):
        return None
    try:
        return Saver(native, locks, for_life, is_done)
    except OSError as error:
        warn(f"cannot start {native.saver}: {error.strerror}; checkpoints are written while training waits")
        return None


def _identity_fields(identity: Identity, file: str) -> "list[tuple[str, str]]":
    return [("folder", os.path.dirname(identity.directory)), ("directory", identity.directory),
            ("step", str(identity.step)), ("attempt", str(identity.attempt)), ("rank", str(identity.rank)),
            ("world", str(identity.world)), ("start", identity.start), ("file", file)]


class Source(Protocol):
    """What a save stores. nbytes: of the data file."""

    @property
    def nbytes(self) -> int: ...

    def part(self, identity: Identity, file: str) -> PartText:
        """The part of this rank, whose data goes to `file`."""

    def fill(self, slot: Slot, ticket: bytes, native: Native) -> None:
        """Copies everything into the slot."""


class Looked(NamedTuple):
    """What was looked at for this save alone."""

    gathered: Gathered

    @property
    def nbytes(self) -> int:
        return self.gathered.layout.bytes

    def part(self, identity: Identity, file: str) -> PartText:
        return part_of(identity, self.gathered, file)

    def fill(self, slot: Slot, ticket: bytes, native: Native) -> None:
        slot.fill(self.gathered.layout, ticket, native)


class Planned(NamedTuple):
    """What a plan says of this save."""

    plan: Plan
    taken: Taken

    @property
    def nbytes(self) -> int:
        return self.plan.nbytes

    def part(self, identity: Identity, file: str) -> PartText:
        return self.plan.part(identity, file, self.taken)

    def fill(self, slot: Slot, ticket: bytes, native: Native) -> None:
        slot.fill_planned(self.plan, self.taken, ticket, native)


def _ticket(identity: Identity, file: str, part: PartText, order: Order) -> bytes:
    fields: "list[tuple[str, str | bytes]]" = [*_identity_fields(identity, file)]
    fields += [("keep", str(max(1, order.keep))), ("deadline_ns", str(int(order.deadline * 1e9))),
               ("part_head", part.head), ("part_tail", part.tail), ("shared", part.shared), ("text", part.section.text),
               ("table", part.section.table), ("job", json.dumps(identity.job))]
    return _fields(fields + [("damaged", path) for path in order.damaged])


def _fields(fields: "Sequence[tuple[str, str | bytes]]") -> bytes:
    out = [b"tide-ticket/2\n"]
    for name, value in fields:
        data = os.fsencode(value)
        out.append(b"%s %d\n%s\n" % (name.encode(), len(data), data))
    return b"".join(out)
