"""What once went wrong without a word, each as a user's program meets it, in processes of its own."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import unittest

from support import TempCase, free_port, run_ranks, start_python, told

try:
    import torch
except ImportError:
    torch = None

_TWO_JOBS = """
import array, sys, tide
run = tide.attach()
mine = float(sys.argv[1])
state = {"w": array.array("d", [mine]) * 200_000}
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": state}, keep=100, timeout_s=1)
ck.resume()
print("ready", flush=True)
sys.stdin.readline()
for step in range(1, 11):
    ck.save(step)
"""

_AFTER_THE_TICK = """
import array, tide
run = tide.attach()
weights = array.array("d", [0.0]) * 10
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": {"w": weights}}, every=10)
begin = ck.resume()
if begin == 0:
    for step in range(1, 21):
        weights[0] = step
        ck.tick(step)
    weights[0] = 99.0  # averaged, merged, quantised … after the last step
    ck.save(20)
else:
    print(begin, weights[0])
"""

_COUNTS = """
import sys, tide
run = tide.attach()
state = {"n": 0}
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": state}, timeout_s=1)
step = ck.resume()
print("trains from", step, flush=True)
while step < int(sys.argv[1]):
    step += 1
    state["n"] = step
    ck.tick(step)
ck.save(step)
"""

_BATCH_NORM = """
import hashlib, os, sys, tide, torch
import torch.distributed as dist
run = tide.attach()
dist.init_process_group("gloo")
torch.manual_seed(3)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 1)))
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"model": net.module})
def digest():
    norm = net.module[1]
    return hashlib.sha256(norm.running_mean.numpy().tobytes() + norm.running_var.numpy().tobytes()).hexdigest()
if ck.resume() == 0:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.manual_seed(run.rank)
    for step in range(1, 6):
        net(torch.randn(16, 8)).sum().backward()
        optimizer.step()
        ck.tick(step)
    ck.save(5)
    print("saved", digest())
else:
    print("restored", digest())
"""

# Two batches a step, five steps, killed, five more.
_ACCUMULATES = """
import os, sys, tide
run = tide.attach()
try:
    samples = tide.Sampler(80, global_batch=4, seed=3, accumulate=2)
except TypeError:
    samples = tide.Sampler(80, global_batch=4, seed=3)
ck = tide.Checkpoint(dir=run.checkpoint_dir, global_={"samples": samples}, replicated={"m": {"n": 1}}, every=5, keep=100)
step, seen = ck.resume(), 0
for share in samples:
    print(*share)
    seen += 1
    if seen % 2 == 0:
        step += 1
        ck.tick(step, safe=False)
        ck.tick(step)
        if step == 5:
            ck.save(5)
            sys.stdout.flush()
            os._exit(0)
"""

_TYPES = """
import collections, enum, tide, torch
run = tide.attach()
class Color(enum.IntEnum):
    RED = 1
Pair = collections.namedtuple("Pair", "a b")
state = {"deque": collections.deque([1, 2], 3), "default": collections.defaultdict(int, a=1), "counter": collections.Counter("aab"),
         "bytes": bytearray(b"ab")}
net = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [torch.optim.lr_scheduler.ConstantLR(optimizer), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)], [2])
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": net, "o": optimizer, "schedule": schedule, "state": state})
step = ck.resume()
print(step, *(type(value).__name__ for value in state.values()))
for step in range(step + 1, step + 4):
    optimizer.step()
    schedule.step()
ck.save(step)
for name, value in (("enum", Color.RED), ("tuple", Pair(1, 2))):
    try:
        tide.Checkpoint(dir=run.checkpoint_dir + name, replicated={"state": {"x": value}}).resume()
        print("accepted", name)
    except Exception as error:
        print("refused", "state.x" in str(error))
"""

_BACK = """
import sys, tide
run = tide.attach()
state = {"n": 0}
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": state}, keep=100)
step = ck.resume(step=int(sys.argv[1])) if len(sys.argv) > 1 else ck.resume()
print(step, state["n"])
for step in range(step + 1, step + 6):
    state["n"] = step * (10 if len(sys.argv) > 1 else 1)
    ck.save(step)
