"""A training with all that was once saved wrong without a word, disturbed at random moments: it ends as if nothing had been.

Suspended and resumed, and kill -9 of a rank, of its agent, or of both: the last checkpoint is that of an undisturbed one, bit for bit.

TIDE_DISTURBANCES: how many (4), a fourth each.   TIDE_SEED: repeats the draw of kinds and moments; it is printed.
"""

import os
import random
import re
import signal
import sys
import time
import unittest

from harness import PYTHON, ROOT, ClusterTest, Refused, describe, until

sys.path.insert(0, os.path.join(ROOT, "sdk", "python"))
from tide.checkpoint import store  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

DISTURBANCES = int(os.environ.get("TIDE_DISTURBANCES", "4"))
SEED = int(os.environ.get("TIDE_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
# Two batches a step; statistics that differ by rank; containers and schedules that JSON does not know; and each seventh step
# changes the weights after the tick and saves it again. It ends at the step that the file `last` holds.
SCRIPT = """
import collections, os, random, sys, time, numpy, tide, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
run = tide.attach()
torch.set_num_threads(1)
torch.manual_seed(3)
dist.init_process_group("gloo", rank=run.rank, world_size=run.world_size)
net = DDP(nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Dropout(0.1), nn.Linear(64, 1)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [
    torch.optim.lr_scheduler.ConstantLR(optimizer), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)], [20])
samples = tide.Sampler(203, global_batch=8, seed=3, accumulate=2)
seen = {"losses": collections.deque(maxlen=5), "samples": collections.Counter(), "averaged": 0}
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"net": net.module, "optimizer": optimizer, "schedule": schedule, "seen": seen},
                     local={"rng": tide.rng()}, global_={"samples": samples}, every=5, keep=5)
for seed in (random.seed, numpy.random.seed, torch.manual_seed):
    seed(run.rank)
step = ck.resume()
print("resumed", step, flush=True)

def average():
    if step % 7 == 0 and seen["averaged"] < step:
        with torch.no_grad():
            for weights in net.module.parameters():
                weights.mul_(0.99)
        seen["averaged"] = step
        ck.save(step)

def last():
    try:
        with open(os.path.join(run.checkpoint_dir, "last")) as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return sys.maxsize

average()
batch = 0
while step < last():
    for share in samples:
        batch += 1
        inputs = torch.stack([torch.sin(torch.arange(8) * (1.0 + sample)) for sample in share])
        if batch % 2:
            with net.no_sync():
                net(inputs).square().sum().backward()
            ck.tick(step + 1, safe=False)
            continue
        loss = net(inputs).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        seen["losses"].append(total.item())
        seen["samples"].update(str(sample % 10) for sample in range(step, step + 3))
        step += 1
        time.sleep(0.02)  # the length of a step, not a wait; tidy: poll
        if ck.tick(step):
            run.exit()
        average()
        if step >= last():
            break
ck.save(step, wait=True)
dist.barrier()
dist.destroy_process_group()
run.done()
"""


@unittest.skipIf(torch is None, "needs torch")
class Disturbed(ClusterTest):
    def test_ends_as_if_nothing_had_been(self):
        rng, cluster = random.Random(SEED), self.cluster
        with open(os.path.join(cluster.work, "trains.py"), "w", encoding="ascii") as out:
            out.write(SCRIPT)
        job, other = self.submit("disturbed"), self.submit("undisturbed")
        self.attempt = 1
        kinds = (["suspend", "rank", "agent", "both"] * (DISTURBANCES // 4 + 1))[:DISTURBANCES]
        rng.shuffle(kinds)
        self.assertEqual(self.resumed(job), 0)
        for number, kind in enumerate(kinds, 1):
            step = self.disturb(rng, job, kind)
            print("disturbance %d, %s: attempt %d, from step %d" % (number, kind, self.attempt, step), file=sys.stderr, flush=True)
        last = max(cluster.job(one)["step"] or 0 for one in (job, other)) + 50
        for one in (job, other):
            path = os.path.join(cluster.checkpoints(one), "last")
            with open(path + ".new", "w", encoding="ascii") as out:
                out.write(str(last))
            os.rename(path + ".new", path)
        for one in (job, other):
            done = cluster.await_over(one, 120 + last / 10)
            self.assertEqual(done["outcome"], "succeeded", describe(done))
        self.assertEqual(len(cluster.job(other)["attempts"]), 1, describe(done))
        print("seed %d: %d disturbances, %d attempts, %d steps" % (SEED, DISTURBANCES, self.attempt, last), file=sys.stderr)
        equal, words = cluster.compare(job, other)
        self.assertTrue(equal, words)

    def submit(self, name):
        return self.cluster.submit(self.cluster.spec(name, [PYTHON, "trains.py"], 2, 1, priority="normal",
                                                     retry={"failure": 1_000_000, "backoff": "1ms"}))

    def committed(self, job):
        return [item for item in store.scan(self.cluster.checkpoints(job)) if item.has_manifest]

    def resumed(self, job):
        """The step that all ranks of this attempt came back to."""
        self.cluster.await_job(job, "be in attempt %d" % self.attempt, lambda now: len(now["attempts"]) >= self.attempt, 90)

        def look(rank):
            try:
                log = self.cluster.logs(job, rank, self.attempt)
            except Refused as refused:
                if refused.status != 404:  # it has not begun there
                    raise
                return None
            found = re.search(r"^resumed (\d+)$", log, re.MULTILINE)
            return found and (int(found.group(1)),)
        steps = [until(90, "rank %d of attempt %d" % (rank, self.attempt), lambda rank=rank: look(rank))[0] for rank in range(2)]
        self.assertEqual(steps[0], steps[1])
        return steps[0]

    def disturb(self, rng, job, kind):
        """Does it at a random moment, and waits until the job goes on. Returns the step it goes on from."""
        cluster = self.cluster
        begin = cluster.await_job(job, "step", lambda now: now["state"] == "running" and now["step"] is not None)["step"]
        cluster.await_step(job, begin + rng.randrange(20))
        time.sleep(rng.random() * 0.1)  # tidy: poll (the moment is the input)
        kept = self.committed(job)
        if kind == "suspend":
            cluster.patiently("POST", "/v1/jobs/%s/suspend" % job, {"reason": "a random moment"})
            left = cluster.await_state(job, "held")
            self.assertEqual({task["exit"]["reason"] for task in left["attempts"][-1]["tasks"]}, {"suspended"}, describe(left))
            cluster.patiently("POST", "/v1/jobs/%s/resume" % job, {})
        else:
            ranks = sorted(cluster.ranks(job), key=lambda p: p.env["RANK"])
            self.assertEqual(len(ranks), 2)
            chosen = rng.randrange(2)
            agent = cluster.daemon("agent " + cluster.job(job)["attempts"][-1]["tasks"][chosen]["node"])
            pids = {"rank": [ranks[chosen].pid], "agent": [agent.pid], "both": [ranks[chosen].pid, agent.pid]}[kind]
            rng.shuffle(pids)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        if kind == "agent":
            cluster.await_job(job, "go on", lambda now: now["state"] == "running" and (now["step"] or -1) > begin + 20)
            self.assertEqual(len(cluster.job(job)["attempts"]), self.attempt, "nobody may notice")
            return begin
        self.attempt += 1
        step = self.resumed(job)
        self.assertGreaterEqual(step, kept[-1].step if kept else 0, "what was committed is not passed over")
        return step


if __name__ == "__main__":
    unittest.main()
