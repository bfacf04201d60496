"""What a command sees of the machine: made in a mount namespace by its first process."""

import ctypes
import os
import signal

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _NEW_CGROUP, _NEW_IPC, _NEW_PIDS = 0x20000, 0x2000000, 0x8000000, 0x20000000
_NOSUID, _NODEV, _BIND, _MOVE, _REC, _PRIVATE = 2, 4, 0x1000, 0x2000, 0x4000, 0x40000
_DETACH = 2
_DEATH_SIGNAL = 1
# Of the container runtimes and of `ip netns`: they would outlive the namespace.
_NOT_OF_RUN = ("runc", "crun", "netns")
# How v1's hierarchies are mounted, not which they are.
_NOT_OF_HIERARCHY = ("rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode")


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "cannot %s: %s" % (what, os.strerror(number)))


def _mount(source, target, kind=None, flags=0, data=None):
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    _check(_LIBC.mount(*words[:3], ctypes.c_ulong(flags), words[3]), "mount %s on %s" % (source, target))


def unshare():
    """Gives this process mounts and IPC of its own, and its children a pid namespace."""
    _check(_LIBC.unshare(_NEW_MOUNTS | _NEW_IPC | _NEW_PIDS), "make namespaces")


def die_with_parent():
    _check(_LIBC.prctl(_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "ask for a signal")


def cgroups():
    """Lists the mounted hierarchies: (where, is it v2, what names it to mount)."""
    found = {}
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields, kind = line.split(" - ")
            kind, _, options = kind.split()[:3]
            where = fields.split()[4]
            if kind == "cgroup2":
                found[where] = (where, True, None)
            elif kind == "cgroup":
                names = [name for name in options.split(",") if name not in _NOT_OF_HIERARCHY
                         and not name.startswith("release_agent=")]
                if all(name.startswith("name=") for name in names):
                    names.insert(0, "none")
                found[where] = (where, False, ",".join(names))
    return list(found.values())


def rearrange(places, kept):
    """Puts fresh folders and hierarchies in place. `kept`: paths that stay visible below a fresh folder."""
    _mount(None, "/", flags=_REC | _PRIVATE)
    _mount("proc", "/proc", "proc")
    _enter_branches(places["branches"])
    _make_run(places["run"])
    for fresh, target in places["fresh"]:
        for path in kept:
            if path.startswith(target + "/"):
                inner = fresh + path[len(target):]
                os.makedirs(inner, exist_ok=True)
                _mount(path, inner, flags=_BIND | _REC)
        _mount(fresh, target, flags=_BIND | _REC)
    memory = os.path.realpath("/dev/shm")
    size = os.statvfs(memory)
    _mount("tmpfs", memory, "tmpfs", _NOSUID | _NODEV, "mode=1777,size=%d" % (size.f_blocks * size.f_frsize))


def _enter_branches(branches):
    """Moves this process into its branch of each hierarchy and makes that the root that it sees."""
    mounted = cgroups()
    for branch in branches:
        with open(branch + "/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")
    _check(_LIBC.unshare(_NEW_CGROUP), "make a cgroup namespace")
    for where, _, _ in reversed(mounted):
        _check(_LIBC.umount2(os.fsencode(where), _DETACH), "hide " + where)
    for where, unified, names in mounted:
        _mount("cgroup", where, "cgroup2" if unified else "cgroup", data=names)
        if unified:  # no process may be in a group that hands controllers down
            os.mkdir(where + "/command")
            with open(where + "/command/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")


def _make_run(fresh):
    """Replaces /run by a fresh folder that shows what is there now, but for what namespaces leave there."""
    _mount("tmpfs", fresh, "tmpfs", _NOSUID | _NODEV, "mode=755")
    for entry in os.scandir("/run"):
        if entry.name in _NOT_OF_RUN or entry.name.startswith("tide"):
            continue
        target = os.path.join(fresh, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
            continue
        if entry.is_dir():
            os.mkdir(target)
        else:
            with open(target, "xb"):
                pass
        _mount(entry.path, target, flags=_BIND | _REC)
    _mount(fresh, "/run", flags=_MOVE)
