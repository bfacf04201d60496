"""No field of a spec leads a job to what is the node's, Tide's or another's, and none makes the runtime write there."""

import os
import threading
import unittest

from attack_case import AttackCase, describe, listing

# Prints what a job has there, and leaves a mark in it.
PRY = "ls -a %(at)s 2>/dev/null | head -50; cat %(at)s/passwd %(at)s/token %(at)s 2>/dev/null | head -3; : > %(at)s/tide-was-here; exit 0"


class SpecPaths(AttackCase):
    def setUp(self):
        self.work = self.cluster.work
        os.makedirs(self.work + "/mine", exist_ok=True)
        os.chmod(self.work + "/mine", 0o777)

    def places(self):
        """(path, why nobody's job may have it)."""
        state = self.cluster.state
        agent = state + "/agent-a-n1"
        for path in ("/", "/proc", "/proc/1", "/proc/self/root", "/sys", "/sys/fs/cgroup", "/dev", "/dev/shm", "/dev/null", "/etc", "/etc/passwd",
                     "/run", "/root", "/boot", "/tmp", "/var/tmp", "/var/lib"):
            yield path
        for path in (state, state + "/token", state + "/scheduler", state + "/checkpoints", agent, agent + "/tasks", agent + "/scratch",
                     "/dev/shm/tide-0"):
            yield path
        yield self.work + "/../token"
        yield self.work + "/mine/../../scheduler"
        yield self.link("to-etc", "/etc")
        yield self.link("to-state", state)
        yield self.link("to-proc", "/proc/1/root")
        yield self.pipe("pipe")

    def link(self, name, target):
        path = os.path.join(self.work, name)
        if not os.path.islink(path):
            os.symlink(target, path)
        return path

    def pipe(self, name):
        path = os.path.join(self.work, name)
        if not os.path.exists(path):
            os.mkfifo(path, 0o666)
            os.chmod(path, 0o666)
        return path

    def host(self):
        """The node's files that no job may change. Logs, databases and what tasks leave for a while are left out."""
        state = self.cluster.state
        seen = listing("/dev", "/etc", "/boot", state + "/sdk")
        seen.update({path: None for path in os.listdir("/")})
        seen.update({path: None for path in os.listdir(state)})
        return {path: value for path, value in seen.items() if not path.startswith(("/dev/shm/", "/dev/pts/"))}

    def refuse(self, what, **spec):
        """A job of `spec` must be refused, or fail before any rank starts, in words."""
        job, why = self.attempt(**spec)
        if job is None:
            self.assertTrue(why, what)
            return
        self.assertEqual(job["outcome"], "failed", "%s: %s, %s" % (what, describe(job), self.output(job)))
        self.assertEqual(self.output(job), "", what)
        self.assertRegex(job["detail"], "may not|belongs to|cannot be used|neither a folder|cover", what)

    def test_places_of_others(self):
        before = self.host()
        for path in self.places():
            with self.subTest(path):
                self.refuse("workdir " + path, workdir=path, command=["sh", "-c", PRY % {"at": path}])
                self.refuse("checkpoint.dir " + path, checkpoint={"dir": path}, command=["sh", "-c", PRY % {"at": path}])
                for read_only in (True, False):
                    self.refuse("mount of " + path, mounts=[{"source": path, "target": "/data", "read_only": read_only}],
                                command=["sh", "-c", PRY % {"at": "/data"}])
        self.assertEqual(self.host(), before)

    def test_targets(self):
        """A mount covers nothing that its container needs, and is made in the container alone."""
        before = self.host()
        for target in ("/", "/proc", "/proc/self", "/sys", "/dev", "/dev/shm", "/dev/pts/0", "/etc", "/run", "/run/tide", "/var/run", "/usr",
                       "/opt/tide/sdk", "/x/../etc", self.cluster.state, self.cluster.state + "/agent-a-n1"):
            with self.subTest(target):
                self.refuse("mount at " + target, mounts=[{"source": self.work + "/mine", "target": target}], command=["true"])
        job, why = self.attempt(mounts=[{"source": self.work + "/mine", "target": "/a/new/place"}], command=["ls", "-d", "/a/new/place"])
        self.assertEqual((job or {}).get("outcome"), "succeeded", why or describe(job))
        self.assertEqual(self.host(), before)

    def test_a_mount_inside_a_users_folder_makes_nothing_there(self):
        before = listing(self.work)
        job, _ = self.attempt(workdir=self.work, mounts=[{"source": self.work + "/mine", "target": self.work + "/not/there"}], command=["true"])
        self.assertEqual(job["outcome"], "failed", describe(job))
        self.assertIn("must be a folder or file already", job["detail"])
        self.assertEqual(listing(self.work), before)

    def test_links_that_turn_while_the_job_starts(self):
        before = self.host()
        path = os.path.join(self.work, "turning")
        ends = threading.Event()

        def turn():
            while not ends.is_set():
                for make in (lambda: os.mkdir(path + ".new", 0o777), lambda: os.symlink("/etc", path + ".new")):
                    make()
                    os.rename(path + ".new", path + ".spare")
                    if os.path.lexists(path):
                        (os.unlink if os.path.islink(path) else os.rmdir)(path)
                    os.rename(path + ".spare", path)
        thread = threading.Thread(target=turn)
        thread.start()
        try:
            for _ in range(12):
                for spec in ({"workdir": path}, {"mounts": [{"source": path, "target": "/data"}]}):
                    at = spec.get("workdir", "/data")
                    job, why = self.attempt(command=["sh", "-c", "cat %s/passwd; : > %s/tide-was-here; rm %s/tide-was-here" % (at, at, at)], **spec)
                    self.assertIsNotNone(job, why)
                    self.assertNotIn("root:", self.output(job), spec)
        finally:
            ends.set()
            thread.join()
        self.assertEqual(self.host(), before)


if __name__ == "__main__":
    unittest.main()
