"""The 4 KiB page shared by one rank and its agent (docs/rank-protocol.md section 1).

Every field has one writer, so no lock is needed between the processes. Fields are naturally aligned and read and
written through typed memoryviews: CPython copies one such item with a single machine load or store, never in halves.
One thread of the rank (the training thread) uses a page.
"""

from __future__ import annotations

import mmap
import os
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from ._errors import TideError

PAGE_BYTES = 4096
MAGIC = 0x45444954
VERSION = 1

ORDER_NONE, ORDER_SAVE, ORDER_SUSPEND, ORDER_STOP = 0, 1, 2, 3
STATE_IDLE, STATE_ARMED, STATE_COMMITTED = 0, 1, 2
(PHASE_DETACHED, PHASE_TRAINING, PHASE_WAITING, PHASE_SAVING, PHASE_SAVED, PHASE_EVALUATING, PHASE_DONE) = range(7)

BAD_NAN, BAD_INFINITE = 1, 2

# name -> (byte offset, memoryview code). The contract's table, and what the tests compare it with.
FIELDS = {
    "magic": (0, "I"), "version": (4, "I"), "seq": (8, "I"), "order": (12, "I"),
    "at_step": (16, "q"), "deadline": (24, "q"), "state": (32, "I"),
    "step": (64, "q"), "heartbeat": (72, "q"), "phase": (80, "I"), "pid": (84, "I"),
    "staged_step": (88, "q"), "saved_step": (96, "q"), "ack_seq": (104, "I"), "refused_seq": (108, "I"),
    "total_steps": (128, "q"), "loss": (136, "d"), "step_ns": (144, "q"),
    "failed_saves": (152, "I"), "save_errno": (156, "I"),
    "loss_step": (160, "q"), "bad_step": (168, "q"), "bad_kind": (176, "I"), "good_step": (184, "q"),
    "compute_ns": (192, "q"),
}
_SIZE = {"I": 4, "q": 8, "d": 8}
_STEP, _HEARTBEAT, _STEP_NS, _ORDER = (FIELDS[name][0] // _SIZE[FIELDS[name][1]]
                                       for name in ("step", "heartbeat", "step_ns", "order"))


class Order(NamedTuple):
    """What the agent asks for. deadline: Unix ns, 0 = none; at_step: fires at the first tick with step >= at_step."""

    seq: int
    order: int
    at_step: int
    state: int
    deadline: int


class Page:
    """Typed access to a page. `page.step = 7` stores, `page.at_step` loads; names are those of FIELDS."""

    if TYPE_CHECKING:  # properties made of FIELDS, below
        magic: int
        version: int
        seq: int
        order: int
        at_step: int
        deadline: int
        state: int
        step: int
        heartbeat: int
        phase: int
        pid: int
        staged_step: int
        saved_step: int
        ack_seq: int
        refused_seq: int
        total_steps: int
        loss: float
        step_ns: int
        failed_saves: int
        save_errno: int
        loss_step: int
        bad_step: int
        bad_kind: int
        good_step: int
        compute_ns: int
    else:
        __slots__ = ("_buffer", "_views", "_longs", "_words", "_lock")

    def __init__(self, buffer: "Union[mmap.mmap, bytearray]") -> None:
        """buffer: writable, at least 4096 bytes (a mmap or a bytearray)."""
        raw = memoryview(buffer)
        self._buffer = buffer
        self._views: Any = {code: raw.cast(code) for code in _SIZE}  # type: ignore[call-overload]
        self._longs, self._words = self._views["q"], self._views["I"]
        self._lock = threading.Lock()

    @classmethod
    def map(cls, path: str) -> "Page":
        """Maps the page that the agent made. Errors: TideError if it is absent, too small or of another version."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise TideError(f"cannot open the rank's page {path}: {error.strerror}; "
                            "unset TIDE_PAGE to run outside the platform") from error
        try:
            if os.fstat(fd).st_size < PAGE_BYTES:
                raise TideError(f"the rank's page {path} is shorter than {PAGE_BYTES} bytes; restart the task")
            page = cls(mmap.mmap(fd, PAGE_BYTES))
        finally:
            os.close(fd)
        if page.magic != MAGIC or page.version != VERSION:
            raise TideError(f"the rank's page {path} has magic {page.magic:#x} version {page.version}, this SDK "
                            f"speaks version {VERSION}; use the SDK that belongs to the node's agent")
        return page

    @classmethod
    def local(cls) -> "Page":
        """A private page with no agent behind it, for runs outside the platform."""
        page = cls(mmap.mmap(-1, PAGE_BYTES))
        page.magic, page.version = MAGIC, VERSION
        return page

    def fence(self) -> None:
        """Orders every earlier store before every later load (sequentially consistent).

        The standard library has no fence, but a lock does: taking it is an atomic read-modify-write, a full barrier
        on x86. On ARMv8 one pair is not enough (a store may sink into, and a load rise into, the critical section);
        with two pairs the first release and the second acquire are ordered by the architecture, and the store lies
        before the one, the load after the other. Without it a rank could load an old `at_step` before its own `step`
        is visible, while the agent misses that step, and two ranks would stop at different steps.
        """
        lock = self._lock
        with lock:
            pass
        with lock:
            pass

    def beat(self, step: int, now: int, step_ns: int) -> bool:
        """Publishes a finished step. True: there is an order.

          now: time.monotonic_ns(); step_ns: nanoseconds since the step before.
          Cost: what a program pays at each step, so nothing here goes through a property.
        """
        longs = self._longs
        longs[_STEP_NS] = step_ns
        longs[_HEARTBEAT] = now
        longs[_STEP] = step
        with self._lock:  # fence()
            pass
        with self._lock:
            pass
        return self._words[_ORDER] != ORDER_NONE

    def read_order(self) -> Order:
        """A consistent order.

        `seq` is stored last by the agent, so it is loaded first here: fields newer than their seq are harmless (the
        rank waits or goes on, and the agent sees its step), fields older than their seq could fire a new order early.
        """
        while True:
            seq = self.seq
            self.fence()
            order = Order(seq, self.order, self.at_step, self.state, self.deadline)
            self.fence()
            if self.seq == seq:
                return order


def _field(offset: int, code: str) -> property:
    index = offset // _SIZE[code]

    def load(page: Page) -> Any:
        return page._views[code][index]

    def store(page: Page, value: Any) -> None:
        page._views[code][index] = value

    return property(load, store)


for _name, (_offset, _code) in FIELDS.items():
    setattr(Page, _name, _field(_offset, _code))
