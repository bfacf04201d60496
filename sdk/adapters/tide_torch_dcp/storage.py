"""A StorageWriter and StorageReader of torch.distributed.checkpoint (torch 2.3 or later) over Tide's checkpoints.

    storage = Storage(run)
    state = {"model": model.state_dict(), "optim": optimizer.state_dict()}     # DTensors, tensors, and anything else
    step = storage.resume(state)                        # all ranks
    ...
        step += 1
        storage.answer(lambda: {"model": …, "optim": …}, step)

What dcp.save() plans is written by Tide: staged, with CRCs, committed whole or not at all, and read by any number of ranks; no file of
it is a pickle. Values that are no tensors are stored as the planner gives them, which is torch's pickle.
"""

from __future__ import annotations

import dataclasses
import io
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch.distributed.checkpoint.metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorProperties,
                                                   TensorStorageMetadata)
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

import tide
import tide_adapters_common as common
from tide.checkpoint import boxes, tensors
from tide.checkpoint.reader import Reader

_NAME = "dcp"
KEEP = 3


class _Held:
    """The state of one save, as an object of tide.Checkpoint. Restores nothing: dcp.load() does."""

    def __init__(self) -> None:
        self.items: Dict[str, Any] = {}
        self.failure: Optional[BaseException] = None

    def state_dict(self) -> Dict[str, Any]:
        if self.failure is not None:
            raise tide.CheckpointError(f"{type(self.failure).__name__}: {self.failure}")
        return self.items

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        pass

    def shard_at(self, path: str, shape: Tuple[int, ...]) -> boxes.Box:
        """Nothing of the tensor; of one without dimensions all."""
        return tuple((0, 0) for _ in shape)


class Storage:
    """The checkpoints of one run in `run.checkpoint_dir`. keep: how many stay."""

    def __init__(self, run, keep: int = KEEP, **options: Any) -> None:
        """options: of tide.Checkpoint, such as timeout_s."""
        self._run, self._shards, self._values = run, _Held(), _Held()
        self._checkpoint = tide.Checkpoint(dir=run.checkpoint_dir, sharded={_NAME: self._shards}, local={_NAME: self._values},
                                           keep=keep, run=run, **options)

    def resume(self, state: Dict[str, Any], load: Optional[Callable[..., Any]] = None, **options: Any) -> int:
        """Loads the newest whole checkpoint into `state`. Returns its step, 0 if there is none. To be called by all ranks.

          load: default: dcp.load.   options: of tide.Checkpoint.resume.
          Errors: as tide.Checkpoint.resume; what the planner raises.
        """
        step = self._checkpoint.resume(**options)
        if step:
            (load or _dcp().load)(state, storage_reader=TideReader(self._newest(step), is_checked=True))
        return step

    def save(self, state: Dict[str, Any], step: int, save: Optional[Callable[..., Any]] = None) -> str:
        """Saves, and returns the checkpoint's name once it is committed. To be called by all ranks.

          save: default: dcp.save.   Errors: CheckpointError; what the planner raises. Earlier checkpoints stay.
        """
        writer = TideWriter(self, step)
        (save or _dcp().save)(state, storage_writer=writer)
        return writer.name

    def answer(self, state: Callable[[], Dict[str, Any]], step: int, save: Optional[Callable[..., Any]] = None, loss: Any = None,
               total: Optional[int] = None, safe: bool = True) -> None:
        """Asks after `step` finished steps, and saves or leaves. To be called by all ranks.

          state: gives what is to be saved, called where something is.   safe: False while gradients are being accumulated.
        """
        request = self._run.request(step, loss, total, safe)
        if request is not None:
            common.carry_out(request, lambda: self.save(state(), step, save))

    def write(self, step: int, shards: "Dict[str, Any]", values: "Dict[str, Any]") -> str:
        """Writes this rank's part and waits for the commit."""
        self._shards.items, self._values.items = shards, values
        try:
            return str(self._checkpoint.save(step, wait=True))
        finally:
            self._shards.items, self._values.items = {}, {}

    def give_up(self, step: int, why: BaseException) -> None:
        """Begins the save that this rank cannot do, and fails there: the other ranks do not wait for it."""
        self._shards.failure = why
        try:
            self._checkpoint.save(step, wait=True)
        except tide.TideError:
            pass  # the caller raises what it was
        finally:
            self._shards.failure = None

    def _newest(self, step: int) -> str:
        restored = self._checkpoint.restored
        assert restored is not None and restored[0] == step
        return os.path.join(self._run.checkpoint_dir, restored[1])


