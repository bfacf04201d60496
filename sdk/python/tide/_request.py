"""What the platform asks a rank to do at a step, for programs that write their checkpoints themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional

from . import _page
from ._errors import first_line, warn

if TYPE_CHECKING:
    from ._run import Run


class Request(NamedTuple):
    """Asked of every rank of the job after the same step: run.request() of all of them returns it there.

      kind: "save": save, and train on; "suspend": save, and leave; "stop": leave, nothing needs to be saved.
      step: finished steps.   deadline: Unix seconds by which a suspended rank is ended, None = none.
    One call answers it: saved() or failed(). What was asked comes again, at a later step, only where it is asked again.
    """

    run: "Run"
    kind: str
    step: int
    deadline: Optional[float]
    number: int

    @property
    def leaves(self) -> bool:
        """True where the rank has to leave once it has saved: with run.exit()."""
        return self.kind != "save"

    def saved(self, checkpoint: str = "") -> None:
        """Answers that the state after `step` is durable, with what the other ranks hold of it. To be called by all ranks.

          checkpoint: a name, for people.
        """
        if self.kind == "suspend":
            self.run.suspended(checkpoint, self.step)
        elif self.kind == "save":
            self.run.saved(self.step, checkpoint)
            self._train_on()

    def failed(self, why: BaseException) -> None:
        """Answers that this rank could not save. Earlier checkpoints count; training goes on.

        A job that is suspended is ended at the deadline then, and returns to what it saved before. The other ranks need to
        fail, too: one that leaves with a checkpoint that lacks this rank's part leaves for nothing.
        """
        page = self.run.page
        page.save_errno = (why.errno or 0) if isinstance(why, OSError) else 0
        page.failed_saves += 1
        warn(f"cannot save step {self.step}: {first_line(why)}; earlier checkpoints count, training goes on"
             + (" until the deadline" if self.kind == "suspend" else ""))
        self._train_on()

    def _train_on(self) -> None:
        page = self.run.page
        self.run.restart_step_clock()  # first: the long silence is never seen beside the phase of training
        page.phase = _page.PHASE_TRAINING
        if self.kind == "save":
            page.ack_seq = self.number
        else:
            self.run.refused = self.number
