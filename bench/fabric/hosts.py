"""Hosts of a fabric on one machine: a network namespace each, and what counts their traffic.

They stand in the namespaces of the script that makes them (`enter`), and end with it, also after kill -9.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from typing import Dict, List, Tuple

_IN_NAMESPACE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "scripts", "in-namespace")
_INSIDE = "TIDE_BENCH_INSIDE"
_TABLE = "bridge tide_bench"

Pair = Tuple[int, int]


def why_not() -> str:
    """Says why there can be no hosts here; "" when there can."""
    for program in ("ip", "nsenter", "unshare"):
        if shutil.which(program) is None:
            return f"no {program}"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else tried.stderr.strip()


def enter() -> None:
    """Begins this script again, in namespaces of its own for processes, mounts and the network. Returns inside."""
    if _INSIDE not in os.environ:
        os.environ[_INSIDE] = "1"
        sys.stdout.flush()
        os.execvp(_IN_NAMESPACE, [_IN_NAMESPACE, "unshare", "--net", sys.executable, "-B", *sys.argv])


def _run(*words: str, text: str = "") -> str:
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Hosts:
    """So many hosts. Two are joined by a veth pair, more by a bridge that counts what each pair of them sends."""

    def __init__(self, name: str, count: int) -> None:
        self.addresses = [f"10.77.0.{number + 1}" for number in range(count)]
        self._names = [f"{name}{number}" for number in range(count)]
        for each in self._names:
            _run("ip", "netns", "add", each)
            _run("ip", "-n", each, "link", "set", "lo", "up")
        if count == 2:
            _run("ip", "link", "add", "eth0", "netns", self._names[0], "type", "veth", "peer", "name", "eth0", "netns", self._names[1])
        else:
            self._join_by_bridge(name + "-br")
        for each, address in zip(self._names, self.addresses):
            _run("ip", "-n", each, "address", "add", address + "/24", "dev", "eth0")
            _run("ip", "-n", each, "link", "set", "eth0", "up")

    def _join_by_bridge(self, bridge: str) -> None:
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "link", "set", bridge, "up")
        for each in self._names:
            _run("ip", "link", "add", "v-" + each, "type", "veth", "peer", "name", "eth0", "netns", each)
            _run("ip", "link", "set", "v-" + each, "master", bridge, "up")
        rules = []
        for a, b in itertools.combinations(range(len(self._names)), 2):
            for source, target in ((a, b), (b, a)):
                rules.append(f"ip saddr {self.addresses[source]} ip daddr {self.addresses[target]} counter name pair_{a}_{b}")
        counters = sorted({f"counter {rule.split()[-1]} {{ }}" for rule in rules})
        _run("nft", "-f", "-", text="table %s {\n%s\nchain forward {\ntype filter hook forward priority 0;\n%s\n}\n}\n" % (
            _TABLE, "\n".join(counters), "\n".join(rules)))

    def take_bytes(self) -> Dict[Pair, int]:
        """Returns what passed between each two hosts, both ways with all headers, since the last time."""
        listed = json.loads(_run("nft", "-j", "reset", "counters", "table", *_TABLE.split()))
        counters = [item["counter"] for item in listed["nftables"] if "counter" in item]
        pairs = {}
        for counter in counters:
            _, a, b = counter["name"].split("_")
            pairs[int(a), int(b)] = counter["bytes"]
        assert len(pairs) == len(self._names) * (len(self._names) - 1) // 2, "each pair is counted"
        return pairs

    def start(self, host: int, words: List[str], env: Dict[str, str], **pipes: object) -> "subprocess.Popen[str]":
        """Starts a program on a host."""
        return subprocess.Popen(["nsenter", "--net=/run/netns/" + self._names[host], *words], text=True,
                                env={**os.environ, **env}, stdout=subprocess.PIPE, **pipes)  # type: ignore[call-overload]
