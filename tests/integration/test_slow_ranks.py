"""A rank that computes for longer than its peers makes all of them wait: it is named. Pauses of a training are no such thing."""

import os
import unittest

from harness import PYTHON, Cluster, until

try:
    import torch
except ImportError:
    torch = None

# Ranks that compute for 0.3 s and then meet. Rank `slow` works on for a sixth of a second more; one that is to pause
# evaluates and saves now and then.
TRAIN = """
import sys, time
import torch, torch.distributed as dist
import tide

run = tide.attach()
slow, pauses = int(sys.argv[1]), sys.argv[2] == "pauses"
dist.init_process_group("gloo")
state = {"sum": torch.zeros(8)}
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"state": state}, every=20 if pauses else 0)
step = ck.resume()
while True:
    began = time.monotonic()
    time.sleep(0.3)  # what it computes, not a wait; tidy: poll
    while run.rank == slow and time.monotonic() < began + 0.46:
        torch.ones(64, 64) @ torch.ones(64, 64)
    run.compute_time(time.monotonic() - began)
    dist.all_reduce(torch.ones(8))
    step += 1
    if pauses and step % 25 == 0:
        with run.evaluating():
            time.sleep(2)  # so long an evaluation takes; tidy: poll
    if ck.tick(step):
        run.exit()
"""


@unittest.skipIf(torch is None, "needs torch")
class SlowRanksTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(nodes=4, runtime="process")
        self.addCleanup(self.cluster.close)
        self.cluster.start()
        self.program = os.path.join(self.cluster.work, "train.py")
        with open(self.program, "w", encoding="ascii") as file:
            file.write(TRAIN)

    def train(self, name, slow, pauses):
        return self.cluster.submit(self.cluster.spec(name, [PYTHON, self.program, str(slow), pauses], 2, 2))

    def test_a_slow_rank_is_named_and_pauses_are_nothing(self):
        cluster = self.cluster
        slow, clean = self.train("slow", 2, "no"), self.train("clean", -1, "pauses")
        notes = until(150, "the rank to be named", lambda: cluster.job(slow)["attempts"][0]["notes"])
        node = cluster.job(slow)["attempts"][0]["tasks"][1]["node"]
        self.assertEqual([each["kind"] for each in notes], ["slow_rank"])
        self.assertRegex(notes[0]["text"], "^rank 2 on %s is slow: it computes [4-7][0-9] %% longer " % node)
        self.assertEqual(cluster.node(node)["state"], "ready")
        until(150, "three evaluations and saves", lambda: cluster.job(clean)["step"] >= 100)
        for job, kinds in ((slow, ["slow_rank"]), (clean, [])):
            ran = cluster.job(job)
            self.assertEqual(([each["kind"] for each in ran["attempts"][0]["notes"]], len(ran["attempts"])), (kinds, 1))
            cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {"reason": "test"}, ())


if __name__ == "__main__":
    unittest.main()
