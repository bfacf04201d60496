"""Starts that meet in one folder, and the ranks of one start: nothing is mixed, and nobody trains on from another step."""

import contextlib
import json
import os
import re
import signal
import unittest

import tide
from support import TempCase, checkpoints_in, lead, make_page, make_run, name_of, release, run_ranks, start_of, start_python, wait_until
from tide import Checkpoint, CheckpointError, DamagedError
from tide.checkpoint import lease, store
from tide.checkpoint.reader import Reader

# Saves some steps, with NO_LOCKS as on a file system that has none. What it saves tells whose it is.
_SAVES = """
import array, errno, fcntl, os, sys, tide
run = tide.attach()
if os.environ.get("NO_LOCKS"):
    def flock(fd, how):
        raise OSError(errno.ENOLCK, "No locks available")
    fcntl.flock = flock
mine = float(sys.argv[1])
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": {"w": array.array("d", [mine]) * 50_000}}, keep=100, timeout_s=3)
print("from", ck.resume(), flush=True)
for step in range(1, int(sys.argv[2]) + 1):
    ck.tick(step)
    print(ck.save(step), flush=True)
"""

# Rank 1 cannot read the newest checkpoint so many times, as where a file server hiccups.
_RESUMES = """
import os, sys, tide
from tide.checkpoint.reader import Reader
run = tide.attach()
failures, real = int(sys.argv[1]), Reader.load
def load(self, *arguments, **options):
    global failures
    if run.rank == 1 and "s000000000020" in self.directory and failures > 0:
        failures -= 1
        raise tide.DamagedError("cannot be read for now")
    return real(self, *arguments, **options)
Reader.load = load
state = {"n": 0}
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": state}, timeout_s=4)
print(ck.resume(), state["n"], flush=True)
"""

_SAVES_AGAIN = """
import array, sys, tide
run = tide.attach()
weights = array.array("d", [0.0]) * 10
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": {"w": weights}}, every=10)
begin = ck.resume()
if begin:
    print(begin, weights[0], flush=True)
    sys.exit()
for step in range(1, 21):
    weights[0] = step
    ck.tick(step)
weights[0] = 99.0  # averaged, merged, quantised … after the last step
ck.save(20)
"""


class TwoJobs(TempCase):
    def start(self, value, job, steps=30, **env):
        return [start_python(["-c", _SAVES, str(value), str(steps)], {
            "TIDE_CHECKPOINT_DIR": self.path("ck"), "TIDE_JOB_ID": job, "RANK": str(rank), "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2", **env}) for rank in range(2)]

    def values(self, whole=True):
        """What each committed checkpoint holds; one value, or it is a mixture. whole: none is damaged."""
        values = []
        for item in store.scan(self.path("ck")):
            if not item.has_manifest:
                continue
            with contextlib.suppress(*[] if whole else [DamagedError]), Reader(item.path) as reader:
                reader.verify()
                values.append(sorted(set(memoryview(reader.read("replicated/m.w")).cast("d"))))
        return values

    def test_the_second_is_told_who_saves_there(self):
        first, second = self.start(1, "j-1", steps=100_000), []
        try:
            wait_until(lambda: os.path.exists(self.path("ck")) and len(checkpoints_in(self.path("ck"))) > 2, "checkpoints")
            second = self.start(2, "j-2", steps=3)
            out, err = second[0].communicate(timeout=60)
            self.assertEqual((second[0].returncode, out), (1, ""))
            self.assertRegex(err, f"{self.path('ck')} is in use: j-1 saves there, process {first[0].pid} on .*another dir=")
        finally:
            for process in first + second:
                process.send_signal(signal.SIGKILL)
                process.communicate()
        self.assertEqual({tuple(values) for values in self.values()}, {(1.0,)})

    def test_nothing_is_mixed_where_there_are_no_locks(self):
        """The two disturb one another, and say so: each takes the other for a start that is over."""
        gangs = [self.start(value, f"j-{value}", NO_LOCKS="1", TIDE_START=f"j-{value}.1", TIDE_ATTEMPT="1") for value in (1, 2)]
        for process in gangs[0] + gangs[1]:
            _, err = process.communicate(timeout=60)
            self.assertTrue(process.returncode == 0 or re.search("(Checkpoint|Removed)Error", err), err)
        found = self.values(whole=False)
        self.assertGreater(len(found), 0)
        self.assertLessEqual({tuple(values) for values in found}, {(1.0,), (2.0,)})

    def test_the_lease_ends_with_its_holder(self):
        for value in (1, 2):
            gang = self.start(value, "j-1", steps=100_000)
            wait_until(lambda: os.path.exists(self.path("ck")) and any(
                item.name.attempt == value and item.has_manifest for item in store.scan(self.path("ck"))), "a checkpoint of this start")
            for process in gang:
                process.send_signal(signal.SIGKILL)
                process.communicate()

    def test_the_file_says_who_holds_it(self):
        lead(self.path("ck"), 1)
        with open(self.path("ck", lease.FILE), encoding="ascii") as source:
            self.assertEqual(json.load(source)["pid"], os.getpid())


