"""Reading a committed checkpoint."""

from __future__ import annotations

import os
from typing import Any, Dict, Tuple

from .._errors import CheckpointError, DamagedError
from . import format as fmt
from . import typed
from .state import Stored
from .tensors import ITEM_BYTES, count


class Reader:
    """One committed checkpoint. Not thread safe. Files stay open until close()."""

    def __init__(self, directory: str) -> None:
        """Errors: DamagedError for a bad manifest; CheckpointError for a newer format; FileNotFoundError."""
        self.directory = directory
        with open(os.path.join(directory, fmt.MANIFEST), "rb") as source:
            self.manifest: Dict[str, Any] = fmt.unseal(source.read(), source.name)
        self.stored = Stored(self.info, self.read)
        self._files: Dict[str, int] = {}

    def verify(self) -> None:
        """Reads every byte and compares it with the manifest. Errors: DamagedError naming what differs."""
        for file, record in self.manifest["files"].items():
            fmt.check_file(os.path.join(self.directory, file), record, self.manifest["chunk_bytes"])

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
            return typed.decode(tree, self.stored.make)

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

    def _open(self, file: str) -> int:
        if file not in self._files:
            if os.path.basename(file) != file:
                raise DamagedError(f"{self.directory}: the manifest names a file outside the folder: {file!r}")
            self._files[file] = os.open(os.path.join(self.directory, file), os.O_RDONLY | os.O_CLOEXEC)
        return self._files[file]
