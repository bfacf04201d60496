"""Lightning under Tide: a callback that saves and leaves when the platform asks, and the checkpoint to go on from.

    run = tide.attach()
    trainer = Trainer(callbacks=[TideCallback(run)], ...)
    trainer.fit(model, loader, ckpt_path=ckpt_path(run))
    run.done()
"""

from __future__ import annotations

import os
from typing import Optional

from tide_adapters_common import KEEP, answer, resume

try:
    from lightning.pytorch import Callback
except ImportError:  # before Lightning 2 had this name
    from pytorch_lightning import Callback

_FILE = "state.ckpt"


class TideCallback(Callback):
    """Asks after each optimizer step. Batches in between, which gradients are accumulated over, are no steps."""

    def __init__(self, run, keep: int = KEEP) -> None:
        self._run, self._keep, self._asked = run, keep, -1

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        """Answers what is asked after a batch; does not return where the rank has to leave."""
        step = trainer.global_step
        if step == self._asked:
            return
        self._asked = step
        total = trainer.max_steps if trainer.max_steps > 0 else None
        request = self._run.request(step, total=total)
        if request is not None:
            # By all ranks: a sharded strategy writes a folder of this name.
            answer(request, lambda folder: trainer.save_checkpoint(os.path.join(folder, _FILE)), self._keep)


def ckpt_path(run, allow_restart: bool = False) -> Optional[str]:
    """Returns what trainer.fit(ckpt_path=) goes on from, None = from the beginning. Errors: as resume()."""
    newest = resume(run, allow_restart)
    return os.path.join(newest.folder, _FILE) if newest else None
