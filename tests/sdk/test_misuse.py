"""What programs do that Tide did not mean: odd steps, wrong arguments, two Checkpoints, objects that raise."""

import contextlib
import unittest

from support import TempCase, captured_stderr, checkpoints_in, make_run, run_ranks
from tide import Checkpoint, CheckpointError
from tide.checkpoint import store

try:
    import numpy
    import torch
except ImportError:
    numpy = torch = None

_TICKS_BY_NUMPY = """
import numpy, tide
run = tide.attach()
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": {"n": 1}}, every=5)
ck.resume()
for step in numpy.arange(1, 11):
    if ck.tick(step, loss=numpy.float32(1), total=numpy.int64(10)):
        run.exit()
print(ck.failed_saves, run.page.step, run.page.total_steps)
"""

# Rank 1's object cannot be asked for its state at step 2.
_RAISES_ON_ONE = """
import tide
run = tide.attach()
class Model:
    step = 0
    def state_dict(self):
        if run.rank == 1 and self.step == 2:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return {"step": self.step}
    def load_state_dict(self, state):
        self.step = state["step"]
model = Model()
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"model": model}, every=1, timeout_s=60)
ck.resume()
for model.step in range(1, 4):
    ck.tick(model.step)
    ck.flush()
print(ck.failed_saves)
"""


class Steps(TempCase):
    @unittest.skipIf(numpy is None, "no numpy")
    def test_numbers_of_other_libraries(self):
        env = {"TIDE_CHECKPOINT_DIR": self.path("ck"), "TIDE_REHEARSE_SUSPEND": "8"}
        [(code, out, err)] = run_ranks(["-c", _TICKS_BY_NUMPY], 1, env)
        self.assertEqual((code, out, err), (85, "", ""))
        self.assertEqual([name[:13] for name in checkpoints_in(self.path("ck"))], ["s000000000005", "s000000000008"])
        [(code, out, err)] = run_ranks(["-c", _TICKS_BY_NUMPY], 1, {"TIDE_CHECKPOINT_DIR": self.path("ck")})
        self.assertEqual((code, out, err), (0, "0 10 10\n", ""))

    @unittest.skipIf(torch is None, "no torch")
    def test_a_tensor_with_one_element_is_a_step(self):
        ck = Checkpoint(dir=self.path("ck"), replicated={"m": {"n": 1}}, run=make_run())
        self.assertTrue(ck.save(torch.tensor(7)).startswith("s000000000007-"))

    def test_what_is_no_step_is_named(self):
        ck = Checkpoint(dir=self.path("ck"), replicated={"m": {"n": 1}}, run=make_run())
        for step, words in ((1.5, "whole number, not 1.5"), ("3", "not '3'"), (-1, "finished steps, not -1"), (None, "not None")):
            for call in (ck.tick, ck.save):
                with self.subTest(step=step, call=call.__name__), self.assertRaisesRegex(CheckpointError, words):
                    call(step)
        with self.assertRaisesRegex(CheckpointError, "not 'newest'"):
            ck.resume(step="newest")


class Arguments(TempCase):
    def test_each_is_named(self):
        good = {"dir": self.path("ck"), "run": make_run(), "replicated": {"m": {}}}
        for wrong, words in (({"dir": None}, "dir must be a folder's path.*not None"), ({"dir": ""}, "dir must be"),
                             ({"replicated": [1]}, "replicated= must be a dict of names and objects.*not a list"),
                             ({"local": {3: {}}}, "local= must be a dict.*other keys"), ({"every": -1}, "every must be"),
                             ({"every": 2.5}, "every must be a whole number from 0, not 2.5"), ({"keep": 0}, "keep must be")):
            with self.subTest(wrong), self.assertRaisesRegex(CheckpointError, words):
                Checkpoint(**{**good, **wrong})


class TwoCheckpoints(TempCase):
    def setUp(self):
        super().setUp()
        self.run = make_run()

    def make(self, name, **options):
        return Checkpoint(dir=self.path(name), replicated={"m": {"n": 1}}, run=self.run, **options)

    def test_of_one_folder_one_saves(self):
        first, second = self.make("ck"), self.make("ck")
        first.save(1)
        with self.assertRaisesRegex(CheckpointError, "two Checkpoints of this program save in .*ck; give one of them all objects"):
            second.save(2)
        self.assertEqual(second.resume(), 1)  # it may look
        del first
        second.save(2)

    def test_one_ticks(self):
        first, best = self.make("ck", every=1), self.make("best")
        first.tick(1)
        best.save(1)
        with self.assertRaisesRegex(CheckpointError, "two Checkpoints tick in this program"):
            best.tick(1)
        first.tick(2)


class Raising(TempCase):
    def test_the_other_ranks_do_not_wait_for_one_that_raised(self):
        env = {"TIDE_CHECKPOINT_DIR": self.path("ck"), "MASTER_ADDR": "h", "MASTER_PORT": "1"}
        ranks = run_ranks(["-c", _RAISES_ON_ONE], 2, env)
        self.assertEqual([code for code, _, _ in ranks], [0, 0], ranks)
        self.assertIn("object 'model': state_dict() failed: CUDA error", ranks[1][2])
        committed = [item.step for item in store.scan(self.path("ck")) if item.has_manifest]
        self.assertEqual(committed, [1, 3])

    def test_what_else_raises_stays_in_the_tick(self):
        class Odd(dict):
            def items(self):
                raise RuntimeError("not now")

        state = {"n": 1}
        ck = Checkpoint(dir=self.path("ck"), replicated={"m": state}, every=1, run=make_run())
        ck.resume()
        state["odd"] = Odd()
        with captured_stderr() as err, contextlib.suppress(AssertionError):
            self.assertFalse(ck.tick(1))
        self.assertEqual(ck.failed_saves, 1)
        self.assertIn("training goes on", err.getvalue())


if __name__ == "__main__":
    unittest.main()
