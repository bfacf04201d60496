"""suspend: from the request until all ranks stand at one step, and until the nodes are free.

Scheduler, API, four agents and the command line are real, on this machine; the request is `tide suspend`, and its own time
counts. What is allowed: two steps and 50 ms until the ranks stand; two steps, 1.2 times the write at the disk's own speed
and one second until the nodes are free.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import time
from typing import Callable, Dict, List

import common

_JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "suspend_job.py")
_RANKS, _STEP_MS = 4, 30.0
_DEADLINE_S = 120.0


class Cluster:
    """`tide dev` in a folder."""

    def __init__(self, options, folder: str) -> None:
        self._tide = os.path.join(options.bin, "tide")
        self._env = {"HOME": folder, "PATH": "/usr/bin:/bin", "TIDE_DEV_PROFILE": os.path.join(folder, "profile.yaml")}
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with open(os.path.join(folder, "dev.log"), "wb") as log:
            self._dev = subprocess.Popen(
                [self._tide, "dev", "--no-demo", "--nodes", "4", "--runtime", "process", "--state",
                 os.path.join(folder, "state"), "--port", str(port)], env=self._env, cwd=folder, stdout=log, stderr=log)
        wait_until(lambda: self.tide("nodes", "-o", "json", check=False).count('"ready"') == 4, "four nodes")

    def tide(self, *words: str, check: bool = True) -> str:
        return subprocess.run([self._tide, *words], env=self._env, cwd=self._folder, stdout=subprocess.PIPE,
                              stderr=None if check else subprocess.DEVNULL, text=True, check=check).stdout

    def stop(self) -> None:
        self._dev.send_signal(signal.SIGINT)
        self._dev.wait()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited {_DEADLINE_S} s for {what}")
        time.sleep(0.01)


def measure(options, size: str, nbytes: int, rounds: int) -> None:
    with common.working_folder(options) as folder:
        out, python = os.path.join(folder, "out"), os.path.join(folder, "python")
        os.chmod(folder, 0o755)
        common.install_sdk(options, python)
        shutil.copy(_JOB, python)
        for place in (out, os.path.join(folder, "ck")):
            os.mkdir(place)
            os.chmod(place, 0o777)
        cluster = Cluster(options, folder)
        try:
            job = cluster.tide("run", "-n", "2", "--ranks-per-node", str(_RANKS // 2), "--ckpt-dir",
                               os.path.join(folder, "ck"), "--env",
                               f"PYTHONPATH={python}", "-o", "name", "--", "/usr/bin/python3",
                               os.path.join(python, "suspend_job.py"), out, str(nbytes), str(_STEP_MS)).split()[0]
            report(size, [suspend_once(cluster, job, attempt, out, nbytes) for attempt in range(1, rounds + 1)])
            cluster.tide("cancel", "-y", job)
        finally:
            cluster.stop()


def suspend_once(cluster: Cluster, job: str, attempt: int, out: str, nbytes: int) -> Dict[str, float]:
    """Seconds from the request."""
    if attempt > 1:
        cluster.tide("resume", job)
    wait_until(lambda: len(names(out, f"ready-{attempt}-")) == _RANKS, "all ranks to train")
    source = common.Buffer(max(4096, min(nbytes, 256 << 20) // 4096 * 4096))
    raw = os.path.join(out, "raw")
    limit_s = common.seconds(lambda: common.write_direct(raw, source, nbytes))
    os.unlink(raw)
    asked_ns = time.time_ns()
    cluster.tide("suspend", job)
    # Not `tide wait`, which looks ever more seldom.
    wait_until(lambda: json.loads(cluster.tide("show", job, "-o", "json"))["state"] == "held", "the job to leave")
    released_s = (time.time_ns() - asked_ns) / 1e9
    left = []
    for name in names(out, f"left-{attempt}-"):
        with open(os.path.join(out, name), encoding="ascii") as source_file:
            left.append(json.load(source_file))
    assert len(left) == _RANKS and len({record["step"] for record in left}) == 1, f"all ranks leave at one step: {left}"
    return {"parked": (max(record["parked_ns"] for record in left) - asked_ns) / 1e9,
            "saved": (max(record["saved_ns"] for record in left) - asked_ns) / 1e9, "released": released_s,
            "allowed": 2 * _STEP_MS / 1e3 + 1.2 * limit_s + 1.0}


def names(folder: str, prefix: str) -> List[str]:
    return [name for name in os.listdir(folder) if name.startswith(prefix) and not name.endswith(".tmp")]


def report(size: str, rounds: List[Dict[str, float]]) -> None:
    n = len(rounds)
    for what in ("parked", "saved", "released"):
        times = [record[what] for record in rounds]
        at_most = 2 * _STEP_MS + 50 if what == "parked" else None
        common.figure(f"{size}, {what}", "p50_ms", statistics.median(times) * 1e3, n)
        common.figure(f"{size}, {what}", "max_ms", max(times) * 1e3, n, at_most=at_most)
    common.figure(f"{size}, released over allowed", "ratio",
                  max(record["released"] / record["allowed"] for record in rounds), n, at_most=1)


def main() -> None:
    options = common.parse_arguments(__doc__)
    sizes = [("quick", 1 << 20, 1)] if options.quick else [("1 MB", 10 ** 6, 10), ("256 MiB", 256 << 20, 5), ("1 GiB", common.GIB, 5)]
    for size, nbytes, rounds in sizes:
        # Every rank holds the whole state, and two slots for its share.
        needed = (_RANKS + 2) * nbytes + common.GIB
        cases = [f"{size}, {case}" for case in ("parked", "saved", "released", "released over allowed")]
        if common.wants(options, cases) and common.fits_memory(options, needed, f"suspend with {size}"):
            measure(options, size, nbytes, rounds)


if __name__ == "__main__":
    main()
