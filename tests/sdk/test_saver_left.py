"""A saver that does not end at once when it is let go is nobody's mistake: it finishes what it has."""

import gc
import socket
import subprocess
import sys
import unittest
import warnings

from tide.checkpoint import saver


class LetGo(unittest.TestCase):
    def test_one_that_still_runs_is_kept_and_reaped_later(self) -> None:
        ours, theirs = socket.socketpair()
        self.addCleanup(theirs.close)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            slow = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
            pipe = slow.stdin
            assert pipe is not None
            saver._let_go(ours, slow, lambda: False)
            pid = slow.pid
            del slow
            gc.collect()
        self.assertEqual([str(each.message) for each in seen if issubclass(each.category, ResourceWarning)], [])
        [kept] = [each for each in saver._left if each.pid == pid]
        pipe.write(b"\n")
        pipe.close()
        self.assertEqual(kept.wait(timeout=30), 0)


if __name__ == "__main__":
    unittest.main()
