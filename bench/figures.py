"""What the benchmarks in Python share: their options, figures as JSON lines, percentiles."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from typing import Callable, Iterator, Optional, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def parse_arguments(what: "str | None") -> argparse.Namespace:
    """The options that tide-bench gives to each of its scripts."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: checks the benchmark, measures nothing")
    parser.add_argument("--large", action="store_true", help="also sizes that take more than a third of the memory that is free")
    parser.add_argument("--filter", default="", help="only cases whose names contain it")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"), help="folder of Tide's programs")
    parser.add_argument("--dir", default="/var/tmp", help="on the disk to be measured")
    options = parser.parse_args()
    os.environ.setdefault("TIDE_NATIVE", options.bin)
    return options


def wants(options: argparse.Namespace, cases: Sequence[str]) -> bool:
    """Is one of these asked for?"""
    return any(options.filter in case for case in cases)


@contextlib.contextmanager
def working_folder(options: argparse.Namespace) -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="tide-bench-", dir=options.dir)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install_sdk(options: argparse.Namespace, target: str) -> None:
    """The SDK with its native core, where a job's user can read it."""
    shutil.copytree(os.path.join(ROOT, "sdk", "python"), target, ignore=shutil.ignore_patterns("__pycache__"))
    native = os.path.join(target, "tide", "_native")
    os.mkdir(native)
    for name in ("libtide.so", "tide-saver"):
        shutil.copy(os.path.join(options.bin, name), native)


def figure(what: str, metric: str, value: float, n: int = 1, at_most: Optional[float] = None,
           at_least: Optional[float] = None) -> None:
    """One line for tide-bench. metric: a name of bench/bench.h."""
    target = None if at_most is None and at_least is None else (at_least if at_most is None else at_most)
    print(json.dumps({"case": what, "metric": metric, "value": value, "n": n, "target": target,
                      "at_most": at_least is None}), flush=True)


def note(text: str) -> None:
    """Something a person should know about the figures; goes to stderr."""
    print(text, file=sys.stderr, flush=True)


def seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank: the smallest value that at least `percent` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100).__int__() - 1)]
