"""Scripts written for the HAI Platform, suspended and resumed through the shim as an agent would do it."""

import contextlib
import os
import re
import signal
import unittest

from support import (DEADLINE_S, EXAMPLES, TempCase, coordinate, free_port, long_training, make_page, start_python,
                     wait_until)
from tide import _page

try:
    import torch
except ImportError:
    torch = None

RESNET = os.path.join(EXAMPLES, "hfai_resnet.py")
TRY_SAVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "old_scripts", "try_save.py")
# Every old script has such a loop somewhere.
ASK_AND_GO = """
import hfai
while not hfai.client.receive_suspend_command(): pass
hfai.client.go_suspend()
"""


class Gang:
    """The ranks of one attempt, one process a rank, with pages that the test holds as their agents."""

    def __init__(self, folder, attempt, programs, env=None):
        """programs: the arguments of each rank. Ranks are on nodes of their own."""
        names = [os.path.join(folder, f"page-{attempt}-{rank}") for rank in range(len(programs))]
        self.pages = [make_page(name) for name in names]
        shared = {"WORLD_SIZE": str(len(programs)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                  "GLOO_SOCKET_IFNAME": "lo", "TIDE_JOB_ID": "j-1", "TIDE_ATTEMPT": str(attempt),
                  "TIDE_CHECKPOINT_DIR": os.path.join(folder, "ck"), **(env or {})}
        # A group of its own each: as on a node, what a rank leaves behind is ended with it.
        self.ranks = [start_python(arguments, {"RANK": str(rank), "LOCAL_RANK": "0", "NODE_RANK": str(rank),
                                               "TIDE_PAGE": names[rank], **shared}, start_new_session=True)
                      for rank, arguments in enumerate(programs)]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for rank in self.ranks:
            _end_group(rank)

    def wait_attached(self):
        wait_until(lambda: all(page.phase != 0 for page in self.pages), "the ranks to attach")

    def read_until(self, text):
        """Reads rank 0's output up to a line with `text`."""
        for line in self.ranks[0].stdout:
            if text in line:
                return
        raise AssertionError(f"rank 0 ended without {text!r}: {self.ranks[0].stderr.read()}")

    def suspend(self):
        return coordinate(self.pages, _page.ORDER_SUSPEND)

    def finish(self):
        """Exit codes, and (stdout, stderr) of all ranks. Workers hold the pipes, so each rank ends its own."""
        codes = []
        for rank in self.ranks:
            codes.append(rank.wait(timeout=DEADLINE_S))
            _end_group(rank)
        return codes, [rank.communicate(timeout=DEADLINE_S) for rank in self.ranks]

    def phases(self):
        return [(page.phase, page.ack_seq == page.seq) for page in self.pages]


ACKNOWLEDGED = (_page.PHASE_SAVED, True)


class Calls(TempCase):
    """hfai.client without torch."""

    def python(self, code, **env):
        process = start_python(["-c", code], env)
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err

    def test_outside_the_platform_nothing_happens(self):
        code = ("import hfai.client\nfrom hfai.client import *\n"
                "import threading\n"
                "print(receive_suspend_command(timeout=1), get_whole_life_state(), set_whole_life_state(3))\n"
                "print(set_priority(EXP_PRIORITY.LOW), disable_warn(WARN_TYPE.LOG | WARN_TYPE.COMPLETED))\n"
                "print(set_watchdog_time(60), go_suspend(), go_suspend(), threading.active_count())\n")
        code, out, err = self.python(code)
        self.assertEqual((code, err), (0, ""))
        said = [line for line in out.splitlines() if not line.startswith("hfai: ")]
        self.assertEqual(said, ["False None False", "False False", "None None None 1"])
        self.assertEqual(out.count("go_suspend does nothing outside the platform"), 1)

    def test_simulation(self):
        loop = ("import hfai\nprint(hfai.client.get_whole_life_state())\n"
                "print(hfai.client.set_whole_life_state(5))\n" + ASK_AND_GO)
        code, out, err = self.python(loop, HFAI_SIMULATE="1", SIMULATE_SUSPEND="1", MARSV2_WHOLE_LIFE_STATE="4")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"(?s)^4\n.*MARSV2_WHOLE_LIFE_STATE=5.*\nTrue\n.*simulated suspension")
        never = "import hfai; print(hfai.client.receive_suspend_command())"
        self.assertEqual(self.python(never, HFAI_SIMULATE="1")[1], "False\n")

    def test_whole_life_state(self):
        code = ("from hfai.client import *\nimport sys\n"
                "print(get_whole_life_state(), set_whole_life_state(int(sys.argv[1])), get_whole_life_state())")
        said = []
        for attempt, value in ((1, "7"), (2, "7"), (3, "0"), (4, "2")):
            with Gang(self.dir, attempt, [["-c", code, value]]) as gang:
                codes, ((out, err),) = gang.finish()
            self.assertEqual((codes, err), ([0], ""))
            said.append(out.strip())
        self.assertEqual(said, ["0 True 7", "7 False 7", "7 True 0", "0 True 2"], "it can be set back")

    def test_what_a_rank_may_not_do(self):
        code = ("import hfai\nprint(hfai.client.set_priority(hfai.client.EXP_PRIORITY.VERY_HIGH))\n"
                "print(hfai.client.disable_warn(1), hfai.client.set_watchdog_time(5)['success'])\n"
                "hfai.client.set_priority(5, raise_exception=True)")
        with Gang(self.dir, 1, [["-c", code]]) as gang:
            codes, ((out, err),) = gang.finish()
        self.assertEqual((codes, out), ([1], "False\nTrue 1\n"))
        self.assertIn("tide: hfai: set_priority: priority 40 is not set", err)
        self.assertIn("TideError: set_priority: priority 5 is not set", err)


