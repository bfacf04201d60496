#!/usr/bin/env python3
"""Compares figures of tide-bench with their expected ranges, and with an earlier run.

compare.py RUN [--ranges FILE] [--against EARLIER] [--set-ranges]

RUN and EARLIER hold the lines that `tide-bench --json` prints. Exit 1 when a figure is worse than its
range. --set-ranges writes the ranges of the figures in RUN anew: from a third of a value to twice the
value, since machines are noisy. Largest samples (max_ms) have no range: one interruption decides them.
"""

import argparse
import json
import os
import sys

MORE_IS_BETTER = {"per_s", "count"}
NO_RANGE = {"max_ms"}
NOTABLE = 1.25  # a change against the earlier run that is worth a mark


class BadInput(Exception):
    pass


def key_of(figure):
    return "%s/%s/%s" % (figure["bench"], figure["case"], figure["metric"])


def read_run(path):
    """Figures by key. A key that comes twice counts with its last line."""
    figures = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                figure = json.loads(line)
                figures[key_of(figure)] = figure
                float(figure["value"])
            except (ValueError, KeyError, TypeError) as error:
                raise BadInput("%s:%d: expected a line of `tide-bench --json`: %s" %
                               (path, number, error)) from error
    if not figures:
        raise BadInput("%s:1: holds no figure; run `tide-bench --json` into it" % path)
    return figures


def read_ranges(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        try:
            ranges = json.load(file)
        except ValueError as error:
            raise BadInput("%s:%d: expected JSON: %s" %
                           (path, getattr(error, "lineno", 1), error)) from error
    for key, limits in ranges.items():
        if (not isinstance(limits, list) or len(limits) != 2
                or not all(isinstance(limit, (int, float)) for limit in limits)
                or limits[0] > limits[1]):
            raise BadInput("%s:1: %s: expected [least, most]" % (path, key))
    return ranges


def verdict(figure, limits):
    """"fine", "worse", "better" or "no range"."""
    if limits is None:
        return "no range"
    low, high = limits
    if low <= figure["value"] <= high:
        return "fine"
    above = figure["value"] > high
    return "better" if above == (figure["metric"] in MORE_IS_BETTER) else "worse"


def short(value):
    return "%.3g" % value if value < 1000 else "%.0f" % value


def change(figure, earlier):
    """"x1.52 worse" against the earlier run, or "" where there is nothing to compare."""
    if earlier is None or earlier["value"] <= 0 or figure["value"] <= 0:
        return ""
    ratio = figure["value"] / earlier["value"]
    worse = (ratio < 1) if figure["metric"] in MORE_IS_BETTER else (ratio > 1)
    size = max(ratio, 1 / ratio)
    if size < NOTABLE:
        return "same"
    return "x%.2f %s" % (size, "worse" if worse else "better")


def round_to_two_digits(value):
    return float("%.2g" % value)


def new_ranges(ranges, run):
    merged = dict(ranges)
    for key, figure in run.items():
        if figure["metric"] not in NO_RANGE:
            merged[key] = [round_to_two_digits(figure["value"] / 3),
                           round_to_two_digits(figure["value"] * 2)]
    return merged


def write_ranges(path, ranges):
    lines = ["  %s: %s" % (json.dumps(key), json.dumps(ranges[key])) for key in sorted(ranges)]
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    os.replace(path + ".new", path)


def report(run, ranges, earlier):
    """Prints a line a figure; returns how many are worse than their range."""
    worse = 0
    for key, figure in run.items():
        if figure["metric"] in NO_RANGE:
            continue
        limits = ranges.get(key)
        says = verdict(figure, limits)
        worse += says == "worse"
        expected = "%s … %s" % tuple(short(limit) for limit in limits) if limits else "-"
        print("%-42s %9s  %-15s %-8s %s" % (key[:42], short(figure["value"]), expected,
                                          says, change(figure, earlier.get(key))))
    return worse


def main(argv):
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("run")
    parser.add_argument("--ranges", default=os.path.join(here, "ranges.json"))
    parser.add_argument("--against", default=None)
    parser.add_argument("--set-ranges", action="store_true")
    options = parser.parse_args(argv)
    try:
        run = read_run(options.run)
        ranges = read_ranges(options.ranges)
        earlier = read_run(options.against) if options.against else {}
    except (BadInput, OSError) as error:
        print("compare.py: %s" % error, file=sys.stderr)
        return 2
    if options.set_ranges:
        ranges = new_ranges(ranges, run)
        write_ranges(options.ranges, ranges)
    worse = report(run, ranges, earlier)
    if worse:
        print("%d of %d figures are worse than their range" % (worse, len(run)))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
