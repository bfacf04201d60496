"""HTTPS by the API server itself: who is let in, what is said where it fails, and new certificates without a restart."""

import http.client
import json
import shutil
import socket
import ssl
import subprocess
import unittest

from authority import Authority
from harness import free_port, program, until
from site_of_daemons import Site


class Https(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = Site("process", {"alice": "user"})
        cls.addClassCleanup(cls.site.close)
        cls.site.start()
        cls.authority = Authority(cls.site.state + "/ca")

    def serve(self, certificate, key):
        """Port of an API server with this certificate."""
        port = free_port()
        log = self.site.state + "/https-%d.log" % port
        with open(log, "wb") as file:
            api = subprocess.Popen([program("tide-api"), "--scheduler", "unix:%s/scheduler.sock" % self.site.state, "--listen",
                                    "127.0.0.1:%d" % port, "--https-cert", certificate, "--https-key", key],
                                   stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        self.addCleanup(api.wait)
        self.addCleanup(api.terminate)
        def listens():
            self.assertIsNone(api.poll(), log)
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0
        until(20, "the API server", listens)
        return port

    def tide(self, port, *words, ca=None, host="localhost", scheme="https"):
        env = dict(self.site.env, TIDE_SERVER="%s://%s:%d" % (scheme, host, port), TIDE_CA=ca or "")
        return subprocess.run([program("tide"), *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)

    def connection(self, port, context=None):
        context = context or ssl.create_default_context(cafile=self.authority.file)
        connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=context)
        self.addCleanup(connection.close)
        return connection

    def serial(self, port):
        connection = self.connection(port)
        connection.connect()
        return connection.sock.getpeercert()["serialNumber"]

    def test_client_and_browser(self):
        port = self.serve(*self.authority.issue("good"))
        until(20, "the first view", lambda: self.tide(port, "ps", ca=self.authority.file).returncode == 0)
        self.assertIn("alice", self.tide(port, "whoami", "--ca", self.authority.file).stdout)
        self.assertIn("alice", self.tide(port, "whoami", ca=self.authority.file, host="127.0.0.1").stdout)
        connection = self.connection(port)
        connection.request("POST", "/v1/login", json.dumps({"token": self.site.tokens["alice"]}),
                           {"Origin": "https://localhost:%d" % port})
        answer = connection.getresponse()
        answer.read()
        self.assertEqual(answer.status, 200)
        self.assertIn("; Secure", answer.getheader("Set-Cookie"))
        self.assertIn("max-age=", answer.getheader("Strict-Transport-Security"))
        connection.request("GET", "/metrics")
        metrics = connection.getresponse().read().decode()
        left = metrics.split("tide_certificate_expires_seconds{certificate=\"https\"} ")[1].split()[0]
        self.assertTrue(29 * 86400 < int(left) <= 30 * 86400, left)

    def test_login_keeps_the_authority(self):
        port = self.serve(*self.authority.issue("login"))
        env = dict(self.site.env, XDG_CONFIG_HOME=self.site.state + "/config", TIDE_DEV_PROFILE=self.site.state + "/none")
        for name in ("TIDE_SERVER", "TIDE_TOKEN"):
            env.pop(name, None)
        def run(*words, given=""):
            return subprocess.run([program("tide"), *words], env=env, input=given, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=60)
        address = "https://localhost:%d" % port
        done = run("login", "--server", address, "--ca", self.authority.file, given=self.site.tokens["alice"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("alice", run("whoami").stdout)

    def test_what_is_wrong_is_said(self):
        good = self.serve(*self.authority.issue("right"))
        other = self.serve(*self.authority.issue("other", names="DNS:elsewhere.example"))
        expired = self.serve(*self.authority.issue("expired", days=-1))
        foreign = Authority(self.site.state + "/foreign", "Another Authority")
        for port, ca, message in ((good, None, "is not trusted here"), (good, foreign.file, "is not trusted here"),
                                  (other, self.authority.file, "is for another name"),
                                  (expired, self.authority.file, "has expired"),
                                  (good, "/no/such/file", "cannot read the authority /no/such/file")):
            with self.subTest(message):
                done = self.tide(port, "ps", ca=ca)
                self.assertIn(message, done.stderr)
                self.assertNotIn("tide dev", done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertNotEqual(done.returncode, 0)
        self.assertIn("does not speak HTTPS", self.tide(self.site.port, "ps").stderr)

    def test_older_tls_is_refused(self):
        port = self.serve(*self.authority.issue("new"))
        context = ssl.create_default_context(cafile=self.authority.file)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with self.assertRaises(ssl.SSLError):
            self.connection(port, context).connect()

    def test_a_new_certificate_without_a_restart(self):
        certificate, key = self.authority.issue("watched")
        port = self.serve(certificate, key)
        before = self.serial(port)
        kept = self.connection(port)
        kept.request("GET", "/healthz")
        self.assertEqual(kept.getresponse().read(), b"ok\n")
        new_certificate, new_key = self.authority.issue("newer")
        shutil.copy(new_key, key)
        until(20, "a warning", lambda: "is of no use" in self.log(port))
        self.assertEqual(self.serial(port), before)
        shutil.copy(new_certificate, certificate)
        until(20, "the new certificate", lambda: self.serial(port) != before)
        kept.request("GET", "/healthz")
        self.assertEqual(kept.getresponse().read(), b"ok\n")

    def log(self, port):
        with open(self.site.state + "/https-%d.log" % port, encoding="utf-8") as file:
            return file.read()

    def test_who_does_not_shake_hands_holds_nobody_up(self):
        port = self.serve(*self.authority.issue("silent"))
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
        for each in silent:
            self.addCleanup(each.close)
        for each in silent[:100]:
            each.sendall(b"GET / HTTP/1.1\r\n\r\n")  # not TLS
        for each in silent[100:200]:
            each.sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a hello
        connection = self.connection(port)
        connection.request("GET", "/healthz")
        self.assertEqual(connection.getresponse().read(), b"ok\n")

    def test_plain_http_stays_on_this_machine(self):
        scheduler = ["--scheduler", "unix:%s/scheduler.sock" % self.site.state]
        done = subprocess.run([program("tide-api"), *scheduler, "--listen", "0.0.0.0:0"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--https-cert", done.stderr)
        api = subprocess.Popen([program("tide-api"), *scheduler, "--listen", "0.0.0.0:0", "--insecure-http"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(api.stdout.close)
        self.addCleanup(api.wait)
        self.addCleanup(api.terminate)
        self.assertIn("can be listened to", api.stdout.readline())

    def test_bad_files_are_named(self):
        certificate, key = self.authority.issue("bad")
        strange = self.authority.issue("strange")[1]
        for files, named in (((certificate, strange), strange), ((certificate, "/no/key"), "/no/key"),
                             (("/no/certificate", key), "/no/certificate"), ((key, key), key)):
            done = subprocess.run([program("tide-api"), "--scheduler", "unix:/none", "--listen", "127.0.0.1:0", "--https-cert",
                                   files[0], "--https-key", files[1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(named, done.stderr)


if __name__ == "__main__":
    unittest.main()
