"""What a program says of state that no rank holds whole."""

from __future__ import annotations

from typing import Any, Sequence

from .._errors import CheckpointError
from . import boxes, tensors


class Shard:
    """One rank's box of a global tensor, as a leaf of what is given as sharded=.

      tensor: the box's content: a tensor of torch or numpy, array.array, or RawTensor. It may have no elements, where
        this rank holds nothing of the global tensor. resume() fills it in place, except a RawTensor, which is replaced.
      offsets: where the box begins in the global tensor, one number a dimension.
      shape: of the global tensor, equal on all ranks.
      replica: 0 stores the box. Ranks that hold a copy of a box that another rank stores may give any other number;
        where several store the same box, the lowest rank's content counts.
      Errors: CheckpointError where the box does not lie in the global tensor.

    The boxes of all ranks fill the global tensor and do not overlap, except where they are the same box.
    """

    __slots__ = ("tensor", "offsets", "shape", "replica")

    def __init__(self, tensor: Any, offsets: Sequence[int], shape: Sequence[int], replica: int = 0) -> None:
        if tensors.library(tensor) is None:
            raise CheckpointError(f"tide.Shard: a {type(tensor).__qualname__} is no tensor; give one of torch or numpy, an "
                                  "array.array or a RawTensor")
        self.tensor = tensor
        self.offsets = tuple(int(offset) for offset in offsets)
        self.shape = tuple(int(size) for size in shape)
        self.replica = replica
        self.check("tide.Shard")

    @property
    def box(self) -> boxes.Box:
        return boxes.at(self.offsets, tensors.signature(self.tensor, "tide.Shard")[0])

    def check(self, path: str) -> None:
        """Errors: CheckpointError where the tensor, as it is now, is no box of the global one; path: for messages."""
        local = tensors.signature(self.tensor, path)[0]
        if not len(local) == len(self.offsets) == len(self.shape):
            raise CheckpointError(f"{path}: a tensor of shape {list(local)} with offsets {list(self.offsets)} in a global "
                                  f"tensor of shape {list(self.shape)}; give one offset and one size for each dimension")
        if not boxes.is_within(self.box, self.shape):
            raise CheckpointError(f"{path}: the box {boxes.text(self.box)} is not inside the global shape {list(self.shape)}; "
                                  "give offsets= in elements, and shape= of the whole tensor")

    def __repr__(self) -> str:
        return f"Shard({boxes.text(self.box)} of {list(self.shape)})"
