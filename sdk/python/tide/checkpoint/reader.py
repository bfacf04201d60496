"""Reading a committed checkpoint."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Tuple

from .._errors import CheckpointError, DamagedError
from . import _native, tensors, typed
from . import format as fmt
from .state import Stored, tensors_of
from .tensors import ITEM_BYTES, count

# So that one chunk is checked while the next is read.
_LEAST_THREADS = 2


class Reader:
    """One committed checkpoint. Not thread safe. Files stay open until close()."""

    def __init__(self, directory: str) -> None:
        """Errors: DamagedError for a bad manifest; CheckpointError for a newer format; FileNotFoundError."""
        self.directory = directory
        with open(os.path.join(directory, fmt.MANIFEST), "rb") as source:
            self.manifest: Dict[str, Any] = fmt.unseal(source.read(), source.name)
        self.stored = Stored(self.info, self.make)
        self._files: Dict[str, int] = {}
        self._loaded: Dict[Tuple[str, str], Any] = {}  # (name, library) -> a tensor nobody has yet

    def verify(self) -> None:
        """Reads every byte and compares it with the manifest. Errors: DamagedError naming what differs; OSError."""
        self.load()

    def load(self, *trees: Any) -> None:
        """verify(), and with the native core the tensors of these typed trees are made on the way.

          Errors: DamagedError naming what differs; OSError or CheckpointError where the file system fails.
        """
        native = _native.find()
        if native is None or self.manifest["chunk_bytes"] != fmt.CHUNK_BYTES:
            for file, record in self.manifest["files"].items():
                fmt.check_file(self._path(file), record, self.manifest["chunk_bytes"])
            return
        names = list(self.manifest["files"])
        numbers = {name: number for number, name in enumerate(names)}
        loaded, pieces = {}, []
        for name, lib in {key: None for tree in trees for key in tensors_of(tree)}:
            made = tensors.allocate(lib, *self.info(name)) if self._is_plain(name) else None
            if made is not None:
                loaded[name, lib] = made[0]
                pieces += self._pieces(name, made[1], numbers)
        files = [_native.FileRecord(self._path(name), record["bytes"], [int(crc, 16) for crc in record["crc32"]])
                 for name, record in self.manifest["files"].items()]
        for file in files:
            if len(file.crc32) != -(-file.bytes // fmt.CHUNK_BYTES):
                raise DamagedError(f"{os.path.basename(file.path)} has {len(file.crc32)} CRCs for {file.bytes} bytes")
        result, why = native.load(files, sorted(pieces), max(_LEAST_THREADS, _native.threads()))
        if result == _native.DAMAGED:
            raise DamagedError(why)
        if result != _native.LOADED:
            raise CheckpointError(f"{self.directory}: {why}; repair the file system or give another dir=")
        self._loaded = loaded

    def make(self, name: str, lib: str) -> Any:
        """A new tensor of `lib`. Errors: KeyError if there is none of this name."""
        loaded = self._loaded.pop((name, lib), None)
        return tensors.build(lib, *self.info(name), self.read(name)) if loaded is None else loaded

    def info(self, name: str) -> Tuple[str, Tuple[int, ...]]:
        """(dtype, shape) of a tensor. Errors: KeyError."""
        item = self.manifest["tensors"][name]
        return item["dtype"], tuple(item["shape"])

    def read(self, name: str) -> bytearray:
        """A whole tensor's bytes, row-major, put together from the ranks' parts."""
        item = self.manifest["tensors"][name]
        size = ITEM_BYTES[item["dtype"]]
        if len(item["parts"]) == 1 and "range" in item["parts"][0]:
            part = item["parts"][0]
            return fmt.read_at(self._open(part["file"]), part["offset"], part["length"])
        out = bytearray(count(item["shape"]) * size)
        for part in item["parts"]:
            if "range" not in part:
                raise CheckpointError(f"{self.directory}: {name} is stored as boxes, which this reader does not know; "
                                      "use the native SDK")
            start = part["range"][0] * size
            out[start:start + part["length"]] = fmt.read_at(self._open(part["file"]), part["offset"], part["length"])
        return out

    def objects(self) -> Dict[str, Any]:
        """{"replicated": {name: state}, "global": {…}, "ranks": [{name: state}]} with tensors as in tide.load."""
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

    def _is_plain(self, name: str) -> bool:
        return all("range" in part for part in self.manifest["tensors"][name]["parts"])

    def _pieces(self, name: str, address: int, numbers: Mapping[str, int]) -> "List[Tuple[int, int, int, int]]":
        """Where a tensor's parts are, and where they go: (file, offset, bytes, address). Errors: DamagedError."""
        item = self.manifest["tensors"][name]
        size, nbytes = ITEM_BYTES[item["dtype"]], count(item["shape"]) * ITEM_BYTES[item["dtype"]]
        pieces = []
        for part in item["parts"]:
            begin = part["range"][0] * size
            if part["file"] not in numbers or begin < 0 or begin + part["length"] > nbytes:
                raise DamagedError(f"{self.directory}: the manifest's parts of {name} do not fit")
            if part["length"]:
                pieces.append((numbers[part["file"]], part["offset"], part["length"], address + begin))
        return pieces

    def _path(self, file: str) -> str:
        if os.path.basename(file) != file:
            raise DamagedError(f"{self.directory}: the manifest names a file outside the folder: {file!r}")
        return os.path.join(self.directory, file)

    def _open(self, file: str) -> int:
        if file not in self._files:
            self._files[file] = os.open(self._path(file), os.O_RDONLY | os.O_CLOEXEC)
        return self._files[file]
