"""Who it is that asks, with real daemons: a job by its own token, a person by a proxy, and what the audit has of both."""

import json
import os
import unittest

from harness import Refused, until
from site_of_daemons import Site

SECRET = "the-secret-of-the-proxy"
SAY = "echo token $TIDE_JOB_TOKEN; exec sleep 600"


class WhoAsksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = Site("process", {"ann": "user", "bob": "user"},
                        agent=["--job-user", "65534:65534"] if os.geteuid() == 0 else ())
        cls.addClassCleanup(cls.site.close)
        cls.site.write("proxy-secret", SECRET + "\n")
        cls.site.more_of_api = ["--trust-proxy", "127.0.0.1", "--proxy-secret-file", cls.site.state + "/proxy-secret",
                                "--proxy-user-header", "X-Forwarded-User"]
        cls.site.start()

    def asked(self, path, token="", headers=(), method="GET"):
        """(status, answer) by this token alone."""
        asker = self.site.as_user("ann")
        asker.token = lambda: token
        try:
            return 200, asker.request(method, path, headers=headers)
        except Refused as refused:
            return refused.status, refused.problem

    def token_of(self, job):
        def said():
            lines = [line for line in self.site.as_user("ann").logs(job).splitlines() if line.startswith("token ")]
            return lines and lines[0].removeprefix("token ")

        return until(60, "the token of " + job, said)

    def test_a_job_sees_itself_and_nothing_else(self):
        ann = self.site.as_user("ann")
        job = ann.submit(ann.spec("self", ["/bin/sh", "-c", SAY]))
        other = ann.submit(ann.spec("other", ["/bin/sh", "-c", SAY]))
        token = self.token_of(job)
        self.assertTrue(token.startswith("tide_%s_" % job))
        for path in ("", "/why", "/logs"):
            self.assertEqual(self.asked("/v1/jobs/%s%s" % (job, path), token)[0], 200)
            self.assertEqual(self.asked("/v1/jobs/%s%s" % (other, path), token)[0], 403)
        for method, path in (("GET", "/v1/jobs"), ("GET", "/v1/nodes"), ("GET", "/v1/secrets"), ("GET", "/v1/tokens"),
                             ("POST", "/v1/jobs/%s/cancel" % job), ("POST", "/v1/jobs"), ("POST", "/v1/tokens")):
            self.assertEqual(self.asked(path, token, method=method)[0], 403, path)
        # Suspended, it has no attempt; resumed, it has another one.
        ann.request("POST", "/v1/jobs/%s/suspend" % job, {"notice_s": 1})
        until(60, "the end of its token", lambda: self.asked("/v1/jobs/" + job, token)[0] == 401)
        ann.end_job(job)
        self.assertNotEqual(self.token_of(other), token)
        ann.end_job(other)
        self.assertEqual(self.asked("/v1/jobs/" + job, token)[0], 401)

    def test_a_proxy_says_who_asks_with_its_secret_alone(self):
        said = [("X-Forwarded-User", "bob"), ("X-Forwarded-For", "192.0.2.7")]
        status, session = self.asked("/v1/session", headers=said + [("Tide-Proxy-Secret", SECRET)])
        self.assertEqual((status, session["user"], session["kind"]), (200, "bob", "session"))
        self.assertEqual(self.asked("/v1/session", headers=said)[0], 401)
        self.assertEqual(self.asked("/v1/session", headers=said + [("Tide-Proxy-Secret", "a-guess-of-it")])[0], 401)
        made = [entry for entry in self.site.audit("self.see") if entry["object"] == "a session of bob"]
        self.assertEqual([(entry["user"], entry["address"]) for entry in made], [("bob", "192.0.2.7")])

    def test_the_audit_as_lines_and_bounded(self):
        for _ in range(200):
            self.assertEqual(self.asked("/v1/users/ann", self.site.tokens["bob"], method="DELETE")[0], 403)
        done = self.site.tide("admin", "audit", "--user", "bob", "--operation", "users.manage", "--since", "1h", "-o", "jsonl",
                              env={"TIDE_TOKEN": self.site.tokens["first-admin"]})
        self.assertEqual(done.returncode, 0, done.stderr)
        entries = [json.loads(line) for line in done.stdout.splitlines()]
        # Twenty of a minute, and a count of the rest; where the minute ends meanwhile, twenty more.
        self.assertGreaterEqual(len(entries), 20)
        self.assertLessEqual(len(entries), 42)
        self.assertEqual({(entry["user"], entry["outcome"]) for entry in entries}, {("bob", "permission_denied")})
        refused = self.site.tide("admin", "audit", env={"TIDE_TOKEN": self.site.tokens["bob"]})
        self.assertEqual(refused.returncode, 4)


if __name__ == "__main__":
    unittest.main()
