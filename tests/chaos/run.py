#!/usr/bin/env python3
"""Real processes under chaos: README.md beside this file says what each scenario proves.

run.py --store sqlite|postgresql --scenario NAME|all --kills N --seed S [--full] [--real-times]
"""

import argparse
import contextlib
import importlib
import os
import random
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "integration")]
from stores import OnPostgres, Sqlite  # noqa: E402

SCENARIOS = ("leader-kills", "postgres-kill", "connection-cuts", "disk-full", "isolation", "clock-steps",
             "lost-state")
SKIPPED = 77  # SKIP_RETURN_CODE of CMakeLists.txt


class Skipped(Exception):
    """It cannot be played here; the text says why."""


class Options:
    """What a scenario may ask for."""

    Skipped = Skipped

    def __init__(self, args, seed):
        self.on = args.store
        self.kills = args.kills
        self.full = args.full
        self.real_times = args.real_times
        self.inside = args.inside
        self.seed = seed

    def store(self, site):
        return OnPostgres() if self.on == "postgresql" else Sqlite(site.state + "/scheduler")

    @staticmethod
    @contextlib.contextmanager
    def closing(site):
        """As contextlib.closing; shows the daemons' last words when it fails."""
        try:
            yield site
        except BaseException:
            for daemon in site.daemons:
                lines = daemon.said().splitlines()[-15:] if os.path.exists(daemon.log) else []
                print("\n".join(["--- %s, codes %s" % (daemon.name, daemon.codes), *lines]), file=sys.stderr)
            raise
        finally:
            site.close()


def play_inside(name, options, flags):
    """In namespaces of its own, which end with it: another run of this program. Its exit code."""
    tried = subprocess.run(["unshare", *flags, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise Skipped("no namespaces here: " + tried.stderr.strip())
    child = subprocess.Popen(["unshare", *flags, sys.executable, "-B", *sys.argv, "--scenario", name, "--seed",
                              str(options.seed), "--inside"])
    try:
        return child.wait()
    finally:
        if child.poll() is None:  # this one was told to end: so is that one, and it tidies up
            child.terminate()
            child.wait(60)


def play(name, options):
    """0: it passed, SKIPPED, or another code."""
    begin = time.monotonic()
    code = 0
    try:
        scenario = importlib.import_module("scenarios." + name.replace("-", "_"))
        flags = getattr(scenario, "UNSHARE", ())
        if flags and not options.inside:
            return play_inside(name, options, flags)
        verdict = "passed: " + scenario.run(options)
    except Skipped as why:
        code, verdict = SKIPPED, "skipped: %s" % why
    except Exception:
        code, verdict = 1, "FAILED: " + traceback.format_exc()
    print("%s on %s, seed %d, %.1f s: %s" % (name, options.on, options.seed, time.monotonic() - begin, verdict),
          flush=True)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="postgresql")
    parser.add_argument("--scenario", default="all", help="one or more of %s, separated by commas; or all" %
                        ", ".join(SCENARIOS))
    parser.add_argument("--kills", type=int, default=100, help="kills or cuts in one scenario")
    parser.add_argument("--seed", type=int, default=0, help="repeats a run; drawn and printed without")
    parser.add_argument("--full", action="store_true", help="hold it to the times that are promised")
    parser.add_argument("--real-times", action="store_true", help="isolation for 5, 30 and 700 s")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = SCENARIOS if args.scenario == "all" else args.scenario.split(",")
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        parser.error("no scenario %s" % ", ".join(unknown))
    seed = args.seed or random.SystemRandom().randrange(1, 1_000_000)
    # All are played, whatever the first ones say.
    codes = {play(name, Options(args, seed)) for name in names}
    if codes == {SKIPPED}:
        return SKIPPED
    return 0 if codes <= {0, SKIPPED} else 1


if __name__ == "__main__":
    sys.exit(main())
