"""`tide validate --fabric`: nodes sum a vector together, and the one that spoils it is named."""

import json
import os
import unittest

from harness import Cluster, program

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
exec %s --bytes 1048576 "$@"
"""


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
            file.write(WRAPPER % (bad, program("tide-validator-fabric")))
        os.chmod(path, 0o755)
        self.cluster.dev_flags.append("--agent-flag=--validators=" + folder)
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


if __name__ == "__main__":
    unittest.main()
