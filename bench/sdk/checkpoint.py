"""checkpoint: the stall of a save, the durable write, the writer's CPU, and the steps trained meanwhile."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from typing import Callable, List

import torch

import common
import tide
from tide._run import Run

_STEP_S = 0.03
_GIB = 1 << 30


def make_checkpoint(folder: str, state: dict) -> tide.Checkpoint:
    return tide.Checkpoint(dir=folder, replicated={"model": state}, keep=1, run=Run({"TIDE_ATTEMPT": "1"}), timeout_s=600)


def measure_saves(folder: str, state: dict, rounds: int) -> None:
    nbytes = common.bytes_of(state)
    size = f"{nbytes / _GIB:.1f} GiB"
    source, target = common.Buffer(nbytes // 4096 * 4096), common.Buffer(nbytes // 4096 * 4096)
    ck = make_checkpoint(os.path.join(folder, "ck"), state)
    raw, torch_file = os.path.join(folder, "raw"), os.path.join(folder, "torch.pt")
    stalls: List[float] = []
    copies: List[float] = []
    writes: List[float] = []
    limits: List[float] = []
    saved: List[float] = []
    torch_saves: List[float] = []
    first = common.seconds(lambda: ck.save(1, wait=False))
    assert ck.flush()
    ck._prepare()
    ck._background._saver.slots._preparing.join()
    for step in range(2, rounds + 2):
        copies.append(common.seconds(lambda: target.copy_from(source)))
        begin = time.perf_counter()
        ck.save(step, wait=False)
        stalls.append(time.perf_counter() - begin)
        assert ck.flush() and ck.failed_saves == 0
        saved.append(time.perf_counter() - begin)
        writes.append(saved[-1] - stalls[-1])
        limits.append(common.seconds(lambda: common.write_direct(raw, source)))
        os.unlink(raw)
        torch_saves.append(common.seconds(lambda: torch_save(state, torch_file)))
        os.unlink(torch_file)
    cpu = common.cpu_seconds(ck._background.saver_pid) / (rounds + 1)
    per_gib = nbytes / _GIB
    common.figure(f"{size}, first stall", "p50_ms", first * 1e3)
    common.figure(f"{size}, stall", "p50_ms", statistics.median(stalls) * 1e3, rounds)
    common.figure(f"{size}, stall over memcpy", "ratio", common.median_ratio(stalls, copies), rounds, at_most=1.2)
    common.figure(f"{size}, durable", "per_s", nbytes / statistics.median(writes), rounds)
    common.figure(f"{size}, O_DIRECT over durable write", "ratio", common.median_ratio(limits, writes), rounds, at_least=0.9)
    common.figure(f"{size}, torch.save and fsync over save", "ratio", common.median_ratio(torch_saves, saved), rounds,
                  at_least=2)
    common.figure("writer, 2 GiB", "cpu_s", cpu / per_gib * 2, rounds + 1, at_most=0.3)


def torch_save(state: dict, path: str) -> None:
    with open(path, "wb") as out:
        torch.save(state, out)
        out.flush()
        os.fsync(out.fileno())


def make_step() -> Callable[[], None]:
    """Work of one thread that takes about _STEP_S."""
    torch.set_num_threads(1)
    a, b = torch.randn(256, 256), torch.randn(256, 256)
    once = min(common.seconds(lambda: a @ b) for _ in range(50))
    repetitions = max(1, int(_STEP_S / once))

    def step() -> None:
        for _ in range(repetitions):
            a @ b
    return step


def steps_during(step: Callable[[], None], is_over: Callable[[], bool], least: int) -> List[float]:
    times: List[float] = []
    while len(times) < least or not is_over():
        times.append(common.seconds(step))
    return times


def measure_steps(folder: str, state: dict, rounds: int) -> None:
    """One rank trains on one CPU while its checkpoint is written; the other CPU is free, as the saver's is."""
    step = make_step()
    ck = make_checkpoint(os.path.join(folder, "steps"), state)
    ck.save(1)
    quiet: List[float] = []
    saving: List[float] = []
    threaded: List[float] = []
    for number in range(2, rounds + 2):
        quiet += steps_during(step, lambda: True, 20)
        ck.save(number, wait=False)

        def is_saved() -> bool:
            ck._background.look()
            return not ck._background.busy
        saving += steps_during(step, is_saved, 1)
        thread = threading.Thread(target=torch_save, args=(state, os.path.join(folder, "threaded.pt")))
        thread.start()
        threaded += steps_during(step, lambda: not thread.is_alive(), 1)
        thread.join()
    base = common.percentile(quiet, 99)
    common.figure("30 ms step, quiet", "p99_ms", base * 1e3, len(quiet))
    common.figure("30 ms step, during a save", "p99_ms", common.percentile(saving, 99) * 1e3, len(saving))
    common.figure("30 ms step, during a save over quiet, p99", "ratio", common.percentile(saving, 99) / base, len(saving),
                  at_most=1.1)
    common.figure("30 ms step, during torch.save in a thread over quiet, p99", "ratio",
                  common.percentile(threaded, 99) / base, len(threaded))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default="/var/tmp")
    options = parser.parse_args()
    try:
        import torch.distributed.checkpoint  # noqa: F401
        common.note("DCP imports here, but is not measured")
    except Exception as error:
        common.note(f"skipped: DCP does not import here ({type(error).__name__})")
    folder = tempfile.mkdtemp(prefix="tide-bench-", dir=options.dir)
    try:
        state = common.make_state(options.mib << 20)
        measure_saves(folder, state, options.rounds)
        measure_steps(folder, state, options.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
