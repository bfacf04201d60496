"""What a scenario's verdict rests on: a rank that runs twice says so, and the audit finds it, as it finds lost jobs."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "integration")]
from audit import ORDERED, check_promise, check_ranks, read_lives  # noqa: E402
from harness import until  # noqa: E402
from load import Promise  # noqa: E402


class Records(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.records = folder.name  # as of a Site

    def rank(self, attempt, seconds="60"):
        child = subprocess.Popen([sys.executable, "-I", HERE + "/rank.py", self.records, seconds],
                                 env={"TIDE_JOB_ID": "j-1", "TIDE_ATTEMPT": str(attempt), "RANK": "0"})
        self.addCleanup(lambda: (child.kill(), child.wait(10)))
        until(20, "the rank to start", lambda: child.poll() is not None or any(
            life.pid == child.pid for life in read_lives(self)[0].get(("j-1", "0"), [])))
        return child

    @staticmethod
    def job(attempts, outcome="succeeded", name="a", reason="succeeded"):
        return {"spec": {"name": name}, "state": "finished", "outcome": outcome, "detail": "", "step": None,
                "reasons": [], "attempts": [{"epoch": n + 1, "end_reason": reason, "tasks": []}
                                            for n in range(attempts)]}

    def test_two_at_once(self):
        self.rank(1)
        self.rank(2)
        self.assertEqual(len(read_lives(self)[1]), 1)

    def test_one_after_the_other(self):
        first = self.rank(1)
        first.terminate()
        self.assertEqual(first.wait(10), 85)
        self.rank(2, "0").wait(10)
        lives, wrong = read_lives(self)
        self.assertEqual(wrong, [])
        self.assertEqual([life.how for life in lives["j-1", "0"]], ["stop", "end"])
        self.assertEqual(check_ranks({"j-1": self.job(2)}, lives), [])
        self.assertEqual(check_promise(Promise("j-1", "a", ("succeeded",), False), self.job(2), lives, ORDERED), [])

    def test_killed_and_followed(self):
        first = self.rank(1)
        first.kill()
        first.wait(10)
        self.rank(2)
        self.assertEqual(read_lives(self)[1], [])

    def test_one_attempt_twice(self):
        self.rank(1, "0").wait(10)
        self.rank(1, "0").wait(10)
        self.assertEqual(len(check_ranks({"j-1": self.job(1)}, read_lives(self)[0])), 1)

    def test_an_attempt_nobody_knows(self):
        self.rank(2, "0").wait(10)
        self.assertEqual(len(check_ranks({"j-1": self.job(1)}, read_lives(self)[0])), 1)
        self.assertEqual(len(check_ranks({}, read_lives(self)[0])), 1)

    def test_promises(self):
        self.rank(1, "0").wait(10)
        lives = read_lives(self)[0]
        promise = Promise("j-1", "a", ("succeeded",), True)

        def findings(job):
            return len(check_promise(promise, job, lives, ORDERED))
        self.assertEqual(findings(self.job(1)), 0)
        self.assertEqual(findings(None), 1)
        self.assertEqual(findings(self.job(1, name="b")), 1)
        self.assertEqual(findings(self.job(1, outcome="failed")), 1)
        self.assertEqual(findings(self.job(1, reason="fault")), 1)
        self.assertEqual(findings(self.job(2)), 1)


if __name__ == "__main__":
    unittest.main()
