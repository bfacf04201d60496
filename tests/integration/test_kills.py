"""kill -9 of scheduler, agent, API or CLI at random moments: every job still ends with the right weights.

TIDE_KILLS: how many (20). TIDE_KILLS_PARTS: this is one of so many runs that share them.
TIDE_AGENT_KILLS: how many agents under one training (8).
TIDE_SEED: repeats a run; it is printed.
"""

import contextlib
import importlib.util
import os
import random
import signal
import sys
import time
import unittest

from harness import NODES, PYTHON, ClusterTest, DoubleRunWatch, Refused, describe, pause, until

KILLS = -(-int(os.environ.get("TIDE_KILLS", "20")) // int(os.environ.get("TIDE_KILLS_PARTS", "1")))
AGENT_KILLS = int(os.environ.get("TIDE_AGENT_KILLS", "8"))
# Automation takes so many nodes out of service in so long (docs/guide/policy.md); a fault beyond is a person's.
BREAKER_NODES, BREAKER_SECONDS = 3, 660
SEED = int(os.environ.get("TIDE_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
LIVE = ("starting", "running", "saving")


def say(text):
    print(text, file=sys.stderr, flush=True)


def digests(text):
    return sorted(line.split(" digest ")[1] for line in text.splitlines() if " digest " in line)


class Trial:
    """One job with its disturbances, each at its moment (seconds after the submit)."""

    def __init__(self, rng, number, victim):
        self.number = number
        self.victim = victim
        self.kill_at = rng.uniform(0, 5.5)
        self.urgent_at = rng.uniform(0.8, 2.5)
        self.fault_at = rng.uniform(0.5, 4.5) if rng.random() < 0.35 else None
        self.pick = rng.random()
        self.near = rng.random() < 0.7
        self.killed = ""
        self.broken = None
        self.phase = "?"

    def words(self):
        return "trial %2d: kill -9 %-10s at %.2f s (job %s), urgent at %.2f s%s" % (
            self.number, self.killed, self.kill_at, self.phase, self.urgent_at,
            ", Xid 79 on %s" % self.broken if self.broken else "")


class RandomKills(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.watch = DoubleRunWatch(cls.cluster)
        cls.addClassCleanup(cls.watch.stop)
        cls.reference = cls.cluster.submit(cls.cluster.count_job(priority="normal", name="undisturbed"))
        job = cls.cluster.await_over(cls.reference, 60)
        assert job["outcome"] == "succeeded", describe(job)
        cls.digest = digests(cls.cluster.logs(cls.reference))[0]

    def test_every_job_ends_right(self):
        rng = random.Random(SEED)
        victims = ["scheduler", "agent", "api", "cli"] * (KILLS // 4 + 1)
        victims = victims[:KILLS]
        rng.shuffle(victims)
        say("seed %d, %d kills" % (SEED, KILLS))
        in_flight = 0
        self.broken_at = []
        for number, victim in enumerate(victims, 1):
            trial = Trial(rng, number, victim)
            begin = time.monotonic()
            if sum(begin - at < BREAKER_SECONDS for at in self.broken_at) >= BREAKER_NODES:
                trial.fault_at = None
            try:
                self.play(trial)
            finally:
                say(trial.words() + ": %.1f s" % (time.monotonic() - begin))
            in_flight += trial.phase not in ("finished", "?")
        say("%d of %d kills while the job was under way, %d looks for double runs" %
            (in_flight, KILLS, self.watch.looks))

    def play(self, trial):
        cluster = self.cluster
        job = cluster.submit(cluster.count_job(name="t%d" % trial.number))
        self.cli = {"logs": cluster.tide_later("logs", "-f", job),
                    "wait": cluster.tide_later("wait", job, "--for", "state=succeeded", "--timeout", "200s")}
        self.addCleanup(lambda cli=self.cli: [each.end() for each in cli.values()])
        urgent = self.disturb(trial, job)
        final = cluster.await_over(job, 60)
        self.assertEqual(final["outcome"], "succeeded", describe(final))
        rushed = cluster.await_over(urgent, 60)
        self.assertEqual(rushed["outcome"], "succeeded", describe(rushed))
        self.check_weights(job, final)
        self.check_attempts(job, final)
        self.assertEqual(self.watch.problems, [])
        self.assertEqual(self.cli["wait"].wait(30), 0, self.cli["wait"].err())
        self.assertEqual(self.cli["logs"].wait(30), 0, self.cli["logs"].err())
        said = self.cli["logs"].out()
        # A fault after the last line and before the last exit has the job end once more, from its last step; asked to leave
        # at that step, it has not ended before.
        ends = 1 + said.count("rank 0 of 4 starts after step 150") - said.count("rank 0 leaves at step 150")
        self.assertEqual(digests(said), [self.digest] * ends, said + self.cli["logs"].err() + describe(final))
        cluster.await_nodes()

    def disturb(self, trial, job):
        """Does what the trial wants, when it wants it, until all is done and the job has ended."""
        cluster = self.cluster
        begin = time.monotonic()
        urgent = None
        repaired = trial.fault_at is None
        faults = 0
        killed = False
        while True:
            at = time.monotonic() - begin
            self.assertLess(at, 90, "the trial takes too long: %s; %s" % (
                describe(cluster.peek(job)), trial.broken and cluster.node(trial.broken)))
            now = cluster.peek(job)
            if urgent is None and at >= trial.urgent_at:
                urgent = cluster.submit(cluster.count_job(
                    steps=12, nodes=4, ranks=1, priority="high", name="urgent%d" % trial.number,
                    placement={"zone": "cross-ok"}))
            if not killed and at >= trial.kill_at:
                trial.phase = now["state"] if now else "?"
                self.strike(trial, now)
                killed = True
            if trial.fault_at is not None and trial.broken is None and at >= trial.fault_at and now:
                if now["state"] == "finished":
                    repaired = True
                elif now["state"] in LIVE and now["attempts"]:
                    tasks = now["attempts"][-1]["tasks"]
                    trial.broken = tasks[int(trial.pick * len(tasks))]["node"]
                    faults = cluster.node(trial.broken)["faults"]
                    cluster.break_node(trial.broken)
                    self.broken_at.append(time.monotonic())
            if trial.broken and not repaired:
                repaired = self.repair(trial.broken, faults)
            if killed and urgent and repaired and (not now or now["state"] == "finished"):
                return urgent
            pause()

    def strike(self, trial, now):
        cluster = self.cluster
        if trial.victim == "cli":
            which = ("logs", "wait")[trial.pick < 0.5]
            trial.killed = "tide " + which
            self.cli[which].child.send_signal(signal.SIGKILL)
            argv = self.cli[which].child.args[1:]
            self.cli[which].end()
            self.cli[which] = cluster.tide_later(*argv)
            return
        trial.killed = trial.victim
        if trial.victim == "agent":
            nodes = [t["node"] for t in now["attempts"][-1]["tasks"]] if now and now["attempts"] else NODES
            nodes = nodes if trial.near else NODES
            trial.killed = "agent " + nodes[int(trial.pick * len(nodes))]
        cluster.kill_daemon(trial.killed)

    def repair(self, name, faults):
        """As an operator would: once the node is out of service and empty, vouch for its GPU, which nothing here can test,
        and test the rest. True when it serves again."""
        node = self.cluster.node(name)
        if node["faults"] == faults:
            return False
        if node["state"] == "quarantined" and not node["job"]:
            with contextlib.suppress(Refused):  # the API saw an old state: it is validating already
                for fault in self.cluster.patiently("GET", "/v1/faults")["items"]:
                    if fault["node"] == name and not fault["cleared_at"] and not fault["vouched_by"]:
                        self.cluster.patiently("POST", "/v1/faults/%d/ack" % fault["id"], {"reason": "looked at it"})
                self.cluster.patiently("POST", "/v1/nodes/%s/validate" % name, {"reason": "looked at it"})
        return node["state"] == "probation"

    def check_weights(self, job, final):
        text = until(15, "the last lines of " + job,
                     lambda: (all_ranks := self.cluster.logs(job, "all")).count(" digest ") == 4 and all_ranks)
        self.assertEqual(digests(text), [self.digest] * 4, describe(final))
        equal, words = self.cluster.compare(self.reference, job)
        self.assertTrue(equal, words)

    def check_attempts(self, job, final):
        """Logs of every attempt can be read; what was saved at a suspension was not done again."""
        logs = [self.cluster.logs(job, attempt=a["epoch"]) for a in final["attempts"]]
        for left, text in zip(final["attempts"], logs[1:]):
            if left["end_reason"] == "preempted" and left["saved_at"] and text:
                self.assertIn("starts after step %d\n" % left["stop_step"], text, describe(final))


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch")
class KillsWhileTraining(ClusterTest):
    """PyTorch DDP: the collectives must survive what happens to the daemons, too."""

    def charlm(self, name, priority):
        cluster = self.cluster
        return cluster.spec(name, [PYTHON, "train_charlm.py", "--steps", "60", "--save-every", "20",
                                   "--log-every", "10", "--step-ms", "60"], 2, 2, priority=priority)

    def test_weights_after_two_kills(self):
        cluster = self.cluster
        reference = cluster.submit(self.charlm("undisturbed", "normal"))
        done = cluster.await_over(reference, 300)
        self.assertEqual(done["outcome"], "succeeded", describe(done))
        job = cluster.submit(self.charlm("charlm", "low"))
        now = cluster.await_step(job, 10, 90)
        cluster.kill_daemon("agent " + now["attempts"][-1]["tasks"][0]["node"])
        urgent = cluster.submit(cluster.count_job(steps=12, nodes=4, ranks=1, priority="high", name="urgent",
                                                  placement={"zone": "cross-ok"}))
        cluster.kill_daemon("scheduler")
        for each in (urgent, job):
            done = cluster.await_over(each, 300)
            self.assertEqual(done["outcome"], "succeeded", describe(done))
        equal, words = cluster.compare(reference, job)
        self.assertTrue(equal, words)
        self.assertGreaterEqual(len(done["attempts"]), 2, describe(done))



class AgentKills(ClusterTest):
    """One agent of a PyTorch job after the other, again and again: nobody may notice."""

    def training(self, name, steps):
        # Every rank counts its steps in its own output; the weights are printed by rank 0 at the end.
        return self.cluster.spec(name, [PYTHON, "train_charlm.py", "--steps", str(steps), "--save-every", "50",
                                        "--log-every", "1", "--step-ms", "50"], 2, 2, priority="normal")

    def test_nobody_notices(self):
        cluster = self.cluster
        steps = 60 + 25 * AGENT_KILLS
        reference = cluster.submit(self.training("undisturbed", steps))
        done = cluster.await_over(reference, 120 + steps)
        self.assertEqual(done["outcome"], "succeeded", describe(done))
        job = cluster.submit(self.training("disturbed", steps))
        tasks = cluster.await_step(job, 2, 90)["attempts"][-1]["tasks"]
        ranks = cluster.ranks(job)
        tags = cluster.note_tags()
        self.assertTrue(tags)
        for kill in range(AGENT_KILLS):
            step = cluster.job(job)["step"]
            cluster.kill_daemon("agent " + tasks[kill % 2]["node"])
            cluster.await_job(job, "go on", lambda now, step=step: (now["step"] or -1) > step)
        self.assertEqual(cluster.job(job)["state"], "running", "it was to run through all kills")
        self.assertEqual({p.pid for p in ranks}, {p.pid for p in cluster.ranks(job)})
        done = cluster.await_over(job, 120 + steps)
        self.assertEqual((done["outcome"], len(done["attempts"])), ("succeeded", 1), describe(done))
        equal, words = cluster.compare(reference, job)
        self.assertTrue(equal, words)
        for rank in range(4):
            lines = cluster.logs(job, rank)
            self.assertEqual(lines, cluster.logs(reference, rank), "rank %d" % rank)
        counted = [line.split()[1] for line in cluster.logs(job).splitlines() if line.startswith("step ")]
        self.assertEqual(counted[:steps], [str(step) for step in range(1, steps + 1)])
        self.assertEqual(cluster.interrupt(), 0)
        until(20, "the last of it to go", lambda: not cluster.leftovers())

if __name__ == "__main__":
    unittest.main()
