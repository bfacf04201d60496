"""Each mistake: one line that names the thing, the place and the way out; an exit code of the table; nothing
half-submitted. Exit codes: common/base/exit_codes.h."""

import contextlib
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import unittest

from harness import Cluster, ClusterTest, Down, Refused, free_port, make_store, program, until

USAGE, NOT_FOUND, NOT_ALLOWED, CONFLICT, UNREACHABLE, NEVER_FITS = 2, 3, 4, 5, 6, 7
STORE, COMMIT_FAILED, NEWER, IN_USE, CORRUPT, STORE_THERE = 70, 71, 74, 75, 77, 78
GOOD = """version: 1
name: good
command: ["true"]
"""


class Submitting(ClusterTest):
    def setUp(self):
        self.before = self.jobs()

    def tearDown(self):
        self.assertEqual(self.jobs(), self.before, "something was submitted all the same")

    def jobs(self):
        return [job["id"] for job in self.cluster.get("/v1/jobs?all=true")["items"]]

    def refused(self, text, code, *words, name="job.yaml"):
        path = os.path.join(self.cluster.base, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.assert_one_line(self.cluster.tide("submit", name), code, *words)

    def test_unknown_key(self):
        self.refused(GOOD + "resurces: {nodes: 2}\n", USAGE, "job.yaml:4:1", "resurces", "did you mean `resources`?")

    def test_unknown_key_inside(self):
        self.refused(GOOD + "resources:\n  nods: 2\n", USAGE, "job.yaml:5:3", "nods", "`nodes`")

    def test_wrong_type(self):
        self.refused(GOOD + "resources: {nodes: two}\n", USAGE, "job.yaml:4:20", "resources.nodes",
                     "whole number", "two")

    def test_wrong_type_of_a_list(self):
        self.refused(GOOD.replace('["true"]', "7"), USAGE, "job.yaml:3:10", "command")

    def test_missing_key(self):
        self.refused("version: 1\ncommand: [\"true\"]\n", USAGE, "job.yaml", "name")

    def test_another_version_of_the_spec(self):
        self.refused(GOOD.replace("version: 1", "version: 2"), USAGE, "job.yaml:1:", "version", "1")

    def test_not_yaml(self):
        self.refused("version: [1\nname: x\n", USAGE, "job.yaml:")

    def test_empty_file(self):
        self.refused("", USAGE, "job.yaml")

    def test_bad_priority(self):
        self.refused(GOOD + "priority: urgent\n", USAGE, "job.yaml:4:11", "urgent", "high")

    def test_never_fits_the_cluster(self):
        self.refused(GOOD + "resources: {nodes: 20}\n", NEVER_FITS, "nodes", "20", "at most 2")

    def test_never_fits_gpus(self):
        self.refused(GOOD + "resources: {gpus_per_node: 64}\n", NEVER_FITS, "64", "GPUs")

    def test_no_such_group(self):
        self.refused(GOOD + "resources: {group: h900}\n", NEVER_FITS, "h900", "default")

    def test_no_such_zone(self):
        self.refused(GOOD + "placement: {zone: Q}\n", NEVER_FITS, "Q")

    def test_missing_script(self):
        done = self.cluster.tide("run", "--", "python3", "nowhere.py")
        self.assert_one_line(done, USAGE, "nowhere.py", self.cluster.base, "nothing was submitted", "--workdir")

    def test_missing_spec_file(self):
        self.assert_one_line(self.cluster.tide("submit", "nowhere.yaml"), NOT_FOUND, "nowhere.yaml")

    def test_no_command(self):
        self.assert_one_line(self.cluster.tide("run", "-n", "2"), USAGE, "after `--`")

    def test_unknown_job_and_node(self):
        self.assert_one_line(self.cluster.tide("show", "j-77"), NOT_FOUND, "j-77")
        self.assert_one_line(self.cluster.tide("logs", "-f", "j-77"), NOT_FOUND, "j-77")
        self.assert_one_line(self.cluster.tide("drain", "q-n9", "--reason", "x"), NOT_FOUND, "q-n9")

    def test_unreachable_server(self):
        address = "http://127.0.0.1:%d" % free_port()
        done = self.cluster.tide("--server", address, "submit", "-", stdin=GOOD)
        self.assert_one_line(done, UNREACHABLE, address, "--server", "tide dev", "TIDE_SERVER")

    def test_own_failure_is_125_where_the_jobs_code_is_returned(self):
        address = "http://127.0.0.1:%d" % free_port()
        done = self.cluster.tide("--server", address, "submit", "--wait", "-", stdin=GOOD)
        self.assert_one_line(done, 125, address)

    def test_wrong_token(self):
        done = self.cluster.tide("submit", "-", stdin=GOOD, env={"TIDE_TOKEN": "tide_wrong"})
        self.assert_one_line(done, NOT_ALLOWED, "token")

    def test_over_http(self):
        """The server checks again what the CLI has checked: other clients do not."""
        for spec, status, pointer in (
                ({"version": 1, "name": "x", "command": ["true"], "resurces": {}}, 422, "/resurces"),
                ({"version": 1, "name": "x", "command": ["true"], "resources": {"nodes": "two"}}, 422,
                 "/resources/nodes"),
                ({"version": 1, "name": "x", "command": "true"}, 422, "/command")):
            with self.assertRaises(Refused) as caught:
                self.cluster.request("POST", "/v1/jobs", spec)
            self.assertEqual(caught.exception.status, status, caught.exception.problem)
            self.assertEqual([e["pointer"] for e in caught.exception.problem["errors"]], [pointer])
        with self.assertRaises(Refused) as caught:
            self.cluster.request("POST", "/v1/jobs", {"version": 1, "name": "x", "command": ["true"],
                                                      "resources": {"nodes": 20}})
        self.assertEqual(caught.exception.problem["code"], "never_fits")


class Daemons(unittest.TestCase):
    """The programs alone, without a cluster."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tide-it-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_it(self, *argv, **more):
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, **more)

    def refuses(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("tide-")]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def scheduler(self, store, *options, **more):
        return self.run_it(program("tide-scheduler"), "--listen", "unix:%s/s.sock" % self.folder,
                           "--store", store, *options, **more)

    def new_store(self, store, *options):
        return self.run_it(program("tide-scheduler"), "--init", "--store", store, *options)

    def agent(self, *options, before=()):
        return self.run_it(*before, program("tide-agent"), "--scheduler", "unix:%s/s.sock" % self.folder,
                           "--name", "n1", "--state", self.folder + "/agent", "--listen",
                           "unix:%s/a.sock" % self.folder, "--kmsg", "", *options)

    def api(self, *options):
        return self.run_it(program("tide-api"), "--scheduler", "unix:%s/s.sock" % self.folder, *options)

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = self.api("--listen", "127.0.0.1:%d" % port)
            self.refuses(done, UNREACHABLE, str(port), "in use", "--listen")
            with open(self.folder + "/secret", "w", encoding="ascii") as file:
                file.write("x" * 64)
            os.chmod(self.folder + "/secret", 0o600)
            make_store("sqlite:%s/tide.db" % self.folder)
            done = self.run_it(program("tide-scheduler"), "--listen", "127.0.0.1:%d" % port, "--store",
                               "sqlite:%s/tide.db" % self.folder, "--insecure-plaintext", "--cluster-token-file",
                               self.folder + "/secret")
            self.refuses(done, UNREACHABLE, str(port), "in use", "--listen")

    def test_store_is_no_database(self):
        path = self.folder + "/tide.db"
        with open(path, "wb") as file:
            file.write(b"this is a letter, not a database\n" * 500)
        self.refuses(self.scheduler("sqlite:" + path), CORRUPT, path, "not a database", "move it away")

    def test_store_of_another_program(self):
        path = self.folder + "/tide.db"
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE songs (title)")
            db.commit()
        self.refuses(self.scheduler("sqlite:" + path), IN_USE, path, "another program", "configure another path")

    def test_store_of_a_newer_version(self):
        path = self.folder + "/tide.db"
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA application_id = %d" % 0x54696465)
            db.execute("PRAGMA user_version = 999")
            db.commit()
        self.refuses(self.scheduler("sqlite:" + path), NEWER, path, "newer Tide", "999")

    def test_store_address(self):
        self.refuses(self.scheduler("/var/tide.db"), USAGE, "/var/tide.db", "sqlite:/path/to/tide.db")

    def test_cluster_file(self):
        store, path = self.folder + "/tide.db", self.folder + "/cluster.yaml"
        with open(path, "w", encoding="ascii") as file:
            file.write("version: 1\nname: c\ngroups: {a100: {gpus_per_node: 8}}\nzones:\n"
                       "  - {name: A, leaves: [{name: l1, group: a10, nodes: n1}]}\nfabrik: {}\n")
        done = self.scheduler("sqlite:" + store, "--cluster", path)
        self.refuses(done, USAGE, "cluster file")
        self.assertIn("\n%s:5:42: " % path, done.stderr)
        self.assertIn("did you mean `a100`?", done.stderr)
        self.assertIn("\n%s:6:1: " % path, done.stderr)
        self.assertFalse(os.path.exists(store))
        self.refuses(self.scheduler("sqlite:" + store, "--admit", "listed"), USAGE, "--cluster")

    def test_policy_file(self):
        store, path = self.folder + "/tide.db", self.folder + "/policy.yaml"
        with open(path, "w", encoding="ascii") as file:
            file.write("version: 1\nprojects: {llm: {}}\nquotas:\n  - {project: lm, nodes: 4}\nsharin: {}\n")
        done = self.scheduler("sqlite:" + store, "--policy", path)
        self.refuses(done, USAGE, "policy file")
        self.assertIn("\n%s:4:15: " % path, done.stderr)
        self.assertIn("did you mean `llm`?", done.stderr)
        self.assertIn("\n%s:5:1: " % path, done.stderr)
        self.refuses(self.scheduler("sqlite:" + store, "--policy", path + ".no"), USAGE, path + ".no")
        self.assertFalse(os.path.exists(store))

    def test_store_folder_is_missing(self):
        path = self.folder + "/nowhere/tide.db"
        self.refuses(self.new_store("sqlite:" + path), STORE, path, "folder")
        self.refuses(self.scheduler("sqlite:" + path), STORE, path, "no such file")

    def test_store_is_missing(self):
        path = self.folder + "/tide.bd"
        for more in ((), ("--standby",)):
            self.refuses(self.scheduler("sqlite:" + path, *more), STORE, path, "no such file", "correct --store", "--init")
            self.assertEqual(os.listdir(self.folder), [])
        with open(path, "wb"):
            pass
        for more in ((), ("--standby",)):
            self.refuses(self.scheduler("sqlite:" + path, *more), STORE, path, "is empty", "correct --store", "--init")
            self.assertEqual(os.path.getsize(path), 0)
            self.assertEqual(os.listdir(self.folder), ["tide.bd"])

    def test_store_is_there(self):
        store = "sqlite:%s/tide.db" % self.folder
        token = self.folder + "/admin-token"
        self.assertEqual(self.new_store(store, "--admin-token-file", token).returncode, 0)
        with contextlib.closing(sqlite3.connect(self.folder + "/tide.db")) as db:
            made = db.execute("SELECT id FROM cluster").fetchall(), db.execute("SELECT name, role FROM users").fetchall()
            self.refuses(self.new_store(store), STORE_THERE, self.folder, "holds a store already", "without --init")
            self.assertEqual(made[0], db.execute("SELECT id FROM cluster").fetchall())
            self.assertEqual(made[1], [("admin", "admin")])
        self.assertEqual(os.stat(token).st_mode & 0o777, 0o600)
        done = self.new_store(store, "--standby")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--standby", done.stderr)

    def test_disk_is_full_at_start(self):
        for kib in (16, 64):  # not even the file's index fits; the first tables do not
            with full_disk(self.folder, kib) as disk:
                self.refuses(self.new_store("sqlite:%s/tide.db" % disk), STORE, disk + "/tide.db", "space")
                self.refuses(self.scheduler("sqlite:%s/tide.db" % disk), STORE, disk + "/tide.db")

    def test_no_runtime(self):
        """runc and crun hidden in a mount namespace of the agent's own."""
        if os.geteuid() != 0:
            self.refuses(self.agent("--runtime", "oci"), USAGE, "containers are not possible", "root")
            return
        hide = "".join("[ ! -e %s/%s ] || mount --bind /dev/null %s/%s; " % (folder, name, folder, name)
                       for folder in ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
                       for name in ("runc", "crun"))
        before = ("unshare", "-m", "/bin/sh", "-c", hide + 'exec "$@"', "sh")
        self.refuses(self.agent("--runtime", "oci", before=before), USAGE, "containers are not possible",
                     "neither runc nor crun is installed", "install runc")
        for name in ("runc", "crun"):
            self.refuses(self.agent("--runtime", name, before=before), USAGE,
                         "--runtime %s: it is not installed; install it, or choose --runtime oci" % name)

    def test_agent_flags(self):
        self.refuses(self.agent("--ports", "many"), USAGE, "--ports many", "LOW-HIGH")
        self.refuses(self.agent("--env", "NOVALUE"), USAGE, "--env NOVALUE", "KEY=VALUE")

    def test_scheduler_flags(self):
        store = "sqlite:%s/tide.db" % self.folder
        for flag, value in (("--isolation-timeout-ms", "0"), ("--isolation-timeout-ms", "-5"), ("--heartbeat-ms", "0")):
            done = self.run_it(program("tide-scheduler"), "--listen", "unix:%s/s.sock" % self.folder, "--store", store,
                               flag, value)
            self.refuses(done, USAGE, "%s %s" % (flag, value), "milliseconds from")
        for value in ("5", "9999", "600001", "-1"):
            done = self.run_it(program("tide-scheduler"), "--listen", "unix:%s/s.sock" % self.folder, "--store", store,
                               "--witness-timeout-ms", value)
            self.refuses(done, USAGE, "--witness-timeout-ms " + value, "10000 (10 heartbeats) to 600000")
        self.assertFalse(os.path.exists(self.folder + "/tide.db"))

    def test_tcp_without_certificates(self):
        listen = [program("tide-scheduler"), "--listen", "127.0.0.1:0", "--store", "sqlite:%s/tide.db" % self.folder]
        self.refuses(self.run_it(*listen), USAGE, "127.0.0.1:0", "--tls", "tide admin ca")
        self.refuses(self.run_it(*listen, "--insecure-plaintext"), USAGE, "--cluster-token-file")
        self.refuses(self.run_it(*listen, "--tls", self.folder + "/none"), USAGE, self.folder + "/none/identity.pem")
        agent = [program("tide-agent"), "--name", "n1", "--state", self.folder + "/agent", "--scheduler", "127.0.0.1:1"]
        self.refuses(self.run_it(*agent, "--listen", "unix:%s/a.sock" % self.folder), USAGE, "127.0.0.1:1", "--tls")
        api = [program("tide-api"), "--scheduler", "127.0.0.1:1", "--listen", "127.0.0.1:0"]
        self.refuses(self.run_it(*api), USAGE, "127.0.0.1:1", "--tls")
        self.assertFalse(os.path.exists(self.folder + "/tide.db"))

    def test_token_file_others_can_read(self):
        token = self.folder + "/admin-token"
        with open(token, "w", encoding="ascii") as file:
            file.write("tide_1_" + "0" * 64)
        os.chmod(token, 0o644)
        store = "sqlite:%s/tide.db" % self.folder
        self.refuses(self.new_store(store, "--admin-token-file", token), USAGE, token, "chmod 600")
        self.assertFalse(os.path.exists(self.folder + "/tide.db"))
        with open(token, "w", encoding="ascii") as file:
            file.write("hunter2")
        os.chmod(token, 0o600)
        self.refuses(self.new_store(store, "--admin-token-file", token), USAGE, "token", "tide_1_")
        self.assertFalse(os.path.exists(self.folder + "/tide.db"))
        make_store(store)  # of nobody yet: the first start with the flag makes the admin
        self.refuses(self.scheduler(store, "--admin-token-file", token), USAGE, "token", "tide_1_")


@unittest.skipUnless(os.geteuid() == 0, "mounting a small disk needs root")
class FullDisk(unittest.TestCase):
    def test_while_serving(self):
        """The scheduler ends with 71, `tide dev` says why; once there is space, what was acknowledged is there."""
        cluster = Cluster()
        self.addCleanup(cluster.close)
        os.makedirs(cluster.state + "/scheduler", 0o711)
        with open(cluster.state + "/version", "w", encoding="ascii") as file:
            file.write("tide dev 1")
        with full_disk(cluster.state + "/scheduler", kib=1024, here=True) as disk:
            cluster.start()
            self.addCleanup(lambda: cluster.dev and cluster.interrupt())
            known = cluster.submit(cluster.spec("first", ["true"]))
            with open(disk + "/ballast", "wb", buffering=0) as ballast:
                with contextlib.suppress(OSError):
                    while True:
                        ballast.write(b"x" * 4096)
                spec = cluster.spec("second", ["true"], env={"BIG": "x" * 60000})

                def ended():
                    with contextlib.suppress(Down):
                        cluster.request("POST", "/v1/jobs", spec)
                    return cluster.dev.poll()
                self.assertEqual(until(30, "tide dev to give up", ended), 1)
                said = cluster.output().splitlines()
                self.assertTrue([line for line in said if "scheduler exited with code %d" % COMMIT_FAILED in line])
                for word in ("tide.db", "no space left", "free space", "logs/scheduler.log"):
                    self.assertIn(word, said[-1])
            subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
            cluster.start()
            self.assertEqual(cluster.await_over(known)["outcome"], "succeeded")
            job = cluster.submit(cluster.spec("third", ["true"]))
            self.assertEqual(cluster.await_over(job)["outcome"], "succeeded")
            self.assertEqual(cluster.interrupt(), 0)


@contextlib.contextmanager
def full_disk(folder, kib, here=False):
    """A small file system in, or instead of, a folder: tmpfs as root, else a limit on the size of files."""
    disk = folder if here else os.path.join(folder, "disk")
    os.makedirs(disk, exist_ok=True)
    if os.geteuid() != 0:
        raise unittest.SkipTest("mounting a small disk needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk,mode=711" % kib, "tide-it", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


if __name__ == "__main__":
    unittest.main()
