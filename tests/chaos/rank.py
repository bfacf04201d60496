"""One rank of a chaos job: notes its life in a file of its job and rank, holding the file's lock while it lives.

rank.py FOLDER SECONDS    works for SECONDS in all, over suspensions; leaves with 85 on SIGTERM, as a rank that saved

Two of one job and rank alive at one moment cannot both have the lock: the second one says so itself ("overlap"), so
nothing has to be caught in the act. Times are of CLOCK_BOOTTIME, which all nodes of one machine share.
"""

import fcntl
import os
import signal
import sys
import time

SUSPENDED = 85


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def main():
    folder, seconds = sys.argv[1], float(sys.argv[2])
    job, attempt, rank = (os.environ[key] for key in ("TIDE_JOB_ID", "TIDE_ATTEMPT", "RANK"))
    file = os.open("%s/%s.%s" % (folder, job, rank), os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)

    def note(word, more=""):
        os.write(file, ("%s %d %s %d %s\n" % (word, os.getpid(), attempt, boot_ns(), more)).encode())

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlap", "-")
    done = sum(float(line.split()[4]) for line in os.pread(file, 1 << 20, 0).decode().splitlines()
               if line.startswith("stop "))
    stops = {signal.SIGTERM, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    begin = time.monotonic()
    note("start", os.environ.get("CHAOS_NODE", "-"))
    left = max(0.0, seconds - done)
    if signal.sigtimedwait(stops, left) is not None:
        note("stop", "%.3f" % min(left, time.monotonic() - begin))
        os._exit(SUSPENDED)
    note("end", "0")
    os._exit(0)


main()
