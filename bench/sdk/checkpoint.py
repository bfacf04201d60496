"""checkpoint: the stall of a save, the durable write, the writer's CPU, and the steps trained meanwhile."""

from __future__ import annotations

import os
import statistics
import threading
import time
from typing import Callable, Dict, List

import torch

import common
import tide
from tide._run import Run

_STEP_S = 0.03
_BUFFER_BYTES = 256 << 20  # beyond all caches
_SAVE_CASES = ("prepare", "first stall over later ones", "first stall", "stall", "stall over memcpy", "durable write", "durable over O_DIRECT",
               "speed over torch.save", "writer CPU, 2 GiB")
_MANY_CASE = "9,000 tensors, stall"
_STEP_CASES = ("30 ms step, quiet", "30 ms step, saving", "p99 saving over quiet",
               "p99 torch.save over quiet")


def make_checkpoint(folder: str, state: dict) -> tide.Checkpoint:
    return tide.Checkpoint(dir=folder, replicated={"model": state}, keep=1, run=Run({"TIDE_ATTEMPT": "1"}), timeout_s=600)


def measure_saves(folder: str, size: str, nbytes: int, rounds: int, two_slots: bool) -> None:
    """two_slots: with both staging slots, prepared; else with the one that the first save makes, for sizes of which the
    machine does not hold three."""
    state = common.make_state(nbytes)
    nbytes = common.bytes_of(state)
    buffer_bytes = min(nbytes, _BUFFER_BYTES) // 4096 * 4096
    source, target = common.Buffer(buffer_bytes), common.Buffer(buffer_bytes)
    ck = make_checkpoint(os.path.join(folder, "ck"), state)
    raw, torch_file = os.path.join(folder, "raw"), os.path.join(folder, "torch.pt")
    times: Dict[str, List[float]] = {name: [] for name in ("copy", "stall", "write", "save", "limit", "torch")}
    ready = common.seconds(ck.prepare) if two_slots else 0.0
    first = common.seconds(lambda: ck.save(1, wait=False))
    assert ck.flush()
    for step in range(2, rounds + 2):
        times["copy"].append(common.seconds(lambda: target.copy_from(source, nbytes)))
        begin = time.perf_counter()
        ck.save(step, wait=False)
        times["stall"].append(time.perf_counter() - begin)
        while ck._background._saver._staged:
            ck._background.look(1.0)
        times["save"].append(time.perf_counter() - begin)
        times["write"].append(times["save"][-1] - times["stall"][-1])
        assert ck.flush() and ck.failed_saves == 0  # old checkpoints are removed, too
        times["limit"].append(common.seconds(lambda: common.write_direct(raw, source, nbytes)))
        os.unlink(raw)
        times["torch"].append(common.seconds(lambda: torch_save(state, torch_file)))
        os.unlink(torch_file)
    cpu = common.cpu_seconds(ck._background.saver_pid) / (rounds + 1)
    if two_slots:
        common.figure(f"{size}, prepare", "p50_ms", ready * 1e3)
        common.figure(f"{size}, first stall over later ones", "ratio", first / statistics.median(times["stall"]), at_most=1.5)
    common.figure(f"{size}, first stall", "p50_ms", first * 1e3)
    common.figure(f"{size}, stall", "p50_ms", statistics.median(times["stall"]) * 1e3, rounds)
    common.figure(f"{size}, stall over memcpy", "ratio", common.median_ratio(times["stall"], times["copy"]), rounds,
                  at_most=1.2)
    common.figure(f"{size}, durable write", "per_s", nbytes / statistics.median(times["write"]), rounds)
    common.figure(f"{size}, durable over O_DIRECT", "ratio", common.median_ratio(times["limit"], times["write"]),
                  rounds, at_least=0.9)
    common.figure(f"{size}, speed over torch.save", "ratio", common.median_ratio(times["torch"], times["save"]),
                  rounds, at_least=2)
    common.figure(f"{size}, writer CPU, 2 GiB", "cpu_s", cpu * 2 * common.GIB / nbytes, rounds + 1, at_most=0.3)


