"""GPUs of a node: fewer than declared take it out of service, and their return, proven, brings it back. A job that
counts on them does not start before."""

import os
import unittest

from harness import Cluster, program, until

NODE = "a-n1"
POLICY = """version: 1
faults: { return_after: 1s }
"""
# A site that keeps nodes in service with fewer GPUs.
ONLY_COUNTED = """version: 1
rules:
  - { kind: gpu_missing, meaning: "fewer GPUs than declared", action: count }
"""
# A machine without GPUs can prove its CPU alone.
RESET = """version: 1
rules:
  - { kind: gpu_memory, meaning: for a test, action: drain_now, covers: [cpu], repair: reset_gpu }
"""
# Counts the observers that have GPUs open, and mends the memory.
RESET_GPU = """#!/bin/sh
pgrep -f -- '--gpus --nvml' | wc -l > %(base)s/observers
mv %(base)s/gpus.well %(base)s/gpus
"""
DECLARED = 8
STAND_IN = os.path.join(os.path.dirname(program("tide")), "..", "tests", "tide-stand-in-nvml.so")


class GpusTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(nodes=1, runtime="process")
        self.addCleanup(self.cluster.close)
        policy = os.path.join(self.cluster.base, "policy.yaml")
        with open(policy, "w", encoding="ascii") as file:
            file.write(POLICY)
        self.gpus = os.path.join(self.cluster.base, "gpus")
        self.cluster.env["TIDE_STAND_IN_NVML"] = self.gpus
        self.cluster.dev_flags += [
            "--scheduler-flag=--policy=" + policy, "--agent-flag=--gpus=%d" % DECLARED,
            "--agent-flag=--gpu-check=on", "--agent-flag=--nvml=" + STAND_IN]

    def found(self, count, more="", name="gpus"):
        path = os.path.join(self.cluster.base, name)
        with open(path + ".new", "w", encoding="ascii") as file:
            for bus in range(count):
                file.write("gpu a%d width=16 max_width=16 ecc=0 %s\n" % (bus, more))
        os.rename(path + ".new", path)

    def rules(self, text):
        path = os.path.join(self.cluster.base, "fault-policy.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        self.cluster.dev_flags.append("--scheduler-flag=--fault-policy=" + path)

    def link(self):
        """A PCIe link in the node's sysfs, which the validator `links` finds well."""
        folder = os.path.join(self.cluster.state, "sysfs", NODE, "bus/pci/devices/0000:a0:00.0")
        os.makedirs(folder)
        for name, text in (("class", "0x030200"), ("vendor", "0x10de"), ("current_link_width", "16"),
                           ("max_link_width", "16")):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text + "\n")

    def fault(self, kind):
        found = [each for each in self.cluster.get("/v1/faults")["items"] if each["kind"] == kind]
        return found[0] if found else None

    def node(self, what, look, seconds=60):
        def check():
            node = self.cluster.get("/v1/nodes/" + NODE)
            return look(node) and node
        return until(seconds, NODE + " " + what, check)

    def test_a_node_with_a_gpu_less_is_out_until_it_has_all_and_proves_its_links(self):
        cluster = self.cluster
        self.found(DECLARED)
        cluster.start()
        self.link()
        job = cluster.submit(cluster.spec("job", ["sleep", "1000"], nodes=1))
        cluster.await_state(job, "running")
        self.assertIsNone(self.fault("gpu_missing"))
        self.found(DECLARED - 1)
        out = self.node("to be out", lambda node: node["state"] not in ("ready", "probation"))
        self.assertIn("gpu missing on 0000:a7:00 (fewer GPUs than declared)", out["reason"])
        fault = self.fault("gpu_missing")
        self.assertEqual(fault["text"], "7 of 8 declared GPUs found; gone: 0000:a7:00 (serial 16501210000a7)")
        self.assertEqual((fault["device"], fault["action"]), ("0000:a7:00", "drain_now"))
        # Its job has left it, and has nowhere else to go.
        until(60, "the job to wait", lambda: cluster.job(job)["state"] == "queued")
        self.node("to wait for its GPU", lambda node: "seen" in node["reason"] or node["state"] == "quarantined")
        self.found(DECLARED)
        self.node("to be back", lambda node: node["state"] == "probation", 120)
        self.assertTrue(self.fault("gpu_missing")["cleared_at"])
        cluster.await_state(job, "running")

    def test_a_job_does_not_start_where_a_gpu_is_missing_and_loses_no_retry(self):
        cluster = self.cluster
        self.rules(ONLY_COUNTED)
        self.found(DECLARED - 1)
        cluster.start()
        until(60, "the missing GPU to be counted", lambda: self.fault("gpu_missing"))
        self.assertEqual(cluster.get("/v1/nodes/" + NODE)["state"], "ready")
        without = cluster.submit(cluster.spec("without", ["sleep", "1000"]))
        cluster.await_state(without, "running")
        cluster.patiently("POST", "/v1/jobs/%s/cancel" % without, {"reason": "end of the test"})
        job = cluster.submit(cluster.spec("job", ["sleep", "1000"], resources={
            "nodes": 1, "gpus_per_node": DECLARED, "ranks_per_node": 1}))
        detail = until(60, "the start to be refused", lambda: cluster.job(job)["detail"])
        self.assertEqual(detail, "a-n1 could not start it: a-n1 is not fit to run it: 7 of 8 declared GPUs found")
        self.found(DECLARED)
        cluster.await_state(job, "running")
        self.assertEqual(cluster.job(job)["failure_restarts"], 0)

    def test_a_row_that_cannot_be_remapped_takes_it_out(self):
        self.found(DECLARED)
        self.cluster.start()
        until(30, "the GPUs to be watched", lambda: "0000:a7:00" in self.spool())
        self.found(DECLARED, "remap_failed=1")
        self.node("to be out", lambda node: node["state"] not in ("ready", "probation"))
        fault = self.fault("gpu_memory")
        self.assertEqual((fault["text"], fault["action"]), ("a row of its memory could not be remapped", "drain_now"))

    def test_a_gpu_is_reset_while_no_observer_has_it_open(self):
        cluster = self.cluster
        self.rules(RESET)
        cluster.dev_flags.append("--agent-flag=--validators=" + cluster.make_validators({"reset_gpu": RESET_GPU}))
        self.found(DECLARED, "remap_failed=0", "gpus.well")
        self.found(DECLARED)
        cluster.start()
        until(30, "the GPUs to be watched", lambda: "0000:a7:00" in self.spool())
        self.found(DECLARED, "remap_failed=1")
        until(60, "the fault", lambda: self.fault("gpu_memory"))
        self.node("to be back", lambda node: node["state"] == "probation", 120)
        with open(os.path.join(cluster.base, "observers"), encoding="ascii") as file:
            self.assertEqual(file.read(), "0\n")

    def spool(self):
        with open(os.path.join(self.cluster.state, "agent-" + NODE, "faults.json"), encoding="utf-8") as file:
            return file.read()


if __name__ == "__main__":
    unittest.main()
