"""load: a checkpoint that no cache holds, into new tensors, and into those that a program has."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
from typing import Dict, List, Tuple

import torch

import common
import tide
from tide._run import Run


_RANKS = 8


def measure(folder: str, size: str, nbytes: int, rounds: int) -> None:
    state = common.make_state(nbytes)
    nbytes = common.bytes_of(state)
    where = os.path.join(folder, "ck")

    def open_checkpoint() -> tide.Checkpoint:
        return tide.Checkpoint(dir=where, replicated={"model": state}, run=Run({"TIDE_ATTEMPT": "1"}), timeout_s=600)

    ck = open_checkpoint()
    data = os.path.join(where, ck.save(1), "d00000.safetensors")
    ck = None
    gc.collect()  # its staging slots are memory that the loads need
    torch_file = os.path.join(folder, "torch.pt")
    torch.save(state, torch_file)
    buffer = common.Buffer(min(nbytes, 256 << 20) // common.CHUNK_BYTES * common.CHUNK_BYTES or common.CHUNK_BYTES)
    expected = {name: tensor[:1].clone() for name, tensor in state.items()}
    times: Dict[str, List[float]] = {"load": [], "resume": [], "limit": [], "torch": []}
    kept: List[object] = []  # memory is given back outside of the measured time

    def limit() -> None:
        common.read_direct(data, buffer)

    def load() -> None:
        kept.append(tide.load(where))

    def resume() -> None:
        open_checkpoint().resume()

    ways = {"limit": limit, "load": load, "resume": resume}
    for number in range(rounds):
        # What is below the machine may have a cache of its own: nobody is the first to read, and each has its turn in each place.
        limit()
        for what in sorted(ways, key=lambda what: (list(ways).index(what) + number) % len(ways)):
            if what == "resume":
                for tensor in state.values():
                    tensor.zero_()
            common.forget(data)
            times[what].append(common.seconds(ways[what]))
            kept.clear()
        assert all(bool((state[name][:1] == first).all()) for name, first in expected.items()), "what was saved is back"
    for _ in range(rounds):  # apart: it leaves memory in small pages, which the next large allocation pays for
        common.forget(torch_file)
        times["torch"].append(common.seconds(lambda: kept.append(torch.load(torch_file))))
        kept.clear()
    for what in ("load", "resume"):
        common.figure(f"{size}, {what}", "per_s", nbytes / statistics.median(times[what]), rounds)
        common.figure(f"{size}, {what} over O_DIRECT", "ratio", common.median_ratio(times["limit"], times[what]), rounds,
                      at_least=0.8)
    common.figure(f"{size}, over torch.load", "ratio", statistics.median(times["torch"]) / statistics.median(times["load"]), rounds)


def resume_together(folder: str, nbytes: int, data: str, rounds: int) -> None:
    """Ranks of one node that resume at once: what they read of the disk, and how long it takes; handing on to each other, and
    each for itself."""
    limit = common.Buffer(min(nbytes, 256 << 20) // common.CHUNK_BYTES * common.CHUNK_BYTES or common.CHUNK_BYTES)
    size = os.path.getsize(data)
    limits: List[float] = []
    times: Dict[str, List[float]] = {"together": [], "alone": []}
    read: Dict[str, List[float]] = {"together": [], "alone": []}
    for attempt in range(rounds):
        common.forget(data)
        limits.append(common.seconds(lambda: common.read_direct(data, limit)))
        for how in times:
            common.forget(data)
            ends = _start_ranks(folder, nbytes, f"{how}-{attempt}", _RANKS if how == "together" else 1)
            times[how].append(max(seconds for seconds, _ in ends))
            read[how].append(sum(number for _, number in ends) / size)
    for how in times:
        common.figure(f"{_RANKS} ranks, {how}, resume over O_DIRECT once", "ratio", common.median_ratio(times[how], limits), rounds)
        common.figure(f"{_RANKS} ranks, {how}, read over state", "ratio", statistics.median(read[how]), rounds,
                      at_most=1.05 if how == "together" else None)


def _start_ranks(folder: str, nbytes: int, start: str, local_world: int) -> "List[Tuple[float, int]]":
    """(seconds, bytes read) of each, which begin when all are ready."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "load_rank.py")
    env = {**os.environ, "WORLD_SIZE": str(_RANKS), "TIDE_START": start, "TIDE_ATTEMPT": "1", "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, script, folder, str(nbytes)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank % local_world), "LOCAL_WORLD_SIZE": str(local_world)})
             for rank in range(_RANKS)]
    for rank in ranks:
        assert rank.stdout.readline() == "ready\n"
    for rank in ranks:
        rank.stdin.write("go\n")
        rank.stdin.flush()
    ends = [rank.communicate()[0].split() for rank in ranks]
    return [(float(seconds), int(number)) for seconds, number in ends]


def measure_together(folder: str, nbytes: int, rounds: int) -> None:
    where = os.path.join(folder, "ck")
    ck = tide.Checkpoint(dir=where, replicated={"model": common.make_state(nbytes)}, run=Run({"TIDE_ATTEMPT": "1"}), timeout_s=600)
    ck.resume()
    data = os.path.join(where, ck.save(1), "d00000.safetensors")
    ck = None
    gc.collect()
    _let_go(where)
    resume_together(where, nbytes, data, rounds)


def _let_go(folder: str) -> None:
    """Gives the folder's lease to the ranks, as the end of this process would."""
    from tide.checkpoint import lease
    for path in list(lease._held):
        if path.startswith(os.path.realpath(folder)):
            os.close(lease._held.pop(path))


def main() -> None:
    options = common.parse_arguments(__doc__)
    sizes = [("quick", 8 << 20, 1)] if options.quick else [("256 MiB", 256 << 20, 7), ("1 GiB", common.GIB, 7), ("8 GB", 8 * 10 ** 9, 3)]
    for size, nbytes, rounds in sizes:
        cases = [f"{size}, {case}" for case in ("load", "load over O_DIRECT", "resume", "resume over O_DIRECT",
                                                "over torch.load")]
        if common.wants(options, cases) and common.fits_memory(options, 3 * nbytes + common.GIB, f"load of {size}"):
            with common.working_folder(options) as folder, common.peak_memory(size):
                measure(folder, size, nbytes, rounds)
    cases = [f"{_RANKS} ranks, {how}, {what}" for how in ("together", "alone")
             for what in ("resume over O_DIRECT once", "read over state")]
    nbytes = 8 << 20 if options.quick else 256 << 20
    if common.wants(options, cases) and common.fits_memory(options, _RANKS * (2 * nbytes + (300 << 20)), f"{_RANKS} ranks"):
        with common.working_folder(options) as folder:
            measure_together(folder, nbytes, 1 if options.quick else 5)


if __name__ == "__main__":
    main()
