"""Stand-in for torch.distributed.tensor.DTensor, with its documented attributes (torch 2.4): device_mesh, placements, to_local(),
from_local(). Debian's torch is older than that class. Of operations it has what optimizers and load_state_dict() need."""

import torch
from torch.utils._pytree import tree_map


class Replicate:
    def is_shard(self):
        return False

    def is_replicate(self):
        return True


class Shard:
    def __init__(self, dim):
        self.dim = dim

    def is_shard(self):
        return True

    def is_replicate(self):
        return False


class _StridedShard(Shard):
    """As FSDP2 has it, where tensor parallelism has cut the same dimension before."""


class Partial:
    def is_shard(self):
        return False

    def is_replicate(self):
        return False

    def __repr__(self):
        return "Partial(sum)"


class DeviceMesh:
    """shape: of the mesh; ranks count through it row by row."""

    def __init__(self, shape, rank):
        self.shape, self._rank = shape, rank

    def size(self, dim):
        return self.shape[dim]

    def get_coordinate(self):
        rest, found = self._rank, []
        for size in reversed(self.shape):
            found.insert(0, rest % size)
            rest //= size
        return found


class DTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, local, mesh, placements, shape, stride):
        made = torch.Tensor._make_wrapper_subclass(cls, shape, strides=stride, dtype=local.dtype, requires_grad=local.requires_grad)
        made._local, made.device_mesh, made.placements = local, mesh, tuple(placements)
        return made

    @staticmethod
    def from_local(local, device_mesh, placements, *, run_check=False, shape=None, stride=None):
        return DTensor(local, device_mesh, placements, shape, stride)

    def to_local(self):
        return self._local

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        model = next(item for item in torch.utils._pytree.tree_flatten((args, kwargs or {}))[0] if isinstance(item, DTensor))

        def unwrap(item):
            return item._local if isinstance(item, DTensor) else item

        out = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        if func.overloadpacket.__name__.endswith("_") and args and isinstance(args[0], DTensor):
            return args[0]

        def wrap(item):
            fits = isinstance(item, torch.Tensor) and not isinstance(item, DTensor) and item.shape == model._local.shape
            return DTensor(item, model.device_mesh, model.placements, model.shape, model.stride()) if fits else item

        return tree_map(wrap, out)


def cut(whole, mesh, placements):
    """The part of a rank of `mesh`."""
    local, coordinate = whole, mesh.get_coordinate()
    numbers = sorted(range(len(placements)), key=lambda number: isinstance(placements[number], _StridedShard))
    for number in numbers:
        placement = placements[number]
        if placement.is_shard():
            chunks = list(torch.chunk(local, mesh.size(number), placement.dim))
            while len(chunks) < mesh.size(number):
                chunks.append(chunks[0].narrow(placement.dim, 0, 0))
            local = chunks[coordinate[number]]
    return DTensor(local.clone(), mesh, placements, whole.shape, whole.stride())
