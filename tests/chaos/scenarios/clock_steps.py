"""The system clocks of schedulers, agents and API step by an hour, to and fro, under load, also before a leader is
killed and while an agent is stopped. clock_shim.cc steps the clock of one process; the machine's is let be.

Proves: a step of a leader's or an agent's clock touches nothing. A standby whose clock steps past the lease may take
over, which is a fail-over like another. What waits for an agent that is silent waits in real time: nothing is given up
because of a step, so no rank runs twice.
"""

import os
import random
import signal
import struct

from audit import audit, describe_codes, read_lives
from daemons import Site
from harness import BIN, until
from load import Load
from scenarios.leader_kills import NODES, cancel, steady

HOUR_NS = 3600 * 10**9
SHIM = os.environ.get("CHAOS_CLOCK_SHIM", os.path.join(os.path.dirname(BIN), "tests", "libchaos_clock.so"))


def clock_path(site, name):
    return "%s/clock-%s" % (site.state, name)


def shim(site, name):
    step(site, name, 0)
    return {"LD_PRELOAD": SHIM, "CHAOS_CLOCK": clock_path(site, name)}


def step(site, name, offset_ns):
    """In place: it is mapped."""
    with open(os.open(clock_path(site, name), os.O_WRONLY | os.O_CREAT, 0o644), "wb") as file:
        file.write(struct.pack("q", offset_ns))


class Steps:
    """Steps clocks, and sees after each that new jobs start and that none that runs was touched."""

    def __init__(self, site, load):
        self.site = site
        self.load = load
        self.jobs, self.pids = steady(site, load)
        self.count = 0

    def set(self, daemons, offset_ns):
        for daemon in daemons:
            step(self.site, daemon.name, offset_ns)
        self.count += 1
        self.check()

    def check(self):
        probe = self.load.submit("probe-%d-%d" % (self.count, len(self.load.promises)), 0, group="probe")
        self.site.await_start(probe, 0, 60)
        self.load.check()
        if {p.pid for job in self.jobs for p in self.site.ranks(job)} != self.pids:
            raise AssertionError("step %d touched ranks that ran" % self.count)


def kill_after_steps(site, steps, rng):
    """The next leader has another time of day than the one before, an hour ahead or behind."""
    for offset_ns in rng.sample((HOUR_NS, -HOUR_NS), 2):
        leader = site.leading()
        steps.set([each for each in site.schedulers if each is not leader] or [leader], offset_ns)
        leader = site.leading()
        leader.kill()
        steps.check()
        site.await_standby(leader)
    steps.set(site.schedulers, 0)


def step_beside_a_silent_agent(site, load, steps):
    """Once its node is lost, an hour passes by the clock: the job must still wait for the end of its ranks."""
    # The load's urgent jobs ask others to leave, this one never.
    job = load.submit("silent", 10_000, 1, ("cancelled",), gpus=4, priority="extreme-high")
    site.await_state(job, "running")
    node = site.job(job)["attempts"][0]["tasks"][0]["node"]
    rank = site.ranks(job)[0]
    agent = site.agents[node]
    agent.signal(signal.SIGSTOP)
    try:
        site.await_node(node, ("lost",), 30)
        if not rank.alive():
            raise AssertionError("the rank ended before its node was lost: this proves nothing")
        steps.set(site.schedulers, HOUR_NS)
        until(60, "the supervisor to end the rank", lambda: not rank.alive())
    finally:
        agent.signal(signal.SIGCONT)
    until(90, job + " to run again", lambda: len(read_lives(site)[0][job, "0"]) > 1)
    steps.set(site.schedulers, 0)
    return [job]


def run(options):
    if not os.path.exists(SHIM):
        raise options.Skipped("no " + SHIM + ": build the target chaos_clock, or name it with CHAOS_CLOCK_SHIM")
    rng = random.Random(options.seed)
    with options.closing(Site(options.store, NODES, isolation_ms=16_000, shim=shim)) as site:
        site.start()
        load = Load(site, options.seed, 8 if options.full else 4).start()
        steps = Steps(site, load)
        for _ in range(10 if options.full else 1):
            for offset_ns in (HOUR_NS, -HOUR_NS, 0):
                steps.set([site.leading()], offset_ns)
                steps.set([*site.agents.values(), site.api], -offset_ns)
            kill_after_steps(site, steps, rng)
        silent = step_beside_a_silent_agent(site, load, steps)
        load.stop()
        cancel(site, steps.jobs + silent)
        # Only the job of the stopped agent may have been hurt.
        told = audit(site, load, {"fault"})
        hurt = [p.job for p in load.promises if p.job not in silent and any(
            a["end_reason"] == "fault" for a in site.job(p.job)["attempts"])]
        if hurt:
            raise AssertionError("jobs touched by a step: %s" % hurt)
        codes = site.codes()
    return "%d steps of an hour; %s; %s" % (steps.count, describe_codes(codes), told)
