"""Checkpoints that stay: the last ones, one every so many hours, the best, and those that people pinned."""

import unittest
from unittest import mock

from support import TempCase, make_run
from tide import Checkpoint, CheckpointError
from tide.checkpoint import retention, store


class Kept(TempCase):
    def setUp(self):
        super().setUp()
        self.now = 1e9
        clock = mock.patch.object(retention.time, "time", lambda: self.now)
        clock.start()
        self.addCleanup(clock.stop)

    def make(self, attempt=1, **options):
        return Checkpoint(dir=self.path("ck"), replicated={"m": {"n": 1}}, keep=1, run=make_run(attempt=attempt), **options)

    def save(self, ck, step, hours=0.0):
        self.now += hours * 3600
        name = ck.save(step)
        ck.flush()
        return name

    def steps(self):
        return [item.step for item in store.scan(self.path("ck"))]

    def hourly(self):
        """Steps of those that stay. The last one before the newest may, while the newest is pinned and does not count."""
        found = [step for step in self.steps() if step % 6 == 1 or step == self.steps()[-1]]
        self.assertLessEqual(len(self.steps()), len(found) + 1)
        return found

    def test_one_every_so_many_hours(self):
        ck = self.make(keep_hours=6)
        for step in range(1, 20):
            self.save(ck, step, hours=1)
        self.assertEqual(self.hourly(), [1, 7, 13, 19])
        again = self.make(attempt=2, keep_hours=6)
        self.assertEqual(again.resume(), 19)
        for step in range(20, 30):
            self.save(again, step, hours=1)
        self.assertEqual(self.hourly(), [1, 7, 13, 19, 25, 29])

    def test_the_best_stay(self):
        ck = self.make()
        for step, loss in enumerate([5.0, 3.0, float("nan"), 4.0, 2.5, 9.0, 2.5], 1):
            ck.keep_best(self.save(ck, step), loss, count=2)
        self.save(ck, 8)
        self.assertEqual(self.steps(), [5, 7, 8])
        again = self.make(attempt=2)
        again.resume()
        again.keep_best(self.save(again, 9), 1.0, count=2)
        self.save(again, 10)
        self.assertEqual(self.steps(), [5, 9, 10])

    def test_the_highest_may_be_the_best(self):
        ck = self.make()
        for step, score in enumerate([0.1, 0.9, 0.5], 1):
            ck.keep_best(self.save(ck, step), score, lowest=False)
        self.save(ck, 4)
        self.assertEqual(self.steps(), [2, 4])

    def test_what_people_pinned_stays(self):
        ck = self.make()
        name = self.save(ck, 1)
        store.pin(store.scan(self.path("ck"))[0])
        ck.keep_best(name, 9.0)
        ck.keep_best(self.save(ck, 2), 1.0)
        self.save(ck, 3)
        self.assertEqual(self.steps(), [1, 2, 3])

    def test_a_folder_that_is_gone_is_named(self):
        ck = self.make()
        with self.assertRaisesRegex(CheckpointError, "cannot keep s1: No such file"):
            ck.keep_best("s1", 1.0)


if __name__ == "__main__":
    unittest.main()
