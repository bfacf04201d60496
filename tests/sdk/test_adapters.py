"""Programs that write their checkpoints with their own framework, and the adapters between them and Tide.

Frameworks are stand-ins (stand_ins/): the hooks that they document, not the frameworks themselves.
"""

import os
import random
import sys
import unittest

from support import ROOT, SDK, TempCase, captured_stderr, coordinate, make_page, make_run, run_ranks, start_python, wait_until
from tide import CheckpointError, TideError, _page

ADAPTERS = os.path.join(ROOT, "sdk", "adapters")
STAND_INS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_ins")
PROGRAM = os.path.join(STAND_INS, "train.py")
OWN = ["lightning", "transformers", "accelerate", "deepspeed", "megatron", "torch_dcp"]  # write checkpoints themselves
STEPS = 40
PATHS = {"PYTHONPATH": os.pathsep.join([SDK, ADAPTERS, STAND_INS])}
sys.path[:0] = [ADAPTERS]

import tide_adapters_common as common  # noqa: E402


def learned(steps, per_step=1):
    """What stand_ins/train.py learns from so many steps of consecutive batches."""
    value = 0
    for batch in range(steps * per_step):
        value = (value * 31 + batch + 7) % (1 << 61)
    return value


class Adapters(TempCase):
    def train(self, framework, steps=STEPS, folder="ck", **env):
        [end] = run_ranks([PROGRAM, framework, str(steps)], 1, {**PATHS, "TIDE_CHECKPOINT_DIR": self.path(folder), **env})
        return end

    def test_a_suspended_run_ends_as_one_that_was_not(self):
        for framework in [*OWN, "torchdata", "pytree"]:
            first, second = sorted(random.sample(range(1, STEPS), 2))
            with self.subTest(framework, first=first, second=second):
                code, whole, err = self.train(framework, folder=f"{framework}-whole")
                self.assertEqual((code, err), (0, ""))
                for step, begun in ((first, 0), (second, first)):
                    code, out, err = self.train(framework, folder=framework, TIDE_REHEARSE_SUSPEND=str(step))
                    self.assertEqual((code, out, err), (85, f"from {begun}\n" if begun or framework in OWN else "", ""))
                code, out, err = self.train(framework, folder=framework)
                self.assertEqual((code, err), (0, ""))
                self.assertIn(f"from {second}\n", out)
                self.assertEqual(out.splitlines()[-1], whole.splitlines()[-1])

    def test_a_save_that_is_killed_in_the_middle_counts_for_nothing(self):
        for framework in OWN:
            with self.subTest(framework):
                code, _, err = self.train(framework, folder=framework, TIDE_REHEARSE_SUSPEND="5")
                self.assertEqual((code, err), (85, ""))
                code, out, err = self.train(framework, folder=framework, TIDE_REHEARSE_SUSPEND="9", STAND_IN_KILL="1")
                self.assertEqual((code, out, err), (-9, "from 5\n", ""))
                code, out, err = self.train(framework, folder=framework)
                value = learned(STEPS, 2 if framework == "lightning" else 1)
                self.assertEqual((code, out, err), (0, f"from 5\nlearned {value}\n", ""))
                self.assertEqual([name for name in os.listdir(self.path(framework)) if name.startswith("saving-")], [])

    def test_two_ranks_leave_at_one_step_and_go_on_from_it(self):
        for framework in OWN:
            with self.subTest(framework):
                pages, ranks = self.start_two(framework, 10 ** 9)
                left = coordinate(pages, _page.ORDER_SUSPEND, margin=random.randrange(5000, 9000))
                ends = [rank.communicate(timeout=60) for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [85, 85], ends)
                self.assertEqual([(page.saved_step, page.phase) for page in pages], [(left, _page.PHASE_SAVED)] * 2)
                ends = run_ranks([PROGRAM, framework, str(left + 20)], 2,
                                 {**PATHS, "TIDE_CHECKPOINT_DIR": self.path(framework), "TIDE_CHECKPOINT_STEP": str(left),
                                  "TIDE_START": "8"})
                value = learned(left + 20, 2 if framework == "lightning" else 1)
                self.assertEqual(ends, [(0, f"from {left}\nlearned {value}\n", "")] * 2)

    def test_a_run_goes_back_to_a_step_and_on_from_there(self):
        for framework in OWN:
            with self.subTest(framework):
                for step in (4, 8):
                    self.assertEqual(self.train(framework, folder=framework, TIDE_REHEARSE_SUSPEND=str(step))[0], 85)
                code, out, err = self.train(framework, folder=framework, TIDE_REHEARSE_SUSPEND="6", TIDE_RESUME_STEP="4",
                                            TIDE_CHECKPOINT_STEP="8")
                self.assertEqual((code, out, err), (85, "from 4\n", ""))
                code, out, err = self.train(framework, folder=framework, TIDE_CHECKPOINT_STEP="6")
                self.assertEqual((code, out.splitlines()[0], err), (0, "from 6", ""))

    def test_where_one_rank_cannot_write_none_has_saved(self):
        pages, ranks = self.start_two("deepspeed", 10 ** 9, STAND_IN_FAIL="1")
        coordinate(pages, _page.ORDER_SAVE, margin=5000)
        wait_until(lambda: all(page.ack_seq == page.seq for page in pages), "both to answer")
        self.assertEqual([(page.failed_saves, page.saved_step, page.phase) for page in pages], [(1, -1, _page.PHASE_TRAINING)] * 2)
        coordinate(pages, _page.ORDER_STOP, margin=5000)
        ends = [rank.communicate(timeout=60) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [85, 85], ends)
        for _, err in ends:
            self.assertIn("No space left on device; earlier checkpoints count", err)
        self.assertEqual([name for name in os.listdir(self.path("deepspeed")) if name.startswith(("step-", "complete-"))], [])

    def start_two(self, framework, steps, **env):
        """Two ranks that train by now, and their pages."""
        pages = [make_page(self.path(f"{framework}-page-{rank}")) for rank in range(2)]
        ranks = [start_python([PROGRAM, framework, str(steps)],
                              {**PATHS, **env, "TIDE_PAGE": self.path(f"{framework}-page-{rank}"), "TIDE_START": "7",
                               "TIDE_CHECKPOINT_DIR": self.path(framework), "RANK": str(rank), "LOCAL_RANK": str(rank),
                               "WORLD_SIZE": "2"}) for rank in range(2)]
        for rank in ranks:
            self.addCleanup(rank.wait)
            self.addCleanup(rank.kill)
        wait_until(lambda: all(page.step > 3 for page in pages), "both to train")
        return pages, ranks


