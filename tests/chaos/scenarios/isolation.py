"""Agents in network namespaces are cut off: for a moment, for longer than until the node is lost, and for longer than
the isolation timeout. Needs root. Runs in a network namespace of its own, which ends with it.

Proves: a short cut touches nothing. A node that is lost has its job stopped, and it starts again only when its ranks
have ended: on the word of its agent, or after the isolation timeout and the margin; a gang after the witness timeout.
No two processes of one rank live at one moment.

Scaled: the timeouts are short, and each cut lasts until what it is for has happened. With --real-times the timeouts are
those of operators.md, and the cuts last 5, 30 and 700 s.
"""

import os
import subprocess
import threading

from audit import audit, read_lives
from daemons import Site, await_pause, boot_ns
from harness import until
from load import Load

UNSHARE = ("--mount", "--net", "--propagation", "private")
NODES = {"n%d" % n: "default" for n in range(1, 9)}
SCALED = {"isolation_ms": 15_000, "witness_ms": 10_000, "short_s": 4.0, "middle_s": None, "long_s": None}
REAL = {"isolation_ms": 600_000, "witness_ms": 60_000, "short_s": 5.0, "middle_s": 30.0, "long_s": 700.0}


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Wires:
    """A bridge here, and a namespace with one cable to it for each node."""

    def __init__(self, nodes):
        os.makedirs("/run/netns", exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tide-chaos", "/run/netns"], check=True)
        ip("link", "set", "lo", "up")
        ip("link", "add", "br0", "type", "bridge")
        ip("addr", "add", "10.77.0.1/24", "dev", "br0")
        ip("link", "set", "br0", "up")
        self.hosts = {}
        for index, name in enumerate(nodes):
            address = "10.77.0.%d" % (11 + index)
            ip("netns", "add", name)
            ip("link", "add", "v-" + name, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", "v-" + name, "master", "br0")
            ip("link", "set", "v-" + name, "up")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "addr", "add", address + "/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            self.hosts[name] = (("nsenter", "--net=/run/netns/" + name), address)

    @staticmethod
    def cut(name):
        ip("link", "set", "v-" + name, "down")

    @staticmethod
    def mend(name):
        ip("link", "set", "v-" + name, "up")


class Cut:
    """One job, the node of its last task cut off, and what became of both."""

    def __init__(self, site, load, name, nodes):
        self.site = site
        self.name = name
        self.job = load.submit(name, 10_000, nodes, ("cancelled",), gpus=4)
        self.site.await_state(self.job, "running")
        self.task = site.job(self.job)["attempts"][0]["tasks"][-1]
        self.node = self.task["node"]
        rank = self.task["index"]
        self.path = "%s.%d" % (self.job, rank)
        self.process = next(p for p in site.ranks(self.job) if p.env["RANK"] == str(rank))
        self.at = 0
        self.ended_s = None  # after the cut
        self.error = None

    def begin(self, wires):
        self.at = boot_ns()
        wires.cut(self.node)

    def since(self):
        return (boot_ns() - self.at) / 1e9

    def await_end(self, seconds):
        until(seconds, "rank %s to end" % self.path, lambda: not self.process.alive())
        self.ended_s = self.since()

    def await_next(self, seconds):
        """When the next attempt of the cut task began, after the cut."""
        job, _, rank = self.path.partition(".")

        def look():
            lives = read_lives(self.site)[0].get((job, rank), [])
            return len(lives) > 1 and lives[1]
        found = until(seconds, "attempt 2 of %s" % self.path, look)
        return (found.started_ns - self.at) / 1e9, found.node


def short_cut(cut, wires, times):
    await_pause(times["short_s"])
    wires.mend(cut.node)
    cut.site.await_node(cut.node, ("ready",), 30)
    job = cut.site.job(cut.job)
    if not cut.process.alive() or len(job["attempts"]) != 1:
        raise AssertionError("a cut of %g s touched %s" % (times["short_s"], cut.name))
    return "%g s: same process" % times["short_s"]


def middle_cut(cut, wires, times):
    cut.site.await_node(cut.node, ("lost",), 30)
    lost_s = cut.since()
    if times["middle_s"]:
        await_pause(max(0, times["middle_s"] - cut.since()))
    if not cut.process.alive():
        raise AssertionError("%s ended before the isolation timeout, %.1f s after the cut" % (cut.name, cut.since()))
    wires.mend(cut.node)
    mended_s = cut.since()
    cut.await_end(60)
    began_s, _ = cut.await_next(90)
    return "%.0f s: lost after %.1f s, ended after %.1f s, again after %.1f s" % (
        mended_s, lost_s, cut.ended_s, began_s)


def long_cut(cut, wires, times):
    isolation_s = times["isolation_ms"] / 1000
    cut.await_end(isolation_s + 30)
    began_s, node = cut.await_next(isolation_s + 120)
    if node == cut.node or cut.ended_s > began_s:
        raise AssertionError("%s: ended after %.1f s, again on %s after %.1f s" % (
            cut.name, cut.ended_s, node, began_s))
    if times["long_s"]:
        await_pause(max(0, times["long_s"] - cut.since()))
    mended_s = cut.since()
    wires.mend(cut.node)
    cut.site.await_node(cut.node, ("ready",), 60)
    return "%.0f s: ended after %.1f s, elsewhere after %.1f s" % (mended_s, cut.ended_s, began_s)


def run(options):
    times = REAL if options.real_times else SCALED
    wires = Wires(NODES)
    site = Site(options.store, NODES, isolation_ms=times["isolation_ms"], listen="10.77.0.1:71%02d", hosts=wires.hosts,
                more=("--witness-timeout-ms", str(times["witness_ms"])))
    with options.closing(site):
        site.start()
        load = Load(site, options.seed, threads=0)
        plays = [(Cut(site, load, "short", 1), short_cut), (Cut(site, load, "middle", 1), middle_cut),
                 (Cut(site, load, "long", 1), long_cut), (Cut(site, load, "gang", 2), long_cut)]
        told = {}

        def play(cut, ends):
            try:
                told[cut.name] = ends(cut, wires, times)
            except Exception as error:  # shown below
                cut.error = error
        threads = [threading.Thread(target=play, args=each) for each in plays]
        for cut, _ in plays:
            cut.begin(wires)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for cut, _ in plays:
            if cut.error:
                raise cut.error
        for promise in load.promises:
            site.patiently("POST", "/v1/jobs/%s/cancel" % promise.job, {"reason": "end of the scenario"}, (), 60)
        audited = audit(site, load, {"fault"})
    return "isolation timeout %g s, witness timeout %g s; %s; %s" % (
        times["isolation_ms"] / 1000, times["witness_ms"] / 1000,
        "; ".join("%s, %s" % each for each in told.items()), audited)