class OneStart(TempCase):
    def setUp(self):
        super().setUp()
        for step in (10, 20):
            Checkpoint(dir=self.path("ck"), replicated={"m": {"n": step}}, run=make_run()).save(step)
        release(self.path("ck"))

    def resume(self, failures, **env):
        return run_ranks(["-c", _RESUMES, str(failures)], 2, {"TIDE_CHECKPOINT_DIR": self.path("ck"), **env})

    def test_a_rank_that_saw_another_one_takes_what_rank_0_has(self):
        for env in ({}, {"TIDE_START": "j-1.2", "TIDE_ATTEMPT": "2"}):
            with self.subTest(env):
                self.assertEqual([(code, out) for code, out, _ in self.resume(1, **env)], [(0, "20 20\n")] * 2)
        self.assertEqual(sorted(set(os.listdir(self.path("ck"))) - {name_of(10), name_of(20)}), [".lease", ".start-" + start_of("j-1.2")])

    def test_a_rank_that_cannot_read_it_does_not_train(self):
        for env in ({}, {"TIDE_START": "j-1.2", "TIDE_ATTEMPT": "2"}):
            with self.subTest(env):
                results = self.resume(2, **env)
                self.assertEqual((results[1][0], results[1][1]), (1, ""))
                self.assertRegex(results[1][2], "rank 0 resumes from s000000000020-.*, rank 1 from s000000000010-.*, and cannot read that")

    def test_a_note_counts_once(self):
        """Ranks that are started again under one name wait for the new rank 0. One that has ended already has had its say."""
        make_page(self.path("page-0"))
        for _ in range(3):
            lead(self.path("ck"), 2)
            late = Checkpoint(dir=self.path("ck"), replicated={"m": {"n": 0}}, timeout_s=0.02,
                              run=make_run(1, 2, TIDE_PAGE=self.path("page-0"), TMPDIR=self.dir))
            release(self.path("ck"))
            self.assertEqual(late.resume(), 20)
            with self.assertRaisesRegex(CheckpointError, "rank 0 did not say in time what this start resumes from"):
                late.resume()

    def test_ranks_that_do_not_come_are_named(self):
        alone = Checkpoint(dir=self.path("ck"), replicated={"m": {"n": 0}}, run=make_run(0, 3, attempt=None), timeout_s=0.02)
        with self.assertRaisesRegex(CheckpointError, r"ranks 1, 2 of 3 did not call resume\(\) in time"):
            alone.resume()


# Rank 1 holds another b, and stores it: saves that compare nothing mix it with rank 0's a.
_DIFFERS = """
import array, sys, tide
run = tide.attach()
state = {"a": array.array("d", [1.0]) * 5, "b": array.array("d", [float(run.rank)]) * 5}
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": state}, compare=sys.argv[1] == "compare", timeout_s=10)
ck.resume()
try:
    print(ck.save(1))
except tide.CheckpointError as error:
    print(error)
    state["b"] = array.array("d", [0.0]) * 5
    ck.save(1)
"""


class OneState(TempCase):
    def test_what_differs_is_named_where_ranks_compare(self):
        for mode in ("compare", "do not"):
            folder = self.path(mode)
            ranks = run_ranks(["-c", _DIFFERS, mode], 2, {"TIDE_CHECKPOINT_DIR": folder, "MASTER_ADDR": "h", "MASTER_PORT": "1"})
            self.assertEqual([(code, err) for code, _, err in ranks], [(0, "")] * 2)
            self.assertEqual("ranks 0 and 1 hold different values of replicated/m.b" in ranks[0][1], mode == "compare", ranks)
            mixed = mode != "compare"
            self.assertEqual(tide.load(folder)["replicated"]["m"]["b"].tolist(), [1.0 if mixed else 0.0] * 5)


class SaveAfterTick(TempCase):
    def test_what_changed_since_is_saved(self):
        for _ in range(2):
            process = start_python(["-c", _SAVES_AGAIN], {"TIDE_CHECKPOINT_DIR": self.path("ck")})
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err), (0, ""))
        self.assertEqual(out, "20 99.0\n")


if __name__ == "__main__":
    unittest.main()
