"""kill -9 of PostgreSQL, all its processes, under load; it is started again after 0.5 to 10 s.

Proves: what was acknowledged is there afterwards, once; what runs keeps its processes; the scheduler finds out whether
its last commit took place, and goes on or is followed, without anybody's help.
"""

import random

from audit import audit, describe_codes
from daemons import Site, await_pause, boot_ns
from load import Load
from scenarios.leader_kills import NODES, cancel, steady

DOWN_S = (0.5, 10.0)
DOWN_CI_S = (0.5, 2.5)


def run(options):
    if options.on != "postgresql":
        raise options.Skipped("SQLite has no server")
    rng = random.Random(options.seed)
    kills = max(2, options.kills // 5)
    with options.closing(Site(options.store, NODES)) as site:
        site.start()
        load = Load(site, options.seed, 8 if options.full else 4).start()
        jobs, pids = steady(site, load)
        took = []
        for number in range(kills):
            await_pause(rng.uniform(0, 1))
            site.store.kill_hard()
            await_pause(rng.uniform(*(DOWN_S if options.full else DOWN_CI_S)))
            site.store.start()
            at = boot_ns()
            probe = load.submit("probe-%d" % number, 0, group="probe")
            took.append((site.await_start(probe, at, 60) - at) / 1e9)
            load.check()
            if {p.pid for job in jobs for p in site.ranks(job)} != pids:
                raise AssertionError("kill %d touched ranks that ran" % number)
        load.stop()
        cancel(site, jobs)
        told = audit(site, load)
        codes = site.codes()
    took.sort()
    return "%d kills; PostgreSQL ready to start of a new job: p50 %.2f s, max %.2f s; %s; %s" % (
        kills, took[len(took) // 2], took[-1], describe_codes(codes), told)
