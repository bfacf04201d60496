"""Faults of a node's hardware, as its kernel log and its sysfs show them, and the way back."""

import os
import unittest

from harness import Cluster, until

NODE = "a-n1"
POLICY = """version: 1
faults: { return_after: 1s, leaf_wait: 0s }
"""
# What the machine of a test can prove: its GPU has fallen off the bus on paper only.
RULES = """version: 1
rules:
  - { kind: machine_check, meaning: for a test, action: drain_now, covers: [cpu] }
  - { kind: xid, code: 94, meaning: for a test, action: drain_now, covers: [cpu], repair: reset_gpu }
  - { kind: xid, code: 95, meaning: for a test, action: drain_now, covers: [cpu], repair: settle }
"""
# A site's repair: it waits for as long as the file `hold` is there.
REPAIR = """#!/bin/sh
echo "$*" >> %(base)s/repaired
echo begins >> %(base)s/story
while [ -e %(base)s/hold ]; do sleep 0.05; done
echo ends >> %(base)s/story
echo "GPU was reset"
"""
# Another one, which runs after it.
SETTLE = """#!/bin/sh
echo settles >> %(base)s/story
"""
# The validator of a node's CPU, which says when it begins.
CPU = """#!/bin/sh
echo validates >> %(base)s/story
exec %(cpu)s "$@"
"""


class Port:
    """A port of an InfiniBand adapter in a node's sysfs tree."""

    def __init__(self, cluster, node):
        self.folder = os.path.join(cluster.state, "sysfs", node, "class/infiniband/mlx5_0/ports/1")
        os.makedirs(os.path.join(self.folder, "counters"))
        self.write("rate", "400 Gb/sec (4X NDR)")
        self.write("link_layer", "InfiniBand")
        self.write("counters/link_downed", "0")
        self.write("state", "4: ACTIVE")
        self.write("phys_state", "5: LinkUp")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(text + "\n")
        os.rename(path + ".new", path)


class FaultsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(nodes=2, runtime="process")
        self.addCleanup(self.cluster.close)
        for name, text in (("policy", POLICY), ("fault-policy", RULES)):
            path = os.path.join(self.cluster.base, name + ".yaml")
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            self.cluster.dev_flags.append("--scheduler-flag=--%s=%s" % (name, path))
        self.cluster.dev_flags.append("--agent-flag=--validators=" + self.cluster.make_validators(
            {"reset_gpu": REPAIR, "settle": SETTLE}))
        self.cluster.start()

    def repaired(self):
        path = os.path.join(self.cluster.base, "repaired")
        if not os.path.exists(path):
            return []
        with open(path, encoding="ascii") as file:
            return file.read().splitlines()

    def node(self, name=NODE):
        return self.cluster.get("/v1/nodes/" + name)

    def faults(self, kind):
        return [each for each in self.cluster.get("/v1/faults")["items"] if each["kind"] == kind]

    def await_node(self, state, seconds=60, name=NODE):
        return until(seconds, "%s to be %s" % (name, state), lambda: (n := self.node(name))["state"] == state and n)

    def spool(self):
        with open(os.path.join(self.cluster.state, "agent-" + NODE, "faults.json"), encoding="utf-8") as file:
            return file.read()

    def say(self, line, name=NODE):
        with open(os.path.join(self.cluster.state, "kmsg", name), "a", encoding="ascii") as file:
            file.write(line + "\n")

    def test_a_cut_of_a_moment_is_noted_and_the_second_one_drains(self):
        cluster = self.cluster
        jobs = [cluster.submit(cluster.spec("job-%d" % n, ["sleep", "1000"], nodes=1)) for n in range(2)]
        until(60, "both to run", lambda: all(cluster.job(job)["state"] == "running" for job in jobs))
        port = Port(cluster, NODE)
        until(30, "the port to be watched", lambda: "mlx5_0" in self.spool())
        port.write("counters/link_downed", "1")
        until(30, "the cut to be seen", lambda: self.faults("link_flash"))
        self.assertEqual(self.node()["state"], "ready")
        self.assertEqual(self.faults("link_flash")[0]["action"], "count")
        port.write("counters/link_downed", "2")
        until(30, "the node to wait for its job", lambda: self.node()["state"] == "draining")
        self.assertEqual([len(cluster.job(job)["attempts"]) for job in jobs], [1, 1])
        for job in jobs:
            cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {"reason": "test"}, ())
        drained = self.await_node("drained")
        self.assertIn("cut again and again", drained["reason"])
        self.assertEqual(self.faults("link_unsteady")[0]["action"], "drain_after")

    def test_a_node_comes_back_by_proof_and_not_without(self):
        self.say("mce: [Hardware Error]: CPU 1: Machine Check Exception: 5 Bank 6: be00000000800400")
        self.await_node("probation", 120)
        self.assertTrue(self.faults("machine_check")[0]["cleared_at"])
        self.cluster.break_node(NODE)
        out = until(120, "the missing proof", lambda: (n := self.node())["state"] == "quarantined" and
                    "is not proven gone" in n["reason"] and n)
        fault = self.faults("xid")[0]
        self.assertIn("tide faults ack %d" % fault["id"], out["reason"])
        refused = self.cluster.tide("faults", "ack", str(fault["id"]))
        self.assertEqual(refused.returncode, 2)
        done = self.cluster.tide("faults", "ack", str(fault["id"]), "--reason", "GPU replaced")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.await_node("probation", 120)
        fault = self.faults("xid")[0]
        self.assertEqual(fault["vouched_why"], "GPU replaced")
        self.assertTrue(fault["cleared_at"])

    def test_a_gpu_is_reset_while_its_job_runs_elsewhere(self):
        cluster = self.cluster
        job = cluster.submit(cluster.spec("job", ["sleep", "1000"]))
        node = cluster.await_state(job, "running")["attempts"][-1]["tasks"][0]["node"]
        self.say("NVRM: Xid (PCI:0000:a1:00): 94, pid=1, name=python, Contained: error", node)
        back = self.await_node("probation", 120, node)
        moved = cluster.await_state(job, "running")
        self.assertNotEqual(moved["attempts"][-1]["tasks"][0]["node"], node)
        self.assertEqual(moved["failure_restarts"], 0)
        self.assertEqual(self.repaired(), ["0000:a1:00"])
        repair = [each for each in back["verdicts"] if each["validator"] == "repair-reset_gpu"][0]
        self.assertEqual((repair["verdict"], repair["evidence"]), ("pass", "GPU was reset"))
        story = cluster.tide("node", node, "--faults").stdout
        self.assertRegex(story, r"(?s)out of service .* repair ordered for fault \d+: reset_gpu\n.* is over\n")

    def test_a_repair_is_not_done_again_by_an_agent_that_was_killed_in_it(self):
        cluster = self.cluster
        hold = os.path.join(cluster.base, "hold")
        with open(hold, "w", encoding="ascii"):
            pass
        self.say("NVRM: Xid (PCI:0000:a1:00): 94, pid=1, name=python, Contained: error")
        until(60, "the repair to begin", self.repaired)
        cluster.kill_daemon("agent " + NODE)
        os.unlink(hold)
        self.await_node("probation", 120)
        self.assertEqual(self.repaired(), ["0000:a1:00"])

    def test_what_an_order_says_is_done_by_agents_that_are_killed_in_it_one_thing_at_a_time(self):
        cluster = self.cluster
        cpu = os.path.join(cluster.base, "validators", "tide-validator-cpu")
        text = CPU % {"base": cluster.base, "cpu": os.readlink(cpu)}
        os.unlink(cpu)
        with open(cpu, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o700)) as file:
            file.write(text)
        hold = os.path.join(cluster.base, "hold")
        with open(hold, "w", encoding="ascii"):
            pass
        self.say("\n".join("NVRM: Xid (PCI:0000:a1:00): %d, pid=1, name=python, Contained: error" % code
                           for code in (94, 95)))
        until(60, "the repair to begin", self.repaired)
        for agents in (1, 2):
            cluster.kill_daemon("agent " + NODE)
            until(30, "the new agent to see it",
                  lambda: cluster.log_of("agent-" + NODE).count("A repair runs that an earlier agent began") == agents)
        until(30, "the node to be heard", lambda: self.node()["connected"])
        self.assertEqual(self.node()["state"], "validating")
        os.unlink(hold)
        back = self.await_node("probation", 120)
        with open(os.path.join(cluster.base, "story"), encoding="ascii") as file:
            self.assertEqual(file.read().split(), ["begins", "ends", "settles", "validates"])
        said = {each["validator"]: each["verdict"] for each in back["verdicts"]}
        self.assertEqual((said["repair-reset_gpu"], said["repair-settle"]), ("warn", "pass"))


if __name__ == "__main__":
    unittest.main()
