"""kill -9 of the leading scheduler, again and again, under load.

Proves: no acknowledged job is lost or there twice, no rank runs twice, what runs keeps its processes, and the next
leader (PostgreSQL: the standby; SQLite: the one that is started again) has started a new job 3 s after the kill.
"""

import random

from audit import audit, describe_codes
from daemons import Site, await_pause
from load import Load

NODES = {**{"a-n%d" % n: "default" for n in range(1, 7)}, "p-n1": "probe"}
PROMISED_S = 3.0
MARGIN_CI_S = 15.0  # a busy machine is no finding; only the full run is held to the promise


def steady(site, load):
    """Jobs that nobody may touch. {pid of a rank}, once they run."""
    jobs = [load.submit("steady-gang", 10_000, 2, ("cancelled",), True, priority="extreme-high"),
            load.submit("steady-one", 10_000, 1, ("cancelled",), True, priority="extreme-high")]
    for job in jobs:
        site.await_start(job)
        site.await_state(job, "running")
    return jobs, {p.pid for job in jobs for p in site.ranks(job)}


def cancel(site, jobs):
    for job in jobs:
        site.patiently("POST", "/v1/jobs/%s/cancel" % job, {"reason": "end of the scenario"}, (), 60)


def run(options):
    rng = random.Random(options.seed)
    with options.closing(Site(options.store, NODES)) as site:
        site.start()
        load = Load(site, options.seed, 8 if options.full else 4).start()
        jobs, pids = steady(site, load)
        took = []
        for number in range(options.kills):
            await_pause(rng.uniform(0, 0.6))
            leader = site.leading()
            at = leader.kill()
            probe = load.submit("probe-%d" % number, 0, group="probe")
            took.append((site.await_start(probe, at) - at) / 1e9)
            site.await_standby(leader)
            load.check()
            alive = {p.pid for job in jobs for p in site.ranks(job)}
            if alive != pids:
                raise AssertionError("kill %d: ranks %s became %s" % (number, sorted(pids), sorted(alive)))
        load.stop()
        cancel(site, jobs)
        told = audit(site, load)
        if not set(site.codes()) <= {-9, 75, 76}:
            raise AssertionError(describe_codes(site.codes()))
    took.sort()
    if took[-1] > (PROMISED_S if options.full else MARGIN_CI_S):
        raise AssertionError("a new job started only %.2f s after a kill" % took[-1])
    return "%d kills; kill to start of a new job: p50 %.2f s, max %.2f s; %s" % (
        len(took), took[len(took) // 2], took[-1], told)
