"""Makes what outlives the namespace of a command, and removes it when the command and all below it are gone."""

import contextlib
import fcntl
import glob
import json
import os
import shutil
import signal
import struct
import sys
import tempfile
import time

from in_namespace import mounts

_NAME = "tide-run-"
_SECONDS = 30.0
_LOOP_CLEAR, _LOOP_STATUS = 0x4C01, 0x4C05


def start():
    """Starts the janitor. Returns the places it made, its pid, and a descriptor: it cleans when no process has that.

    It makes all of it, so that there is no moment at which something is there and nobody to remove it.
    """
    watched, held = os.pipe()
    answer, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(held)
        os.close(answer)
        code = 1
        try:
            code = _serve(watched, told)
        except Exception as error:
            print("in-namespace: janitor: %s" % error, file=sys.stderr)
        finally:
            os._exit(code)
    os.close(watched)
    os.close(told)
    with open(answer, encoding="utf-8") as file:
        said = file.read()
    if not said:
        raise SystemExit(1)
    return json.loads(said), pid, held


def _serve(watched, told):
    os.setsid()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.chdir("/")
    made = {"folders": [], "branches": []}
    try:
        places = _make(made)
        with contextlib.suppress(BrokenPipeError), open(told, "w", encoding="utf-8") as file:
            file.write(json.dumps(places))
        os.read(watched, 1)
    finally:
        left = _clean(made)
    for path in left:
        print("in-namespace: cannot remove " + path, file=sys.stderr)
    return 1 if left else 0


def _make(made):
    places = {"fresh": [], "branches": made["branches"]}
    for target, parent in (("/tmp", tempfile.gettempdir()), ("/var/tmp", "/var/tmp")):
        target = os.path.realpath(target)
        if any(target == other for _, other in places["fresh"]):
            continue
        folder = tempfile.mkdtemp(prefix=_NAME, dir=parent)
        made["folders"].append(folder)
        os.mkdir(folder + "/files")
        os.chmod(folder + "/files", 0o1777)
        places["fresh"].append((folder + "/files", target))
    places["run"] = made["folders"][0] + "/run"
    os.mkdir(places["run"])
    name = os.path.basename(made["folders"][0])
    mine = _own_groups()
    for where, unified, names in mounts.cgroups():
        # Below this process's own group, so that its limits hold; but v2 hands no controllers to groups there.
        branch = os.path.normpath(where + ("" if unified else mine.get(names, ""))) + "/" + name
        if not os.path.isdir(os.path.dirname(branch)):
            branch = where + "/" + name
        os.mkdir(branch)
        made["branches"].append(branch)
        if unified:
            _hand_down(where)
        elif os.path.exists(branch + "/cpuset.cpus"):
            for file in ("/cpuset.cpus", "/cpuset.mems"):
                _write(branch + file, _read(os.path.dirname(branch) + file))
    return places


def _own_groups():
    """Maps what names a v1 hierarchy to this process's group in it."""
    groups = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        groups["none," + names if names.startswith("name=") else names] = path
    return groups


def _hand_down(group):
    for controller in _read(group + "/cgroup.controllers").split():
        with contextlib.suppress(OSError):
            _write(group + "/cgroup.subtree_control", "+" + controller)


def _clean(made):
    """Ends what still runs in the branches and removes all. Returns what is left after a while."""
    deadline = time.monotonic() + _SECONDS
    while True:
        left = [path for path in made["branches"] if not _remove_branch(path)]
        if not left:
            left = [path for path in made["folders"] if not _remove_folder(path)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)  # tidy: poll; nothing tells when a group of v1 is empty


def _remove_branch(branch):
    groups = [folder for folder, _, _ in os.walk(branch, topdown=False)]
    for group in groups:
        with contextlib.suppress(OSError):
            os.rmdir(group)
            continue
        with contextlib.suppress(OSError):
            if os.path.exists(group + "/freezer.state"):
                _write(group + "/freezer.state", "THAWED")
        with contextlib.suppress(OSError):
            if os.path.exists(group + "/cgroup.kill"):
                _write(group + "/cgroup.kill", "1")
                continue
            for pid in _read(group + "/cgroup.procs").split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
    return not os.path.exists(branch)


def _remove_folder(folder):
    if " " + folder + "/" in _read("/proc/self/mountinfo"):
        return False  # something is mounted there: what is below is not ours to remove
    _detach_loops(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return not os.path.exists(folder)


def _detach_loops(folder):
    """Detaches loop devices from files in the folder."""
    used = {}
    for path in glob.glob("/sys/block/loop*/loop"):
        with contextlib.suppress(OSError), open("/dev/" + path.split("/")[3], "rb") as device:
            status = bytearray(232)
            fcntl.ioctl(device, _LOOP_STATUS, status)
            used[struct.unpack_from("QQ", status)] = device.name
    if not used:
        return
    for base, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(base, name))
                # The kernel's own form of a device number has 20 bits for the minor one.
                for number in (found.st_dev, os.major(found.st_dev) << 20 | os.minor(found.st_dev)):
                    if (number, found.st_ino) in used:
                        with open(used[(number, found.st_ino)], "rb") as device:
                            fcntl.ioctl(device, _LOOP_CLEAR)


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
