"""Nodes sum a vector together: `tide validate --fabric` names the one that spoils it, and a node with a fault that only
this proves gone comes back beside idle ones."""

import json
import os
import unittest

from harness import Cluster, program, until

BAD = "a-n2"
# The validator of each agent: that of the bad node turns over a bit of a sum.
WRAPPER = """#!/bin/sh
names= node=
before=
for each in "$@"; do
  case $before in --names) names=$each ;; --node) node=$each ;; esac
  before=$each
done
mine=$(echo "$names" | cut -d, -f$((${node:-0} + 1)))
[ "$mine" != "%s" ] || set -- "$@" --plant flip
while [ "$mine" = "%s" ] && [ -e "%s" ]; do sleep 0.05; done
exec %s --bytes 1048576 "$@"
"""
POLICY = """version: 1
faults: { return_after: 1s }
"""
RULES = """version: 1
rules:
  - { kind: machine_check, meaning: for a test, action: drain_now, covers: [fabric] }
"""
BROKEN = "a-n1"


class FabricTest(unittest.TestCase):
    def start(self, bad):
        self.cluster = Cluster(nodes=4, runtime="process")
        self.addCleanup(self.cluster.close)
        folder = os.path.join(self.cluster.base, "validators")
        os.mkdir(folder)
        for name in ("cpu", "links"):
            os.symlink(program("tide-validator-" + name), os.path.join(folder, "tide-validator-" + name))
        path = os.path.join(folder, "tide-validator-fabric")
        with open(path, "w", encoding="ascii") as file:
            self.hold = os.path.join(self.cluster.base, "hold")
            file.write(WRAPPER % (bad, BROKEN, self.hold, program("tide-validator-fabric")))
        os.chmod(path, 0o755)
        self.cluster.dev_flags.append("--agent-flag=--validators=" + folder)
        for name, text in (("policy", POLICY), ("fault-policy", RULES)):
            path = os.path.join(self.cluster.base, name + ".yaml")
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            self.cluster.dev_flags.append("--scheduler-flag=--%s=%s" % (name, path))
        self.cluster.start()
        self.names = sorted(each["name"] for each in self.cluster.get("/v1/nodes")["items"])
        self.assertIn(BAD, self.names)

    def validate(self):
        return self.cluster.tide("validate", "--fabric", "-o", "json", *self.names, seconds=120)

    def verdicts(self, done):
        """By node, as printed: one object a line or several, one after the other."""
        decoder, text, found = json.JSONDecoder(), done.stdout, []
        while text.strip():
            node, end = decoder.raw_decode(text.lstrip())
            text = text.lstrip()[end:]
            found += [(node["name"], each) for each in node["verdicts"] if each["validator"] == "fabric"]
        return found

    def test_sound_nodes_pass_in_one_group(self):
        self.start("none")
        done = self.validate()
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        verdicts = self.verdicts(done)
        self.assertEqual([name for name, _ in verdicts], self.names)
        for name, verdict in verdicts:
            self.assertEqual(verdict["verdict"], "pass", verdict)
            self.assertGreater(verdict["value"], 0)
            self.assertIn("4 nodes", verdict["evidence"])
            self.assertIn(name + " to ", verdict["evidence"])
        self.assertEqual({each["state"] for each in self.cluster.get("/v1/nodes")["items"]}, {"ready"})
        for name in self.names:
            folder = os.path.join(self.cluster.state, "agent-" + name)
            self.assertNotIn("fabric-token", os.listdir(folder))

    def test_the_node_that_spoils_the_sum_is_named_and_no_other(self):
        self.start(BAD)
        done = self.validate()
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("tide: %s does not sum right" % BAD), done.stderr)
        # One run blames nobody, so nobody is out of service by it.
        self.assertEqual({each["state"] for each in self.cluster.get("/v1/nodes")["items"]}, {"ready"})
        wrong = [verdict for name, verdict in self.verdicts(done) if name == BAD]
        self.assertEqual({each["verdict"] for each in wrong}, {"skipped"})
        self.assertTrue(all("elements of the sum are wrong" in each["evidence"] for each in wrong), wrong)

    def test_a_node_that_is_not_free_is_said_before_any_begins(self):
        self.start("none")
        job = self.cluster.submit(self.cluster.spec("busy", ["sleep", "1000"]))
        self.cluster.await_state(job, "running")
        done = self.validate()
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("cannot be validated now", done.stderr)
        self.assertEqual({each["state"] for each in self.cluster.get("/v1/nodes")["items"]}, {"ready"})

    def break_and_await(self, state, what=""):
        with open(os.path.join(self.cluster.state, "kmsg", BROKEN), "a", encoding="ascii") as file:
            file.write("mce: [Hardware Error]: CPU 1: Machine Check Exception: 5 Bank 6: be00000000800400\n")
        return until(120, "%s to be %s" % (BROKEN, state), lambda: (n := self.cluster.node(BROKEN))["state"] == state and
                     what in (n["reason"] or "") and n)

    def check_peers(self):
        for name in self.names:
            node = self.cluster.node(name)
            if name != BROKEN:
                self.assertEqual((node["state"], node["faults"]), ("ready", 0), node)
                self.assertNotIn("fabric", [each["validator"] for each in node["verdicts"]])

    def test_a_broken_node_comes_back_beside_idle_ones(self):
        self.start("none")
        node = self.break_and_await("probation")
        sums = [each for each in node["verdicts"] if each["validator"] == "fabric"]
        self.assertEqual([each["verdict"] for each in sums], ["pass"])
        self.assertIn("4 nodes", sums[0]["evidence"])
        self.assertTrue(self.cluster.get("/v1/faults")["items"][0]["cleared_at"])
        self.check_peers()

    def test_a_job_takes_the_idle_nodes_at_once_and_it_is_said_what_is_missing(self):
        self.start("none")
        with open(self.hold, "w", encoding="ascii"):
            pass
        self.break_and_await("validating")
        until(30, "peers to be tested", lambda: all(self.cluster.node(name)["testing"] for name in self.names if name != BROKEN))
        spec = self.cluster.spec("gang", ["sleep", "1000"], nodes=3, placement={"zone": "cross-ok"})
        job = self.cluster.submit(spec)
        self.cluster.await_state(job, "running", seconds=20)
        self.assertEqual(self.cluster.node(BROKEN)["state"], "validating")
        os.unlink(self.hold)
        node = until(120, "the verdict", lambda: (n := self.cluster.node(BROKEN))["state"] == "quarantined" and n)
        self.assertIn("no idle node was there to sum with it", node["reason"])
        self.check_peers()
        self.assertEqual(len(self.cluster.job(job)["attempts"]), 1)


if __name__ == "__main__":
    unittest.main()
