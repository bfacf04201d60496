"""The leading scheduler is killed under load: a standby takes over, and nobody but it notices.

TIDE_FAILOVERS: how many (5).
"""

import os
import signal
import sys
import threading
import time
import unittest

from harness import Cluster, DoubleRunWatch, describe, pause, until

FAILOVERS = int(os.environ.get("TIDE_FAILOVERS", "5"))


class Submitter:
    """Submits short jobs without a pause, as a script with retries would; keeps what was acknowledged."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.acknowledged = []  # (moment, job)
        self.error = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join(60)

    def since(self, moment):
        """The first acknowledgement after it: (moment, job), or None."""
        return next((each for each in self.acknowledged[-50:] if each[0] > moment), None)

    def _run(self):
        number = 0
        while not self._stop.is_set():
            number += 1
            spec = self.cluster.spec("short-%d" % number, ["true"])
            spec["resources"] = {"nodes": 1, "gpus_per_node": 0, "cpus_per_node": 1}
            try:
                job = self.cluster.submit(spec, "short-%d" % number)
            except Exception as error:  # shown by the test, not by a thread that nobody hears
                self.error = error
                return
            self.acknowledged.append((time.monotonic(), job))
            pause(0.1)


class Failover(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(schedulers=3)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()
        cls.watch = DoubleRunWatch(cls.cluster)
        cls.addClassCleanup(cls.watch.stop)

    def test_leader_is_killed_under_load(self):
        cluster = self.cluster
        # Of the class of the short ones: nobody may take its nodes.
        training = cluster.submit(cluster.count_job(steps=100_000, nodes=2, ranks=2, priority="normal", name="training"))
        cluster.await_step(training, 5)
        ranks = {p.pid for p in cluster.ranks(training)}
        submitter = Submitter(cluster)
        took = []
        for _ in range(FAILOVERS):
            leader = until(20, "a leader", cluster.leader)
            begin = time.monotonic()
            os.kill(leader.pid, signal.SIGKILL)
            first = until(20, "a submission to the next leader", lambda: submitter.since(begin + 0.05))
            new = until(20, "another leader", lambda: (now := cluster.leader()) and now.pid != leader.pid and now)
            self.assertNotEqual(new.pid, leader.pid)
            took.append(first[0] - begin)
            until(20, "all agents to follow it", lambda: all(
                n["connected"] for n in cluster.patiently("GET", "/v1/nodes")["items"]))
            cluster.await_step(training, cluster.job(training)["step"] + 5)
        submitter.stop()
        if submitter.error:
            raise submitter.error
        print("%d failovers, submissions again after %s s" % (FAILOVERS, ", ".join("%.2f" % t for t in took)),
              file=sys.stderr)
        self.assertEqual({p.pid for p in cluster.ranks(training)}, ranks, "the training was touched")
        self.assertEqual(len(cluster.job(training)["attempts"]), 1)
        names = set()
        for _, job in submitter.acknowledged:
            final = cluster.await_over(job)
            self.assertEqual(final["outcome"], "succeeded", describe(final))
            self.assertEqual(len(final["attempts"]), 1, describe(final))
            names.add(final["spec"]["name"])
        self.assertEqual(len(names), len(submitter.acknowledged), "a job twice")
        self.assertEqual(self.watch.problems, [])
        cluster.patiently("POST", "/v1/jobs/%s/cancel" % training, {"reason": "end of the test"})
        cluster.await_over(training)

    def test_a_standby_serves_nobody_and_ends_when_told(self):
        leader = until(20, "a leader", self.cluster.leader)
        schedulers = [p for p in self.cluster.children() if p.argv[0].endswith("/tide-scheduler")]
        self.assertEqual(len(schedulers), 3)
        standby = next(p for p in schedulers if p.pid != leader.pid)
        os.kill(standby.pid, signal.SIGTERM)
        until(10, "the standby to end", lambda: not standby.alive())
        self.assertTrue(leader.alive())


if __name__ == "__main__":
    unittest.main()
