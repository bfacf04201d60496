"""Hundreds of short jobs of every kind, while the machine is busy and agents are killed: each ends once, as it ended.

TIDE_SHORT_JOBS, TIDE_SHORT_RUNS and TIDE_SHORT_NODES make it larger (2000, 20 and 16 are the full run).
"""

import glob
import os
import random
import signal
import subprocess
import unittest

from harness import BIN, Cluster, Repeated, processes, until

JOBS = int(os.environ.get("TIDE_SHORT_JOBS", "120"))
RUNS = int(os.environ.get("TIDE_SHORT_RUNS", "1"))
NODES = int(os.environ.get("TIDE_SHORT_NODES", "4"))
SEED = int(os.environ.get("TIDE_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
SPINNERS = 4

# name: command, outcome, exit code, output
KINDS = {
    "true": (["true"], "succeeded", 0, ""),
    "false": (["false"], "failed", 1, ""),
    "sleep": (["sh", "-c", "echo begin $TIDE_ARRAY_INDEX; sleep 0.01; echo end $TIDE_ARRAY_INDEX"], "succeeded", 0,
              "begin {index}\nend {index}\n"),
    "segfault": (["sh", "-c", "echo before; kill -SEGV $$"], "failed", 139, "before\n"),
    "missing": (["/no/such/program"], "failed", 127, ""),
}


def fnv1a(text):
    """As the names of a task's cgroups end."""
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 % 2 ** 32
    return value


class Killer(Repeated):
    """Kills an agent with -9 now and then, at random moments."""

    def __init__(self, cluster, seed):
        self._cluster = cluster
        self._random = random.Random(seed)
        self.kills = 0
        super().__init__()

    def pause(self):
        return self._random.uniform(0.2, 1.5)

    def act(self):
        agents = [p for p in self._cluster.children() if os.path.basename(p.argv[0] if p.argv else "") == "tide-agent"]
        if agents:
            os.kill(self._random.choice(agents).pid, signal.SIGKILL)
            self.kills += 1


class ShortJobs:
    runtime = ""

    def setUp(self):
        self.cluster = Cluster(self.runtime, NODES)
        self.addCleanup(self.cluster.close)
        self.cluster.dev_flags = ["--agent-flag=--gpus=8"]
        self.cluster.start()
        for _ in range(SPINNERS):
            spinner = subprocess.Popen(["sh", "-c", "while :; do :; done"])
            self.addCleanup(spinner.wait)
            self.addCleanup(spinner.kill)

    def test_every_job_ends_once_as_it_ended(self):
        for run in range(RUNS):
            with self.subTest(run=run, seed=SEED + run):
                self.play(SEED + run)

    def play(self, seed):
        each = JOBS // len(KINDS)
        killer = Killer(self.cluster, seed)
        try:
            arrays = {kind: self.submit(kind, each) for kind in KINDS}
            until(600, "all jobs to end", lambda: all(self.over(first, each) for first in arrays.values()))
        finally:
            killer.stop()
        until(5, "nothing to be starting", lambda: not self.cluster.patiently("GET", "/v1/jobs?state=starting")["items"])
        for kind, first in arrays.items():
            for index in range(each):
                self.check(kind, first + index, index)
        self.cluster.await_nodes(60)
        try:
            until(30, "nothing to be left", lambda: not self.left())
        except AssertionError as error:
            raise AssertionError("%s; there are %s" % (error, self.left()[:5])) from None
        print("%s: %d jobs, %d agents killed, seed %d" % (self.runtime, each * len(KINDS), killer.kills, seed), flush=True)

    def submit(self, kind, count):
        spec = {"version": 1, "name": kind, "command": KINDS[kind][0], "count": count, "resources": {"gpus_per_node": 1}}
        return int(self.cluster.submit(spec)[2:])

    def over(self, first, count):
        states = self.cluster.patiently("GET", "/v1/jobs/j-%d[0-%d]" % (first, count - 1))["states"]
        return sum(states.get(word, 0) for word in ("succeeded", "failed", "cancelled")) == count

    def check(self, kind, number, index):
        _, outcome, code, output = KINDS[kind]
        job = self.cluster.job("j-%d" % number)
        said = "%s, element %d, job %d: %s" % (kind, index, number, job)
        self.assertEqual((job["outcome"], job["exit_code"]), (outcome, code), said)
        self.assertEqual(len(job["attempts"]), 1, said)
        [folder] = glob.glob("%s/agent-*/tasks/%d.1.0/logs" % (self.cluster.state, number))
        text = ""
        for name in sorted(os.listdir(folder)):
            if name.endswith(".log"):
                with open(os.path.join(folder, name), encoding="utf-8") as log:
                    text += log.read()
        if kind != "missing":  # tide-init says why, in its own words
            self.assertEqual(text, output.format(index=index), said)

    def left(self):
        """What is still there of tasks, in words."""
        state = self.cluster.state
        found = glob.glob(state + "/agent-*/held/*") + glob.glob(state + "/agent-*/scratch/*")
        found += glob.glob(state + "/agent-*/tasks/*/task.json") + glob.glob(state + "/checkpoints/*")
        found += ["process %d: %s" % (p.pid, " ".join(p.argv)) for p in processes()
                  if len(p.argv) > 2 and p.argv[0].startswith(BIN) and p.argv[1] == "supervise" and state in p.argv[2]]
        mine = {"%08x" % fnv1a(folder) for folder in glob.glob(state + "/agent-*/tasks/*")}
        found += [path for path in glob.glob("/sys/fs/cgroup/*/tide/*-*") if path.rsplit("-", 1)[1] in mine]
        found += ["process %d: %s" % (p.pid, " ".join(p.argv)) for p in self.cluster.ranks()]
        with open("/proc/mounts", encoding="utf-8") as mounts:
            found += [line for line in mounts if state in line]
        return found


class ShortJobsAsProcesses(ShortJobs, unittest.TestCase):
    runtime = "process"


@unittest.skipIf(os.geteuid() != 0, "containers need root")
class ShortJobsInContainers(ShortJobs, unittest.TestCase):
    runtime = "oci"


if __name__ == "__main__":
    unittest.main()
