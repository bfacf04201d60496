"""The one object a training program holds: resume, tick, save."""

from __future__ import annotations

import gc
import math
import operator
import os
import time
import weakref
import zlib
from typing import Any, Callable, Mapping, Optional, Set, Tuple

from .. import _page
from .._agreement import Verdict
from .._errors import CheckpointError, DamagedError, first_line, warn
from .._run import Run, attach
from .._sampler import Sampler
from . import format as fmt
from . import _native, lease, store, writer
from .background import Background, Handed, Sink
from .reader import Reader
from .retention import Retention
from .saver import Answer, Order
from .saving import Saving
from .start import Start, agree
from .state import boxes_wanted, check, is_empty, restore, restore_what_fits
from .writer import Groups, Identity

SAVE_TIMEOUT_S = 120.0
# A suspension whose deadline is near or past is still tried for this long.
LEAST_PATIENCE_S = 1.0
_LOOK_FOR_COMMIT_S = 1.0
_SHARED_MEMORY = "/dev/shm"
_FIRST_NAP_S, _LONGEST_NAP_S = 0.0005, 0.02
_LEFT_SHOWN = 20
# Saves that nobody waits for may take so many times timeout_s: a slow disk alone is no reason to give one up.
_PATIENCE_IN_PASSING = 5
# The optimizer's state is there after the first step.
_PREPARE_AT_TICK = 2


