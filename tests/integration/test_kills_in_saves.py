"""kill -9 of a rank, of its agent, or of both while checkpoints are written: none is ever lost, torn or passed over.

TIDE_SAVE_KILLS: how many (9), a third each.   TIDE_SEED: repeats the draw of victims and moments; it is printed.
"""

import array
import json
import os
import random
import signal
import sys
import time
import unittest

from harness import BIN, PYTHON, ROOT, ClusterTest, describe, pause, until

sys.path.insert(0, os.path.join(ROOT, "sdk", "python"))
from tide._errors import DamagedError  # noqa: E402
from tide._page import Page  # noqa: E402
from tide.checkpoint import store  # noqa: E402
from tide.checkpoint.reader import Reader  # noqa: E402

KILLS = int(os.environ.get("TIDE_SAVE_KILLS", "9"))
SEED = int(os.environ.get("TIDE_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
# Python cannot load a sanitized library: checkpoints are written by the ranks themselves.
with open(os.path.join(BIN, "libtide.so"), "rb") as library:
    content = library.read()
SANITIZED = any(word in content for word in (b"__asan_init", b"__tsan_init"))
# More than a training commits while one kill is looked at.
KEEP = 60
# All of a step's state is that step's number. Each start notes what it came back to, and its last skipped save
# stands where the page has the number of steps to do.
SCRIPT = """
import array, json, os, time, tide
run = tide.attach()
block = array.array("d", [0.0]) * 100_000
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"state": {"block": block}}, every=1, keep=%d)
step = ck.resume()
note = os.path.join(run.checkpoint_dir, "resumed-%%d-%%d" %% (run.attempt, run.rank))
with open(note + ".tmp", "w") as out:
    json.dump({"step": step, "whole": block == array.array("d", [step]) * len(block)}, out)
os.rename(note + ".tmp", note)
skips, last_skip = 0, -1
while True:
    step += 1
    time.sleep(0.02)  # the length of a step, not a wait; tidy: poll
    block[:] = array.array("d", [step]) * len(block)
    if ck.tick(step, total=last_skip):
        run.exit()
    if ck.skipped_saves > skips:
        skips, last_skip = ck.skipped_saves, step
""" % KEEP


class KillsInSaves(ClusterTest):
    def test_no_checkpoint_is_lost(self):
        rng = random.Random(SEED)
        self.start()
        victims = (["rank", "agent", "both"] * (KILLS // 3 + 1))[:KILLS]
        rng.shuffle(victims)
        torn = 0
        begin = time.monotonic()
        for number, victim in enumerate(victims, 1):
            torn += self.strike(rng, victim)
            self.check_all()
            print("kill %d, %s, at %.1f s: attempt %d, step %d" % (
                number, victim, time.monotonic() - begin, self.attempt, self.newest()[0]), file=sys.stderr, flush=True)
        print("seed %d: %d kills in %.0f s, %d while a checkpoint was half written, %d of a rank while one was staged; "
              "%d looks at checkpoints" % (SEED, KILLS, time.monotonic() - begin, torn, self.staged, self.looks), file=sys.stderr, flush=True)
        self.assertGreater(torn, 0, "no kill fell into a save")
        self.cluster.end_job(self.job)

    def start(self):
        cluster = self.cluster
        with open(os.path.join(cluster.work, "saves.py"), "w", encoding="ascii") as out:
            out.write(SCRIPT)
        self.job = cluster.submit(cluster.spec("saves", [PYTHON, "saves.py"], 2, 1, priority="normal",
                                               retry={"failure": 1_000_000, "backoff": "1ms"}))
        self.attempt, self.looks, self.staged = 1, 0, 0
        cluster.await_state(self.job, "running")
        self.folder = cluster.checkpoints(self.job)
        self.assertEqual(self.resumed(), 0)

    def committed(self):
        return [item for item in store.scan(self.folder) if item.has_manifest]

    def newest(self):
        """The newest step and the number of its start."""
        committed = self.committed()
        return (committed[-1].step, committed[-1].name.attempt) if committed else (0, 0)

    def resumed(self):
        """The step that all ranks of this attempt came back to."""
        def look():
            notes = []
            for rank in range(2):
                path = os.path.join(self.folder, "resumed-%d-%d" % (self.attempt, rank))
                if not os.path.exists(path):
                    return None
                with open(path, encoding="ascii") as note:
                    notes.append(json.load(note))
            return notes
        try:
            notes = until(60, "attempt %d" % self.attempt, look)
        except AssertionError as error:
            raise AssertionError("%s: %s" % (error, describe(self.cluster.peek(self.job)))) from None
        self.assertTrue(all(note["whole"] for note in notes), notes)
        self.assertEqual(notes[0]["step"], notes[1]["step"])
        return notes[0]["step"]

    def ranks(self):
        """Their processes, in rank order."""
        return sorted(self.cluster.ranks(self.job), key=lambda p: p.env["RANK"])

    def strike(self, rng, victim):
        """One kill at a random moment. True if a checkpoint was half written then."""
        cluster = self.cluster
        until(30, "commits of attempt %d" % self.attempt, lambda: self.newest()[1] == self.attempt)
        ranks = self.ranks()
        if not SANITIZED:
            self.assertEqual(len(self.cluster.savers(self.job)), 2, "the native core saves")
        pages = [Page.map("/proc/%d/root%s" % (p.pid, p.env["TIDE_PAGE"])) for p in ranks]
        chosen = rng.randrange(2)
        tasks = cluster.job(self.job)["attempts"][-1]["tasks"]
        agent = "agent " + tasks[chosen]["node"]
        doomed = {"rank": [ranks[chosen].pid], "agent": [cluster.daemon(agent).pid]}
        doomed["both"] = doomed["rank"] + doomed["agent"]
        pids = doomed[victim]
        rng.shuffle(pids)
        time.sleep(rng.random() * 0.1)  # tidy: poll (the moment is the input)
        seen = store.scan(self.folder)
        floor = [item for item in seen if item.has_manifest][-1].step
        torn = not seen[-1].has_manifest
        staged = min(page.staged_step for page in pages)
        # One may have skipped what another staged; it said so before it staged the next.
        if staged > floor and all(page.total_steps < staged for page in pages):
            floor = staged
            self.staged += victim != "agent"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if victim == "agent":
            until(15, "a new " + agent, lambda: (new := cluster.daemon(agent)) and new.pid != pids[0])
            step = cluster.job(self.job)["step"] or -1
            cluster.await_job(self.job, "go on", lambda now: now["state"] == "running" and (now["step"] or -1) > step)
            self.assertEqual([p.pid for p in self.ranks()], [p.pid for p in ranks], "nobody may notice")
            until(30, "commits to go on", lambda: self.newest()[0] > floor)
        else:
            self.attempt += 1
            step = self.resumed()
            before = [item for item in self.committed() if item.name.attempt < self.attempt]
            self.assertEqual(step, before[-1].step, "the newest committed one is resumed")
            self.assertGreaterEqual(step, floor, "what all ranks had staged is finished")
        return torn

    def check_all(self):
        """Reads every committed checkpoint. One that is removed meanwhile has lost its manifest first."""
        for item in self.committed():
            try:
                with Reader(item.path) as reader:
                    reader.verify()
                    block = reader.read("replicated/state.block")
                    self.assertEqual(block, array.array("d", [item.step] * (len(block) // 8)).tobytes(), item.path)
                self.looks += 1
            except (DamagedError, FileNotFoundError) as error:
                if os.path.lexists(os.path.join(item.path, "MANIFEST.json")):
                    raise AssertionError("%s: %s" % (item.path, error)) from None


if __name__ == "__main__":
    unittest.main()
