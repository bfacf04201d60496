"""Who listens on the network, or talks to the daemons from inside a job, gets nothing."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import threading
import unittest

from attack_case import PYTHON
from harness import free_port, program, until
from ports import own_network
from site_of_daemons import Site

ETH_P_ALL = 3
JOBS = ["--job-user", "65534:65534"]

# Tries what a program without a certificate can: plain HTTP/2, TLS without one. Says what came back.
PROBE = r"""
import socket, ssl, sys
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"

def in_clear(port):
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(HELLO)
        return connection.recv(1000)

def with_tls(port):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        with context.wrap_socket(connection) as tls:
            tls.sendall(HELLO)
            return tls.recv(1000)

for port in map(int, sys.argv[1].split(",")):
    for way in (in_clear, with_tls):
        try:
            answer = way(port)
        except OSError as error:
            answer = b""
        # An alert of TLS in clear is no answer of gRPC.
        print(way.__name__, port, "answered" if answer and answer[:1] != b"\x15" else "refused", flush=True)
for path in sys.argv[2].split(","):
    try:
        open(path, "rb").read()
        print("read", path)
    except OSError:
        print("kept", path)
"""


def setUpModule():
    own_network()  # what others send is not read


class Sniffer:
    """All that passes on the loopback device but for some ports, while the block runs."""

    def __init__(self, without):
        self.without = {port.to_bytes(2, "big") for port in without}
        self.seen = bytearray()

    def __enter__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE
        self.socket.bind(("lo", 0))
        self.socket.settimeout(0.2)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.over.set()
        self.thread.join()
        self.socket.close()

    def _run(self):
        while True:
            try:
                packet = self.socket.recv(1 << 17)
            except TimeoutError:
                if self.over.is_set():
                    return
                continue
            if packet[12:14] == b"\x08\x00" and packet[23] in (6, 17):  # TCP or UDP in IPv4
                transport = packet[14 + 4 * (packet[14] & 15):]
                if transport[:2] not in self.without and transport[2:4] not in self.without:
                    self.seen += transport


@unittest.skipUnless(os.geteuid() == 0, "packets are captured, and jobs separated, as root")
class NetworkCase(unittest.TestCase):
    def begin(self, tcp):
        site = Site("process", {"alice": "user"}, agent=JOBS, tcp=tcp)
        self.addCleanup(site.close)
        return site

    def run_job(self, site, argv, **more):
        job = site.submit({"version": 1, "name": "j", "command": argv, "resources": {"nodes": 1}, **more})
        return site.await_over(job)

    def launch_agent(self, site, name, listen, *security):
        state = "%s/agent-%s" % (site.state, name)
        run_root = site.run_root + "-" + name
        self.addCleanup(shutil.rmtree, run_root, ignore_errors=True)
        return site.launch("agent", "--scheduler", site.schedulers, "--name", name, "--state", state, "--listen", listen,
                           "--checkpoint-root", site.state + "/checkpoints", "--run-root", run_root, "--kmsg", "", "--runtime",
                           "process", *JOBS, *security, name=name)


class ReadingAlong(NetworkCase):
    def marks_seen(self, tcp):
        """{what: was it read on the wire}, of a cluster that starts, runs a job with a secret on two nodes, asks it to leave, and shows its log."""
        site = self.begin(tcp)
        marks = {what: "%s-%s" % (what, secrets.token_hex(16)) for what in ("secret", "env", "line")}
        with Sniffer(without=[site.port]) as sniffer:
            site.start()
            if tcp == "tls":
                site.ca("issue", "--role", "agent", "--node", "n2", "--out", site.state + "/tls")
            self.launch_agent(site, "n2", "127.0.0.1:%d" % free_port(), *site.security("n2"))
            until(30, "two nodes", lambda: sum(node["connected"] for node in site.get("/v1/nodes")["items"]) == 2)
            site.tide("secret", "set", "key", stdin=marks["secret"])
            job = site.submit({"version": 1, "name": "j", "command": ["/bin/sh", "-c", "echo %s; exec sleep 600" % marks["line"]],
                               "resources": {"nodes": 2}, "env": {"MARK": marks["env"]}, "secrets": ["key"]})
            site.await_state(job, "running")
            for rank in range(2):
                until(30, "its line", lambda rank=rank: marks["line"] in site.logs(job, rank))
            left = site.tide("suspend", job)
            self.assertEqual(left.returncode, 0, left.stderr)
            until(60, "no rank of it", lambda: site.job(job)["state"] in ("queued", "held", "finished"))
            site.end_job(job)
        marks.update({"token of " + name: token.rsplit("_", 1)[1] for name, token in site.tokens.items()})
        return {what: mark.encode() in sniffer.seen for what, mark in marks.items()}, sniffer.seen

    def test_nothing_is_read_over_tls(self):
        seen, traffic = self.marks_seen("tls")
        self.assertGreater(len(traffic), 10_000)
        self.assertEqual([what for what, read in seen.items() if read], [])

    def test_all_is_read_in_clear(self):
        """Else the test above could not fail."""
        seen, _ = self.marks_seen("plaintext")
        self.assertTrue(seen["secret"] and seen["env"] and seen["line"], seen)


class TalkingToDaemons(NetworkCase):
    def test_from_inside_a_job(self):
        site = self.begin("tls").start()
        ports = "%d,%d" % (site.scheduler_port, site.agent_port)
        kept = ",".join("%s/tls/%s/identity.pem" % (site.state, name) for name in ("scheduler", "n1", "api"))
        job = self.run_job(site, [PYTHON, "-c", PROBE, ports, kept])
        lines = site.logs(job["id"]).splitlines()
        self.assertEqual(len(lines), 7, lines)
        self.assertTrue(all(" refused" in line for line in lines[:4]), lines)
        self.assertTrue(all(line.startswith("kept ") for line in lines[4:]), lines)

    def test_another_clusters_certificate(self):
        site = self.begin("tls").start()
        other = site.state + "/other"
        for verb in (["init", other], ["issue", other, "--role", "agent", "--node", "n2", "--out", other + "-tls"]):
            subprocess.run([program("tide"), "admin", "ca", *verb], check=True, timeout=60, capture_output=True)
        self.launch_agent(site, "n2", "unix:%s/n2.sock" % site.state, "--tls", other + "-tls/n2")
        until(30, "the agent says why", lambda: "not of this cluster's authority" in site.said("n2"))
        self.assertEqual([node["name"] for node in site.get("/v1/nodes")["items"]], ["n1"])

    def test_another_nodes_certificate(self):
        site = self.begin("tls").start()
        child = self.launch_agent(site, "n2", "unix:%s/n2.sock" % site.state, "--tls", site.state + "/tls/n1")
        self.assertEqual(child.wait(30), 2)
        self.assertIn("the certificate of the agent of n1, not that of the agent of n2", site.said("n2"))

    def test_a_revoked_certificate(self):
        site = self.begin("tls").start()
        job = site.submit({"version": 1, "name": "long", "command": ["/bin/sleep", "600"]})
        site.await_state(job, "running")
        serial, = (item["serial"] for item in site.listed() if item["node"] == "n1")
        site.ca("revoke", serial)
        shutil.copy(site.state + "/ca/crl.pem", site.state + "/tls/scheduler/crl.pem")
        until(30, "n1 is cut off", lambda: not site.node("n1")["connected"])
        until(30, "the agent says why", lambda: "was revoked" in site.said("agent"))
        # A new one is taken over without a restart, and the task was not harmed meanwhile.
        site.ca("issue", "--role", "agent", "--node", "n1", "--out", site.state + "/tls")
        until(60, "n1 is back", lambda: site.node("n1")["connected"])
        self.assertEqual((site.job(job)["state"], len(site.job(job)["attempts"])), ("running", 1))
        with contextlib.suppress(Exception):
            site.request("POST", "/v1/jobs/%s/cancel" % job, {})


del NetworkCase