class Checkpoint:
    """Saves and restores a program's objects in one folder. Used by the training thread of each rank.

      dir: folder shared by all ranks; made if absent.
      replicated: objects equal on all ranks; stored once, each rank writes its share.
      local: objects of each rank.   global_: small objects equal on all ranks; rank 0 stores them.
      sharded: objects with the same names on all ranks, in which tide.Shard stands for the box of a global tensor that
        this rank holds; each rank stores its own. The rest of them is as in replicated. They load at any world size.
      compare: each save compares the tensors under replicated= of all ranks, but for buffers, and fails naming the first
        that differs. It costs reading them once more, and copying those on a GPU.
      every: steps between periodic saves, 0 = none.   keep: committed checkpoints that stay, at least 1.
      keep_hours: of every so many hours one stays, beside those; 0 = none. keep_best() and people's pins add to them.
      timeout_s: seconds a rank waits for the others in one save.
    With the native core a save stops training while this rank's share is copied; a process beside it, the saver, writes
    it, also when the rank is killed meanwhile. Without it, training waits until this rank's part is on the disk.
    Invariants: a committed folder is never written to again; nothing is removed before a newer commit.
    """

    def __init__(self, dir: str, replicated: Optional[Mapping[str, Any]] = None,
                 local: Optional[Mapping[str, Any]] = None, global_: Optional[Mapping[str, Any]] = None,
                 every: int = 0, keep: int = 3, timeout_s: float = SAVE_TIMEOUT_S, run: Optional[Run] = None,
                 sharded: Optional[Mapping[str, Any]] = None, compare: bool = False, keep_hours: float = 0) -> None:
        _require_whole("every", every, 0)
        _require_whole("keep", keep, 1)
        self._run = attach() if run is None else run
        self.dir = _folder(dir)
        # Only what the job's own folder holds is on record; a second Checkpoint elsewhere is the program's business.
        self._is_main = self.dir == os.path.abspath(self._run.checkpoint_dir)
        self._run.has_main = self._run.has_main or self._is_main
        self._groups = Groups(_objects("replicated", replicated), _objects("local", local), _objects("global_", global_),
                              _objects("sharded", sharded), compare)
        twice = sorted(self._groups.replicated.keys() & self._groups.sharded.keys())
        if twice:
            raise CheckpointError(f"{', '.join(twice)} is given under replicated= and under sharded=; use another name in one")
        self._samplers = [item for item in self._groups.global_.values() if isinstance(item, Sampler)]
        self._retention = Retention(self.dir, keep_hours)
        self._every, self._keep, self._timeout_s = every, keep, timeout_s
        self.saves = 0          # checkpoints this rank staged, or wrote its part of
        self.failed_saves = 0   # of tick(); training went on
        self.skipped_saves = 0  # of tick(): earlier ones were still being written
        self._damaged: Set[str] = set()
        self._damaged_step = 0  # the highest of them
        self._resumed: Optional[Tuple[int, str]] = None    # step and id, until a save
        self._begun = (-1, 0)                              # step of the last save, how often it was begun
        self._savings: "weakref.WeakValueDictionary[str, Saving]" = weakref.WeakValueDictionary()  # by folder
        self._uncommitted: Optional[Identity] = None       # written by this rank, not known to be committed
        self._due = False                                  # a periodic save waits for a safe step
        self._due_for = 0                                  # the last step that made one due
        self._looked_at = 0.0
        self._strict = True                                # resume() restores all or nothing
        self._has_warned = False                           # of old checkpoints that stay
        self._given_up_seq = 0
        self._given_up: Optional[Identity] = None          # a suspension's checkpoint that this rank did not see in time
        self._ticked_step: Optional[int] = None
        self._ticks = 0
        self._attentive = True                             # the next tick has more to do than to publish its step
        # An agent asks for the lock once the rank is gone; a start without one asks whose lock it is, too.
        self._background = Background([self._lock_path()], Sink(self._on_committed, self._on_failed, self._on_lost),
                                      self._run.in_platform, self._run.is_done)
        self._start: Optional[Start] = None                # agreed on by resume(), or by the first save without it

    def resume(self, allow_restart: bool = False, step: Optional[int] = None, strict: bool = True) -> int:
        """Restores the newest whole checkpoint. Returns its step, 0 if there is none. To be called by all ranks.

        Every rank checks every byte. A damaged one is named on stderr and the one before it used. What rank 0 has
        restored counts: no rank trains on from another step.
          allow_restart: start at 0, or below the step that the platform has on record, where no checkpoint is left. Else
          that is an error: a folder that is not mounted looks like a job that never saved.
          step: the newest whole checkpoint of this step; 0 restores nothing. Default: what `tide resume --step` asked for.
          What is saved from there on is newer than all that lies ahead.
          strict: False: objects and tensors that are new, or have another shape or type, stay as the program made them, and are
          named on stderr by rank 0; stored objects that the program does not give are passed over. Not for sharded=.
          Errors: CheckpointError for that, for objects that hold what cannot be stored or do not fit, a newer format, an
          unreadable disk, ranks that do not come or cannot read what rank 0 has restored.
        """
        if step is not None:
            step = _step(step)
        self._strict = strict
        for objects in self._groups.objects:
            check(objects)  # what no save could store is found now, not after a day
        store.prepare(self.dir)
        if not self._run.in_platform:
            store.await_orphans(self.dir, time.monotonic() + store.ORPHANS_END_S)
        try:
            is_writable = os.access(self.dir, os.W_OK)
            if is_writable:
                self._take_lease()
            wanted = self._run.resume_step if step is None and self._is_main else step
            below = self._run.resume_before if wanted is None and self._is_main else 0
            step, name = self._restore_newest(wanted, below)
            if wanted is None and not (below or allow_restart):
                self._require_recorded(step)
            # Where nothing can be written, no start saves: the ranks only look.
            if is_writable:
                self._start = self._agree(name)
                if self._start.checkpoint != name:
                    step = self._restore_told(self._start.checkpoint, name)
        except OSError as error:
            raise CheckpointError(f"cannot read the checkpoints in {self.dir}: {error.strerror} "
                                  f"({error.filename or 'no name'}); repair the file system or give another dir=") from error
        self._ticked_step = step
        if name and is_writable:
            self._note_hours(name)  # its start may have ended before it did
        if step and self._is_on_record:
            self._run.resumed(step, allow_restart=True)  # it is allowed, or was checked
        return step

    @property
    def restored(self) -> "Optional[Tuple[int, str]]":
        """Step and name of the checkpoint that resume() has restored. None: of none, or one has been saved since."""
        return self._resumed

    def tick(self, step: int, loss: Any = None, total: Optional[int] = None, safe: bool = True) -> bool:
        """To be called by all ranks after each step. True: leave now, with run.exit().

          step: finished steps.   loss, total: shown to people.   safe: False where state cannot be saved.
        Saves where it is time; a failed save is named on stderr, counted, and training goes on.
          Errors: CheckpointError for a step that is no number of steps, and where two Checkpoints tick in one program.
        """
        if type(step) is not int or step < 0:
            step = _step(step)
        last, self._ticked_step = self._ticked_step, step
        if self._samplers:
            self._advance_samplers(1 if last is None else step - last)
        run = self._run
        if total is not None and total != run.total:
            run.show_total(total)
        is_ordered = run.beat(step, loss)
        if not (is_ordered or self._attentive or self._every and step % self._every == 0):
            return False
        leave = self._act(step, safe, is_ordered)
        if leave:
            self._background.leave()
        self._attentive = bool(self._background.busy or self._due or self._uncommitted or self._given_up or
                               self._ticks < _PREPARE_AT_TICK)
        return leave

    def _act(self, step: int, safe: bool, is_ordered: bool) -> bool:
        """A tick at which there is something to do."""
        if self._ticks == 0:
            self._claim("tick")
        if self._background.busy:
            self._background.look()
        verdict, order = self._run.decide(step) if is_ordered and safe else (Verdict.GO, None)
        if verdict is Verdict.STOP:
            return True
        if self._given_up is not None and self._others_left(self._given_up):
            return True
        # Once for a step: its ticks with safe=False do not order again what is saved.
        if self._every and step > 0 and step % self._every == 0 and step != self._due_for:
            self._due, self._due_for = True, step
        if order is not None and verdict is Verdict.FIRE and order.seq != self._given_up_seq:
            if order.order == _page.ORDER_SUSPEND:
                return self._suspend(step, order)
            self._save_in_passing(step)
            self._run.page.ack_seq = order.seq
        elif safe and self._due:
            self._save_in_passing(step)
        if self._uncommitted is not None:
            self._look_for_commit(self._uncommitted)
        self._ticks += 1
        if self._ticks == _PREPARE_AT_TICK and (self._every or self._run.in_platform):
            self._prepare()
        return False

    def prepare(self) -> None:
        """Makes memory ready for the saves to come, so that the first one stops training as briefly as the others. Returns when
        it is there. To be called when the state has its full size, as after the first step; tick() does it in the background after
        the second one. With the native core it takes twice the memory of this rank's share of the state.

          Errors: CheckpointError for what no save could store.
        """
        try:
            self._make_ready(wait=True)
        except (OSError, RuntimeError) as error:
            if isinstance(error, CheckpointError):
                raise
            warn(f"memory for saves is not ready: {first_line(error)}")

    def save(self, step: int, wait: bool = True) -> Saving:
        """Saves at `step` on all ranks. Returns the checkpoint's id.

          wait: return when the checkpoint is committed. False: return as soon as the state may change; tick(), flush() and
          committed() of what is returned notice what becomes of it.
          Errors: CheckpointError; earlier checkpoints are as they were.
        """
        step = _step(step)
        patience_s = self._timeout_s * (1 if wait else _PATIENCE_IN_PASSING)
        return self._save(step, wait, time.monotonic() + patience_s)

    def keep_best(self, saving: str, value: float, count: int = 1, lowest: bool = True) -> None:
        """Keeps a checkpoint while it is one of the `count` best of those that were given here, in all starts of the job.

          saving: what save() returned.   value: such as a validation loss.   lowest: False: the highest is the best.
        Of the ranks only rank 0 does anything. It is one more than `keep` says, until it is beaten.   Errors: CheckpointError.
        """
        if self._run.rank == 0:
            try:
                self._retention.best(saving, value, count, lowest)
            except OSError as error:
                raise CheckpointError(f"cannot keep {saving}: {error.strerror}", error.errno or 0) from error

    def flush(self, timeout_s: Optional[float] = None) -> bool:
        """Waits until no save of this rank is under way. False: one still is, timeout_s seconds later.

          timeout_s: default: as long as any save may take. Those that fail are named on stderr and counted.
        """
        longest_s = self._timeout_s * _PATIENCE_IN_PASSING + 2 * writer.DECIDED_GRACE_S
        return self._background.flush(longest_s if timeout_s is None else timeout_s)

    def _save(self, step: int, wait: bool, deadline: float, hurry: Callable[[], float] = lambda: math.inf) -> Saving:
        """deadline, hurry: time.monotonic() seconds; hurry is asked while rank 0 waits for the others."""
        started = time.monotonic()
        self._attentive = True
        self._due = False
        page, before = self._run.page, self._run.page.phase
        page.phase = _page.PHASE_SAVING
        try:
            identity = self._begin(step)
            order = Order(self._keep, deadline, started, sorted(self._damaged))
            saving = Saving.begin(os.path.basename(identity.directory), self._look_for)
            self._savings[identity.directory] = saving
            self._carry_out(identity, wait, order, hurry)
            return saving
        finally:
            self._run.restart_step_clock()  # first: the long silence is never seen beside the phase of training
            page.phase = before

    def _carry_out(self, identity: Identity, wait: bool, order: Order, hurry: Callable[[], float]) -> None:
        try:
            handed = self._background.hand_over(identity, self._groups, order, wait)
            if handed is Handed.OVER:
                self._note_staged(identity)
            elif handed is Handed.SKIPPED:
                self._note_skipped(identity.step)
                self._settle(identity, CheckpointError(f"step {identity.step} was not saved: earlier saves were still being written"))
            else:
                self._save_here(identity, wait, order, hurry)
        except OSError as error:
            self._fail(identity)
            raise _cannot_save(identity.step, identity.directory, error) from error
        except writer.RemovedError:
            self._uncommitted = None
            raise
        except CheckpointError:
            self._fail(identity)
            raise
        except Exception as error:  # whatever the program's objects raise
            self._fail(identity)
            raise CheckpointError(f"cannot save step {identity.step}: {type(error).__name__}: {first_line(error)}") from error

    def _save_here(self, identity: Identity, wait: bool, order: Order, hurry: Callable[[], float]) -> None:
        """Writes in this thread: there is no saver, or it has ended; what it had committed by then is as good."""
        known = writer.committed_bytes(identity.directory)
        if known is not None:
            self._note_staged(identity)
            self._note_committed(identity, known if identity.rank == 0 else 0, order.started)
            return
        writer.write_part(identity, self._groups)
        self._note_staged(identity)
        self._uncommitted = identity
        if identity.rank == 0:
            size = writer.commit(identity, order.deadline, hurry)
            self._note_committed(identity, size, order.started)
            if not self._background.busy:  # what the saver is still at is no leftover
                self._collect_garbage(identity)
        elif wait:
            writer.await_commit(identity, order.deadline)
            self._note_committed(identity, 0, order.started)

    def _suspend(self, step: int, order: _page.Order) -> bool:
        deadline = time.monotonic() + max(LEAST_PATIENCE_S, self._notice_s(order))
        try:
            if self._resumed is not None and self._resumed[0] == step:
                checkpoint_id = self._resumed[1]  # no step was taken since
            else:
                checkpoint_id = self._save(step, True, deadline)
        except CheckpointError as error:
            # Every rank reaches this verdict: a part that is gone lets no manifest appear. Trying again at a later
            # step could let one rank leave while another trains, so the order is left to its deadline.
            self._note_failed(error)
            self._given_up_seq = order.seq
            self._given_up = self._identity(step) if self._start is not None else None
            warn(f"not suspended at step {step}: {error}; training goes on until the deadline, then the run returns "
                 f"to its last committed checkpoint")
            return False
        self._run.suspended(checkpoint_id, step)
        return True

    def _others_left(self, given_up: Identity) -> bool:
        """True where a suspension that this rank gave up has been committed after all: the other ranks are gone.

        It takes a rank 0 that took this rank's part and then stood still for longer than the grace.
        """
        if not _is_committed(given_up):
            return False
        self._run.suspended(os.path.basename(given_up.directory), given_up.step)
        return True

    def _save_in_passing(self, step: int) -> None:
        try:
            deadline = time.monotonic() + self._timeout_s * _PATIENCE_IN_PASSING
            self._save(step, False, deadline, self._until_suspended())
        except CheckpointError as error:
            self._note_failed(error)
            warn(f"save {self.failed_saves} failed, training goes on: {error}")

    def _until_suspended(self) -> Callable[[], float]:
        """Ends a save in passing a quarter into the notice of a suspension that comes up.

        Ranks that were below the save's step when it came up leave that save out, and their parts never come.
        """
        until = math.inf

        def hurry() -> float:
            nonlocal until
            if until == math.inf and self._run.page.order == _page.ORDER_SUSPEND:
                until = time.monotonic() + max(LEAST_PATIENCE_S, self._notice_s(self._run.page.read_order()) / 4)
            return until

        return hurry

    def _notice_s(self, order: _page.Order) -> float:
        remaining_s = order.deadline / 1e9 - time.time() if order.deadline else self._timeout_s
        return min(remaining_s, self._timeout_s)

    def _restore_newest(self, wanted: Optional[int], below: int = 0) -> "Tuple[int, str]":
        """Step and name of what was restored, 0 and "" for nothing. wanted: the step, None = any, or any below that, 0 = any."""
        if wanted == 0:
            return 0, ""
        found = store.scan(self.dir)
        for item in reversed(found):
            if not item.has_manifest or wanted not in (None, item.step) or 0 < below <= item.step:
                continue
            try:
                self._restore(item.path, together=True)
                self._resumed = item.step, os.path.basename(item.path)
                return self._resumed
            except DamagedError as error:
                self._damaged.add(item.path)
                self._damaged_step = max(self._damaged_step, item.step)
                warn(f"checkpoint {item.path} is damaged ({error}); using the one before it")
        if wanted is not None or below:
            steps = sorted({item.step for item in found if item.has_manifest})
            raise CheckpointError(f"no whole checkpoint {f'below step {below}' if below else f'of step {wanted}'} in {self.dir}; there are steps "
                                  f"{', '.join(map(str, steps)) or '(none)'}")
        return 0, ""

    def _restore(self, directory: str, together: bool = False) -> None:
        """together: all ranks of this node do so, and read it once."""
        with Reader(directory, self._ring(directory) if together else None) as reader:
            self._load(reader)
            self._put_back(reader)

    def _ring(self, directory: str) -> Optional[_native.Ring]:
        run = self._run
        is_one_of_many = 0 <= run.local_rank < run.local_world_size <= run.world_size and run.local_world_size > 1
        if not is_one_of_many or not run.start or not os.path.isdir(_SHARED_MEMORY):
            return None
        # Nodes may share a machine; of one start only ranks of one node have the same first rank.
        name = f"{run.start} {run.rank - run.local_rank} {directory}"
        return _native.Ring(f"{_SHARED_MEMORY}/tide-load-{zlib.crc32(name.encode()):08x}", run.local_world_size, run.local_rank)

    def _require_recorded(self, step: int) -> None:
        """step: of what was restored. Errors: CheckpointError where work would be lost without a word.

        Falling back from a damaged checkpoint to a whole one has been told and is what checkpoints are kept for.
        """
        recorded = self._run.recorded_step if self._is_main else 0
        if step == 0 and self._damaged:
            raise CheckpointError(f"no checkpoint in {self.dir} is whole, {len(self._damaged)} damaged; repair the file system, or "
                                  "start anew with resume(allow_restart=True)")
        if step < recorded and self._damaged_step < recorded:
            held = f"step {step} is the newest in" if step else "there is none in"
            raise CheckpointError(f"this job has saved step {recorded}, but {held} {self.dir}; is the file system mounted, is dir= the "
                                  "one it saved in? To lose what is gone use resume(allow_restart=True), or submit the job anew with "
                                  "another checkpoint.dir")

    def _trees(self, reader: Reader) -> "list[tuple[Mapping[str, Any], Mapping[str, Any]]]":
        """(objects of this rank, the stored trees they may be found in), group by group.

        What was sharded loads into whole tensors and the other way round, so those two groups look in both.
        """
        stored, own = reader.objects_of_all, [reader.local(self._run.rank)] if self._run.rank < reader.ranks else []
        groups = [(self._groups.replicated, {**stored["sharded"], **stored["replicated"]}),
                  (self._groups.sharded, {**stored["replicated"], **stored["sharded"]}),
                  (self._groups.global_, stored["global"])]
        return groups + [(self._groups.local, trees) for trees in own]

    def _load(self, reader: Reader) -> None:
        groups = self._trees(reader)
        wanted = boxes_wanted(*groups[1], reader.stored, reader.directory)
        reader.load(*(trees[name] for objects, trees in groups for name in objects if name in trees), wanted=wanted)

    def _put_back(self, reader: Reader) -> None:
        groups = self._trees(reader)
        if not self._strict:
            self._put_back_what_fits(reader, groups)
            return
        for objects, trees in groups:
            restore(objects, trees, reader.stored, reader.directory)
        left = [name for name, item in self._groups.local.items() if not is_empty(item)] if self._run.rank >= reader.ranks else []
        if left:
            warn(f"{reader.directory} was saved by {reader.manifest['world']} ranks and has no local state for rank "
                 f"{self._run.rank}; {', '.join(left)} start anew")

    def _put_back_what_fits(self, reader: Reader, groups: "list[tuple[Mapping[str, Any], Mapping[str, Any]]]") -> None:
        left = []
        for objects, trees in groups:
            if objects is self._groups.sharded:
                restore(objects, trees, reader.stored, reader.directory)
            else:
                # What sharded= may take out of the others' trees is not missing there.
                left += restore_what_fits(objects, {name: trees[name] for name in objects if name in trees}, reader.stored)
        if left and self._run.rank == 0:
            shown = "; ".join(left[:_LEFT_SHOWN]) + (f"; and {len(left) - _LEFT_SHOWN} more" if len(left) > _LEFT_SHOWN else "")
            warn(f"{reader.directory}: not restored: {shown}")

    def _advance_samplers(self, passed: int) -> None:
        if passed > 0:
            for sampler in self._samplers:
                sampler.advance_steps(passed)

    def _prepare(self) -> None:
        """Fresh pages cost ten times what the copy into used ones does, so they are made ready before the first save."""
        try:
            self._make_ready(wait=False)
        except Exception as error:  # whatever the program's objects raise
            warn(f"a save now would fail: {first_line(error)}")

    def _make_ready(self, wait: bool) -> None:
        self._background.prepare(self._run.rank, self._run.world_size, self._groups, wait)
        if self._start is not None:
            self._background.introduce(self._identity(0))

    def _lock_path(self) -> str:
        if self._run.in_platform:
            return os.path.join(os.path.dirname(self._run.page_path), f"saver-{self._run.local_rank}.lock")
        return store.lock_path(self.dir, self._run.rank)

    def _on_committed(self, answer: Answer) -> None:
        staged = answer.staged
        self._note_committed(staged.identity, answer.bytes if staged.identity.rank == 0 else 0, staged.started)

    def _on_failed(self, identity: Identity, why: "CheckpointError | str") -> None:
        error = why if isinstance(why, CheckpointError) else CheckpointError(why)
        self._note_failed(error)
        self._settle(identity, error)
        warn(f"save {self.failed_saves} failed, training goes on: cannot save step {identity.step}: {why}; earlier "
             "checkpoints are intact")

    def _on_lost(self, identity: Identity, why: str) -> None:
        self._fail(identity)
        self._on_failed(identity, why)

    def _note_skipped(self, step: int) -> None:
        self.skipped_saves += 1
        if self.skipped_saves & (self.skipped_saves - 1) == 0:  # the 1st, 2nd, 4th, 8th …
            warn(f"save of step {step} skipped, {self.skipped_saves} so far: earlier ones are still being written; "
                 "save less often, or to a faster disk")

    def _note_failed(self, error: CheckpointError) -> None:
        """Counts a save that training goes on without, for people to see in `tide ps`."""
        self.failed_saves += 1
        page = self._run.page
        page.save_errno = error.errno
        page.failed_saves += 1

    def _note_hours(self, name: str) -> None:
        if self._run.rank == 0:
            try:
                self._retention.note(name)
            except OSError as error:
                warn(f"cannot keep {name} for its hour: {error.strerror}")

    def _settle(self, identity: Identity, error: Optional[CheckpointError]) -> None:
        saving = self._savings.get(identity.directory)
        if saving is not None:
            saving.settle(error)

    def _look_for(self, saving: Saving, timeout_s: float) -> None:
        """Waits until it is known how a save ended, at most so long."""
        deadline, nap_s = time.monotonic() + timeout_s, _FIRST_NAP_S
        while not saving.is_settled:
            left_s = max(0.0, deadline - time.monotonic())
            if self._background.busy:
                self._background.look(left_s)
            else:
                self._look_at(os.path.join(self.dir, saving))
            if saving.is_settled or left_s == 0:
                return
            time.sleep(min(nap_s, left_s))
            nap_s = min(2 * nap_s, _LONGEST_NAP_S)

    def _note_staged(self, identity: Identity) -> None:
        self.saves += 1
        self._run.page.staged_step = identity.step

    def _note_committed(self, identity: Identity, size: int, started: float) -> None:
        """started: time.monotonic() seconds."""
        self._record(identity.step)
        self._settle(identity, None)
        self._note_hours(os.path.basename(identity.directory))
        self._run.page.failed_saves = 0
        self._uncommitted = self._given_up = None
        self._run.reporter.send("saved", step=identity.step, checkpoint=os.path.basename(identity.directory), bytes=size,
                                seconds=round(time.monotonic() - started, 6))

    @property
    def _is_on_record(self) -> bool:
        return self._is_main or not self._run.has_main

    def _record(self, step: int) -> None:
        if self._is_on_record:
            self._run.page.saved_step = max(step, self._run.page.saved_step)

    def _look_for_commit(self, written: Identity) -> None:
        """Finds out, at most once a second, that rank 0 committed what this rank did not wait for."""
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_FOR_COMMIT_S:
            self._looked_at = now
            if self._look_at(written.directory):
                self._uncommitted = None

    def _look_at(self, directory: str) -> bool:
        """Notes that a save which this rank has written is over. False: it is not."""
        name = fmt.parse_directory(os.path.basename(directory))
        saving = self._savings.get(directory)
        if name is None:
            return True
        if _is_whole(directory) or store.is_replaced(self.dir, name):
            self._record(name.step)
            self._run.page.failed_saves = 0
            if saving is not None:
                saving.settle(None)
            return True
        if os.path.lexists(writer.failed_path(directory, 0)):
            if saving is not None:
                saving.settle(CheckpointError(f"{directory}: rank 0 could not commit; its log says why"))
            return True
        return False

    def _collect_garbage(self, identity: Identity) -> None:
        newest = store.Found(self._name(identity.step), identity.directory, True)
        try:
            store.collect_garbage(self.dir, newest, self._keep, self._damaged)
        except (OSError, CheckpointError) as error:
            if not self._has_warned:
                warn(f"old checkpoints stay: {first_line(error)}; whoever they belong to has to remove them")
            self._has_warned = True

    def _fail(self, identity: Identity) -> None:
        if not _is_committed(identity):
            writer.withdraw(identity)
            writer.mark_failed(identity)
        self._uncommitted = None

    def _begin(self, step: int) -> Identity:
        """The identity of a save that begins now. All ranks begin the same ones, so they count the same generations.

        What fails is not tried again in the same folder, so no rank takes what another left there for something new.
        """
        self._claim(self.dir)
        store.prepare(self.dir)
        try:
            self._agreed_start()
            self._resumed = None
            self._begun = step, self._begun[1] + 1 if self._begun[0] == step else 1
            return self._identity(step)
        except OSError as error:
            raise _cannot_save(step, self.dir, error) from error

    def _claim(self, what: str) -> None:
        """Makes this the one Checkpoint of the process that has `what`: a folder to save in, or "tick".

        Two that saved in one folder would take each other's saves for their own, and each would answer half of the platform's
        orders.   Errors: CheckpointError where another one has it and is still there.
        """
        def holder() -> Any:
            found = self._run.users.get(what)
            return None if found is None else found()

        if holder() is self:
            return
        if holder() is not None:
            gc.collect()  # it may be gone but for a cycle
        if holder() is not None:
            raise CheckpointError(f"two Checkpoints tick in this program; give one of them all objects, or save with the other by "
                                  f"save() alone" if what == "tick" else
                                  f"two Checkpoints of this program save in {what}; give one of them all objects, or the other one "
                                  "another dir=")
        self._run.users[what] = weakref.ref(self)

    def _agreed_start(self) -> Start:
        """What the ranks agreed on, now if not yet: programs may save without a resume() before.

        Errors: CheckpointError, OSError.
        """
        if self._start is None:
            self._take_lease()
            self._start = self._agree("")
        return self._start

    def _take_lease(self) -> None:
        if self._run.rank == 0:
            lease.hold(self.dir, self._run.job, self._run.attempt or 0)

    def _agree(self, name: str) -> Start:
        """Settles with the other ranks what this start is.

          name: of the checkpoint that this rank has restored, "" for none.
        """
        def decide(nonce: str) -> Start:
            number, generations = store.place_of(self.dir, nonce)
            return Start(max(number, self._run.attempt or 0), nonce, name, generations)

        return agree(self.dir, self._run, decide, time.monotonic() + self._timeout_s * _PATIENCE_IN_PASSING)

    def _restore_told(self, told: str, name: str) -> int:
        """Restores what rank 0 has, and this rank has not. Returns its step."""
        problem = f"{self.dir}: rank 0 resumes from {told or 'nothing'}, rank {self._run.rank} from {name or 'nothing'}"
        parsed = fmt.parse_directory(told)
        if parsed is None:
            raise CheckpointError(f"{problem}; do all nodes see the same folder?")
        try:
            self._restore(os.path.join(self.dir, told))
        except (DamagedError, FileNotFoundError) as error:
            raise CheckpointError(f"{problem}, and cannot read that: {error}; do all nodes see the same folder?") from error
        self._resumed = parsed.step, told
        return parsed.step

    def _identity(self, step: int) -> Identity:
        start = self._agreed_start()
        directory = os.path.join(self.dir, fmt.directory_name(self._name(step)))
        return Identity(directory, self._run.job, step, start.number, start.nonce, self._run.rank, self._run.world_size)

    def _name(self, step: int) -> fmt.Name:
        start = self._agreed_start()
        begun = self._begun[1] if self._begun[0] == step else 1
        return fmt.Name(step, start.number, start.nonce, start.generations.get(str(step), 0) + begun)


