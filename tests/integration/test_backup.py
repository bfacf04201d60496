"""`tide admin backup`, `restore` and `migrate --check` under a real cluster: what happens to jobs and numbers."""

import glob
import os
import subprocess
import unittest

from harness import Cluster, Refused, describe, program, until
from postgres import Postgres

OK, IN_USE, NOT_EMPTY, DAMAGED = 0, 75, 5, 77


class Backup(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        self.cluster.start()
        self.database = self.cluster.state + "/scheduler/tide.db"
        self.dump = self.cluster.base + "/dump"

    def admin(self, code, *args, store=None):
        done = self.cluster.tide("admin", *args, "--store", store or "sqlite:" + self.database)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def long_job(self, name):
        job = self.cluster.submit(self.cluster.count_job(steps=20000, ranks=1, name=name))
        self.cluster.await_step(job, 5)
        return job

    def test_restore_of_an_older_backup(self):
        cluster = self.cluster
        stays = self.long_job("stays")
        attempts = len(cluster.job(stays)["attempts"])
        self.admin(OK, "backup", self.dump)  # beside the scheduler
        lost = self.long_job("lost")
        self.assertIn("in use", self.admin(IN_USE, "restore", self.dump))
        cluster.kill_all()
        self.assertTrue(cluster.ranks(lost), "the tasks outlive their agents")
        self.assertIn("holds jobs", self.admin(NOT_EMPTY, "restore", self.dump))
        for path in glob.glob(self.database + "*"):
            os.remove(path)
        damaged = self.dump + "-damaged"
        with open(self.dump, "rb") as whole, open(damaged, "wb") as part:
            part.write(whole.read()[:-10])
        self.assertIn("damaged", self.admin(DAMAGED, "restore", damaged))
        self.assertEqual(glob.glob(self.database + "*"), [self.database + ".lock"], "a refused restore makes no store")
        self.admin(OK, "restore", self.dump)

        cluster.start()  # which waits until every agent follows the new leader
        after = cluster.await_state(stays, "running")
        self.assertEqual(len(after["attempts"]), attempts, describe(after))
        with self.assertRaises(Refused) as gone:
            cluster.job(lost)
        self.assertEqual(gone.exception.status, 404)
        until(30, "the tasks of the lost job to end", lambda: not cluster.ranks(lost))
        self.assertTrue(cluster.ranks(stays))
        again = cluster.submit(cluster.count_job(steps=20, ranks=1, name="again"))
        self.assertGreater(int(again.removeprefix("j-")), 1_000_000)
        self.assertEqual(cluster.await_over(again)["outcome"], "succeeded")

    def test_move_to_postgres(self):
        cluster = self.cluster
        job = self.long_job("moves")
        cluster.kill_all()
        postgres = Postgres()
        self.addCleanup(postgres.close)
        postgres.sql("CREATE DATABASE moved")
        store = postgres.address("moved")
        self.admin(OK, "backup", self.dump)
        self.admin(OK, "restore", self.dump, "--skip-job-ids", "0", store=store)
        self.assertIn("nothing to migrate; 1 jobs and 4 nodes load", self.admin(OK, "migrate", "--check", store=store))
        self.assertEqual(postgres.sql("SELECT name FROM jobs WHERE id = " + job.removeprefix("j-"), "moved"), "moves")
        with open(cluster.base + "/log", "w+b") as log:
            scheduler = subprocess.Popen([program("tide-scheduler"), "--listen", "unix:%s/s.sock" % cluster.base,
                                          "--store", store], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.addCleanup(scheduler.wait, 10)
            self.addCleanup(scheduler.kill)

            def serves():
                log.seek(0)
                return b"Serving" in log.read()
            until(30, "the scheduler to serve", serves)
        self.assertIn("a scheduler is connected", self.admin(IN_USE, "restore", self.dump, store=store))


if __name__ == "__main__":
    unittest.main()
