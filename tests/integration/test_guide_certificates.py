"""The commands of docs/guide/certificates.md, in their order, in an empty folder."""

import os
import subprocess
import tempfile
import unittest

from harness import BIN, ROOT
from test_guide_people import BLOCK


class GuideTest(unittest.TestCase):
    def test_every_command(self):
        with open(ROOT + "/docs/guide/certificates.md", encoding="utf-8") as file:
            script = "".join(BLOCK.findall(file.read()))
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["bash", "-euxo", "pipefail", "-c", script], cwd=folder, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "PATH": BIN + ":" + os.environ["PATH"]}, capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(sorted(os.listdir(folder + "/tls")), ["api", "n01", "n02", "n03", "scheduler"])
            for name in os.listdir(folder + "/tls"):
                self.assertEqual(sorted(os.listdir("%s/tls/%s" % (folder, name))), ["ca.pem", "crl.pem", "identity.pem"])


if __name__ == "__main__":
    unittest.main()
