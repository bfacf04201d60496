"""`tide exec` and `tide shell` through real daemons, driven like a person does: on a terminal."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest
import unittest.mock

from harness import PYTHON, Cluster, ClusterTest, Refused, processes, program, until
from site_of_daemons import Site

SLEEP = "import signal, time; print('asleep', flush=True); time.sleep(1000)"  # tidy: poll (the job sleeps, the test does not)


class Person:
    """`tide` on a terminal of its own."""

    def __init__(self, cluster, *args, rows=30, columns=100):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.said = b""
        self.child = subprocess.Popen([program("tide"), *args], stdin=slave, stdout=slave, stderr=slave,
                                      env={**cluster.env, "TERM": "xterm"}, cwd=cluster.base,
                                      start_new_session=True,
                                      preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def types(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self.said += os.read(self.master, 65536)

    def sees(self, text, seconds=30):
        """Waits until this was said since the last call; what came before it is forgotten."""
        wanted = text.encode()
        deadline = time.monotonic() + seconds
        while wanted not in self.said:
            if time.monotonic() > deadline:
                raise AssertionError("gave up waiting for %r, there is %r" % (text, self.said))
            self.read(0.1)
        before, self.said = self.said.split(wanted, 1)
        return before.decode(errors="replace")

    def wait(self, seconds=30):
        deadline = time.monotonic() + seconds
        while self.child.poll() is None and time.monotonic() < deadline:
            self.read(0.05)
        return self.child.wait(0.1)

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def has_terminal_back(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait(10)
        os.close(self.master)
        os.close(self.slave)


class ExecFixture:
    """Jobs, people and looks from outside; `cluster` comes from the class."""

    def submit(self, **more):
        job = self.cluster.submit(self.cluster.spec(more.pop("name"), [PYTHON, "-c", SLEEP], **more))
        self.addCleanup(self.end, job)
        self.await_asleep(job)
        return job

    def await_asleep(self, job):
        self.cluster.await_state(job, "running")
        until(30, "output of " + job, lambda: "asleep" in self.cluster.logs(job))

    def end(self, job):
        self.cluster.end_job(job)

    def person(self, *args, **more):
        person = Person(self.cluster, *args, **more)
        self.addCleanup(person.close)
        return person

    def inside(self, mark):
        """Living processes with this word on their command line, but for `tide` itself."""
        return [p for p in processes() if mark in " ".join(p.argv) and os.path.basename(p.argv[0]) != "tide"]

    def await_foreground(self, command):
        """Waits until the command has its terminal: before that a key's signal goes to the shell, which swallows it."""
        until(30, command, lambda: any(p.group == p.terminal_group for p in self.inside(command)))

    def audit(self):
        with open(self.cluster.state + "/audit.log", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def events(self, job):
        return [line["event"] for line in self.audit() if line["job"] == job]


class ExecTest(ExecFixture):
    """What holds for both runtimes."""

    def setUp(self):
        self.job = self.submit(name="enter")

    # Without a terminal

    def test_output_errors_and_exit_code(self):
        done = self.cluster.tide("exec", self.job, "--", "sh", "-c", "echo out $RANK; echo err >&2; exit 7", stdin="")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "out 0\n", "err\n"))
        done = self.cluster.tide("exec", "enter", "--", "sh", "-c", "kill -9 $$", stdin="")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (137, "", ""))

    def test_input_to_its_end(self):
        self.assertEqual(self.cluster.tide("exec", self.job, "--", "cat", stdin="hi\n").stdout, "hi\n")
        many = "0123456789abcdef" * (1 << 16)
        done = self.cluster.tide("exec", self.job, "--", "wc", "-c", stdin=many)
        self.assertEqual(done.stdout.strip(), str(len(many)), done.stderr)
        done = self.cluster.tide("exec", self.job, "--", "cat", stdin=many)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout == many)
        none = self.cluster.tide("exec", "-n", self.job, "--", "cat", stdin="hi\n")
        self.assertEqual((none.returncode, none.stdout), (0, ""))
        # Nobody reads it: neither side waits for the other.
        done = self.cluster.tide("exec", self.job, "--", "sh", "-c", "exec <&-; exit 4", stdin=many)
        self.assertEqual(done.returncode, 4, done.stderr)

    def test_ctrl_c_without_a_terminal_is_a_signal(self):
        later = self.cluster.tide_later("exec", self.job, "--", "sh", "-c", "echo ready; exec sleep 1000")
        self.addCleanup(later.end)
        until(30, "the command", lambda: "ready" in later.out())
        later.child.send_signal(signal.SIGINT)
        self.assertEqual(later.wait(), 130)
        self.assertEqual(later.err(), "")

    def test_a_broken_pipe_ends_the_command(self):
        mark = "yes enter-%d" % os.getpid()
        pipe = subprocess.run(["sh", "-c", "%s exec %s -- %s | head -1" % (program("tide"), self.job, mark)],
                              env=self.cluster.env, cwd=self.cluster.base, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
        self.assertEqual(pipe.stdout, mark[4:] + "\n")
        until(30, "the command to go", lambda: not self.inside(mark))

    # With a terminal

    def test_a_shell_with_its_window(self):
        person = self.person("shell", self.job)
        person.types("PS1=; stty size; echo sum $((40 + 2))\n")
        self.assertIn("30 100", person.sees("sum 42"))
        self.assertTrue(person.is_raw())
        person.resize(51, 133)
        # The resize travels beside the keys: asked again until it has arrived.
        until(30, "the new size", lambda: (person.types("stty size; echo siz''e said\n"),
                                           "51 133" in person.sees("size said"))[1])
        person.types("exec sh -c 'exit 9'\n")
        self.assertEqual(person.wait(), 9)
        self.assertTrue(person.has_terminal_back())

    def test_ctrl_c_and_job_control(self):
        person = self.person("shell", self.job)
        person.types("PS1='<$?> '; echo rea''dy\n")
        person.sees("ready")
        person.sees("<0> ")  # what is typed while the shell sets the terminal up may lose a letter
        # Of this test alone: another cluster's test may run the same beside it.
        first, second = ("sleep %d%07d" % (number, os.getpid()) for number in (1, 2))
        person.types(first + "; echo nev''er\n")
        self.await_foreground(first)
        person.types("\x03")
        person.sees("<130> ")
        person.types(second + "\n")
        self.await_foreground(second)
        person.types("\x1a")
        person.sees("topped")  # "Stopped", however the shell writes it
        person.types("exit\nexit 5\n")
        self.assertEqual(person.wait(), 5)
        until(30, "the stopped command to go", lambda: not self.inside(second))
        self.assertNotIn(b"never", person.said)

    def test_ctrl_c_ends_a_command_on_a_terminal(self):
        person = self.person("exec", "-t", self.job, "--", "sh", "-c", "echo ready; exec sleep 1002")
        person.sees("ready")
        person.types("\x03")
        self.assertEqual(person.wait(), 130)
        self.assertTrue(person.has_terminal_back())

    def test_sigterm_gives_the_terminal_back_and_ends_the_command(self):
        person = self.person("exec", "-t", self.job, "--", "sh", "-c", "trap '' HUP TERM; echo ready; sleep 1003")
        person.sees("ready")
        self.assertTrue(person.is_raw())
        person.child.send_signal(signal.SIGTERM)
        self.assertEqual(person.wait(), 143)
        self.assertTrue(person.has_terminal_back())
        until(30, "the command to go", lambda: not self.inside("sleep 1003"))

    # Ends

    def test_the_suspension_of_the_job_ends_a_shell(self):
        person = self.person("shell", self.job)
        person.types("trap '' HUP TERM INT; echo rea''dy; sleep 1004\n")
        person.sees("ready")
        began = time.monotonic()
        self.cluster.patiently("POST", "/v1/jobs/%s/suspend" % self.job, {"reason": "lunch"})
        self.cluster.await_state(self.job, "held")
        self.assertEqual(person.wait(), 137)
        person.sees("tide show " + self.job)
        self.assertTrue(person.has_terminal_back())
        self.assertFalse(self.inside("sleep 1004"))
        self.assertLess(time.monotonic() - began, 25)
        done = self.cluster.tide("exec", self.job, "--", "true")
        self.assert_one_line(done, 125, "is held", "only a running job can be entered")

    def test_who_runs_what_is_on_record(self):
        secret = "s3cret-%d" % os.getpid()
        self.cluster.tide("exec", self.job, "--", "sh", "-c", "exit 3", secret, stdin="")
        lines = [line for line in self.audit() if line["job"] == self.job]
        self.assertEqual([line["event"] for line in lines], ["exec_allowed", "exec_ended"])
        self.assertEqual(lines[0]["command"], lines[1]["command"])
        for line in lines:
            self.assertEqual((line["program"], line["arguments"], line["rank"]), ("sh", 3, 0))
            self.assertTrue(line["user"] and line["node"] and line["at"].endswith("Z"))
        self.assertEqual((lines[1]["exit_code"], lines[1]["signal"]), (3, 0))
        self.assertNotIn(secret, json.dumps(lines))
        self.assertEqual(os.stat(self.cluster.state + "/audit.log").st_mode & 0o777, 0o600)

    def test_what_cannot_run_says_why(self):
        done = self.cluster.tide("exec", self.job, "--", "no-such-program", stdin="")
        self.assert_one_line(done, 125, "cannot run no-such-program")
        self.assertEqual(self.events(self.job), ["exec_allowed", "exec_failed"])
        self.assert_one_line(self.cluster.tide("exec", self.job, "--rank", "7", "--", "true"), 125, "has ranks 0 to 0")
        self.assert_one_line(self.cluster.tide("exec", "j-9999", "--", "true"), 125, "j-9999")
        self.assert_one_line(self.cluster.tide("exec", self.job), 125, "after `--`")

    def test_an_agent_that_dies_takes_the_command_along(self):
        rank = self.cluster.ranks(self.job)
        later = self.cluster.tide_later("exec", self.job, "--", "sh", "-c", "trap '' HUP; echo ready; sleep 1005; :")
        self.addCleanup(later.end)
        until(30, "the command", lambda: "ready" in later.out())
        node = self.cluster.job(self.job)["attempts"][-1]["tasks"][0]["node"]
        self.cluster.kill_daemon("agent " + node)
        self.assertEqual(later.wait(), 125)
        self.assertIn("the connection to the agent of node " + node, later.err())
        until(30, "the command to go", lambda: not self.inside("sleep 1005"))
        self.assertTrue(all(p.alive() for p in rank))
        self.cluster.await_nodes()


class ExecTestContainers(ExecTest, ClusterTest):
    def test_the_identity_is_the_ranks(self):
        rank = self.cluster.ranks(self.job)
        if not any(node["runtime"] == "oci" for node in self.cluster.get("/v1/nodes")["items"]):
            self.skipTest("no containers here: they need root and runc")
        done = self.cluster.tide("exec", self.job, "--", "sh", "-c",
                                 "cat /proc/self/status; readlink /proc/self/ns/pid /proc/self/ns/mnt", stdin="")
        with open("/proc/%d/status" % rank[0].pid, encoding="ascii") as file:
            status = file.read()
        for key in ("Uid", "Gid", "Groups", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"):
            line = re.search("^%s:.*$" % key, status, re.M).group()
            self.assertIn(line.strip(), done.stdout)
        self.assertIn("NoNewPrivs:\t1", done.stdout)
        for name in ("pid", "mnt"):
            self.assertIn(os.readlink("/proc/%d/ns/%s" % (rank[0].pid, name)), done.stdout)


class ExecTestProcesses(ExecTest, ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(runtime="process")
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()


class PolicySite(Site):
    """One of each daemon, with a policy, users of each role, and little patience for readers that went away."""

    POLICY = "version: 1\nprojects: { sealed: { exec: false }, vault: { parent: sealed }, open: {} }\n"
    ROLES = {"ada": "user", "bob": "user", "olga": "operator", "vera": "viewer"}
    IDLE_S = 2

    def __init__(self):
        super().__init__("process", self.ROLES, policy=self.POLICY, projects={
            name: list(self.ROLES) for name in ("sealed", "vault", "open")}, agent=["--job-user", "65534:65534"] if os.geteuid() == 0 else ())
        self.more_of_api = ["--audit-log", self.state + "/audit.log", "--exec-idle-s", str(self.IDLE_S)]


class ExecTestPolicy(ExecFixture, ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.cluster = PolicySite()
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()

    def as_user(self, name):
        return {"TIDE_TOKEN": self.cluster.tokens[name]}

    def test_a_project_that_forbids_it(self):
        for project in ("sealed", "vault"):
            job = self.submit(name="closed", project=project)
            for who in ("ada", "olga"):  # the switch is the project's, not the user's
                for verb in (("exec", job, "--", "true"), ("shell", job)):
                    done = self.cluster.tide(*verb, stdin="", env=self.as_user(who))
                    self.assert_one_line(done, 125, "project %s does not allow" % project, "exec: false")
            self.assertEqual(self.events(job), ["exec_refused"] * 4)
            with self.assertRaises(Refused) as refused:
                self.cluster.request("POST", "/v1/jobs/%s/exec" % job, {})
            self.assertEqual((refused.exception.status, refused.exception.problem["code"]), (403, "exec_forbidden"))
            self.assertEqual(self.outcomes(job), ["exec_forbidden"] * 5)
            self.end(job)
        job = self.submit(name="closed", project="open")
        self.assertEqual(self.cluster.tide("exec", job, "--", "true", stdin="").returncode, 0)

    def test_who_may(self):
        job = self.submit(name="mine")
        for who, code in (("ada", 0), ("olga", 0), ("bob", 125), ("vera", 125)):
            done = self.cluster.tide("exec", job, "--", "true", stdin="", env=self.as_user(who))
            self.assertEqual(done.returncode, code, (who, done.stderr))
        asked = [(entry["user"], entry["object"], entry["outcome"]) for entry in self.cluster.audit("jobs.exec")]
        self.assertEqual(asked[-4:], [("ada", job, "done"), ("olga", job, "done"), ("bob", job, "permission_denied"),
                                      ("vera", "", "permission_denied")])

    def outcomes(self, job):
        """What the audit tells of commands in this job, in order."""
        return [entry["outcome"] for entry in self.cluster.audit("jobs.exec") if entry["object"] == job]

    def test_the_audit_tells_what_came_of_it(self):
        job = self.submit(name="audited")
        self.cluster.tide("exec", job, "--rank", "7", "--", "true", stdin="")
        self.cluster.tide("exec", job, "--", "no-such-program", stdin="")
        self.cluster.tide("exec", job, "--", "true", stdin="")
        self.cluster.tide("suspend", job)
        self.cluster.await_state(job, "held")
        self.cluster.tide("exec", job, "--", "true", stdin="")
        outcomes = self.outcomes(job)
        # A command that was allowed and did not begin is there twice: it was recorded before.
        self.assertEqual((outcomes[:2], outcomes[3:]), (["not_found", "done"], ["done", "conflict"]))
        self.assertNotEqual(outcomes[2], "done")
        made = [entry for entry in self.cluster.audit("jobs.submit") if entry["object"] == job]
        self.assertEqual([(entry["outcome"], entry["detail"]) for entry in made], [("done", "job audited")])

    def test_a_revoked_token_ends_the_commands_that_it_started(self):
        job = self.submit(name="mine")
        token = self.cluster.request("POST", "/v1/tokens", {"label": "lost"})
        with unittest.mock.patch.dict(self.cluster.env, {"TIDE_TOKEN": token["token"]}):
            later = self.cluster.tide_later("exec", job, "--", "sh", "-c", "echo ready; exec sleep 1009")
        self.addCleanup(later.end)
        until(30, "the command", lambda: "ready" in later.out())
        self.cluster.request("DELETE", "/v1/tokens/%d" % token["id"])
        until(30, "the command to go", lambda: not self.inside("sleep 1009"))
        until(30, "its record", lambda: self.events(job)[-1:] == ["exec_ended"])
        self.assertEqual([line["reason"] for line in self.audit() if line["job"] == job][-1],
                         "who started it may not run it any more")

    def test_a_session_is_its_users_alone(self):
        job = self.submit(name="mine")
        session = self.cluster.request("POST", "/v1/jobs/%s/exec" % job, {"argv": ["sleep", "1006"]})["session"]
        self.assertRegex(session, "^[0-9a-f]{32}$")
        for method, path in (("GET", "/output"), ("POST", "/input?seq=1"), ("DELETE", "")):
            done = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", method, "-H",
                                   "Authorization: Bearer " + self.cluster.tokens["olga"],
                                   "http://127.0.0.1:%d/v1/exec/%s%s" % (self.cluster.port, session, path)],
                                  capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(done.stdout, "404", (method, done.stderr))
        self.assertTrue(self.inside("sleep 1006"))
        self.cluster.request("DELETE", "/v1/exec/" + session)
        until(30, "the command to go", lambda: not self.inside("sleep 1006"))

    def test_a_client_that_vanishes_leaves_no_process(self):
        job = self.submit(name="mine")
        person = self.person("exec", "-t", job, "--", "sh", "-c",
                             "trap '' HUP; (setsid sleep 1007 &); echo ready; sleep 1008")
        person.sees("ready")
        person.child.kill()
        until(30, "the command to go", lambda: not self.inside("sleep 1007") and not self.inside("sleep 1008"))
        until(30, "its record", lambda: self.events(job)[-1:] == ["exec_ended"])
        self.assertIn("nobody read", self.audit()[-1]["reason"])
        self.assertEqual(self.cluster.job(job)["state"], "running")

    def test_bad_requests(self):
        job = self.submit(name="mine")
        for body in ({"argv": []}, {"argv": [1]}, {"argv": ["a\0b"]}, {"argv": "ls"}, {"argv": ["x"] * 1025}, {"rank": -1},
                     {"argv": ["x" * (1 << 18)]}, {"terminal": {}}, {"terminal": {"rows": 0, "columns": 80}},
                     {"terminal": {"rows": 24, "columns": 80, "type": "../x"}}, {"command": "ls"}, "[]", "no json"):
            with self.assertRaises(Refused) as refused:
                self.cluster.request("POST", "/v1/jobs/%s/exec" % job, body)
            self.assertEqual(refused.exception.status, 422, body)
        session = self.cluster.request("POST", "/v1/jobs/%s/exec" % job, {"argv": ["cat"]})["session"]
        path = "/v1/exec/%s/input" % session
        for query, data, status in (("", "", 422), ("?seq=x", "", 422), ("?seq=2", "", 409), ("?seq=1", "\x01", 422),
                                    ("?seq=1", "\x10\x00\x00\x00\x05ab", 422), ("?seq=1", "\x01\x00\x00\x00\x00", 422)):
            with self.assertRaises(Refused) as refused:
                self.cluster.request("POST", path + query, data)
            self.assertEqual(refused.exception.status, status, (query, data))
        # Said twice it counts once.
        for _ in range(2):
            self.cluster.request("POST", path + "?seq=1", "\x10\x00\x00\x00\x03hi\n")
        self.cluster.request("POST", path + "?seq=2", "\x11\x00\x00\x00\x00")
        output = self.cluster.request("GET", "/v1/exec/%s/output" % session)
        self.assertEqual(output, "\x01\x00\x00\x00\x03hi\n\x04\x00\x00\x00\x02\x00\x00")
        self.assertEqual(self.cluster.request("GET", "/v1/exec/%s/output?offset=8" % session)[0], "\x04")


if __name__ == "__main__":
    unittest.main()
