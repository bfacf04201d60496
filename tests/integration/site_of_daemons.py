"""One of each daemon, started with flags of the test's choice: for what `tide dev` does not do."""

import contextlib
import os
import secrets
import shutil
import subprocess

from harness import SERVING, Cluster, Down, Refused, program, until


class Site(Cluster):
    """A scheduler, one agent "n1" and an API server.

    roles: of users, each with a token; requests are made as the first unless as_user() says otherwise.
    projects: with their members.  agent: further flags of the agent.  policy: text of the scheduler's policy file.
    """

    def __init__(self, runtime, roles, agent=(), policy="version: 1\n", api=(), projects=None):
        super().__init__(runtime=runtime, nodes=1)
        for folder, mode in ((self.state, 0o711), (self.work, 0o777)):
            os.makedirs(folder)
            os.chmod(folder, mode)
        self.run_root = "/dev/shm/" + os.path.basename(self.base)
        self.more_of_agent, self.more_of_api = list(agent), list(api)
        self.children_started = []
        self.roles, self.projects = roles, projects or {}
        self.first = next(iter(roles))
        self.tokens = {"first-admin": "tide_1_" + secrets.token_hex(32)}
        self.write("token", self.tokens["first-admin"])
        self.write("policy.yaml", policy)
        self.env.update(TIDE_SERVER="http://127.0.0.1:%d" % self.port)

    def write(self, name, text):
        with open(self.state + "/" + name, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)

    def as_user(self, name):
        """The same cluster, asked by another."""
        other = object.__new__(type(self))
        other.__dict__ = {**self.__dict__, "token": lambda: self.tokens[name]}
        return other

    def audit(self, operation):
        """Who did such a thing, or was refused, in order."""
        entries = self.as_user("first-admin").get("/v1/audit")["items"]
        return [entry for entry in entries if entry["operation"] == operation]

    def await_output(self, user, job, text, seconds=60):
        return until(seconds, "%r in the output of %s" % (text, job), lambda: text in self.as_user(user).logs(job))

    def start(self):
        scheduler = "unix:%s/scheduler.sock" % self.state
        agent = self.state + "/agent-n1"
        for name, argv in (
                ("scheduler", ["--listen", scheduler, "--store", "sqlite:%s/tide.db" % self.state, "--policy",
                               self.state + "/policy.yaml", "--admin", "first-admin", "--admin-token-file",
                               self.state + "/token"]),
                ("agent", ["--scheduler", scheduler, "--name", "n1", "--state", agent, "--listen", "unix:%s.sock" % agent,
                           "--checkpoint-root", self.state + "/checkpoints", "--run-root", self.run_root, "--kmsg", "",
                           "--masked-path", self.state, "--mount-root", self.work, "--runtime", self.runtime,
                           "--stop-tasks-on-exit", *self.more_of_agent]),
                ("api", ["--scheduler", scheduler, "--listen", "127.0.0.1:%d" % self.port, *self.more_of_api])):
            with open("%s/%s.log" % (self.state, name), "wb") as log:
                self.children_started.append(subprocess.Popen([program("tide-" + name), *argv], stdout=log, stderr=log,
                                                              stdin=subprocess.DEVNULL, env=self.env))
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
            for child in reversed(self.children_started):
                child.terminate()
                try:
                    child.wait(20)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait(10)
        finally:
            subprocess.run([program("tide-agent"), "--clean", self.state + "/agent-n1"], timeout=60, check=False,
                           capture_output=True)
            shutil.rmtree(self.base, ignore_errors=True)
            shutil.rmtree(self.run_root, ignore_errors=True)