"""


class NeverSilent(TempCase):
    def setUp(self):
        super().setUp()
        self.folder = self.path("ck")

    def run_one(self, program, *arguments, **env):
        """(exit code, output, errors) of a program of one rank."""
        return run_ranks(["-c", program, *arguments], 1, {"TIDE_CHECKPOINT_DIR": self.folder, **env})[0]

    def content(self, path):
        code = ("import json, sys, tide\nstate = tide.load(sys.argv[1])['replicated']['m']\n"
                "print(json.dumps(sorted({*state['w']}) if 'w' in state else state))")
        process = start_python(["-c", code, path], {})
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        return json.loads(out)

    def checkpoints(self):
        return sorted(name for name in os.listdir(self.folder) if os.path.exists(os.path.join(self.folder, name, "MANIFEST.json")))

    def test_1_two_jobs_in_one_folder(self):
        """None of their checkpoints holds something of both, and who may not save there is told who does."""
        ranks = [start_python(["-c", _TWO_JOBS, str(job)], {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "TIDE_CHECKPOINT_DIR": self.folder, "TIDE_JOB_ID": f"j-{job}",
            "TIDE_ATTEMPT": "1", "TIDE_START": f"j-{job}.1"}, stdin=subprocess.PIPE) for job in (1, 2) for rank in (0, 1)]
        try:
            for process in ranks:
                process.stdout.readline()  # it is ready, or has ended
            for process in ranks:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write("go\n")
                    process.stdin.flush()
            results = [(process.communicate(timeout=120), process.returncode) for process in ranks]
        finally:
            for process in ranks:
                process.kill()
                process.communicate()
        for name in self.checkpoints():
            self.assertEqual(len(self.content(os.path.join(self.folder, name))), 1, f"{name} holds something of both")
        failed = [err for (_, err), code in results if code != 0]
        self.assertEqual(len(failed), 2, results)
        self.assertTrue(any(re.search("j-[12] saves there", err) for err in failed), failed)

    def test_2_saved_again_after_the_tick(self):
        for _ in range(2):
            code, out, err = self.run_one(_AFTER_THE_TICK)
            self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, "20 99.0\n")

    def test_3_nothing_left_to_resume_from(self):
        self.assertEqual(self.run_one(_COUNTS, "3")[:2], (0, "trains from 0\n"))
        again = {"TIDE_JOB_ID": "j-1", "TIDE_ATTEMPT": "2", "TIDE_START": "j-1.2", "TIDE_CHECKPOINT_STEP": "3"}
        name, = self.checkpoints()
        data = os.path.join(self.folder, name, "d00000.safetensors")
        with open(data, "r+b") as file:
            file.write(b"\xff")
        code, out, err = self.run_one(_COUNTS, "5", **again)
        self.assertEqual((code, out), (1, ""), "all are damaged")
        self.assertIn("is whole", err)
        shutil.rmtree(self.folder)
        code, out, err = self.run_one(_COUNTS, "5", **again)
        self.assertEqual((code, out), (1, ""), "the folder is empty")
        self.assertIn("this job has saved step 3", err)
        shutil.rmtree(self.folder)
        with open(self.folder, "w", encoding="ascii"):
            pass
        code, out, err = self.run_one(_COUNTS, "5", **again)
        self.assertEqual((code, out), (1, ""), "the folder cannot be read")
        self.assertIn(self.folder, err)

    def test_4_ranks_that_see_different_checkpoints(self):
        """As where one node has an older view of the file system, or has mounted another."""
        self.assertEqual(self.run_one(_COUNTS, "3")[0], 0)
        shutil.copytree(self.folder, self.path("stale"))
        self.assertEqual(self.run_one(_COUNTS, "6")[0], 0)
        ranks = [start_python(["-c", _COUNTS, "8"], {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "TIDE_CHECKPOINT_DIR": folder})
                 for rank, folder in enumerate((self.folder, self.path("stale")))]
        results = [(*process.communicate(timeout=120), process.returncode) for process in ranks]
        for out, err, code in results:
            self.assertEqual((out, code), ("", 1))
            self.assertRegex(err, "rank")

    @unittest.skipIf(torch is None, "needs torch")
    def test_5_statistics_of_batch_norm(self):
        env = {"TIDE_CHECKPOINT_DIR": self.folder, "MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
        saved = run_ranks(["-c", _BATCH_NORM], 2, {**env, "MASTER_PORT": str(free_port())})
        restored = run_ranks(["-c", _BATCH_NORM], 2, {**env, "MASTER_PORT": str(free_port())})
        self.assertEqual([code for code, _, _ in saved + restored], [0] * 4, (saved, restored))
        self.assertNotEqual(saved[0][1], saved[1][1], "ranks have statistics of their own")
        for _, out, _ in restored:
            self.assertEqual(out, saved[0][1].replace("saved", "restored"), "those of rank 0, whose the next step takes")

    def test_6_samples_and_unsafe_ticks(self):
        (code, first, _), (again, second, _) = self.run_one(_ACCUMULATES), self.run_one(_ACCUMULATES)
        self.assertEqual((code, again), (0, 0))
        samples = [int(word) for word in (first + second).split()]
        self.assertEqual(sorted(samples), list(range(80)), "each once")
        steps = [int(name[1:13]) for name in self.checkpoints()]
        self.assertEqual(sorted(set(steps)), [5, 10], "due at 5 and 10, and not again at 6")

    @unittest.skipIf(torch is None, "needs torch")
    def test_7_types(self):
        for expected in (0, 3):
            code, out, err = self.run_one(_TYPES)
            self.assertEqual(code, 0, err)
            self.assertEqual(out, f"{expected} deque defaultdict Counter bytearray\nrefused True\nrefused True\n")

    def test_8_a_way_back(self):
        self.assertEqual(self.run_one(_BACK)[:2], (0, "0 0\n"))
        code, out, err = self.run_one(_BACK, "2")
        self.assertEqual((code, out), (0, "2 2\n"), err)
        # Steps 3 to 7 of the second way: the newest start counts, though the first one came to the same steps.
        self.assertEqual(self.run_one(_BACK)[:2], (0, "7 70\n"))
        for command in ("pin", "unpin", "rm"):
            code, said = told([command, os.path.join(self.folder, self.checkpoints()[0])])
            self.assertEqual(code, 0, said)


if __name__ == "__main__":
    unittest.main()