class Leaving(TempCase):
    """How ranks leave of which only the first is asked, without torch."""

    WAIT = "import hfai\nimport signal\nsignal.pause()"

    def test_all_leave_when_rank_0_goes(self):
        with Gang(self.dir, 1, [["-c", ASK_AND_GO], ["-c", self.WAIT], ["-c", self.WAIT]]) as gang:
            gang.wait_attached()
            gang.suspend()
            codes, said = gang.finish()
            self.assertEqual((codes, gang.phases()), ([85] * 3, [ACKNOWLEDGED] * 3), said)

    def test_only_ranks_of_the_first_node_are_told(self):
        code = ("import hfai\nwhile not hfai._session.current.asked(): pass\n"
                "print(hfai.client.receive_suspend_command())")
        with Gang(self.dir, 1, [["-c", code], ["-c", code]]) as gang:
            gang.wait_attached()
            gang.suspend()
            codes, said = gang.finish()
        self.assertEqual((codes, [out for out, _ in said]), ([0, 0], ["True\n", "False\n"]))

    def test_an_armed_order_is_none_yet(self):
        code = ("import hfai\nwhile hfai._session.current._page.order == 0: pass\n"
                "print(hfai.client.receive_suspend_command())")
        with Gang(self.dir, 1, [["-c", code]]) as gang:
            gang.wait_attached()
            page = gang.pages[0]
            page.at_step, page.state, page.order, page.seq = 1, _page.STATE_ARMED, _page.ORDER_SUSPEND, 1
            self.assertEqual(gang.finish()[1][0][0], "False\n")

    def test_one_that_fails_because_its_peers_go_is_suspended_too(self):
        fails = ("import hfai\nwhile not hfai._session.current.asked(): pass\n"
                 "raise RuntimeError('connection closed by peer')")
        with Gang(self.dir, 1, [["-c", ASK_AND_GO], ["-c", fails]]) as gang:
            gang.wait_attached()
            gang.suspend()
            codes, said = gang.finish()
            self.assertEqual((codes, gang.phases()), ([85, 85], [ACKNOWLEDGED] * 2), said)

    def test_a_folder_that_other_nodes_do_not_see(self):
        """Rank 0 goes, and the collective of the other one fails."""
        fails = ("import hfai\nimport os\nwhile not os.path.exists(os.environ['GONE']): pass\n"
                 "raise RuntimeError('connection closed by peer')")
        alone = "import os\nos.environ['TIDE_CHECKPOINT_DIR'] += '-of-rank-0'\n"
        with Gang(self.dir, 1, [["-c", alone + ASK_AND_GO], ["-c", fails]], {"GONE": self.path("gone")}) as gang:
            gang.wait_attached()
            gang.suspend()
            self.assertEqual(gang.ranks[0].wait(timeout=DEADLINE_S), 85)
            self.assertIsNone(gang.ranks[1].poll())
            with open(self.path("gone"), "w"):
                pass
            codes, said = gang.finish()
            self.assertEqual((codes, gang.phases()), ([85, 85], [ACKNOWLEDGED] * 2), said)

    def test_rank_0_that_fails_under_the_order_fails(self):
        code = ("import hfai\nhfai._session.FAILED_WAIT_S = 0.1\n"
                "while not hfai.client.receive_suspend_command(): pass\nraise OSError('disk full')")
        with Gang(self.dir, 1, [["-c", code]]) as gang:
            gang.wait_attached()
            gang.suspend()
            codes, said = gang.finish()
        self.assertEqual(codes, [1])
        self.assertIn("disk full", said[0][1])

    def test_one_that_fails_by_itself_fails(self):
        with Gang(self.dir, 1, [["-c", "import hfai; raise RuntimeError('mine')"]]) as gang:
            codes, said = gang.finish()
        self.assertEqual(codes, [1])
        self.assertIn("RuntimeError: mine", said[0][1])

    def test_going_unasked(self):
        head = "import hfai\nhfai._session.LOOK_UNASKED_S = 0.1\nhfai._session.MARGIN_UNASKED_S = 1.0\n"
        go = head + "import os\nwhile not os.path.exists(os.environ['GO']): pass\n"
        with Gang(self.dir, 1, [["-c", go + "hfai.client.go_suspend()"], ["-c", head + self.WAIT]],
                  {"GO": self.path("go")}) as gang:
            gang.wait_attached()
            with open(self.path("go"), "w"):
                pass
            codes, said = gang.finish()
            self.assertEqual((codes, gang.phases()), ([85, 85], [ACKNOWLEDGED] * 2), said)

    def test_notes_of_before_count_for_nothing(self):
        os.makedirs(self.path("ck"))
        for name in ("hfai-go-j-1-1.json", "hfai-go-j-1-2.json", "hfai-go-j-12-1.json"):
            with open(self.path("ck", name), "w") as out:
                out.write('{"leave_at": 1.0}')
        code = "import hfai\nhfai._session.current._leave_at_note()\nprint('stays')"
        for rank in ("1", "0"):
            with Gang(self.dir, 2, [["-c", code]]) as gang:
                codes, said = gang.finish()
            self.assertEqual((codes, said[0][0]), ([0], "stays\n"), rank)
        self.assertEqual(os.listdir(self.path("ck")), ["hfai-go-j-12-1.json"])

    def test_a_folder_that_cannot_be_written_keeps_nobody(self):
        with open(self.path("ck"), "w"):
            pass
        with Gang(self.dir, 1, [["-c", ASK_AND_GO]]) as gang:
            gang.wait_attached()
            gang.suspend()
            codes, said = gang.finish()
            self.assertEqual((codes, gang.phases()), ([85], [ACKNOWLEDGED]))
        self.assertIn("cannot tell the other ranks to leave", said[0][1])


