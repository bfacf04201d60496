"""The SDK's packages: what they hold, and that a program saves and resumes with nothing else."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NATIVE = {"tide/_native/libtide.so", "tide/_native/tide-saver"}
PROGRAM = """
import array, os, sys
import hfai, tide
from tide.checkpoint import _native
here = os.path.dirname(os.path.dirname(tide.__file__))
assert here == sys.argv[1], here
saver = _native.find().saver
assert saver == os.path.join(here, "tide", "_native", "tide-saver"), saver
weights = array.array("d", [float(sys.argv[3])]) * 1000
ck = tide.Checkpoint(dir=sys.argv[2], replicated={"model": {"w": weights}})
step = ck.resume()
ck.save(step + 1)
assert ck._background.saver_pid is not None
print(step, weights[0])
"""


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="tide-package-")
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        packed = subprocess.run([os.path.join(ROOT, "scripts", "package"), "--no-build"], check=True, text=True,
                                stdout=subprocess.PIPE).stdout.split()
        cls.deb, cls.wheel = (next(path for path in packed if path.endswith(end)) for end in (".deb", ".whl"))

    def unpack_deb(self):
        target = tempfile.mkdtemp(dir=self.dir)
        subprocess.run(["dpkg-deb", "-x", self.deb, target], check=True)
        return os.path.join(target, "usr", "lib", "python3", "dist-packages")

    def install_wheel(self):
        target = tempfile.mkdtemp(dir=self.dir)
        subprocess.run(["/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile",
                        "--root-user-action=ignore", "--target", target, self.wheel], check=True)
        return target

    def test_both_hold_the_sdk_and_nothing_else(self):
        sources = {name for folder in ("python", "adapters")
                   for name in subprocess.run(["git", "ls-files", "*.py", "*/py.typed"], cwd=os.path.join(ROOT, "sdk", folder),
                                              check=True, text=True, stdout=subprocess.PIPE).stdout.split()}
        self.assertEqual(files_in(self.unpack_deb()), sources | NATIVE)
        wheel = files_in(self.install_wheel())
        self.assertEqual({name for name in wheel if ".dist-info/" not in name}, sources | NATIVE)

    def test_saves_and_resumes(self):
        for name, install in (("deb", self.unpack_deb), ("wheel", self.install_wheel)):
            with self.subTest(name):
                said = [self.save_with(install(), name, value) for value in (1.5, 2.5)]
                self.assertEqual(said, ["0 1.5\n", "1 1.5\n"])

    def save_with(self, packages, name, value):
        env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(["/usr/bin/python3", "-c", PROGRAM, packages, os.path.join(self.dir, "ck-" + name), str(value)],
                              env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_fields(self):
        fields = subprocess.run(["dpkg-deb", "-f", self.deb, "Package", "Version", "Depends"], check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        self.assertIn("Package: python3-tide\n", fields)
        self.assertRegex(fields, r"Depends: python3 \(>= 3\.9\), libc6 \(>= 2\.\d+\)\n")
        (metadata,) = glob.glob(os.path.join(self.install_wheel(), "tide_sdk-*.dist-info", "METADATA"))
        with open(metadata, encoding="utf-8") as source:
            self.assertIn("Name: tide-sdk\nVersion: %s\n" % fields.split("Version: ")[1].split()[0], source.read())


def files_in(folder):
    return {os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names}


if __name__ == "__main__":
    sys.exit(unittest.main())
