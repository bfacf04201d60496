"""The bytes of `tide-checkpoint/2`: data files, sections and sealed JSON.

A checkpoint is a folder `s<step, 12 digits>-<attempt, 4 hex digits>-<start, 8 hex digits>` with

  attempt  counts the starts of programs that saved in this folder; it is that of the job unless others saved there, too
  start    the start's nonce: no two starts write to one folder. Names of an earlier SDK end before it
  and, for what save() stores after the step was saved, `-2`, `-3` …: a committed folder is never written to again.

In it are

  d00000.safetensors …   one per rank; a valid safetensors file, header padded so that data starts on 4 KiB
  RANKS.bin              what each rank alone has, and which boxes of tensors it stores: the ranks' sections one after the other
  MANIFEST.json          written last; it is the commit

and, until the commit, `part-00000` (what a rank has written; it goes when rank 0 is about to commit, or when the rank gives
up), `shared.json` (rank 0's, below) and `failed-00000` (a rank could not).

MANIFEST.json: format, job, attempt, start, step, world, bytes, chunk_bytes,
  files    {file: {bytes, crc32: [hex per chunk of chunk_bytes, of the whole file from its first byte]}}
  tensors  {name: {dtype, shape, parts: [{file, offset, length, range}]}} of what is replicated and global; offset, length:
           bytes in the file; range: [first, last+1] element of the row-major flat tensor. A tensor's parts hold each element
           once, and are sorted by range.
  boxes    {name: {dtype, shape}} of the tensors that ranks hold in boxes (tide.Shard)
  objects  {"replicated": {object: typed JSON}, "global": {…}, "sharded": {…}}
  sections [{text, table, crc32} for each rank] text, table: bytes of its section's two halves; crc32: of both together
  crc32    last member; CRC-32 of every byte before `,"crc32"`
Tensor names are `replicated/OBJECT.PATH`, `global/OBJECT.PATH`, `sharded/OBJECT.PATH`, `local/RANK/OBJECT.PATH`.

A section: its text, JSON {file, local, tensors}, then its table.
  file     this rank's data file
  local    {object: typed JSON}
  tensors  {name: {dtype, shape, offset}} of what is local; offset: of the first byte in the file
  table    rows of signed 64-bit numbers, little endian: tensor (which of `boxes`, from 0), offset in the file, then [first,
           last+1] in each dimension of that tensor. A box's bytes are row-major over the box alone. Together the rows of a tensor
           hold each element once; a box that a lower rank has stored, too, counts there. A tensor without elements has no rows.

A part: one line of sealed JSON, then `shared` where it is there, then the section.
  format, step, attempt, start, world, rank, files, tensors, global as above; tensors: of the ranges that this rank stores
  digests  {tensor name: CRC-32 of its bytes}, where ranks compare what is replicated; the manifest leaves them out
  shared   {bytes, crc32, is_here} of JSON {replicated, sharded, boxes}, in which ranks agree. A rank leaves it out where rank 0's
           shared.json has the same bytes: at a thousand ranks it would be most of what rank 0 has to read.
  section  {text, table, crc32}

`tide-checkpoint/1` has no RANKS.bin: `tensors` holds all of them, those of boxes with parts {file, offset, length, box: [[first,
last+1] in each dimension]}, and `ranks` is [{object: typed JSON} for each rank]. It is read, and not written any more.
"""

from __future__ import annotations

import io
import json
import os
import re
import zlib
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple, Union

from .._errors import CheckpointError, DamagedError
from .._files import remove_quietly
from .device import DeviceBytes, in_memory
from .tensors import ITEM_BYTES

FORMAT = "tide-checkpoint/2"
READABLE = (FORMAT, "tide-checkpoint/1")
MANIFEST = "MANIFEST.json"
CHUNK_BYTES = 16 << 20
ALIGN = 4096
_DIRECTORY = re.compile(r"s(\d{12})-([0-9a-f]{4,8})(?:-([0-9a-f]{8})(?:-([1-9]\d{0,8}))?)?")
_SEAL = re.compile(rb',"crc32":"([0-9a-f]{8})"}\n\Z')


