"""Reading a committed checkpoint."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from .._errors import CheckpointError, DamagedError
from . import _native, boxes, tensors, typed
from . import format as fmt
from .boxes import Box
from .sections import RanksFile, Row
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
        self.objects_of_all: Dict[str, Dict[str, Any]] = self.manifest["objects"]
        self.objects_of_all.setdefault(SHARDED, {})  # checkpoints of an earlier SDK have none
        self.stored = Stored(self.info, self.make, self.is_sharded)
        boxed = self.manifest.get("boxes", {})
        self._numbers = {name: number for number, name in enumerate(boxed)}
        self._dims = [len(item["shape"]) for item in boxed.values()]
        self._ranks = RanksFile(directory, self.manifest["sections"]) if "sections" in self.manifest else None
        self._sections: Dict[int, Dict[str, Any]] = {}
        self._rows: Dict[int, List[Tuple[int, Row]]] = {}  # of boxed tensors, all that hold something of _sought
        self._sought: Dict[int, Box] = {}
        self._files: Dict[str, int] = {}
        self._wanted: Mapping[str, Box] = {}
        self._loaded: Dict[Tuple[str, str], Any] = {}  # (name, library) -> a tensor nobody has yet

    def verify(self) -> None:
        """Reads every byte and compares it with the manifest, and sees that every element of every tensor is there
        once. Errors: DamagedError naming what differs; OSError."""
        for name in self.names():
            dtype, shape = self.info(name)
            flaw = boxes.flaw([part.box for part in self._parts(name, boxes.whole(shape)) if boxes.volume(part.box)], shape)
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
        names = {key: None for tree in trees for key in tensors_of(tree)}
        self.locate({name: self._box(name) for name, _ in names})
        native = _native.find()
        if native is None or self.manifest["chunk_bytes"] != fmt.CHUNK_BYTES:
            for file, record in self.manifest["files"].items():
                fmt.check_file(self._path(file), record, self.manifest["chunk_bytes"])
            return
        numbers = {name: number for number, name in enumerate(self.manifest["files"])}
        loaded, pieces = {}, []
        for name, lib in names:
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

    def locate(self, wanted: Mapping[str, Box]) -> None:
        """Looks up where boxes of tensors lie, all at once, and compares every byte of what ranks have on record.

          wanted: {tensor: box}.   Errors: DamagedError; OSError or CheckpointError where the file system fails.
        """
        if self._ranks is not None:
            self._seek({self._numbers[name]: box for name, box in wanted.items() if name in self._numbers})

    def names(self) -> "Iterator[str]":
        """Yields the names of all tensors."""
        yield from self.manifest["tensors"]
        yield from self._numbers
        for rank in range(self.ranks):
            yield from self._section(rank)["tensors"]

    @property
    def ranks(self) -> int:
        """How many ranks have stored something of their own."""
        return len(self.manifest["ranks"] if self._ranks is None else self._ranks)

    def local(self, rank: int) -> "Dict[str, Any]":
        """{object: typed JSON} of what `rank` alone has. Errors: DamagedError; OSError."""
        return dict(self._section(rank)["local"])

    def is_sharded(self, name: str) -> bool:
        """True if it was saved as boxes. Errors: KeyError."""
        return name in self._numbers or any("box" in part for part in self._item(name).get("parts", ()))

    def info(self, name: str) -> Tuple[str, Tuple[int, ...]]:
        """(dtype, shape) of a tensor. Errors: KeyError."""
        item = self._item(name)
        return item["dtype"], tuple(item["shape"])

    def read(self, name: str, box: Optional[Box] = None) -> bytearray:
        """A tensor's bytes, or those of a box of it, row-major, put together from the ranks' parts."""
        target = boxes.whole(self.info(name)[1]) if box is None else box
        size = ITEM_BYTES[self.info(name)[0]]
        out = bytearray(boxes.volume(target) * size)
        for part, runs in self.sources(name, target):
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

        groups = {group: {name: grow(tree) for name, tree in trees.items()} for group, trees in self.objects_of_all.items()}
        return {**groups, "ranks": [{name: grow(tree) for name, tree in self.local(rank).items()} for rank in range(self.ranks)]}

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

    def _item(self, name: str) -> "Dict[str, Any]":
        """What is on record of a tensor. Errors: KeyError if there is none of this name."""
        group, _, rest = name.partition("/")
        if group == "local" and self._ranks is not None and rest[:5].isdigit() and int(rest[:5]) < self.ranks:
            return dict(self._section(int(rest[:5]))["tensors"][name])
        known = self.manifest["boxes"] if name in self._numbers else self.manifest["tensors"]
        return dict(known[name])

    def _section(self, rank: int) -> "Dict[str, Any]":
        if self._ranks is None:
            return {"local": self.manifest["ranks"][rank], "tensors": {}}
        if rank not in self._sections:
            self._sections[rank] = self._ranks.text(rank)
        return self._sections[rank]

    def _seek(self, wanted: "Dict[int, Box]") -> None:
        """Looks for the rows of boxed tensors. Errors: DamagedError."""
        assert self._ranks is not None
        self._rows, self._sought = self._ranks.find(self._dims, wanted), wanted

    def _rows_of(self, number: int, target: Box) -> "List[Tuple[int, Row]]":
        known = self._sought.get(number)
        if known is None or not boxes.contains(known, target):
            # All at once: whoever asks for one this way asks for all.
            self._seek({number: boxes.whole(item["shape"]) for number, item in enumerate(self.manifest["boxes"].values())})
        return self._rows.get(number, [])

    def _parts(self, name: str, target: Box) -> Iterator[_Part]:
        """Yields at least those that hold something of `target`. Errors: DamagedError."""
        item = self._item(name)
        shape = tuple(item["shape"])
        size = ITEM_BYTES[item["dtype"]]
        stored: "List[Tuple[str, int, List[Tuple[Box, int]]]]"  # file, offset there, boxes and how many elements are before each
        if name in self._numbers:
            stored = [(self._section(rank)["file"], row.offset, [(row.box, 0)]) for rank, row in self._rows_of(self._numbers[name], target)]
        elif "parts" not in item:
            stored = [(self._section(int(name[len("local/"):][:5]))["file"], item["offset"], [(boxes.whole(shape), 0)])]
        else:
            stored = [(part["file"], part["offset"], [(tuple((start, stop) for start, stop in part["box"]), 0)] if "box" in part else
                       list(boxes.of_range(part["range"][0], part["range"][1], shape))) for part in item["parts"]]
        for name_of_file, offset, found in stored:
            file = self.manifest["files"].get(name_of_file)
            nbytes = sum(boxes.volume(box) for box, _ in found) * size
            if (file is None or not 0 <= offset <= file["bytes"] - nbytes
                    or not all(boxes.is_within(box, shape) for box, _ in found)):
                raise DamagedError(f"{self.directory}: the manifest's parts of {name} do not fit")
            for box, before in found:
                yield _Part(name_of_file, offset + before * size, box)

    def sources(self, name: str, target: Box) -> "Iterator[Tuple[_Part, boxes.Strided]]":
        """The parts that hold something of `target`, and how it gets there. Errors: DamagedError."""
        size = ITEM_BYTES[self.info(name)[0]]
        missing = boxes.volume(target)
        for part in self._parts(name, target):
            both, runs = boxes.intersect(part.box, target), boxes.runs(part.box, target, size)
            if both is not None and runs is not None and missing:
                missing -= boxes.volume(both)
                yield part, runs
        if missing:
            raise DamagedError(f"{self.directory}: not every element of {name} is stored once")

    def _pieces(self, name: str, address: int, numbers: Mapping[str, int]) -> "List[_native.Piece]":
        """Where what make() gives of a tensor is, and where it goes. Errors: DamagedError."""
        return [_native.Piece(numbers[part.file], part.offset + runs.from_, runs.nbytes, address + runs.to, runs.dims)
                for part, runs in self.sources(name, self._box(name))]

    def _path(self, file: str) -> str:
        if os.path.basename(file) != file:
            raise DamagedError(f"{self.directory}: the manifest names a file outside the folder: {file!r}")
        return os.path.join(self.directory, file)

    def _open(self, file: str) -> int:
        if file not in self._files:
            self._files[file] = os.open(self._path(file), os.O_RDONLY | os.O_CLOEXEC)
        return self._files[file]
