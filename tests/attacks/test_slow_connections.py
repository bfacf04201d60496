"""Connections that are idle, slow or without end, thousands of them: is everybody else served, and does the API grow?"""

import contextlib
import http.client
import json
import os
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))
from harness import Process, processes, until  # noqa: E402
from ports import own_network  # noqa: E402
from site_of_daemons import Site  # noqa: E402

MIB = 1 << 20
MOST_GROWTH = 32 * MIB


def setUpModule():
    own_network()  # thousands of its ports are nobody else's


def resident(pid):
    with open("/proc/%d/statm" % pid, encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class SlowConnections(unittest.TestCase):
    def setUp(self):
        self.site = Site("process", {"alice": "user", "mallory": "user"})
        self.addCleanup(self.site.close)
        self.site.start()
        self.api = next(each for each in processes() if each.parent == os.getpid() and each.argv[0].endswith("/tide-api"))
        self.headers = {"Authorization": "Bearer " + self.site.tokens["alice"]}

    def ask(self, kept=None):
        """Status of a list of jobs, and in how many seconds; on a connection of its own, or on one that is kept."""
        started = time.monotonic()
        connection = kept or http.client.HTTPConnection("127.0.0.1", self.site.port, timeout=30)
        connection.request("GET", "/v1/jobs", headers=self.headers)
        answer = connection.getresponse()
        json.loads(answer.read())
        if kept is None:
            connection.close()
        return answer.status, time.monotonic() - started

    def warm_up(self):
        """Has each worker serve something, so that what grows afterwards grew by the attack."""
        def some():
            for _ in range(20):
                self.ask()
        threads = [threading.Thread(target=some) for _ in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def flood(self):
        process = subprocess.Popen([sys.executable, "-B", HERE + "/flood.py", str(self.site.port), self.site.tokens["mallory"]],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "flooding\n")
        return process

    def test_others_are_served(self):
        self.warm_up()
        before = resident(self.api.pid)
        flood = self.flood()
        kept = http.client.HTTPConnection("127.0.0.1", self.site.port, timeout=30)
        self.addCleanup(kept.close)
        times, statuses, most = [], set(), 0
        dripping = "tide_http_refused_total{what=\"overdue\"} "

        def overdue():
            text = self.site.get("/metrics")
            return int(text[text.index(dripping) + len(dripping):].split()[0])

        # Until each dripping connection was refused once, and has come again.
        while overdue() < 400 or len(times) < 1000:
            for one in (kept, None) * 10:
                status, seconds = self.ask(one)
                statuses.add(status)
                times.append(seconds)
            most = max(most, resident(self.api.pid))
        flood.stdin.close()
        answers = json.loads(flood.stdout.readline())
        times.sort()
        print("GET /v1/jobs beside the flood: p50 %.1f ms, p99 %.1f ms, at most %.1f ms of %d; the API grew by %.1f MiB; "
              "answers: %s" % (1000 * times[len(times) // 2], 1000 * times[len(times) * 99 // 100], 1000 * times[-1],
                               len(times), (most - before) / MIB, answers))
        self.assertEqual(statuses, {200})
        self.assertLess(most - before, MOST_GROWTH)
        self.assertEqual(answers["idle"], {"closed": 0})
        # A client that goes on sending may miss the answer: "closed" is as good.
        for what, answer in {"dripping": "408", "endless head": "431", "endless line": "431", "endless body of nobody": "401",
                             "endless body": "413", "endless chunk": "413", "inflated body": "415",
                             "one line": "422"}.items():
            with self.subTest(what):
                self.assertIn(answer, answers[what])
                self.assertLessEqual(set(answers[what]), {answer, "closed"})
        self.assertTrue(Process(self.api.pid).alive())

    def test_one_address_takes_a_share(self):
        """Who opens more connections than an address may have closes his own, and nobody else is refused."""
        many = []
        for _ in range(1500):
            connection = http.client.HTTPConnection("127.0.0.1", self.site.port, timeout=30)
            connection.connect()
            many.append(connection)
            self.addCleanup(connection.close)
        self.assertEqual(self.ask()[0], 200)
        text = self.site.get("/metrics")
        self.assertIn("tide_http_connections{state=\"open\"} 10", text)
        until(10, "the longest idle to be closed", lambda: many[0].sock.recv(1) == b"")


class WithoutCertificate(unittest.TestCase):
    """Scheduler and agents, by TCP: who has no certificate of the cluster takes nothing from them, and nobody is kept waiting."""
    IDLE, EACH = 300, 4

    def setUp(self):
        self.site = Site("process", {"alice": "user"}, tcp="tls", agent=["--job-user", "65534:65534"] if os.geteuid() == 0 else [])
        self.addCleanup(self.site.close)
        self.site.start()
        self.over = threading.Event()

    def connect(self, port):
        return socket.create_connection(("127.0.0.1", port), timeout=10)

    def again_and_again(self, attack, port):
        def run():
            while not self.over.is_set():
                with contextlib.suppress(OSError):  # the end of each connection
                    attack(port)
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)

    def shake_hands(self, port):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with self.connect(port) as plain, context.wrap_socket(plain) as tls:
            tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(1 << 14))
            tls.recv(1)

    def speak_plainly(self, port):
        with self.connect(port) as plain:
            while not self.over.is_set():
                plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" * 1024)

    def begin_a_record(self, port):
        with self.connect(port) as plain:
            plain.sendall(b"\x16\x03\x01\x40\x00" + bytes(8000))
            plain.recv(1)

    def test_others_are_served(self):
        site, ports = self.site, (self.site.scheduler_port, self.site.agent_port)
        daemons = {each.argv[0].rsplit("/", 1)[1]: each for each in processes() if each.parent == os.getpid()}
        self.assertEqual(len(daemons), 3, daemons)
        before = {name: resident(each.pid) for name, each in daemons.items()}
        idle = [self.connect(port) for port in ports for _ in range(self.IDLE)]
        self.addCleanup(lambda: [each.close() for each in idle])
        for port in ports:
            for attack in (self.shake_hands, self.speak_plainly, self.begin_a_record):
                for _ in range(self.EACH):
                    self.again_and_again(attack, port)
        self.addCleanup(self.over.set)
        most, left, jobs = before, idle, 0
        end = time.monotonic() + 120
        while left and time.monotonic() < end:
            job = site.submit({"version": 1, "name": "j", "command": ["/bin/true"]})
            self.assertEqual(site.await_over(job)["outcome"], "succeeded")
            jobs += 1
            most = {name: max(most[name], resident(each.pid)) for name, each in daemons.items()}
            closed = select.poll()
            for each in left:
                closed.register(each, select.POLLIN)
            gone = {number for number, _ in closed.poll(0)}
            left = [each for each in left if each.fileno() not in gone]
        growth = {name: (most[name] - before[name]) / MIB for name in most}
        print("%d jobs beside connections without a certificate; MiB more: %s" % (jobs, growth))
        self.assertEqual(len(left), 0, "silent connections are closed")
        self.assertLess(max(growth.values()), MOST_GROWTH / MIB, growth)


if __name__ == "__main__":
    unittest.main()
