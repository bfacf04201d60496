"""A batch sampler whose whole state is the number of samples consumed, for any world size."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterator, List, Optional

from ._errors import TideError, warn
from ._run import attach

_ROUNDS = 4
_READ_AHEAD_MOST = 256  # batches: of a DataLoader with many workers


class Permutation:
    """A pseudo-random permutation of range(size), computed index by index from a key.

    A Feistel network over the next even number of bits, repeated until the value falls inside the range: a bijection
    for every key, with nothing to store. Fewer than four repetitions on average.
    """

    def __init__(self, size: int, key: str) -> None:
        self._size = size
        self._half_bits = max(1, ((max(size, 2) - 1).bit_length() + 1) // 2)
        self._mask = (1 << self._half_bits) - 1
        digest = hashlib.sha256(key.encode()).digest()
        self._keys = [int.from_bytes(digest[i * 8:i * 8 + 8], "little") for i in range(_ROUNDS)]

    def __call__(self, index: int) -> int:
        while True:
            index = self._once(index)
            if index < self._size:
                return index

    def _once(self, index: int) -> int:
        left, right = index >> self._half_bits, index & self._mask
        for key in self._keys:
            mixed = ((right + key) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
            mixed ^= mixed >> 29
            mixed = (mixed * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
            left, right = right, left ^ ((mixed >> 32) & self._mask)
        return (left << self._half_bits) | right


class Sampler:
    """Yields this rank's share of each global batch. Pass as DataLoader(batch_sampler=…), save under global_=.

      size: samples in the data set; global_batch: samples of a batch over all ranks; incomplete last batches are left
      out. Iterating goes from the current position to the end of the epoch.
      accumulate: batches that the program trains on in a step, where it accumulates gradients over several. An epoch has
      whole steps only: batches that are left over at its end are left out, too.

    The position moves in advance(), not while iterating: loader workers read ahead, and batches read but not trained
    on must be given again after a restart. Checkpoint.tick advances the samplers it holds, by `accumulate` batches a
    step. A program that reads many more batches than it counts is told so on stderr, once.
    Errors: TideError if an epoch has no whole batch or a rank would get no sample.
    """

    def __init__(self, size: int, global_batch: int, seed: int = 0, rank: Optional[int] = None,
                 world_size: Optional[int] = None, accumulate: int = 1) -> None:
        self.size, self.global_batch, self.seed = size, global_batch, seed
        self.rank = attach().rank if rank is None else rank
        self.world_size = attach().world_size if world_size is None else world_size
        self.accumulate = accumulate
        self.consumed = 0
        self._given = 0    # batches read in this process
        self._counted = 0  # batches advanced over in this process
        self._told = False
        if accumulate < 1:
            raise TideError(f"accumulate={accumulate} must be the number of batches in a step, at least 1")
        if not self.world_size <= global_batch <= size:
            raise TideError(f"global_batch={global_batch} must lie between the {self.world_size} ranks and the {size} "
                            "samples of the data set")
        self._batches = size // global_batch // accumulate * accumulate  # whole steps
        if self._batches == 0:
            raise TideError(f"accumulate={accumulate} batches of global_batch={global_batch} are more than the {size} samples of the "
                            "data set")

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._batches

    def __iter__(self) -> Iterator[List[int]]:
        epoch, done = divmod(self.consumed // self.global_batch, self._batches)
        order = Permutation(self.size, f"{self.seed}/{epoch}")
        first = self.global_batch * self.rank // self.world_size
        last = self.global_batch * (self.rank + 1) // self.world_size
        for batch in range(done, self._batches):
            self._given += 1
            yield [order(batch * self.global_batch + i) for i in range(first, last)]

    def advance(self, batches: int = 1) -> None:
        """Counts `batches` global batches as trained on."""
        self.consumed += batches * self.global_batch
        self._counted += batches
        # Loaders read some ahead; who reads half as many again as are counted trains on more than one in a step.
        if self._given > 1.5 * self._counted + _READ_AHEAD_MOST and not self._told:
            self._told = True
            warn(f"the sampler has given {self._given} batches and {self._counted} are counted as trained on: after a restart the "
                 "others are given again; with gradient accumulation say tide.Sampler(…, accumulate=batches in a step)")

    def advance_steps(self, steps: int) -> None:
        """Counts the batches of `steps` steps as trained on."""
        self.advance(steps * self.accumulate)

    def state_dict(self) -> Dict[str, Any]:
        return {"consumed": self.consumed, "size": self.size, "global_batch": self.global_batch, "seed": self.seed,
                "accumulate": self.accumulate}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Errors: TideError if data set, batch, seed or accumulate differ: samples would be repeated or left out unnoticed."""
        saved = {"accumulate": 1, **state}  # checkpoints of before do not name it
        for name in ("size", "global_batch", "seed", "accumulate"):
            if saved[name] != getattr(self, name):
                raise TideError(f"the sampler was saved with {name}={saved[name]}, the program has "
                                f"{getattr(self, name)}; use the saved value or start a new checkpoint folder")
        self.consumed = state["consumed"]
