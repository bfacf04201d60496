"""After Ctrl-C, or kill -9 and a restart, nothing of `tide dev` is left outside its state folder."""

import glob
import os
import signal
import subprocess
import unittest

from harness import NODES, PYTHON, Cluster, ClusterTest, describe, free_port, program, until


class Leftovers(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        self.cluster.start()

    def run_job(self):
        """A job with a daemon of its own, which has left its session."""
        cluster = self.cluster
        # The orphan must not outlive its task, whatever it did to its parent and session.
        code = ("import os, subprocess, runpy, sys; subprocess.Popen(['/usr/bin/sleep', '1000'], "
                "start_new_session=True); sys.argv = ['count.py', '--steps', '5000', '--step-ms', '20']; "
                "runpy.run_path('count.py', run_name='__main__')")
        job = cluster.submit(cluster.spec("long", [PYTHON, "-c", code], 2, 2, priority="low"))
        cluster.await_step(job, 5)
        cluster.note_tags()
        self.assertEqual(len(cluster.tags), 2)
        self.assertTrue(cluster.leftovers(), "the look for leftovers must see a running job")
        return job

    def assert_clean(self, seconds=10):
        def look():
            return not self.cluster.leftovers()
        try:
            until(seconds, "a clean machine", look)
        except AssertionError:
            self.fail("\n".join(self.cluster.leftovers()))

    def test_nothing_on_tmpfs(self):
        """Pages and sockets of tasks lie outside the state folder: they must go, too."""
        argv = self.cluster.daemon("agent a-n1").argv
        root = argv[argv.index("--run-root") + 1]
        before = set(glob.glob(root + "/**", recursive=True))
        self.run_job()
        self.assertEqual(self.cluster.interrupt(), 0, self.cluster.output())
        self.assertEqual(sorted(set(glob.glob(root + "/**", recursive=True)) - before), [])

    def test_ctrl_c(self):
        self.run_job()
        self.assertEqual(self.cluster.interrupt(), 0, self.cluster.output())
        self.assert_clean()
        self.assertFalse(os.path.exists(self.cluster.env["TIDE_DEV_PROFILE"]))
        self.assertFalse(glob.glob(self.cluster.state + "/*.sock"))

    def test_ctrl_c_past_an_agent_that_hangs(self):
        """It is killed in the end, and its tasks with it."""
        self.run_job()
        for name in NODES:
            os.kill(self.cluster.daemon("agent " + name).pid, signal.SIGSTOP)
        self.assertEqual(self.cluster.interrupt(60), 0, self.cluster.output())
        self.assert_clean()

    def test_ctrl_c_while_an_agent_is_down(self):
        """Nobody is there to end its tasks."""
        self.run_job()
        for name in NODES:
            os.kill(self.cluster.daemon("agent " + name).pid, signal.SIGKILL)
        self.assertEqual(self.cluster.interrupt(), 0, self.cluster.output())
        self.assert_clean()

    def test_sigterm_does_the_same(self):
        self.run_job()
        self.cluster.dev.send_signal(signal.SIGTERM)
        self.assertEqual(self.cluster.dev.wait(30), 0)
        self.cluster.dev = None
        self.assert_clean()

    def test_kill_restart_ctrl_c(self):
        job = self.run_job()
        orphans = self.cluster.kill()
        self.assertEqual(len(orphans), 6)
        until(20, "orphaned daemons to go", lambda: not any(p.alive() for p in orphans))
        self.cluster.start()
        again = self.cluster.await_job(job, "run again", lambda now: now["state"] == "running" and
                                       now["attempts"][-1]["epoch"] > 0)
        self.assertIsNone(again["outcome"], describe(again))
        self.cluster.note_tags()
        self.assertEqual(self.cluster.interrupt(), 0, self.cluster.output())
        self.assert_clean()

    def test_kill_everything_at_once(self):
        """As a power failure of all of Tide, but not of the tasks: nobody was asked to end them."""
        job = self.run_job()
        before = len(self.cluster.job(job)["attempts"])
        self.cluster.kill_all()
        self.assertTrue(self.cluster.ranks(), "the tasks outlive their agents")
        self.cluster.start()
        after = self.cluster.await_state(job, "running")
        self.assertEqual(len(after["attempts"]), before, describe(after))
        self.assertEqual(self.cluster.interrupt(), 0, self.cluster.output())
        self.assert_clean()


class Temporary(unittest.TestCase):
    """Without --state the folder goes, too."""

    def test_folder_goes(self):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        folder = "/tmp/tide-dev-%d" % os.geteuid()
        if os.path.exists(folder + "/version"):
            self.skipTest(folder + " is in use by another tide dev")
        cluster.state = folder
        argv = [program("tide"), "dev", "--no-demo", "--port", str(cluster.port)]
        cluster.dev = subprocess.Popen(argv, env=cluster.env, cwd=cluster.base, start_new_session=True,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        open(cluster.base + "/dev.out", "w", encoding="ascii").close()
        cluster.await_nodes()
        self.assertEqual(cluster.interrupt(), 0)
        self.assertFalse(os.path.exists(folder), os.path.exists(folder) and os.listdir(folder))


class Refusals(ClusterTest):
    def test_two_on_one_folder(self):
        cluster = self.cluster
        done = subprocess.run(cluster.dev_argv(port=free_port()), env=cluster.env, capture_output=True,
                              text=True, timeout=30, check=False)
        self.assert_one_line(done, 5, "another tide dev (pid %d) uses %s" % (cluster.dev.pid, cluster.state),
                             "--state")
        cluster.await_nodes()

    def test_two_on_one_port(self):
        other = Cluster()
        self.addCleanup(other.close)
        done = subprocess.run(other.dev_argv(port=self.cluster.port), env=other.env, capture_output=True,
                              text=True, timeout=30, check=False)
        self.assert_one_line(done, 6, "port %d" % self.cluster.port, "in use", "--port")

    def test_the_second_leaves_the_profile_to_the_first(self):
        other = Cluster()
        self.addCleanup(other.close)
        other.env["TIDE_DEV_PROFILE"] = self.cluster.env["TIDE_DEV_PROFILE"]
        other.start()
        own = other.state + "/profile.yaml"
        self.assertIn("TIDE_DEV_PROFILE=" + own, other.output())
        self.assertIn("127.0.0.1:%d, which is another tide dev" % self.cluster.port, other.output())
        job = other.submit(other.spec("theirs", ["true"]))
        env = {"TIDE_DEV_PROFILE": own}
        self.assertEqual(other.tide("ps", "--all", "-o", "name", env=env).stdout, job + "\n")
        self.assertNotIn("theirs", self.cluster.tide("ps", "--all", "-o", "json").stdout)
        self.assertEqual(other.interrupt(), 0, other.output())
        self.assertFalse(os.path.exists(own))
        self.assertEqual(self.cluster.tide("nodes", "-q").returncode, 0)

    def test_two_at_once_do_not_meet(self):
        """Nodes and tasks have the same names in both clusters."""
        other = Cluster()
        self.addCleanup(other.close)
        while (other.port - self.cluster.port) % 125 == 0:  # the ports of their jobs are by these
            other.port = free_port()
        other.start()
        pair = (self.cluster, other)
        ranges = [[p.argv[p.argv.index("--ports") + 1] for p in each.children() if "--ports" in p.argv]
                  for each in pair]
        self.assertEqual(len(set(ranges[0] + ranges[1])), 2 * len(NODES), ranges)
        for each in pair:
            self.assertEqual(each.submit(each.count_job(steps=150, nodes=2, ranks=1)), "j-1")
        for each in pair:
            each.await_step("j-1", 5)
        self.cluster.patiently("POST", "/v1/jobs/j-1/suspend", {"reason": "try", "notice_s": 20})
        held = self.cluster.await_state("j-1", "held", 30)
        self.assertTrue(held["attempts"][0]["saved_at"], describe(held))
        done = other.await_over("j-1", 60)
        self.assertEqual((done["outcome"], len(done["attempts"])), ("succeeded", 1), describe(done))
        self.cluster.patiently("POST", "/v1/jobs/j-1/resume", {})
        self.assertEqual(self.cluster.await_over("j-1", 60)["outcome"], "succeeded")


class Names(unittest.TestCase):
    """What the person's surroundings are called."""

    def setUp(self):
        self.cluster = Cluster(nodes=1)
        self.addCleanup(self.cluster.close)

    def test_user_of_two_words(self):
        self.cluster.env["USER"] = "a b#\u00e9"
        self.cluster.start()
        job = self.cluster.submit(self.cluster.spec("x", ["true"], 1, 1))
        self.assertRegex(self.cluster.job(job)["user"], "^a_b_+$")

    def test_path_too_long_for_a_socket(self):
        cluster = self.cluster
        cluster.state = os.path.join(cluster.base, "x" * 90)
        done = subprocess.run(cluster.dev_argv(), env=cluster.env, capture_output=True, text=True, timeout=30,
                              check=False)
        ClusterTest.assert_one_line(self, done, 2, cluster.state, "choose a shorter --state")
        self.assertFalse(os.path.exists(cluster.state))

    def test_path_just_short_enough(self):
        cluster = self.cluster
        cluster.state = os.path.join(cluster.base, "x" * (90 - len(cluster.base) - 1))
        cluster.work = os.path.join(cluster.state, "work")
        cluster.start()
        job = cluster.submit(cluster.count_job(steps=3, nodes=1, ranks=1))
        self.assertEqual(cluster.await_over(job)["outcome"], "succeeded")


class StaleState(unittest.TestCase):
    def refuse(self, prepare, *words):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        os.mkdir(cluster.state, 0o711)
        prepare(cluster.state)
        before = sorted(os.listdir(cluster.state))
        done = subprocess.run(cluster.dev_argv(), env=cluster.env, capture_output=True, text=True, timeout=30,
                              check=False)
        ClusterTest.assert_one_line(self, done, 5, cluster.state, *words)
        self.assertEqual([name for name in sorted(os.listdir(cluster.state)) if name != "lock"], before)

    def test_of_another_version(self):
        def prepare(folder):
            with open(folder + "/version", "w", encoding="ascii") as file:
                file.write("tide dev 0")
        self.refuse(prepare, '"tide dev 0"', '"tide dev 1"', "remove that folder", "--state")

    def test_of_something_else(self):
        self.refuse(lambda folder: os.mkdir(folder + "/scheduler"), "no folder of tide dev", "--state")

    def test_others_may_write(self):
        self.refuse(lambda folder: os.chmod(folder, 0o777), "not a folder of ours alone", "--state")

    @unittest.skipUnless(os.geteuid() == 0, "mounting a folder over another needs root")
    def test_others_may_write_where_the_token_goes(self):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        folder = "/tmp/tide-%d" % os.geteuid()
        if not os.path.exists(folder):
            os.mkdir(folder, 0o700)
            self.addCleanup(os.rmdir, folder)
        hide = 'mount -t tmpfs -o mode=777 tide-it %s && exec "$@"' % folder
        del cluster.env["TIDE_DEV_PROFILE"]
        done = subprocess.run(["unshare", "-m", "/bin/sh", "-c", hide, "sh", *cluster.dev_argv()], env=cluster.env,
                              capture_output=True, text=True, timeout=30, check=False)
        ClusterTest.assert_one_line(self, done, 5, folder, "not a folder of ours alone", "TIDE_DEV_PROFILE")


if __name__ == "__main__":
    unittest.main()
