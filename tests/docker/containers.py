"""Starts the services of docker/compose.yaml by runc, as `docker compose up` would: images, users, volumes, privileges,
order, health, restarts. All are in the network of this process, each with an address and a name of its own.

What differs from Docker: the network, no seccomp profile, `init` is a shell.
"""

import json
import os
import resource
import shutil
import subprocess
import threading
import time

import compose
from image import ENV, Builder

# By their numbers.
CAPABILITIES = ("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
                "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
                "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
                "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE").split()
DEFAULT = ("CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL "
           "AUDIT_WRITE").split()
REAPER = ('"$@" & child=$!; trap "kill -TERM $child" TERM; code=0; '
          'while kill -0 $child 2>/dev/null; do wait $child; code=$?; done; exit $code')
UNITS = {"mb": 1 << 20, "gb": 1 << 30}


def _mount(target, kind, source, *options):
    return {"destination": target, "type": kind, "source": source, "options": list(options)}


def _account(root, name):
    with open(root + "/etc/passwd", encoding="utf-8") as file:
        for line in file:
            fields = line.split(":")
            if fields[0] == name:
                return int(fields[2]), int(fields[3]), fields[5]
    raise KeyError("%s has no account %s" % (root, name))


def _capabilities(fields):
    """Those of a service, as far as this process has them to give."""
    if fields.get("cap_drop") == ["ALL"]:
        return []
    with open("/proc/self/status", encoding="ascii") as file:
        held = int(next(line.split()[1] for line in file if line.startswith("CapBnd")), 16)
    names = CAPABILITIES if fields.get("privileged") else DEFAULT
    return ["CAP_" + name for name in names if held >> CAPABILITIES.index(name) & 1]


class Container:
    """One service, started any number of times."""

    def __init__(self, site, service):
        self.site, self.service = site, service
        self.root = site.builder.root(service.dockerfile)
        self.log = os.path.join(site.work, service.name + ".log")
        self.child = self.thread = self.code = None
        self.ending = False
        self.starts = 0

    def start(self):
        self.ending, self.code = False, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ending:
            self.starts += 1
            with open(self.log, "ab") as log:
                self.child = subprocess.Popen(self._argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            code = self.child.wait()
            self.site.runc("delete", "--force", self._id())
            if self.service.once:
                self.code = code
                return
            time.sleep(0.2)  # tidy: poll; between two starts, as Docker has it

    def run(self, words, entrypoint=None, stdin=""):
        """One more container of this service, as `docker compose run --rm`."""
        self.starts += 1
        return subprocess.run(self._argv(words, entrypoint), input=stdin, capture_output=True, text=True, timeout=120, check=False)

    def execute(self, *words):
        return self.site.runc("exec", self._id(), *words)

    def healthy(self):
        return self.execute(*self.service.image.health).returncode == 0

    def kill(self):
        self.site.runc("kill", self._id(), "KILL")

    def stop(self):
        self.ending = True
        grace = int(self.service.fields.get("stop_grace_period", "10s").rstrip("s"))
        self.site.runc("kill", self._id(), self.service.image.last("STOPSIGNAL", "SIGTERM"))
        self.thread.join(grace)
        if self.thread.is_alive():
            self.site.runc("kill", self._id(), "KILL")
            self.thread.join(10)

    def said(self):
        """The end of its log."""
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def status(self):
        """The fields of /proc/PID/status of the service's process."""
        told = json.loads(self.site.runc("state", self._id()).stdout)
        with open("/proc/%d/status" % told["pid"], encoding="utf-8") as file:
            return dict(line.split(":", 1) for line in file.read().splitlines())

    def _id(self):
        return "%s-%s-%d" % (self.site.id, self.service.name, self.starts)

    def _argv(self, words=None, entrypoint=None):
        bundle = os.path.join(self.site.work, "bundles", self._id())
        os.makedirs(bundle)
        argv = (entrypoint or self.service.entrypoint) + (self.service.command if words is None else words)
        with open(bundle + "/config.json", "w", encoding="utf-8") as file:
            json.dump(self._config(argv), file)
        return [*self.site.runc_argv, "run", "--bundle", bundle, self._id()]

    def _config(self, argv):
        fields = self.service.fields
        privileged = fields.get("privileged", False)
        uid, gid, home = _account(self.root, self.service.user)
        capabilities = _capabilities(fields)
        held = capabilities if uid == 0 else []
        if fields.get("init"):
            argv = ["bash", "-c", REAPER, "init", *argv]
        devices = [{"path": "/dev/kmsg", "type": "c", "major": 1, "minor": 11, "fileMode": 0o600, "uid": 0, "gid": 0}]
        files = min(fields.get("ulimits", {}).get("nofile", 65536), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": uid, "gid": gid}, "args": argv, "cwd": "/", "noNewPrivileges": "security_opt" in fields,
                "env": ["%s=%s" % pair for pair in {**ENV, "HOME": home, **fields.get("environment", {})}.items()],
                "capabilities": {"bounding": capabilities, "effective": held, "permitted": held},
                "rlimits": [{"type": "RLIMIT_NOFILE", "soft": files, "hard": files}],
            },
            "root": {"path": self.root, "readonly": fields.get("read_only", False)},
            "hostname": fields.get("hostname", self.service.name),
            "mounts": self._mounts(privileged),
            "linux": {
                "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
                              + ([{"type": "network"}] if fields.get("network_mode") == "none" else []),
                "devices": devices if privileged else [],
                "resources": {"devices": [{"allow": privileged, "access": "rwm"}]},
                "cgroupsPath": "/%s/%s" % (self.site.id, self.service.name),
                "maskedPaths": [] if privileged else ["/proc/kcore", "/proc/keys", "/proc/sysrq-trigger"],
            },
        }

    def _mounts(self, privileged):
        text = self.service.fields.get("shm_size", "64mb")
        shm = int(text[:-2]) * UNITS[text[-2:]]
        mounts = [
            _mount("/proc", "proc", "proc"),
            _mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
            _mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
            _mount("/dev/mqueue", "mqueue", "mqueue", "nosuid", "noexec", "nodev"),
            _mount("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", "size=%d" % shm),
            _mount("/sys", "none", "/sys", "rbind", "rw" if privileged else "ro"),
            _mount("/etc/hosts", "none", self.site.hosts, "bind", "ro"),
        ]
        for path in self.service.fields.get("tmpfs", []):
            mounts.append(_mount(path, "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777" if path == "/tmp" else "mode=755"))
        for volume in self.service.volumes:
            source = self.site.volume(volume, self.root)
            mounts.append(_mount(volume.path, "none", source, "rbind", "ro" if volume.read_only else "rw"))
        return sorted(mounts, key=lambda mount: mount["destination"].count("/"))


