"""Two people with accounts of their own share a node: neither reads, signals or changes what is the other's."""

import ctypes
import os
import shutil
import unittest

from attack_case import describe
from site_of_daemons import Site  # noqa: E402  (attack_case adds its folder)

PEOPLE = {"ada": 31001, "bob": 31002}
NEW_MOUNTS, PRIVATE, BIND = 0x20000, 0x44000, 4096
libc = ctypes.CDLL(None, use_errno=True)

# Leaves something in each place that a job has, and stays.
ADA = """
echo "I am $(id -u) of $(id -g), home $HOME"
umask 077
echo ada-at-home >"$HOME/result"
echo ada-saved >"$TIDE_CHECKPOINT_DIR/private"
echo ada-scratch >"$TMPDIR/private"
echo ada-shared >/dev/shm/private
echo ready
sleep 1000
"""
# Looks for it everywhere, and tries to end what it finds.
BOB = """
cat %(home)s/ada/result %(home)s/ada/* %(state)s/checkpoints/*/* %(state)s/checkpoints/*
find / -xdev \\( -name private -o -name result -o -name 'page-*' -o -name agent.sock -o -name task.json -o -name 'd*.log' \\) -exec cat {} +
find /dev/shm /tmp /run %(state)s %(run)s -type f -exec cat {} +
cat /proc/*/environ /proc/*/cmdline | tr '\\0' ' '
for p in $(seq 1 40000); do kill -9 $p; done
"""


def mount(source, target, flags):
    if libc.mount(source.encode(), target.encode(), None, flags, None) != 0:
        raise OSError(ctypes.get_errno(), "cannot mount " + target)


@unittest.skipUnless(os.geteuid() == 0, "jobs run as their owners where the agent is root")
class TwoUsers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Accounts of this test alone: a namespace in which /etc/passwd is another one.
        if libc.unshare(NEW_MOUNTS) != 0:
            raise unittest.SkipTest("no mount namespace here")
        mount("none", "/", PRIVATE)
        cls.site = Site(runtime="oci", roles={**{name: "user" for name in PEOPLE}, "daemon": "user", "stranger": "user", "recorded": "user"})
        cls.addClassCleanup(cls.site.close)
        home = cls.site.base + "/home"
        os.makedirs(home)
        for kind, line in (("passwd", "{0}:x:{1}:{1}::%s/{0}:/bin/sh\n" % home), ("group", "{0}:x:{1}:\n")):
            copy = "%s/%s" % (cls.site.base, kind)
            shutil.copy("/etc/" + kind, copy)
            with open(copy, "a", encoding="ascii") as file:
                file.writelines(line.format(name, uid) for name, uid in PEOPLE.items())
            os.chmod(copy, 0o644)
            mount(copy, "/etc/" + kind, BIND)
            cls.addClassCleanup(libc.umount2, ("/etc/" + kind).encode(), 2)
        for name, uid in PEOPLE.items():
            os.makedirs("%s/%s" % (home, name))
            os.chown("%s/%s" % (home, name), uid, uid)
            os.chmod("%s/%s" % (home, name), 0o700)
        cls.home = home
        cls.site.start()
        cls.site.as_user("first-admin").request("PATCH", "/v1/users/recorded", {"uid": 31777, "gids": [31777, 31778]})

    def submit(self, user, script, **more):
        return self.site.as_user(user).submit({"version": 1, "name": "of-" + user, "command": ["sh", "-c", script],
                                               "resources": {"nodes": 1, "ranks_per_node": 1, "cpus_per_node": 1}, **more})

    def run_job(self, user, script, **more):
        job = self.submit(user, script, **more)
        return self.site.as_user(user).await_over(job, 120)

    def output(self, user, job):
        return self.site.as_user(user).logs(job)

    def test_neither_reaches_the_other(self):
        site = self.site
        ada = self.submit("ada", ADA, env={"KEY": "ada-in-env"})
        site.await_state(ada, "running")
        site.await_output("ada", ada, "ready")
        self.assertIn("I am 31001 of 31001, home %s/ada" % self.home, self.output("ada", ada))
        info = os.stat(self.home + "/ada/result")
        self.assertEqual((info.st_uid, info.st_gid), (31001, 31001))
        bob = self.run_job("bob", BOB % {"home": self.home, "state": site.state, "run": site.run_root})
        self.assertTrue(bob["attempts"], describe(bob))
        found = self.output("bob", bob["id"])
        for secret in ("at-home", "saved", "scratch", "shared", "in-env"):
            self.assertNotIn("ada-" + secret, found)
        self.assertEqual(site.job(ada)["state"], "running", "a job of another cannot end it")
        for spec in ({"workdir": self.home + "/ada"}, {"checkpoint": {"dir": self.home + "/ada/ck"}},
                     {"mounts": [{"source": self.home + "/ada", "target": "/data", "read_only": True}]},
                     {"mounts": [{"source": site.checkpoints(ada), "target": "/data"}]}):
            with self.subTest(spec):
                done = self.run_job("bob", "cat /data/* %s/ada/*" % self.home, **spec)
                self.assertEqual(done["outcome"], "failed", describe(done))
                self.assertRegex(done["detail"], "may not|belongs to|cannot be used")
        site.as_user("ada").request("POST", "/v1/jobs/%s/cancel" % ada, {"reason": "seen"})
        site.await_over(ada)
        with open(site.checkpoints(ada) + "/private", encoding="ascii") as file:
            self.assertEqual(file.read(), "ada-saved\n")

    def test_who_has_no_account_or_one_of_the_system_runs_nothing(self):
        for user, why in (("stranger", "has no account on n1"), ("daemon", "one of the system")):
            site = self.site.as_user(user)
            job = self.submit(user, "id")
            # It goes elsewhere, were there another node; no retry of its own is lost, and n1 is not blamed.
            waits = site.await_job(job, "be given back", lambda now, why=why: now["state"] == "queued" and why in (now["detail"] or ""))
            self.assertEqual(waits["failure_restarts"], 0, describe(waits))
            self.assertEqual({task["exit"]["reason"] for attempt in waits["attempts"] for task in attempt["tasks"]},
                             {"no_account"}, describe(waits))
            site.end_job(job)
        self.assertEqual((self.site.node("n1")["state"], self.site.get("/v1/faults")["items"]), ("ready", []))

    def test_a_record_names_the_account(self):
        """Where the node does not know the name, an admin's word does."""
        site = self.site.as_user("recorded")
        job = self.submit("recorded", "echo I am $(id -u) of $(id -G)")
        site.await_over(job, 120)
        self.assertIn("I am 31777 of 31777 31778", site.logs(job))


if __name__ == "__main__":
    unittest.main()
