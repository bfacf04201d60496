"""A rank's view of its run: who it is, what the agent wants, and how it leaves."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from time import monotonic_ns
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from . import _page
from ._agreement import Verdict, settle
from ._errors import TideError, first_line, warn
from ._page import Order, Page
from ._request import Request
from ._socket import Reporter
from ._stacks import answer_requests
from ._state import State

EXIT_SUSPENDED = 85
_SECOND_NS = 1_000_000_000
_LOSS_EVERY_NS = 50_000_000
_ORDER_NAMES = {_page.ORDER_SAVE: "save", _page.ORDER_SUSPEND: "suspend", _page.ORDER_STOP: "stop"}


class Notice(NamedTuple):
    """What the agent asks for. at_step: first step count it applies to; deadline: Unix seconds, None = none;
    committed: all ranks agreed on at_step."""

    order: str
    at_step: int
    deadline: Optional[float]
    committed: bool


class Run:
    """One rank of one start of a job. Made by attach(); used by one thread."""

    def __init__(self, env: "os._Environ[str] | dict[str, str]") -> None:
        self.rank = _number(env, "RANK", 0)
        self.world_size = _number(env, "WORLD_SIZE", 1)
        self.local_rank = _number(env, "LOCAL_RANK", 0)
        self.local_world_size = _number(env, "LOCAL_WORLD_SIZE", 1)  # ranks on this node
        self.job = env.get("TIDE_JOB_ID", "")
        self.attempt: Optional[int] = _number(env, "TIDE_ATTEMPT", 0) if env.get("TIDE_ATTEMPT") else None
        # Names this start among all others, "" = nobody has named it. Launchers restart ranks within one.
        self.start = f"{env['TIDE_START']}:{env.get('TORCHELASTIC_RESTART_COUNT', '0')}" if env.get("TIDE_START") else ""
        self.scratch = env.get("TMPDIR", "") if env.get("TIDE_PAGE") else ""  # of this task alone, "" = none
        self.checkpoint_dir = env.get("TIDE_CHECKPOINT_DIR") or "checkpoints"
        self.recorded_step = _number(env, "TIDE_CHECKPOINT_STEP", 0)  # of the job's newest checkpoint; 0 = none known
        # Of the checkpoint that this job was told to go back to, None = the newest
        self.resume_step: Optional[int] = _number(env, "TIDE_RESUME_STEP", 0) if env.get("TIDE_RESUME_STEP") else None
        # Only checkpoints below this step are good, 0 = all: later ones were saved when the loss was none any more
        self.resume_before = _number(env, "TIDE_RESUME_BEFORE", 0)
        self.refused = 0       # the order that this rank could not carry out
        self.has_main = False  # there is a Checkpoint of checkpoint_dir
        self.page_path = env.get("TIDE_PAGE") or ""
        self.in_platform = bool(self.page_path)
        self.state = State(self.checkpoint_dir)  # a small key/value that outlives restarts
        self._rehearse_at: Optional[int] = None
        if self.in_platform:
            self.page = Page.map(self.page_path)
        else:
            self.page = Page.local()
            if env.get("TIDE_REHEARSE_SUSPEND"):
                self._rehearse_at = _number(env, "TIDE_REHEARSE_SUSPEND", 0)
        self.users: Dict[str, Any] = {}  # weak references: folder, or what there is one of -> the Checkpoint that has it
        self.reporter = Reporter(env.get("TIDE_SOCKET"), self.rank)
        self._last_tick_ns = 0
        self._hooks: List[Callable[[], object]] = []
        self._loss: Any = None     # the last one, while it is not published
        self._loss_step = 0        # its step
        self._loss_due_ns = 0
        self.total: Optional[int] = None
        self._attach_page()
        self._rehearse()

    def notice(self) -> Optional[Notice]:
        """What the agent asks for now, or None. Looks only; tick() is what agrees and acts."""
        order = self.page.read_order()
        if order.order not in _ORDER_NAMES or order.seq == self.page.ack_seq:
            return None
        return Notice(_ORDER_NAMES[order.order], order.at_step,
                      order.deadline / _SECOND_NS if order.deadline else None,
                      order.state == _page.STATE_COMMITTED)

    def progress(self, step: int, total: Optional[int] = None, **metrics: float) -> None:
        """Reports `step` finished steps of `total`, and numbers to show beside them."""
        if total is not None:
            self.page.total_steps = total
        self.reporter.send("progress", step=step, total=-1 if total is None else total,
                           metrics={name: float(value) for name, value in metrics.items()})

    def suspended(self, checkpoint_id: str, step: Optional[int] = None) -> None:
        """Acknowledges a suspension: `checkpoint_id` is committed, at `step` (default: that of the last tick)."""
        self._publish_last()
        page = self.page
        step = page.step if step is None else step
        page.saved_step = step
        page.failed_saves = 0
        page.ack_seq = page.seq
        page.phase = _page.PHASE_SAVED
        page.fence()
        self.reporter.send("suspended", await_reply=True, step=step, checkpoint=checkpoint_id)

    def at_exit(self, call: Callable[[], object]) -> None:
        """Has exit() and done() call this before they end, the last one first: to close a log, say. What it raises is printed."""
        self._hooks.append(call)

    def exit(self, code: int = EXIT_SUSPENDED) -> None:
        """Leaves at once with `code`, after what at_exit() was given and after flushing. Does not return.

        os._exit, because a normal exit would run destructors of communication libraries whose peers are leaving too:
        they wait, or complain.
        """
        self._publish_last()
        self._call_hooks()
        self._flush()
        self.reporter.close()
        os._exit(code)

    def done(self) -> None:
        """Says that training is complete. The process then ends normally, with exit code 0."""
        self._publish_last()
        self._call_hooks()
        self.page.phase = _page.PHASE_DONE
        self.reporter.send("done", await_reply=True, step=self.page.step)
        self.reporter.close()
        self._flush()

    def is_done(self) -> bool:
        """True once done() was called."""
        return self.page.phase == _page.PHASE_DONE

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Marks a stretch without ticks as evaluation, so that it is not taken for a hang."""
        self.page.phase = _page.PHASE_EVALUATING
        try:
            yield
        finally:
            self.restart_step_clock()  # first: the long silence is never seen beside the phase of training
            self.page.phase = _page.PHASE_TRAINING

    def request(self, step: int, loss: Any = None, total: Optional[int] = None, safe: bool = True) -> Optional[Request]:
        """Publishes `step` finished steps. Returns what all ranks are asked to do now, None mostly. Checkpoint.tick does this
        and answers; a program that writes its checkpoints itself calls this instead, on every rank after each step.

          safe: False where state cannot be saved (inside gradient accumulation): publishes only.
          Cost: half a microsecond while nothing is asked. May wait for other ranks, at most 10 s, to agree on the step.
        """
        if total is not None and total != self.total:
            self.show_total(total)
        if not (self.beat(step, loss) and safe):
            return None
        verdict, order = self.decide(step)
        if verdict is Verdict.GO or order is None or (verdict is Verdict.FIRE and order.seq == self.refused):
            return None
        if verdict is Verdict.FIRE:
            self.page.phase = _page.PHASE_SAVING
        deadline = order.deadline / _SECOND_NS if order.deadline else None
        return Request(self, _ORDER_NAMES[order.order], step, deadline, order.seq)

    def saved(self, step: int, checkpoint: str = "") -> None:
        """Reports a checkpoint of `step` that the program has written itself and that is durable. To be called by all ranks.

          checkpoint: a name, for people.
        """
        page = self.page
        page.saved_step = max(step, page.saved_step)
        page.failed_saves = 0
        self.reporter.send("saved", step=step, checkpoint=checkpoint, bytes=0, seconds=0.0)

    def beat(self, step: int, loss: Any = None) -> bool:
        """Publishes `step` finished steps, and a loss now and then: NaN and infinity, too. True: there is an order, which decide() is for."""
        now = monotonic_ns()
        if loss is not None:
            # Reading a number out of a tensor costs more than all the rest, and people look once a second.
            # The first number that is none counts, and is seen in a float for nothing.
            if now >= self._loss_due_ns or type(loss) is float and loss - loss != 0.0:
                self._publish_loss(loss, step, now)
            else:
                self._loss, self._loss_step = loss, step  # published at the end, if it is the last
        step_ns = now - self._last_tick_ns
        self._last_tick_ns = now
        return self.page.beat(step, now, step_ns)

    def compute_time(self, seconds: float) -> None:
        """Says how long this rank computed in the step until it had to wait for others: before its first collective. To be called
        before the tick of that step, by all ranks or none. Who is slow is found by it: the steps of all ranks take equally long."""
        self.page.compute_ns = int(seconds * _SECOND_NS)

    def decide(self, step: int) -> "tuple[Verdict, Optional[Order]]":
        """Agrees with the other ranks on what to do after `step`, which may take the wait for them."""
        answer = settle(self.page, step)
        self.restart_step_clock()
        return answer

    def show_total(self, total: int) -> None:
        """Publishes how many steps there will be."""
        self.total = total
        self.page.total_steps = total

    def restart_step_clock(self) -> None:
        """Leaves the time since the last tick (a save, an evaluation) out of the next step's duration, and ends its silence."""
        self._last_tick_ns = self.page.heartbeat = monotonic_ns()

    def resumed(self, step: int, allow_restart: bool = False) -> None:
        """Notes the step a checkpoint was loaded at, 0 = none was found. A rehearsed suspension at or below it is over.

          Errors: TideError where the job has saved a later step (recorded_step) and nobody asked to go back (resume_step),
          unless allow_restart: a file system that is not mounted looks like a job that never saved.
        """
        if not (allow_restart or self.resume_before) and self.resume_step is None and step < self.recorded_step:
            raise TideError(f"this job has saved step {self.recorded_step}, and resumes at {step}; is the file system mounted? To "
                            "lose what is gone use allow_restart=True, or submit the job anew")
        self.page.saved_step = step if step else -1
        if self._rehearse_at is not None and step >= self._rehearse_at:
            self.page.order = _page.ORDER_NONE

    def _attach_page(self) -> None:
        page = self.page
        page.pid = os.getpid()
        page.step = page.staged_step = page.saved_step = page.total_steps = -1
        page.loss = math.nan
        page.loss_step = page.bad_step = page.good_step = page.compute_ns = 0
        page.heartbeat = monotonic_ns()
        page.fence()
        page.phase = _page.PHASE_TRAINING

    def _rehearse(self) -> None:
        """Plays the agent on the private page: one suspension, already agreed on."""
        if self._rehearse_at is None:
            return
        page = self.page
        page.at_step = self._rehearse_at
        page.state = _page.STATE_COMMITTED
        page.order = _page.ORDER_SUSPEND
        page.seq = 1

    def _publish_loss(self, loss: Any, step: int, now: int) -> None:
        # Reading a number off a device waits for the device.
        is_far = getattr(getattr(loss, "device", None), "type", "cpu") != "cpu"
        self._loss, self._loss_due_ns = None, now + (_SECOND_NS if is_far else _LOSS_EVERY_NS)
        page = self.page
        try:
            value = float(loss)
        except Exception:  # whatever the library raises: it is for people to look at only
            page.loss = math.nan
            return
        page.loss = value
        if math.isfinite(value):
            page.loss_step = step
        elif not page.bad_step:
            page.good_step = page.loss_step
            page.bad_kind = _page.BAD_NAN if math.isnan(value) else _page.BAD_INFINITE
            page.bad_step = step  # last: it says that the others are there

    def _publish_last(self) -> None:
        if self._loss is not None:
            self._publish_loss(self._loss, self._loss_step, monotonic_ns())

    def _call_hooks(self) -> None:
        while self._hooks:
            try:
                self._hooks.pop()()
            except BaseException as error:  # SystemExit, too: the rank leaves all the same, with its own code
                warn(f"what was to be done at exit failed: {type(error).__name__}: {first_line(error)}")

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass


_current: Optional[Run] = None


def attach() -> Run:
    """The run of this process, from its environment; a local stand-in outside the platform.

    Every call gives the same object.   Errors: TideError for a page that cannot be mapped or a malformed variable.
    """
    global _current
    if _current is None:
        _current = Run(os.environ)
        _current.reporter.hello()
        answer_requests()
    return _current


def _number(env: "os._Environ[str] | dict[str, str]", name: str, default: int) -> int:
    text = env.get(name, "")
    try:
        return int(text) if text else default
    except ValueError:
        raise TideError(f"{name}={text!r} is not a whole number; correct or unset it") from None
