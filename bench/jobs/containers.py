"""The limit of short jobs in containers: the OCI runtime alone, `true` after `true` in two loops.

The configuration is that of a task of Tide's, with the same root, mounts, limits and rights; each loop has a cgroup of its own.
Prints one line of JSON: {"runtime", "seconds", "containers"}. Needs root; starts itself again in a mount namespace of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

_INSIDE = "--inside"
_LOOPS = 2


def adapted(config: dict, folder: str, loop: int) -> dict:
    """The configuration of a loop. What was the task's own is replaced by empty folders."""
    config["process"]["args"] = ["true"]
    config["root"]["path"] = os.path.join(folder, "layers", "root")
    config["linux"]["cgroupsPath"] = f"/tide/{os.path.basename(folder)}-{loop}"
    for number, mount in enumerate(config["mounts"]):
        if mount["type"] == "bind" and not os.path.exists(mount["source"]):
            mount["source"] = os.path.join(folder, f"source-{number}")
            os.makedirs(mount["source"], exist_ok=True)
    return config


def mount_root(folder: str) -> None:
    layers = os.path.join(folder, "layers")
    os.mkdir(layers)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", layers], check=True)
    for name in ("upper", "work", "root"):
        os.mkdir(os.path.join(layers, name))
    subprocess.run(["mount", "-t", "overlay", "overlay", os.path.join(layers, "root"), "-o",
                    f"lowerdir=/,upperdir={layers}/upper,workdir={layers}/work"], check=True)
    # As Tide does for crun, which refuses cgroup v2 beside v1.
    subprocess.run(["umount", "-l", "/sys/fs/cgroup/unified"], check=False, stderr=subprocess.DEVNULL)


def run_loops(folder: str, options: argparse.Namespace) -> float:
    """Seconds of all loops together. The shell of a loop starts nothing but the runtime."""
    script = ('i=0; while [ $i -lt "$1" ]; do "$2" --root "$3/state" run --bundle "$3/bundle-$4" "$4-$i" </dev/null >/dev/null '
              '|| exit 1; i=$((i + 1)); done')
    start = time.monotonic()
    loops = [subprocess.Popen(["sh", "-c", script, "sh", str(options.count // _LOOPS), options.runtime, folder, str(loop)])
             for loop in range(_LOOPS)]
    if any(loop.wait() != 0 for loop in loops):
        raise SystemExit(f"{options.runtime} failed")
    return time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--config", required=True, help="config.json of a task")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--dir", default="/var/tmp")
    parser.add_argument(_INSIDE, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        os.execvp("unshare", ["unshare", "--mount", sys.executable, "-B", *sys.argv, _INSIDE])
    with tempfile.TemporaryDirectory(prefix="tide-bench-", dir=options.dir) as folder:
        mount_root(folder)
        try:
            for loop in range(_LOOPS):
                with open(options.config, encoding="utf-8") as source:
                    config = adapted(json.load(source), folder, loop)
                os.mkdir(os.path.join(folder, f"bundle-{loop}"))
                with open(os.path.join(folder, f"bundle-{loop}", "config.json"), "w", encoding="utf-8") as out:
                    json.dump(config, out)
            seconds = run_loops(folder, options)
        finally:
            for name in ("layers/root", "layers"):
                subprocess.run(["umount", "-l", os.path.join(folder, name)], check=False)
    print(json.dumps({"seconds": seconds, "containers": options.count // _LOOPS * _LOOPS}), flush=True)


if __name__ == "__main__":
    main()
