"""A certificate authority of a test's own, and servers' certificates by it."""

import os
import subprocess


class Authority:
    def __init__(self, folder, name="Test Authority"):
        os.makedirs(folder)
        self.folder = folder
        self.file = folder + "/ca.pem"
        self._openssl("req", "-x509", *self._new_key("ca"), "-out", self.file, "-subj", "/CN=" + name, "-days", "30")

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1", days=30):
        """Paths of a new certificate and its key. `days` may lie in the past."""
        base = self.folder + "/" + name
        with open(base + ".names", "w", encoding="ascii") as file:
            file.write("subjectAltName=%s\n" % names)
        self._openssl("req", *self._new_key(name), "-out", base + ".csr", "-subj", "/CN=" + name)
        self._openssl("x509", "-req", "-in", base + ".csr", "-CA", self.file, "-CAkey", self.folder + "/ca.key", "-days",
                      str(days), "-extfile", base + ".names", "-out", base + ".pem")
        return base + ".pem", base + ".key"

    def _new_key(self, name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "%s/%s.key" % (self.folder, name)]

    @staticmethod
    def _openssl(*words):
        subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