class Entry(NamedTuple):
    """One tensor, or a row-major slice of it, in a data file. shape: of what the file holds; address: of data's first
    byte, 0 where it is not known."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    data: "Union[memoryview, DeviceBytes]"
    address: int = 0


class Layout(NamedTuple):
    """A data file before it is written. header: its first bytes; entries: in the order of their data, which follows
    without a gap; offsets: {entry name: byte offset in the file}; bytes: the file's length."""

    header: bytes
    entries: List[Entry]
    offsets: Dict[str, int]
    bytes: int


class Name(NamedTuple):
    """What a checkpoint folder's name says. start: "" in names of an earlier SDK; generation: which save of this
    step by this start, from 1."""

    step: int
    attempt: int
    start: str
    generation: int = 1

    @property
    def age(self) -> "Tuple[int, ...]":
        """Smaller is older. A later start is newer whatever its steps, for training may have been taken back to an
        earlier one. In names without a start the attempt is one job's count, of several that may have saved there."""
        return (self.attempt if self.start else 0, self.step, self.generation, self.attempt)


def directory_name(name: Name) -> str:
    return (f"s{name.step:012d}-{name.attempt:04x}" + (f"-{name.start}" if name.start else "") +
            (f"-{name.generation}" if name.generation > 1 else ""))


def parse_directory(name: str) -> "Name | None":
    """None for a name that is no checkpoint folder's."""
    match = _DIRECTORY.fullmatch(name)
    return Name(int(match[1]), int(match[2], 16), match[3] or "", int(match[4] or 1)) if match else None


def to_json(record: Any) -> str:
    """The one way in which this format writes JSON."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


def seal(record: Dict[str, Any]) -> bytes:
    """JSON that carries its own CRC-32 as its last member."""
    return seal_text(to_json(record)[:-1])


def seal_text(text: str) -> bytes:
    """The same of JSON that lacks its last brace."""
    body = text.encode()
    return body + b',"crc32":"%08x"}\n' % zlib.crc32(body)


def unseal(data: bytes, what: str) -> Dict[str, Any]:
    """Errors: DamagedError if the text is torn or changed; CheckpointError if its format is newer than this SDK."""
    match = _SEAL.search(data)
    if match is None:
        raise DamagedError(f"{what} is cut short")
    if zlib.crc32(data[:match.start()]) != int(match[1], 16):
        raise DamagedError(f"{what} does not match its own CRC-32")
    record = json.loads(data)
    if record.get("format") not in READABLE:
        raise CheckpointError(f"{what} has format {record.get('format')!r}, this SDK reads {FORMAT!r}; update tide")
    return record


def lay_out(rank: int, entries: Sequence[Entry]) -> Layout:
    """Where everything lies in one rank's safetensors file."""
    # Wide items first: every tensor then starts at a multiple of its item size, as readers that map files expect.
    ordered = sorted(entries, key=lambda entry: (-ITEM_BYTES[entry.dtype], entry.name))
    header, offsets = _header(rank, ordered)
    return Layout(header, ordered, offsets, len(header) + sum(entry.data.nbytes for entry in ordered))


def write_data_file(directory: str, rank: int, name: str, layout: Layout) -> "Dict[str, Any]":
    """Writes one rank's safetensors file durably. name: of free_name().

      Returns {bytes, crc32}.
      Cost: one pass over the data for the CRC-32 and the write.   Errors: OSError.
    """
    temporary = os.path.join(directory, f"d{rank:05d}.tmp-{os.getpid()}")
    try:
        with open(temporary, "wb", buffering=0) as out:
            writer = _ChunkedWriter(out)
            writer.write(memoryview(layout.header))
            for entry in layout.entries:
                writer.write(in_memory(entry.data))
            record = writer.finish()
            os.fsync(out.fileno())
        os.rename(temporary, os.path.join(directory, name))
    except OSError:
        remove_quietly(temporary)
        raise
    return record


