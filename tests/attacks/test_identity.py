"""Schedulers and agents that are not those they are taken for: no rank ends, no rank runs twice, and one clear line names
the cause. Plain processes do, as nothing of it is about containers."""

import json
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
from harness import DoubleRunWatch, make_store, until  # noqa: E402
from site_of_daemons import Site  # noqa: E402

STORE_EXIT, REFUSED, CONFLICT = 70, 2, 5


class Identity(unittest.TestCase):
    def setUp(self):
        self.site = Site("process", {"ann": "user", "olga": "operator"}, agent=["--job-user", "65534:65534"] if os.geteuid() == 0 else [])
        self.addCleanup(self.site.close)
        self.elsewhere = self.site.run_root + "-2"  # as an agent of another machine has
        self.addCleanup(shutil.rmtree, self.elsewhere, ignore_errors=True)
        self.site.start()
        spec = self.site.spec("holds", ["/bin/sleep", "1000"])
        self.job = self.site.submit(spec)
        self.site.await_state(self.job, "running")
        self.ranks = until(30, "its rank", lambda: self.ranks_now())
        self.watch = DoubleRunWatch(self.site)
        self.addCleanup(self.watch.stop)

    def ranks_now(self):
        return sorted(p.pid for p in self.site.ranks(self.job))

    def tide(self, *words, code=0):
        """What the program tells an operator."""
        done = self.site.tide(*words, env={"TIDE_TOKEN": self.site.tokens["olga"]})
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr if code else done.stdout

    def lines(self, name, *words):
        """Those of a log that hold all these words."""
        return [line for line in self.site.said(name).splitlines() if all(word in line for word in words)]

    def assert_unharmed(self):
        self.assertEqual(self.ranks_now(), self.ranks)
        self.assertEqual(self.watch.problems, [])

    def assert_goes_on(self):
        """Under the right scheduler again: the same attempt, the same processes."""
        until(30, "the node", self.site.has_node)
        job = self.site.job(self.job)
        self.assertEqual((job["state"], len(job["attempts"])), ("running", 1))
        self.assert_unharmed()

    def refused_scheduler(self, store, *words):
        code = self.site.start_scheduler(store).wait(30)
        self.site.running.pop("scheduler")
        self.assertEqual(code, STORE_EXIT)
        lines = self.lines("scheduler", "tide-scheduler: ")
        self.assertEqual(len(lines), 1, lines)
        for word in words:
            self.assertIn(word, lines[0])
        os.truncate(self.site.log_of("scheduler"), 0)

    def test_store_that_is_missing_or_empty(self):
        self.site.end("scheduler")
        os.truncate(self.site.log_of("scheduler"), 0)
        path = self.site.state + "/tide.bd"
        self.refused_scheduler("sqlite:" + path, path, "no such file", "--init")
        with open(path, "wb"):
            pass
        self.refused_scheduler("sqlite:" + path, path, "is empty", "--init")
        self.assertEqual(os.path.getsize(path), 0)
        self.assert_unharmed()
        self.site.start_scheduler()
        self.assert_goes_on()

    def test_store_of_another_cluster(self):
        self.site.end("scheduler")
        other = "sqlite:%s/other.db" % self.site.state
        make_store(other)
        self.site.start_scheduler(other)
        said = until(30, "the scheduler to refuse the agent", lambda: self.lines("scheduler", "n1", "belongs to cluster"))
        for word in ("this is cluster", "another store", "--join"):
            self.assertIn(word, said[0])
        until(30, "the agent to name the cause", lambda: self.lines("agent", "belongs to cluster", "another store"))
        self.assert_unharmed()
        self.site.end("scheduler")
        self.site.start_scheduler()
        self.assert_goes_on()

    def test_store_swapped_under_its_name(self):
        self.site.end("scheduler")
        path, aside = self.site.state + "/tide.db", self.site.state + "/aside"
        os.mkdir(aside)
        parts = [name for name in os.listdir(self.site.state) if name.startswith("tide.db")]
        for name in parts:
            os.rename(self.site.state + "/" + name, aside + "/" + name)
        make_store("sqlite:" + path)
        self.site.start_scheduler()
        until(30, "the agent to name the cause", lambda: self.lines("agent", "belongs to cluster", "another store"))
        self.assert_unharmed()
        self.site.end("scheduler")
        for name in parts:
            os.replace(aside + "/" + name, self.site.state + "/" + name)
        for name in ("tide.db-wal", "tide.db-shm"):
            if name not in parts and os.path.exists(self.site.state + "/" + name):
                os.unlink(self.site.state + "/" + name)
        self.site.start_scheduler()
        self.assert_goes_on()

    def test_second_agent_of_a_name(self):
        """On another machine, as far as files go."""
        self.site.start_agent(self.site.state + "/second", run_root=self.elsewhere, name="second")
        until(30, "it to be refused", lambda: self.lines("second", "two agents have the name n1"))
        said = self.lines("scheduler", "two agents have the name n1")[0]
        self.assertIn("--name", said)
        self.assert_goes_on()
        listed = until(30, "the list of nodes to name it", lambda: "is refused" in (text := self.tide("nodes")) and text)
        self.assertIn("agent-n1.sock is obeyed", listed)
        self.assertIn("is refused", self.tide("node", "n1"))
        self.site.end("second")
        self.assert_goes_on()

    def test_second_agent_of_a_name_while_the_first_is_away(self):
        """It holds nothing of the job, which proves nothing: what the first one started runs on."""
        self.site.kill("agent")
        self.site.start_agent(self.site.state + "/second", run_root=self.elsewhere, name="second")
        refused = until(30, "it to be refused", lambda: self.lines("second", "with another state folder"))[0]
        for word in (self.job, "may still run", "--state"):
            self.assertIn(word, refused)
        self.assert_unharmed()
        self.assertEqual(len(self.site.job(self.job)["attempts"]), 1)
        self.site.end("second")
        self.assert_unharmed()

    def test_second_agent_of_a_name_on_the_same_machine(self):
        child = self.site.start_agent(self.site.state + "/second", name="second")
        self.assertEqual(child.wait(30), REFUSED)
        self.assertEqual(len(self.lines("second", "the name n1 on this machine", "--name")), 1)
        self.assert_goes_on()

    def test_cloned_state_folder(self):
        clone = self.site.state + "/clone"
        shutil.copytree(self.site.state + "/agent-n1", clone, symlinks=True,
                        copy_function=lambda *names: shutil.copy2(*names) if os.path.isfile(names[0]) else None)
        child = self.site.start_agent(clone, run_root=self.elsewhere, name="clone")
        self.assertEqual(child.wait(30), REFUSED)
        self.assertEqual(len(self.lines("clone", "copy of another agent's state folder", clone)), 1)
        self.assert_goes_on()

    def test_node_that_is_gone_is_removed(self):
        self.assertIn("its agent answers", self.tide("node", "n1", "--remove", code=CONFLICT))
        self.site.kill("agent")
        until(60, "the node to be lost", lambda: self.site.get("/v1/nodes/n1")["state"] == "lost")
        self.assertIn("may still run there", self.tide("node", "n1", "--remove", code=CONFLICT))
        self.site.start_agent(self.site.state + "/agent-n1", "--stop-tasks-on-exit")
        self.site.await_state(self.job, "running")
        self.tide("cancel", self.job)
        self.site.await_over(self.job)
        self.site.kill("agent")
        until(60, "the node to be lost", lambda: self.site.get("/v1/nodes/n1")["state"] == "lost")
        self.tide("node", "n1", "--remove", "--reason", "sold")
        self.assertEqual(json.loads(self.tide("nodes", "-o", "json"))["items"], [])
        self.site.start_agent(self.site.state + "/agent-n1", "--stop-tasks-on-exit")
        until(60, "it to be back as a new node", self.site.has_node)

    def test_second_agent_on_the_same_folder(self):
        child = self.site.start_agent(self.site.state + "/agent-n1", run_root=self.elsewhere, name="second")
        self.assertEqual(child.wait(30), REFUSED)
        self.assertEqual(len(self.lines("second", "the state folder", "another agent's")), 1)
        self.assert_goes_on()


if __name__ == "__main__":
    unittest.main()