class Folders(TempCase):
    def run_of(self, **env):
        return make_run(TIDE_CHECKPOINT_DIR=self.path("ck"), **env)

    def save(self, run, *steps, keep=3):
        for step in steps:
            common.save(run, step, lambda folder: self.write(folder, step), keep)

    def write(self, folder, step):
        with open(os.path.join(folder, "state"), "w") as out:
            out.write(str(step))

    def test_the_newest_is_the_last_that_was_saved_and_keep_stay(self):
        run = self.run_of()
        self.assertIsNone(common.resume(run))
        self.save(run, 1, 2, 3, 4)
        self.assertEqual([item.step for item in common.found(run)], [4, 3, 2])
        back = common.resume(self.run_of(TIDE_RESUME_STEP="2", TIDE_CHECKPOINT_STEP="4"))
        self.assertEqual(back.step, 2)
        self.save(run, 3)
        self.assertEqual([item.step for item in common.found(run)], [3, 4, 2])
        self.assertEqual(common.resume(self.run_of(TIDE_CHECKPOINT_STEP="3")).step, 3)
        self.assertEqual(sorted(name[:11] for name in os.listdir(self.path("ck"))), ["complete-00"] * 3 + ["step-000000"] * 3)

    def test_what_was_saved_with_a_bad_loss_is_passed_over(self):
        run = self.run_of()
        self.save(run, 1, 2, 3)
        self.assertEqual(common.resume(self.run_of(TIDE_RESUME_BEFORE="3", TIDE_CHECKPOINT_STEP="3")).step, 2)
        with self.assertRaisesRegex(TideError, "no whole checkpoint below step 1"):
            common.resume(self.run_of(TIDE_RESUME_BEFORE="1", TIDE_CHECKPOINT_STEP="3"))

    def test_what_is_asked_for_and_what_is_on_record_must_be_there(self):
        self.save(self.run_of(), 5)
        with self.assertRaisesRegex(TideError, "no whole checkpoint of step 4"):
            common.resume(self.run_of(TIDE_RESUME_STEP="4"))
        with self.assertRaisesRegex(TideError, "has saved step 9, and resumes at 5"):
            common.resume(self.run_of(TIDE_CHECKPOINT_STEP="9"))
        self.assertEqual(common.resume(self.run_of(TIDE_CHECKPOINT_STEP="9"), allow_restart=True).step, 5)
        self.assertIsNone(common.resume(self.run_of(TIDE_RESUME_STEP="0")))

    def test_a_rank_that_does_not_come_fails_the_save(self):
        run = make_run(0, 2, TIDE_CHECKPOINT_DIR=self.path("ck"))
        with self.assertRaisesRegex(TideError, "waited in vain for all ranks to write step 3"):
            common.save(run, 3, lambda folder: None, deadline=1.0)
        self.assertEqual(common.found(run), [])

    def test_what_no_mark_names_counts_for_nothing_and_goes(self):
        run = self.run_of()
        self.save(run, 5)
        for name in ("step-000000000006-0002", "saving-000000000007-local-1/files", "checkpoint-8"):
            os.makedirs(self.path("ck", name))
        self.write(self.path("ck"), 0)  # somebody else's
        open(self.path("ck", "complete-notes"), "w").close()
        self.assertEqual(common.resume(run).step, 5)
        self.assertEqual(sorted(os.listdir(self.path("ck"))),
                         ["checkpoint-8", "complete-000000000005", "complete-notes", "state", "step-000000000005-0001"])

    def test_a_folder_that_the_framework_names_is_marked_where_it_is(self):
        run = self.run_of()
        for step in (1, 2, 3):
            os.makedirs(self.path("ck", f"checkpoint-{step}"))
            common.mark(run, step, self.path("ck", f"checkpoint-{step}"), keep=2)
        self.assertEqual([item.folder for item in common.found(run)], [self.path("ck", f"checkpoint-{step}") for step in (3, 2)])
        common.unmark(run, 3)
        self.assertEqual(common.resume(run).step, 2)
        common.mark(run, 3, self.path("ck", "checkpoint-3"), keep=2)
        self.assertEqual([(item.step, item.number) for item in common.found(run)], [(3, 4), (2, 2)])
        with captured_stderr(), self.assertRaisesRegex(TideError, "checkpoint-4 is not there"):
            common.mark(run, 4, self.path("ck", "checkpoint-4"))

    def test_a_framework_that_writes_elsewhere_is_told(self):
        with self.assertRaisesRegex(TideError, "is not inside"):
            common.mark(self.run_of(), 3, self.path("other"))

    def test_a_suspension_that_fails_trains_on(self):
        page = make_page(self.path("page"))
        run = self.run_of(TIDE_PAGE=self.path("page"))
        run.request(1)
        coordinate([page], _page.ORDER_SUSPEND, margin=0)

        def fails(folder):
            raise ValueError("no such layer")

        with captured_stderr() as err:
            common.answer(run.request(2), fails)
        self.assertIn("cannot save step 2: no such layer", err.getvalue())
        self.assertEqual((page.failed_saves, common.found(run)), (1, []))