def check_file(path: str, record: Dict[str, Any], chunk_bytes: int) -> None:
    """Compares a data file with its manifest record. Errors: DamagedError naming file, chunk and byte range."""
    name = os.path.basename(path)
    try:
        data = open(path, "rb", buffering=0)
    except FileNotFoundError:
        raise DamagedError(f"{name} is missing") from None
    with data:
        size = os.fstat(data.fileno()).st_size
        if size != record["bytes"]:
            raise DamagedError(f"{name} has {size} bytes instead of {record['bytes']}")
        if len(record["crc32"]) != -(-size // chunk_bytes):
            raise DamagedError(f"{name} has {len(record['crc32'])} CRCs for {size} bytes")
        for index, expected in enumerate(record["crc32"]):
            chunk = read_at(data.fileno(), index * chunk_bytes, min(chunk_bytes, size - index * chunk_bytes))
            if f"{zlib.crc32(chunk):08x}" != expected:
                raise DamagedError(f"{name} chunk {index} (bytes {index * chunk_bytes} to "
                                   f"{index * chunk_bytes + len(chunk)}) does not match its CRC-32")


def digest(data: "Union[memoryview, DeviceBytes]") -> str:
    """The CRC-32 of a tensor's bytes, as eight hexadecimal digits."""
    return f"{zlib.crc32(in_memory(data)):08x}"


def read_at(fd: int, offset: int, length: int) -> bytearray:
    """Exactly `length` bytes. Errors: DamagedError at the end of the file."""
    out = bytearray(length)
    view, done = memoryview(out), 0
    while done < length:
        got = os.preadv(fd, [view[done:]], offset + done)
        if got == 0:
            raise DamagedError(f"a data file ends at byte {offset + done}")
        done += got
    return out


def _header(rank: int, entries: Sequence[Entry]) -> "Tuple[bytes, Dict[str, int]]":
    table: Dict[str, Any] = {"__metadata__": {"format": FORMAT, "rank": str(rank)}}
    position = 0
    starts: Dict[str, int] = {}
    for entry in entries:
        starts[entry.name] = position
        end = position + entry.data.nbytes
        table[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGN)  # the format allows trailing spaces for exactly this purpose
    base = 8 + len(text)
    return len(text).to_bytes(8, "little") + text, {name: base + start for name, start in starts.items()}


class _ChunkedWriter:
    """Writes a stream and takes the CRC-32 of each CHUNK_BYTES of it."""

    def __init__(self, out: "io.FileIO") -> None:
        self._out = out
        self._bytes = 0
        self._crc = 0
        self._crcs: List[str] = []

    def write(self, data: memoryview) -> None:
        position = 0
        while position < data.nbytes:
            room = CHUNK_BYTES - self._bytes % CHUNK_BYTES
            piece = data[position:position + room]
            done = 0
            while done < piece.nbytes:
                done += self._out.write(piece[done:])
            self._crc = zlib.crc32(piece, self._crc)
            self._bytes += piece.nbytes
            position += piece.nbytes
            if self._bytes % CHUNK_BYTES == 0:
                self._close_chunk()

    def finish(self) -> Dict[str, Any]:
        if self._bytes % CHUNK_BYTES:
            self._close_chunk()
        return {"bytes": self._bytes, "crc32": self._crcs}

    def _close_chunk(self) -> None:
        self._crcs.append(f"{self._crc:08x}")
        self._crc = 0


def data_file(rank: int) -> str:
    """The name that a rank's data file has, unless it is taken."""
    return f"d{rank:05d}.safetensors"


def free_name(directory: str, rank: int) -> str:
    """A name no earlier start of the same attempt used: its file may already be part of a commit."""
    name, number = data_file(rank), 1
    while os.path.lexists(os.path.join(directory, name)):
        name, number = f"d{rank:05d}-{number}.safetensors", number + 1
    return name
