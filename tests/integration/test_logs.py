"""Output of real ranks, through supervisors, agents, API and command line: merged, searched, followed while agents
are killed, downloaded."""

import os
import re
import unittest

from harness import Cluster, until

# Every rank prints so many numbered lines, and more until a file is there, a few at a time.
PRINT = """
import itertools, os, sys, time
rank, lines, enough = int(os.environ['RANK']), int(sys.argv[1]), sys.argv[2]
for i in itertools.count():
    if i >= lines and (not enough or os.path.exists(enough)):
        break
    print('line %06d of rank %d' % (i, rank), flush=i % 7 == 0)
    if i % 50 == 0:
        time.sleep(0.02)  # tidy: poll, this is the rank's own work
"""


class Logs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(runtime="process", nodes=4).start()
        cls.addClassCleanup(cls.cluster.close)

    def submit(self, lines, enough=""):
        command = ["/usr/bin/python3", "-c", PRINT, str(lines), enough]
        return self.cluster.submit(self.cluster.spec("print", command, nodes=2, ranks=2))

    def ran(self, *args):
        done = self.cluster.tide(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def assert_all_lines(self, text, counts):
        """Each line of each of the four ranks once, in its order. counts: lines by rank."""
        for rank, count in enumerate(counts):
            mine = re.findall(r"^rank %d \| line (\d+) of rank %d$" % (rank, rank), text, re.M)
            self.assertEqual(mine, ["%06d" % i for i in range(count)], "rank %d" % rank)
        self.assertEqual(text.count("\n"), sum(counts))

    def downloaded(self, job):
        """The text of each rank's log."""
        folder = os.path.join(self.cluster.base, "downloads-" + job)
        texts = []
        for name in self.ran("logs", job, "--download", folder).split():
            with open(name, encoding="utf-8") as file:
                texts.append(file.read())
        return texts

    def test_two_tasks_of_two_ranks(self):
        job = self.submit(400)
        self.cluster.await_over(job)
        self.assert_all_lines(self.ran("logs", job, "--rank", "all"), [400] * 4)
        stamped = self.ran("logs", job, "--rank", "0-3", "--timestamps").splitlines()
        times = [line.split()[3] for line in stamped]
        self.assertEqual(times, sorted(times))
        self.assertGreater(len({line.split()[1] for line in stamped[:800]}), 1, "ranks take turns")
        found = self.ran("logs", job, "--rank", "1,3", "--grep", "line 0001[0-9]7 ").splitlines()
        self.assertEqual(len(found), 20)
        self.assertEqual(self.ran("logs", job, "--rank", "2", "--grep", "LINE 000399", "-i"),
                         "line 000399 of rank 2\n")
        self.assertEqual(self.ran("logs", job, "--rank", "2", "--grep", "line", "--tail", "1"),
                         "line 000399 of rank 2\n")
        middle = times[len(times) // 2]
        before = self.ran("logs", job, "--rank", "all", "--until", middle)
        after = self.ran("logs", job, "--rank", "all", "--since", middle)
        self.assertEqual(before.count("\n") + after.count("\n"), 1600)
        self.assertTrue(before and after)
        wrong = self.cluster.tide("logs", job, "--grep", "(")
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn("missing )", wrong.stderr)

    def test_downloaded_files_are_what_the_ranks_wrote(self):
        job = self.submit(100)
        self.cluster.await_over(job)
        self.assertEqual(self.downloaded(job),
                         ["".join("line %06d of rank %d\n" % (i, rank) for i in range(100)) for rank in range(4)])

    def test_followers_miss_nothing_while_agents_are_killed(self):
        enough = os.path.join(self.cluster.work, "enough")
        job = self.submit(20000, enough)
        merged = self.cluster.tide_later("logs", "-f", job, "--rank", "all")
        single = self.cluster.tide_later("logs", "-f", job, "--rank", "3")
        self.addCleanup(merged.end)
        self.addCleanup(single.end)
        nodes = [task["node"] for task in self.cluster.await_state(job, "running")["attempts"][-1]["tasks"]]
        for kill in range(10):
            seen = single.out().count("\n")
            until(20, "more lines", lambda: single.out().count("\n") > seen)  # noqa: B023
            self.cluster.kill_daemon("agent " + nodes[kill % 2])
        with open(enough, "w", encoding="utf-8"):
            pass
        final = self.cluster.await_over(job)
        self.assertEqual((final["outcome"], len(final["attempts"])), ("succeeded", 1))
        self.assertEqual(single.wait(60), 0, single.err())
        self.assertEqual(merged.wait(60), 0, merged.err())
        written = self.downloaded(job)
        counts = [text.count("\n") for text in written]
        self.assertGreaterEqual(min(counts), 20000)
        self.assertEqual(single.out(), written[3])
        self.assert_all_lines(merged.out(), counts)


if __name__ == "__main__":
    unittest.main()
