"""Suspension end to end: orders on pages, rehearsal, kills, and the same weights bit for bit."""

import contextlib
import io
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

from support import (EXAMPLES, NATIVE, TempCase, captured_stderr, checkpoints_in, coordinate, free_port, is_locked, make_page,
                     make_run, pure_python, release, run_ranks, start_python, wait_until)
from tide import Checkpoint, _page
from tide.checkpoint.__main__ import main as command
from tide.checkpoint import store
from tide.checkpoint.reader import Reader

try:
    import torch
except ImportError:
    torch = None

COUNT = os.path.join(EXAMPLES, "count.py")
CHARLM = os.path.join(EXAMPLES, "train_charlm.py")
_KILLS = int(os.environ.get("TIDE_SDK_KILLS", "30"))
_SEED = int(os.environ.get("TIDE_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)


def last_word(text):
    """The digest on a run's last line."""
    return re.search(r"(?:digest|sha256) (\w+)\s*$", text).group(1)


class Orders(TempCase):
    """One rank, in this process, under a page written by hand."""

    def setUp(self):
        super().setUp()
        self.agent = make_page(self.path("page"))
        self.run_ = make_run(TIDE_PAGE=self.path("page"))
        self.ck = Checkpoint(dir=self.path("ck"), replicated={"m": [1]}, every=10, run=self.run_)

    def order(self, kind, at_step):
        self.agent.at_step, self.agent.state, self.agent.order = at_step, _page.STATE_COMMITTED, kind
        self.agent.seq = self.agent.seq + 1

    def committed(self):
        self.assertTrue(self.ck.flush())
        return [item.step for item in store.scan(self.path("ck")) if item.has_manifest]

    def test_save_order_and_periodic(self):
        self.order(_page.ORDER_SAVE, 4)
        self.assertEqual([self.ck.tick(step) for step in range(1, 13)], [False] * 12)
        self.assertEqual(self.committed(), [4, 10])
        self.assertEqual((self.agent.ack_seq, self.agent.saved_step, self.agent.staged_step), (1, 10, 10))
        self.assertEqual(self.agent.phase, _page.PHASE_TRAINING)

    def test_suspend_acknowledges_with_the_checkpoint(self):
        self.order(_page.ORDER_SUSPEND, 10)
        self.assertEqual([self.ck.tick(step) for step in range(1, 11)], [False] * 9 + [True])
        self.assertEqual(self.committed(), [10])
        self.assertEqual((self.agent.ack_seq, self.agent.saved_step, self.agent.phase), (1, 10, _page.PHASE_SAVED))

    @pure_python
    def test_save_in_passing_does_not_eat_up_a_notice(self):
        run = make_run(world=2, TIDE_PAGE=self.path("page"))
        ck = Checkpoint(dir=self.path("two"), replicated={"m": [1]}, every=4, run=run)
        self.agent.deadline = int((time.time() + 2) * 1e9)
        self.order(_page.ORDER_SUSPEND, 100)
        began = time.monotonic()
        with captured_stderr() as err:
            self.assertFalse(ck.tick(4))  # rank 1 writes nothing
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual((ck.failed_saves, self.agent.phase), (1, _page.PHASE_TRAINING))
        self.assertIn("rank 1", err.getvalue())

    def test_stop_saves_nothing(self):
        self.order(_page.ORDER_STOP, 0)
        self.assertTrue(self.ck.tick(10))
        self.assertEqual((self.committed(), self.agent.phase), ([], _page.PHASE_TRAINING))

    def test_failed_suspension_trains_on_and_does_not_acknowledge(self):
        with open(self.path("ck"), "w"):
            pass
        self.order(_page.ORDER_SUSPEND, 3)
        with captured_stderr() as err:
            self.assertEqual([self.ck.tick(step) for step in range(1, 6)], [False] * 5)
        self.assertEqual((self.agent.ack_seq, self.agent.phase), (0, _page.PHASE_TRAINING))
        self.assertEqual(err.getvalue().count("not suspended at step 3"), 1)
        self.assertIn("last committed checkpoint", err.getvalue())

    def test_periodic_save_waits_for_a_safe_step(self):
        for step in range(1, 14):
            self.ck.tick(step, safe=step not in (10, 11))
        self.assertEqual(self.committed(), [12])


class Counting(TempCase):
    def digest_of(self, world, steps, env):
        results = run_ranks([COUNT, "--steps", str(steps), "--save-every", "1000"], world, env)
        self.assertEqual([code for code, _, _ in results], [0] * world, results)
        return [last_word(out) for _, out, _ in results]

    def test_rehearsal(self):
        env = {"TIDE_REHEARSE_SUSPEND": "100", "TIDE_CHECKPOINT_DIR": self.path("a")}
        for code, out, err in run_ranks([COUNT, "--steps", "170"], 3, env):
            self.assertEqual((code, err), (85, ""), out)
            self.assertIn("leaves at step 100", out)
        resumed = self.digest_of(3, 170, env)
        self.assertEqual(resumed, self.digest_of(3, 170, {"TIDE_CHECKPOINT_DIR": self.path("b")}))
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(command(["diff", self.path("a"), self.path("b")]), 0)

    def test_suspended_again_and_again_by_agents(self):
        world, steps, suspensions = 2, 3000, 3
        for attempt in range(1, suspensions + 2):
            last = attempt > suspensions
            arguments = [COUNT, "--steps", str(steps), "--step-ms", "0" if last else "1", "--save-every", "500"]
            names = [self.path(f"page-{attempt}-{rank}") for rank in range(world)]
            pages = [make_page(name) for name in names]
            ranks = [start_python(arguments, {"RANK": str(rank), "WORLD_SIZE": str(world), "TIDE_PAGE": names[rank],
                                              "TIDE_ATTEMPT": str(attempt), "TIDE_CHECKPOINT_DIR": self.path("a")})
                     for rank in range(world)]
            if not last:
                wait_until(lambda: all(page.step > 0 for page in pages), "the first ticks")
                step = coordinate(pages, _page.ORDER_SUSPEND, margin=20)
            results = [rank.communicate(timeout=30) for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0 if last else 85] * world, results)
            if not last:
                self.assertEqual([(page.saved_step, page.ack_seq, page.phase) for page in pages],
                                 [(step, pages[0].seq, _page.PHASE_SAVED)] * world)
        self.assertEqual([page.phase for page in pages], [_page.PHASE_DONE] * world)
        digests = [last_word(out) for out, _ in results]
        self.assertEqual(digests, self.digest_of(world, steps, {"TIDE_CHECKPOINT_DIR": self.path("b")}))

    def test_kill_nine_at_any_moment(self):
        """Every other start is one on the platform: with a page, and an agent that waits for the saver."""
        draw = random.Random(_SEED)
        arguments = [COUNT, "--steps", "1000000000", "--save-every", "1", "--floats", "20000"]
        folder, newest, torn, finished = self.path("ck"), 0, 0, 0
        for attempt in range(1, _KILLS + 1):
            env, page = {"TIDE_CHECKPOINT_DIR": folder, "TIDE_ATTEMPT": str(attempt)}, None
            if attempt % 2:
                page, env["TIDE_PAGE"] = make_page(self.path("page-0")), self.path("page-0")
            process = start_python(arguments, env, stdout=subprocess.DEVNULL)
            wait_until(lambda: any(item.name.attempt == attempt for item in store.scan(folder)), "the first save")
            try:
                process.wait(timeout=draw.random() * 0.12)  # the moment is meant to be arbitrary
            except subprocess.TimeoutExpired:
                pass
            process.send_signal(signal.SIGKILL)
            seen = store.scan(folder)
            _, err = process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
            self.assertEqual([line for line in err.splitlines() if "earlier ones are still being written" not in line], [])
            torn += not seen[-1].has_manifest
            if page is not None:
                wait_until(lambda: not is_locked(self.path("saver-0.lock")), "the saver to end")
            with captured_stderr() as said:
                target = Checkpoint(dir=folder, run=make_run(attempt=attempt))
                step = target.resume()
            release(folder)
            self.assertEqual(said.getvalue(), "", "no committed checkpoint is ever damaged")
            self.assertGreaterEqual(step, newest, "a committed step is never lost")
            if page is not None and NATIVE is not None:
                self.assertGreaterEqual(step, page.staged_step, "what was staged is finished")
                finished += page.staged_step > max((item.step for item in seen if item.has_manifest), default=0)
            newest = step
            for item in store.scan(folder):
                if item.has_manifest:
                    with Reader(item.path) as reader:
                        reader.verify()
        print(f"seed {_SEED}: {_KILLS} kills, {torn} while a checkpoint was half written, {finished} while one was "
              f"staged that its saver finished; step {newest}", file=sys.stderr)
        self.assertGreater(newest, 5)
        self.assertGreater(torn, 0, "no kill fell into a save")
        last = Checkpoint(dir=folder, keep=3, run=make_run(attempt=_KILLS + 1))
        last.save(newest + 1)
        last.flush()
        self.assertLessEqual(len(checkpoints_in(folder)), 3, "what the kills left goes with the next commit")


@unittest.skipIf(torch is None, "needs torch")
class Training(TempCase):
    def train(self, env):
        results = run_ranks([CHARLM, "--steps", "30", "--save-every", "12", "--log-every", "10"], 2,
                            {"GLOO_SOCKET_IFNAME": "lo", "MASTER_PORT": str(free_port()), **env})
        self.assertEqual([err for _, _, err in results], ["", ""])
        return [code for code, _, _ in results], results[0][1]

    def test_same_weights_bit_for_bit(self):
        codes, whole = self.train({"TIDE_CHECKPOINT_DIR": self.path("whole")})
        self.assertEqual(codes, [0, 0])
        parts = {"TIDE_CHECKPOINT_DIR": self.path("parts")}
        for stop in ("7", "19"):
            codes, out = self.train({**parts, "TIDE_REHEARSE_SUSPEND": stop})
            self.assertEqual(codes, [85, 85])
            self.assertIn(f"leaving at step {stop}", out)
        codes, out = self.train(parts)
        self.assertEqual(codes, [0, 0])
        self.assertIn("from step 19", out)
        self.assertEqual(last_word(out), last_word(whole))
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(command(["diff", self.path("whole"), self.path("parts")]), 0)


if __name__ == "__main__":
    unittest.main()
