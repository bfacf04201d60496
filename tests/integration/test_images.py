"""Jobs in images: from an OCI layout and from a registry on loopback; what goes wrong is said on `tide show`."""

import json
import os
import shutil
import signal
import subprocess
import unittest

from harness import Cluster, free_port, until
from registry import Registry, blob, layers, make_layout, why_not

PROGRAMS = ("/bin/sh", "/bin/cat", "/bin/ls", "/usr/bin/id", "/usr/bin/touch", "/usr/bin/sleep")


@unittest.skipIf(why_not(), why_not())
class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(nodes=2)
        cls.cluster.runtime = "oci"
        cls.addClassCleanup(cls.cluster.close)
        cls.layout = os.path.join(cls.cluster.base, "layout")
        cls.digest = make_layout(cls.layout, "v1", PROGRAMS, {"/hello": "hello from the image\n"})
        cls.registry = Registry(cls.layout)
        cls.addClassCleanup(cls.registry.close)
        cls.cluster.dev_flags = ["--agent-flag=--image-patience=0", "--agent-flag=--gpus=8",
                                 "--agent-flag=--image-plain-http=" + cls.registry.host]
        cls.cluster.start()

    def submit(self, image, script, **more):
        return self.cluster.submit({"version": 1, "name": "pictured", "image": image,
                                    "command": ["sh", "-c", script],
                                    **{"resources": {"nodes": 1, "ranks_per_node": 1}, **more}})

    def run_job(self, image, script, **more):
        job = self.cluster.await_over(self.submit(image, script, **more))
        self.assertEqual(job["outcome"], "succeeded", job["detail"])
        return self.cluster.logs(job["id"])

    def refused(self, image):
        """The line that `tide show` has for a job whose image cannot be had."""
        job = self.submit(image, "true")
        self.assertEqual(self.cluster.await_over(job)["outcome"], "failed")
        shown = self.cluster.tide("show", job)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        details = [line for line in shown.stdout.splitlines() if line.startswith("detail:")]
        self.assertEqual(len(details), 1, shown.stdout)
        return details[0]

    def stored(self, node):
        folder = os.path.join(self.cluster.state, "agent-" + node, "images", "images")
        return set(os.listdir(folder)) if os.path.isdir(folder) else set()

    def test_a_layout_is_run(self):
        out = self.run_job("oci:" + self.layout + ":v1",
                           "cat /hello; echo $FROM_IMAGE; id -u; ls /; touch /x 2>/dev/null || echo read-only;"
                           " cd; touch mine && echo home; touch /tmp/x && echo tmp; ls /etc")
        lines = out.splitlines()
        self.assertEqual(lines[:3], ["hello from the image", "yes", "200000"], out)
        for word in ("read-only", "home", "tmp", "hosts", "resolv.conf"):
            self.assertIn(word, lines, out)
        self.assertNotIn("root", lines, out)  # a folder of the host

    def test_secrets_are_in_it(self):
        self.assertEqual(self.cluster.tide("secret", "set", "hf-token", stdin="hunter2\n").returncode, 0)
        out = self.run_job("oci:" + self.layout + ":v1", "echo $HF_TOKEN; cat /run/secrets/hf-token; echo;"
                           " echo x 2>/dev/null >/run/secrets/x || ls /run/secrets", secrets=["hf-token"])
        self.assertEqual(out.splitlines()[:3], ["hunter2", "hunter2", "hf-token"], out)

    def test_what_a_container_uses_is_shown(self):
        burn = "x=$(head -c 50000000 /dev/zero | tr '\\0' x); echo up; while :; do :; done"
        job = self.cluster.submit(self.cluster.spec("burn", ["sh", "-c", burn]))
        use = until(60, "its use", lambda: (now := self.cluster.peek(job)["use"]) and now["memory_bytes"] > 40 << 20 and now)
        self.assertLess(use["memory_bytes"], 1 << 30)
        self.assertGreater(use["cpus"], 0)
        self.assertRegex(self.cluster.tide("show", job).stdout, r"uses: +0\.\d GiB memory, \d+\.\d CPUs")
        self.cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {})
        self.assertIsNone(self.cluster.await_over(job)["use"])

    def test_two_jobs_share_an_image(self):
        layout = os.path.join(self.cluster.base, "shared")
        name = make_layout(layout, "v1", PROGRAMS, {"/hello": "shared\n"})
        place = {"placement": {"zone": "A"}, "resources": {"nodes": 1, "ranks_per_node": 1, "gpus_per_node": 2}}
        first = self.submit("oci:" + layout, "cat /hello; sleep 1000", **place)
        second = self.submit("oci:" + layout, "cat /hello; sleep 1000", **place)
        for job in (first, second):
            self.cluster.await_state(job, "running")
            until(20, "output", lambda job=job: self.cluster.logs(job) == "shared\n")
        nodes = {self.cluster.job(job)["attempts"][-1]["tasks"][0]["node"] for job in (first, second)}
        self.assertEqual(len(nodes), 1)
        self.assertIn(name.partition(":")[2], self.stored(nodes.pop()))
        for job in (first, second):
            self.cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {})
            self.cluster.await_over(job)
        # The layout may go: by digest the image is found in the store.
        shutil.rmtree(layout)

    def test_a_registry_is_asked_by_tag_and_by_digest(self):
        self.assertEqual(self.run_job(self.registry.name + ":v1", "cat /hello"), "hello from the image\n")
        self.assertEqual(self.run_job(self.registry.name + "@" + self.digest, "cat /hello"),
                         "hello from the image\n")

    def test_progress_is_shown_and_a_waiting_job_is_cancelled_at_once(self):
        make_layout(self.layout, "slow", PROGRAMS, {"/hello": "slow\n"})
        self.registry.gate.clear()
        try:
            job = self.submit(self.registry.name + ":slow", "cat /hello")
            shown = until(30, "progress", lambda: (job_now := self.cluster.peek(job)) and job_now["preparing"])
            self.assertRegex(shown, r"^[ab]-n\d: (looking up|fetching) image 127.0.0.1:\d+/team/train:slow")
            until(30, "fetching", lambda: "fetching image" in (self.cluster.peek(job)["preparing"] or ""))
            self.assertIn("fetching image", self.cluster.tide("show", job).stdout)
            self.cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {})
            over = self.cluster.await_over(job, seconds=20)
            self.assertEqual(over["outcome"], "cancelled")
            self.assertIsNone(over["preparing"])
        finally:
            self.registry.gate.set()
        self.assertEqual(self.run_job(self.registry.name + ":slow", "cat /hello"), "slow\n")

    def test_an_image_comes_while_the_victims_save(self):
        cluster = self.cluster
        digest = make_layout(self.layout, "early", PROGRAMS, {"/hello": "early\n"}).partition(":")[2]
        go = os.path.join(cluster.work, "leave")
        stays = "trap 'while [ ! -e %s ]; do sleep 0.05; done; exit 0' TERM; echo up; sleep 1000 & wait" % go
        victims = [cluster.submit(cluster.spec("victim", ["sh", "-c", stays], priority="low",
                                               suspend={"notice": "60s", "signal": "TERM"})) for _ in range(2)]
        for victim in victims:
            until(30, "a victim", lambda victim=victim: "up" in cluster.logs(victim))
        job = self.submit(self.registry.name + ":early", "cat /hello", priority="high")
        until(30, "the image", lambda: digest in self.stored("a-n1") | self.stored("b-n1"))
        self.assertEqual(cluster.job(job)["state"], "queued")
        with open(go, "w", encoding="ascii"):
            pass
        self.assertEqual(cluster.await_over(job)["outcome"], "succeeded")
        self.assertEqual(cluster.logs(job), "early\n")
        for victim in victims:
            if cluster.job(victim)["state"] != "finished":
                cluster.patiently("POST", "/v1/jobs/%s/cancel" % victim, {})
            cluster.await_over(victim)

    def test_an_image_is_pulled_ahead_and_listed(self):
        hex_digest = make_layout(self.layout, "ahead", PROGRAMS, {"/hello": "ahead\n"}).partition(":")[2]
        name = self.registry.name + ":ahead"
        one = self.cluster.tide("images", "pull", name, "--zone", "A")
        self.assertEqual((one.returncode, one.stderr), (0, ""))
        self.assertEqual(one.stdout, "✔ %s is on 1 node: sha256:%s\n" % (name, hex_digest))
        self.assertIn(hex_digest, self.stored("a-n1"))
        self.assertNotIn(hex_digest, self.stored("b-n1"))
        both = self.cluster.tide("images", "pull", name, "a-n1", "b-n[1-1]", "-o", "name")
        self.assertEqual(both.stdout, "a-n1\nb-n1\n", both.stderr)
        listed = [image for image in self.cluster.get("/v1/images")["items"] if image["digest"].endswith(hex_digest)]
        self.assertEqual([(image["names"], image["nodes"], image["in_use_on"]) for image in listed],
                         [([name], ["a-n1", "b-n1"], [])])
        self.assertIn(name, self.cluster.tide("images", "--zone", "B").stdout)
        # The job's start fetches nothing more.
        blobs = len([path for path in self.registry.asked if "/blobs/" in path])
        job = self.submit(name, "cat /hello; sleep 1000")
        until(30, "output", lambda: self.cluster.logs(job) == "ahead\n")
        self.assertEqual(len([path for path in self.registry.asked if "/blobs/" in path]), blobs)
        used = until(10, "its use", lambda: next(image["in_use_on"] for image in self.cluster.get("/v1/images")["items"]
                                                 if image["digest"].endswith(hex_digest)))
        self.assertEqual(used, [self.cluster.job(job)["attempts"][-1]["tasks"][0]["node"]])
        self.cluster.patiently("POST", "/v1/jobs/%s/cancel" % job, {})
        self.cluster.await_over(job)

        nope = self.cluster.tide("images", "pull", self.registry.name + ":nope", "--all")
        self.assertEqual((nope.returncode, nope.stdout), (1, ""))
        self.assertRegex(nope.stderr, r"^tide: a-n1, b-n1: image .*:nope: the registry has no such tag or digest[^\n]*\n$")

    def test_a_job_goes_where_its_image_is(self):
        make_layout(self.layout, "there", PROGRAMS, {"/hello": "there\n"})
        name = self.registry.name + ":there"
        self.assertEqual(self.cluster.tide("images", "pull", name, "b-n1").returncode, 0)
        spec = json.dumps({"version": 1, "name": "pictured", "image": name, "command": ["cat", "/hello"],
                           "resources": {"nodes": 1, "ranks_per_node": 1}})
        until(20, "the hint", lambda: "b-n1" in self.cluster.tide("plan", "-", stdin=spec).stdout)
        job = self.submit(name, "cat /hello")
        self.cluster.await_over(job)
        self.assertEqual(self.cluster.job(job)["attempts"][-1]["tasks"][0]["node"], "b-n1")

    def test_a_pull_ends_with_who_asked_for_it(self):
        make_layout(self.layout, "left", PROGRAMS, {"/hello": "left\n"})
        name = self.registry.name + ":left"
        self.registry.gate.clear()
        try:
            pull = self.cluster.tide_later("images", "pull", name, "--all", "-o", "jsonl")
            self.addCleanup(pull.end)
            until(30, "fetching", lambda: pull.out().count("fetching image") >= 2)
            pull.child.send_signal(signal.SIGINT)
            self.assertEqual(pull.wait(30), 130)
            # Another image would not get its turn before.
            make_layout(self.layout, "next", PROGRAMS, {"/hello": "next\n"})
            self.assertEqual(self.run_job("oci:" + self.layout + ":next", "cat /hello"), "next\n")
        finally:
            self.registry.gate.set()
        self.assertEqual(self.run_job(name, "cat /hello"), "left\n")

    def test_an_agent_that_dies_while_it_fetches_starts_again(self):
        make_layout(self.layout, "again", PROGRAMS, {"/hello": "again\n"})
        self.registry.gate.clear()
        try:
            job = self.submit(self.registry.name + ":again", "cat /hello")
            until(30, "fetching", lambda: "fetching image" in (self.cluster.peek(job)["preparing"] or ""))
            node = self.cluster.job(job)["attempts"][-1]["tasks"][0]["node"]
            self.cluster.kill_daemon("agent " + node)
        finally:
            self.registry.gate.set()
        self.assertEqual(self.cluster.await_over(job)["outcome"], "succeeded")
        self.assertEqual(self.cluster.logs(job), "again\n")

    def test_what_is_wrong_is_one_clear_line(self):
        none = "sha256:" + "a" * 64
        broken = os.path.join(self.cluster.base, "broken")
        # Of its layers that of /hello is in no store; those of the programs are, where another layout was made in
        # the same second.
        make_layout(broken, "v1", PROGRAMS, {"/hello": "broken\n"})
        for layer in layers(broken, "v1"):
            with open(blob(broken, layer), "r+b") as file:
                file.seek(40)
                file.write(b"xxxx")
        nobody = "127.0.0.1:%d/train:1" % free_port()
        cases = {
            "oci:" + self.layout + "@" + none: "no manifest " + none + " in the layout",
            "oci:" + self.layout + ":nope": 'no tag "nope" in the layout',
            "oci:" + broken + ":v1": "a layer is broken: it is not what its digest says",
            "oci:/no/such/folder": "/no/such/folder cannot be used by",
            self.registry.name + ":nope": "the registry has no such tag or digest",
            self.registry.name + "@" + none: "the registry has no such tag or digest",
            nobody: "the registry does not answer",
        }
        for image, says in cases.items():
            with self.subTest(image):
                line = self.refused(image)
                self.assertIn("image ", line)
                self.assertIn(says, line)
        # The nodes are not to blame.
        for node in self.cluster.get("/v1/nodes")["items"]:
            self.assertIn(node["state"], ("ready", "probation"))

    def test_links_that_lead_mounts_to_the_kernel_are_refused(self):
        for number, (path, where) in enumerate((("/tmp", "/proc/sys"), ("/tmp", "proc"), ("/run", "proc/1"))):
            with self.subTest(path + " -> " + where):
                layout = os.path.join(self.cluster.base, "linked-%d" % number)
                make_layout(layout, "v1", PROGRAMS, {"/hello": "hello\n"}, [(path, where)])
                line = self.refused("oci:" + layout + ":v1")
                self.assertIn("is a link that leads to /proc", line)
        for node in self.cluster.get("/v1/nodes")["items"]:
            self.assertIn(node["state"], ("ready", "probation"))

    def test_a_command_that_the_image_has_not(self):
        job = self.cluster.submit({"version": 1, "name": "none", "image": "oci:" + self.layout + "@" + self.digest,
                                   "command": ["/usr/bin/python3"],
                                   "resources": {"nodes": 1, "ranks_per_node": 1}})
        over = self.cluster.await_over(job)
        self.assertEqual(over["outcome"], "failed")
        self.assertIn("/usr/bin/python3", over["detail"])


class Full(unittest.TestCase):
    @unittest.skipIf(why_not(), why_not())
    def test_a_full_disk_is_the_nodes_fault(self):
        cluster = Cluster(nodes=2)
        cluster.runtime = "oci"
        self.addCleanup(cluster.close)
        layout = os.path.join(cluster.base, "layout")
        make_layout(layout, "v1", PROGRAMS, {"/hello": "hello\n"})
        os.makedirs(cluster.base + "/small")
        small = os.path.join(cluster.base, "small")
        if subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=False).returncode:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["/bin/umount", small], check=True)
        cluster.dev_flags = ["--agent-flag=--image-dir=" + small, "--agent-flag=--user-image-bytes=1G"]
        cluster.start()
        job = cluster.submit({"version": 1, "name": "big", "image": "oci:" + layout, "command": ["true"],
                              "retry": {"hardware": 1}, "resources": {"nodes": 1, "ranks_per_node": 1}})
        over = cluster.await_over(job)
        self.assertEqual(over["outcome"], "failed")
        self.assertIn("the disk of this node's image store is full", over["detail"])


if __name__ == "__main__":
    unittest.main()
