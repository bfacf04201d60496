#!/usr/bin/env python3
"""compare.py: each verdict, each mistake in its input."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import compare


def figure(value, metric="p50_ms", bench="decide-full", case="mixed"):
    return {"bench": bench, "case": case, "metric": metric, "value": value}


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def write_run(self, name, *figures):
        return self.write(name, "".join(json.dumps(each) + "\n" for each in figures))

    def run_compare(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = compare.main(list(arguments))
        return code, out.getvalue(), err.getvalue()

    def test_verdicts(self):
        for value, metric, expected in ((5, "p50_ms", "fine"), (11, "p50_ms", "worse"),
                                        (1, "p50_ms", "better"), (11, "per_s", "better"),
                                        (1, "per_s", "worse"), (2, "p50_ms", "fine"),
                                        (10, "p50_ms", "fine")):
            self.assertEqual(compare.verdict(figure(value, metric), [2, 10]), expected)
        self.assertEqual(compare.verdict(figure(5), None), "no range")

    def test_only_a_worse_figure_fails(self):
        ranges = self.write("ranges.json", '{"decide-full/mixed/p50_ms": [2, 10]}')
        for value, code in ((5, 0), (1, 0), (11, 1)):
            run = self.write_run("run", figure(value))
            self.assertEqual(self.run_compare(run, "--ranges", ranges)[0], code)

    def test_a_change_against_an_earlier_run_is_named_from_its_own_side(self):
        for new, old, metric, expected in ((10, 5, "p50_ms", "x2.00 worse"),
                                           (5, 10, "p50_ms", "x2.00 better"),
                                           (10, 5, "per_s", "x2.00 better"),
                                           (11, 10, "p50_ms", "same"), (10, 0, "p50_ms", "")):
            self.assertEqual(compare.change(figure(new, metric), figure(old, metric)), expected)
        run = self.write_run("run", figure(10))
        earlier = self.write_run("earlier", figure(5))
        _, out, _ = self.run_compare(run, "--against", earlier, "--ranges",
                                     self.write("r", "{}"))
        self.assertIn("x2.00 worse", out)

    def test_set_ranges_keeps_those_of_other_benchmarks(self):
        ranges = self.write("ranges.json", '{"submit/one/p50_ms": [1, 2]}')
        run = self.write_run("run", figure(9), figure(40, "max_ms"))
        self.assertEqual(self.run_compare(run, "--ranges", ranges, "--set-ranges")[0], 0)
        with open(ranges, encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"decide-full/mixed/p50_ms": [3, 18],
                                               "submit/one/p50_ms": [1, 2]})

    def test_a_mistake_names_file_and_line(self):
        good = self.write_run("good", figure(1))
        for run, ranges, expected in (
                (self.write("a", json.dumps(figure(1)) + "\nnonsense\n"), "{}", "a:2: expected a line"),
                (self.write("b", ""), "{}", "b:1: holds no figure"),
                (self.write_run("c", {"bench": "x"}), "{}", "c:1: expected a line"),
                (good, "{", "ranges.json:1: expected JSON"),
                (good, '{"x": [2, 1]}', "x: expected [least, most]"),
                (os.path.join(self.folder.name, "absent"), "{}", "absent")):
            code, _, err = self.run_compare(run, "--ranges", self.write("ranges.json", ranges))
            self.assertEqual(code, 2)
            self.assertIn(expected, err)
            self.assertEqual(err.count("\n"), 1)

    def test_the_ranges_of_this_folder_can_be_read(self):
        here = os.path.dirname(os.path.abspath(__file__))
        self.assertTrue(compare.read_ranges(os.path.join(here, "ranges.json")))


if __name__ == "__main__":
    unittest.main()
