"""All ranks of a suspension leave, or all train on: whoever gives up, and whenever it does."""

import contextlib
import errno
import os
import threading
import time
import unittest
from unittest import mock

from support import TempCase, captured_stderr, make_page, make_run, name_of, pure_python, wait_until
from tide import Checkpoint, _files, _page
from tide.checkpoint import format as fmt
from tide.checkpoint import store, writer

_STEP = 5
_CALLS = ("fsync", "rename", "replace", "unlink", "open", "stat")


@pure_python
class Pair(TempCase):
    """Two ranks of one job, both told to suspend at _STEP. Their methods are called in an order that a test chooses."""

    def setUp(self):
        super().setUp()
        patched = mock.patch("tide.checkpoint._checkpoint.LEAST_PATIENCE_S", 0.0)
        patched.start()
        self.addCleanup(patched.stop)
        self.start("ck")

    def start(self, folder):
        self.folder = self.path(folder)
        self.pages = [make_page(self.path(f"{folder}-page-{rank}")) for rank in range(2)]
        self.ranks = [Checkpoint(dir=self.folder, replicated={"m": [1]}, timeout_s=5, run=make_run(
            rank, 2, TIDE_PAGE=self.path(f"{folder}-page-{rank}"))) for rank in range(2)]
        for rank in self.ranks:
            rank.resume()
        for page in self.pages:
            page.at_step, page.state, page.order = _STEP, _page.STATE_COMMITTED, _page.ORDER_SUSPEND
            page.seq = 1

    def tick(self, rank, step=_STEP, **patience):
        with contextlib.ExitStack() as stack:
            if patience:
                stack.enter_context(mock.patch.object(self.ranks[rank], "_timeout_s", patience["timeout_s"]))
            return self.ranks[rank].tick(step)

    def committed(self):
        return [item.step for item in store.scan(self.folder) if item.has_manifest]


class Halted:
    """Rank 1 of a Pair, suspending in a thread: its part is written, and it waits until finish()."""

    def __init__(self, pair):
        self._go, self._patience_s = threading.Event(), 0.0
        written, real = threading.Event(), writer.await_commit

        def await_commit(identity, _deadline):
            written.set()
            pair.assertTrue(self._go.wait(20))
            real(identity, time.monotonic() + self._patience_s)

        def suspend():
            self._left = pair.tick(1)

        self._patch = mock.patch.object(writer, "await_commit", await_commit)
        self._patch.start()
        self._thread = threading.Thread(target=suspend)
        self._thread.start()
        pair.assertTrue(written.wait(20))

    def finish(self, patience_s):
        """Lets it wait for rank 0 that long. Returns whether it left."""
        self._patience_s = patience_s
        self._go.set()
        self._thread.join()
        self._patch.stop()
        return self._left


class GivingUp(Pair):
    def test_rank_that_gave_up_takes_its_part_along(self):
        with captured_stderr() as err:
            self.assertFalse(self.tick(1, timeout_s=0.05))
            self.assertFalse(self.tick(0, timeout_s=0.05))
        self.assertEqual((self.committed(), [page.ack_seq for page in self.pages]), ([], [0, 0]))
        self.assertIn("rank 1 could not write", err.getvalue())

    def test_every_moment_of_the_commit(self):
        """Rank 1 gives up just before the n-th call that rank 0 makes to the system."""
        seen, moment = set(), 0
        while True:
            self.start(str(moment))
            left = self.race(moment)
            self.assertEqual(left, [bool(self.committed())] * 2, f"moment {moment}")
            self.assertEqual([page.ack_seq for page in self.pages], [int(left[0])] * 2, f"moment {moment}")
            seen.add(left[0])
            if not self.gave_up:
                break
            moment += 1
        self.assertEqual(seen, {False, True})
        self.assertGreater(moment, 10)

    def race(self, moment):
        """Rank 1 writes its part, rank 0 saves, and rank 1 loses patience at `moment`. Returns who left."""
        self.gave_up, calls, left = False, 0, [False, False]
        other = Halted(self)

        def wrap(real):
            def call(*arguments, **options):
                nonlocal calls
                calls += 1
                if calls == moment + 1 and not self.gave_up:
                    self.gave_up = True
                    left[1] = other.finish(0.0)
                return real(*arguments, **options)
            return call

        with contextlib.ExitStack() as stack, captured_stderr():
            stack.enter_context(mock.patch.object(writer, "DECIDED_GRACE_S", 0.0))
            for name in _CALLS:
                stack.enter_context(mock.patch.object(os, name, wrap(getattr(os, name))))
            left[0] = self.tick(0)
        with captured_stderr():
            left[1] = left[1] or (self.tick(1, _STEP + 1) if self.gave_up else other.finish(5.0))
        return left


class Deciding(Pair):
    def test_taken_part_is_waited_for(self):
        """Past its deadline rank 1 stays while rank 0 is at the manifest."""
        real, waiting = writer.withdraw, threading.Event()

        def withdraw(identity):
            mine = real(identity)
            waiting.set()
            return mine

        def replace(source, target, real=os.replace):
            if target.endswith(fmt.MANIFEST):
                self.assertTrue(waiting.wait(20))
            real(source, target)

        left = [None, None]
        with mock.patch.object(writer, "withdraw", withdraw), mock.patch.object(os, "replace", replace):
            halted = Halted(self)
            other = threading.Thread(target=lambda: left.__setitem__(0, self.ranks[0].tick(_STEP)))
            other.start()
            wait_until(lambda: not os.path.exists(writer.part_path(self.directory(), 1)), "rank 0 to take the part")
            left[1] = halted.finish(0.0)
            other.join()
        self.assertEqual((left, self.committed()), ([True, True], [_STEP]))

    def test_a_manifest_others_can_see_counts(self):
        """The disk fails after the manifest is in place: rank 1 leaves, so rank 0 does."""
        def sync(folder, real=_files.sync_directory):
            if os.path.exists(os.path.join(folder, fmt.MANIFEST)):
                raise OSError(errno.EIO, "the disk is gone")
            real(folder)

        halted = Halted(self)
        with mock.patch.object(_files, "sync_directory", sync), captured_stderr() as err:
            self.assertEqual([self.tick(0), halted.finish(5.0)], [True, True])
        self.assertIn("the disk is gone", err.getvalue())

    def test_failed_manifest_is_a_verdict_for_all(self):
        def replace(source, target, real=os.replace):
            if target.endswith(fmt.MANIFEST):
                raise OSError(errno.ENOSPC, "full")
            real(source, target)

        halted = Halted(self)
        with mock.patch.object(os, "replace", replace), captured_stderr() as err:
            self.assertEqual([self.tick(0), halted.finish(5.0)], [False, False])
        self.assertIn("rank 0 could not commit", err.getvalue())

    def directory(self):
        return os.path.join(self.folder, name_of(_STEP))


if __name__ == "__main__":
    unittest.main()
