#!/usr/bin/env python3
"""docker/compose.yaml, started: its services in containers of runc, on images made as its Dockerfiles say.

Runs itself by scripts/in-namespace: when it ends, also by kill -9, nothing of it is left.
"""

import json
import os
import shutil
import socket
import ssl
import sys
import tempfile
import unittest
import urllib.request

import dockerfile
from containers import Site

sys.path.insert(0, os.path.join(dockerfile.ROOT, "tests", "integration"))
from harness import until  # noqa: E402

# Takes the place of chown, and kills the script that runs it.
KILLED = 'mkdir /tmp/killer && printf "#!/bin/sh\\nkill -KILL \\$PPID\\n" >/tmp/killer/chown && chmod 755 /tmp/killer/chown' \
         ' && PATH=/tmp/killer:$PATH make-cluster node-1 node-2; test $? = 137'
BUILD = os.path.dirname(os.environ.get("TIDE_BIN", os.path.join(dockerfile.ROOT, "build", "release", "bin")))
RANKS = "id -u; hostname; python3 -c 'import tide; print(tide.__file__)'"


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        work = tempfile.mkdtemp(prefix="tide-docker-")
        cls.addClassCleanup(shutil.rmtree, work, ignore_errors=True)
        os.chmod(work, 0o711)
        cls.site = Site(work, BUILD)
        cls.addClassCleanup(cls.site.down)
        cls.cli = cls.site.containers["cli"]
        try:
            cls.enter()
        except AssertionError as error:
            raise AssertionError("%s%s" % (error, cls.site.said())) from None

    @classmethod
    def enter(cls):
        """Starts all of it, and signs in."""
        cls.site.up()
        token = cls.cli.run(["/var/lib/tide/admin-token"], entrypoint=["cat"]).stdout
        until(60, "the API", cls.site.containers["api"].healthy)
        done = cls.cli.run(["login"], stdin=token)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.await_nodes()

    @classmethod
    def await_nodes(cls):
        until(60, "two nodes", lambda: [node["state"] for node in cls.items("nodes")] == ["ready"] * 2)

    @classmethod
    def items(cls, *words):
        done = cls.cli.run([*words, "-o", "json"])
        return json.loads(done.stdout)["items"] if done.returncode == 0 else []

    def tide(self, *words):
        done = self.cli.run(list(words))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.site.said())
        return done.stdout

    def leader(self):
        """The scheduler that listens; None between two of them."""
        return next((name for name in ("scheduler-1", "scheduler-2") if self.listens(name)), None)

    def listens(self, name):
        with socket.socket() as probe:
            return probe.connect_ex((self.site.addresses[name], 7071)) == 0

    def test_1_a_gang_runs_as_its_owner(self):
        self.tide("run", "--name", "gang", "--nodes", "2", "--wait", "--", "sh", "-c", RANKS)
        for rank, node in (("0", "node-1"), ("1", "node-2")):
            words = self.tide("logs", "--rank", rank, "gang").split()
            self.assertTrue(200000 <= int(words[0]) <= 265535, words)
            self.assertEqual(words[2:], ["/usr/lib/python3/dist-packages/tide/__init__.py"])
            self.assertIn("Runtime: oci", self.site.containers[node].said())
            until(40, "a healthy agent", self.site.containers[node].healthy)

    def test_1b_jobs_keep_files_of_their_own_in_the_shared_folder(self):
        self.tide("run", "--name", "writer", "--workdir", "/shared", "--wait", "--", "sh", "-c", "id -u >mine")
        shared = self.site.volume(self.site.services["node-1"].volumes[2], "")
        with open(shared + "/mine", encoding="ascii") as file:
            uid = int(file.read())
        self.assertGreaterEqual(uid, 200000)
        self.assertEqual(os.stat(shared + "/mine").st_uid, uid)
        self.assertEqual(os.stat(shared).st_mode & 0o7777, 0o1777)  # nobody removes another's
        self.assertEqual(os.stat(shared + "/checkpoints").st_uid, 0)  # no user's, from the first moment on

    def test_2_the_dashboard_is_there_by_https(self):
        context = ssl.create_default_context(cafile=self.site.volume(self.cli.service.volumes[0], "") + "/ca.pem")
        with urllib.request.urlopen("https://localhost:7070/", context=context, timeout=20) as answer:
            self.assertIn("<html", answer.read().decode().lower())

    def test_3_a_standby_takes_over(self):
        self.tide("run", "--name", "long", "--nodes", "2", "--", "sh", "-c", "until [ -e /shared/over ]; do sleep 0.1; done")
        self.tide("wait", "--for", "state=running", "long")
        first = until(20, "a leader", self.leader)
        self.site.containers[first].kill()
        second = until(60, "the other to lead", lambda: (now := self.leader()) not in (None, first) and now)
        self.assertNotEqual(first, second)
        with open(self.site.volume(self.site.services["node-1"].volumes[2], "") + "/over", "wb"):
            pass
        self.tide("wait", "long")
        job = json.loads(self.tide("show", "-o", "json", "long"))
        self.assertEqual((job["outcome"], len(job["attempts"])), ("succeeded", 1), job)

    def test_4_nothing_holds_more_than_it_needs(self):
        for name in ("database", "scheduler-1", "scheduler-2", "api"):
            status = self.site.containers[name].status()
            self.assertNotIn("0", status["Uid"].split(), name)
            self.assertEqual(int(status["CapEff"], 16) | int(status["CapBnd"], 16), 0, name)
            self.assertEqual(status["NoNewPrivs"].strip(), "1")
            self.assertNotEqual(self.site.containers[name].execute("touch", "/etc/there").returncode, 0)
        self.assertEqual(self.cli.run(["/"], entrypoint=["find"]).stdout.count("ca.key"), 0)

    def test_5_again_from_what_is_there(self):
        files = ("scheduler/tls/identity.pem", "api/tls/identity.pem", "scheduler/secret-key", "home/admin-token")
        def read():
            found = {}
            for name in files:
                with open(os.path.join(self.site.work, "volumes", name), "rb") as file:
                    found[name] = file.read()
            return found
        before = read()
        self.site.down()
        self.site.up()
        self.assertEqual(read(), before)
        self.await_nodes()
        self.assertIn("gang", self.tide("ps", "--all"))
        renewed = self.site.containers["certificates"].run(["--renew", "node-1", "node-2"])
        self.assertEqual(renewed.returncode, 0, renewed.stderr)
        self.assertNotEqual(read()["api/tls/identity.pem"], before["api/tls/identity.pem"])
        self.assertIn("admin", self.tide("whoami"))

    def test_6_a_certificate_is_whole_or_not_there(self):
        tls = os.path.join(self.site.work, "volumes", "api", "tls")
        os.remove(tls + "/identity.pem")
        certificates = self.site.containers["certificates"]
        killed = certificates.run([KILLED], entrypoint=["sh", "-c"])
        self.assertEqual(killed.returncode, 0, killed.stderr)
        self.assertFalse(os.path.exists(tls + "/identity.pem"))
        done = certificates.run(["node-1", "node-2"])
        self.assertEqual(done.returncode, 0, done.stderr)
        info = os.stat(tls + "/identity.pem")
        self.assertEqual((info.st_uid, info.st_mode & 0o777), (970, 0o600))

    def test_7_a_key_is_made_only_for_a_store_to_be(self):
        key = os.path.join(self.site.work, "volumes", "scheduler", "secret-key")
        self.assertEqual(os.stat(key).st_uid, 970)
        os.rename(key, key + ".kept")
        try:
            done = self.site.containers["certificates"].run(["node-1", "node-2"])
            self.assertEqual((done.returncode, os.path.exists(key)), (1, False), done.stderr)
            self.assertIn("secret-key is gone", done.stderr)
        finally:
            os.rename(key + ".kept", key)

    def test_8_only_a_store_that_is_there_is_no_failure(self):
        store = self.site.containers["store"]
        self.assertEqual(store.run(store.service.command).returncode, 0)
        self.assertEqual(store.run(["--store=nothing:"]).returncode, 1)


def enter_namespaces():
    """Goes on in namespaces, with a network of its own."""
    missing = "not root" if os.geteuid() != 0 else "no runc" if shutil.which("runc") is None else ""
    if missing:
        print("skipped: %s" % missing)
        sys.exit(77)
    command = [dockerfile.ROOT + "/scripts/in-namespace", "unshare", "--net", "env", "TIDE_DOCKER_INSIDE=1", sys.executable, "-B",
               *sys.argv]
    os.execv(command[0], command)


if __name__ == "__main__":
    if "TIDE_DOCKER_INSIDE" not in os.environ:
        enter_namespaces()
    unittest.main(verbosity=2)
