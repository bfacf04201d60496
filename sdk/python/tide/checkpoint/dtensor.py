"""Distributed tensors of torch (DTensor: FSDP2, tensor parallelism, HSDP) as Shards, by their public attributes."""

from __future__ import annotations

import collections
import sys
from typing import Any, List

from .._errors import CheckpointError
from . import tensors
from .shard import Shard


def is_dtensor(value: Any) -> bool:
    """True for torch.distributed.tensor.DTensor, and what has its attributes."""
    return hasattr(value, "device_mesh") and hasattr(value, "placements") and hasattr(value, "to_local")


def shard_of(value: Any, path: str) -> Shard:
    """The box of the global tensor that this rank holds. Of ranks that hold copies of one box (HSDP) one stores it.

      path: for messages.   Errors: CheckpointError for partial sums, and for placements whose box is not known.
    """
    mesh, shape = value.device_mesh, tuple(value.shape)
    coordinate = mesh.get_coordinate()
    local = value.to_local()
    if coordinate is None:  # this rank is not in the mesh
        return Shard(local, [0] * len(shape), shape, replica=1)
    offsets, sizes, replica = [0] * len(shape), list(shape), 0
    for number in _order(value.placements):
        placement = value.placements[number]
        if placement.is_replicate():
            replica = replica or int(coordinate[number])
        elif placement.is_shard():
            first, size = _chunk(sizes[placement.dim], mesh.size(number), coordinate[number])
            offsets[placement.dim] += first
            sizes[placement.dim] = size
        else:
            raise CheckpointError(f"{path}: a DTensor with {placement!r} holds a part of each sum; redistribute() it first")
    if tuple(local.shape) != tuple(sizes):
        raise CheckpointError(f"{path}: of a DTensor of shape {list(shape)} with {value.placements!r} this rank holds "
                              f"{list(local.shape)}, not {sizes}; give its local part as tide.Shard(local, offsets, shape)")
    return Shard(local, offsets, shape, replica)


def as_shards(state: Any, path: str) -> Any:
    """The state with a Shard in place of each DTensor; as it is where there is none, which a program without torch.distributed.tensor
    does not pay for."""
    return _replaced(state, path) if possible() else state


def possible() -> bool:
    """False where the program cannot have any."""
    return "torch.distributed.tensor" in sys.modules or "torch.distributed._tensor" in sys.modules


def _replaced(value: Any, path: str) -> Any:
    if is_dtensor(value):
        return shard_of(value, path)
    kind = type(value)
    if kind in (list, tuple):
        return kind(_replaced(item, f"{path}.{index}") for index, item in enumerate(value))
    if kind in (dict, collections.OrderedDict):
        made = kind((key, _replaced(item, f"{path}.{key}")) for key, item in value.items())
        if hasattr(value, "_metadata"):
            made._metadata = value._metadata
        return made
    return value


def rejoined(new: Any, old: Any) -> Any:
    """`new`, a state as it was stored, with the program's DTensors in place of Shards, filled. old: the state as it is now."""
    if isinstance(new, Shard) and is_dtensor(old):
        tensors.fill(old.to_local(), new.tensor, "stored")
        return old
    if isinstance(new, dict) and isinstance(old, dict):
        for key in new:
            new[key] = rejoined(new[key], old.get(key))
    elif type(new) is list and isinstance(old, (list, tuple)):
        new[:] = [rejoined(item, old[index] if index < len(old) else None) for index, item in enumerate(new)]
    return new


def like(local: Any, model: Any) -> Any:
    """A DTensor of `local` that is cut as `model` is."""
    return type(model).from_local(local, model.device_mesh, model.placements, run_check=False, shape=model.shape,
                                  stride=model.stride())


def _order(placements: Any) -> List[int]:
    """Dimensions of the mesh in the order in which they cut. FSDP2 cuts what tensor parallelism has cut before, and says so by a
    placement of its own, which stands first."""
    return sorted(range(len(placements)), key=lambda number: type(placements[number]).__name__ == "_StridedShard")


def _chunk(size: int, parts: int, number: int) -> "tuple[int, int]":
    """(first, size) of a chunk, as torch.chunk cuts: the last ones may be smaller, or empty."""
    step = -(-size // parts)
    first = min(number * step, size)
    return first, min(step, size - first)