class TideWriter(StorageWriter):
    """Writes one checkpoint. name: of what was committed."""

    def __init__(self, storage: Storage, step: int) -> None:
        super().__init__()
        self._storage, self._step, self.name = storage, step, ""

    def reset(self, checkpoint_id: Any = None) -> None:
        pass

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True

    def set_up_storage_writer(self, is_coordinator: bool, *_: Any, **__: Any) -> None:
        pass

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: List[Any]) -> List[Any]:
        """Tells all ranks of all tensors: in Tide each names those of which it holds nothing, too."""
        known: Dict[str, Any] = {}
        for plan in plans:
            for item in plan.items:
                if item.tensor_data is not None:
                    known[item.index.fqn] = (item.tensor_data.properties.dtype, tuple(item.tensor_data.size))
        return [dataclasses.replace(plan, storage_data=known) for plan in plans]

    def write_data(self, plan: Any, planner: Any) -> "Future[List[Any]]":
        try:
            shards, values, results = self._resolved(plan, planner)
        except Exception as error:  # whatever the planner raises
            self._storage.give_up(self._step, error)
            raise
        self.name = self._storage.write(self._step, shards, values)
        return _done(results)

    def _resolved(self, plan: Any, planner: Any) -> "Tuple[Dict[str, Any], Dict[str, Any], List[Any]]":
        shards: Dict[str, Any] = {name: _nothing(*kind) for name, kind in plan.storage_data.items()}
        values: Dict[str, Any] = {}
        results: List[Any] = []
        mine = set()
        for item in plan.items:
            name, data = item.index.fqn, planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                values[name] = torch.frombuffer(bytearray(data.getvalue()), dtype=torch.uint8)
                size = len(values[name])
            elif name in mine:
                raise tide.CheckpointError(f"this rank holds several pieces of {name}; Tide stores one of each tensor and rank: give "
                                           "DTensors, or whole tensors")
            else:
                mine.add(name)
                held = data.detach().contiguous()
                shards[name] = tide.Shard(held, tuple(item.tensor_data.chunk.offsets), tuple(item.tensor_data.size))
                size = held.numel() * held.element_size()
            results.append(WriteResult(index=item.index, size_in_bytes=size, storage_data=None))
        return shards, values, results

    def finish(self, metadata: Any, results: List[List[Any]]) -> None:
        """Nothing is left to do: write_data() returns when all ranks' parts are committed."""


class TideReader(StorageReader):
    """Reads one checkpoint. path: its folder. A planner finds no planner_data: Tide keeps none.

    is_checked: every byte has been compared with its CRC already. Else that comes first, and DamagedError names what differs.
    """

    def __init__(self, path: str, is_checked: bool = False) -> None:
        super().__init__()
        self._reader = Reader(path)
        if not is_checked:
            self._reader.load()
        self._names = {name: node["$tensor"] for name, node in _members(self._reader.objects_of_all["sharded"].get(_NAME, {}))}
        self._values: Dict[str, str] = {}
        for rank in range(self._reader.ranks):
            for name, node in _members(self._reader.local(rank).get(_NAME, {})):
                self._values.setdefault(name, node["$tensor"])

    def reset(self, checkpoint_id: Any = None) -> None:
        pass

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True

    def read_metadata(self, *_: Any, **__: Any) -> Any:
        found: Dict[str, Any] = {name: BytesStorageMetadata() for name in self._values}
        for name, stored in self._names.items():
            dtype, shape = self._reader.info(stored)
            size = torch.Size(shape)
            # As one piece, whoever has stored what of it: the reader gives any box.
            chunk = ChunkStorageMetadata(offsets=torch.Size([0] * len(shape)), sizes=size)
            found[name] = TensorStorageMetadata(properties=TensorProperties(dtype=getattr(torch, tensors.NAMES[dtype])), size=size,
                                                chunks=[chunk])
        return Metadata(state_dict_metadata=found)

    def set_up_storage_reader(self, metadata: Any, is_coordinator: bool, *_: Any, **__: Any) -> None:
        pass

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: List[Any]) -> List[Any]:
        return plans

    def read_data(self, plan: Any, planner: Any) -> "Future[None]":
        with self._reader as reader:
            wanted: Dict[str, boxes.Box] = {}
            for item in plan.items:
                if item.type != LoadItemType.BYTE_IO:
                    stored, box = self._names[item.storage_index.fqn], _box_of(item)
                    wanted[stored] = boxes.around(wanted.get(stored, box), box)
            reader.locate(wanted)
            for item in plan.items:
                name = item.storage_index.fqn
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(bytes(reader.read(self._values[name]))))
                    continue
                stored = self._names[name]
                box = _box_of(item)
                target = planner.resolve_tensor(item).detach()
                target.copy_(tensors.build("torch", reader.info(stored)[0], boxes.extents(box), reader.read(stored, box)))
                planner.commit_tensor(item, target)
        return _done(None)


def _members(tree: Any) -> "List[Tuple[str, Any]]":
    """The members of a stored dict, whatever its keys look like."""
    return [(name, node) for name, node in tree["$dict"]] if "$dict" in tree else list(tree.items())


def _box_of(item: Any) -> boxes.Box:
    return boxes.at(tuple(item.storage_offsets), tuple(item.lengths))


def _nothing(dtype: Any, shape: Tuple[int, ...]) -> Any:
    """A Shard of a tensor of which this rank stores nothing."""
    empty = torch.empty((0,) * len(shape), dtype=dtype)
    return tide.Shard(empty, (0,) * len(shape), shape, replica=0 if shape else 1)


def _done(value: Any) -> Any:
    future: Any = Future()
    future.set_result(value)
    return future


def _dcp() -> Any:
    import torch.distributed.checkpoint as dcp
    return dcp
