"""A stand-in for torch.distributed.checkpoint of torch 2.3: the classes, hooks and order of calls that its documentation of
StorageWriter, StorageReader, SavePlanner and LoadPlanner names. Ranks are threads, which meet in a Group.

Stands for `torch.distributed.checkpoint` and its modules metadata, planner and storage, once install() has been called.
"""

import abc
import dataclasses
import enum
import io
import sys
import threading
import types
from typing import Any, List, Optional

import torch


@dataclasses.dataclass
class TensorProperties:
    dtype: Any = None


@dataclasses.dataclass
class ChunkStorageMetadata:
    offsets: Any
    sizes: Any


@dataclasses.dataclass
class TensorStorageMetadata:
    properties: Any
    size: Any
    chunks: List[Any]


@dataclasses.dataclass
class BytesStorageMetadata:
    pass


@dataclasses.dataclass
class Metadata:
    state_dict_metadata: Any
    planner_data: Any = None
    storage_data: Any = None


@dataclasses.dataclass(frozen=True)
class MetadataIndex:
    fqn: str
    offset: Any = None


class WriteItemType(enum.Enum):
    TENSOR = enum.auto()
    SHARD = enum.auto()
    BYTE_IO = enum.auto()


class LoadItemType(enum.Enum):
    TENSOR = enum.auto()
    BYTE_IO = enum.auto()


@dataclasses.dataclass(frozen=True)
class TensorWriteData:
    chunk: Any
    properties: Any
    size: Any


@dataclasses.dataclass(frozen=True)
class WriteItem:
    index: Any
    type: Any
    tensor_data: Optional[Any] = None


@dataclasses.dataclass(frozen=True)
class ReadItem:
    type: Any
    dest_index: Any
    dest_offsets: Any
    storage_index: Any
    storage_offsets: Any
    lengths: Any


@dataclasses.dataclass(frozen=True)
class SavePlan:
    items: List[Any]
    storage_data: Any = None
    planner_data: Any = None


@dataclasses.dataclass
class LoadPlan:
    items: List[Any]
    storage_data: Any = None
    planner_data: Any = None


@dataclasses.dataclass(frozen=True)
class WriteResult:
    index: Any
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    @abc.abstractmethod
    def reset(self, checkpoint_id=None): ...
    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator): ...
    @abc.abstractmethod
    def prepare_local_plan(self, plan): ...
    @abc.abstractmethod
    def prepare_global_plan(self, plans): ...
    @abc.abstractmethod
    def write_data(self, plan, planner): ...
    @abc.abstractmethod
    def finish(self, metadata, results): ...
    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id): ...


class StorageReader(abc.ABC):
    @abc.abstractmethod
    def reset(self, checkpoint_id=None): ...
    @abc.abstractmethod
    def read_metadata(self): ...
    @abc.abstractmethod
    def set_up_storage_reader(self, metadata, is_coordinator): ...
    @abc.abstractmethod
    def prepare_local_plan(self, plan): ...
    @abc.abstractmethod
    def prepare_global_plan(self, plans): ...
    @abc.abstractmethod
    def read_data(self, plan, planner): ...
    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id): ...


@dataclasses.dataclass
class Rows:
    """What a DTensor says of itself that is cut by rows. local: this rank's; first: its first row; rows: of all."""

    local: Any
    first: int
    rows: int

    @property
    def size(self):
        return torch.Size([self.rows, *self.local.shape[1:]])


class Group:
    """Collectives of ranks that are threads."""

    def __init__(self, world):
        self.world, self.slots, self.barrier = world, [None] * world, threading.Barrier(world, timeout=60)

    def gather(self, rank, value):
        self.barrier.wait()
        self.slots[rank] = value
        self.barrier.wait()
        return list(self.slots)


