"""Stand-ins with the signatures documented for accelerate 0.30 (save_state, load_state, sync_gradients), DeepSpeed 0.14
(save_checkpoint, load_checkpoint, global_steps), Megatron-LM core 0.9 (save_checkpoint, args.save, args.load), torch 2.3
(torch.distributed.checkpoint: save, load) and torchdata 0.8 (StatefulDataLoader). Each rank writes a file of its own.
"""

import os
import random

import files


def write(folder, name, state):
    files.put(os.path.join(folder, f"{name}-{files.rank()}.json"), state)


def read(folder, name):
    return files.get(os.path.join(folder, f"{name}-{files.rank()}.json"))


class Accelerator:
    sync_gradients = True

    def __init__(self):
        self._prepared = []

    def prepare(self, *objects):
        self._prepared += objects
        return objects

    def save_state(self, output_dir=None, safe_serialization=True, **save_model_func_kwargs):
        write(output_dir, "state", [item.state_dict() for item in self._prepared])
        return output_dir

    def load_state(self, input_dir=None, **load_model_func_kwargs):
        for item, state in zip(self._prepared, read(input_dir, "state")):
            item.load_state_dict(state)


class DeepSpeedEngine:
    def __init__(self, module):
        self.module, self.global_steps = module, 0

    def step(self):
        self.module.training_step(self.global_steps, self.global_steps)
        self.global_steps += 1

    def save_checkpoint(self, save_dir, tag=None, client_state={}, save_latest=True, exclude_frozen_parameters=False):
        tag = tag or f"global_step{self.global_steps}"
        write(os.path.join(save_dir, tag), "mp_rank", {"module": self.module.state_dict(), "steps": self.global_steps,
                                                       "client": client_state})
        return True

    def load_checkpoint(self, load_dir, tag=None, load_module_strict=True, load_optimizer_states=True,
                        load_lr_scheduler_states=True, load_module_only=False, custom_load_fn=None):
        folder = os.path.join(load_dir, tag)
        if not os.path.isdir(folder):
            return None, None
        state = read(folder, "mp_rank")
        self.module.load_state_dict(state["module"])
        self.global_steps = state["steps"]
        return folder, state["client"]


class Megatron:
    """What megatron.training has as functions and global arguments."""

    def __init__(self, args):
        self.args = args

    def save_checkpoint(self, iteration, model, optimizer, opt_param_scheduler, num_floating_point_operations_so_far,
                        checkpointing_context=None):
        assert not self.args.async_save
        write(os.path.join(self.args.save, f"iter_{iteration:07d}"), "model", model.state_dict())
        write(self.args.save, "latest_checkpointed_iteration", iteration)

    def load_checkpoint(self, model, optimizer, opt_param_scheduler):
        if self.args.load is None:
            return 0, 0
        iteration = read(self.args.load, "latest_checkpointed_iteration")
        model.load_state_dict(read(os.path.join(self.args.load, f"iter_{iteration:07d}"), "model"))
        return iteration, 0


def dcp_save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None):
    write(checkpoint_id, "__", {key: item.state_dict() for key, item in state_dict.items()})


def dcp_load(state_dict, *, checkpoint_id=None, storage_reader=None, planner=None, process_group=None):
    for key, state in read(checkpoint_id, "__").items():
        state_dict[key].load_state_dict(state)


class StatefulDataLoader:
    """Shuffles with a generator of its own. As documented: load_state_dict() counts for the next iter()."""

    def __init__(self, dataset, batch_size=1, seed=0):
        self._dataset, self._batch_size, self._random = dataset, batch_size, random.Random(seed)
        self._yielded, self._next, self._epoch = 0, None, None

    def __iter__(self):
        done = 0
        if self._next is not None:
            self._random.setstate(_tuples(self._next["rng"]))
            done, self._next = self._next["_num_yielded"], None
        self._epoch, self._yielded = self._random.getstate(), done
        order = list(range(len(self._dataset)))
        self._random.shuffle(order)
        for start in range(done * self._batch_size, len(order), self._batch_size):
            self._yielded += 1
            yield [self._dataset[index] for index in order[start:start + self._batch_size]]

    def state_dict(self):
        return {"_snapshot": {"rng": self._epoch or self._random.getstate()}, "_num_yielded": self._yielded,
                "_iterator_finished": False}

    def load_state_dict(self, state_dict):
        self._next = {"rng": state_dict["_snapshot"]["rng"], "_num_yielded": state_dict["_num_yielded"]}


def _tuples(state):
    return (state[0], tuple(state[1]), state[2])
