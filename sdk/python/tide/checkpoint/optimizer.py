"""The state of an optimizer whose parameters are shards."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, Optional, Tuple

from .._errors import CheckpointError
from . import boxes, dtensor, tensors
from .shard import Shard

_OF_PARAMETER = re.compile(r"state\.(\d+)\..+")


class ShardedOptimizer:
    """An optimizer of torch, to be given under sharded=: its tensors follow the parameters they belong to.

      optimizer: with state_dict(), load_state_dict() and param_groups as torch.optim has them.
      shards: Shards whose tensors are the optimizer's parameters themselves, not copies and not `.data`. Parameters
        without one are whole on every rank, or DTensors, which need none.
      Errors: CheckpointError for a Shard whose tensor the optimizer does not have.
    A tensor of a parameter's state that has the shape of this rank's part of it is that box of a global one; others,
    such as step counters, are equal on all ranks.
    """

    def __init__(self, optimizer: Any, shards: Iterable[Shard] = ()) -> None:
        self._optimizer = optimizer
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        numbers = {id(parameter): number for number, parameter in enumerate(parameters)}
        self._shards: Dict[int, Shard] = {}
        self._models = {number: parameter for number, parameter in enumerate(parameters) if dtensor.is_dtensor(parameter)}
        for shard in shards:
            if id(shard.tensor) not in numbers:
                raise CheckpointError(f"tide.ShardedOptimizer: the tensor of {shard!r} is no parameter of the optimizer; give "
                                      "tide.Shard the parameter itself")
            self._shards[numbers[id(shard.tensor)]] = shard

    def state_dict(self) -> Dict[str, Any]:
        state = self._optimizer.state_dict()
        return {**state, "state": {number: self._wrapped(number, items) for number, items in state["state"].items()}}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        bare = {number: {key: self._bare(number, item) for key, item in items.items()} for number, items in state["state"].items()}
        self._optimizer.load_state_dict({**state, "state": bare})

    def _bare(self, number: int, item: Any) -> Any:
        if not isinstance(item, Shard):
            return item
        return dtensor.like(item.tensor, self._models[number]) if number in self._models else item.tensor

    def shard_at(self, path: str, shape: Tuple[int, ...]) -> Optional[boxes.Box]:
        """What this rank holds of a stored state tensor of that global shape; None: all of it, or nobody knows.

        Optimizers have no state before their first step, so there are no Shards to look at then.
        """
        match = _OF_PARAMETER.fullmatch(path)
        number = int(match[1]) if match else -1
        shard = dtensor.shard_of(self._models[number], path) if number in self._models else self._shards.get(number)
        return shard.box if shard is not None and shard.shape == shape else None

    def _wrapped(self, number: int, items: Dict[str, Any]) -> Dict[str, Any]:
        shard = self._shards.get(number)
        if shard is None:
            return items
        sizes = tensors.signature(shard.tensor, "tide.ShardedOptimizer")[0]
        return {key: Shard(item, shard.offsets, shard.shape, shard.replica)
                if tensors.library(item) is not None and tensors.signature(item, key)[0] == sizes else item
                for key, item in items.items()}
