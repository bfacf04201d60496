#!/usr/bin/env python3
"""Is nothing left of a test run 5 s after kill -9, at a random moment? And does scripts/in-namespace pass on what it must?

The test looks at a machine of its own (it runs itself by scripts/in-namespace), where nobody else comes and goes.
TIDE_TEST_KILLS=20   how many kills
TIDE_TEST_WHOLE=1    looks at the whole machine instead, its loop devices too; nothing else may run there
TIDE_SEED=496864     one run again; the seed is printed
TIDE_BUILD=…         the build whose tests run, else build/release
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from machine import count_below, look, until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TIDE_BUILD", os.path.join(ROOT, "build", "release"))
IN_NAMESPACE = os.path.join(ROOT, "scripts", "in-namespace")
KILLS = int(os.environ.get("TIDE_TEST_KILLS", "2"))
WHOLE = os.environ.get("TIDE_TEST_WHOLE") == "1"
# Containers, overlays, FUSE mounts, PostgreSQL as another user, loop devices, daemons that are killed themselves.
NASTY = ("integration_(flow|leftovers|hanging|images|short_containers|kills_agents)$|^agent_|^store_test$|^sdk_native_on_")
SPAN = 25.0
GONE_AFTER = 5.0
# Again and again, so that it runs whenever the kill comes; a folder of its own for what ctest writes.
RUN = ('mkdir /tmp/ctest && echo "subdirs(\\"$0\\")" >/tmp/ctest/CTestTestfile.cmake && '
       'exec ctest --test-dir /tmp/ctest -j6 --schedule-random --repeat until-fail:1000 -R "$1"')


def namespaced(*command, script=IN_NAMESPACE, **options):
    return subprocess.Popen([script, *command], stdin=subprocess.DEVNULL, **options)


@unittest.skipIf(os.geteuid() != 0, "needs root")
class Killed(unittest.TestCase):
    def setUp(self):
        self.before = look(WHOLE)

    def left(self):
        return sorted(look(WHOLE) - self.before)

    def assert_nothing_left(self):
        """Waits for the time that is promised. Returns the seconds until nothing was left."""
        begin = time.monotonic()
        left = []

        def clean():
            left[:] = self.left()
            return not left
        try:
            until(GONE_AFTER, "everything to go", clean)
        except AssertionError:
            self.fail("left after %g s:\n%s" % (GONE_AFTER, "\n".join(left)))
        return time.monotonic() - begin

    def test_nothing_is_left_of_tests_after_kill_9(self):
        seed = int(os.environ.get("TIDE_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
        print("seed %d" % seed, file=sys.stderr)
        draw = random.Random(seed)
        for number in range(1, KILLS + 1):
            # Some early, in the making of the namespace itself.
            moment = draw.uniform(0, 0.5) if draw.random() < 0.15 else draw.uniform(0.5, SPAN)
            run = namespaced("sh", "-c", RUN, BUILD, NASTY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                time.sleep(moment)  # tidy: poll; the time is the input
                self.assertIsNone(run.poll(), "it ended before it was killed")
                below, things = count_below(run.pid), len(self.left())
            finally:
                run.kill()
                run.wait(10)
            seconds = self.assert_nothing_left()
            print("kill %d after %.2f s, of %d processes (%d things to see): nothing left after %.2f s" % (
                number, moment, below, things, seconds), file=sys.stderr)

    def test_nothing_is_left_of_a_detached_process_or_a_frozen_group(self):
        script = ("setsid sh -c 'trap : TERM INT HUP; echo $$ >/tmp/away; sleep 1000' & "
                  "until [ -s /tmp/away ]; do sleep 0.01; done; "  # tidy: poll
                  "f=/sys/fs/cgroup/freezer; if [ -e $f/cgroup.procs ]; then mkdir -p $f/tide/x; "
                  "cat /tmp/away >$f/tide/x/cgroup.procs; echo FROZEN >$f/tide/x/freezer.state; fi; echo ready; sleep 1000")
        run = namespaced("sh", "-c", script, stdout=subprocess.PIPE)
        self.addCleanup(run.stdout.close)
        self.assertEqual(run.stdout.readline(), b"ready\n")
        run.kill()
        run.wait(10)
        self.assert_nothing_left()

    def test_exit_codes_are_passed_on(self):
        for script, code in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("(sleep 0 &) ; exit 3", 3)):
            self.assertEqual(namespaced("sh", "-c", script).wait(60), code, script)
            self.assertEqual(self.left(), [], script)

    def test_a_command_that_is_not_there_is_one_line(self):
        run = namespaced("no-such-command", stderr=subprocess.PIPE)
        self.assertEqual(run.communicate(timeout=60)[1], b"in-namespace: no-such-command: No such file or directory\n")
        self.assertEqual(run.returncode, 127)

    def test_ctrl_c_and_sigterm_end_all_of_it(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            run = namespaced("sh", "-c", "trap : INT TERM; echo ready; sleep 1000; sleep 1000", stdout=subprocess.PIPE,
                             start_new_session=True)
            self.addCleanup(run.stdout.close)
            self.assertEqual(run.stdout.readline(), b"ready\n")
            os.killpg(run.pid, number)  # as a terminal does
            self.assertEqual(run.wait(60), 128 + number)
            self.assertEqual(self.left(), [])

    def test_a_checkout_below_tmp_stays_there(self):
        for parent in ("/tmp", "/var/tmp"):
            with tempfile.TemporaryDirectory(dir=parent) as folder:
                os.makedirs(folder + "/deep/checkout")
                scripts = folder + "/deep/checkout/scripts"
                shutil.copytree(os.path.join(ROOT, "scripts"), scripts)
                script = "pwd && test -x scripts/in-namespace && touch made && ! test -e %s/other" % folder
                with open(folder + "/other", "wb"):
                    pass
                run = namespaced("sh", "-c", script, script=scripts + "/in-namespace", stdout=subprocess.PIPE,
                                 cwd=folder + "/deep/checkout")
                self.assertEqual(run.communicate(timeout=60)[0].decode().strip(), folder + "/deep/checkout")
                self.assertEqual(run.returncode, 0)
                self.assertTrue(os.path.exists(folder + "/deep/checkout/made"))

    def test_without_root_the_command_runs_all_the_same(self):
        drop = "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            shutil.copytree(os.path.join(ROOT, "scripts"), folder + "/scripts")
            run = subprocess.run(["/usr/bin/python3", "-c", drop, folder + "/scripts/in-namespace", "sh", "-c", "exit 5"],
                                 cwd=folder, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 5, run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertIn("not root", run.stderr)


if __name__ == "__main__":
    if not WHOLE and os.environ.get("TIDE_TEST_INSIDE") != "1" and os.geteuid() == 0:
        os.environ["TIDE_TEST_INSIDE"] = "1"
        os.execv(IN_NAMESPACE, [IN_NAMESPACE, sys.executable, "-B", *sys.argv])
    unittest.main(verbosity=2)
