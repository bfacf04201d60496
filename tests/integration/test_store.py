"""tide-scheduler on PostgreSQL: each thing that can be wrong with the store is one line and an exit code of its own; a
server that restarts is waited for. Exit codes: common/base/exit_codes.h."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import make_store, pause, program, until
from postgres import Postgres

OK, USAGE, STORE, UNREACHABLE, DENIED, NEWER, IN_USE, LEASE_LOST, STORE_THERE = 0, 2, 70, 72, 73, 74, 75, 76, 78
SECRET = "hunter2-hunter2"


class Store(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.postgres = Postgres()
        cls.addClassCleanup(cls.postgres.close)
        cls.postgres.sql("CREATE ROLE guest LOGIN; CREATE ROLE plain LOGIN")
        cls.postgres.sql("CREATE ROLE needs_password LOGIN SUPERUSER PASSWORD '%s'" % SECRET)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tide-it-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.database = "d" + str(abs(hash(self.id())))
        self.postgres.sql("CREATE DATABASE " + self.database)
        self.log = self.folder + "/log"
        make_store(self.postgres.address(self.database))

    def argv(self, *store):
        return [program("tide-scheduler"), "--listen", "unix:%s/%d.sock" % (self.folder, len(os.listdir(self.folder))),
                *store]

    def start(self, *store, env=None):
        """A scheduler that serves."""
        with open(self.log, "a+b") as log:
            log.seek(0)
            before = log.read().count(b"Serving")
            scheduler = subprocess.Popen(self.argv(*(store or ("--store", self.postgres.address(self.database)))),
                                         stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        self.addCleanup(self.end, scheduler)
        until(30, "the scheduler to serve", lambda: scheduler.poll() is not None or self.said().count("Serving") > before)
        self.assertIsNone(scheduler.poll(), self.said())
        return scheduler

    def end(self, scheduler):
        if scheduler.poll() is None:
            scheduler.terminate()
        return scheduler.wait(30)

    def said(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def ends(self, scheduler, code, *words):
        self.assertEqual(scheduler.wait(30), code, self.said())
        for word in words:
            self.assertIn(word, self.said())

    def refuses(self, code, *words, store=None, more=()):
        done = subprocess.run(self.argv("--store", store or self.postgres.address(self.database), *more),
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("tide-scheduler: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])
        self.assertNotIn(SECRET, done.stderr)

    def sql(self, text):
        return self.postgres.sql(text, self.database)

    def test_serves_and_is_followed_at_once(self):
        self.assertEqual(self.end(self.start()), OK)
        term = int(self.sql("SELECT term FROM leases"))
        self.assertEqual(self.end(self.start()), OK)
        self.assertGreater(int(self.sql("SELECT term FROM leases")), term)

    def test_owner_of_the_database_needs_no_more(self):
        self.postgres.sql("DROP DATABASE " + self.database)
        self.postgres.sql("CREATE DATABASE %s OWNER plain" % self.database)
        make_store(self.postgres.address(self.database, "plain"))
        self.assertEqual(self.end(self.start("--store", self.postgres.address(self.database, "plain"))), OK)

    def test_a_database_without_a_store_is_left_alone(self):
        self.postgres.sql("CREATE DATABASE mistyped")
        store = self.postgres.address("mistyped")
        for more in ((), ("--standby",)):
            self.refuses(STORE, "mistyped", "holds no store", "correct --store", "--init", store=store, more=more)
        self.assertEqual(self.postgres.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", "mistyped"), "0")
        make_store(store)
        cluster = self.postgres.sql("SELECT id FROM cluster", "mistyped")
        self.refuses(STORE_THERE, "mistyped", "holds a store already", store=store, more=("--init",))
        self.assertEqual(self.end(self.start("--store", store)), OK)
        self.assertEqual(self.postgres.sql("SELECT id FROM cluster", "mistyped"), cluster)

    def test_standby_makes_no_store_where_its_own_is_gone(self):
        leader = self.start()
        following = self.standby()
        leader.send_signal(signal.SIGSTOP)
        self.postgres.sql("DROP DATABASE %s WITH (FORCE)" % self.database)
        self.postgres.sql("CREATE DATABASE " + self.database)
        leader.kill()
        until(30, "the standby to miss the store", lambda: "holds no store" in self.said())
        self.assertEqual(self.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0")
        self.assertIsNone(following.poll(), self.said())

    def test_second_scheduler(self):
        self.start()
        self.refuses(IN_USE, "leads", "stop it")

    def test_address(self):
        self.refuses(USAGE, "hots", "postgres://", store="postgresql:hots=x")
        self.refuses(USAGE, "--store-file", store="postgres://needs_password:%s@/x?host=/tmp" % SECRET)
        self.refuses(UNREACHABLE, "/nowhere", "check its address", store="postgresql:host=/nowhere dbname=x")
        self.refuses(STORE, "no_such", "CREATE DATABASE", store=self.postgres.address("no_such"))

    def test_user(self):
        self.refuses(DENIED, "needs_password", "PGPASSFILE",
                     store=self.postgres.address(self.database, "needs_password"))
        self.refuses(DENIED, "lacks a privilege", "GRANT", store=self.postgres.address(self.database, "guest"))

    def test_password_in_a_file_is_nowhere_else(self):
        path = self.folder + "/store"
        with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(self.postgres.address(self.database, "needs_password") + " password=" + SECRET)
        scheduler = self.start("--store-file", path)
        with open("/proc/%d/cmdline" % scheduler.pid, "rb") as file:
            self.assertNotIn(SECRET.encode(), file.read())
        self.assertEqual(self.end(scheduler), OK)
        self.assertNotIn(SECRET, self.said())

    def test_newer_schema(self):
        self.end(self.start())
        self.sql("INSERT INTO schema_migrations VALUES (999, '0999_future', '2030-01-01')")
        self.refuses(NEWER, "newer Tide", "999", "install that version")

    def test_lease_lost(self):
        scheduler = self.start()
        self.sql("UPDATE leases SET term = term + 1, holder = 'another'")
        self.ends(scheduler, LEASE_LOST, "another leads")

    def test_server_restarts(self):
        scheduler = self.start()
        term = self.sql("SELECT term FROM leases")
        batch = int(self.sql("SELECT batch FROM leases"))
        self.postgres.kill()
        self.postgres.start()
        until(20, "the next batch", lambda: int(self.sql("SELECT batch FROM leases")) > batch)
        self.assertIsNone(scheduler.poll(), self.said())
        self.assertEqual(self.sql("SELECT term FROM leases"), term)

    def test_server_stays_away(self):
        scheduler = self.start()
        self.postgres.kill()
        self.addCleanup(self.postgres.start)
        self.ends(scheduler, UNREACHABLE, "cannot be reached", "Commit failed")

    # Standbys

    def standby(self, *more):
        """A scheduler that waits for the lead."""
        said = self.said().count("Standing by")
        with open(self.log, "ab") as log:
            scheduler = subprocess.Popen(
                self.argv("--standby", "--store", self.postgres.address(self.database), *more),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(self.end, scheduler)
        until(30, "a scheduler to stand by", lambda: self.said().count("Standing by") > said)
        return scheduler

    def await_next_leader(self, term):
        until(40, "the standby to lead", lambda: int(self.sql("SELECT term FROM leases")) > term)

    def test_standby_follows_a_dead_leader_at_once(self):
        leader = self.start()
        for _ in range(3):
            following = self.standby()
            term = int(self.sql("SELECT term FROM leases"))
            left = int(self.sql("SELECT expires_ns FROM leases"))
            leader.kill()
            leader.wait(30)
            self.await_next_leader(term)
            self.assertLess(time.time_ns(), left, "it waited until the lease was over")
            leader = following
        self.assertIsNone(leader.poll(), self.said())

    def test_standby_ends_when_told(self):
        leader = self.start()
        self.assertEqual(self.end(self.standby()), OK)
        self.assertIsNone(leader.poll(), self.said())

    def test_paused_leader_is_replaced_and_writes_no_more(self):
        leader = self.start()
        following = self.standby()
        term = int(self.sql("SELECT term FROM leases"))
        leader.send_signal(signal.SIGSTOP)
        try:
            self.await_next_leader(term)
            led_by = self.sql("SELECT term, holder FROM leases")
        finally:
            leader.send_signal(signal.SIGCONT)
        self.ends(leader, LEASE_LOST, "leads with term")
        self.assertEqual(self.sql("SELECT term, holder FROM leases"), led_by)
        self.assertIsNone(following.poll(), self.said())

    def api(self, schedulers):
        """An API server; the path of its log."""
        addresses = ",".join(each.args[each.args.index("--listen") + 1] for each in schedulers)
        path = self.folder + "/api.log"
        with open(path, "wb") as log:
            api = subprocess.Popen([program("tide-api"), "--scheduler", addresses, "--listen", "127.0.0.1:0"],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(self.end, api)
        return path

    def test_api_leaves_a_leader_that_is_paused_in_a_quiet_time(self):
        leader = self.start()
        following = self.standby()
        path = self.api((leader, following))

        def followed():
            with open(path, encoding="utf-8") as file:
                return [line for line in file if "following the scheduler" in line]
        until(20, "the API to follow the leader", followed)
        # Here, the time is the input: pings go out every 10 s, and the first are no test.
        pause(25)
        self.assertEqual(len(followed()), 1)
        leader.send_signal(signal.SIGSTOP)
        try:
            until(40, "the API to follow the next leader", lambda: len(followed()) > 1)
        finally:
            leader.send_signal(signal.SIGCONT)
        self.ends(leader, LEASE_LOST, "leads with term")

    def test_standby_leads_by_the_policy_of_the_day(self):
        policy = self.folder + "/policy.yaml"

        def write(projects):
            with open(policy, "w", encoding="ascii") as file:
                file.write("version: 1\nprojects:\n" + "".join("  %s: { weight: 1 }\n" % each for each in projects))
        write(["vision"])
        leader = self.start()
        following = self.standby("--policy", policy)
        write(["vision", "speech"])
        leader.kill()
        leader.wait(30)
        until(40, "the standby to serve", lambda: self.said().count("Serving") > 1)
        self.assertIn("Projects: 2", self.said())
        self.assertIsNone(following.poll(), self.said())

    def test_standby_leads_in_spite_of_a_policy_that_is_being_edited(self):
        policy = self.folder + "/policy.yaml"
        with open(policy, "w", encoding="ascii") as file:
            file.write("version: 1\n")
        leader = self.start()
        following = self.standby("--policy", policy)
        with open(policy, "w", encoding="ascii") as file:
            file.write("version: 1\nprojects: [")
        leader.kill()
        leader.wait(30)
        until(40, "the standby to serve", lambda: self.said().count("Serving") > 1)
        self.assertIn("as it was at the start", self.said())
        self.assertIsNone(following.poll(), self.said())


if __name__ == "__main__":
    unittest.main()
