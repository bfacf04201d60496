"""tick: what one call a step costs, outside the platform and in it, and against asking all ranks."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from typing import Callable, List

import common
import tide
from tide import _page
from tide._run import Run

_BLOCK = 20_000
_CPP_CASE = "C++, with an agent's page"
_DDP_CASES = ("DDP step", "DDP step, tick over none", "DDP, all-reduce over none", "all-reduce of one flag")


def measure_tick(folder: str, what: str, env: "dict[str, str]", blocks: int, loss: object = None) -> None:
    """The fastest block counts: a tick waits for nothing, so whatever else a block took was somebody else's."""
    ck = tide.Checkpoint(dir=os.path.join(folder, "ck"), replicated={"model": [1]},
                         global_={"sampler": tide.Sampler(1000, global_batch=10)}, run=Run(env))
    step = 0
    times: List[float] = []
    for _ in range(blocks):
        begin = time.perf_counter()
        for step in range(step + 1, step + 1 + _BLOCK):
            ck.tick(step, loss=loss)
        times.append((time.perf_counter() - begin) / _BLOCK)
    common.figure(what, "p50_ns", min(times) * 1e9, blocks, at_most=1000)


def make_page(path: str) -> str:
    """As the agent makes it."""
    with open(path, "wb") as out:
        out.write(_page.MAGIC.to_bytes(4, "little") + _page.VERSION.to_bytes(4, "little") + bytes(_page.PAGE_BYTES - 8))
    return path


def measure_cpp(options) -> None:
    """It prints the figure of _CPP_CASE itself."""
    program = os.path.join(options.bin, "tide-tick-bench")
    subprocess.run([program] + (["--quick"] if options.quick else []), check=True)


def measure_ddp(rank: int, blocks: int) -> None:
    """One of two ranks. Steps with and without a tick by turns, so that a busy neighbour is in both."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(),
                                                                        torch.nn.Linear(1024, 512)))
    data = torch.randn(64, 512)
    ck = tide.Checkpoint(dir="unused", replicated={"model": net.module})
    flag = torch.zeros(1)
    step = 0

    def train(after: Callable[[int], object]) -> float:
        nonlocal step
        step += 1
        begin = time.perf_counter()
        net(data).sum().backward()
        after(step)
        return time.perf_counter() - begin

    ways = {"plain": lambda step: None, "tick": ck.tick, "all-reduce": lambda step: dist.all_reduce(flag)}
    times = {name: [] for name in ways}
    for _ in range(5):
        train(ways["all-reduce"])
    for _ in range(blocks):
        for name, after in ways.items():
            times[name].append(statistics.median(train(after) for _ in range(10)))
    flags = [common.seconds(lambda: dist.all_reduce(flag)) for _ in range(blocks * 10)]
    dist.barrier()
    if rank == 0:
        common.figure(_DDP_CASES[0], "p50_ms", statistics.median(times["plain"]) * 1e3, blocks * 10)
        common.figure(_DDP_CASES[1], "ratio", common.median_ratio(times["tick"], times["plain"]), blocks * 10,
                      at_most=1.005)
        common.figure(_DDP_CASES[2], "ratio", common.median_ratio(times["all-reduce"], times["plain"]),
                      blocks * 10)
        common.figure(_DDP_CASES[3], "p50_ns", statistics.median(flags) * 1e9, len(flags))
    # As run.exit() does: at a normal end a thread of the collectives may abort a rank whose peer is gone already.
    sys.stdout.flush()
    os._exit(0)


def run_ddp(options) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={
        **os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}) for rank in range(2)]
    if any([rank.wait() for rank in ranks]):
        raise SystemExit("a rank of the DDP case failed")


def main() -> None:
    options = common.parse_arguments(__doc__)
    if "RANK" in os.environ:
        measure_ddp(int(os.environ["RANK"]), 2 if options.quick else 100)
        return
    blocks = 1 if options.quick else 50
    with common.working_folder(options) as folder:
        page = make_page(os.path.join(folder, "page"))
        for what, env in (("Python, outside the platform", {"TIDE_ATTEMPT": "1"}),
                          ("Python, with an agent's page", {"TIDE_ATTEMPT": "1", "TIDE_PAGE": page})):
            if common.wants(options, [what]):
                measure_tick(folder, what, env, blocks)
            if common.wants(options, [what + ", loss=tensor"]):
                import torch
                measure_tick(folder, what + ", loss=tensor", env, blocks, torch.tensor(1.25))
    if common.wants(options, [_CPP_CASE]):
        measure_cpp(options)
    if common.wants(options, _DDP_CASES):
        run_ddp(options)


if __name__ == "__main__":
    main()
