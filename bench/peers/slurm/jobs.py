"""Short jobs on a private Slurm cluster: one array of `true`, until the last has ended.

Prints one line of JSON: {"seconds", "states": {state: count}, "cpu_s": {program: seconds}}. Needs root, and starts itself again
in a pid and mount namespace of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time

import slurm_cluster as slurm

_INSIDE = "--inside"


def measure(folder: str, options: argparse.Namespace) -> None:
    cluster = slurm.Cluster(folder, options.nodes, options.cpus)
    try:
        os.mkdir(os.path.join(folder, "out"))
        before = cluster.cpu_seconds()
        start = time.monotonic()
        cluster.run("sbatch", "--quiet", f"--array=0-{options.jobs - 1}", "--cpus-per-task=1", "--mem=1",
                    f"--output={folder}/out/%a", "--wrap", "true")
        while cluster.ended() < options.jobs:
            if time.monotonic() - start > options.limit_s:
                raise SystemExit(f"only {cluster.ended()} of {options.jobs} jobs ended; see {folder}")
            time.sleep(0.01)
        seconds = time.monotonic() - start
        used = {name: value - before[name] for name, value in cluster.cpu_seconds().items()}
        print(json.dumps({"seconds": seconds, "states": cluster.states(), "cpu_s": used}), flush=True)
    finally:
        cluster.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--cpus", type=int, default=8, help="of a node, that jobs of one CPU share")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--dir", default="/var/tmp")
    parser.add_argument("--limit-s", type=float, default=300.0)
    parser.add_argument(_INSIDE, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        os.execvp("unshare", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-B",
                              *sys.argv, _INSIDE])
    folder = tempfile.mkdtemp(prefix="tide-bench-slurm-", dir=options.dir)
    try:
        measure(folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
