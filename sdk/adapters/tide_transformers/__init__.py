"""transformers' Trainer under Tide: a callback that lets it save and leaves when the platform asks.

    run = tide.attach()
    trainer = Trainer(args=TrainingArguments(output_dir=run.checkpoint_dir, ...), callbacks=[TideCallback(run)], ...)
    trainer.train(resume_from_checkpoint=newest(run))
    run.done()

The Trainer writes <output_dir>/checkpoint-<step> in place; a folder counts once a mark beside it says so.
"""

from __future__ import annotations

import os
from typing import Optional

from transformers import TrainerCallback

from tide_adapters_common import KEEP, mark, resume, unmark


class TideCallback(TrainerCallback):
    """Orders the Trainer's own saves, and marks all of them.

      keep: checkpoints that stay; 0 = save_total_limit says it, which counts steps: a run that went back loses its newest.
    """

    def __init__(self, run, keep: int = KEEP) -> None:
        self._run, self._keep = run, keep
        self._request = None  # waits for the Trainer's save

    def on_step_end(self, args, state, control, **kwargs):
        """Lets the Trainer save where that is asked. Does not return from a stop."""
        request = self._run.request(state.global_step, total=state.max_steps)
        if request is not None and request.kind == "stop":
            self._run.exit()
        if request is not None:
            self._request = request
            control.should_save = True
        if control.should_save:
            unmark(self._run, state.global_step)
        return control

    def on_epoch_end(self, args, state, control, **kwargs):
        """Takes the mark from what the Trainer may write once more, after the epoch's last step."""
        if control.should_save:
            unmark(self._run, state.global_step)
        return control

    def on_save(self, args, state, control, **kwargs):
        """Marks what the Trainer has written, and answers. Does not return where the rank has to leave."""
        request, self._request = self._request, None
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        try:
            name = mark(self._run, state.global_step, folder, self._keep, request.deadline if request else None)
        except Exception as error:
            if request is None:
                raise
            request.failed(error)
            return control
        if request is None:
            self._run.saved(state.global_step, name)
            return control
        request.saved(name)
        if request.leaves:
            self._run.exit()
        return control


def newest(run, allow_restart: bool = False) -> Optional[str]:
    """Returns what trainer.train(resume_from_checkpoint=) goes on from, None = from the beginning. Errors: as resume()."""
    found = resume(run, allow_restart)
    return found.folder if found else None
