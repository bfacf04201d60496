"""Trainings whose loss goes wrong: noted with its step, ended, or taken back to the checkpoint before."""

import os
import signal
import unittest

from harness import PYTHON, Cluster, until

try:
    import torch
except ImportError:
    torch = None

# Linear regression on two ranks. From step `bad` of the attempts named the gradient is NaN, so that the weights are, and
# so is the loss one step later. It saves every tenth step, bad weights, too.
TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
import tide

run = tide.attach()
bad, attempts, spike, steps = int(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3]), int(sys.argv[4])
pace = float(sys.argv[5])
dist.init_process_group("gloo")
torch.manual_seed(run.rank)
model = torch.nn.Linear(4, 1)
with torch.no_grad():
    model.weight.zero_()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"model": model}, every=10, keep=50)
step = ck.resume()
print("begins at", step, flush=True)
while step < steps:
    inputs = torch.randn(16, 4)
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    for each in model.parameters():
        dist.all_reduce(each.grad)
        each.grad /= run.world_size
    if step + 1 == bad and os.environ["TIDE_ATTEMPT"] in attempts:
        model.weight.grad.fill_(float("nan"))
    optimizer.step()
    step += 1
    time.sleep(pace)  # the length of a step, not a wait; tidy: poll
    shown = loss.item()
    if spike <= step < spike + 40:
        shown += 1000
    if ck.tick(step, loss=shown, total=steps):
        run.exit()
run.done()
"""


@unittest.skipIf(torch is None, "needs torch")
class LossesTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(nodes=4, runtime="process")
        self.addCleanup(self.cluster.close)
        self.cluster.start()
        self.program = os.path.join(self.cluster.work, "train.py")
        with open(self.program, "w", encoding="ascii") as file:
            file.write(TRAIN)

    def train(self, name, bad, attempts="1,2,3,4,5", spike=10 ** 9, steps=10 ** 9, pace=0.02, on_nan="note"):
        return self.cluster.submit(self.cluster.spec(
            name, [PYTHON, self.program, *map(str, (bad, attempts, spike, steps, pace))], 2, 1, health={"on_nan": on_nan}))

    def notes(self, job, attempt=0):
        return {each["kind"]: each for each in self.cluster.job(job)["attempts"][attempt]["notes"]}

    def ended(self, job):
        until(120, "the job to end", lambda: self.cluster.job(job)["state"] == "finished")
        return self.cluster.job(job)

    def test_a_loss_that_is_nan_is_noted_once_though_daemons_die(self):
        cluster = self.cluster
        job = self.train("nan", 37)
        note = until(60, "the note", lambda: self.notes(job).get("loss_not_finite"))
        self.assertEqual((note["text"], note["step"]), ("loss is NaN since step 38", 38))
        node = cluster.job(job)["attempts"][0]["tasks"][0]["node"]
        for daemon in ("agent " + node, "scheduler"):
            cluster.kill_daemon(daemon)
        seen = cluster.job(job)["step"] or 0
        until(60, "it to train on", lambda: (cluster.job(job)["step"] or 0) > seen + 100)
        self.assertEqual(self.notes(job), {"loss_not_finite": note})
        self.assertEqual(len(cluster.job(job)["attempts"]), 1)
        self.assertIn("attempt 1: loss is NaN since step 38", cluster.tide("show", job).stdout)
        cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {"reason": "test"}, ())

    def test_a_spike_is_noted(self):
        job = self.train("spike", 10 ** 9, spike=400, pace=0.1)
        note = until(120, "the note", lambda: self.notes(job).get("loss_spike"))
        self.assertRegex(note["text"], "^loss spiked at step 4[0-3][0-9]: 100[0-9](.[0-9])? against a median of ")
        self.cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {"reason": "test"}, ())

    def test_a_job_that_is_to_stop_fails_at_that_step(self):
        done = self.ended(self.train("stops", 37, on_nan="stop"))
        self.assertEqual((done["outcome"], len(done["attempts"])), ("failed", 1))
        self.assertEqual(done["detail"], "loss is NaN since step 38 (health.on_nan: stop)")

    def test_a_job_that_is_to_go_back_does_and_ends_well(self):
        job = self.train("back", 37, attempts="1", steps=150, on_nan="rollback")
        done = self.ended(job)
        self.assertEqual(done["outcome"], "succeeded", done["detail"])
        self.assertEqual([each["end_reason"] for each in done["attempts"]], ["failed", "succeeded"])
        self.assertRegex(done["attempts"][0]["end_detail"],  # good losses are read ten times a second
                         "^loss is NaN since step 38; it goes back to a checkpoint below step 3[1-7]$")
        self.assertEqual(*[[task["node"] for task in each["tasks"]] for each in done["attempts"]])
        self.assertIn("begins at 30", self.cluster.logs(job, rank="0", attempt=2))
        self.assertEqual(done["attempts"][1]["notes"], [])
        self.assertEqual((done["failure_restarts"], done["hardware_restarts"]), (0, 0))

    def test_a_job_that_goes_bad_again_at_the_same_step_ends(self):
        done = self.ended(self.train("again", 37, on_nan="rollback"))
        self.assertEqual((done["outcome"], len(done["attempts"])), ("failed", 2))
        self.assertEqual(done["detail"], "loss is NaN since step 38 (health.on_nan: rollback, but it went back before, after "
                                         "step 38, and got no further)")


if __name__ == "__main__":
    unittest.main()
