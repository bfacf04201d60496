"""A private PostgreSQL server for tests: a fresh cluster in a folder of its own, a unix socket there. It ends with this
process, also when that is killed."""

import ctypes
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

from harness import until

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def folder_of_programs():
    """Debian keeps the server's programs out of PATH."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    initdb = found[-1] if found else shutil.which("initdb")
    if initdb is None:
        raise AssertionError("PostgreSQL is not installed: run scripts/setup, which installs it")
    return os.path.dirname(initdb)


class Postgres:
    def __init__(self, parent=None):
        """parent: a folder that others may pass through; else that of temporary files."""
        self.folder = tempfile.mkdtemp(prefix="tide-pg-", dir=parent)
        self.programs = folder_of_programs()
        self.owner = {}
        if os.geteuid() == 0:  # which PostgreSQL refuses to be run by
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            user = names.get("postgres") or names["nobody"]
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            os.chmod(self.folder, 0o711)
            self.owner = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.server = None
        subprocess.run([self.programs + "/initdb", "-D", self.folder + "/data", "-U", "tide", "-A", "trust", "-E",
                        "UTF8", "--locale=C", "--no-sync"], check=True, capture_output=True, cwd=self.folder,
                       timeout=120, **self.owner)
        with open(self.folder + "/data/pg_hba.conf", "w", encoding="ascii") as file:
            file.write("local all needs_password scram-sha-256\nlocal all all trust\n")
        self.start()

    def start(self):
        settings = ("listen_addresses=", "unix_socket_directories=" + self.folder, "fsync=off", "max_connections=20",
                    "shared_buffers=16MB")
        argv = [self.programs + "/postgres", "-D", self.folder + "/data"]
        for setting in settings:
            argv += ["-c", setting]
        with open(self.folder + "/log", "ab") as log:
            self.server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                                           preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT),
                                           **self.owner)

        def ready():
            with open(self.folder + "/data/postmaster.pid", encoding="ascii") as file:
                return "ready" in file.read()
        until(60, "PostgreSQL to start", lambda: os.path.exists(self.folder + "/data/postmaster.pid") and ready())

    def kill(self):
        """As a crash: nothing is flushed, no client is told."""
        self.server.send_signal(signal.SIGQUIT)
        self.server.wait(30)
        with_pid = self.folder + "/data/postmaster.pid"
        if os.path.exists(with_pid):
            os.unlink(with_pid)

    def close(self):
        if self.server.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, text, database="postgres"):
        done = subprocess.run([self.programs + "/psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", "tide",
                               "-d", database, "-c", text], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout.strip()

    def address(self, database, user="tide"):
        return "postgresql:host=%s dbname=%s user=%s" % (self.folder, database, user)
