"""All ranks stop at one step: the rule, the bounded wait, and real processes of different speeds."""

import unittest

from support import TempCase, coordinate, make_page, start_python, wait_until, withdraw
from tide import _page
from tide._agreement import Verdict, judge, settle
from tide._page import Order, Page

_ROUNDS = 300
# Ranks may be three steps apart: looser than any collective would let them, so that disagreement has room to happen.
_RANK = """
import sys, time, random, tide
from tide._page import Page
run = tide.attach(); rank = run.rank; step = 0
others = [Page.map(path) for path in sys.argv[2:]]
draw = random.Random(rank)
out = open(sys.argv[1], "w", buffering=1)
while True:
    spin = time.perf_counter() + draw.random() * 0.0002 * (rank + 1)
    while time.perf_counter() < spin: time.sleep(0)  # tidy: poll
    while min(page.step for page in others) < step - 3 and others[0].order != 3: time.sleep(0)  # tidy: poll
    step += 1
    request = run.request(step)
    if request is None: continue
    if request.kind == "stop": break
    out.write(f"{request.number} {step}\\n")
    run.page.ack_seq = request.number
run.exit(0)
"""


class Rule(unittest.TestCase):
    def test_table(self):
        none, save, suspend, stop = range(4)
        idle, armed, committed = range(3)
        cases = [
            (Order(1, none, 0, committed, 0), 9, 0, 0, Verdict.GO),
            (Order(1, stop, 50, idle, 0), 9, 0, 0, Verdict.STOP),
            (Order(1, suspend, 10, committed, 0), 9, 0, 0, Verdict.GO),
            (Order(1, suspend, 10, committed, 0), 10, 0, 0, Verdict.FIRE),
            (Order(1, save, 10, committed, 0), 11, 0, 0, Verdict.FIRE),
            (Order(1, suspend, 10, armed, 0), 9, 0, 0, Verdict.GO),
            (Order(1, suspend, 10, armed, 0), 10, 0, 0, Verdict.WAIT),
            (Order(1, suspend, 10, idle, 0), 10, 0, 0, Verdict.GO),
            (Order(2, suspend, 10, committed, 0), 10, 2, 0, Verdict.GO),
            (Order(2, suspend, 10, committed, 0), 10, 1, 2, Verdict.GO),
            (Order(2, suspend, 10, armed, 0), 10, 1, 2, Verdict.GO),
        ]
        for order, step, ack, refused, expected in cases:
            self.assertIs(judge(order, step, ack, refused), expected, (order, step, ack, refused))


class Waiting(unittest.TestCase):
    """A page in memory, a clock that moves only in nap(), and an agent that acts after some naps."""

    def setUp(self):
        self.page, self.now, self.naps = Page(bytearray(4096)), 0.0, 0
        self.page.phase = _page.PHASE_TRAINING
        self.phases = []
        self.page.order, self.page.at_step, self.page.state, self.page.seq = _page.ORDER_SUSPEND, 10, 1, 5

    def settle(self, step, act=lambda naps: None):
        def nap(seconds):
            self.now += seconds
            self.naps += 1
            self.phases.append(self.page.phase)
            act(self.naps)

        return settle(self.page, step, patience_s=10.0, clock=lambda: self.now, nap=nap)[0]

    def test_goes_on_below(self):
        self.assertIs(self.settle(9), Verdict.GO)
        self.assertEqual(self.naps, 0)

    def test_waits_for_commit(self):
        self.assertIs(self.settle(10, lambda n: n == 3 and setattr(self.page, "state", 2)), Verdict.FIRE)
        self.assertEqual(set(self.phases), {_page.PHASE_WAITING})
        self.assertEqual((self.naps, self.page.phase), (3, _page.PHASE_TRAINING))

    def test_raised_arming_lets_it_go(self):
        def raise_it(naps):
            self.page.at_step = 12
            self.page.seq = 6

        self.assertIs(self.settle(10, raise_it), Verdict.GO)

    def test_withdrawn(self):
        self.assertIs(self.settle(10, lambda n: setattr(self.page, "order", 0)), Verdict.GO)

    def test_silent_coordinator_is_refused_and_never_obeyed_later(self):
        self.assertIs(self.settle(10), Verdict.GO)
        self.assertGreaterEqual(self.now, 10.0)
        self.assertLess(self.now, 10.1)
        self.assertEqual(self.page.refused_seq, 5)
        self.page.state = _page.STATE_COMMITTED
        self.assertIs(self.settle(11), Verdict.GO)
        self.page.seq, self.page.at_step = 6, 12
        self.assertIs(self.settle(12), Verdict.FIRE)

    def test_commit_that_crosses_the_refusal_fires(self):
        page = self.page

        class Crossing(Page):
            """Commits at the very moment at which the rank stores its refusal."""

            @property
            def refused_seq(self):
                return Page.refused_seq.fget(self)

            @refused_seq.setter
            def refused_seq(self, value):
                Page.refused_seq.fset(self, value)
                if value == 5:
                    self.state = _page.STATE_COMMITTED

        self.page = Crossing(page._buffer)
        self.assertIs(self.settle(10), Verdict.FIRE)
        self.assertEqual(self.page.refused_seq, 0)


class Processes(TempCase):
    def test_never_two_stop_steps(self):
        world = 4
        pages = [make_page(self.path(f"page-{rank}")) for rank in range(world)]
        paths = [self.path(f"page-{rank}") for rank in range(world)]
        ranks = [start_python(["-c", _RANK, self.path(f"out-{rank}"), *paths],
                              {"RANK": str(rank), "WORLD_SIZE": str(world), "TIDE_PAGE": paths[rank]})
                 for rank in range(world)]
        try:
            wait_until(lambda: all(page.step > 0 for page in pages), "all ranks to tick")
            agreed = {}
            for number in range(_ROUNDS):
                step = coordinate(pages, _page.ORDER_SAVE, margin=number % 5)
                agreed[pages[0].seq] = step
                wait_until(lambda: all(page.ack_seq == page.seq for page in pages), f"round {number}")
                withdraw(pages)
            for page in pages:
                page.order, page.seq = _page.ORDER_STOP, page.seq + 1
            for rank in ranks:
                self.assertEqual(rank.wait(timeout=30), 0, rank.stderr.read() if rank.poll() else "")
        finally:
            for rank in ranks:
                rank.kill()
                rank.communicate()
        for rank in range(world):
            with open(self.path(f"out-{rank}")) as source:
                fired = {int(seq): int(step) for seq, step in (line.split() for line in source)}
            self.assertEqual(fired, agreed, f"rank {rank}")


if __name__ == "__main__":
    unittest.main()
