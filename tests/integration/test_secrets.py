"""Secrets through real daemons: do ranks have them as files and variables, and is their plain value anywhere else?"""

import base64
import glob
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import unittest
import uuid

from harness import Cluster, Refused, describe, free_port, make_store, program, until
from postgres import Postgres
from test_exec import Person

NAME = "wandb-api-key"
# Ranks say digests: what they wrote themselves would be found in their logs.
TELL = ('printf %s "$WANDB_API_KEY" | sha256sum; sha256sum <"$TIDE_SECRETS_DIR/wandb-api-key"; '
        'ls "$TIDE_SECRETS_DIR"; echo told; ')


def new_value():
    return "plain-" + uuid.uuid4().hex


def digest(value):
    return hashlib.sha256(value.encode()).hexdigest()


def files_with(value, folder):
    """Files below the folder that hold the value: as it is, in hex, or in base64 at any offset."""
    raw = value.encode()
    forms = [raw, raw.hex().encode()] + [base64.b64encode(raw[skip:])[:24] for skip in range(3)]
    found = []
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    content = file.read()
                if any(form in content for form in forms):
                    found.append(path)
    return sorted(found)


class Fixture:
    """For both runtimes; `runtime` comes from the class."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(runtime=cls.runtime, nodes=2, schedulers=2)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()
        cls.run_root = "/dev/shm/tide-%d-%s" % (os.geteuid(), digest(cls.cluster.state)[:8])
        cls.cluster.patiently("POST", "/v1/users", {"name": "bob"})
        cls.other = cls.cluster.patiently("POST", "/v1/tokens", {"user": "bob"})["token"]

    def setUp(self):
        self.value = new_value()
        self.set(self.value)

    def tide(self, *args, code=0, **more):
        done = self.cluster.tide(*args, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn(self.value, done.stdout + done.stderr)
        return done

    def set(self, value, name=NAME):
        done = self.cluster.tide("secret", "set", name, stdin=value + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)

    def submit(self, script, **more):
        self.go = "go-" + uuid.uuid4().hex
        wait = "while [ ! -e %s/%s ]; do sleep 0.05; done; " % (self.cluster.work, self.go)
        spec = self.cluster.spec("secretive", ["/bin/sh", "-c", TELL + wait + script], secrets=[NAME], **more)
        job = self.cluster.submit(spec)
        self.addCleanup(self.end, job)
        return job

    def let_go(self):
        with open(os.path.join(self.cluster.work, self.go), "w", encoding="ascii"):
            pass

    def end(self, job):
        self.let_go()
        self.cluster.end_job(job)

    def await_told(self, job, value, attempt=None):
        until(30, "the output of " + job, lambda: "told" in self.cluster.logs(job, attempt=attempt))
        lines = self.cluster.logs(job, attempt=attempt).splitlines()
        self.assertEqual(lines, [digest(value) + "  -", digest(value) + "  -", "tide-job-token", NAME, "told"])

    def secret_files(self, name=NAME):
        """Of the user's secret; "*": those of jobs' own tokens, too."""
        return sorted(glob.glob(self.run_root + "/*/secrets/*/" + name))


class SecretsTest(Fixture):
    def test_a_rank_has_it_and_nothing_else_does(self):
        cluster = self.cluster
        job = self.submit("true", nodes=2, placement={"zone": "cross-ok"})
        cluster.await_state(job, "running")
        self.await_told(job, self.value)
        self.assertEqual(files_with(self.value, cluster.base), [])
        files = self.secret_files()
        self.assertEqual(len(files), 2)  # one on each node
        self.assertEqual(files_with(self.value, self.run_root), files)
        for path in files:
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o400)
        for args in (("show", job), ("-o", "json", "show", job), ("secret", "list"), ("-o", "json", "secret", "list"),
                     ("why", job), ("-o", "json", "ps")):
            self.tide(*args)
        self.assertEqual(json.loads(self.tide("-o", "json", "show", job).stdout)["spec"]["secrets"], [NAME])
        inside = self.tide("exec", job, "--", "sh", "-c", "sha256sum <$TIDE_SECRETS_DIR/" + NAME)
        self.assertEqual(inside.stdout, digest(self.value) + "  -\n")
        self.let_go()
        self.assertEqual(cluster.await_over(job)["outcome"], "succeeded")
        until(20, "the files to go", lambda: not self.secret_files("*"))
        self.assertEqual(files_with(self.value, self.run_root), [])
        self.assertEqual(files_with(self.value, cluster.base), [])
        backup = os.path.join(cluster.base, "backup-" + self.go)
        self.tide("admin", "backup", backup, "--store", "sqlite:%s/scheduler/tide.db" % cluster.state)
        with open(backup, encoding="utf-8") as file:
            self.assertIn(NAME, file.read())
        self.assertEqual(files_with(self.value, cluster.base), [])

    def test_typed_without_being_shown(self):
        person = Person(self.cluster, "secret", "set", "typed")
        self.addCleanup(person.close)
        person.sees("Value of typed (not shown): ")
        person.types("hunter2 typed\n")
        said = person.sees("typed is kept (13 bytes)")
        self.assertNotIn("hunter2", said)
        self.assertEqual(person.wait(), 0)
        self.assertTrue(person.has_terminal_back())
        gives_up = Person(self.cluster, "secret", "set", "typed")
        self.addCleanup(gives_up.close)
        gives_up.sees("not shown): ")
        gives_up.types("half\x03")
        self.assertNotEqual(gives_up.wait(), 0)
        self.assertTrue(gives_up.has_terminal_back())
        self.tide("secret", "remove", "typed")

    def test_it_is_nobody_elses(self):
        spec = self.cluster.spec("thief", ["true"], secrets=[NAME])
        with self.assertRaises(Refused) as refused:
            self.cluster.request("POST", "/v1/jobs", spec, [("Authorization", "Bearer " + self.other)])
        self.assertEqual(refused.exception.status, 422)
        self.assertIn("bob has no secret wandb-api-key", refused.exception.problem["detail"])
        listed = self.cluster.request("GET", "/v1/secrets", headers=[("Authorization", "Bearer " + self.other)])
        self.assertEqual(listed["items"], [])
        with self.assertRaises(Refused) as refused:
            self.cluster.request("DELETE", "/v1/secrets/" + NAME, headers=[("Authorization", "Bearer " + self.other)])
        self.assertEqual(refused.exception.status, 404)

    def test_what_is_not_there_is_said_at_once(self):
        done = self.tide("run", "--secret", "no-such", "--", "true", code=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("has no secret no-such; set it with `tide secret set no-such`", done.stderr)

    def test_removed_before_the_start(self):
        first = self.cluster.submit(self.cluster.spec("first", ["sleep", "1000"]))
        self.addCleanup(self.end_any, first)
        job = self.submit("true", after=[{"job": first, "on": "any"}], retry={"failure": 0})
        self.tide("secret", "remove", NAME)
        self.cluster.patiently("POST", "/v1/jobs/%s/cancel" % first, {"reason": "test"})
        over = self.cluster.await_over(job)
        self.assertEqual(over["outcome"], "failed", describe(over))
        self.assertIn("has no secret wandb-api-key; set it with", over["detail"])
        self.assertEqual(len(over["attempts"]), 1)
        self.assertEqual({node["state"] for node in self.cluster.get("/v1/nodes")["items"]} - {"ready", "probation"}, set())

    def end_any(self, job):
        self.cluster.end_job(job)

    def test_a_change_holds_for_the_next_attempt(self):
        job = self.submit("test $TIDE_ATTEMPT = 2", retry={"failure": 1, "backoff": "1s"})
        self.cluster.await_state(job, "running")
        self.await_told(job, self.value)
        changed = new_value()
        self.set(changed)
        self.assertEqual(self.cluster.tide("secret", "list", "-o", "name").stdout, NAME + "\n")
        self.let_go()
        over = self.cluster.await_over(job)
        self.assertEqual(over["outcome"], "succeeded", describe(over))
        self.await_told(job, changed, attempt=2)
        self.assertEqual(files_with(changed, self.cluster.base), [])

    def test_daemons_that_die(self):
        cluster = self.cluster
        job = self.submit("true", nodes=2, placement={"zone": "cross-ok"})
        cluster.await_state(job, "running")
        self.await_told(job, self.value)
        leader = until(20, "a leader", cluster.leader)
        leader_pid = leader.pid
        os.kill(leader_pid, 9)
        until(30, "the next leader", lambda: (now := cluster.leader()) and now.pid != leader_pid)
        for node in cluster.patiently("GET", "/v1/nodes")["items"]:
            cluster.kill_daemon("agent " + node["name"])
        cluster.await_nodes()
        self.assertEqual(len(self.secret_files()), 2)
        self.let_go()
        self.assertEqual(cluster.await_over(job)["outcome"], "succeeded")
        until(20, "the files to go", lambda: not self.secret_files("*"))
        again = self.submit("true")
        cluster.await_state(again, "running")
        self.await_told(again, self.value)
        self.assertEqual(files_with(self.value, cluster.base), [])


class SecretsTestProcesses(SecretsTest, unittest.TestCase):
    runtime = "process"


@unittest.skipIf(os.geteuid() != 0 or not shutil.which("runc", path="/usr/sbin:/usr/bin"), "containers need root and runc")
class SecretsTestContainers(SecretsTest, unittest.TestCase):
    runtime = "oci"


class SecretsInPostgres(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.postgres = Postgres()
        cls.addClassCleanup(cls.postgres.close)

    def setUp(self):
        self.postgres.sql("DROP DATABASE IF EXISTS tide")
        self.postgres.sql("CREATE DATABASE tide")
        self.folder = tempfile.mkdtemp(prefix="tide-it-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.children = []
        self.addCleanup(self.stop)
        self.token = "tide_1_" + secrets.token_hex(32)
        self.write("token", self.token)
        self.write("key", uuid.uuid4().hex)
        make_store(self.postgres.address("tide"), "--admin", "ann", "--admin-token-file", self.folder + "/token")

    def write(self, name, text):
        with open(self.folder + "/" + name, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)

    def start(self, *flags):
        port = free_port()
        socket = "unix:%s/s.sock" % self.folder
        for name, argv in (("scheduler", ["--listen", socket, "--store", self.postgres.address("tide"), *flags]),
                           ("api", ["--scheduler", socket, "--listen", "127.0.0.1:%d" % port])):
            with open("%s/%s.log" % (self.folder, name), "ab") as log:
                self.children.append(subprocess.Popen([program("tide-" + name), *argv], stdout=log, stderr=log,
                                                      stdin=subprocess.DEVNULL))
        self.env = {"TIDE_SERVER": "http://127.0.0.1:%d" % port, "TIDE_TOKEN": self.token, "HOME": self.folder,
                    "PATH": "/usr/bin:/bin"}
        until(30, "the cluster to answer", lambda: self.tide("secret", "list").returncode == 0)

    def stop(self):
        for child in self.children:
            child.terminate()
            child.wait(30)
        self.children = []

    def tide(self, *args, stdin=None):
        return subprocess.run([program("tide"), *args], capture_output=True, text=True, input=stdin, timeout=60,
                              env=self.env, check=False)

    def test_sealed_in_the_database(self):
        value = new_value()
        self.start("--secret-key-file", self.folder + "/key")
        done = self.tide("secret", "set", NAME, stdin=value)
        self.assertEqual(done.returncode, 0, done.stderr)
        dump = subprocess.run([self.postgres.programs + "/pg_dump", "-h", self.postgres.folder, "-U", "tide", "tide"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn(NAME, dump)
        self.write("dump", dump)
        self.assertEqual(files_with(value, self.folder), [])
        self.assertEqual(files_with(value, self.postgres.folder), [])
        self.stop()

        self.start()  # by an operator who forgot the key
        done = self.tide("secret", "set", NAME, stdin=value)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("--secret-key-file", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        self.assertEqual(self.tide("secret", "list", "-o", "name").stdout, NAME + "\n")
        done = self.tide("run", "--secret", NAME, "--", "true")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("--secret-key-file", done.stderr)
        self.stop()

        self.write("key", uuid.uuid4().hex)
        self.start("--secret-key-file", self.folder + "/key")  # another key
        done = self.tide("run", "--secret", NAME, "--", "true")
        self.assertIn("does not open", done.stderr)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.tide("secret", "set", NAME, stdin=value).returncode, 0)
        self.assertEqual(self.tide("secret", "remove", NAME).returncode, 0)
        self.assertEqual(self.tide("secret", "list", "-o", "name").stdout, "")

    def test_a_key_that_others_may_read_is_refused(self):
        os.chmod(self.folder + "/key", 0o644)
        done = subprocess.run([program("tide-scheduler"), "--listen", "unix:%s/s.sock" % self.folder, "--store",
                               self.postgres.address("tide"), "--secret-key-file", self.folder + "/key"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("chmod 600 " + self.folder + "/key", done.stderr)


if __name__ == "__main__":
    unittest.main()
