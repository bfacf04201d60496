"""manifest: what the records of a checkpoint of 1,024 ranks and 3,000 tensors cost: the commit, and reading them in one rank.

There are no data files but rank 0's: bytes of tensors are what `checkpoint` and `load` measure. The parts of the other ranks are
in their places when rank 0's saver, as in a job, commits; then ranks of a world of the same and of another size look for what
they need.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any, Dict, List, NamedTuple, Tuple

import common
from tide.checkpoint import _native, boxes, saver, sections, writer
from tide.checkpoint import format as fmt
from tide.checkpoint.reader import Reader
from tide.checkpoint.sections import Row, Section
from tide.checkpoint.staging import Slot

_TENSORS = 3000
_ROWS, _COLUMNS = 8192, 4096
_START = "d998b860"
_FILE_BYTES = 1 << 40  # on record; no more than that is looked at


def _name(number: int) -> str:
    return f"model.layers.{number // 12}.block.{number % 12}.weight"


def _tree(group: str, names: List[str]) -> Dict[str, Any]:
    return {"model": {name: {"$tensor": f"{group}/model.{name}", "lib": "torch"} for name in names}}


class Gang:
    """The parts of all ranks of one checkpoint. kind: "sharded", each tensor by rows, as FSDP has them; "replicated"; or "local",
    where each rank has its own tensors."""

    def __init__(self, folder: str, kind: str, world: int, tensors: int) -> None:
        self.kind, self.world = kind, world
        self.names = [_name(number) for number in range(tensors)]
        self.directory = os.path.join(folder, fmt.directory_name(fmt.Name(1, 1, _START)))
        os.makedirs(self.directory)
        shared: Dict[str, Any] = {"replicated": {}, "sharded": {}, "boxes": {}}
        if kind != "local":
            shared[kind] = _tree(kind, self.names)
        if kind == "sharded":
            shared["boxes"] = {f"sharded/model.{name}": {"dtype": "F32", "shape": [_ROWS, _COLUMNS]} for name in sorted(self.names)}
        self.shared = fmt.to_json(shared).encode()

    def identity(self, rank: int) -> writer.Identity:
        return writer.Identity(self.directory, "bench", 1, 1, _START, rank, self.world)

    def box(self, rank: int) -> boxes.Box:
        return (_ROWS * rank // self.world, _ROWS * (rank + 1) // self.world), (0, _COLUMNS)

    def part(self, rank: int) -> "Tuple[writer.PartText, str]":
        file = fmt.data_file(rank)
        rows, ranges, mine, local = [], {}, {}, {}
        if self.kind == "sharded":
            size = boxes.volume(self.box(rank)) * 4
            rows = [Row(number, 4096 + number * size, self.box(rank)) for number in range(len(self.names))]
        elif self.kind == "local":
            local = _tree(f"local/{rank:05d}", self.names)
            mine = {f"local/{rank:05d}/model.{name}": {"dtype": "F32", "shape": [_COLUMNS], "offset": 4096 + 4 * _COLUMNS * number}
                    for number, name in enumerate(self.names)}
        else:
            ranges = self._ranges(rank, file)
        text = fmt.to_json({"file": file, "local": local, "tensors": mine}).encode()
        tail = writer.tail_of(fmt.to_json({"tensors": ranges, "global": {}}))
        return writer.PartText(writer.part_head(self.identity(rank), file, _FILE_BYTES), tail, self.shared,
                               Section(text, sections.pack(rows))), file

    def _ranges(self, rank: int, file: str) -> Dict[str, Any]:
        """The rank's 1/N of all tensors in name order."""
        elements = _ROWS * _COLUMNS
        total, offset, found = elements * len(self.names), 4096, {}
        begin, end = total * rank // self.world, total * (rank + 1) // self.world
        for number in range(begin // elements, -(-end // elements)):
            first, last = max(begin - number * elements, 0), min(end - number * elements, elements)
            found[f"replicated/model.{sorted(self.names)[number]}"] = {"dtype": "F32", "shape": [_ROWS, _COLUMNS], "parts": [
                {"file": file, "offset": offset, "length": 4 * (last - first), "range": [first, last]}]}
            offset += 4 * (last - first)
        return found

    def write(self, rank: int) -> None:
        """Puts the part of one rank in its place, with no data file."""
        with open(writer.part_path(self.directory, rank), "wb") as out:
            out.write(writer.part_bytes(self.part(rank)[0], [], is_here=False))

    def objects(self, rank: int) -> Dict[str, Any]:
        """{tensor: box} of what a rank looks for."""
        if self.kind == "local":
            return {f"local/{rank:05d}/model.{name}": ((0, _COLUMNS),) for name in self.names}
        box = self.box(rank) if self.kind == "sharded" else ((0, _ROWS), (0, _COLUMNS))
        return {f"{self.kind}/model.{name}": box for name in self.names}


class _RankZero(NamedTuple):
    """What rank 0 gives its saver: a part, and a data file of one page."""

    gang: Gang
    nbytes: int = 4096

    def part(self, identity: writer.Identity, file: str) -> writer.PartText:
        return self.gang.part(0)[0]

    def fill(self, slot: Slot, ticket: bytes, native: _native.Native) -> None:
        slot.fill(fmt.Layout(bytes(4096), [], {}, 4096), ticket, native)


def commit(gang: Gang) -> float:
    """Has rank 0's saver commit: seconds from its own part until the manifest is in its place."""
    native = _native.find()
    assert native is not None and native.saver is not None, "the native core is built"
    ours = saver.Saver(native, [], False, lambda: True)
    staged, _ = ours.stage(gang.identity(0), _RankZero(gang), saver.Order(1, time.monotonic() + 600, time.monotonic()))
    assert staged is not None
    answer, _ = ours.wait(staged, time.monotonic() + 600)
    assert answer is not None and answer.error is None, answer
    return answer.total_s - answer.written_s


def limit(gang: Gang) -> float:
    """Seconds for reading the same parts, and writing what they hold once, durably."""
    def copy() -> None:
        with open(os.path.join(gang.directory, "limit"), "wb") as out:
            for rank in range(1, gang.world):
                with open(writer.part_path(gang.directory, rank), "rb") as source:
                    out.write(source.read())
            out.flush()
            os.fsync(out.fileno())
        os.unlink(out.name)

    return common.seconds(copy)


def read(gang: Gang, rank: int, wanted: Dict[str, boxes.Box]) -> float:
    """Seconds until a rank knows where all that it wants lies."""
    def look() -> None:
        with Reader(gang.directory) as reader:
            reader.local(rank)
            reader.locate(wanted)
            found = sum(1 for name, box in wanted.items() for _ in reader.sources(name, box))
            assert found >= len(wanted), (found, len(wanted))

    return common.seconds(look)


def measure(options: argparse.Namespace, folder: str, kind: str, world: int, tensors: int, rounds: int) -> None:
    name = kind
    if not common.wants(options, [name]) or not common.fits_memory(options, world * tensors * 700, name):
        return
    commits, limits, same, other = [], [], [], []
    goal = None if kind == "local" or options.quick else 1.0
    for _ in range(rounds):
        with common.fresh_folder(folder) as where:
            gang = Gang(where, kind, world, tensors)
            for rank in range(1, world):
                gang.write(rank)
            limits.append(limit(gang))
            commits.append(commit(gang))
            same.append(read(gang, world // 2, gang.objects(world // 2)))
            if kind != "local":
                # Of a world of three quarters of the size: no box is one that was stored.
                less = Gang(os.path.join(where, "less"), kind, world * 3 // 4, tensors)
                other.append(read(gang, 1, less.objects(less.world // 2)))
            size = os.path.getsize(os.path.join(gang.directory, sections.RANKS)) + os.path.getsize(os.path.join(gang.directory, fmt.MANIFEST))
    common.figure(f"{name}, commit", "max_ms", max(commits) * 1e3, rounds, at_most=goal and 2000 * goal)
    common.figure(f"{name}, over a copy of parts", "ratio", common.median_ratio(commits, limits), rounds)
    common.figure(f"{name}, read", "max_ms", max(same) * 1e3, rounds, at_most=goal and 500 * goal)
    if other:
        common.figure(f"{name}, read elsewhere", "max_ms", max(other) * 1e3, rounds, at_most=goal and 500 * goal)
    common.figure(f"{name}, records", "bytes", size, rounds)


def main() -> None:
    options = common.parse_arguments(__doc__)
    world, tensors, rounds = (8, 20, 1) if options.quick else (1024, _TENSORS, 3)
    with common.working_folder(options) as folder:
        for kind in ("sharded", "replicated", "local"):
            measure(options, folder, kind, world, tensors, rounds)


if __name__ == "__main__":
    main()
