"""Ranks and savers that stand still, come late or die during a save: real processes, deadlines, and names."""

import os
import signal
import time

from support import TempCase, coordinate, make_page, needs_native, start_python, wait_until, withdraw
from tide import _page
from tide.checkpoint import store

_WORLD = 3
# What a suspension leaves for saving, and what a machine under load may take longer for its verdict.
_NOTICE_S = 2.0
_SLACK_S = 15.0

_TRAINS = """
import array, os, sys, time, tide
run = tide.attach()
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": {"w": array.array("d", [0.0]) * 1000}}, every=int(sys.argv[1]),
                     timeout_s=float(sys.argv[2]))
step = ck.resume()
while True:
    time.sleep(0.005)  # the length of a step, not a wait; tidy: poll
    step += 1
    if ck.tick(step):
        run.exit()
"""


class Ranks(TempCase):
    def start(self, every=0, timeout_s=60.0):
        """Starts all ranks and waits until each trains."""
        names = [self.path(f"{rank}") for rank in range(_WORLD)]
        self.pages, self.ranks, self.logs = [], [], []
        for rank, name in enumerate(names):
            os.mkdir(name)
            self.pages.append(make_page(os.path.join(name, "page-0")))
            self.logs.append(os.path.join(name, "log"))
            with open(self.logs[-1], "w", encoding="utf-8") as log:
                process = start_python(["-c", _TRAINS, str(every), str(timeout_s)], {
                    "RANK": str(rank), "WORLD_SIZE": str(_WORLD), "TIDE_PAGE": os.path.join(name, "page-0"), "TIDE_ATTEMPT": "1",
                    "TIDE_CHECKPOINT_DIR": self.path("ck")}, stdout=log, stderr=log)
            self.ranks.append(process)
            self.addCleanup(self.end, process)
        wait_until(lambda: all(page.step > 5 for page in self.pages), "the first ticks")

    def end(self, process):
        self.signal(process.pid, signal.SIGCONT)
        process.kill()
        process.wait()

    def signal(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def saver_of(self, rank):
        """The pid of a rank's saver."""
        found = []

        def look():
            pid = self.ranks[rank].pid
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
                for child in children.read().split():
                    with open(f"/proc/{child}/comm", encoding="ascii") as name:
                        if name.read() == "tide-saver\n":
                            found.append(int(child))
            return found

        wait_until(look, f"the saver of rank {rank}")
        return found[0]

    def log(self, rank):
        with open(self.logs[rank], encoding="utf-8") as log:
            return log.read()

    def suspend(self, but=()):
        """Orders a suspension of all ranks, though those of `but` stand still. Returns its step, and when it was ordered."""
        deadline = time.time_ns() + int(_NOTICE_S * 1e9)
        for rank in but:
            self.pages[rank].step = max(page.step for page in self.pages)  # what it would have answered
        return coordinate(self.pages, _page.ORDER_SUSPEND, deadline=deadline), time.monotonic()

    def train_on(self, ranks, step, since):
        """Waits until these ranks have given the save of `step` up and train; they are in time."""
        wait_until(lambda: all(self.pages[rank].step > step for rank in ranks), f"ranks {ranks} to train on")
        self.assertLess(time.monotonic() - since, _NOTICE_S + _SLACK_S)
        self.assertEqual([self.pages[rank].ack_seq for rank in ranks], [0] * len(ranks))
        self.assertNotIn(step, self.committed())

    def leave(self):
        """A new suspension, which all ranks carry out."""
        withdraw(self.pages)
        step, _ = self.suspend()
        self.assertEqual([rank.wait(60) for rank in self.ranks], [85] * _WORLD, [self.log(rank) for rank in range(_WORLD)])
        self.assertEqual([page.saved_step for page in self.pages], [step] * _WORLD)
        self.assertEqual(self.committed()[-1], step)

    def committed(self):
        return [item.step for item in store.scan(self.path("ck")) if item.has_manifest]

    def says(self, rank, *words):
        lines = [line for line in self.log(rank).splitlines() if line.startswith("tide: not suspended")]
        self.assertEqual(len(lines), 1, self.log(rank))
        for word in words:
            self.assertIn(word, lines[0])


class Suspending(Ranks):
    def test_rank_that_stands_still(self):
        self.start()
        self.signal(self.ranks[1].pid, signal.SIGSTOP)
        step, since = self.suspend(but=[1])
        self.train_on([0, 2], step, since)
        self.says(0, f"step {step}", "rank 1 of 3 did not write in time")
        self.says(2, f"step {step}", "rank 0")
        self.signal(self.ranks[1].pid, signal.SIGCONT)
        self.train_on([1], step, time.monotonic())
        self.says(1, f"step {step}", "rank 0 could not commit")
        self.leave()

    def test_leader_that_stands_still(self):
        self.start()
        self.signal(self.ranks[0].pid, signal.SIGSTOP)
        step, since = self.suspend(but=[0])
        self.train_on([1, 2], step, since)
        for rank in (1, 2):
            self.says(rank, f"step {step}", "waited for rank 0")
        self.signal(self.ranks[0].pid, signal.SIGCONT)
        self.train_on([0], step, time.monotonic())
        self.says(0, f"step {step}", "rank")
        self.leave()

    def test_ranks_that_stand_still_are_all_named(self):
        self.start()
        for rank in (1, 2):
            self.signal(self.ranks[rank].pid, signal.SIGSTOP)
        step, since = self.suspend(but=[1, 2])
        self.train_on([0], step, since)
        self.says(0, "ranks 1, 2 of 3 did not write in time")

    def test_rank_that_is_killed(self):
        self.start()
        self.signal(self.ranks[2].pid, signal.SIGKILL)
        self.ranks[2].wait(60)
        step, since = self.suspend(but=[2])
        self.train_on([0, 1], step, since)
        self.says(0, "rank 2 of 3 did not write in time")
        self.says(1, "rank 0")

    @needs_native
    def test_saver_that_stands_still(self):
        self.start()
        saver = self.saver_of(1)
        self.signal(saver, signal.SIGSTOP)
        self.addCleanup(self.signal, saver, signal.SIGCONT)
        step, since = self.suspend()
        self.train_on([0, 1, 2], step, since)
        self.says(0, f"step {step}", "rank 1")
        self.says(1, f"step {step}", "the file system is slow or hangs")
        self.says(2, f"step {step}", "rank 0")
        self.signal(saver, signal.SIGCONT)
        self.leave()

    @needs_native
    def test_savers_that_are_killed(self):
        """Each rank writes by itself what it waits for."""
        self.start()
        savers = [self.saver_of(rank) for rank in range(_WORLD)]
        for saver in savers:
            self.signal(saver, signal.SIGSTOP)
        step, _ = self.suspend()
        wait_until(lambda: all(page.phase == _page.PHASE_SAVING for page in self.pages), "all ranks to save")
        for saver in savers:
            self.signal(saver, signal.SIGKILL)
        self.assertEqual([rank.wait(60) for rank in self.ranks], [85] * _WORLD)
        self.assertEqual(self.committed(), [step])
        for rank in range(_WORLD):
            self.assertIn("the saver of this rank has ended (signal 9)", self.log(rank))


class InPassing(Ranks):
    def test_rank_that_stands_still(self):
        """Saves that nobody waits for fail in time, too, and training goes on."""
        self.start(every=20, timeout_s=0.3)
        wait_until(self.committed, "a first commit")
        self.signal(self.ranks[1].pid, signal.SIGSTOP)
        before = self.pages[0].step
        wait_until(lambda: "rank 1 of 3 did not write in time" in self.log(0), "rank 1 to be named")
        wait_until(lambda: self.pages[0].step > before + 40 and self.pages[2].step > before + 40, "ranks to train on")
        self.signal(self.ranks[1].pid, signal.SIGCONT)
        stopped = self.pages[1].step
        wait_until(lambda: self.pages[1].step > stopped + 40, "rank 1 to train on")


if __name__ == "__main__":
    import unittest
    unittest.main()
