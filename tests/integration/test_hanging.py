"""A rank that hangs in the kernel: its node is suspected and says why, its job goes on elsewhere, and the node works
again when the kernel lets go."""

import os
import unittest

from harness import Cluster, until
from hanging import HangingMount


@unittest.skipIf(os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK), "needs root and /dev/fuse")
class Hanging(unittest.TestCase):
    def test_a_job_goes_on_without_the_node_on_which_it_hangs(self):
        cluster = Cluster(nodes=2)
        self.addCleanup(cluster.close)
        cluster.dev_flags = ["--agent-flag=--stuck-after=1"]
        cluster.start()
        try:
            away = HangingMount(os.path.join(cluster.base, "away"))
        except OSError as error:
            self.skipTest("no FUSE file system can be mounted here: %s" % error)
        self.addCleanup(away.close)
        # The first attempt asks the server that is away; the second does not.
        script = 'if [ "$TIDE_ATTEMPT" = 1 ]; then cat /data/file; else echo went on; fi'
        job = cluster.submit({"version": 1, "name": "hangs", "command": ["/bin/sh", "-c", script],
                              "suspend": {"notice": "1s"},
                              "mounts": [{"source": away.path, "target": "/data", "read_only": True}],
                              "resources": {"nodes": 1, "ranks_per_node": 1}})
        until(30, "a rank that hangs", away.hanging.is_set)
        node = cluster.await_state(job, "running")["attempts"][-1]["tasks"][0]["node"]
        cluster.patiently("POST", "/v1/nodes/%s/drain" % node, {"reason": "maintenance"})
        final = cluster.await_over(job)
        self.assertEqual(final["outcome"], "succeeded", final["detail"])
        self.assertEqual(cluster.logs(job), "went on\n")
        self.assertNotEqual(final["attempts"][-1]["tasks"][0]["node"], node)
        self.assertEqual([p.argv[0] for p in cluster.ranks(job)], ["cat"])  # still there, and harmless
        away.release()
        until(30, "the rank to go", lambda: not cluster.ranks(job))

    def test_a_job_whose_ranks_ended_well_has_ended_well(self):
        cluster = Cluster(nodes=2)
        self.addCleanup(cluster.close)
        cluster.dev_flags = ["--agent-flag=--stuck-after=1"]
        cluster.start()
        try:
            away = HangingMount(os.path.join(cluster.base, "away"))
        except OSError as error:
            self.skipTest("no FUSE file system can be mounted here: %s" % error)
        self.addCleanup(away.close)
        # A child that reads ahead hangs; the rank itself waits until it does, and is done.
        script = "cat /data/file & until [ -e go ]; do sleep 0.05; done; echo trained"
        job = cluster.submit({"version": 1, "name": "done", "command": ["/bin/sh", "-c", script],
                              "workdir": cluster.work,
                              "mounts": [{"source": away.path, "target": "/data", "read_only": True}],
                              "resources": {"nodes": 1, "ranks_per_node": 1}})
        until(30, "a child that hangs", away.hanging.is_set)
        with open(os.path.join(cluster.work, "go"), "w", encoding="ascii"):
            pass
        final = cluster.await_over(job)
        self.assertEqual((final["outcome"], len(final["attempts"])), ("succeeded", 1), final["detail"])
        self.assertEqual(cluster.logs(job), "trained\n")
        cluster.await_node(final["attempts"][0]["tasks"][0]["node"], ("suspect",))

    def test_a_checkpoint_folder_that_does_not_answer_keeps_jobs_waiting_and_agents_well(self):
        cluster = Cluster(nodes=2)
        self.addCleanup(cluster.close)
        cluster.start()
        try:
            away = HangingMount(os.path.join(cluster.state, "checkpoints"))
        except OSError as error:
            self.skipTest("no FUSE file system can be mounted here: %s" % error)
        self.addCleanup(away.close)
        job = cluster.submit(cluster.spec("waits", ["true"]))
        waiting = cluster.await_job(job, "say why it waits", lambda found: "could not start" in (found["detail"] or ""))
        self.assertRegex(waiting["detail"], "the checkpoint folder .*/%s-.* does not answer" % job)
        for node in cluster.get("/v1/nodes")["items"]:
            self.assertIn(node["state"], ("ready", "probation"), node["reason"])
        away.close()
        final = cluster.await_over(job, 120)
        self.assertEqual((final["outcome"], final["failure_restarts"]), ("succeeded", 0), final["detail"])

    def test_the_node_says_why_it_is_not_used(self):
        cluster = Cluster(nodes=2)
        self.addCleanup(cluster.close)
        cluster.dev_flags = ["--agent-flag=--stuck-after=1"]
        cluster.start()
        try:
            away = HangingMount(os.path.join(cluster.base, "away"))
        except OSError as error:
            self.skipTest("no FUSE file system can be mounted here: %s" % error)
        self.addCleanup(away.close)
        job = cluster.submit({"version": 1, "name": "hangs", "command": ["/bin/cat", "/data/file"],
                              "mounts": [{"source": away.path, "target": "/data", "read_only": True}],
                              "resources": {"nodes": 1, "ranks_per_node": 1}})
        until(30, "a rank that hangs", away.hanging.is_set)
        node = cluster.await_state(job, "running")["attempts"][-1]["tasks"][0]["node"]
        cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {})
        self.assertEqual(cluster.await_over(job)["outcome"], "cancelled")
        suspect = cluster.await_node(node, ("suspect",))
        self.assertRegex(suspect["reason"], r"pid \d+ \(cat, state D\) does not die \(%s\)" % job)
        shown = cluster.tide("nodes").stdout
        self.assertIn("does not die", shown)
        away.release()
        cluster.await_node(node, ("ready", "probation"))


if __name__ == "__main__":
    unittest.main()
