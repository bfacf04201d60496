"""Checkpoints in the format `tide-checkpoint/2` (described in format.py)."""

from typing import Any, Dict

from ._checkpoint import Checkpoint
from .optimizer import ShardedOptimizer
from .reader import Reader
from .shard import Shard
from .store import newest_committed
from .tensors import RawTensor

__all__ = ["Checkpoint", "RawTensor", "Reader", "Shard", "ShardedOptimizer", "load"]


def load(path: str) -> Dict[str, Any]:
    """Reads a checkpoint without the objects it was saved from.

      path: a checkpoint's folder, or a folder of checkpoints (the newest committed one is read).
      Returns {"replicated": {name: state}, "global": {name: state}, "sharded": {name: state}, "ranks": [{name: state}]}.
        Tensors are those of the library they were saved from if it is imported, else RawTensor(dtype, shape, bytes);
        those of sharded are whole.
      Errors: CheckpointError; DamagedError if a byte differs from what was saved.
    """
    with Reader(newest_committed(path)) as reader:
        reader.load(reader.objects_of_all, [reader.local(rank) for rank in range(reader.ranks)])
        return reader.objects()
