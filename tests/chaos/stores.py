"""The two stores, as a chaos scenario needs them: an address, who leads, and ways to break them."""

import contextlib
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
from harness import pause, processes, until  # noqa: E402
from postgres import Postgres  # noqa: E402


class Sqlite:
    """A file in the cluster's folder."""

    name = "sqlite"
    standbys = 0  # they need the same machine, and are proven by test_failover.py

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, mode=0o711, exist_ok=True)

    def address(self):
        return "sqlite:%s/tide.db" % self.folder

    def leader(self):
        """The pid of the scheduler that leads; None between two of them."""
        with contextlib.suppress(OSError, ValueError):
            with open(self.folder + "/tide.db.lock", encoding="ascii") as file:
                return int(file.read())
        return None

    def close(self):
        pass


class OnPostgres:
    """A private server, and ways to hurt it."""

    name = "postgresql"
    standbys = 1

    def __init__(self, parent=None):
        self.server = Postgres(parent)
        self.server.sql("CREATE DATABASE tide")

    def address(self):
        return self.server.address("tide")

    def leader(self):
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            found = re.search(r":(\d+) since ", self.server.sql(
                "SELECT holder FROM leases WHERE to_timestamp(expires_ns / 1e9) > now() - interval '1 day'", "tide"))
            return int(found.group(1)) if found else None
        return None

    def kill_hard(self):
        """kill -9 of the postmaster and all it started, as when the machine's memory is gone."""
        mother = self.server.server
        family = [p for p in processes() if p.parent == mother.pid]
        mother.kill()
        for each in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
        mother.wait(30)
        until(30, "PostgreSQL's processes to be gone", lambda: not any(p.alive() for p in family))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.server.folder + "/data/postmaster.pid")

    def start(self):
        self.server.start()

    def close(self):
        self.server.close()


def await_pause(seconds):
    """Here, the time is the input: a moment that a scenario drew, or how long something is away."""
    pause(seconds)
