"""The ledger of GPU time: every GPU second that jobs held is in one class, through a fault and its recovery."""

import unittest

from harness import Cluster, describe, until

GPUS = 8


class UsageTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(nodes=2, runtime="process")
        self.addCleanup(self.cluster.close)
        self.cluster.dev_flags += ["--agent-flag=--gpus=%d" % GPUS, "--agent-flag=--gpu-check=off"]
        self.cluster.start()

    def held(self, job):
        """GPU seconds from the times of the job's tasks alone."""
        return GPUS * sum(seconds(task["exited_at"]) - seconds(attempt["placed_at"])
                          for attempt in job["attempts"] for task in attempt["tasks"])

    def check_sum(self, time):
        self.assertAlmostEqual(sum(time.values()) - time["held"], time["held"], places=2, msg=time)

    def test_a_job_that_breaks_and_one_without_the_sdk(self):
        cluster = self.cluster
        job = cluster.submit(cluster.count_job(steps=400, nodes=1, ranks=1))
        cluster.await_job(job, "be seen to step", lambda now: now["attempts"] and now["attempts"][0]["stepped_at"])
        cluster.await_job(job, "save", lambda now: now["checkpoint"])
        broken = cluster.job(job)
        cluster.break_node(broken["attempts"][0]["tasks"][0]["node"])
        final = cluster.await_over(job, 120)
        self.assertEqual((final["outcome"], len(final["attempts"])), ("succeeded", 2), describe(final))
        time = final["gpu_seconds"]
        self.check_sum(time)
        self.assertAlmostEqual(time["held"], self.held(final), delta=0.1)
        for use in ("useful", "restart", "lost_to_faults"):
            self.assertGreater(time[use], 0, (use, time))
        for use in ("unsaved", "unknown", "recomputed", "lost_to_preemption"):
            self.assertEqual(time[use], 0, (use, time))
        first, second = final["attempts"]
        moments = [seconds(each) for each in (first["broke_at"], first["stop_at"], first["released_at"],
                                              second["placed_at"], second["stepped_at"])]
        self.assertEqual(moments, sorted(moments))
        shown = cluster.tide("show", job).stdout
        self.assertRegex(shown, r"attempt 1 broke: told to stop \S+ s after the fault, .*; \S+ s in all")

        plain = cluster.submit(cluster.spec("plain", ["sleep", "2"]))
        over = cluster.await_over(plain)
        self.check_sum(over["gpu_seconds"])
        self.assertGreater(over["gpu_seconds"]["unknown"], 0)
        self.assertEqual(over["gpu_seconds"]["useful"], 0)

        usage = cluster.get("/v1/usage?by=project")
        self.check_sum(usage["gpu_seconds"])
        self.assertAlmostEqual(usage["gpu_seconds"]["held"], time["held"] + over["gpu_seconds"]["held"], places=2)
        ledger = cluster.tide("usage", "--ledger")
        self.assertIn("USEFUL", ledger.stdout)
        self.assertIn("no step was seen", ledger.stderr)
        metrics = until(10, "the metrics", lambda: cluster.patiently("GET", "/metrics"))
        self.assertIn('tide_gpu_seconds_total{class="unknown"}', metrics)
        self.assertIn('tide_recovery_seconds_count{stage="whole"} 1', metrics)


def seconds(text):
    """Seconds of the day: 2026-01-31T12:00:01.5Z."""
    hours, minutes, rest = text.rstrip("Z").split("T")[1].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


if __name__ == "__main__":
    unittest.main()
