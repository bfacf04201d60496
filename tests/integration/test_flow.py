"""What people do with jobs and nodes, through the HTTP API and through `tide`."""

import json
import os
import re
import shutil
import unittest

from harness import PYTHON, SERVING, ClusterTest, Refused, describe, until

SLEEP = "import time; print('asleep', flush=True); time.sleep(1000)"  # tidy: poll (the job sleeps, the test does not)

OLD_SCRIPT = """
import hfai, os, signal, sys
if hfai.client.get_whole_life_state() == 5:
    sys.exit(0)
print("waits", flush=True)
if os.environ["RANK"] != "0":
    signal.pause()
while not hfai.client.receive_suspend_command():
    pass
hfai.client.set_whole_life_state(5)
hfai.client.go_suspend()
"""


class Flow(ClusterTest):
    def setUp(self):
        self.jobs = []
        self.addCleanup(self.clear)
        self.cluster.await_nodes()

    def clear(self):
        for job in self.jobs:
            self.cluster.end_job(job)

    def submit(self, spec, key=None):
        job = self.cluster.submit(spec, key)
        if job not in self.jobs:
            self.jobs.append(job)
        return job

    def post(self, path, **body):
        return self.cluster.patiently("POST", path, body)

    def good(self, *args, **more):
        done = self.cluster.tide(*args, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def assert_resumed(self, job, final):
        """It ended well, and what was saved was not done again."""
        self.assertEqual(final["outcome"], "succeeded", describe(final))
        for left, later in zip(final["attempts"], final["attempts"][1:]):
            first = self.cluster.logs(job, attempt=later["epoch"]).splitlines()[0]
            self.assertEqual(first, "rank 0 of %d starts after step %d" % (
                final["spec"]["resources"]["nodes"] * final["spec"]["resources"]["ranks_per_node"],
                left["stop_step"]))

    # Suspend, resume, cancel

    def test_suspend_and_resume_over_http(self):
        job = self.submit(self.cluster.count_job())
        self.cluster.await_step(job, 10)
        self.post("/v1/jobs/%s/suspend" % job, reason="lunch")
        held = self.cluster.await_state(job, "held")
        self.assertEqual(self.cluster.ranks(job), [])
        self.assertEqual(held["suspensions"], 1)
        self.assertIn("lunch", json.dumps(self.cluster.get("/v1/jobs/%s/why" % job)))
        self.assertTrue(all(n["job"] is None for n in self.cluster.get("/v1/nodes")["items"]))
        self.post("/v1/jobs/%s/resume" % job)
        self.assert_resumed(job, self.cluster.await_over(job))

    def test_a_job_whose_checkpoints_are_gone_does_not_begin_anew(self):
        """As when the file system it saves in is not mounted."""
        job = self.submit(self.cluster.count_job())
        self.cluster.await_step(job, 10)
        self.post("/v1/jobs/%s/suspend" % job, reason="lunch")
        saved = self.cluster.await_state(job, "held")["checkpoint"]["step"]
        folder = self.cluster.checkpoints(job)
        for name in os.listdir(folder):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        self.post("/v1/jobs/%s/resume" % job)
        final = self.cluster.await_over(job)
        self.assertEqual((final["outcome"], len(final["attempts"])), ("failed", 2), describe(final))
        # The first rank that fails ends the others, some before they have read the folder.
        said = "".join(self.cluster.logs(job, rank=str(rank), attempt=2) for rank in range(4))
        self.assertIn("this job has saved step %d, but there is none in" % saved, said)

    def test_suspend_and_resume_by_cli(self):
        cluster = self.cluster
        with open(cluster.base + "/job.json", "w", encoding="utf-8") as file:
            json.dump(cluster.count_job(name="by-cli"), file)
        job = self.good("submit", "job.json").strip()
        self.jobs.append(job)
        self.good("wait", job, "--for", "state=running", "--timeout", "30s")
        cluster.await_step(job, 10)
        self.good("suspend", "by-cli", "--reason", "lunch")
        self.good("wait", job, "--for", "state=held", "--timeout", "30s")
        self.assertIn("lunch", self.good("why", job))
        late = cluster.tide("wait", job, "--for", "state=running", "--timeout", "1s")
        self.assertEqual(late.returncode, 8, late.stderr)
        self.good("resume", job)
        self.good("wait", job, "--for", "state=succeeded", "--timeout", "60s")
        self.assert_resumed(job, cluster.job(job))
        shown = self.good("show", job)
        self.assertIn("by-cli", shown)
        newest = json.loads(self.good("checkpoints", job, "-o", "json"))["items"][0]
        self.assertEqual((newest["step"], newest["state"]), (150, "recorded"))
        listed = json.loads(self.good("checkpoints", job, "--dir", cluster.checkpoints(job), "-o", "json"))["items"]
        self.assertEqual({(item["job"], item["ranks"], item["state"]) for item in listed}, {(job, 4, "committed")})
        self.assertEqual(listed[0]["step"], 150)
        self.assertTrue(listed[0]["id"].startswith(newest["id"]), (listed[0], newest))

    def test_a_job_goes_back(self):
        """To a step that is there, on from what it saved after that, to one that is not, and to the beginning."""
        job = self.submit(self.cluster.count_job(steps=5000))  # none of its attempts comes to the end
        self.cluster.await_step(job, 40)
        self.good("suspend", job)
        last = self.cluster.await_state(job, "held")["checkpoint"]["step"]
        begins = []

        def go_back(*how):
            epoch = len(self.cluster.job(job)["attempts"]) + 1
            self.good("resume", job, *how)
            until(30, "the attempt", lambda: len(self.cluster.job(job)["attempts"]) == epoch)
            first = until(30, "its first line", lambda: self.cluster.logs(job, attempt=epoch).splitlines()[:1])
            begins.append(first[0].split()[-1])

        go_back("--step", str(last - last % 25))
        self.cluster.await_step(job, last - last % 25 + 1)
        self.good("suspend", job)
        saved = self.cluster.await_state(job, "held")["checkpoint"]["step"]
        go_back()
        self.good("suspend", job)
        self.cluster.await_state(job, "held")
        self.good("resume", job, "--step", "7")
        held = self.cluster.await_job(job, "be held again", lambda now: now["state"] == "held" and "step 7" in now["detail"])
        self.assertIn("no whole checkpoint of step 7", held["detail"])
        go_back("--from-scratch")
        self.assertEqual(begins, [str(last - last % 25), str(saved), "0"])
        self.good("suspend", job)
        self.cluster.await_state(job, "held")
        refused = self.cluster.tide("resume", job, "--step", "-3")
        self.assertEqual(refused.returncode, 2, refused.stderr)

    def test_a_script_of_the_hai_platform_is_suspended(self):
        """Its rank 0 alone asks and goes; the others are somewhere that they do not come back from."""
        job = self.submit(self.cluster.spec("old", [PYTHON, "-c", OLD_SCRIPT], nodes=2, ranks=2))
        self.cluster.await_state(job, "running")
        until(30, "all ranks to start", lambda: all(
            "waits" in self.cluster.logs(job, rank=str(rank)) for rank in range(4)))
        self.post("/v1/jobs/%s/suspend" % job, reason="lunch")
        held = self.cluster.await_state(job, "held")
        self.assertEqual({task["exit"]["reason"] for task in held["attempts"][0]["tasks"]}, {"suspended"}, describe(held))
        self.post("/v1/jobs/%s/resume" % job)
        final = self.cluster.await_over(job)
        self.assertEqual((final["outcome"], len(final["attempts"])), ("succeeded", 2), describe(final))

    def test_suspend_while_queued(self):
        block = self.submit(self.cluster.count_job(steps=5000, nodes=4, ranks=1, placement={"zone": "cross-ok"}))
        self.cluster.await_state(block, "running")
        job = self.submit(self.cluster.count_job(steps=5))
        self.assertEqual(self.cluster.await_state(job, "queued")["attempts"], [])
        self.post("/v1/jobs/%s/suspend" % job, reason="not yet")
        self.cluster.await_state(job, "held")
        self.post("/v1/jobs/%s/cancel" % block)
        self.cluster.await_over(block)
        self.assertEqual(self.cluster.job(job)["state"], "held")
        self.post("/v1/jobs/%s/resume" % job)
        self.assertEqual(self.cluster.await_over(job)["outcome"], "succeeded")

    def test_agents_order_periodic_saves(self):
        spec = self.cluster.count_job(steps=100000, checkpoint={"every": "1s"})
        spec["command"][-1] = "0"  # it saves nothing of its own accord
        job = self.submit(spec)
        steps = [0]
        for _ in range(3):
            now = self.cluster.await_job(
                job, "save", lambda now: now["checkpoint"] and now["checkpoint"]["step"] > steps[-1])
            self.assertEqual((now["state"], len(now["attempts"])), ("running", 1), describe(now))
            steps.append(now["checkpoint"]["step"])
        self.assertIn(now["oldest_tick"]["phase"], ("training", "waiting", "saving"))
        self.assertRegex(self.good("show", job), r"last tick: +\S+ ago, \w+")
        self.post("/v1/jobs/%s/suspend" % job, reason="between two saves")
        held = self.cluster.await_state(job, "held")
        self.assertEqual(held["checkpoint"]["step"], held["attempts"][0]["stop_step"])

    def test_saves_that_fail_are_seen(self):
        """In the list, in the job, in the metrics and with the system's reason; no more once one is committed."""
        code = ("import array, os, resource, time, tide\n"
                "run = tide.attach()\n"
                "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))\n"
                "block = array.array('d', bytes(1 << 22))\n"
                "ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={'m': {'w': block}}, every=10)\n"
                "go, step = run.checkpoint_dir + '/go', ck.resume()\n"
                "while True:\n"
                "    step += 1\n"
                "    if os.path.exists(go) and len(block) > 1: del block[1:]\n"
                "    if ck.tick(step): run.exit()\n"
                "    time.sleep(0.01)\n")  # tidy: poll (the job sleeps, the test does not)
        job = self.submit(self.cluster.spec("full", [PYTHON, "-c", code]))
        failing = self.cluster.await_job(job, "fail to save", lambda now: (now["failed_saves"] or {}).get("count", 0) > 1)
        self.assertEqual({**failing["failed_saves"], "count": 2}, {"count": 2, "errno": "EFBIG", "message": "File too large", "task": 0})
        self.assertRegex(self.good("ps"), r"\d+ saves failed: File too large")
        self.assertRegex(self.good("show", job), r"saves: +\d+ failed one after the other: File too large \(task 0 on a-n\d; its log")
        metrics = self.cluster.patiently("GET", "/metrics")
        self.assertIn('tide_jobs_failing_saves{errno="EFBIG"} 1', metrics)
        open(os.path.join(self.cluster.checkpoints(job), "go"), "w", encoding="utf-8").close()
        saved = self.cluster.await_job(job, "save", lambda now: now["failed_saves"] is None and now["checkpoint"])
        self.assertEqual(saved["state"], "running", describe(saved))
        self.good("cancel", job)

    def test_cancel(self):
        job = self.submit(self.cluster.count_job(steps=5000))
        self.cluster.await_step(job, 5)
        self.good("cancel", job, "--reason", "mistake")
        final = self.cluster.await_over(job)
        self.assertEqual(final["outcome"], "cancelled")
        self.assertEqual(self.cluster.ranks(job), [])
        again = self.cluster.tide("resume", job)
        self.assertEqual(again.returncode, 5, again.stderr)
        self.assertIn(job, again.stderr)

    def test_same_key_is_the_same_job(self):
        spec = self.cluster.spec("once", ["true"])
        first = self.submit(spec, key="k-1")
        self.assertEqual(self.submit(spec, key="k-1"), first)
        self.cluster.kill_daemon("scheduler")
        self.assertEqual(self.submit(spec, key="k-1"), first)
        with self.assertRaises(Refused) as caught:
            self.submit(self.cluster.spec("other", ["true"]), key="k-1")
        self.assertEqual(caught.exception.status, 422)
        self.assertIn(first, caught.exception.problem["detail"])

    # Nodes

    def test_drain_moves_the_job(self):
        cluster = self.cluster
        job = self.submit(cluster.count_job())
        node = cluster.await_step(job, 10)["attempts"][-1]["tasks"][0]["node"]
        self.good("drain", node, "--reason", "fan tray")
        moved = cluster.await_job(job, "run elsewhere", lambda now: len(now["attempts"]) == 2)
        self.assertNotIn(node, [t["node"] for t in moved["attempts"][-1]["tasks"]])
        drained = cluster.await_node(node, ["drained"])
        self.assertEqual((drained["job"], drained["reason"]), (None, "fan tray"))
        self.assert_resumed(job, cluster.await_over(job))
        self.good("undrain", node)
        cluster.await_node(node, SERVING)

    def test_a_deadline_outlives_the_scheduler(self):
        cluster = self.cluster
        job = self.submit(cluster.count_job(steps=600))
        node = cluster.await_step(job, 10)["attempts"][-1]["tasks"][0]["node"]
        self.good("drain", node, "--deadline", "8s", "--reason", "new cable")
        cluster.kill_daemon("scheduler")
        draining = cluster.await_node(node, ["draining"])
        self.assertIsNotNone(draining["jobs_leave_at"])
        self.assertEqual(len(cluster.job(job)["attempts"]), 1)
        self.assertIn("jobs leave ", self.good("nodes", node))
        cluster.await_job(job, "run elsewhere", lambda now: len(now["attempts"]) == 2)
        self.assertIsNone(cluster.await_node(node, ["drained"])["jobs_leave_at"])
        self.assert_resumed(job, cluster.await_over(job))
        self.good("undrain", node)
        cluster.await_node(node, SERVING)

    def test_a_maintenance_begins_and_ends_by_itself(self):
        cluster = self.cluster
        self.good("drain", "a-n1", "--from", "2h", "--until", "4h", "--reason", "new fans")
        self.assertIn("maintenance in 1h59m", self.good("node", "a-n1"))
        self.good("undrain", "a-n1")
        self.assertIsNone(cluster.node("a-n1")["maintenance"])
        self.good("drain", "a-n1", "--from", "1s", "--until", "5s", "--reason", "new fans")
        drained = cluster.await_node("a-n1", ["drained"])
        self.assertIn("new fans", drained["reason"])
        cluster.kill_daemon("scheduler")
        self.assertIsNone(cluster.await_node("a-n1", SERVING)["maintenance"])
        for times in (["--until", "2020-01-01"], ["--from", "4h", "--until", "2h"], ["--deadline", "0s"],
                      ["--deadline", "9999-12-31T00:00:00Z"], ["--deadline", "9000d"]):
            refused = cluster.tide("drain", "a-n1", *times, "--reason", "x")
            self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertEqual(cluster.node("a-n1")["state"], "ready")

    def test_validate(self):
        done = self.cluster.tide("validate", "b-n2", "--reason", "test")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("cpu", "storage"):
            self.assertRegex(done.stdout, r"b-n2 +%s +\S+ +pass|b-n2 +%s +pass" % (name, name))
        verdicts = {v["validator"]: v["verdict"] for v in self.cluster.node("b-n2")["verdicts"]}
        self.assertEqual(verdicts, {"links": "skipped", "cpu": "pass", "memory": "pass", "storage": "pass"},
                         "the folder that stands for its /sys shows no links")

    def test_why_a_job_waits(self):
        block = self.submit(self.cluster.count_job(steps=5000, priority="high", name="block"))
        self.cluster.await_state(block, "running")
        wide = self.submit(self.cluster.count_job(steps=5, nodes=4, ranks=1, name="wide",
                                                  placement={"zone": "cross-ok"}))
        why = self.cluster.get("/v1/jobs/%s/why" % wide)
        self.assertEqual(why["state"], "queued")
        self.assertTrue(why["reasons"], why)
        for reason in why["reasons"]:
            self.assertRegex(reason["code"], r"^[a-z_]+(\.[a-z_]+)*$")
            self.assertTrue(reason["message"])
        text = self.good("why", wide)
        self.assertIn(why["reasons"][0]["message"], text)

    # Programs of any kind

    def test_why_a_job_waits_follows_what_others_do(self):
        wide = self.cluster.spec("wide", [PYTHON, "-c", SLEEP], nodes=4, placement={"zone": "cross-ok"})
        self.cluster.await_state(self.submit(wide), "running")
        first, second = self.submit(wide), self.submit(wide)

        def stands_before():
            reasons = self.cluster.job(second)["reasons"]
            return [each["message"] for each in reasons if each["code"] == "order.ahead"]

        until(20, "%s to stand before %s" % (first, second), lambda: any(first in each for each in stands_before()))
        self.post("/v1/jobs/%s/cancel" % first)
        until(20, "nobody to stand before it", lambda: not stands_before())

    def test_without_the_sdk(self):
        """It gets the signal, leaves as it likes, and is started again."""
        code = ("import signal, sys, time\n"
                "def leave(*_): print('asked to leave', flush=True); sys.exit(3)\n"
                "signal.signal(signal.SIGTERM, leave)\nprint('asleep', flush=True)\ntime.sleep(1000)\n")
        job = self.submit(self.cluster.spec("plain", [PYTHON, "-c", code], 2, 1, priority="low"))
        self.cluster.await_state(job, "running")
        until(20, "its first line", lambda: "asleep" in self.cluster.logs(job))
        urgent = self.submit(self.cluster.count_job(steps=5, nodes=4, ranks=1, priority="high", name="urgent",
                                                    placement={"zone": "cross-ok"}))
        self.assertEqual(self.cluster.await_over(urgent)["outcome"], "succeeded")
        again = self.cluster.await_job(job, "run again", lambda now: now["state"] == "running" and
                                       len(now["attempts"]) == 2)
        self.assertEqual(again["attempts"][0]["end_reason"], "preempted", describe(again))
        self.assertEqual(again["failure_restarts"], 0)
        self.assertIn("asked to leave", self.cluster.logs(job, attempt=again["attempts"][0]["epoch"]))

    def test_exit_0_after_the_signal(self):
        """A script of a Slurm user: it saves on its signal and exits 0, which once counted as success. It comes back."""
        code = ("import os, signal, sys\n"
                "file = os.environ['TIDE_CHECKPOINT_DIR'] + '/step'\n"
                "step = int(open(file).read()) if os.path.exists(file) else 0\n"
                "def leave(*_):\n"
                "    if os.environ['RANK'] == '0': open(file, 'w').write(str(step + 1))\n"
                "    sys.exit(0)\n"
                "signal.signal(signal.SIGUSR1, leave)\n"
                "print('from', step, flush=True)\n"
                "while step < 2: signal.pause()\n")

        def start(name, **suspend):
            job = self.submit(self.cluster.spec(name, [PYTHON, "-c", code], 2, 2, priority="low",
                                                suspend={"signal": "SIGUSR1", **suspend}))
            self.await_line(job, "from 0")
            return job

        job = start("slurm")
        self.good("suspend", job)
        held = self.cluster.await_state(job, "held")
        self.assertEqual(len(held["attempts"]), 1)
        self.good("resume", job)
        self.await_line(job, "from 1")
        urgent = self.submit(self.cluster.count_job(steps=5, nodes=4, ranks=1, priority="high", name="urgent",
                                                    placement={"zone": "cross-ok"}))
        self.assertEqual(self.cluster.await_over(urgent)["outcome"], "succeeded")
        final = self.cluster.await_over(job)
        self.assertEqual([attempt["end_reason"] for attempt in final["attempts"][:2]], ["held", "preempted"], describe(final))
        self.assertEqual((final["outcome"], len(final["attempts"])), ("succeeded", 3), describe(final))

        job = start("cut-short", exit_ok="done")
        self.good("suspend", job)
        final = self.cluster.await_over(job)
        self.assertEqual((final["outcome"], len(final["attempts"])), ("succeeded", 1), describe(final))

    def await_line(self, job, line):
        """Waits until all four ranks of a job of the newest attempt have printed it."""
        self.cluster.await_state(job, "running")
        until(30, line, lambda: all(line in self.cluster.logs(job, rank=str(rank)) for rank in range(4)))

    def test_failing_says_its_last_line(self):
        spec = self.cluster.spec("broken", [PYTHON, "-c", "print('fine'); raise ValueError('no such data set')"])
        job = self.submit(spec)
        final = self.cluster.await_over(job)
        self.assertEqual((final["outcome"], final["exit_code"]), ("failed", 1), describe(final))
        self.assertIn("ValueError: no such data set", final["detail"])
        self.assertEqual(len(final["attempts"]), 1)
        with open(self.cluster.base + "/broken.json", "w", encoding="utf-8") as file:
            json.dump(spec, file)
        done = self.cluster.tide("submit", "--wait", "broken.json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("no such data set", done.stderr)

    def test_missing_program(self):
        final = self.cluster.await_over(self.submit(self.cluster.spec("gone", ["/no/such/program"])))
        self.assertEqual(final["outcome"], "failed")
        self.assertIn("/no/such/program", final["detail"])

    def test_retry_after_failure(self):
        job = self.submit(self.cluster.spec("retried", [PYTHON, "-c", "raise SystemExit(7)"],
                                            retry={"failure": 2, "backoff": "1s"}))
        final = self.cluster.await_over(job)
        self.assertEqual((final["outcome"], final["exit_code"]), ("failed", 7), describe(final))
        self.assertEqual((len(final["attempts"]), final["failure_restarts"]), (3, 2), describe(final))

    def test_max_runtime(self):
        job = self.submit(self.cluster.spec("long", [PYTHON, "-c", SLEEP], max_runtime="2s"))
        final = self.cluster.await_over(job)
        self.assertEqual(final["outcome"], "failed", describe(final))
        self.assertRegex(final["detail"], "(?i)runtime|limit")
        self.assertLess(final["run_s"], 20)

    # After other jobs, and in one's own order

    def test_after(self):
        """A chain starts link by link; where one fails, what waits for its success ends, and the rest goes on."""
        cluster = self.cluster
        first = self.submit(cluster.spec("first", [PYTHON, "-c", SLEEP]))
        good = [PYTHON, "-c", "print('done')"]
        then = self.submit(cluster.spec("then", good, after=[first]))
        last = self.submit(cluster.spec("last", good, after=[{"job": then, "on": "success"}]))
        cleanup = self.submit(cluster.spec("cleanup", good, after=[{"job": last, "on": "any"}]))
        cluster.await_state(first, "running")
        for job, awaited in ((then, first), (last, then), (cleanup, last)):
            why = cluster.get("/v1/jobs/%s/why" % job)
            self.assertEqual([r["code"] for r in why["reasons"]], ["held.dependency"])
            self.assertIn(awaited, why["reasons"][0]["message"])
        cluster.kill_daemon("scheduler")  # who waits for whom is known after a restart
        self.post("/v1/jobs/%s/cancel" % first)
        for job, awaited in ((then, first), (last, then)):
            final = cluster.await_over(job)
            self.assertEqual((final["outcome"], final["starts"]), ("cancelled", 0), describe(final))
            self.assertIn(awaited + " was cancelled", final["detail"])
        self.assertEqual(cluster.await_over(cleanup)["outcome"], "succeeded")
        late = self.good("run", "--after", cleanup, "--workdir", cluster.work, "--wait", "--",
                         PYTHON, "-c", "print('late')")
        self.assertEqual(cluster.job(late.split()[0])["outcome"], "succeeded")
        never = cluster.tide("run", "--after", first, "--", "true")
        self.assertEqual(never.returncode, 7, never.stderr)
        unknown = cluster.tide("run", "--after", "j-99999", "--", "true")
        self.assertEqual((unknown.returncode, unknown.stdout), (3, ""), unknown.stderr)
        self.assertEqual(unknown.stderr.count("\n"), 1)

    def test_array(self):
        """One submission, as many jobs; what waits for all of them; orders to several; all after a kill -9."""
        cluster = self.cluster
        code = ("import os, time\nindex = os.environ['TIDE_ARRAY_INDEX']\n"
                "print(os.environ['TIDE_ARRAY_JOB'], index, 'of', os.environ['TIDE_ARRAY_COUNT'], flush=True)\n"
                "time.sleep(1000 if int(index) >= 2 else 0)\n")  # tidy: poll (the job sleeps, the test does not)
        spec = cluster.spec("sweep", [PYTHON, "-c", code], count=6)
        first = self.submit(spec, key="sweep")
        number = int(first[2:])
        elements = ["j-%d" % (number + i) for i in range(6)]
        self.jobs += elements[1:]
        self.assertEqual(cluster.submit(spec, key="sweep"), first)
        whole = first + "[]"
        after = self.submit(cluster.spec("after", [PYTHON, "-c", "print('all')"], after=[{"job": whole, "on": "any"}]))
        strict = self.submit(cluster.spec("strict", [PYTHON, "-c", "print('all')"], after=[whole]))
        for job in elements[:2]:
            self.assertEqual(cluster.await_over(job)["outcome"], "succeeded")
        until(20, "four to run", lambda: cluster.get("/v1/jobs/" + whole)["states"] == {"running": 4, "succeeded": 2})
        until(20, "its index in its log", lambda: cluster.logs(elements[3]).split() == [first, "3", "of", "6"])
        self.assertIn(first + "[] ", self.good("ps"))
        self.assertIn("4 running, 2 succeeded", self.good("show", whole))
        self.assertIn(first + "[]", self.good("why", after))
        cluster.kill_daemon("scheduler")
        self.post("/v1/jobs/%s[2-3]/suspend" % first)
        for job in elements[2:4]:
            cluster.await_state(job, "held")
        self.assertEqual(cluster.job(after)["state"], "queued")
        self.assertIn("4 cancelled, 2 succeeded", self.settled(whole))
        self.assertEqual(cluster.await_over(after)["outcome"], "succeeded")
        self.assertIn(whole, cluster.await_over(strict)["detail"])
        self.assertEqual(cluster.tide("cancel", whole).returncode, 5)

    def settled(self, whole):
        """Cancels what is left of an array, and says how it ended."""
        self.good("cancel", "--yes", whole)
        until(30, "all to end", lambda: set(self.cluster.get("/v1/jobs/" + whole)["states"]) <= {
            "cancelled", "succeeded"})
        return self.good("show", whole)

    def test_move(self):
        """What is moved to the front starts before what was there first."""
        cluster = self.cluster
        fill = self.submit(cluster.spec("fill", [PYTHON, "-c", SLEEP], nodes=4, placement={"zone": "cross-ok"}))
        cluster.await_state(fill, "running")
        queued = [self.submit(cluster.spec("wide", [PYTHON, "-c", SLEEP], nodes=4, placement={"zone": "cross-ok"}))
                  for _ in range(3)]
        self.assertIn(queued[2], self.good("move", queued[2], "--to-front"))
        self.good("move", queued[1], "--before", queued[0])
        self.assertEqual(cluster.tide("move", fill, "--to-front").returncode, 5)
        for job in (fill, queued[2], queued[1]):
            cluster.await_state(job, "running")
            self.post("/v1/jobs/%s/cancel" % job)
            cluster.await_over(job)
        cluster.await_state(queued[0], "running")

    # Survival

    def test_agent_killed_leaves_the_job_alone(self):
        cluster = self.cluster
        job = self.submit(cluster.count_job())
        now = cluster.await_step(job, 10)
        pids = sorted(p.pid for p in cluster.ranks(job))
        for task in now["attempts"][-1]["tasks"]:
            cluster.kill_daemon("agent " + task["node"])
        later = cluster.await_step(job, now["step"] + 30)
        self.assertEqual(sorted(p.pid for p in cluster.ranks(job)), pids)
        final = cluster.await_over(job)
        self.assertEqual((final["outcome"], len(final["attempts"])), ("succeeded", 1), describe(final))
        self.assertEqual(later["attempts"][0]["epoch"], final["attempts"][0]["epoch"])

    def test_logs_follow_over_a_suspension(self):
        cluster = self.cluster
        job = self.submit(cluster.count_job())
        follower = cluster.tide_later("logs", "-f", job)
        self.addCleanup(follower.end)
        cluster.await_step(job, 60)
        self.post("/v1/jobs/%s/suspend" % job, reason="lunch")
        held = cluster.await_state(job, "held")
        stop = held["attempts"][0]["stop_step"]
        self.post("/v1/jobs/%s/resume" % job)
        cluster.await_over(job)
        self.assertEqual(follower.wait(30), 0, follower.err())
        text = follower.out()
        for line in ("rank 0 of 4 starts after step 0", "rank 0 step 50 ", "rank 0 leaves at step %d" % stop,
                     "rank 0 of 4 starts after step %d" % stop, "rank 0 step 150 digest "):
            self.assertEqual(text.count(line), 1, line + " in\n" + text)
        self.assertRegex(follower.err(), "--- attempt 2")
        steps = [int(step) for step in re.findall(r"step (\d+) average", text)]
        self.assertEqual(steps, [50, 100, 150])


if __name__ == "__main__":
    unittest.main()
