"""A cluster of single daemons, with a keeper that starts again what ended, as a service manager would. What
tests/integration/harness.py does with `tide dev`, for the cases that need another store, flags or network."""

import collections
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import threading
import time

from stores import await_pause
from harness import Cluster, Down, Refused, SERVING, make_store, pause, program, until

HERE = os.path.dirname(os.path.abspath(__file__))
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
TOKEN = "tide_1_" + "c0" * 32
RESTART_S = 1.0  # RestartSec=1 of docs/guide/operators.md


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Daemon:
    """One program that is kept running."""

    def __init__(self, name, argv, log, env=None):
        self.name = name
        self.argv = argv
        self.log = log
        self.env = env
        self.child = None
        self.codes = []  # of all ends so far
        self.wanted = False
        self._lock = threading.Lock()

    @property
    def pid(self):
        return self.child.pid if self.child else 0

    def alive(self):
        return self.child is not None and self.child.poll() is None

    def start(self):
        with self._lock, open(self.log, "ab") as log:
            self.wanted = True
            self.child = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env,
                                          preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))

    def kill(self):
        """kill -9; the moment of it."""
        at = boot_ns()
        self.child.kill()
        return at

    def signal(self, number):
        self.child.send_signal(number)

    def end(self, seconds=20):
        self.wanted = False
        with self._lock:
            if self.alive():
                self.child.terminate()
                try:
                    self.child.wait(seconds)
                except subprocess.TimeoutExpired:
                    self.child.kill()
                    self.child.wait(10)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()


class Keeper:
    """Starts daemons again a while after their end, and notes their codes. It runs as long as they do: the kernel
    ends a child with the thread that started it."""

    def __init__(self, daemons):
        self._daemons = daemons
        self._due = {}
        self._begun = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()
        self._begun.wait(30)

    def stop(self):
        self._stop.set()
        self._thread.join(30)

    def _run(self):
        for daemon in self._daemons:
            daemon.start()
        self._begun.set()
        while not self._stop.wait(0.02):
            for daemon in self._daemons:
                self._look(daemon, time.monotonic())

    def _look(self, daemon, now):
        if not daemon.wanted or daemon.alive():
            return
        if daemon not in self._due:
            daemon.codes.append(daemon.child.returncode)
            self._due[daemon] = now + RESTART_S
        elif now >= self._due[daemon]:
            del self._due[daemon]
            daemon.start()


