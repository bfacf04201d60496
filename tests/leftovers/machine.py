"""What a killed program can leave on a machine, as sets of words to compare."""

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from harness import processes, until  # noqa: E402

FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/netns", "/run/runc", "/run/crun", "/run/lock")


def _lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def _entries(folder):
    return ["file %s/%s" % (folder, name) for name in os.listdir(folder)] if os.path.isdir(folder) else []


def _loops():
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            found.append("loop device %s of %s" % (path.split("/")[3], _lines(path)[0]))
        except OSError:
            pass  # detached just now
    return found


def look(loops):
    """Takes a picture: every process, cgroup, mount, temporary file, IPC object and, if asked, loop device."""
    seen = {"process %d %s: %s" % (p.pid, p.started, " ".join(p.argv)) for p in processes()}
    seen |= {"cgroup " + path for path, _, _ in os.walk("/sys/fs/cgroup")}
    seen |= {"mount " + line for line in _lines("/proc/self/mountinfo")}
    for folder in FOLDERS:
        seen |= set(_entries(folder))
    for kind in ("shm", "sem", "msg"):
        seen |= {"ipc %s %s" % (kind, " ".join(line.split()[:2])) for line in _lines("/proc/sysvipc/" + kind)}
    return seen | set(_loops() if loops else ())


def count_below(pid):
    """Counts the living descendants of a process."""
    children = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process.pid)
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return len(found) - 1


__all__ = ["count_below", "look", "until"]
