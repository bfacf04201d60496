"""`hfai.checkpoint`: resume and save in two calls, in Tide's checkpoint format.

    start_epoch, start_step, others = hfai.checkpoint.init(model, optimizer, scheduler=scheduler, ckpt_path="out/a.pt")
    ...
    model.try_save(epoch, step + 1, others=best)     # by all ranks, each step

Checkpoints lie in the folder `<ckpt_path>.tide` (in the job's checkpoint folder where no path is given): those of a
suspension, and what `python3 -m tide.checkpoint` shows, checks and exports.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Dict, Optional, Tuple

import tide
from tide._errors import warn
from tide.checkpoint.state import without_code

from . import _session, _store, client

__all__ = ["init", "load", "save"]


def init(model: Any, optimizer: Any, scheduler: Any = None, amp_scaler: Any = None,
         ckpt_path: "str | os.PathLike[str] | None" = None) -> "Tuple[int, int, Any]":
    """Restores the newest checkpoint into the objects and gives `model` its try_save. To be called by all ranks.

      Returns (epoch, step, others) as given to try_save, (0, 0, None) where there is no checkpoint.
      Errors: tide.CheckpointError (a RuntimeError) for objects that do not fit, or a disk that cannot be read.
    """
    beside = {"optimizer": optimizer, "scheduler": scheduler, "amp_scaler": amp_scaler}
    saver = _Saver(model, beside, _folder(ckpt_path))
    step = saver.resume()
    if not step and ckpt_path is not None and os.path.isfile(ckpt_path):
        warn(f"hfai: {os.fspath(ckpt_path)} was not written by Tide and is not read; training starts anew")

    def try_save(epoch: int, step: int, others: Any = None) -> None:
        """Saves and leaves if the job is asked to, else returns at once. By all ranks, after each step."""
        saver.try_save(epoch, step, others)

    model.try_save = try_save  # a function, not a method: copies of the model shall not copy the saver
    return saver.place.epoch, saver.place.step, saver.place.others


def save(obj: Any, path: "str | os.PathLike[str]", **ignored: Any) -> None:
    """torch.save, durable and in one step: a reader sees the file of before or the new one whole."""
    import torch
    name = os.path.abspath(os.fspath(path))
    temporary = f"{name}.tmp-{os.getpid()}"
    os.makedirs(os.path.dirname(name), exist_ok=True)
    try:
        with open(temporary, "wb") as out:
            torch.save(obj, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, name)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def load(path: "str | os.PathLike[str]", map_location: Any = "cpu", **ignored: Any) -> Any:
    """torch.load, to the CPU unless map_location says otherwise."""
    import torch
    return torch.load(os.fspath(path), map_location=map_location)


class _Part:
    """Some entries of a module's state_dict(), by name."""

    def __init__(self, module: Any, wanted: Callable[[str], bool]) -> None:
        self._module, self._wanted = module, wanted

    def state_dict(self) -> Dict[str, Any]:
        return {name: value for name, value in self._module.state_dict().items() if self._wanted(name)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._module.load_state_dict({**self._module.state_dict(), **state})


class _WithoutFunctions:
    """An object whose state_dict() may hold functions, as some schedulers' do: those stay as they are."""

    def __init__(self, item: Any) -> None:
        self._item = item

    def state_dict(self) -> Dict[str, Any]:
        state = without_code(self._item.state_dict())
        return {name: value for name, value in state.items() if not callable(value)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._item.load_state_dict({**self._item.state_dict(), **state})


class _Place:
    """Where training stands, as the script counts it."""

    def __init__(self) -> None:
        self.epoch, self.step, self.others = 0, 0, None  # type: Tuple[int, int, Any]

    def state_dict(self) -> Dict[str, Any]:
        return {"epoch": self.epoch, "step": self.step, "others": self.others}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.epoch, self.step, self.others = state["epoch"], state["step"], state["others"]


class _Saver:
    """Counts the calls of try_save, which are the same on all ranks, as steps.

    Where each training process is a rank of Tide's, the ranks agree on a step over their pages and nothing is sent.
    Where a rank starts workers, those have no pages: rank 0 looks, and tells the others by a broadcast a step.
    """

    def __init__(self, model: Any, others: Dict[str, Any], folder: str) -> None:
        module = model.module if type(model).__name__ == "DistributedDataParallel" else model
        buffers = {name for name, _ in module.named_buffers()}
        self.place = _Place()
        self._calls = 0
        self._gave_up = False
        self._told: Any = None  # the tensor of each broadcast
        self._run, self._agrees = _choose_run()
        state = {name: _WithoutFunctions(item) for name, item in others.items() if item is not None}
        # Buffers such as batch norm's averages differ between ranks; those of rank 0 count, as everywhere in DDP.
        self._checkpoint = tide.Checkpoint(
            dir=folder, run=self._run, keep=2, local={"rng": tide.rng()},
            replicated={"model": _Part(module, lambda name: name not in buffers), **state},
            global_={"buffers": _Part(module, lambda name: name in buffers), "place": self.place})

    def resume(self) -> int:
        self._calls = self._checkpoint.resume()
        return self._calls

    def try_save(self, epoch: int, step: int, others: Any) -> None:
        self._calls += 1
        self.place.epoch, self.place.step, self.place.others = int(epoch), int(step), others
        if self._agrees:
            if self._checkpoint.tick(self._calls):
                self._run.exit()
        elif not self._gave_up and self._told_to_go():
            self._save_and_go()

    def _told_to_go(self) -> bool:
        if _session.current is None and not _session.simulated():
            return False
        dist = _store.distributed()
        if dist is None:
            return client.receive_suspend_command()
        if self._told is None:
            self._told = _never_freed(dist.get_backend())
        self._told.fill_(dist.get_rank() == 0 and client.receive_suspend_command())
        dist.broadcast(self._told, src=0)
        return bool(self._told.item())

    def _save_and_go(self) -> None:
        try:
            self._checkpoint.save(self._calls, wait=True)
        except tide.CheckpointError as error:
            self._gave_up = True  # every rank reaches this verdict; the order is left to its deadline
            warn(f"hfai: not suspended: {error}; training goes on until the deadline")
            return
        if self._run.rank == 0 or _session.simulated():
            client.go_suspend()
        if _session.current is not None:
            _session.current.await_end()


def _never_freed(backend: str) -> Any:
    """Returns a tensor for broadcasts by that backend that outlives the interpreter.

    A thread of gloo holds what it has sent until a little after the call is over. Were it the last to let go of the
    tensor while the interpreter ends, it would wait for an interpreter that is gone, and abort the whole process.
    """
    import torch
    tensor = torch.zeros(1, dtype=torch.int64, device="cuda" if backend == "nccl" else "cpu")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
    return tensor


def _choose_run() -> "Tuple[tide.Run, bool]":
    """The run to save under, and whether its page is where this process agrees with the others."""
    dist = _store.distributed()
    session = _session.current
    own = tide.attach() if session is None else session.run
    world = own.world_size if own is not None else 0
    if own is not None and not _session.simulated() and (dist is None or dist.get_world_size() == world):
        return own, True
    env = {name: os.environ.get(name, "") for name in ("TIDE_JOB_ID", "TIDE_ATTEMPT", "TIDE_START")}
    if dist is not None:
        env.update(RANK=str(dist.get_rank()), WORLD_SIZE=str(dist.get_world_size()))
    return tide.Run(env), False


def _folder(ckpt_path: "str | os.PathLike[str] | None") -> str:
    if ckpt_path is not None:
        return os.fspath(ckpt_path) + ".tide"
    return os.environ.get("TIDE_CHECKPOINT_DIR") or "checkpoints"
