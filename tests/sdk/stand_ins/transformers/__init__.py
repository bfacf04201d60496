"""Stand-in with the signatures that transformers 4.40 documents, as far as tide_transformers uses them: TrainerCallback,
TrainerControl, Trainer.train. Saves go to <output_dir>/checkpoint-<step> in place, before on_save.
"""

import os
import shutil
import types

import files


class TrainerControl:
    def __init__(self):
        self.should_training_stop = self.should_save = False


class TrainerCallback:
    """The hooks of a callback, all of which do nothing."""

    def on_step_end(self, args, state, control, **kwargs):
        pass

    def on_save(self, args, state, control, **kwargs):
        pass


class TrainingArguments:
    def __init__(self, output_dir, max_steps=-1, save_steps=0, save_total_limit=None):
        self.output_dir, self.max_steps = output_dir, max_steps
        self.save_steps, self.save_total_limit = save_steps, save_total_limit


class Trainer:
    def __init__(self, model=None, args=None, callbacks=None):
        self.model, self.args, self.callbacks = model, args, callbacks or []
        self.state = types.SimpleNamespace(global_step=0, max_steps=args.max_steps)
        self.control = TrainerControl()

    def train(self, resume_from_checkpoint=None):
        if resume_from_checkpoint is not None:
            stored = files.get(os.path.join(resume_from_checkpoint, "trainer_state.json"))
            self.state.global_step = stored["global_step"]
            self.model.load_state_dict(stored["model"])
        while self.state.global_step < self.state.max_steps and not self.control.should_training_stop:
            self.model.training_step(self.state.global_step, self.state.global_step)
            self.state.global_step += 1
            self.control.should_save = bool(self.args.save_steps) and self.state.global_step % self.args.save_steps == 0
            self._call("on_step_end")
            if self.control.should_save:
                self._save()
                self._call("on_save")

    def _call(self, event):
        for callback in self.callbacks:
            self.control = getattr(callback, event)(self.args, self.state, self.control, model=self.model) or self.control

    def _save(self):
        if files.rank() != "0":
            return
        folders = os.path.join(self.args.output_dir, "checkpoint-")
        files.put(f"{folders}{self.state.global_step}/trainer_state.json",
                  {"global_step": self.state.global_step, "model": self.model.state_dict()})
        if self.args.save_total_limit:
            steps = sorted(int(name[11:]) for name in os.listdir(self.args.output_dir) if name.startswith("checkpoint-"))
            for step in steps[:-self.args.save_total_limit]:
                shutil.rmtree(f"{folders}{step}")
