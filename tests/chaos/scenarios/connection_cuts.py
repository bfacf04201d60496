"""Connections to PostgreSQL are cut around commits: before, in the middle, after the commit and before its answer, in
the middle of the answer, and left open without an answer (proxy.py).

Proves: a commit whose answer was lost is neither lost nor made twice, whoever leads afterwards.
"""

import collections
import random

from audit import audit, describe_codes
from daemons import Site, await_pause
from load import Load
from proxy import WAYS, Proxy
from scenarios.leader_kills import NODES, cancel, steady
from stores import OnPostgres


class BehindProxy(OnPostgres):
    def __init__(self, folder, seed):
        super().__init__()
        self.proxy_folder = folder
        self.proxy = Proxy(folder, self.server.folder + "/.s.PGSQL.5432", seed)

    def address(self):
        return "postgresql:host=%s dbname=tide user=tide" % self.proxy_folder

    def close(self):
        self.proxy.close()
        super().close()


def run(options):
    if options.on != "postgresql":
        raise options.Skipped("SQLite has no connection")
    rng = random.Random(options.seed)
    with options.closing(Site(lambda site: BehindProxy(site.state, options.seed), NODES)) as site:
        site.start()
        load = Load(site, options.seed, 8 if options.full else 4).start()
        jobs, pids = steady(site, load)
        cuts = collections.Counter()
        for number in range(max(len(WAYS), options.kills)):
            await_pause(rng.uniform(0, 0.3))
            way = WAYS[number % len(WAYS)]
            # The load commits all the time.
            if not site.store.proxy.cut(way).wait(30):
                raise AssertionError("no commit to cut in 30 s")
            cuts[way] += 1
            load.submit("after-%d" % number, 0, group="probe")
            load.check()
            if {p.pid for job in jobs for p in site.ranks(job)} != pids:
                raise AssertionError("cut %d (%s) touched ranks that ran" % (number, way))
        load.stop()
        cancel(site, jobs)
        told = audit(site, load)
        codes = site.codes()
    return "%d cuts (%s); %s; %s" % (
        sum(cuts.values()), ", ".join("%s %d" % each for each in sorted(cuts.items())), describe_codes(codes), told)
