"""Programs that write their checkpoints themselves: run.request(), and what they answer."""

import unittest

from support import TempCase, captured_stderr, coordinate, make_page, make_run, run_ranks, start_python, wait_until, withdraw
from tide import TideError, _page

# Each rank keeps a file of its own; the checkpoint is the step of which all have one.
_KEEPS_FILES = """
import json, os, sys, time, tide
run = tide.attach()
mine = os.path.join(run.checkpoint_dir, f"rank-{run.rank}.json")
total = int(sys.argv[1])
state = json.load(open(mine)) if os.path.exists(mine) else {"step": 0, "sum": 0}
run.resumed(state["step"])
print("from", state["step"], flush=True)
while state["step"] < total:
    state["step"] += 1
    state["sum"] += state["step"]
    request = run.request(state["step"], loss=1.0, total=total)
    if request is not None:
        if request.kind != "stop":
            with open(mine + ".new", "w") as out:
                json.dump(state, out)
            os.replace(mine + ".new", mine)
            request.saved(f"step-{state['step']}")
        if request.leaves:
            run.exit()
    time.sleep(0.001)  # tidy: poll (the job sleeps, the test does not)
print("sum", state["sum"], flush=True)
run.done()
"""


class Ranks(TempCase):
    def test_they_save_and_leave_at_one_step_and_go_on_from_it(self):
        pages = [make_page(self.path(f"page-{rank}")) for rank in range(2)]
        ranks = [start_python(["-c", _KEEPS_FILES, "2000"],
                              {"TIDE_PAGE": self.path(f"page-{rank}"), "TIDE_CHECKPOINT_DIR": self.path(""), "RANK": str(rank),
                               "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}) for rank in range(2)]
        wait_until(lambda: all(page.step > 3 for page in pages), "both to train")
        saved = coordinate(pages, _page.ORDER_SAVE)
        wait_until(lambda: all(page.ack_seq == page.seq for page in pages), "both to answer")
        self.assertEqual([page.saved_step for page in pages], [saved, saved])
        withdraw(pages)
        left = coordinate(pages, _page.ORDER_SUSPEND)
        ends = [rank.communicate(timeout=30) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [85, 85], ends)
        self.assertEqual([(page.saved_step, page.phase) for page in pages], [(left, _page.PHASE_SAVED)] * 2)
        ends = run_ranks(["-c", _KEEPS_FILES, "2000"], 2, {"TIDE_CHECKPOINT_DIR": self.path("")})
        self.assertEqual([end[1] for end in ends], [f"from {left}\nsum 2001000\n"] * 2)

    def test_a_rehearsal_without_the_platform(self):
        env = {"TIDE_CHECKPOINT_DIR": self.path("")}
        [(code, out, err)] = run_ranks(["-c", _KEEPS_FILES, "20"], 1, {**env, "TIDE_REHEARSE_SUSPEND": "7"})
        self.assertEqual((code, out, err), (85, "from 0\n", ""))
        [(code, out, err)] = run_ranks(["-c", _KEEPS_FILES, "20"], 1, {**env, "TIDE_REHEARSE_SUSPEND": "7"})
        self.assertEqual((code, out, err), (0, "from 7\nsum 210\n", ""))

    def test_it_does_not_begin_below_what_is_on_record(self):
        env = {"TIDE_CHECKPOINT_DIR": self.path(""), "TIDE_CHECKPOINT_STEP": "40"}
        [(code, out, err)] = run_ranks(["-c", _KEEPS_FILES, "50"], 1, env)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("has saved step 40, and resumes at 0; is the file system mounted?", err)


class Answers(TempCase):
    def setUp(self):
        super().setUp()
        self.page = make_page(self.path("page"))
        self.run = make_run(TIDE_PAGE=self.path("page"))

    def ask(self, order, step=3):
        self.assertIsNone(self.run.request(step - 1))
        self.assertEqual(coordinate([self.page], order, margin=0, deadline=5_000_000_000), step)
        return self.run.request(step)

    def test_of_a_save(self):
        request = self.ask(_page.ORDER_SAVE)
        self.assertEqual((request.kind, request.step, request.deadline, request.leaves), ("save", 3, 5.0, False))
        self.assertEqual(self.page.phase, _page.PHASE_SAVING)
        request.saved("a")
        self.assertEqual((self.page.ack_seq, self.page.saved_step, self.page.phase), (self.page.seq, 3, _page.PHASE_TRAINING))
        self.assertIsNone(self.run.request(4))

    def test_of_a_save_that_fails(self):
        request = self.ask(_page.ORDER_SAVE)
        with captured_stderr() as err:
            request.failed(OSError(28, "No space left on device"))
        self.assertIn("cannot save step 3: [Errno 28] No space left on device; earlier checkpoints count", err.getvalue())
        self.assertEqual((self.page.failed_saves, self.page.save_errno, self.page.saved_step), (1, 28, -1))
        self.assertEqual(self.page.ack_seq, self.page.seq)
        self.run.saved(9)
        self.assertEqual((self.page.failed_saves, self.page.saved_step), (0, 9))

    def test_of_a_suspension_that_fails(self):
        request = self.ask(_page.ORDER_SUSPEND)
        self.assertTrue(request.leaves)
        with captured_stderr() as err:
            request.failed(RuntimeError("lost"))
        self.assertIn("until the deadline", err.getvalue())
        self.assertNotEqual(self.page.ack_seq, self.page.seq)
        self.assertIsNone(self.run.request(4), "it is not asked for the same again")
        withdraw([self.page])
        self.assertIsNone(self.run.request(5))
        self.assertEqual(self.ask(_page.ORDER_SUSPEND, 7).kind, "suspend")

    def test_where_nothing_can_be_saved(self):
        self.run.request(2)
        coordinate([self.page], _page.ORDER_SAVE, margin=0)
        self.assertIsNone(self.run.request(3, safe=False))
        self.assertEqual(self.run.request(4).kind, "save")

    def test_resumed(self):
        run = make_run(TIDE_CHECKPOINT_STEP="40")
        with self.assertRaisesRegex(TideError, "saved step 40, and resumes at 39"):
            run.resumed(39)
        run.resumed(39, allow_restart=True)
        run.resumed(40)
        make_run(TIDE_CHECKPOINT_STEP="40", TIDE_RESUME_STEP="0").resumed(0)


if __name__ == "__main__":
    unittest.main()
