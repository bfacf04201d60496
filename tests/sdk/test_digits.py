"""The example that learns digits: it learns, and a suspension changes nothing."""

import contextlib
import importlib.util
import io
import os
import re
import unittest

from support import EXAMPLES, TempCase, free_port, long_training, run_ranks
from tide.checkpoint.__main__ import main as command

DIGITS = os.path.join(EXAMPLES, "train_digits.py")


@long_training
@unittest.skipIf(importlib.util.find_spec("torch") is None, "needs torch")
@unittest.skipIf(importlib.util.find_spec("sklearn") is None, "needs scikit-learn (Debian: python3-sklearn)")
class Digits(TempCase):
    def train(self, folder, epochs=6, **env):
        results = run_ranks([DIGITS, "--epochs", str(epochs)], 2,
                            {"GLOO_SOCKET_IFNAME": "lo", "MASTER_PORT": str(free_port()),
                             "TIDE_CHECKPOINT_DIR": self.path(folder), **env})
        self.assertEqual([err for _, _, err in results], ["", ""])
        return [code for code, _, _ in results], results[0][1]

    def test_learns_and_ends_with_the_same_weights_when_suspended(self):
        codes, whole = self.train("whole")
        self.assertEqual(codes, [0, 0])
        accuracy, weights = _last_words(whole)
        self.assertGreater(accuracy, 0.95)
        for stop in ("30", "44"):  # within an epoch, and at the end of one
            codes, out = self.train("parts", TIDE_REHEARSE_SUSPEND=stop)
            self.assertEqual(codes, [85, 85])
            self.assertIn(f"leaving at step {stop}", out)
        codes, out = self.train("parts")
        self.assertEqual(codes, [0, 0])
        self.assertIn("from step 44 of 132", out)
        self.assertEqual(_last_words(out), (accuracy, weights))
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(command(["diff", self.path("whole"), self.path("parts")]), 0)


def _last_words(out):
    found = re.search(r"accuracy ([\d.]+) weights sha256 (\w+)\s*$", out)
    return float(found.group(1)), found.group(2)


if __name__ == "__main__":
    unittest.main()
