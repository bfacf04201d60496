"""A network between ranks, each of which is in a network namespace of its own: links that are slow or lose everything."""

from __future__ import annotations

import shutil
import subprocess
from typing import List

_TABLE = "tide_bench"
_CRAWL = "1 kbytes/second burst 3 kbytes"  # a packet in 1.5 seconds
_RULES = f"""
table ip {_TABLE} {{
  set slow {{ type ipv4_addr; }}
  set cut {{ type ipv4_addr . ipv4_addr; }}
  chain forward {{
    type filter hook forward priority 0;
    ip saddr @slow limit rate over {_CRAWL} drop
    ip saddr . ip daddr @cut drop
  }}
}}
"""


def missing() -> str:
    """What is not installed that it needs; "" = nothing."""
    return ", ".join(name for name in ("ip", "nft", "nsenter", "unshare") if shutil.which(name) is None)


def address(job: int, rank: int) -> str:
    return f"10.9.{job}.{rank + 1}"


def make() -> None:
    """In a network namespace that was just made for it."""
    _run("ip", "link", "set", "lo", "up")
    with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as switch:
        switch.write("1")
    subprocess.run(["nft", "-f", "-"], input=_RULES, text=True, check=True)


def join(job: int, rank: int, pid: int) -> None:
    """Gives the rank, which is in a namespace of its own, an address that all others reach."""
    link, mine, inside = f"v{job}.{rank}", address(job, rank), ("nsenter", "-t", str(pid), "-n", "ip")
    _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _run("ip", "link", "set", link, "up")
    _run("ip", "route", "add", mine, "dev", link)
    with open(f"/proc/sys/net/ipv4/conf/{link}/proxy_arp", "w", encoding="ascii") as switch:
        switch.write("1")
    _run(*inside, "addr", "add", mine + "/16", "dev", "eth0")
    _run(*inside, "link", "set", "lo", "up")
    _run(*inside, "link", "set", "eth0", "up")


def slow(job: int, rank: int) -> None:
    """What the rank sends gets through at a crawl, until restore()."""
    _elements("add", "slow", [address(job, rank)])


def cut(job: int, one: int, other: int) -> None:
    """What these two send each other is lost without a word."""
    _elements("add", "cut", [f"{address(job, one)} . {address(job, other)}", f"{address(job, other)} . {address(job, one)}"])


def restore_slow(job: int, rank: int) -> None:
    _elements("delete", "slow", [address(job, rank)])


def restore_cut(job: int, one: int, other: int) -> None:
    _elements("delete", "cut", [f"{address(job, one)} . {address(job, other)}", f"{address(job, other)} . {address(job, one)}"])


def _elements(verb: str, which: str, elements: List[str]) -> None:
    _run("nft", verb, "element", "ip", _TABLE, which, "{ " + ", ".join(elements) + " }")


def _run(*words: str) -> None:
    subprocess.run(words, check=True)