class Trees(unittest.TestCase):
    def test_other_trees_and_shapes_are_refused(self):
        import numpy
        from tide_pytree import Pytree
        state = Pytree({"a": numpy.zeros(2), "b/c": [1, None]}).state_dict()
        self.assertEqual(sorted(state), ["a", "b~1c/~0", "b~1c/~1"])
        with self.assertRaisesRegex(CheckpointError, "has other leaves than the stored one: c"):
            Pytree({"a": numpy.zeros(2), "b/c": [1, None], "c": 3}).load_state_dict(state)
        with self.assertRaisesRegex(CheckpointError, r"a: stored as float64\[2\], the program has float32\[2\]"):
            Pytree({"a": numpy.zeros(2, numpy.float32), "b/c": [1, None]}).load_state_dict(state)

    def test_arrays_of_another_library_are_put_back_where_they_were(self):
        import numpy
        from tide_pytree import Pytree

        class Device:  # as jax.Array: an array by protocol, with a place
            def __init__(self, values, place):
                self.values, self.place = numpy.asarray(values), place
                self.shape, self.dtype = self.values.shape, self.values.dtype

            def __array__(self, dtype=None, copy=None):
                return self.values

        box = Pytree([Device([1.0, 2.0], "gpu:1")], put=lambda array, like: Device(array, like.place))
        state = box.state_dict()
        box.tree = [Device([0.0, 0.0], "gpu:2")]
        box.load_state_dict(state)
        self.assertEqual((box.tree[0].place, list(box.tree[0].values)), ("gpu:2", [1.0, 2.0]))


if __name__ == "__main__":
    unittest.main()
