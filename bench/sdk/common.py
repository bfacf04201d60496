"""What the SDK's benchmarks share: limits of the machine, a model-like state. With the figures of all."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import mmap
import os
import shutil
import statistics
import sys
import tempfile
import threading
from typing import Callable, Dict, Iterator, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "sdk", "python"), os.path.join(ROOT, "bench")]

from figures import figure, install_sdk, note, parse_arguments, percentile, seconds, wants, working_folder  # noqa: E402, F401

CHUNK_BYTES = 16 << 20
GIB = 1 << 30


def fits_memory(options: argparse.Namespace, nbytes: int, what: str) -> bool:
    """True where it takes at most a third of the memory that is free, with --large nine tenths. Says so where it does not."""
    available = available_bytes()
    room = available * 9 // 10 if options.large else available // 3
    if nbytes > room:
        hint = "" if options.large or nbytes > available * 9 // 10 else "; --large runs it"
        note(f"skipped: {what} needs {nbytes / GIB:.1f} GiB of memory, {room / GIB:.1f} of {available / GIB:.1f} GiB free may be used{hint}")
    return nbytes <= room


def available_bytes() -> int:
    """Returns what may still be allocated, without swapping."""
    with open("/proc/meminfo", encoding="ascii") as source:
        return next(int(line.split()[1]) << 10 for line in source if line.startswith("MemAvailable"))


@contextlib.contextmanager
def peak_memory(size: str) -> Iterator[None]:
    """Reports how much of the memory that was free the block has taken at most, by looking 50 times a second."""
    before = least = available_bytes()
    over = threading.Event()

    def watch() -> None:
        nonlocal least
        while not over.wait(0.02):
            least = min(least, available_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    figure(f"{size}, peak memory", "bytes", max(0, before - least))
    figure(f"{size}, peak memory of what was free", "ratio", max(0, before - least) / before)


def median_ratio(times: Sequence[float], limits: Sequence[float]) -> float:
    """The median of the ratios of pairs that were measured one after the other."""
    return statistics.median(time_s / limit_s for time_s, limit_s in zip(times, limits))


def make_state(nbytes: int, seed: int = 1) -> "Dict[str, object]":
    """{name: float32 tensor} of about nbytes in 148 tensors of very different sizes, as a transformer has them."""
    import torch
    torch.manual_seed(seed)
    layers, width = 12, 0
    unit = nbytes // 4 // (layers * 12 + 13)
    width = max(8, int(unit ** 0.5))
    state: Dict[str, object] = {"embed": torch.empty(13 * width, width)}
    for layer in range(layers):
        for name, rows in (("qkv", 3), ("out", 1), ("up", 4), ("down", 4)):
            state[f"{layer}.{name}.weight"] = torch.empty(rows * width, width)
            state[f"{layer}.{name}.bias"] = torch.empty(rows * width)
        for name in ("norm1", "norm2"):
            state[f"{layer}.{name}.weight"] = torch.empty(width)
            state[f"{layer}.{name}.bias"] = torch.empty(width)
    for tensor in state.values():
        tensor.uniform_(-1, 1)
    return state


def bytes_of(state: "Dict[str, object]") -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())


@contextlib.contextmanager
def fresh_folder(folder: str) -> Iterator[str]:
    """A folder in `folder` that ends with the block."""
    made = tempfile.mkdtemp(dir=folder)
    try:
        yield made
    finally:
        shutil.rmtree(made)


class Buffer:
    """Page-aligned memory that is there."""

    def __init__(self, nbytes: int) -> None:
        self.memory = mmap.mmap(-1, nbytes)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.nbytes = nbytes
        ctypes.memset(self.address, 1, nbytes)

    def copy_from(self, other: "Buffer", nbytes: int) -> None:
        """One memcpy of so much, again and again the same where it is more than there is: the limit of a stall."""
        for at in range(0, nbytes, self.nbytes):
            ctypes.memmove(self.address, other.address, min(self.nbytes, nbytes - at))


def write_direct(path: str, source: Buffer, nbytes: int) -> None:
    """The limit of a durable write: chunks past the page cache, two at a time, then fdatasync."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o600)
    view = memoryview(source.memory)

    def write(at: int, end: int) -> None:
        begin = at % (source.nbytes // CHUNK_BYTES * CHUNK_BYTES or CHUNK_BYTES)
        os.pwrite(fd, view[begin:begin + end - at], at)

    _in_chunks(nbytes // 4096 * 4096, write)
    os.fdatasync(fd)
    os.close(fd)


def read_direct(path: str, target: Buffer) -> None:
    """The limit of a cold load: the same the other way, by as many threads as a load has."""
    view = memoryview(target.memory)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    nbytes = os.fstat(fd).st_size

    def read(at: int, end: int) -> None:
        begin = at % (target.nbytes // CHUNK_BYTES * CHUNK_BYTES or CHUNK_BYTES)
        os.preadv(fd, [view[begin:begin + end - at]], at)

    _in_chunks(nbytes // 4096 * 4096, read, workers=4)
    os.close(fd)


def _in_chunks(nbytes: int, action: Callable[[int, int], object], workers: int = 2) -> None:
    starts = iter(range(0, nbytes, CHUNK_BYTES))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                at = next(starts, None)
            if at is None:
                return
            action(at, min(at + CHUNK_BYTES, nbytes))

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as source:
        fields = source.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def forget(path: str) -> None:
    """Has the next read of a file come from the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
