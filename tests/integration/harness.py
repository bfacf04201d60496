"""A cluster of `tide dev` for tests, and looks at it from outside: HTTP, the `tide` program, /proc.

Everything has a deadline, and only processes that were started here, or below them, are ended.
"""

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from ports import free_port  # noqa: E402

BIN = os.environ.get("TIDE_BIN", os.path.join(ROOT, "build", "release", "bin"))
PYTHON = "/usr/bin/python3"
XID_79 = ("NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
          "bus.\n")
SERVING = ("ready", "probation")
NODES = ("a-n1", "a-n2", "b-n1", "b-n2")


# So that cleanups run when ctest gives up on us.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def program(name):
    return os.path.join(BIN, name)


def make_store(address, *more):
    """A new cluster's store, before its first scheduler."""
    subprocess.run([program("tide-scheduler"), "--init", "--store", address, *more], check=True, timeout=60,
                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pause(seconds=0.05):
    time.sleep(seconds)  # tidy: poll


def until(seconds, what, look):
    """The first true value of look(), asked again and again. `what` completes "gave up waiting for"."""
    deadline = time.monotonic() + seconds
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("gave up after %g s waiting for %s" % (seconds, what))
        pause()


class Down(Exception):
    """The API did not answer."""


class Refused(Exception):
    """The API answered with a problem document."""

    def __init__(self, status, problem):
        super().__init__("%d %s" % (status, problem.get("detail")))
        self.status = status
        self.problem = problem


class Process:
    """One living process as /proc shows it; None of its fields change."""

    def __init__(self, pid):
        base = "/proc/%d/" % pid
        with open(base + "stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
        self.pid = pid
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.terminal_group = int(fields[5])  # in the foreground of its terminal; -1 = it has none
        self.started = fields[19]
        with open(base + "cmdline", "rb") as file:
            self.argv = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
        self.env = {}
        with contextlib.suppress(PermissionError):
            with open(base + "environ", "rb") as file:
                for pair in file.read().split(b"\0"):
                    key, _, value = os.fsdecode(pair).partition("=")
                    self.env[key] = value

    def alive(self):
        with contextlib.suppress(OSError, IndexError):
            now = Process(self.pid)
            return now.started == self.started and now.state not in "ZX"
        return False


def processes():
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                process = Process(int(name))
                if process.state not in "ZX":
                    found.append(process)
    return found


def is_saver(process):
    return os.path.basename(process.argv[0] if process.argv else "") == "tide-saver"


class Repeated:
    """Calls act() again and again beside a test, each time after pause() seconds, until stop()."""

    def __init__(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.wait(self.pause()):
            self.act()

    def pause(self):
        return 0.05

    def act(self):
        raise NotImplementedError


class DoubleRunWatch(Repeated):
    """Looks for two attempts of one job, or one rank twice, running at the same time."""

    def __init__(self, cluster):
        self.problems = []
        self.looks = 0
        self._mark = cluster.state + "/"
        super().__init__()

    def act(self):
        ranks = [p for p in processes() if p.env.get("TIDE_CHECKPOINT_DIR", "").startswith(self._mark)
                 and "RANK" in p.env and not is_saver(p)]
        pids = {p.pid for p in ranks}
        seen = {}
        for process in ranks:
            if process.parent in pids:
                continue
            job, attempt, rank = (process.env[key] for key in ("TIDE_JOB_ID", "TIDE_ATTEMPT", "RANK"))
            for other in seen.get(job, ()):
                same = other.env["TIDE_ATTEMPT"] == attempt
                # Both were alive at one moment only if the first still is now.
                if (not same or other.env["RANK"] == rank) and other.alive() and process.alive():
                    self.problems.append("%s: attempt %s rank %s (pid %d) beside attempt %s rank %s (pid %d)" % (
                        job, other.env["TIDE_ATTEMPT"], other.env["RANK"], other.pid, attempt, rank, process.pid))
            seen.setdefault(job, []).append(process)
        self.looks += 1


class Cluster:
    """`tide dev --no-demo` on a folder of its own. close() leaves nothing behind, whatever happened."""

    def __init__(self, runtime="auto", nodes=4, schedulers=1):
        self.base = tempfile.mkdtemp(prefix="tide-it-")
        os.chmod(self.base, 0o711)
        self.state = os.path.join(self.base, "state")
        self.work = os.path.join(self.state, "work")
        self.port = free_port()
        self.runtime = runtime
        self.size = nodes
        self.schedulers = schedulers
        self.dev_flags = []  # more of `tide dev`
        self.dev = None
        self.tags = set()
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith("TIDE_") and key not in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")}
        self.env.update(HOME=self.base, TIDE_DEV_PROFILE=os.path.join(self.base, "profile.yaml"))

    # Life

    def dev_argv(self, port=None):
        return [program("tide"), "dev", "--no-demo", "--state", self.state, "--port",
                str(port or self.port), "--runtime", self.runtime, "--nodes", str(self.size),
                "--schedulers", str(self.schedulers), *self.dev_flags]

    def start(self):
        with open(os.path.join(self.base, "dev.out"), "ab") as out:
            self.dev = subprocess.Popen(self.dev_argv(), stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                        env=self.env, cwd=self.base, start_new_session=True)
        self.await_nodes()
        return self

    def await_nodes(self, seconds=30):
        def look():
            if self.dev.poll() is not None:
                raise AssertionError("tide dev ended: " + self.output())
            with contextlib.suppress(Down, Refused):
                nodes = self.get("/v1/nodes")["items"]
                return len(nodes) == self.size and all(
                    n["state"] in SERVING and n["connected"] for n in nodes)
            return False
        until(seconds, "%d nodes in service" % self.size, look)

    def output(self):
        with open(os.path.join(self.base, "dev.out"), encoding="utf-8") as file:
            return file.read()

    def log_of(self, daemon):
        """What a daemon has logged: "api", "agent-a-n1"."""
        with open(os.path.join(self.state, "logs", daemon + ".log"), encoding="utf-8") as file:
            return file.read()

    def interrupt(self, seconds=30):
        """Ctrl-C; the exit code."""
        self.dev.send_signal(signal.SIGINT)
        code = self.dev.wait(seconds)
        self.dev = None
        return code

    def kill(self):
        """kill -9 of `tide dev` itself. Returns its children's Processes as they were."""
        children = self.children()
        self.dev.kill()
        self.dev.wait(10)
        self.dev = None
        return children

    def kill_all(self):
        """kill -9 of `tide dev` and all daemons at once; the tasks run on."""
        daemons = self.children()
        # The daemons hear of the end of `tide dev`, and the kernel wakes them: it must go last, and
        # must not see them go.
        pids = [self.dev.pid, *(process.pid for process in daemons)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in reversed(pids):
            os.kill(pid, signal.SIGKILL)
        self.dev.wait(10)
        self.dev = None
        until(10, "daemons to go", lambda: not any(p.alive() for p in daemons))

    def close(self):
        try:
            if self.dev is not None and self.dev.poll() is None:
                self.note_tags()
                self.dev.send_signal(signal.SIGINT)
                try:
                    self.dev.wait(30)
                except subprocess.TimeoutExpired:
                    orphans = self.kill()
                    until(20, "daemons to go", lambda: not any(p.alive() for p in orphans))
            for folder in glob.glob(self.state + "/agent-*/"):
                subprocess.run([program("tide-agent"), "--clean", folder.rstrip("/")], timeout=60,
                               check=False, capture_output=True)
        finally:
            shutil.rmtree(self.base, ignore_errors=True)

    # From outside

    def children(self):
        return [p for p in processes() if p.parent == self.dev.pid]

    def daemon(self, role):
        """The living process of "scheduler", "api" or "agent NAME"; None between death and restart."""
        kind, _, name = role.partition(" ")
        for process in self.children():
            if os.path.basename(process.argv[0] if process.argv else "") == "tide-" + kind and (
                    not name or process.argv[process.argv.index("--name") + 1] == name):
                return process
        return None

    def kill_daemon(self, role, seconds=15):
        """kill -9, and wait until another one has taken its place."""
        victim = until(seconds, role, lambda: self.daemon(role))
        os.kill(victim.pid, signal.SIGKILL)
        return until(seconds, "a new " + role,
                     lambda: (new := self.daemon(role)) and new.pid != victim.pid and new)

    def leader(self):
        """The scheduler that leads: it holds the lock beside its database. None between two of them."""
        with contextlib.suppress(OSError, ValueError):
            with open(self.state + "/scheduler/tide.db.lock", encoding="ascii") as file:
                pid = int(file.read())
            return next((p for p in self.children() if p.pid == pid), None)
        return None

    def make_validators(self, repairs):
        """Makes a folder of the validators, and repairs beside them: scripts by name, "%(base)s" in them the test's
        folder. For agents' --validators."""
        folder = os.path.join(self.base, "validators")
        os.makedirs(folder)
        here = os.path.dirname(program("tide"))
        for name in os.listdir(here):
            if name.startswith("tide-validator-"):
                os.symlink(os.path.join(here, name), os.path.join(folder, name))
        for name, script in repairs.items():
            path = os.path.join(folder, "tide-repair-" + name)
            with open(path, "w", encoding="ascii") as file:
                file.write(script % {"base": self.base})
            os.chmod(path, 0o700)
        return folder

    def break_node(self, node):
        with open(os.path.join(self.state, "kmsg", node), "a", encoding="ascii") as file:
            file.write(XID_79)

    def ranks(self, job=None):
        """The processes of ranks, without what they started: their savers, or what looks for a library for a moment."""
        found = self._of_jobs(job)
        pids = {p.pid for p in found}
        return [p for p in found if p.parent not in pids and not is_saver(p)]

    def savers(self, job=None):
        return [p for p in self._of_jobs(job) if is_saver(p)]

    def _of_jobs(self, job):
        return [p for p in processes()
                if p.env.get("TIDE_CHECKPOINT_DIR", "").startswith(self.state + "/")
                and "RANK" in p.env and job in (None, p.env.get("TIDE_JOB_ID"))]

    def note_tags(self):
        """Remembers TIDE_TASK of what runs now: the names of its containers and cgroups."""
        self.tags |= {p.env["TIDE_TASK"] for p in self.ranks() if "TIDE_TASK" in p.env}
        return self.tags

    def leftovers(self):
        """What is still there of this cluster besides its state folder, in words."""
        mine = (self.state + "/", self.state)
        found = ["process %d: %s" % (p.pid, " ".join(p.argv)) for p in processes()
                 if p.env.get("TIDE_TASK") in self.tags or any(mine[0] in word or word == mine[1]
                                                               for word in p.argv[1:])
                 or p.env.get("TIDE_CHECKPOINT_DIR", "").startswith(mine[0])]
        with open("/proc/mounts", encoding="utf-8") as file:
            found += ["mount " + line.split()[1] for line in file
                      if line.split()[1].startswith(mine[0]) or mine[0] in line]
        for tag in sorted(self.tags):
            found += ["cgroup " + path for path in glob.glob("/sys/fs/cgroup/*/tide/" + tag)
                      + glob.glob("/sys/fs/cgroup/tide/" + tag) + glob.glob("/run/runc/" + tag)]
        found += ["folder " + path for path in glob.glob(self.state + "/agent-*/trial-*")]
        return found

    # HTTP

    def request(self, method, path, body=None, headers=()):
        """The parsed answer, or the text of one that is not JSON. Raises Down or Refused."""
        data = body
        if isinstance(body, (dict, list)):
            data = json.dumps(body)
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self.port, path), method=method,
                                         data=None if data is None else data.encode())
        request.add_header("Authorization", "Bearer " + self.token())
        request.add_header("Content-Type", "application/json")
        for key, value in headers:
            request.add_header(key, value)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                text = answer.read().decode(errors="replace")
                return json.loads(text) if "json" in answer.headers["Content-Type"] else text
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            problem = json.loads(text) if text.startswith("{") else {"detail": text}
            if error.code == 503:
                raise Down(problem.get("detail")) from error
            raise Refused(error.code, problem) from error
        except (OSError, urllib.error.URLError, ConnectionError, ValueError) as error:
            raise Down(str(error)) from error
        except Exception as error:  # http.client's own, as IncompleteRead
            raise Down(repr(error)) from error

    def token(self):
        try:
            with open(self.state + "/token", encoding="ascii") as file:
                return file.read()
        except FileNotFoundError:
            return "none-yet"

    def get(self, path):
        return self.request("GET", path)

    def end_job(self, job):
        """Cancels a job unless it is over, and waits until it is."""
        if self.job(job)["state"] != "finished":
            try:
                self.patiently("POST", "/v1/jobs/%s/cancel" % job, {"reason": "end of the test"})
            except Refused as refused:
                if refused.status != 409:  # it ended meanwhile
                    raise
        self.await_over(job)

    def patiently(self, method, path, body=None, headers=(), seconds=20):
        """As request(), over restarts of the daemons."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.request(method, path, body, headers)
            except Down:
                if time.monotonic() > deadline:
                    raise
                pause(0.1)

    def submit(self, spec, key=None):
        headers = [("Idempotency-Key", key or uuid.uuid4().hex)]
        return self.patiently("POST", "/v1/jobs", spec, headers)["id"]

    def job(self, ref):
        return self.patiently("GET", "/v1/jobs/" + ref)

    def peek(self, ref):
        """The job, or None while the API is down or does not know it yet."""
        with contextlib.suppress(Down, Refused):
            job = self.get("/v1/jobs/" + ref)
            return job if "state" in job and "attempts" in job else None
        return None

    def await_job(self, ref, what, look, seconds=60):
        def check():
            job = self.peek(ref)
            return job if job and look(job) else None
        try:
            return until(seconds, "%s to %s" % (ref, what), check)
        except AssertionError as error:
            raise AssertionError("%s; it is %s" % (error, describe(self.peek(ref)))) from None

    def await_state(self, ref, state, seconds=60):
        return self.await_job(ref, "be " + state, lambda job: state in (job["state"], job["outcome"]), seconds)

    def await_step(self, ref, step, seconds=60):
        return self.await_job(ref, "reach step %d" % step, lambda job: job["state"] == "running" and
                              (job["step"] or -1) >= step, seconds)

    def await_over(self, ref, seconds=60):
        return self.await_state(ref, "finished", seconds)

    def node(self, name):
        return self.patiently("GET", "/v1/nodes/" + name)

    def await_node(self, name, states, seconds=60):
        return until(seconds, "%s to be %s" % (name, " or ".join(states)),
                     lambda: (node := self.node(name))["state"] in states and node)

    def logs(self, ref, rank="0", attempt=None):
        path = "/v1/jobs/%s/logs?rank=%s" % (ref, rank)
        return self.patiently("GET", path + ("&attempt=%d" % attempt if attempt else ""))

    # The `tide` program

    def tide(self, *args, stdin=None, seconds=60, env=None):
        return subprocess.run([program("tide"), *args], capture_output=True, text=True, input=stdin,
                              timeout=seconds, env={**self.env, **(env or {})}, cwd=self.base, check=False)

    def tide_later(self, *args):
        """Started, not awaited. Its output goes to files, so that it never waits for a reader."""
        out = tempfile.TemporaryFile("w+", dir=self.base)
        err = tempfile.TemporaryFile("w+", dir=self.base)
        child = subprocess.Popen([program("tide"), *args], stdout=out, stderr=err, env=self.env,
                                 stdin=subprocess.DEVNULL, cwd=self.base)
        return Later(child, out, err)

    # Jobs

    def count_job(self, steps=150, step_ms=20, nodes=2, ranks=2, priority="low", name="count", **more):
        """A spec for sdk/examples/count.py. `more`: further keys of the spec."""
        command = [PYTHON, "count.py", "--steps", str(steps), "--step-ms", str(step_ms), "--save-every", "25"]
        return self.spec(name, command, nodes, ranks, priority=priority, **more)

    def spec(self, name, command, nodes=1, ranks=1, **more):
        return {"version": 1, "name": name, "command": command, "workdir": self.work,
                "resources": {"nodes": nodes, "ranks_per_node": ranks}, **more}

    def checkpoints(self, job):
        """The folder of a job that names none: j-12-…, after its time of submission."""
        root = os.path.join(self.state, "checkpoints")
        found = [name for name in os.listdir(root) if name.startswith(job + "-")]
        return os.path.join(root, found[0] if found else job)

    def compare(self, one, other):
        """Compares final checkpoints of two jobs: (equal, what the tool said)."""
        done = subprocess.run(
            [PYTHON, "-m", "tide.checkpoint", "diff", self.checkpoints(one), self.checkpoints(other)],
            capture_output=True, text=True, timeout=60, check=False,
            env={**self.env, "PYTHONPATH": ROOT + "/sdk/python", "PYTHONDONTWRITEBYTECODE": "1"})
        return done.returncode == 0, done.stdout + done.stderr


class Later:
    """A program that runs on its own."""

    def __init__(self, child, out, err):
        self.child = child
        self._out = out
        self._err = err

    def out(self):
        return self._read(self._out)

    def err(self):
        return self._read(self._err)

    @staticmethod
    def _read(file):
        with open("/proc/self/fd/%d" % file.fileno(), encoding="utf-8", errors="replace") as again:
            return again.read()

    def wait(self, seconds=60):
        return self.child.wait(seconds)

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait(10)
        self._out.close()
        self._err.close()


def describe(job):
    if job is None:
        return "not to be seen"
    attempts = ["%d: %s on %s" % (a["epoch"], a["end_reason"], ",".join(t["node"] for t in a["tasks"]))
                for a in job["attempts"]]
    return "%s %s (%s), step %s, attempts %s, reasons %s" % (
        job["state"], job["outcome"], job["detail"], job["step"], attempts,
        [r["message"] for r in job["reasons"]])


class ClusterTest(unittest.TestCase):
    """One cluster for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()

    def assert_one_line(self, done, code, *words):
        """A refusal: exit code, one line on stderr with these words, nothing on stdout."""
        self.assertEqual(done.returncode, code, done.stderr)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])
        self.assertEqual(done.stdout, "")
