"""load: a checkpoint that no cache holds, into new tensors, and into those that a program has."""

from __future__ import annotations

import gc
import os
import statistics
from typing import Dict, List

import torch

import common
import tide
from tide._run import Run


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
    for _ in range(rounds):
        common.forget(data)
        times["limit"].append(common.seconds(lambda: common.read_direct(data, buffer)))
        common.forget(data)
        times["load"].append(common.seconds(lambda: kept.append(tide.load(where))))
        kept.clear()
        for tensor in state.values():
            tensor.zero_()
        common.forget(data)
        times["resume"].append(common.seconds(lambda: open_checkpoint().resume()))
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


def main() -> None:
    options = common.parse_arguments(__doc__)
    sizes = [("quick", 8 << 20, 1)] if options.quick else [("256 MiB", 256 << 20, 7), ("1 GiB", common.GIB, 7), ("8 GB", 8 * 10 ** 9, 3)]
    for size, nbytes, rounds in sizes:
        cases = [f"{size}, {case}" for case in ("load", "load over O_DIRECT", "resume", "resume over O_DIRECT",
                                                "over torch.load")]
        if common.wants(options, cases) and common.fits_memory(options, 3 * nbytes + common.GIB, f"load of {size}"):
            with common.working_folder(options) as folder, common.peak_memory(size):
                measure(folder, size, nbytes, rounds)


if __name__ == "__main__":
    main()
