"""The programs of docs/guide/sdk.md: each is suspended, started again, and compared with a run that was left alone."""

import glob
import os
import re
import subprocess
import sys
import unittest

from support import ROOT, SDK, TempCase, free_port, run_ranks

try:
    import torch
except ImportError:
    torch = None

_GUIDE = os.path.join(ROOT, "docs", "guide", "sdk.md")


def programs():
    with open(_GUIDE, encoding="utf-8") as guide:
        return re.findall(r"^```python\n(.*?)^```$", guide.read(), re.DOTALL | re.MULTILINE)


class Programs(TempCase):
    def run_once(self, program, name, code, **env):
        place = {"TIDE_CHECKPOINT_DIR": self.path(name), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                 "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        ends = run_ranks(["-c", program], 2, {**place, **env})
        self.assertEqual([end[0] for end in ends], [code, code], ends)

    def test_each_resumes_exactly(self):
        found = programs()
        self.assertEqual(len(found), 2)
        for number, program in enumerate(found):
            if "import torch" in program and torch is None:
                continue
            with self.subTest(program.splitlines()[0]):
                alone, resumed = f"alone-{number}", f"resumed-{number}"
                self.run_once(program, alone, 0)
                self.run_once(program, resumed, 85, TIDE_REHEARSE_SUSPEND="7")
                self.run_once(program, resumed, 0)
                self.compare(self.path(alone), self.path(resumed))

    def compare(self, one, other):
        files = [sorted(os.path.basename(name) for name in glob.glob(os.path.join(folder, "rank-*"))) for folder in (one, other)]
        self.assertEqual(*files)
        for name in files[0]:
            with open(os.path.join(one, name), "rb") as first, open(os.path.join(other, name), "rb") as second:
                self.assertEqual(first.read(), second.read())
        if not files[0]:
            env = {**os.environ, "PYTHONPATH": SDK}
            for objects in ("model.", "opt."):
                done = subprocess.run([sys.executable, "-m", "tide.checkpoint", "diff", one, other, "--only", objects], env=env,
                                      check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
