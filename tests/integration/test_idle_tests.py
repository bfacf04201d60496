"""Tests of idle nodes: run by themselves, gone at once when a job wants the node, taken up again; what fails is out."""

import os
import stat
import unittest

from harness import PYTHON, Cluster, until

POLICY = """version: 1
faults: { test_every: 1s }
"""
VERDICT = '{"validator":"%s","verdict":"%s","value":1,"unit":"x","evidence":"%s","seconds":1}'


class IdleTests(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(nodes=2, runtime="process")
        self.addCleanup(self.cluster.close)
        self.folder = os.path.join(self.cluster.base, "validators")
        os.mkdir(self.folder)
        policy = os.path.join(self.cluster.base, "policy.yaml")
        self.write(policy, POLICY, 0o600)
        self.cluster.dev_flags += ["--scheduler-flag=--policy=" + policy,
                                   "--agent-flag=--validators=" + self.folder]

    @staticmethod
    def write(path, text, mode=stat.S_IRWXU):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, mode)

    def validator(self, name, body):
        self.write(os.path.join(self.folder, "tide-validator-" + name), "#!/bin/sh\n" + body + "\n")

    def says(self, name, verdict, evidence="", code=0):
        line = VERDICT % (name, verdict, evidence)
        return "echo '%s'; exit %d" % (line, code)

    def validator_pids(self):
        """The pids of the validator that waits."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    if self.folder.encode() + b"/tide-validator-cpu" in file.read():
                        found.append(int(pid))
            except OSError:
                continue  # it has ended
        return found

    def under_test(self):
        return [node["name"] for node in self.cluster.get("/v1/nodes")["items"] if node["testing"]]

    def verdicts(self, node):
        return {each["validator"]: each["verdict"]
                for each in self.cluster.get("/v1/nodes/" + node)["verdicts"]}

    def test_a_job_breaks_it_off_and_it_is_taken_up_again(self):
        cluster = self.cluster
        go = os.path.join(cluster.work, "go")
        count = os.path.join(self.cluster.base, "links")
        self.validator("links", "echo x >> %s; %s" % (count, self.says("links", "pass")))
        self.validator("cpu", "until [ -e %s ]; do sleep 0.05; done; %s" % (go, self.says("cpu", "pass")))
        cluster.start()
        node = until(90, "a test to run", self.under_test)[0]
        until(30, "its validator to run", self.validator_pids)
        self.assertEqual(cluster.get("/v1/nodes/" + node)["state"], "ready")
        # Of both nodes, so that the tested one is among them.
        job = cluster.submit(cluster.spec("wants", [PYTHON, "-c", "import signal; signal.pause()"], 2, 1,
                                          placement={"zone": "cross-ok"}))
        cluster.await_state(job, "running")
        until(5, "the validator to be gone", lambda: not self.validator_pids())
        self.assertEqual(self.under_test(), [])
        until(10, "what was done to be known", lambda: self.verdicts(node).get("links") == "pass")
        self.assertNotIn("cpu", self.verdicts(node))
        with open(count, encoding="ascii") as file:
            done = len(file.readlines())
        self.write(go, "")
        cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {"reason": "test"}, ())
        cluster.await_over(job)
        until(90, "the rest of the test", lambda: self.verdicts(node).get("cpu") == "pass")
        self.assertGreaterEqual(done, 1)
        shown = cluster.tide("node", node).stdout
        self.assertIn("Tested:", shown)
        self.assertIn("cpu: pass", shown)

    def test_what_fails_takes_the_node_out_until_it_passes(self):
        cluster = self.cluster
        self.validator("memory", self.says("memory", "fail", "CPU 3, offset 4096: bit 7", 1))
        cluster.start()
        names = [node["name"] for node in cluster.get("/v1/nodes")["items"]]
        out = until(90, "a node to go out", lambda: [
            name for name in names if cluster.get("/v1/nodes/" + name)["state"] == "quarantined"])[0]
        node = cluster.get("/v1/nodes/" + out)
        self.assertIn("idle test failed: memory: CPU 3, offset 4096: bit 7", node["reason"])
        fault = next(each for each in cluster.get("/v1/faults")["items"] if each["node"] == out)
        self.assertEqual((fault["kind"], fault["device"], fault["covers"]), ("failed_test", "memory", ["memory"]))
        self.validator("memory", self.says("memory", "pass"))
        done = cluster.tide("validate", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        until(60, "it to be proven", lambda: cluster.get("/v1/nodes/" + out)["state"] == "probation")
        story = cluster.tide("node", out, "--faults").stdout
        self.assertIn("out of service because of fault %d" % fault["id"], story)
        self.assertIn("fault %d is over" % fault["id"], story)


if __name__ == "__main__":
    unittest.main()
