"""allreduce: a vector summed over all ranks of nodes that a network joins, by Tide and by gloo, by turns.

Nodes are network namespaces of this machine. Two, joined by a veth pair: how fast. Four in two zones, at a bridge: which pairs
of nodes talk across the zones and how much, counted outside of what is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from typing import Dict, List, Sequence, Tuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import figures  # noqa: E402
import hosts  # noqa: E402

_GLOO_RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gloo_rank.py")
_TOKEN = "not a secret: all of it runs in namespaces of its own"
_ZONES = ["a", "a", "b", "b"]
_ACROSS = [(0, 2), (0, 3), (1, 2), (1, 3)]
_CARRIES = 0.01  # of the pair that carries most: below are connections that gloo opens and does not use

Times = List[float]


class Sizes:
    def __init__(self, quick: bool) -> None:
        self.name, self.bytes = ("quick", 1 << 20) if quick else ("186 MiB", 186 << 20)
        self.ranks, self.rounds, self.iterations = (2, 1, 1) if quick else (4, 7, 5)


class Tide:
    """`tide-allreduce` on all hosts, started anew for each round. Every element is compared."""

    def __init__(self, options, network: hosts.Hosts, ranks: int, zones: Sequence[str], sizes: Sizes) -> None:
        self._network = network
        self._words = [os.path.join(options.bin, "tide-allreduce"), "--nodes", ",".join(address + ":5000" for address in network.addresses),
                       "--zones", ",".join(zones), "--ranks", str(ranks), "--bytes", str(sizes.bytes), "--iterations",
                       str(sizes.iterations), "--check", "--json"]

    def reduce(self) -> float:
        """Median seconds of an iteration on the slowest node."""
        nodes = [self._network.start(host, [*self._words, "--node", str(host)], {"TIDE_ALLREDUCE_TOKEN": _TOKEN})
                 for host in range(len(self._network.addresses))]
        ends = [(node.communicate()[0], node.returncode) for node in nodes]
        if any(code != 0 for _, code in ends):
            raise SystemExit(f"tide-allreduce failed: {ends}")
        reports = [json.loads(text) for text, _ in ends]
        assert all(report["checked"] and report["wrong_elements"] == 0 for report in reports), "all elements are right"
        return max(report["median_s"] for report in reports)

    def stop(self) -> None:
        pass


class Gloo:
    """Ranks that wait for their turn: their start is not measured."""

    def __init__(self, network: hosts.Hosts, ranks: int, sizes: Sizes) -> None:
        self._iterations = sizes.iterations
        world = ranks * len(network.addresses)
        self._ranks = [network.start(rank // ranks, [sys.executable, "-B", _GLOO_RANK, str(rank), str(world),
                                                     network.addresses[0] + ":29500", str(sizes.bytes)],
                                     {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}, stdin=-1) for rank in range(world)]
        for rank in self._ranks:
            assert rank.stdout.readline() == "ready\n", "a rank of gloo begins; what it printed is above"

    def reduce(self) -> float:
        """Median seconds of an iteration on the slowest rank."""
        for rank in self._ranks:
            rank.stdin.write(f"{self._iterations}\n")
            rank.stdin.flush()
        return max(statistics.median(json.loads(rank.stdout.readline())) for rank in self._ranks)

    def stop(self) -> None:
        for rank in self._ranks:
            rank.stdin.close()
        for rank in self._ranks:
            rank.wait()


def measure_speed(options, sizes: Sizes, what: str) -> None:
    network = hosts.Hosts("n", 2)
    ways = {"tide": Tide(options, network, sizes.ranks, ["a", "a"], sizes), "gloo": Gloo(network, sizes.ranks, sizes)}
    times: Dict[str, Times] = {way: [] for way in ways}
    for number in range(sizes.rounds):
        for way in sorted(ways, reverse=number % 2 == 0):
            times[way].append(ways[way].reduce())
    ways["gloo"].stop()
    for way, seconds in times.items():
        figures.figure(f"{what}, {way}", "per_s", sizes.bytes / statistics.median(seconds), sizes.rounds)
        figures.figure(f"{what}, {way}", "p50_ms", statistics.median(seconds) * 1e3, sizes.rounds)
    ratios = [gloo / tide for tide, gloo in zip(times["tide"], times["gloo"])]
    figures.note(f"{what}, rounds: tide {', '.join(f'{s:.3f}' for s in times['tide'])} s; "
                 f"gloo {', '.join(f'{s:.3f}' for s in times['gloo'])} s")
    figures.figure(f"{what}, over gloo", "ratio", statistics.median(ratios), sizes.rounds, at_least=2)
    figures.figure(f"{what}, over gloo, least", "ratio", min(ratios), sizes.rounds)


def count_pairs(sizes: Sizes, what: str, way: "Tide | Gloo", network: hosts.Hosts) -> Tuple[int, int]:
    """One run, counted. Reports what it cost the links between the zones; returns (pairs with a packet, pairs that carry)."""
    network.take_bytes()
    seconds = way.reduce()
    used = network.take_bytes()
    across = {pair: used[pair] for pair in _ACROSS}
    total = sum(across.values())
    figures.note(f"{what}: bytes by pair of nodes {used}")
    # Each element goes up and comes down once an iteration, if it crosses only once.
    figures.figure(f"{what}, bytes over least", "ratio", total / (2 * sizes.bytes * (sizes.iterations + 1)),
                   at_most=1.05 if isinstance(way, Tide) else None)
    figures.figure(f"{what}, across", "per_s", total / (sizes.iterations + 1) / seconds)
    return sum(nbytes > 0 for nbytes in across.values()), sum(nbytes > _CARRIES * max(used.values()) for nbytes in across.values())


def measure_zones(options, sizes: Sizes, what: str) -> None:
    network = hosts.Hosts("z", len(_ZONES))
    ranks = max(1, sizes.ranks // 2)
    touched, carrying = count_pairs(sizes, f"{what}, tide", Tide(options, network, ranks, _ZONES, sizes), network)
    assert carrying >= 1, "the sum crosses"
    figures.figure(f"{what}, tide, pairs", "count", touched, at_most=1)
    gloo = Gloo(network, ranks, sizes)
    _, carrying = count_pairs(sizes, f"{what}, gloo", gloo, network)
    gloo.stop()
    figures.figure(f"{what}, gloo, pairs", "count", carrying)


def main() -> None:
    options = figures.parse_arguments(__doc__)
    why = hosts.why_not()
    if why:
        figures.note(f"skipped: allreduce needs network namespaces ({why})")
        return
    sizes = Sizes(options.quick)
    speed, zones = sizes.name, "quick, 2 zones" if options.quick else "2 zones"
    wants_speed = figures.wants(options, [f"{speed}, {case}" for case in ("tide", "gloo", "over gloo", "over gloo, least")])
    wants_zones = figures.wants(options, [f"{zones}, {way}, {case}" for way in ("tide", "gloo")
                                          for case in ("bytes over least", "across", "pairs")])
    if wants_zones and shutil.which("nft") is None:
        figures.note("skipped: nft, which counts what crosses, is not installed; scripts/setup installs it")
        wants_zones = False
    if wants_speed or wants_zones:
        hosts.enter()
    if wants_speed:
        measure_speed(options, sizes, speed)
    if wants_zones:
        measure_zones(options, sizes, zones)


if __name__ == "__main__":
    main()
