"""Stand-in with the signatures that Lightning 2.2 documents, as far as tide_lightning uses them: Callback, Trainer.fit,
global_step, save_checkpoint. The model is an object with training_step(), state_dict() and load_state_dict().
"""

import files


class Callback:
    """The hooks of a callback, all of which do nothing."""

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        pass


class Trainer:
    """max_steps: optimizer steps; accumulate_grad_batches: batches for each."""

    def __init__(self, *, max_steps=-1, callbacks=None, accumulate_grad_batches=1):
        self.max_steps, self.callbacks, self.accumulate = max_steps, callbacks or [], accumulate_grad_batches
        self.global_step = 0
        self._model = None

    def fit(self, model, train_dataloaders=None, *, ckpt_path=None):
        self._model = model
        if ckpt_path is not None:
            state = files.get(ckpt_path)
            self.global_step = state["global_step"]
            model.load_state_dict(state["state_dict"])
        first = self.global_step * self.accumulate
        for batch_idx, batch in enumerate(train_dataloaders):
            if batch_idx < first:
                continue
            outputs = model.training_step(batch, batch_idx)
            if (batch_idx + 1) % self.accumulate == 0:
                self.global_step += 1
            for callback in self.callbacks:
                callback.on_train_batch_end(self, model, outputs, batch, batch_idx)
            if self.global_step == self.max_steps:
                return

    def save_checkpoint(self, filepath, weights_only=False, storage_options=None):
        if files.rank() == "0":
            files.put(filepath, {"global_step": self.global_step, "state_dict": self._model.state_dict()})
