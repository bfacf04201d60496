"""jobs: thousands of jobs of `true` until the last has ended, on 16 agents of 8 parts each.

As one array and one by one, as plain processes and in containers, with the store on disk; beside them, in the same run, Slurm
(bench/peers/slurm) and the OCI runtime alone. And `tide run --wait -- true`, from the start of the command to its end.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Dict, List, Optional

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import figures  # noqa: E402
from cluster import Cluster, wait_until  # noqa: E402

_HERE = os.path.dirname(os.path.abspath(__file__))
_SLURM = os.path.join(os.path.dirname(_HERE), "peers", "slurm")
_INSIDE = "TIDE_BENCH_INSIDE"
_ARRAY_MOST = 10_000
_WAYS = {"processes": "process", "containers": "oci"}


class Sizes:
    def __init__(self, quick: bool) -> None:
        self.nodes, self.jobs, self.containers, self.runs = (2, 8, 8, 2) if quick else (16, 2000, 1000, 40)
        self.many = 20 if quick else 100_000


def report_use(what: str, before: Dict[str, float], after: Dict[str, float], jobs: int) -> None:
    """CPU seconds of one job."""
    for name, used in after.items():
        figures.figure(f"{what}, CPU of {name.replace('tide-', '')}", "cpu_s", (used - before[name]) / jobs, jobs)


def check_states(what: str, states: Dict[str, int], jobs: int) -> None:
    lost = jobs - states.get("succeeded", 0)
    figures.figure(f"{what}, not succeeded", "count", lost, jobs, at_most=0)


def measure_array(cluster: Cluster, what: str, jobs: int) -> float:
    """Jobs a second."""
    before = cluster.cpu_seconds()
    start = time.monotonic()
    first = cluster.submit(jobs)
    states: Dict[str, int] = {}

    def all_ended() -> bool:
        states.clear()
        states.update(cluster.states(first, jobs))
        return sum(states.get(word, 0) for word in ("succeeded", "failed", "cancelled")) == jobs
    wait_until(all_ended, "all jobs ended", 0.1)
    rate = jobs / (time.monotonic() - start)
    figures.figure(what, "per_s", rate, jobs)
    check_states(what, states, jobs)
    report_use(what, before, cluster.cpu_seconds(), jobs)
    return rate


def measure_one_by_one(cluster: Cluster, what: str, jobs: int) -> None:
    """A client that submits the next job once the last one is accepted, while they run."""
    start = time.monotonic()
    first = cluster.submit()
    for _ in range(jobs - 1):
        last = cluster.submit()
    accepted = time.monotonic()

    def unfinished() -> List[dict]:
        return json.loads(cluster.request("GET", "/v1/jobs?limit=1")[1])["items"]
    wait_until(lambda: not unfinished(), "all jobs ended", 0.05)
    ended = time.monotonic()
    figures.figure(f"{what}, accepted", "per_s", jobs / (accepted - start), jobs, at_least=500)
    figures.figure(what, "per_s", jobs / (ended - start), jobs)
    states: Dict[str, int] = {}
    for number in range(first, last + 1):
        word = cluster.job_word(number)
        states[word] = states.get(word, 0) + 1
    check_states(what, states, jobs)


def measure_run(cluster: Cluster, what: str, runs: int, at_most: Optional[float]) -> None:
    """`tide run --wait -- true` from a shell's point of view."""
    times = [figures.seconds(lambda: cluster.tide("run", "--wait", "--", "true")) * 1e3 for _ in range(runs)]
    figures.figure(what, "p50_ms", figures.percentile(times, 50), runs, at_most=at_most)
    figures.figure(what, "p99_ms", figures.percentile(times, 99), runs)


def configuration(cluster: Cluster) -> Dict[str, str]:
    """The OCI runtime that the agents use, and a copy of the configuration that a task had."""
    job = int(cluster.tide("run", "--gpus", "1", "-o", "name", "--", "sleep", "1000").split()[0][2:])
    wait_until(lambda: cluster.job_word(job) == "running", "a job runs")
    [task] = glob.glob(os.path.join(cluster.folder, "state", "agent-*", "tasks", f"{job}.1.0"))
    with open(os.path.join(task, "task.json"), encoding="utf-8") as source:
        runtime = json.load(source)["runtime_path"]
    with open(os.path.join(task, "supervisor.json"), encoding="utf-8") as source:
        supervisor = json.load(source)["pid"]
    copy = os.path.join(cluster.folder, "config.json")
    state = os.path.dirname(os.path.dirname(task))
    shutil.copyfile(f"/proc/{supervisor}/root{state}/bundle/config.json", copy)
    cluster.tide("cancel", "-y", f"j-{job}")
    wait_until(lambda: cluster.job_word(job) == "cancelled", "it is gone")
    return {"runtime": runtime, "config": copy}