class SavePlanner:
    """Whole tensors and values, which all ranks have, are dealt out to the ranks, as torch's default planner does; of Rows each has its own."""

    def __init__(self, state, rank, world):
        self.state, self.items = state, []
        for number, (name, value) in enumerate(state.items()):
            is_mine = number % world == rank
            if isinstance(value, Rows):
                if len(value.local):
                    offsets = torch.Size([value.first] + [0] * (value.local.dim() - 1))
                    self._add(name, value.local, offsets, value.size, WriteItemType.SHARD)
            elif isinstance(value, torch.Tensor):
                if is_mine:
                    self._add(name, value, torch.Size([0] * value.dim()), value.shape, WriteItemType.TENSOR)
            elif is_mine:
                self.items.append(WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO))

    def _add(self, name, tensor, offsets, size, kind):
        chunk = ChunkStorageMetadata(offsets, tensor.shape)
        self.items.append(WriteItem(MetadataIndex(name, offsets), kind, TensorWriteData(chunk, TensorProperties(tensor.dtype), size)))

    def resolve_data(self, item):
        value = self.state[item.index.fqn]
        if item.type == WriteItemType.BYTE_IO:
            out = io.BytesIO()
            torch.save(value, out)
            return out
        return value.local if isinstance(value, Rows) else value


class LoadPlanner:
    def __init__(self, state, metadata):
        self.state, self.items = state, []
        for name, value in state.items():
            known = metadata.state_dict_metadata[name]
            if isinstance(known, BytesStorageMetadata):
                none = torch.Size((0,))
                self.items.append(ReadItem(LoadItemType.BYTE_IO, MetadataIndex(name), none, MetadataIndex(name), none, none))
                continue
            local, first, size = (value.local, value.first, value.size) if isinstance(value, Rows) else (value, 0, value.shape)
            assert known.size == size and known.properties.dtype == local.dtype
            for chunk in known.chunks:
                self._add(name, local, first, chunk)

    def _add(self, name, local, first, chunk):
        """What of the chunk this rank holds."""
        if local.dim() == 0:
            self.items.append(ReadItem(LoadItemType.TENSOR, MetadataIndex(name), torch.Size(), MetadataIndex(name, chunk.offsets),
                                       torch.Size(), torch.Size()))
            return
        begin, end = max(first, chunk.offsets[0]), min(first + len(local), chunk.offsets[0] + chunk.sizes[0])
        if begin < end:
            inner = [0] * (local.dim() - 1)
            self.items.append(ReadItem(LoadItemType.TENSOR, MetadataIndex(name), torch.Size([begin - first, *inner]),
                                       MetadataIndex(name, chunk.offsets), torch.Size([begin - chunk.offsets[0], *inner]),
                                       torch.Size([end - begin, *local.shape[1:]])))

    def load_bytes(self, item, value):
        self.state[item.dest_index.fqn] = torch.load(value)

    def resolve_tensor(self, item):
        value = self.state[item.dest_index.fqn]
        local = value.local if isinstance(value, Rows) else value
        for dim, (offset, length) in enumerate(zip(item.dest_offsets, item.lengths)):
            local = local.narrow(dim, offset, length)
        return local

    def commit_tensor(self, item, tensor):
        pass


def save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None, rank=0):
    group, is_coordinator = process_group or Group(1), rank == 0
    storage_writer.reset(checkpoint_id)
    planner = SavePlanner(state_dict, rank, group.world)
    storage_writer.set_up_storage_writer(is_coordinator)
    plans = group.gather(rank, storage_writer.prepare_local_plan(SavePlan(planner.items)))
    plans = group.gather(rank, storage_writer.prepare_global_plan(plans) if is_coordinator else None)[0]
    results = storage_writer.write_data(plans[rank], planner).wait()
    results = group.gather(rank, results)
    if is_coordinator:
        storage_writer.finish(Metadata({}), results)
    group.gather(rank, None)


def load(state_dict, *, checkpoint_id=None, storage_reader=None, planner=None, process_group=None, rank=0):
    group, is_coordinator = process_group or Group(1), rank == 0
    storage_reader.reset(checkpoint_id)
    metadata = storage_reader.read_metadata()
    planner = LoadPlanner(state_dict, metadata)
    storage_reader.set_up_storage_reader(metadata, is_coordinator)
    plans = group.gather(rank, storage_reader.prepare_local_plan(LoadPlan(planner.items)))
    plans = group.gather(rank, storage_reader.prepare_global_plan(plans) if is_coordinator else None)[0]
    storage_reader.read_data(plans[rank], planner).wait()
    group.gather(rank, None)


def install():
    """Puts the stand-in in place of the module, which Debian's build of torch 1.13 has not."""
    here = sys.modules[__name__]
    package = types.ModuleType("torch.distributed.checkpoint")
    package.save, package.load = save, load
    sys.modules[package.__name__] = package
    for name in ("metadata", "planner", "storage"):
        sys.modules[f"{package.__name__}.{name}"] = here
