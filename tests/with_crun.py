#!/usr/bin/env python3
"""with_crun.py PROGRAM [ARGUMENT…]: runs a test program whose containers are made by crun, not runc.

Exits with 77 and one line where crun cannot be tested. crun refuses cgroup v1 with v2 beside it (hybrid), so v2's mount is hidden
from the trial, in a mount namespace of its own; for the program tide-init sees to that.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
UNIFIED = "/sys/fs/cgroup/unified"


def skip(why):
    print("skipped: container tests with crun: " + why)
    sys.exit(SKIPPED)


def try_container(crun):
    """Runs `true` of the machine's own /usr. What is wrong, or nothing."""
    with tempfile.TemporaryDirectory(prefix="tide-crun-") as bundle:
        config = {
            "ociVersion": "1.0.2",
            "root": {"path": "root", "readonly": True},
            "process": {"user": {"uid": 0, "gid": 0}, "args": ["true"], "cwd": "/",
                        "env": ["PATH=/usr/bin:/bin"]},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
            ],
            "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}]},
        }  # fmt: skip
        for name in ("dev", "proc", "usr"):
            os.makedirs("%s/root/%s" % (bundle, name))
        for name in ("bin", "lib", "lib64"):
            os.symlink("usr/" + name, "%s/root/%s" % (bundle, name))
        with open(bundle + "/config.json", "w", encoding="ascii") as file:
            json.dump(config, file)
        hide = ["unshare", "-m", "sh", "-c", 'umount -l %s 2>/dev/null; exec "$@"' % UNIFIED, "sh"]
        done = subprocess.run(
            [*hide, crun, "--root", bundle + "/state", "run", "--bundle", bundle, os.path.basename(bundle)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr.strip() or "it ended with %d" % done.returncode


def main():
    crun = shutil.which("crun", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin")
    if os.geteuid() != 0:
        skip("they need root")
    if crun is None:
        skip("crun is not installed")
    os.environ["TIDE_TEST_OCI"] = crun
    why = try_container(crun)
    if why:
        skip(why)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
