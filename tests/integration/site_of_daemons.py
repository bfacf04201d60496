"""One of each daemon, started with flags of the test's choice: for what `tide dev` does not do."""

import contextlib
import json
import os
import secrets
import shutil
import subprocess

from harness import SERVING, Cluster, Down, Refused, free_port, make_store, program, until


class Site(Cluster):
    """A scheduler, one agent "n1" and an API server.

    roles: of users, each with a token; requests are made as the first unless as_user() says otherwise.
    projects: with their members.  agent: further flags of the agent.  policy: text of the scheduler's policy file.
    tcp: None = daemons talk over unix sockets; "tls" = over TCP with certificates; "plaintext" = over TCP in clear.
    """

    def __init__(self, runtime, roles, agent=(), policy="version: 1\n", api=(), projects=None, tcp=None):
        super().__init__(runtime=runtime, nodes=1)
        for folder, mode in ((self.state, 0o711), (self.work, 0o777)):
            os.makedirs(folder)
            os.chmod(folder, mode)
        self.run_root = "/dev/shm/" + os.path.basename(self.base)
        self.more_of_agent, self.more_of_api = list(agent), list(api)
        self.running = {}  # by name, in the order of their start
        self.store = "sqlite:%s/tide.db" % self.state
        self.tcp = tcp
        self.scheduler_port, self.agent_port = (free_port(), free_port()) if tcp else (None, None)
        self.schedulers = "127.0.0.1:%d" % self.scheduler_port if tcp else "unix:%s/scheduler.sock" % self.state
        self.roles, self.projects = roles, projects or {}
        self.first = next(iter(roles))
        self.tokens = {"first-admin": "tide_1_" + secrets.token_hex(32)}
        self.write("token", self.tokens["first-admin"])
        self.write("policy.yaml", policy)
        self.write("secret-key", secrets.token_hex(32))
        self.env.update(TIDE_SERVER="http://127.0.0.1:%d" % self.port)

    def write(self, name, text):
        with open(self.state + "/" + name, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)

    def as_user(self, name):
        """The same cluster, asked by another."""
        other = object.__new__(type(self))
        other.__dict__ = {**self.__dict__, "token": lambda: self.tokens[name],
                          "env": {**self.env, "TIDE_TOKEN": self.tokens[name]}}
        return other

    def audit(self, operation):
        """Who did such a thing, or was refused, in order."""
        entries = self.as_user("first-admin").get("/v1/audit")["items"]
        return [entry for entry in entries if entry["operation"] == operation]

    def await_output(self, user, job, text, seconds=60):
        return until(seconds, "%r in the output of %s" % (text, job), lambda: text in self.as_user(user).logs(job))

    def launch(self, kind, *argv, name=None):
        """Starts a daemon; its log is that of its name."""
        name = name or kind
        with open(self.log_of(name), "ab") as log:
            self.running[name] = subprocess.Popen([program("tide-" + kind), *argv], stdout=log, stderr=log,
                                                  stdin=subprocess.DEVNULL, env=self.env)
        return self.running[name]

    def log_of(self, name):
        return "%s/%s.log" % (self.state, name)

    def said(self, name):
        with open(self.log_of(name), encoding="utf-8", errors="replace") as log:
            return log.read()

    def kill(self, name):
        child = self.running.pop(name)
        child.kill()
        child.wait(10)

    def end(self, name):
        child = self.running.pop(name)
        child.terminate()
        try:
            return child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait(10)

    def ca(self, verb, *more):
        """`tide admin ca` on this cluster's authority; returns what it prints."""
        done = subprocess.run([program("tide"), "admin", "ca", verb, self.state + "/ca", *more], check=True, timeout=60,
                              capture_output=True, text=True, env=self.env)
        return done.stdout

    def listed(self):
        """What the authority has issued."""
        return json.loads(self.ca("list", "-o", "json"))["items"]

    def issue_certificates(self):
        self.ca("init")
        self.ca("issue", "--role", "scheduler", "--out", self.state + "/tls/scheduler")
        self.ca("issue", "--role", "api", "--out", self.state + "/tls/api")
        self.ca("issue", "--role", "agent", "--node", "n1", "--out", self.state + "/tls")

    def security(self, name):
        """Flags by which the program of a name knows the others."""
        if self.tcp == "tls":
            return ["--tls", "%s/tls/%s" % (self.state, name)]
        if self.tcp == "plaintext":
            return ["--insecure-plaintext", "--cluster-token-file", self.state + "/cluster-token"]
        return []

    def start_scheduler(self, store=None):
        return self.launch("scheduler", "--listen", self.schedulers, "--store", store or self.store, "--policy",
                           self.state + "/policy.yaml", "--secret-key-file", self.state + "/secret-key",
                           *self.security("scheduler"))

    def start_agent(self, state, *more, name=None, run_root=None):
        return self.launch("agent", "--scheduler", self.schedulers, "--name", "n1", "--state", state, "--listen",
                           "127.0.0.1:%d" % self.agent_port if self.tcp else "unix:%s.sock" % state, "--checkpoint-root", self.state + "/checkpoints", "--kmsg", "",
                           "--run-root", run_root or self.run_root, "--masked-path", self.state, "--mount-root", self.work,
                           "--runtime", self.runtime, *self.security("n1"), *more, *self.more_of_agent, name=name)

    def start(self):
        if self.tcp == "tls":
            self.issue_certificates()
        elif self.tcp == "plaintext":
            self.write("cluster-token", secrets.token_hex(32))
        make_store(self.store, "--admin", "first-admin", "--admin-token-file", self.state + "/token")
        self.start_scheduler()
        self.start_agent(self.state + "/agent-n1", "--stop-tasks-on-exit")
        self.launch("api", "--scheduler", self.schedulers, "--listen", "127.0.0.1:%d" % self.port, *self.security("api"),
                    *self.more_of_api)
        until(30, "a node", self.has_node)
        self.add_people()
        return self

    def add_people(self):
        for name, role in self.roles.items():
            self.request("POST", "/v1/users", {"name": name, "role": role})
            self.tokens[name] = self.request("POST", "/v1/tokens", {"user": name})["token"]
        for project, members in self.projects.items():
            self.request("PUT", "/v1/projects/" + project, {})
            for name in members:
                self.request("PUT", "/v1/projects/%s/members/%s" % (project, name), {})
        self.write("token", self.tokens[self.first])
        self.env.update(TIDE_TOKEN=self.tokens[self.first])

    def has_node(self):
        with contextlib.suppress(Down, Refused):
            return [n for n in self.get("/v1/nodes")["items"] if n["state"] in SERVING and n["connected"]]
        return False

    def close(self):
        try:
            for name in reversed(list(self.running)):
                self.end(name)
        finally:
            subprocess.run([program("tide-agent"), "--clean", self.state + "/agent-n1"], timeout=60, check=False,
                           capture_output=True)
            shutil.rmtree(self.base, ignore_errors=True)
            shutil.rmtree(self.run_root, ignore_errors=True)
