"""run.state: what is stored, what is refused, and what a crash leaves."""

import json
import os
import threading
import unittest

from support import TempCase, make_run
from tide import TideError
from tide._state import FILE, State


class Values(TempCase):
    def state(self):
        return State(self.path("ck"))

    def test_another_attempt_finds_what_was_set(self):
        first = make_run(TIDE_CHECKPOINT_DIR=self.path("ck")).state
        self.assertEqual((dict(first), first.version, "stage" in first), ({}, 0, False))
        self.assertFalse(os.path.exists(self.path("ck")), "reading makes nothing")
        first["stage"] = 2
        first.update(best=0.5, names=["a", None])
        second = make_run(attempt=2, TIDE_CHECKPOINT_DIR=self.path("ck")).state
        self.assertEqual(dict(second), {"stage": 2, "best": 0.5, "names": ["a", None]})
        self.assertEqual(second.version, 2)
        self.assertEqual(second.get("other", 7), 7)

    def test_setting_back_and_removing(self):
        state = self.state()
        state["stage"] = 1
        state["stage"] = 0
        self.assertEqual((state["stage"], state.version), (0, 2))
        del state["stage"]
        with self.assertRaises(KeyError):
            del state["stage"]
        self.assertEqual((len(state), state.version), (0, 3))
        state.update(a=1, b=2)
        state.clear()
        self.assertEqual((list(state), state.version), ([], 5))

    def test_what_cannot_be_stored_changes_nothing(self):
        state = self.state()
        state["kept"] = 1
        for value, said in ((object(), "cannot hold this"), (float("nan"), "cannot hold this"), ("x" * 70000, "most")):
            with self.assertRaisesRegex(TideError, said):
                state["bad"] = value
        with self.assertRaisesRegex(TideError, "keys are strings"):
            state[3] = 1
        self.assertEqual((dict(state), state.version), ({"kept": 1}, 1))
        self.assertEqual(os.listdir(self.path("ck")), [FILE], "no temporary file stays")

    def test_threads_lose_nothing(self):
        state = self.state()
        threads = [threading.Thread(target=state.update, args=({str(i): i},)) for i in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual((len(state), state.version), (8, 8))


class Files(TempCase):
    def test_what_is_no_state_is_said(self):
        for text in ("", "{", "[]", '{"format":"tide-state/1","version":1}', json.dumps({"format": "x", "values": {}})):
            with open(self.path(FILE), "w") as out:
                out.write(text)
            with self.assertRaisesRegex(TideError, FILE):
                State(self.dir)["a"]
            with self.assertRaises(TideError):
                State(self.dir)["a"] = 1
            with open(self.path(FILE)) as left:
                self.assertEqual(left.read(), text, "it is left as it is")

    def test_a_folder_that_cannot_be(self):
        with open(self.path("file"), "w"):
            pass
        state = State(self.path("file", "ck"))
        with self.assertRaisesRegex(TideError, "the job.s state .*Not a directory"):
            state["a"] = 1


if __name__ == "__main__":
    unittest.main()
