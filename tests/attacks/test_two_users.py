"""Two people with accounts of their own share a node: neither reads, signals or changes what is the other's."""

import ctypes
import os
import shutil
import socket
import unittest

from attack_case import PYTHON, describe
from ports import own_network  # noqa: E402  (attack_case adds its folder)
from site_of_daemons import Site  # noqa: E402

PEOPLE = {"ada": 31001, "bob": 31002}
PORTS = range(16000, 16016)
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
echo ada-printed
echo ready
sleep 1000
"""
# Looks for it everywhere, and tries to end what it finds.
BOB = """
cat %(home)s/ada/result %(home)s/ada/* %(state)s/checkpoints/*/* %(state)s/checkpoints/*
find / -xdev \\( -name private -o -name result -o -name 'page-*' -o -name agent.sock -o -name task.json -o -name 'd*.log' \\) -exec cat {} +
find /dev/shm /tmp /run %(state)s %(run)s -type f -exec cat {} +
cat /proc/*/environ /proc/*/cmdline | tr '\\0' ' '
for file in /proc/[0-9]*/mem; do head -c1 $file; done
for p in $(seq 1 40000); do kill -9 $p; done
"""

# Connects to every unix socket that the node has. Abstract ones belong to the network, which is the node's.
SOCKETS = r"""
import socket
for line in open("/proc/net/unix"):
    name = line.split()[7] if len(line.split()) > 7 else ""
    if "tide" in name:
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect("\0" + name[1:] if name.startswith("@") else name)
                print("reached", name)
        except OSError:
            print("refused")
"""
# Writes what it likes into its pages, and talks to its agent without end on each connection that it gets.
FORGE = r"""
import random, signal, socket
held = []
look = socket.socket(socket.AF_UNIX)
look.connect("/run/tide/agent.sock")
for _ in range(700):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect("/run/tide/agent.sock")
        s.sendall(random.randbytes(1000) + b"\n{" * 100)
        held.append(s)
    except OSError:
        pass
print("connected", len(held), flush=True)
for text in (b"\xff" * 4096, random.randbytes(4096), b"\x7f" * 4096, b""):
    with open("/run/tide/page-0", "r+b") as file:
        file.write(text)
        file.flush()
        look.sendall(b"{}\n")  # the agent looks at the page, then answers
        assert look.recv(100)
        file.truncate(len(text))
print("forged", flush=True)
signal.pause()
"""
# Is answered by its agent.
ASK = r"""
import socket
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect("/run/tide/agent.sock")
s.sendall(b"{}\n")
print("answered", s.recv(100)[:1])
"""
# Binds what it can of the ports that the node keeps for MASTER_PORT.
BIND_ALL = r"""
import signal, socket, sys
held = []
for port in range(%d, %d):
    for family in (socket.AF_INET, socket.AF_INET6):
        s = socket.socket(family)
        try:
            s.bind(("", port))
            held.append(s)
        except OSError:
            pass
print("bound", *sorted({s.getsockname()[1] for s in held}), flush=True)
if sys.argv[1:] == ["hold"]:
    signal.pause()
""" % (PORTS[0], PORTS[-1] + 1)


def setUpModule():
    own_network()  # in which these ports are free, and nobody else's sockets are


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
        cls.site = Site(runtime="oci", roles={**{name: "user" for name in PEOPLE}, "daemon": "user", "stranger": "user", "recorded": "user"},
                        agent=["--user-scratch", "64M", "--ports", "%d-%d" % (PORTS[0], PORTS[-1])])
        cls.site.more_of_api = ["--audit-log", cls.site.state + "/audit.log"]
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

    def test_secrets_logs_and_sockets(self):
        site = self.site
        site.tide("secret", "set", "key", stdin="ada-in-secret")
        script = 'echo ada-printed; wc -c </run/secrets/key; sleep 1000'
        ada = self.submit("ada", script, secrets=["key"])
        site.await_state(ada, "running")
        site.await_output("ada", ada, "13")
        pry = "find / -xdev -path '*secrets*' -type f -exec cat {} +; grep -rs ada- /run /dev/shm /var/log %s; %s -c '%s'; exit 0"
        bob = self.run_job("bob", pry % (site.state, PYTHON, SOCKETS))
        found = self.output("bob", bob["id"])
        self.assertIn("refused", found, describe(bob))
        for what in ("reached", "ada-in-secret", "ada-printed"):
            self.assertNotIn(what, found)
        self.assertEqual(site.job(ada)["state"], "running")
        site.end_job(ada)

    def test_forged_pages_and_messages_harm_their_own_job_alone(self):
        site = self.site
        bob = self.submit("bob", "exec %s -c '%s'" % (PYTHON, FORGE))
        site.await_state(bob, "running")
        site.await_output("bob", bob, "forged")
        ada = self.run_job("ada", "exec %s -c '%s'" % (PYTHON, ASK))
        self.assertEqual(ada["outcome"], "succeeded", describe(ada))
        self.assertIn("answered b'{'", self.output("ada", ada["id"]))
        self.assertEqual((site.node("n1")["state"], site.get("/v1/faults")["items"]), ("ready", []))
        site.as_user("bob").end_job(bob)

    def test_ports_of_others_are_not_bound(self):
        site = self.site
        if "can take each other's ports" in site.said("agent"):
            self.skipTest("no BPF programs on cgroups here")
        bob = self.submit("bob", "exec %s -c '%s' hold" % (PYTHON, BIND_ALL))
        site.await_state(bob, "running")
        site.await_output("bob", bob, "\n")  # the whole line, which comes in parts
        self.assertRegex(self.output("bob", bob), r"bound 16\d\d\d\n", "its own, and no other")
        beside = site.as_user("bob").tide("exec", bob, "--", PYTHON, "-c", BIND_ALL)
        self.assertRegex(beside.stdout, r"^bound\n", beside.stderr)
        for _ in PORTS:
            ada = self.run_job("ada", "exec %s -c '%s'" % (PYTHON, BIND_ALL))
            self.assertEqual((ada["outcome"], len(ada["attempts"])), ("succeeded", 1), describe(ada))
        site.as_user("bob").end_job(bob)

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

    def test_who_fills_the_disk_is_ended_and_nobody_else(self):
        bob = self.site.as_user("bob")
        ada = self.submit("ada", "dd if=/dev/zero of=some bs=1M count=40; sleep 1000")
        deep = bob.await_over(self.submit("bob", "for i in $(seq 300); do mkdir d && cd d; done; sleep 1000"), 120)
        self.assertIn("folders in each other", describe(deep))
        full = bob.await_over(self.submit("bob", "for d in a b; do dd if=/dev/zero of=$d bs=1M count=40; done; sleep 1000"), 120)
        self.assertEqual(full["outcome"], "failed")
        self.assertRegex(describe(full), "its scratch folder holds .*all of bob's tasks on a node may hold 64.0 MiB")
        self.assertEqual(self.site.as_user("ada").job(ada)["state"], "running")
        self.site.as_user("ada").end_job(ada)

    def test_a_record_names_the_account(self):
        """Where the node does not know the name, an admin's word does."""
        site = self.site.as_user("recorded")
        job = self.submit("recorded", "echo I am $(id -u) of $(id -G)")
        site.await_over(job, 120)
        self.assertIn("I am 31777 of 31777 31778", site.logs(job))


if __name__ == "__main__":
    unittest.main()