class Site(Cluster):
    """Schedulers on a store, agents with plain processes, an API server. Leaves nothing behind.

    nodes: {name: group}.  hosts: for agents in network namespaces, {name: (prefix of its command, address)}.
    more: further flags of the schedulers.  shim(site, daemon's name): further environment.
    """

    def __init__(self, store, nodes, isolation_ms=30_000, listen=None, hosts=None, more=(), shim=None):
        super().__init__(runtime="process", nodes=len(nodes))
        self.groups = nodes
        self.isolation_ms = isolation_ms
        self.listen = listen
        self.hosts = hosts or {}
        self.more = more
        self.shim = shim or (lambda site, name: {})
        self.records = self.base + "/ranks"
        self.run_root = "/dev/shm/" + os.path.basename(self.base)
        for folder, mode in ((self.state, 0o711), (self.records, 0o777), (self.work, 0o777),
                             (self.state + "/logs", 0o700)):
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, mode)
        shutil.copy(HERE + "/rank.py", self.base + "/rank.py")
        os.chmod(self.base + "/rank.py", 0o644)
        self.store = store(self)
        self._write(self.state + "/token", TOKEN)
        make_store(self.store.address(), "--admin", "chaos", "--admin-token-file", self.state + "/token")
        if self.listen:
            self._issue_certificates()
        self.env.update(TIDE_SERVER="http://127.0.0.1:%d" % self.port, TIDE_TOKEN=TOKEN)
        self.schedulers = [self._scheduler(n) for n in range(1, 2 + self.store.standbys)]
        self.agents = {name: self._agent(index, name) for index, name in enumerate(nodes)}
        self.api = self._api()
        self.daemons = [*self.schedulers, *self.agents.values(), self.api]
        self.keeper = Keeper(self.daemons)

    @staticmethod
    def _write(path, text):
        with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)

    def _daemon(self, name, argv, prefix=()):
        env = {**self.env, **self.shim(self, name)}
        return Daemon(name, [*prefix, *argv], "%s/logs/%s.log" % (self.state, name), env)

    def _issue_certificates(self):
        def ca(verb, *more):
            subprocess.run([program("tide"), "admin", "ca", verb, self.state + "/ca", *more], check=True, timeout=60,
                           capture_output=True, env=self.env)

        ca("init")
        for role in ("scheduler", "api"):
            ca("issue", "--role", role, "--out", "%s/tls/%s" % (self.state, role))
        ca("issue", "--role", "agent", "--node", ",".join(self.groups), "--out", self.state + "/tls")

    def _tls(self, name):
        return ["--tls", "%s/tls/%s" % (self.state, name)] if self.listen else []

    def _addresses(self):
        if self.listen:
            return [self.listen % n for n in range(1, 2 + self.store.standbys)]
        return ["unix:%s/scheduler-%d.sock" % (self.state, n) for n in range(1, 2 + self.store.standbys)]

    def _scheduler(self, number):
        return self._daemon("scheduler-%d" % number, [
            program("tide-scheduler"), "--listen", self._addresses()[number - 1], "--store", self.store.address(),
            "--isolation-timeout-ms", str(self.isolation_ms), "--standby", *self.more, *self._tls("scheduler")])

    def _agent(self, index, name):
        prefix, address = self.hosts.get(name, ((), None))
        listen = "%s:7072" % address if address else "unix:%s/agent-%s.sock" % (self.state, name)
        ports = 21000 + 20 * index
        argv = [program("tide-agent"), "--scheduler", ",".join(self._addresses()), "--name", name, "--zone", "A",
                "--leaf", "l1", "--group", self.groups[name], "--gpus", "4", "--gpu-check", "off", "--state",
                "%s/agent-%s" % (self.state, name), "--listen", listen, "--ports", "%d-%d" % (ports, ports + 19),
                "--checkpoint-root", self.state + "/checkpoints", "--mount-root", self.work, "--job-user", "65534:65534" if os.geteuid() == 0 else "%d:%d" % (os.geteuid(), os.getegid()), "--run-root", self.run_root, "--kmsg", "",
                "--runtime", "process", "--env", "CHAOS_NODE=" + name, "--stop-tasks-on-exit", *self._tls(name)]
        return self._daemon("agent-" + name, argv, prefix)

    def _api(self):
        return self._daemon("api", [
            program("tide-api"), "--scheduler", ",".join(self._addresses()), "--listen", "127.0.0.1:%d" % self.port,
            *self._tls("api")])

    # Life

    def start(self):
        self.keeper.start()
        self.await_nodes(60)
        return self

    def await_nodes(self, seconds=30):
        def look():
            with contextlib.suppress(Down, Refused):
                nodes = self.get("/v1/nodes")["items"]
                return len(nodes) == self.size and all(n["state"] in SERVING and n["connected"] for n in nodes)
            return False
        until(seconds, "%d nodes in service" % self.size, look)

    def close(self):
        try:
            self.keeper.stop()
            for daemon in reversed(self.daemons):
                daemon.wanted = False
            for daemon in reversed(self.daemons):
                daemon.end()
            for name in self.groups:
                subprocess.run([program("tide-agent"), "--clean", "%s/agent-%s" % (self.state, name)], timeout=60,
                               check=False, capture_output=True)
        finally:
            self.store.close()
            shutil.rmtree(self.base, ignore_errors=True)
            shutil.rmtree(self.run_root, ignore_errors=True)

    def leading(self, seconds=30):
        """The daemon that leads, once one does."""
        def look():
            pid = self.store.leader()
            return next((each for each in self.schedulers if each.pid == pid and each.alive()), None)
        return until(seconds, "a scheduler to lead", look)

    def await_standby(self, daemon, seconds=30):
        """Waits until it has started anew and stands by, or leads again."""
        def look():
            if not daemon.alive():
                return False
            words = daemon.said().rsplit("Standing by", 1)
            return self.store.leader() == daemon.pid or (len(words) == 2 and "Serving" not in words[1])
        until(seconds, daemon.name + " to stand by", look)

    def codes(self):
        """With what its schedulers have ended: {code: how often}."""
        return collections.Counter(code for each in self.schedulers for code in each.codes)

    # Jobs

    def rank_job(self, name, seconds, nodes=1, gpus=None, **more):
        """Ranks that note their life. gpus: of a node's four; one of them, or whole nodes of several, if not said.
        more: further keys of the spec."""
        resources = {"nodes": nodes, "ranks_per_node": 1, "group": more.pop("group", "default"),
                     "gpus_per_node": gpus or (1 if nodes == 1 else 4)}
        return {"version": 1, "name": name, "workdir": self.work, "resources": resources,
                "command": ["/usr/bin/python3", "-I", "-S", self.base + "/rank.py", self.records, str(seconds)], **more}

    def await_start(self, job, after_ns=0, seconds=30):
        """When rank 0 first started after a moment, by the clock of all ranks."""
        path = "%s/%s.0" % (self.records, job)

        def look():
            with contextlib.suppress(FileNotFoundError):
                with open(path, encoding="ascii") as file:
                    return next((int(line.split()[3]) for line in file
                                 if line.startswith("start ") and int(line.split()[3]) > after_ns), None)
            return None
        deadline = time.monotonic() + seconds
        while not (at := look()):
            if time.monotonic() > deadline:
                raise AssertionError("gave up after %g s waiting for %s to start" % (seconds, job))
            pause(0.005)
        return at


__all__ = ["Daemon", "Keeper", "Site", "await_pause", "boot_ns"]
