"""Alerts by webhook: a node that people have to repair is told of once, and its end, over kill -9 of the API server."""

import hashlib
import hmac
import http.server
import json
import os
import threading
import unittest

from harness import Cluster, until

NODE = "a-n1"
SECRET = "the-secret-of-the-webhook"
POLICY = """version: 1
faults: { return_after: 1s }
"""


class Receiver(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 503  # that it answers
        self.alerts = []   # that it took
        self.unwanted = None  # the alert that it refuses for ever
        self.refused = 0
        self.forged = []
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.shutdown()
        self.server_close()
        self.thread.join()

    @property
    def url(self):
        return "http://127.0.0.1:%d/hooks/tide" % self.server_address[1]

    def told(self):
        return [(alert["alert"], alert["status"]) for alert in self.alerts]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        at, _, signature = self.headers["Tide-Signature"].partition(",v1=")
        expected = hmac.new(SECRET.encode(), at.removeprefix("t=").encode() + b"." + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(signature, expected):
            self.server.forged.append(body)
        status = 422 if json.loads(body)["alert"] == self.server.unwanted else self.server.status
        if status // 100 == 2:
            self.server.alerts.append(json.loads(body))
        else:
            self.server.refused += 1
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class AlertsTest(unittest.TestCase):
    def start(self, receiver, nodes):
        self.addCleanup(receiver.close)
        cluster = Cluster(nodes=nodes, runtime="process")
        self.addCleanup(cluster.close)
        files = {"policy": POLICY, "secret": SECRET + "\n"}
        for name, text in files.items():
            with open(os.path.join(cluster.base, name), "w", encoding="ascii",
                      opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(text)
        cluster.dev_flags += [
            "--scheduler-flag=--policy=" + os.path.join(cluster.base, "policy"),
            "--api-flag=--webhook=" + receiver.url,
            "--api-flag=--webhook-secret-file=" + os.path.join(cluster.base, "secret"),
            "--api-flag=--webhook-state=" + os.path.join(cluster.base, "alerts.json")]
        cluster.start()
        return cluster

    def test_a_node_for_people_is_told_of_once_and_its_end(self):
        receiver = Receiver()
        cluster = self.start(receiver, 1)
        self.assertEqual(receiver.refused, 0)
        cluster.break_node(NODE)  # no validator of this machine proves a GPU
        until(120, "the alert to be refused", lambda: receiver.refused)
        self.assertTrue(cluster.node(NODE)["awaits_person"])
        cluster.kill_daemon("api")
        receiver.status = 204
        until(120, "the alert", lambda: receiver.alerts)
        first = receiver.alerts[0]
        self.assertEqual((first["alert"], first["status"], first["node"]), ("node-" + NODE, "firing", NODE))
        self.assertIn("waits for a person: Xid 79", first["summary"])
        until(30, "the record", lambda: ("node-" + NODE) in self.record(cluster))
        cluster.kill_daemon("api")
        fault = [each for each in cluster.patiently("GET", "/v1/faults")["items"] if each["kind"] == "xid"][0]
        done = cluster.tide("faults", "ack", str(fault["id"]), "--reason", "GPU replaced")
        self.assertEqual(done.returncode, 0, done.stderr)
        until(120, "the end of the alert", lambda: len(receiver.alerts) > 1)
        self.assertEqual(receiver.told(), [("node-" + NODE, "firing"), ("node-" + NODE, "resolved")])
        self.assertEqual(receiver.forged, [])

    def test_an_alert_that_is_refused_for_ever_does_not_hold_the_others(self):
        receiver = Receiver()
        receiver.status = 204
        receiver.unwanted = "node-a-n1"
        cluster = self.start(receiver, 2)
        cluster.break_node("a-n1")
        until(120, "the alert to be refused", lambda: receiver.refused)
        cluster.break_node("b-n1")
        until(120, "the other alert", lambda: receiver.alerts)
        self.assertEqual(receiver.told(), [("node-b-n1", "firing")])
        metrics = cluster.get("/metrics")
        self.assertIn('tide_alert_posts_total{result="refused"} 1\n', metrics)
        self.assertIn('tide_alert_posts_total{result="taken"} 1\n', metrics)
        self.assertRegex(cluster.log_of("api"), r"(?m)Alert refused.*node-a-n1@.*422")

    @staticmethod
    def record(cluster):
        with open(os.path.join(cluster.base, "alerts.json"), encoding="utf-8") as file:
            return file.read()


if __name__ == "__main__":
    unittest.main()
