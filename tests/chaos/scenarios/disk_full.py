"""The store's disk fills up under load, and is freed after a while. Needs root: a small tmpfs in a mount namespace.

Proves: nothing is acknowledged that is not on disk; the scheduler ends with 71 (or 70, 72 at a start) and says that
space is missing; what runs goes on; once there is space, all goes on after a restart by the service manager.
"""

import contextlib
import os
import subprocess
import threading

from audit import audit, describe_codes
from daemons import Site, await_pause, boot_ns
from harness import until
from load import Load
from scenarios.leader_kills import NODES, cancel, steady
from stores import OnPostgres, Sqlite

UNSHARE = ("--mount", "--propagation", "private")
MIB = {"sqlite": 16, "postgresql": 110}  # a write-ahead log of SQLite has 4
FULL_S = 3.0
# 70 and 72: at a start on a disk that is still full, or while the server recovers; 75 and 76: beside a standby.
CODES = {70, 71, 72, 75, 76}


def small_disk(folder, mib):
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dm,mode=711" % mib, "tide-chaos", folder], check=True)
    return folder


class Ballast:
    """Takes all space of a disk, also what is freed there, until it is let go."""

    def __init__(self, folder):
        self._path = folder + "/ballast"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        with open(self._path, "wb", buffering=0) as file:
            while not self._stop.wait(0.01):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * 4096)

    def let_go(self):
        self._stop.set()
        self._thread.join()
        os.unlink(self._path)


def open_store(options, disk):
    small_disk(disk, MIB[options.on])
    store = OnPostgres(disk) if options.on == "postgresql" else Sqlite(disk)
    close = store.close

    def close_and_unmount():
        close()
        subprocess.run(["umount", "-l", disk], check=True)
    store.close = close_and_unmount
    return store


def run(options):
    disk = []

    def store(site):
        disk.append(site.state + "/scheduler")
        return open_store(options, disk[0])
    with options.closing(Site(store, NODES)) as site:
        site.start()
        load = Load(site, options.seed, 8 if options.full else 4).start()
        jobs, pids = steady(site, load)
        for number in range(3 if options.full else 1):
            before = sum(len(each.codes) for each in site.schedulers)
            ballast = Ballast(disk[0])
            until(120, "a scheduler to end", lambda: sum(len(each.codes) for each in site.schedulers) > before)
            await_pause(FULL_S)
            ballast.let_go()
            if options.on == "postgresql" and site.store.server.server.poll() is not None:
                site.store.start()  # it had given up, too
            at = boot_ns()
            probe = load.submit("probe-%d" % number, 0, group="probe")
            site.await_start(probe, at, 60)
            load.check()
            if {p.pid for job in jobs for p in site.ranks(job)} != pids:
                raise AssertionError("a full disk touched ranks that ran")
        load.stop()
        cancel(site, jobs)
        told = audit(site, load)
        codes = site.codes()
        said = "\n".join(each.said() for each in site.schedulers)
    if not set(codes) <= CODES or 71 not in codes:
        raise AssertionError(describe_codes(codes))
    if "No space left" not in said and "no space left" not in said:
        raise AssertionError("no scheduler said that space is missing")
    return "%s; %s" % (describe_codes(codes), told)
