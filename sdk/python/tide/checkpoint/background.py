"""Saves that go on while training does: staged here, written by the saver."""

from __future__ import annotations

import contextlib
import enum
import time
from typing import Callable, List, NamedTuple, Optional, Sequence

from .._errors import CheckpointError, warn
from . import _native, saver, writer
from .plan import Changed, Plan, States
from .saver import Answer, Looked, Order, Planned, Saver, SaverGone, Staged
from .writer import Gathered, Groups, Identity

# The saver knows how a save ended this long after rank 0's grace.
_ANSWER_S = 5.0
_PLANS_MOST = 4


class Handed(enum.Enum):
    OVER = "over"        # to the saver; committed, if that was waited for
    SKIPPED = "skipped"  # all slots are still being written
    NOT = "not"          # no saver, or no memory: the caller writes


class Sink(NamedTuple):
    """Who is told how saves end that nobody waits for, during any call of Background."""

    committed: "Callable[[Answer], None]"
    failed: "Callable[[Identity, CheckpointError], None]"  # the saver is done with it
    lost: "Callable[[Identity, str], None]"    # the saver ended: what lies there is the caller's to take back


class Background:
    """The saves of one rank that are under way. Used by the training thread."""

    def __init__(self, locks: Sequence[str], sink: Sink, for_life: bool, is_done: Callable[[], bool]) -> None:
        """locks, for_life, is_done: as Saver has them."""
        self._locks, self._for_life, self._sink, self._is_done = locks, for_life, sink, is_done
        self._saver: Optional[Saver] = None
        self._tried = False
        self._plan: Optional[Plan] = None
        self._plans_left = _PLANS_MOST

    @property
    def busy(self) -> bool:
        """True while a save is under way."""
        return self._saver is not None and self._saver.busy

    @property
    def saver_pid(self) -> Optional[int]:
        return None if self._saver is None else self._saver.pid

    def prepare(self, rank: int, world: int, groups: Groups, wait: bool) -> None:
        """Makes memory ready for saves of this size. wait: until it is, else while training goes on. Errors: CheckpointError,
        also where nothing is made ready: for what no save could store."""
        ours, states = self._started(), writer.fetch(rank, groups)
        if ours is None:
            writer.gather(rank, world, groups, states)
        else:
            ours.prepare(self._gather(rank, world, groups, states), wait)

    def introduce(self, identity: Identity) -> None:
        """Says where and as whom this rank will save. identity: of any save."""
        if self._saver is not None:
            with contextlib.suppress(SaverGone):
                self._saver.introduce(identity)

    def leave(self) -> None:
        """Says that this rank saves no more: it is leaving, with all that it has to save saved."""
        if self._saver is not None:
            with contextlib.suppress(SaverGone):
                self._saver.leave()

    def hand_over(self, identity: Identity, groups: Groups, order: Order, wait: bool) -> Handed:
        """Stages the state, which may change once this returns.

          wait: for a free slot, and then until the save is over.
          Errors: CheckpointError, where it is waited for and fails or is not over in time; OSError.
        """
        ours = self._started()
        if ours is None:
            return Handed.NOT
        try:
            staged, is_free = self._stage(ours, identity, self._source(identity, groups), order, wait)
            if staged is None and not is_free:
                ours.skip(identity)
                return Handed.SKIPPED
            if staged is None:
                return Handed.NOT
            if wait:
                self._await(ours, staged, order.deadline)
            return Handed.OVER
        except SaverGone as error:
            self._lose(ours, error, identity)
            return Handed.NOT

    def look(self, timeout_s: float = 0.0) -> None:
        """Tells the sink what has ended. timeout_s: waits so long for something."""
        ours = self._saver
        if ours is None:
            return
        try:
            self._tell(ours.poll(timeout_s))
        except SaverGone as error:
            self._lose(ours, error, None)

    def flush(self, timeout_s: float) -> bool:
        """Waits until no save is under way. False: one is, timeout_s seconds later."""
        deadline = time.monotonic() + timeout_s
        while self.busy and time.monotonic() < deadline:
            self.look(max(0.0, deadline - time.monotonic()))
        return not self.busy

    def _started(self) -> Optional[Saver]:
        if self._saver is None and not self._tried:
            self._tried = True
            self._saver = saver.start(_native.find(), self._locks, self._for_life, self._is_done)
        return self._saver

    def _source(self, identity: Identity, groups: Groups) -> "Looked | Planned":
        """Looks at the state by the plan, where it is what the plan was made for. Makes another plan where not, but for a state that
        changes again and again."""
        states = writer.fetch(identity.rank, groups)
        if self._plan is not None:
            try:
                return Planned(self._plan, self._plan.take(states))
            except Changed:
                self._plan = None
        return Looked(self._gather(identity.rank, identity.world, groups, states))

    def _gather(self, rank: int, world: int, groups: Groups, states: States) -> Gathered:
        gathered = writer.gather(rank, world, groups, states)
        if self._plan is None and self._plans_left > 0:
            self._plans_left -= 1
            self._plan = Plan.make(rank, world, groups, gathered, states)
        return gathered

    def _stage(self, ours: Saver, identity: Identity, source: "Looked | Planned", order: Order,
               wait: bool) -> "tuple[Optional[Staged], bool]":
        staged, is_free = ours.stage(identity, source, order)
        if staged is None and not is_free and wait:
            # Ranks that were told of a suspension before an earlier save's step leave that save out: its parts never come.
            now = time.monotonic()
            ours.hurry(now + max(0.0, order.deadline - now) / 4)
        while staged is None and not is_free and wait:
            if time.monotonic() >= order.deadline:
                raise CheckpointError(f"{identity.directory}: earlier saves are still being written; the file system is "
                                      "slow or hangs")
            self._tell(ours.poll(max(0.0, order.deadline - time.monotonic())))
            staged, is_free = ours.stage(identity, source, order)
        return staged, is_free

    def _await(self, ours: Saver, staged: Staged, deadline: float) -> None:
        answer = self._answer(ours, staged, deadline)
        # At its end the saver settles it with the other ranks; only one that hangs at its own disk does not.
        if answer is None and not ours.call_off(staged):
            answer = self._answer(ours, staged, time.monotonic() + writer.DECIDED_GRACE_S + _ANSWER_S)
        if answer is None:
            raise CheckpointError(f"{staged.identity.directory}: not written in time; the file system is slow or hangs")
        if answer.error is not None:
            raise _error_of(answer)
        self._sink.committed(answer)

    def _answer(self, ours: Saver, staged: Staged, deadline: float) -> Optional[Answer]:
        answer, others = ours.wait(staged, deadline)
        self._tell(others)
        return answer

    def _tell(self, answers: List[Answer]) -> None:
        for answer in answers:
            if answer.error is None:
                self._sink.committed(answer)
            else:
                self._sink.failed(answer.staged.identity, _error_of(answer))

    def _lose(self, ours: Saver, error: SaverGone, again: Optional[Identity]) -> None:
        """Gives up what the saver had, except `again`, which the caller writes. The next save starts another saver."""
        lost, self._saver, self._tried = ours.abandoned(), None, False
        warn(str(error))
        for staged in lost:
            if staged.identity != again:
                self._sink.lost(staged.identity, str(error))


def _error_of(answer: Answer) -> CheckpointError:
    return CheckpointError(answer.error or "", answer.errno)
