"""Reading a committed checkpoint."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from .._errors import CheckpointError, DamagedError
from . import _native, boxes, tensors, typed
from . import format as fmt
from .boxes import Box
from .shard import Shard
from .state import SHARDED, Stored, tensors_of
from .tensors import ITEM_BYTES

# So that one chunk is checked while the next is read.
_LEAST_THREADS = 4


class _Part(NamedTuple):
    """A box of a tensor in a data file. offset: of its first byte; it lies there without a gap."""

    file: str
    offset: int
    box: Box


class Reader:
    """One committed checkpoint. Not thread safe. Files stay open until close()."""

    def __init__(self, directory: str, ring: Optional[_native.Ring] = None) -> None:
        """ring: of the ranks of this node, where all of them load this checkpoint now.   Errors: DamagedError for a bad manifest; CheckpointError for a newer format; FileNotFoundError."""
        self.directory, self._ring = directory, ring
        with open(os.path.join(directory, fmt.MANIFEST), "rb") as source:
            self.manifest: Dict[str, Any] = fmt.unseal(source.read(), source.name)
        self.manifest["objects"].setdefault(SHARDED, {})  # checkpoints of an earlier SDK have none
        self.stored = Stored(self.info, self.make, self.is_sharded)
        self._files: Dict[str, int] = {}
        self._wanted: Mapping[str, Box] = {}
        self._loaded: Dict[Tuple[str, str], Any] = {}  # (name, library) -> a tensor nobody has yet

    def verify(self) -> None:
        """Reads every byte and compares it with the manifest, and sees that every element of every tensor is there
        once. Errors: DamagedError naming what differs; OSError."""
        for name in self.manifest["tensors"]:
            flaw = boxes.flaw([part.box for part in self._parts(name) if boxes.volume(part.box)], self.info(name)[1])
            if flaw is not None:
                raise DamagedError(f"{boxes.text(flaw.where)} of {name} is stored {'nowhere' if flaw.is_hole else 'twice'}")
        self.load()

    def load(self, *trees: Any, wanted: Optional[Mapping[str, Box]] = None) -> None:
        """Reads every byte, compares it with the manifest, and with the native core the tensors of these typed trees
        are made on the way.

          wanted: {tensor: box} of which make() shall give no more than that, as a Shard.
          Errors: DamagedError naming what differs; OSError or CheckpointError where the file system fails.
        """
        self._wanted = wanted or {}
        native = _native.find()
        if native is None or self.manifest["chunk_bytes"] != fmt.CHUNK_BYTES:
            for file, record in self.manifest["files"].items():
                fmt.check_file(self._path(file), record, self.manifest["chunk_bytes"])
            return
        names = list(self.manifest["files"])
        numbers = {name: number for number, name in enumerate(names)}
        loaded, pieces = {}, []
        for name, lib in {key: None for tree in trees for key in tensors_of(tree)}:
            made = tensors.allocate(lib, self.info(name)[0], boxes.extents(self._box(name)))
            if made is not None:
                loaded[name, lib] = made[0]
                pieces += self._pieces(name, made[1], numbers)
        files = [_native.FileRecord(self._path(name), record["bytes"], [int(crc, 16) for crc in record["crc32"]])
                 for name, record in self.manifest["files"].items()]
        for file in files:
            if len(file.crc32) != -(-file.bytes // fmt.CHUNK_BYTES):
                raise DamagedError(f"{os.path.basename(file.path)} has {len(file.crc32)} CRCs for {file.bytes} bytes")
        result, why = native.load(files, sorted(pieces), max(_LEAST_THREADS, _native.threads()), self._ring)
        if result == _native.DAMAGED:
            raise DamagedError(why)
        if result != _native.LOADED:
            raise CheckpointError(f"{self.directory}: {why}; repair the file system or give another dir=")
        self._loaded = loaded

    def make(self, name: str, lib: str) -> Any:
        """A new tensor of `lib`, or a Shard of what load() was asked for. Errors: KeyError if there is none of this name."""
        made = self._loaded.pop((name, lib), None)
        dtype, shape = self.info(name)
        box = self._box(name)
        if made is None:
            made = tensors.build(lib, dtype, boxes.extents(box), self.read(name, box))
        return Shard(made, [start for start, _ in box], shape) if name in self._wanted else made

    def is_sharded(self, name: str) -> bool:
        """True if it was saved as boxes. Errors: KeyError."""
        return any("box" in part for part in self.manifest["tensors"][name]["parts"])

    def info(self, name: str) -> Tuple[str, Tuple[int, ...]]:
        """(dtype, shape) of a tensor. Errors: KeyError."""
        item = self.manifest["tensors"][name]
        return item["dtype"], tuple(item["shape"])

    def read(self, name: str, box: Optional[Box] = None) -> bytearray:
        """A tensor's bytes, or those of a box of it, row-major, put together from the ranks' parts."""
        target = boxes.whole(self.info(name)[1]) if box is None else box
        size = ITEM_BYTES[self.info(name)[0]]
        out = bytearray(boxes.volume(target) * size)
        for part, runs in self._sources(name, target):
            fd, begin = self._open(part.file), part.offset + runs.from_
            if runs.nbytes == len(out):
                return fmt.read_at(fd, begin, runs.nbytes)
            data = fmt.read_at(fd, begin, boxes.end(runs) - runs.from_)
            boxes.copy(runs._replace(from_=0), memoryview(data), memoryview(out))
        return out

    def objects(self) -> Dict[str, Any]:
        """{"replicated": {name: state}, "global": {…}, "sharded": {…}, "ranks": [{name: state}]} with tensors as in
        tide.load."""
        def grow(tree: Any) -> Any:
            return typed.decode(tree, self.make)

        groups = {group: {name: grow(tree) for name, tree in trees.items()}
                  for group, trees in self.manifest["objects"].items()}
        return {**groups, "ranks": [{name: grow(tree) for name, tree in trees.items()}
                                    for trees in self.manifest["ranks"]]}

    def close(self) -> None:
        for fd in self._files.values():
            os.close(fd)
        self._files.clear()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _box(self, name: str) -> Box:
        """What make() gives of a tensor."""
        return self._wanted[name] if name in self._wanted else boxes.whole(self.info(name)[1])

    def _parts(self, name: str) -> Iterator[_Part]:
        """Errors: DamagedError."""
        dtype, shape = self.info(name)
        size = ITEM_BYTES[dtype]
        for part in self.manifest["tensors"][name]["parts"]:
            if "box" in part:
                found = [(tuple((start, stop) for start, stop in part["box"]), 0)]
            else:
                found = list(boxes.of_range(part["range"][0], part["range"][1], shape))
            file = self.manifest["files"].get(part["file"])
            nbytes = sum(boxes.volume(box) for box, _ in found) * size
            if (file is None or part["length"] != nbytes or not 0 <= part["offset"] <= file["bytes"] - nbytes
                    or not all(boxes.is_within(box, shape) for box, _ in found)):
                raise DamagedError(f"{self.directory}: the manifest's parts of {name} do not fit")
            for box, before in found:
                yield _Part(part["file"], part["offset"] + before * size, box)

    def _sources(self, name: str, target: Box) -> "Iterator[Tuple[_Part, boxes.Strided]]":
        """The parts that hold something of `target`, and how it gets there. Errors: DamagedError."""
        size = ITEM_BYTES[self.info(name)[0]]
        missing = boxes.volume(target)
        for part in self._parts(name):
            both, runs = boxes.intersect(part.box, target), boxes.runs(part.box, target, size)
            if both is not None and runs is not None and missing:
                missing -= boxes.volume(both)
                yield part, runs
        if missing:
            raise DamagedError(f"{self.directory}: not every element of {name} is stored once")

    def _pieces(self, name: str, address: int, numbers: Mapping[str, int]) -> "List[_native.Piece]":
        """Where what make() gives of a tensor is, and where it goes. Errors: DamagedError."""
        return [_native.Piece(numbers[part.file], part.offset + runs.from_, runs.nbytes, address + runs.to, runs.dims)
                for part, runs in self._sources(name, self._box(name))]

    def _path(self, file: str) -> str:
        if os.path.basename(file) != file:
            raise DamagedError(f"{self.directory}: the manifest names a file outside the folder: {file!r}")
        return os.path.join(self.directory, file)

    def _open(self, file: str) -> int:
        if file not in self._files:
            self._files[file] = os.open(self._path(file), os.O_RDONLY | os.O_CLOEXEC)
        return self._files[file]