def measure_many(folder: str, count: int, rounds: int) -> None:
    """A model and its optimizer in `count` small tensors: what a save costs that copies next to nothing."""
    parameters = [torch.nn.Parameter(torch.zeros(64)) for _ in range(count // 4)]
    net = torch.nn.ParameterList(parameters)
    opt = torch.optim.AdamW(parameters)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    opt.step()
    ck = tide.Checkpoint(dir=os.path.join(folder, "many"), replicated={"model": net, "opt": opt}, keep=1, run=Run({"TIDE_ATTEMPT": "1"}))
    ck.resume()
    ck.prepare()
    times: List[float] = []
    for step in range(1, rounds + 1):
        times.append(common.seconds(lambda: ck.save(step, wait=False)))
        assert ck.flush() and ck.failed_saves == 0
    common.figure(_MANY_CASE, "p50_ms", statistics.median(times) * 1e3, rounds, at_most=30)


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


def measure_steps(folder: str, nbytes: int, rounds: int) -> None:
    """One rank trains on one CPU while its checkpoint is written; the other CPU is free, as the saver's is."""
    step = make_step()
    state = common.make_state(nbytes)
    ck = make_checkpoint(os.path.join(folder, "steps"), state)
    ck.save(1)
    quiet: List[float] = []
    saving: List[float] = []
    threaded: List[float] = []

    def is_saved() -> bool:
        ck._background.look()
        return not ck._background.busy

    for number in range(2, rounds + 2):
        quiet += steps_during(step, lambda: True, 20)
        ck.save(number, wait=False)
        saving += steps_during(step, is_saved, 1)
        thread = threading.Thread(target=torch_save, args=(state, os.path.join(folder, "threaded.pt")))
        thread.start()
        threaded += steps_during(step, lambda: not thread.is_alive(), 1)
        thread.join()
    base = common.percentile(quiet, 99)
    common.figure("30 ms step, quiet", "p99_ms", base * 1e3, len(quiet))
    common.figure("30 ms step, saving", "p99_ms", common.percentile(saving, 99) * 1e3, len(saving))
    common.figure("p99 saving over quiet", "ratio", common.percentile(saving, 99) / base, len(saving),
                  at_most=1.1)
    common.figure("p99 torch.save over quiet", "ratio", common.percentile(threaded, 99) / base,
                  len(threaded))


def main() -> None:
    options = common.parse_arguments(__doc__)
    try:
        import torch.distributed.checkpoint  # noqa: F401
        common.note("torch.distributed.checkpoint imports here, but is not measured")
    except Exception as error:  # Debian's build fails in several ways
        common.note(f"skipped: torch.distributed.checkpoint does not import here ({type(error).__name__})")
    sizes = [("quick", 8 << 20, 1, True)] if options.quick else [
        ("256 MiB", 256 << 20, 7, True), ("1 GiB", common.GIB, 7, True), ("4 GiB", 4 * common.GIB, 5, True), ("8 GB", 8 * 10 ** 9, 3, False)]
    for size, nbytes, rounds, two_slots in sizes:
        needed = nbytes * (3 if two_slots else 2) + 2 * _BUFFER_BYTES + (512 << 20)
        wanted = common.wants(options, [f"{size}, {case}" for case in _SAVE_CASES])
        if wanted and common.fits_memory(options, needed, f"checkpoint of {size}"):
            with common.working_folder(options) as folder, common.peak_memory(size):
                measure_saves(folder, size, nbytes, rounds, two_slots)
    if common.wants(options, [_MANY_CASE]):
        with common.working_folder(options) as folder:
            measure_many(folder, 40 if options.quick else 9000, 2 if options.quick else 20)
    if common.wants(options, _STEP_CASES):
        with common.working_folder(options) as folder:
            measure_steps(folder, 8 << 20 if options.quick else common.GIB, 1 if options.quick else 10)


if __name__ == "__main__":
    main()
