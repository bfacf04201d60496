"""The native core, libtide.so and tide-saver, where they are installed (sdk/native/abi.h).

Looked for in the folder that TIDE_NATIVE names ("0": not at all), in this package, and in the build of a source tree.
Without them this package does everything in Python, with the same bytes and more slowly.
"""

from __future__ import annotations

import array
import ctypes
import os
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .._errors import warn

_ABI_VERSION = 5
_HERE = os.path.dirname(os.path.abspath(__file__))
LOADED, DAMAGED, UNREADABLE = range(3)
_DIM_BYTES = 24
_ROOM_WORDS = 1 << 16


class _File(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("bytes", ctypes.c_uint64), ("crc32", ctypes.c_void_p)]


class _Message(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("bytes", ctypes.c_uint64)]


class _DeviceSpan(ctypes.Structure):
    _fields_ = [("to", ctypes.c_void_p), ("from_", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("stream", ctypes.c_uint64), ("device", ctypes.c_int32)]


class _Loading(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_uint32), ("ring", ctypes.c_char_p), ("ranks", ctypes.c_uint32), ("rank", ctypes.c_uint32)]


class _Search(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int32), ("sections", ctypes.c_void_p), ("section_count", ctypes.c_uint64),
                ("dims", ctypes.c_void_p), ("wanted", ctypes.c_void_p), ("tensor_count", ctypes.c_uint64),
                ("boxes", ctypes.c_void_p), ("rows", ctypes.c_void_p), ("room", ctypes.c_uint64), ("words", ctypes.c_uint64)]


class Ring(NamedTuple):
    """Where the ranks of one node hand on to each other what they read. path: on a tmpfs, of this load alone; rank: of those
    on this node."""

    path: str
    ranks: int
    rank: int


class FileRecord(NamedTuple):
    """A data file as its manifest describes it. crc32: of each chunk."""

    path: str
    bytes: int
    crc32: Sequence[int]


class Piece(NamedTuple):
    """Runs of bytes in a data file, and where they go. file: index; offset, to: of the first run, to is an address;
    bytes: of each run; dims: as those of boxes.Strided."""

    file: int
    offset: int
    bytes: int
    to: int
    dims: Tuple[Tuple[int, int, int], ...] = ()


class Cuda:
    """NVIDIA's driver by way of the native core (sdk/native/cuda.h)."""

    def __init__(self, library: ctypes.CDLL, handle: int) -> None:
        self._library, self._handle = library, handle

    def register(self, device: int, address: int, nbytes: int) -> bool:
        """Page-locks memory for copies from devices; any thread. False where the driver refuses."""
        return self._library.tide_cuda_register(self._handle, device, address, nbytes) == 0

    def unregister(self, device: int, address: int) -> None:
        self._library.tide_cuda_unregister(self._handle, device, address)

    def copy(self, spans: "Sequence[Tuple[int, int, int, int, int]]") -> bool:
        """Copies (to, from, bytes, stream, device) of each span and waits. False, after a warning: one failed."""
        error, message = _message()
        table = (_DeviceSpan * len(spans))(*(_DeviceSpan(*span) for span in spans))
        if self._library.tide_cuda_copy(self._handle, table, len(spans), ctypes.byref(message)) == 0:
            return True
        warn(f"cannot copy out of device memory by the driver: {_text(error)}; PyTorch does it, more slowly")
        return False


