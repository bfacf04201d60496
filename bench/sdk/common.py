"""What the SDK's benchmarks share: figures as JSON lines, limits of the machine, a model-like state."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import statistics
import sys
import threading
import time
from typing import Callable, Dict, List, Optional, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "sdk", "python"))
CHUNK_BYTES = 16 << 20


def figure(what: str, metric: str, value: float, n: int = 1, at_most: Optional[float] = None,
           at_least: Optional[float] = None) -> None:
    """One line for tide-bench. metric: a name of bench/bench.h."""
    target = None if at_most is None and at_least is None else (at_least if at_most is None else at_most)
    print(json.dumps({"case": what, "metric": metric, "value": value, "n": n, "target": target,
                      "at_most": at_least is None}), flush=True)


def note(text: str) -> None:
    """Something a person should know about the figures; goes to stderr."""
    print(text, file=sys.stderr, flush=True)


def seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank: the smallest value that at least `percent` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100).__int__() - 1)]


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


class Buffer:
    """Page-aligned memory that is there."""

    def __init__(self, nbytes: int) -> None:
        self.memory = mmap.mmap(-1, nbytes)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.nbytes = nbytes
        ctypes.memset(self.address, 1, nbytes)

    def copy_from(self, other: "Buffer") -> None:
        """One memcpy of everything: the limit of a stall."""
        ctypes.memmove(self.address, other.address, self.nbytes)


def write_direct(path: str, source: Buffer) -> None:
    """The limit of a durable write: chunks past the page cache, two at a time, then fdatasync."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o600)
    view = memoryview(source.memory)
    _in_chunks(source.nbytes, lambda at, end: os.pwrite(fd, view[at:end], at))
    os.fdatasync(fd)
    os.close(fd)


def read_direct(paths: Sequence[str], target: Buffer) -> None:
    """The limit of a cold load: the same the other way."""
    view = memoryview(target.memory)
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        size = os.fstat(fd).st_size
        _in_chunks(size, lambda at, end, fd=fd: os.preadv(fd, [view[:-(-(end - at) // 4096) * 4096]], at))
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


def names_of(folder: str) -> List[str]:
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))