def _folder(dir: Any) -> str:
    if not isinstance(dir, (str, os.PathLike)) or not os.fspath(dir):
        raise CheckpointError(f"dir must be a folder's path, such as run.checkpoint_dir, not {dir!r}")
    return os.path.abspath(os.fsdecode(os.fspath(dir)))


def _objects(group: str, given: Optional[Mapping[str, Any]]) -> "dict[str, Any]":
    """The objects of a group by name. Errors: CheckpointError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise CheckpointError(f"{group}= must be a dict of names and objects, such as {{\"model\": model}}, not "
                              f"{'one' if isinstance(given, Mapping) else 'a ' + type(given).__name__}"
                              f"{' with other keys' if isinstance(given, Mapping) else ''}")
    return dict(given)


def _require_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or value < least:
        raise CheckpointError(f"{name} must be a whole number from {least}, not {value!r}")


def _step(step: Any) -> int:
    """The step as an int, also of numpy and of a tensor with one element. Errors: CheckpointError."""
    try:
        whole = operator.index(step)
    except TypeError:
        raise CheckpointError(f"step must be a whole number, not {step!r}") from None
    if whole < 0:
        raise CheckpointError(f"step must be a number of finished steps, not {whole}")
    return whole


def _cannot_save(step: int, directory: str, error: OSError) -> CheckpointError:
    file = f" ({os.path.basename(error.filename)})" if isinstance(error.filename, str) else ""
    return CheckpointError(f"cannot save step {step} in {directory}: {error.strerror or error}{file}; free space or repair the "
                           "file system, earlier checkpoints are intact", error.errno or 0)


def _is_committed(identity: Identity) -> bool:
    return _is_whole(identity.directory)


def _is_whole(directory: str) -> bool:
    """False also where the folder cannot be read: the next save will say what is wrong."""
    try:
        return writer.is_committed(directory)
    except (OSError, CheckpointError):
        return False
