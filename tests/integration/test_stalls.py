"""Jobs whose ranks get on no more: the odd rank named, what it does in its log, begun again from its checkpoint."""

import os
import re
import signal
import unittest

from harness import PYTHON, Cluster, until

try:
    import torch
except ImportError:
    torch = None

POLICY = """version: 1
faults: { stall_restart: 20s }
"""
# Ranks that meet at each step, as fast as they can. At step 25 of the first attempt rank 1 waits for a lock that it
# holds itself.
TRAIN = """
import os, sys, threading
import torch, torch.distributed as dist
import tide

def wait_for_a_peer_that_never_comes():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

run = tide.attach()
dist.init_process_group("gloo")
state = {"sum": torch.zeros(8)}
hangs, steps = sys.argv[1] == "hangs", int(sys.argv[2])
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"state": state}, every=10 if hangs else steps)
step = ck.resume()
while step < steps:
    if hangs and run.rank == 1 and step == 25 and os.environ["TIDE_ATTEMPT"] == "1":
        wait_for_a_peer_that_never_comes()
    ones = torch.ones(8)
    dist.all_reduce(ones)
    state["sum"] += ones
    step += 1
    if ck.tick(step, total=steps):
        run.exit()
ck.save(step, wait=True)
print("sum", int(state["sum"][0]), flush=True)
run.done()
"""


@unittest.skipIf(torch is None, "needs torch")
class StallsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(nodes=4, runtime="process")
        self.addCleanup(self.cluster.close)
        policy = os.path.join(self.cluster.base, "policy.yaml")
        with open(policy, "w", encoding="ascii") as file:
            file.write(POLICY)
        self.cluster.dev_flags.append("--scheduler-flag=--policy=" + policy)
        self.cluster.start()
        self.program = os.path.join(self.cluster.work, "train.py")
        with open(self.program, "w", encoding="ascii") as file:
            file.write(TRAIN)

    def train(self, name, what, steps):
        return self.cluster.submit(
            self.cluster.spec(name, [PYTHON, self.program, what, str(steps)], 2, 1))

    def detail(self, job):
        return self.cluster.job(job)["detail"] or ""

    def test_a_deadlock_is_named_shown_in_the_log_and_begun_again(self):
        cluster = self.cluster
        job = self.train("deadlock", "hangs", 60)
        stalled = until(120, "the job to stand still", lambda: (text := self.detail(job)).startswith("stands") and text)
        self.assertTrue(stalled.startswith("stands still at step 25"), stalled)  # of all ranks: each waits for another
        self.assertIsNotNone(cluster.job(job)["attempts"][0]["stalled_at"])
        until(30, "its stacks in the log",
              lambda: "wait_for_a_peer_that_never_comes" in cluster.logs(job, rank="1", attempt=1))
        self.assertIn("all_reduce", cluster.logs(job, rank="0", attempt=1))
        until(30, "the odd one to be named", lambda: re.fullmatch(
            r"stands still at step 25: rank 1 on [ab]-n[0-9]: in wait_for_a_peer_that_never_comes \(train.py:[0-9]+\), "
            r"while most ranks are in all_reduce \(distributed_c10d.py:[0-9]+\)", self.detail(job)))
        until(120, "the job to end well", lambda: cluster.job(job)["state"] == "finished")
        done = cluster.job(job)
        self.assertEqual(done["outcome"], "succeeded")
        self.assertEqual([each["end_reason"] for each in done["attempts"]], ["fault", "succeeded"])
        self.assertRegex(done["attempts"][0]["end_detail"], "^stood still at step 25 for 2[0-9]s")
        self.assertIn("sum 120", cluster.logs(job, rank="0", attempt=2))

    def test_a_stopped_rank_is_named_and_goes_on_when_it_is_continued(self):
        cluster = self.cluster
        job = self.train("stopped", "goes on", 10 ** 9)
        until(120, "it to train", lambda: (cluster.job(job)["step"] or 0) > 5)
        pid = next(each.pid for each in cluster.ranks(job) if each.env["RANK"] == "1")
        os.kill(pid, signal.SIGSTOP)
        try:
            said = until(60, "the rank to be named", lambda: (text := self.detail(job)).startswith("stands") and text)
            self.assertRegex(said, "^stands still at step [0-9]+: rank 1 on [ab]-n[0-9]: its process is stopped")
        finally:
            os.kill(pid, signal.SIGCONT)
        until(30, "it to get on", lambda: not self.detail(job))
        self.assertEqual(len(cluster.job(job)["attempts"]), 1)
        cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {"reason": "test"}, ())


if __name__ == "__main__":
    unittest.main()
