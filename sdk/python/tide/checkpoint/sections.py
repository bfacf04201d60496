"""Sections: what each rank alone knows of a checkpoint, and RANKS.bin, the file of all of them (format.py).

At a thousand ranks of three thousand tensors the boxes are three million. As rows of numbers they are read in a fraction of a
second; as JSON they took minutes.
"""

from __future__ import annotations

import array
import json
import os
import zlib
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from .._errors import CheckpointError, DamagedError
from . import _native
from . import format as fmt
from .boxes import Box, intersect

RANKS = "RANKS.bin"
_WORD_BYTES = 8
_LEAST_WORDS = 2


class Row(NamedTuple):
    """A box that a rank stores. tensor: index among the checkpoint's boxed tensors; offset: bytes in the rank's data file."""

    tensor: int
    offset: int
    box: Box


class Section(NamedTuple):
    """One rank's. text: JSON; table: packed rows."""

    text: bytes
    table: bytes

    @property
    def record(self) -> "Dict[str, Any]":
        """How the part and the manifest describe it."""
        return {"text": len(self.text), "table": len(self.table), "crc32": f"{zlib.crc32(self.table, zlib.crc32(self.text)):08x}"}


def pack(rows: Iterable[Row]) -> bytes:
    """Returns the rows as a table."""
    return array.array("q", [word for row in rows for word in (row.tensor, row.offset, *(border for side in row.box for border in side))]).tobytes()


def unpack(table: bytes, dims: Sequence[int], where: str) -> "Iterable[Row]":
    """Yields a table's rows.

      dims: how many dimensions each boxed tensor has.   where: for messages.   Errors: DamagedError.
    """
    words = memoryview(table).cast("q") if len(table) % _WORD_BYTES == 0 else memoryview(b"\0" * _WORD_BYTES).cast("q")
    at = 0
    while at < len(words):
        end = at + _LEAST_WORDS + 2 * (dims[words[at]] if 0 <= words[at] < len(dims) else len(words))
        if end > len(words):
            raise DamagedError(f"{where}: the table of boxes does not fit")
        borders = words[at + _LEAST_WORDS:end].tolist()
        yield Row(words[at], words[at + 1], tuple(zip(borders[::2], borders[1::2])))
        at = end


class RanksFile:
    """RANKS.bin of one checkpoint, for reading. Nothing is kept open."""

    def __init__(self, directory: str, records: "Sequence[Mapping[str, Any]]") -> None:
        """records: the manifest's `sections`."""
        self._path, self._records = os.path.join(directory, RANKS), records
        self._starts = [0]
        for record in records:
            self._starts.append(self._starts[-1] + record["text"] + record["table"])

    def __len__(self) -> int:
        return len(self._records)

    def text(self, rank: int) -> "Dict[str, Any]":
        """The text of one section. Errors: DamagedError; OSError."""
        with self._open() as source:
            return dict(json.loads(self._read(source, rank).text))

    def find(self, dims: Sequence[int], wanted: "Mapping[int, Box]") -> "Dict[int, List[Tuple[int, Row]]]":
        """Reads every byte, compares it with the manifest, and looks for rows that hold something of what is wanted.

          dims: how many dimensions each boxed tensor has.   wanted: {index of a tensor: box}.
          Returns {index: [(rank, row)]}, each box once, in the order of ranks.
          Errors: DamagedError; OSError or CheckpointError where the file system fails.
        """
        with self._open() as source:
            size = os.fstat(source.fileno()).st_size
            if size != self._starts[-1]:
                raise DamagedError(f"{RANKS} has {size} bytes instead of {self._starts[-1]}")
            native = _native.find()
            found = self._scan(source, dims, wanted) if native is None else self._scan_natively(native, source, dims, wanted)
            once: "Dict[int, Dict[Box, Tuple[int, Row]]]" = {}
            for rank, row in found:
                once.setdefault(row.tensor, {}).setdefault(row.box, (rank, row))
            return {tensor: list(rows.values()) for tensor, rows in once.items()}

    def _scan(self, source: Any, dims: Sequence[int], wanted: "Mapping[int, Box]") -> "Iterable[Tuple[int, Row]]":
        for rank in range(len(self)):
            table = self._read(source, rank).table
            for row in unpack(table, dims, f"{RANKS}, rank {rank}") if wanted else ():
                if row.tensor in wanted and intersect(row.box, wanted[row.tensor]) is not None:
                    yield rank, row

    def _scan_natively(self, native: _native.Native, source: Any, dims: Sequence[int],
                       wanted: "Mapping[int, Box]") -> "Iterable[Tuple[int, Row]]":
        records = [number for record in self._records for number in (record["text"], record["table"], int(record["crc32"], 16))]
        result, why, words = native.find_rows(source.fileno(), records, dims, wanted)
        if result == _native.DAMAGED:
            raise DamagedError(f"{RANKS}, {why}")
        if result != _native.LOADED:
            raise CheckpointError(f"{self._path}: {why}; repair the file system or give another dir=")
        at = 0
        while at < len(words):
            rank, tensor, offset = words[at:at + 3]
            end = at + 3 + 2 * dims[tensor]
            yield rank, Row(tensor, offset, tuple(zip(words[at + 3:end:2], words[at + 4:end:2])))
            at = end

    def _open(self) -> Any:
        try:
            return open(self._path, "rb", buffering=0)
        except FileNotFoundError:
            raise DamagedError(f"{RANKS} is missing") from None

    def _read(self, source: Any, rank: int) -> Section:
        record = self._records[rank]
        data = bytes(fmt.read_at(source.fileno(), self._starts[rank], record["text"] + record["table"]))
        section = Section(data[:record["text"]], data[record["text"]:])
        if section.record["crc32"] != record["crc32"]:
            raise DamagedError(f"{RANKS}, rank {rank}: the section does not match its CRC-32")
        return section