class Native:
    """The library's functions. All of them let other Python threads run meanwhile."""

    def __init__(self, library: ctypes.CDLL, saver: Optional[str]) -> None:
        """saver: path of the program tide-saver, None where it is missing."""
        self.saver = saver
        self._library = library
        library.tide_crc32.restype = ctypes.c_uint32
        library.tide_crc32.argtypes = [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64]
        library.tide_copy.restype = None
        library.tide_copy.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32]
        library.tide_populate.restype = ctypes.c_int32
        library.tide_populate.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        library.tide_settle.restype = ctypes.c_int32
        library.tide_settle.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
        library.tide_load.restype = ctypes.c_int32
        library.tide_load.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64,
                                      ctypes.POINTER(_Loading), ctypes.POINTER(_Message)]

        library.tide_find_rows.restype = ctypes.c_int32
        library.tide_find_rows.argtypes = [ctypes.POINTER(_Search), ctypes.POINTER(_Message)]

        library.tide_cuda_open.restype = ctypes.c_void_p
        library.tide_cuda_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Message)]
        for function in (library.tide_cuda_register, library.tide_cuda_unregister, library.tide_cuda_copy):
            function.restype = ctypes.c_int32
        library.tide_cuda_register.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64]
        library.tide_cuda_unregister.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p]
        library.tide_cuda_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(_Message)]
        self._cuda: Optional[Cuda] = None
        self._cuda_tried = False

    def cuda(self) -> Optional[Cuda]:
        """The driver, looked for once; None where there is none. TIDE_CUDA_LIBRARY: another than libcuda.so.1."""
        if not self._cuda_tried:
            self._cuda_tried = True
            error, message = _message()
            name = os.environ.get("TIDE_CUDA_LIBRARY") or "libcuda.so.1"
            handle = self._library.tide_cuda_open(os.fsencode(name), ctypes.byref(message))
            if handle:
                self._cuda = Cuda(self._library, handle)
            else:
                warn(f"{_text(error)}; tensors on devices are copied by PyTorch, more slowly")
        return self._cuda

    def crc32(self, crc: int, address: int, nbytes: int) -> int:
        """Goes on from `crc`, 0 at the start; as zlib.crc32."""
        return self._library.tide_crc32(crc, address, nbytes)

    def copy(self, spans: Sequence[Tuple[int, int, int]], threads: int) -> None:
        """Copies (to, from, bytes) of each span; addresses. The spans do not overlap."""
        self.copy_flat(array.array("Q", [number for span in spans for number in span]), threads)

    def copy_flat(self, spans: "array.array[int]", threads: int) -> None:
        """Copies spans that are given as to, from and bytes, one after the other."""
        self._library.tide_copy(spans.buffer_info()[0], len(spans) // 3, threads)

    def populate(self, address: int, nbytes: int) -> bool:
        """Makes mapped pages present and writable. False where there is no memory for them."""
        return self._library.tide_populate(address, nbytes) == 0

    def settle(self, slot: int, verdict: int) -> bool:
        """Moves the verdict of the staging slot at this address away from "open". False: it was settled before."""
        return self._library.tide_settle(slot, verdict) == 1

    def load(self, files: Sequence[FileRecord], pieces: Sequence[Piece], threads: int,
             ring: "Optional[Ring]" = None) -> Tuple[int, str]:
        """Reads and checks whole files. Returns (LOADED, DAMAGED or UNREADABLE, what is wrong).

          pieces: sorted.   ring: of the ranks of this node that load the same, each with pieces of its own.
        """
        how = _Loading(threads, None, 1, 0) if ring is None else _Loading(threads, os.fsencode(ring.path), ring.ranks, ring.rank)
        crcs = [array.array("I", file.crc32) for file in files]
        table = (_File * max(1, len(files)))(*(
            _File(os.fsencode(file.path), file.bytes, crc.buffer_info()[0]) for file, crc in zip(files, crcs)))
        dims = array.array("Q", [number for piece in pieces for dim in piece.dims for number in dim])
        next_dim = dims.buffer_info()[0]
        flat = array.array("Q")
        for piece in pieces:
            flat.extend((*piece[:4], next_dim, len(piece.dims)))
            next_dim += len(piece.dims) * _DIM_BYTES
        error, message = _message()
        result = self._library.tide_load(table, len(files), flat.buffer_info()[0], len(pieces),
                                         ctypes.byref(how), ctypes.byref(message))
        return result, _text(error)


    def find_rows(self, fd: int, sections: Sequence[int], dims: Sequence[int],
                  wanted: "Mapping[int, Tuple[Tuple[int, int], ...]]") -> "Tuple[int, str, array.array[int]]":
        """Reads and checks RANKS.bin (sections.py). Returns (LOADED, DAMAGED or UNREADABLE, what is wrong, the rows that hold
        something of what is wanted: rank, tensor, offset, borders).

          sections: bytes of text, bytes of table, CRC-32 of each.   wanted: {tensor: box}.
        """
        records, sides, places = array.array("Q", sections), array.array("Q", dims), array.array("q", [-1]) * max(1, len(dims))
        borders = array.array("q")
        for tensor, box in wanted.items():
            places[tensor] = len(borders)
            borders.extend(border for side in box for border in side)
        rows = array.array("q", bytes(8 * _ROOM_WORDS))
        while True:
            search = _Search(fd, records.buffer_info()[0], len(sections) // 3, sides.buffer_info()[0], places.buffer_info()[0],
                             len(dims), borders.buffer_info()[0], rows.buffer_info()[0], len(rows), 0)
            error, message = _message()
            result = self._library.tide_find_rows(ctypes.byref(search), ctypes.byref(message))
            if result != LOADED or search.words <= len(rows):
                return result, _text(error), rows[:search.words] if result == LOADED else array.array("q")
            rows = array.array("q", bytes(8 * search.words))


def _message() -> "Tuple[ctypes.Array[ctypes.c_char], _Message]":
    """Room for what the library has to say."""
    text = ctypes.create_string_buffer(4096)
    return text, _Message(ctypes.cast(text, ctypes.c_char_p), len(text))


def _text(message: "ctypes.Array[ctypes.c_char]") -> str:
    return message.value.decode(errors="replace")


def threads() -> int:
    """How many threads a copy or load of this process may use: its CPUs, at most 4."""
    return max(1, min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1))


def find() -> Optional[Native]:
    """The native core, or None. Looked for once a process; one that does not fit is named on stderr."""
    global _found, _searched
    if not _searched:
        _found, _searched = _search(), True
    return _found


_found: Optional[Native] = None
_searched = False


def _search() -> Optional[Native]:
    for folder in _folders():
        path = os.path.join(folder, "libtide.so")
        if not os.path.exists(path):
            continue
        try:
            library = ctypes.CDLL(path)
            version = library.tide_abi_version()
        except (OSError, AttributeError) as error:
            warn(f"cannot use {path}: {error}; checkpoints are written in Python")
            continue
        if version != _ABI_VERSION:
            warn(f"{path} has version {version}, this SDK needs {_ABI_VERSION}; checkpoints are written in Python")
            continue
        saver = os.path.join(folder, "tide-saver")
        return Native(library, saver if os.access(saver, os.X_OK) else None)
    return None


def _folders() -> List[str]:
    chosen = os.environ.get("TIDE_NATIVE")
    if chosen:
        return [] if chosen == "0" else [chosen]
    source = os.path.join(_HERE, *[os.pardir] * 4)
    built = [os.path.join(source, "build", preset, "bin") for preset in ("release", "dev")]
    return [os.path.join(os.path.dirname(_HERE), "_native"), *(built if os.path.isdir(os.path.join(source, "sdk")) else [])]