class Site:
    """All services, in a folder of their own."""

    def __init__(self, work, build):
        self.work = work
        self.id = os.path.basename(work)
        self.services, self.volumes = compose.read()
        self.making_volumes = threading.Lock()
        self.builder = Builder(os.path.join(work, "images"), build)
        self.hosts = os.path.join(work, "hosts")
        self.runc_argv = ["runc", "--root", os.path.join(work, "runc")]
        os.makedirs(os.path.join(work, "volumes"))
        self._make_network()
        self.containers = {name: Container(self, service) for name, service in self.services.items()}

    def runc(self, *words):
        return subprocess.run([*self.runc_argv, *words], capture_output=True, text=True, timeout=60, check=False)

    def _make_network(self):
        """Gives the loopback of this network an address for each service."""
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        lines = ["127.0.0.1 localhost"]
        self.addresses = {name: "172.30.7.%d" % number for number, name in enumerate(self.services, 10)}
        for name, address in self.addresses.items():
            subprocess.run(["ip", "address", "add", address + "/24", "dev", "lo"], check=True)
            lines.append("%s %s" % (address, name))
        with open(self.hosts, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")

    def volume(self, volume, root):
        """Its folder; a new one is as the image has it, as with Docker."""
        if volume.name not in self.volumes:
            raise KeyError(volume.name)
        folder = os.path.join(self.work, "volumes", volume.name)
        with self.making_volumes:  # services that share one start at the same time
            if not os.path.exists(folder):
                os.mkdir(folder)
                if os.path.isdir(root + volume.path):
                    subprocess.run(["cp", "-a", root + volume.path + "/.", folder], check=True)
                    shutil.copystat(root + volume.path, folder)
                    info = os.stat(root + volume.path)
                    os.chown(folder, info.st_uid, info.st_gid)
        return folder

    def up(self, seconds=120):
        """Starts all but those that ask for a profile, each when what it depends on stands as it wants."""
        self.deadline = time.monotonic() + seconds
        for name, service in self.services.items():
            if "profiles" not in service.fields:
                self._start(name)

    def _start(self, name):
        container = self.containers[name]
        if container.thread is not None:
            return
        for other, condition in container.service.depends.items():
            self._start(other)
            self._await(self.containers[other], condition)
        container.start()

    def _await(self, other, condition):
        def holds():
            if condition == "service_healthy":
                return other.healthy()
            if condition != "service_completed_successfully":
                raise ValueError("no test knows the condition " + condition)
            if other.code not in (None, 0):
                raise AssertionError("%s ended with %d: %s" % (other.service.name, other.code, other.said()))
            return other.code == 0
        while not holds():
            if time.monotonic() > self.deadline:
                raise AssertionError("gave up waiting for %s: %s" % (other.service.name, other.said()))
            time.sleep(0.1)  # tidy: poll

    def said(self):
        return "".join("\n--- %s\n%s" % (name, container.said()) for name, container in self.containers.items())

    def down(self):
        for container in reversed(list(self.containers.values())):
            if container.thread is not None:
                container.stop()
                container.thread = None
