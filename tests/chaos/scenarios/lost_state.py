"""An agent dies, and its state folder is emptied before the next one starts, while its tasks run on.

Proves: the agent that knows of nothing ends what runs before it asks to join, and is no proof that nothing runs: the job
starts again once the isolation timeout is over, and no rank runs twice.
"""

import shutil

from audit import audit, read_lives
from daemons import Site
from harness import until
from load import Load

NODES = {"a-n%d" % n: "default" for n in range(1, 4)}


def lose_state(site, job):
    """Of the agent that has rank 0."""
    before = len(read_lives(site)[0][job, "0"])
    node = site.job(job)["attempts"][-1]["tasks"][0]["node"]
    agent = site.agents[node]
    agent.kill()
    agent.child.wait(10)
    shutil.rmtree("%s/agent-%s" % (site.state, node))
    until(180, job + " to start again", lambda: len(read_lives(site)[0][job, "0"]) > before)
    site.await_state(job, "running")


def run(options):
    with options.closing(Site(options.store, NODES)) as site:
        site.start()
        load = Load(site, options.seed, threads=0)
        jobs = [load.submit("one", 10_000, 1, ("cancelled",), gpus=4),
                load.submit("gang", 10_000, 2, ("cancelled",))]
        for job in jobs:
            site.await_state(job, "running")
        times = 5 if options.full else 1
        for _ in range(times):
            for job in jobs:
                lose_state(site, job)
        for job in jobs:
            site.patiently("POST", "/v1/jobs/%s/cancel" % job, {"reason": "end of the scenario"}, (), 60)
        told = audit(site, load, {"fault"})
    return "%d state folders emptied under running tasks; %s" % (times * len(jobs), told)
