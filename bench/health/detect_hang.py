"""detect-hang: from a hang of one rank of a real job until the job is told to stand still, and until a rank is named.

Jobs of four ranks on two nodes and of eight on four train at once, steps of 5 to 50 ms; a rank drawn at random is made to hang,
in one of four ways, and healed once it was named, or after 75 seconds:
- stopped: SIGSTOP;
- lock: it blocks in its own code before the all-reduce of a step;
- slow link: of what it sends, a packet in 1.5 seconds gets through;
- lost message: what it and its neighbour send each other is lost.
The rank is named rightly when the first text that names any names it, on its node, and one other at most; of a lost message either end is
right. "alone": no other was named with it.

Then the same jobs make long pauses for 20 minutes, and nothing else: evaluations (of all ranks, of one), saves, slow steps. Each verdict
is false; n is the minutes of all jobs together.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import signal
import sys
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(_HERE))
sys.path.insert(0, os.path.join(os.path.dirname(_HERE), "jobs"))

import fabric  # noqa: E402
import figures  # noqa: E402
from cluster import Cluster, wait_until  # noqa: E402

_INSIDE = "TIDE_BENCH_INSIDE"
_KINDS = ("stopped", "lock", "slow link", "lost message")
_CLEAN = "clean"
_RANKS_PER_NODE = 2
_LOOK_S = 0.1
_GIVE_UP_S = 75.0     # until a rank is named
_AT_MOST_MS = 20_000  # max(15 s, twice the p99 step) and 5 s: steps are shorter than 7.5 s
_SEED = 27


class Sizes:
    def __init__(self, quick: bool) -> None:
        self.worlds = (4, 4) if quick else (4, 4, 4, 4, 8)  # ranks of each job
        self.clean_worlds = self.worlds[:1] if quick else self.worlds
        self.trials = 4 if quick else 300
        self.clean_s = 4.0 if quick else 1200.0


class Trial(NamedTuple):
    kind: str
    stands_s: Optional[float]  # until the text says that it stands still
    named_s: Optional[float]
    right: bool
    alone: bool


class Job:
    """A job of the cluster, and its ranks as processes."""

    def __init__(self, cluster: Cluster, number: int, world: int) -> None:
        self.cluster, self.number, self.world = cluster, number, world
        self.ranks: List[dict] = []
        self.locks: Dict[int, int] = {}
        self.step, self.step_at, self.detail = -1, 0.0, ""  # step_at: when it was seen first
        self.out = os.path.join(cluster.folder, "out")
        self.id = ""

    def submit(self, python: str, way: str) -> None:
        spec = {"version": 1, "name": f"hang-{self.number}", "image": "host", "env": {"PYTHONPATH": python},
                "resources": {"nodes": self.world // _RANKS_PER_NODE, "ranks_per_node": _RANKS_PER_NODE, "gpus_per_node": 8},
                "command": ["/usr/bin/unshare", "--map-current-user", "--net", "/usr/bin/python3", "-B",
                            os.path.join(python, "hang_job.py"), self.out, str(self.number), way, str(_SEED)]}
        status, answer = self.cluster.request("POST", "/v1/jobs", json.dumps(spec))
        if status != 201:
            raise SystemExit(f"a job was refused: {answer}")
        self.id = json.loads(answer)["id"]

    def join_network(self) -> None:
        """Gives its ranks their network, with which they begin."""
        paths = [os.path.join(self.out, f"rank-{self.number}-{rank}") for rank in range(self.world)]
        wait_until(lambda: all(os.path.exists(path) for path in paths), f"the ranks of job {self.number} are there")
        for rank, path in enumerate(paths):
            with open(path, encoding="ascii") as source:
                self.ranks.append(json.load(source))
            fabric.join(self.number, rank, self.ranks[rank]["pid"])
        for rank in range(self.world):
            with open(os.path.join(self.out, f"go-{self.number}-{rank}"), "w", encoding="ascii") as go:
                go.write(fabric.address(self.number, 0))

    def look(self) -> None:
        job = json.loads(self.cluster.request("GET", f"/v1/jobs/{self.id}")[1])
        if job["state"] not in ("queued", "running", "starting", "placed") or len(job["attempts"]) > 1:
            raise SystemExit(f"job {self.number} ended: {job}")
        step, self.detail = job["step"] or 0, job["detail"] or ""
        if step != self.step:
            self.step, self.step_at = step, time.monotonic()

    @property
    def stands_still(self) -> bool:
        return self.detail.startswith("stands still")


class Hang:
    """One kind of hang of one rank."""

    def __init__(self, job: Job, kind: str, rank: int) -> None:
        self.job, self.kind, self.rank = job, kind, rank
        self.other = (rank + 1) % job.world  # to which it sends in the ring of an all-reduce
        self.lock = -1

    @property
    def right(self) -> Tuple[int, ...]:
        return (self.rank, self.other) if self.kind == "lost message" else (self.rank,)

    def begin(self) -> None:
        if self.kind == "stopped":
            os.kill(self.job.ranks[self.rank]["pid"], signal.SIGSTOP)
        elif self.kind == "lock":
            self.lock = os.open(os.path.join(self.job.out, f"lock-{self.job.number}-{self.rank}"), os.O_RDWR)
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        elif self.kind == "slow link":
            fabric.slow(self.job.number, self.rank)
        else:
            fabric.cut(self.job.number, self.rank, self.other)

    def heal(self) -> None:
        if self.kind == "stopped":
            os.kill(self.job.ranks[self.rank]["pid"], signal.SIGCONT)
        elif self.kind == "lock":
            os.close(self.lock)
        elif self.kind == "slow link":
            fabric.restore_slow(self.job.number, self.rank)
        else:
            fabric.restore_cut(self.job.number, self.rank, self.other)


class Run:
    """Jobs that are looked at by turns; what each does next is a generator that goes on at each look."""

    def __init__(self, jobs: List[Job]) -> None:
        self.jobs = jobs
        self.trials: List[Trial] = []
        self.false_verdicts: List[str] = []

    def drive(self, acts: List[Iterator[None]]) -> None:
        alive = list(zip(self.jobs, acts))
        while alive:
            begin = time.monotonic()
            for job, _ in alive:
                job.look()
            alive = [(job, act) for job, act in alive if next(act, "over") is None]
            time.sleep(max(0.0, _LOOK_S - (time.monotonic() - begin)))

    def trials_of(self, job: Job, plan: List[str], draws: random.Random) -> Iterator[None]:
        while plan:
            kind = plan.pop()
            yield from self.until_it_trains(job, draws.uniform(1, 5))
            hang = Hang(job, kind, draws.randrange(job.world))
            hang.begin()
            began = time.monotonic()
            stands_s: Optional[float] = None
            named: List[Tuple[int, str]] = []
            while not named and time.monotonic() - began < _GIVE_UP_S:
                yield
                if job.stands_still:
                    stands_s = stands_s or time.monotonic() - began
                    named = [(int(rank), node) for rank, node in re.findall(r"rank (\d+) on ([^:]+): ", job.detail)]
            taken_s = time.monotonic() - began
            hang.heal()
            right = len(named) <= 2 and any(rank in hang.right and node == job.ranks[rank]["node"] for rank, node in named)
            trial = Trial(kind, stands_s, taken_s if named else None, right, right and len(named) == 1)
            self.trials.append(trial)
            if not right:
                figures.note(f"wrong: {kind} of rank {hang.rank} of {job.world}, {job.id}, {taken_s:.1f} s: {job.detail!r}; "
                             f"its last step was seen {job.step_at - began:.1f} s after the hang began")
            while job.stands_still:
                yield

    def until_it_trains(self, job: Job, seconds: float) -> Iterator[None]:
        """Until it has trained for so long, from its next step on. The step that the last hang held up may be among its last."""
        step, end = job.step, float("inf")
        while time.monotonic() < end:
            if end == float("inf") and job.step > step:
                end = time.monotonic() + seconds
            if job.stands_still:
                self.false_verdicts.append(job.detail)
                figures.note(f"false verdict: {job.id}: {job.detail!r}")
                while job.stands_still:
                    yield
            yield


@contextlib.contextmanager
def training(options, folder: str, worlds: Sequence[int], way: str) -> Iterator[List[Job]]:
    """Jobs of so many ranks each, once all of them train, on a cluster of their own."""
    os.chmod(folder, 0o755)
    python, out = os.path.join(folder, "python"), os.path.join(folder, "out")
    figures.install_sdk(options, python)
    shutil.copy(os.path.join(_HERE, "hang_job.py"), python)
    os.mkdir(out)
    os.chmod(out, 0o777)
    cluster = Cluster(options.bin, folder, "process", max(4, sum(worlds) // _RANKS_PER_NODE))  # two in each zone
    try:
        first = 100 if way == _CLEAN else 0  # networks of jobs that have ended go in a while of their own
        jobs = [Job(cluster, number, world) for number, world in enumerate(worlds, first)]
        for job in jobs:
            job.submit(python, way)
        for job in jobs:
            job.join_network()
        for job in jobs:
            def trains(each: Job = job) -> bool:
                each.look()
                return each.step > 10
            wait_until(trains, f"job {job.number} trains", _LOOK_S)
        yield jobs
    finally:
        cluster.stop()


def report(trials: List[Trial]) -> None:
    report_times("all, stands still", [trial.stands_s for trial in trials])
    figures.figure("all, not seen", "count", sum(trial.stands_s is None for trial in trials), len(trials), at_most=0)
    for kind in ("all", *_KINDS):
        mine = [trial for trial in trials if kind in (trial.kind, "all")]
        if mine:
            report_times(f"{kind}, named", [trial.named_s for trial in mine])
            figures.figure(f"{kind}, right rank", "ratio", sum(each.right for each in mine) / len(mine), len(mine), at_least=0.99)
            figures.figure(f"{kind}, alone", "ratio", sum(each.alone for each in mine) / len(mine), len(mine))


def report_times(what: str, times: List[Optional[float]]) -> None:
    known = [each * 1e3 for each in times if each is not None]
    if known:
        figures.figure(what, "p50_ms", figures.percentile(known, 50), len(known))
        figures.figure(what, "p99_ms", figures.percentile(known, 99), len(known), at_most=_AT_MOST_MS)
        figures.figure(what, "max_ms", max(known), len(known))


def measure_trials(options, sizes: Sizes) -> None:
    with figures.working_folder(options) as folder, training(options, folder, sizes.worlds, "train") as jobs:
        wanted = [kind for kind in _KINDS if figures.wants(options, [kind, "all"])]
        plan = [wanted[i % len(wanted)] for i in range(sizes.trials)]
        random.Random(_SEED).shuffle(plan)
        run = Run(jobs)
        run.drive([run.trials_of(job, plan, random.Random(_SEED + job.number)) for job in jobs])
        report(run.trials)
        figures.figure("between hangs, false verdicts", "count", len(run.false_verdicts), len(run.trials), at_most=0)


def measure_clean(options, sizes: Sizes) -> None:
    with figures.working_folder(options) as folder, training(options, folder, sizes.clean_worlds, _CLEAN) as jobs:
        run = Run(jobs)
        run.drive([run.until_it_trains(job, sizes.clean_s) for job in jobs])
        minutes = len(jobs) * sizes.clean_s / 60
        figures.figure(f"{_CLEAN}, false verdicts", "count", len(run.false_verdicts), max(1, round(minutes)), at_most=0)


def why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    if fabric.missing():
        return fabric.missing() + " not installed"
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        return "needs PyTorch"
    return ""


def main() -> None:
    options = figures.parse_arguments(__doc__)
    why = why_not()
    if why:
        figures.note(f"skipped: detect-hang: {why}")
        return
    if _INSIDE not in os.environ:
        # Whatever happens to this program, its cluster and its network go with it.
        os.environ[_INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", sys.executable, "-B", *sys.argv])
    fabric.make()
    sizes = Sizes(options.quick)
    if figures.wants(options, [*_KINDS, "all", "between hangs"]):
        measure_trials(options, sizes)
    if figures.wants(options, [_CLEAN]):
        measure_clean(options, sizes)


if __name__ == "__main__":
    main()