def runtime_alone(options, oci: Dict[str, str], count: int) -> float:
    """Containers a second."""
    done = subprocess.run([sys.executable, "-B", os.path.join(_HERE, "containers.py"), "--dir", options.dir, "--count", str(count),
                           "--runtime", oci["runtime"], "--config", oci["config"]], stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    return result["containers"] / result["seconds"]


def resident(cluster: Cluster) -> Dict[str, float]:
    """Bytes of the scheduler, and of all agents together."""
    return {name: float(value) for name, value in cluster.resident_bytes().items()}


def measure_many(options, sizes: Sizes) -> None:
    """So many that what a job leaves behind adds up, all submitted at once; beside them somebody looks at the queue."""
    jobs = sizes.many
    with figures.working_folder(options) as folder:
        os.chmod(folder, 0o755)
        cluster = Cluster(options.bin, folder, "process", sizes.nodes)
        try:
            start = time.monotonic()
            firsts = [cluster.submit(min(jobs, _ARRAY_MOST)) for _ in range(0, jobs, _ARRAY_MOST)]
            early: Dict[str, float] = {}
            looks: List[float] = []
            starts: List[float] = []  # of the program that looks, on cores that are busy with jobs
            done = 0
            while done < jobs:
                looks.append(figures.seconds(lambda: cluster.tide("ps")) * 1e3)
                starts.append(figures.seconds(lambda: cluster.tide("--version")) * 1e3)
                states: Dict[str, int] = {}
                for first in firsts:
                    for word, count in cluster.states(first, min(jobs, _ARRAY_MOST)).items():
                        states[word] = states.get(word, 0) + count
                done = sum(states.get(word, 0) for word in ("succeeded", "failed", "cancelled"))
                if not early and done >= jobs // 10:
                    early = resident(cluster)
                time.sleep(0 if options.quick else 1)
            figures.figure("many", "per_s", jobs / (time.monotonic() - start), jobs)
            check_states("many", states, jobs)
            late = resident(cluster)
            for name in ("tide-scheduler", "tide-agent", "tide-api"):
                what = f"many, memory of {name.replace('tide-', '')}"
                figures.figure(what, "bytes", late[name], 1)
                figures.figure(f"{what}, end over a tenth", "ratio", late[name] / early[name], 1,
                               at_most=None if name == "tide-api" else 1.1)
            figures.figure("many, tide ps", "p50_ms", figures.percentile(looks, 50), len(looks), at_most=50)
            figures.figure("many, tide ps", "max_ms", max(looks), len(looks))
            figures.figure("many, tide --version", "p50_ms", figures.percentile(starts, 50), len(starts))
        finally:
            cluster.stop()


def measure_way(options, sizes: Sizes, way: str) -> Optional[float]:
    """Rate of the array."""
    jobs = sizes.jobs if way == "processes" else sizes.containers
    with figures.working_folder(options) as folder:
        os.chmod(folder, 0o755)
        cluster = Cluster(options.bin, folder, _WAYS[way], sizes.nodes)
        try:
            cluster.submit(2 * sizes.nodes)  # warms caches; ends beside the configuration's job
            oci = configuration(cluster) if way == "containers" else {}
            alone = [runtime_alone(options, oci, jobs)] if oci else []
            rate = measure_array(cluster, f"{way}, array", jobs)
            if oci:
                alone.append(runtime_alone(options, oci, jobs))
                limit = sum(alone) / len(alone)
                name = os.path.basename(oci["runtime"])
                figures.figure("crun or runc alone, two loops", "per_s", limit, 2 * jobs)
                figures.figure("containers over the runtime alone", "ratio", rate / limit, jobs, at_least=0.8)
                figures.note(f"containers are made by {name}")
            measure_one_by_one(cluster, f"{way}, one by one", jobs)
            measure_run(cluster, f"{way}, tide run --wait", sizes.runs, 50 if way == "processes" else 120)
            return rate
        finally:
            cluster.stop()


def measure_slurm(options, sizes: Sizes) -> Optional[float]:
    """Rate of an array of as many jobs on as many nodes."""
    sys.path.insert(0, _SLURM)
    from slurm_cluster import missing  # pylint: disable=import-outside-toplevel
    if missing():
        figures.note("skipped: Slurm: not installed are " + ", ".join(missing()))
        return None
    jobs = sizes.jobs // 2 if sizes.jobs > 100 else sizes.jobs
    done = subprocess.run([sys.executable, "-B", os.path.join(_SLURM, "jobs.py"), "--nodes", str(sizes.nodes), "--jobs", str(jobs),
                           "--dir", options.dir], stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    rate = jobs / result["seconds"]
    figures.figure("Slurm, array", "per_s", rate, jobs)
    figures.figure("Slurm, array, not completed", "count", jobs - result["states"].get("COMPLETED", 0), jobs)
    return rate


def main() -> None:
    options = figures.parse_arguments(__doc__)
    if os.geteuid() != 0:
        figures.note("skipped: jobs: needs root")
        return
    if _INSIDE not in os.environ:
        # Whatever happens to this program, its cluster goes with it.
        os.environ[_INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-B", *sys.argv])
    sizes = Sizes(options.quick)
    rates: Dict[str, Optional[float]] = {}
    for way in _WAYS:
        if figures.wants(options, [f"{way}, array", f"{way} over"]):
            rates[way] = measure_way(options, sizes, way)
    if options.quick or options.filter.startswith("many"):  # a quarter of an hour: only by name
        measure_many(options, sizes)
    if figures.wants(options, ["Slurm, array", "processes over Slurm"]):
        slurm = measure_slurm(options, sizes)
        processes = rates.get("processes")
        if slurm and processes:
            figures.figure("processes over Slurm", "ratio", processes / slurm, sizes.jobs, at_least=2)


if __name__ == "__main__":
    main()
