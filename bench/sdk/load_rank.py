"""One rank of many that resume at once: prints seconds and bytes read from the disk. Arguments: folder, bytes of the state."""

from __future__ import annotations

import os
import sys
import time

import common  # noqa: F401: finds the SDK
import tide


def bytes_read() -> int:
    """Returns what this process has read from the disk, past the page cache or into it."""
    with open("/proc/self/io", encoding="ascii") as source:
        return next(int(line.split()[1]) for line in source if line.startswith("read_bytes"))


def main() -> None:
    state = common.make_state(int(sys.argv[2]), seed=2)
    ck = tide.Checkpoint(dir=sys.argv[1], replicated={"model": state}, timeout_s=600)
    print("ready", flush=True)
    sys.stdin.readline()
    before, begin = bytes_read(), time.perf_counter()
    assert ck.resume() == 1
    print(time.perf_counter() - begin, bytes_read() - before, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