@long_training
@unittest.skipIf(torch is None, "needs torch")
class Training(TempCase):
    def resnet(self, out, procs, step_ms):
        return [RESNET, "--out", self.path(out), "--epochs", "2", "--procs", str(procs), "--step-ms", str(step_ms),
                "--settle-s", "0.2"]

    def attempt(self, number, arguments, ranks, suspend_after=None, then=lambda: None):
        """Runs one attempt; `then` is called when its suspension is agreed. Returns rank 0's unread output."""
        with Gang(self.dir, number, [arguments] * ranks) as gang:
            if suspend_after is not None:
                gang.read_until(suspend_after)
                gang.suspend()
                then()
            codes, said = gang.finish()
            expected = [0] * ranks if suspend_after is None else [85] * ranks
            self.assertEqual(codes, expected, said)
            if suspend_after is not None:
                self.assertEqual(gang.phases(), [ACKNOWLEDGED] * ranks)
        return said[0][0]

    def suspended_and_whole(self, arguments, whole, ranks, stops):
        for number, stop in enumerate(stops, 1):
            self.attempt(number, arguments, ranks, stop)
        return self.same_as_whole(arguments, whole, ranks, len(stops) + 1)

    def same_as_whole(self, arguments, whole, ranks, number):
        out = self.attempt(number, arguments, ranks)
        self.assertIn("goes on at epoch", out)
        self.assertEqual(_digest(out), _digest(self.attempt(90, whole, ranks)))
        return out

    def test_the_canonical_script(self):
        out = self.suspended_and_whole(self.resnet("parts", 1, 20), self.resnet("whole", 1, 0), 2,
                                       ["epoch 0 step 5", "epoch 1 step 3"])
        self.assertIn("goes on at epoch 1 step", out)

    def test_the_canonical_script_with_two_workers_a_node(self):
        self.suspended_and_whole(self.resnet("parts", 2, 20), self.resnet("whole", 2, 0), 1, ["epoch 1 step 2"])

    def test_nodes_that_share_no_folder_are_told_by_the_store(self):
        """The other rank is in a step that ends neither by itself nor by an error."""
        code = ("import os\nos.environ['TIDE_CHECKPOINT_DIR'] += os.environ['RANK']\n"
                "import hfai\nimport signal\nimport torch.distributed as dist\n"
                "dist.init_process_group('gloo')\ndist.barrier()\nprint('starts', flush=True)\n"
                "while not hfai.client.receive_suspend_command():\n"
                "    if dist.get_rank(): signal.pause()\n"
                "hfai.client.go_suspend()")
        with Gang(self.dir, 1, [["-c", code]] * 2, {"NNODES": "2"}) as gang:
            gang.read_until("starts")
            gang.suspend()
            codes, said = gang.finish()
            self.assertEqual((codes, gang.phases()), ([85, 85], [ACKNOWLEDGED] * 2), said)

    def test_a_save_that_fails_is_not_tried_at_every_step(self):
        code = ("import hfai, os, shutil, sys, time, torch\nnet = torch.nn.Linear(2, 2)\n"
                "hfai.checkpoint.init(net, torch.optim.SGD(net.parameters(), lr=1), ckpt_path=sys.argv[1])\n"
                "shutil.rmtree(sys.argv[1] + '.tide')\nopen(sys.argv[1] + '.tide', 'w').close()\n"
                "while not hfai.client.receive_suspend_command(): pass\n"
                "for step in range(20): net.try_save(0, step)\nprint('trained on')")
        rank = start_python(["-c", code, self.path("latest.pt")], {"HFAI_SIMULATE": "1", "SIMULATE_SUSPEND": "1"})
        out, err = rank.communicate(timeout=DEADLINE_S)
        self.assertEqual((rank.returncode, out), (0, "trained on\n"), err)
        self.assertEqual(err.count("not suspended"), 1, err)

    def try_save(self, procs, ranks, stops):
        def script(out, hold_at):
            return [TRY_SAVE, self.path(out), "60", str(hold_at), str(procs)]

        os.mkdir(self.path("parts"))
        os.mkfifo(self.path("parts", "held"))
        with open(self.path("parts", "held"), "r+b", buffering=0) as held:
            for number, stop in enumerate(stops, 1):
                self.attempt(number, script("parts", stop), ranks, f"step {stop}", lambda: held.write(b"go on\n"))
        self.same_as_whole(script("parts", -1), script("whole", -1), ranks, len(stops) + 1)

    def test_try_save_agrees_over_pages(self):
        self.try_save(0, 2, [4, 31])

    def test_try_save_of_workers(self):
        self.try_save(2, 1, [14])


def _digest(out):
    return re.search(r"sha256 (\w+)\s*$", out).group(1)


def _end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    unittest.main()
