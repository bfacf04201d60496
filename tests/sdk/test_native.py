"""The native core: the same bytes as Python's, and saves that outlive the rank or lose their saver."""

import array
import os
import random
import signal
import subprocess
import threading
import time
import unittest
import zlib
from unittest import mock

from support import NATIVE, TempCase, captured_stderr, checkpoints_in, is_locked, make_page, make_run, name_of, needs_native, start_python, wait_until
from tide import Checkpoint, CheckpointError, _page
from tide.checkpoint import _native, saver, store
from tide.checkpoint import format as fmt

try:
    import numpy
    import torch
except ImportError:
    numpy = torch = None

_STAGES_AND_DIES = """
import array, os, signal, tide
ck = tide.Checkpoint(dir=os.environ["TIDE_CHECKPOINT_DIR"], replicated={"m": {"w": array.array("d", range(3000000))}})
ck.save(7, wait=False)
os.kill(os.getpid(), signal.SIGKILL)
"""


# Its saver does not even know of the second save when the rank dies.
_DIES_BEFORE_IT_IS_HEARD = """
import array, os, select, signal, sys, tide
ck = tide.Checkpoint(dir=os.environ["TIDE_CHECKPOINT_DIR"], replicated={"m": {"w": array.array("d", range(1000))}})
ck.save(1, wait=False)
if sys.argv[1] == "reads":
    ck.flush()
else:
    select.select([ck._background._saver._socket], [], [])
os.kill(ck._background.saver_pid, signal.SIGSTOP)
ck.save(7, wait=False)
print(ck._background.saver_pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


# No address space is left for a thread's stack, nor for what a thread reads into.
_HAS_NO_THREADS = """
import array, json, os, resource, tide
from tide.checkpoint import _native
state = {"w": array.array("d", range(9_000_000))}
copy = array.array("d", bytes(8 * len(state["w"])))
ck = tide.Checkpoint(dir=os.environ["TIDE_CHECKPOINT_DIR"], replicated={"m": state})
folder = ck.dir + "/" + ck.save(1)
[(name, record)] = json.load(open(folder + "/MANIFEST.json"))["files"].items()
file = _native.FileRecord(folder + "/" + name, record["bytes"], [int(crc, 16) for crc in record["crc32"]])
native = _native.find()
print(native.load([file], [], 8))
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (6 << 20), size + (6 << 20)))
native.copy([(copy.buffer_info()[0], state["w"].buffer_info()[0], 8 * len(copy))], 8)
print(copy == state["w"])
print(native.load([file], [], 8))
"""


def objects(seed):
    """State with everything that has bytes or an unusual text."""
    draw = random.Random(seed)
    state = {"block": array.array("d", [draw.random() for _ in range(5001)]), "empty": array.array("q"),
             "odd": array.array("B", draw.randbytes(333)), "text": "µ \U0001F30A \"\\\n", "float": draw.random() * 1e300,
             "tuple": (1, None, b"\0"), 7: {"nan": float("nan")}, "big": 2 ** 80}
    if torch is not None:
        torch.manual_seed(seed)
        net = torch.nn.Linear(17, 5)
        state.update(torch=net.state_dict(), half=torch.randn(3, 3).bfloat16(), turned=torch.randn(4, 6).t(),
                     np=numpy.arange(7, dtype=numpy.int16), f16=numpy.float16([seed, 2]))
    return state


def save_all(folder, world, step, keep=3):
    ranks = [Checkpoint(dir=folder, replicated={"m": objects(1)}, local={"l": {"rank": rank, "w": array.array("f", [rank])}},
                        global_={"g": {"n": 5}}, keep=keep, run=make_run(rank, world, TIDE_JOB_ID="j\"ö")) for rank in range(world)]
    threads = [threading.Thread(target=ck.save, args=(step,)) for ck in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ranks


def files_in(folder):
    """{name: what tells a file from one that has replaced it}"""
    return {name: (os.stat(os.path.join(folder, name)).st_ino, os.stat(os.path.join(folder, name)).st_mtime_ns) for name in os.listdir(folder)}


def contents(folder):
    found = {}
    for path, _, names in os.walk(folder):
        for name in names if path != folder else ():
            with open(os.path.join(path, name), "rb") as source:
                found[os.path.relpath(os.path.join(path, name), folder)] = source.read()
    return found


@needs_native
class SameBytes(TempCase):
    def test_files_of_both_writers_are_equal(self):
        for world in (1, 2, 5):
            with self.subTest(world):
                save_all(self.path(f"native-{world}"), world, 3)
                found, _native._found = _native._found, None
                try:
                    ranks = save_all(self.path(f"python-{world}"), world, 3)
                finally:
                    _native._found = found
                self.assertTrue(all(ck._background.saver_pid is None for ck in ranks))
                ours, theirs = contents(self.path(f"native-{world}")), contents(self.path(f"python-{world}"))
                self.assertEqual(sorted(ours), sorted(theirs))
                self.assertEqual(len(ours), world + 2)
                for name, data in ours.items():
                    self.assertEqual(data, theirs[name], name)

    def test_crc_is_that_of_zlib(self):
        data = random.Random(1).randbytes(100_000)
        view = array.array("B", data)
        for length in (0, 1, 15, 16, 63, 64, 65, 4097, 100_000):
            self.assertEqual(NATIVE.crc32(0, view.buffer_info()[0], length), zlib.crc32(data[:length]))
        first = NATIVE.crc32(0, view.buffer_info()[0], 777)
        self.assertEqual(NATIVE.crc32(first, view.buffer_info()[0] + 777, 1000), zlib.crc32(data[:1777]))


@needs_native
class Scarcity(TempCase):
    def test_without_threads_it_takes_longer(self):
        process = start_python(["-c", _HAS_NO_THREADS], {"TIDE_CHECKPOINT_DIR": self.path("ck")})
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, ""), err)
        *done, again = out.splitlines()
        self.assertEqual(done, ["(0, '')", "True"])
        self.assertIn(again, ("(0, '')", "(2, 'no memory left to read checkpoint files into')"))


@needs_native
class Background(TempCase):
    """One rank with a saver that the tests stop, continue and kill."""

    def setUp(self):
        super().setUp()
        self.block = array.array("d", [1.0]) * 100_000
        self.start(make_run())

    def start(self, run, **options):
        self.ck = Checkpoint(dir=self.path("ck"), replicated={"m": {"w": self.block}}, every=1, keep=9, run=run, **options)

    def stopped_saver(self):
        """Starts the saver and stops it."""
        self.ck.tick(1)
        self.assertTrue(self.ck.flush())
        pid = self.ck._background.saver_pid
        self.signal(pid, signal.SIGSTOP)
        self.addCleanup(self.signal, pid, signal.SIGCONT)
        return pid

    def signal(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def committed(self):
        return [item.step for item in store.scan(self.path("ck")) if item.has_manifest]

    def test_what_is_saved_is_the_state_of_the_tick(self):
        for step in (1, 2):
            self.block[0] = step
            self.assertFalse(self.ck.tick(step))
            self.block[0] = -1
            self.assertTrue(self.ck.flush())
        target = {"w": array.array("d", [0.0]) * 100_000}
        self.assertEqual(Checkpoint(dir=self.path("ck"), replicated={"m": target}, run=make_run()).resume(), 2)
        self.assertEqual(target["w"][0], 2.0)
        self.assertEqual((self.committed(), self.ck._run.page.saved_step), ([1, 2], 2))

    def test_slots_are_two_and_the_next_save_is_skipped(self):
        pid = self.stopped_saver()
        with captured_stderr() as err:
            for step in (2, 3, 4, 5):
                self.assertFalse(self.ck.tick(step))
        self.assertEqual((self.ck.skipped_saves, self.ck.failed_saves), (2, 0))
        self.assertIn("save of step 4 skipped", err.getvalue())
        self.signal(pid, signal.SIGCONT)
        self.assertTrue(self.ck.flush())
        self.assertEqual(self.committed(), [1, 2, 3])
        self.ck.tick(6)
        self.assertTrue(self.ck.flush())
        self.assertEqual(self.committed(), [1, 2, 3, 6])

    def test_saver_that_is_killed_is_replaced(self):
        pid = self.stopped_saver()
        self.ck.tick(2)
        self.signal(pid, signal.SIGKILL)
        with captured_stderr() as err:
            self.assertTrue(self.ck.flush())
        self.assertIn("saver of this rank has ended (signal 9)", err.getvalue())
        self.assertEqual((self.ck.failed_saves, self.committed()), (1, [1]))
        self.ck.tick(3)
        self.assertTrue(self.ck.flush())
        self.assertNotEqual(self.ck._background.saver_pid, pid)
        self.assertEqual(self.committed(), [1, 3])

    def test_what_a_saver_committed_before_it_was_killed_stays_as_it_is(self):
        """The saver has committed and is killed before it has answered: the rank, which saves again, touches nothing."""
        seen = {}

        def wait(ours, staged, deadline):
            path = staged.identity.directory
            wait_until(lambda: os.path.exists(os.path.join(path, fmt.MANIFEST)), "the commit")
            self.signal(ours.pid, signal.SIGKILL)
            ours._process.wait()
            seen[path] = files_in(path)
            raise saver.SaverGone("it was killed")

        with mock.patch.object(saver.Saver, "wait", wait), captured_stderr():
            self.ck.save(2)
        (path, before), = seen.items()
        self.assertEqual(files_in(path), before)
        self.assertEqual(self.ck._run.page.saved_step, 2)
        self.ck.save(3)
        self.assertEqual(self.committed(), [2, 3])

    def test_save_that_is_waited_for_survives_its_saver(self):
        pid = self.stopped_saver()
        killer = threading.Timer(0.2, self.signal, (pid, signal.SIGKILL))
        killer.start()
        with captured_stderr():
            self.ck.save(2)
        killer.join()
        self.assertEqual(self.committed(), [1, 2])

    def test_suspension_that_hangs_is_given_up_for_good(self):
        agent = make_page(self.path("page"))
        self.start(make_run(TIDE_PAGE=self.path("page")), timeout_s=0.3)
        pid = self.stopped_saver()
        agent.at_step, agent.state, agent.order, agent.seq = 2, _page.STATE_COMMITTED, _page.ORDER_SUSPEND, 1
        agent.deadline = time.time_ns()
        with captured_stderr() as err:
            self.assertFalse(self.ck.tick(2))
        self.assertIn("not suspended at step 2", err.getvalue())
        self.assertIn("not written in time", err.getvalue())
        self.signal(pid, signal.SIGCONT)
        with captured_stderr():
            self.assertTrue(self.ck.flush())
        self.assertEqual((self.committed(), agent.ack_seq), ([1], 0))
        self.assertEqual(os.path.exists(self.path("ck", name_of(2), "part-00000")), False)

    def test_saves_whose_parts_never_come_make_room_for_a_suspension(self):
        agent = make_page(self.path("page"))
        self.start(make_run(0, 2, TIDE_PAGE=self.path("page")))
        other = Checkpoint(dir=self.path("ck"), replicated={"m": {"w": self.block}}, run=make_run(1, 2))
        self.assertEqual([self.ck.tick(step) for step in (2, 3)], [False, False])  # both slots are taken
        agent.at_step, agent.state, agent.order, agent.seq = 4, _page.STATE_COMMITTED, _page.ORDER_SUSPEND, 1
        agent.deadline = time.time_ns() + 8 * 10 ** 9
        saving = threading.Thread(target=other.save, args=(4,))
        saving.start()
        with captured_stderr() as err:
            self.assertTrue(self.ck.tick(4))
            self.assertTrue(self.ck.flush())
        saving.join()
        self.assertIn("rank 1 of 2 did not write in time", err.getvalue())
        self.assertEqual((self.committed(), self.ck.failed_saves), ([4], 2))

    def test_prepared_memory_is_what_saves_use(self):
        block = array.array("d", [1.0]) * 1000
        ck = Checkpoint(dir=self.path("ck"), replicated={"m": {"w": block}}, run=make_run())
        ck.resume()
        ck.prepare()
        slots = ck._background._saver.slots._slots
        small = [slot.nbytes for slot in slots]
        block.extend([0.0] * 1_000_000)  # an optimizer's state, which comes with the first step
        ck.prepare()
        made = [(slot.fd, slot.nbytes) for slot in slots]
        self.assertTrue(all(nbytes > before for (_, nbytes), before in zip(made, small)), (made, small))
        ck.save(1)
        ck.save(2)
        self.assertEqual([(slot.fd, slot.nbytes) for slot in slots], made)
        self.assertEqual(store.scan(self.path("ck"))[-1].step, 2)

    def test_state_that_grows_gets_a_larger_slot(self):
        for step, length in enumerate((10, 1_000_000, 20, 3_000_000), 1):
            self.block.extend([0.5] * (length - len(self.block)) if length > len(self.block) else [])
            self.ck.save(step)
        self.assertEqual(self.committed(), [1, 2, 3, 4])
        target = {"w": array.array("d")}
        target["w"].extend(self.block)
        self.assertEqual(Checkpoint(dir=self.path("ck"), replicated={"m": target}, run=make_run()).resume(), 4)


# One rank dies before a save that the other has begun; then the other is ended, as agents do.
_DIES_FIRST = """
import array, os, signal, sys, tide
run = tide.attach()
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": {"w": array.array("d", range(100000))}}, every=5, timeout_s=60)
ck.resume()
for step in range(1, 5):
    ck.tick(step)
if str(run.rank) == sys.argv[1]:
    os.kill(os.getpid(), signal.SIGKILL)
ck.tick(5)
print(ck._background.saver_pid, flush=True)
signal.pause()
"""


@needs_native
class Orphans(TempCase):
    def test_a_rank_that_died_frees_the_savers_of_its_gang(self):
        for first in (0, 1):
            folder = self.path(f"ck{first}")
            env = {"TIDE_CHECKPOINT_DIR": folder, "MASTER_ADDR": "h", "MASTER_PORT": "1", "WORLD_SIZE": "2"}
            ranks = [start_python(["-c", _DIES_FIRST, str(first)], {"RANK": str(rank), "LOCAL_RANK": str(rank), **env})
                     for rank in range(2)]
            other = ranks[1 - first]
            saver = int(other.stdout.readline())
            ranks[first].communicate(timeout=30)
            other.kill()
            other.communicate(timeout=30)
            wait_until(lambda saver=saver: not os.path.exists(f"/proc/{saver}"), "the other's saver to end", 15)
            self.assertIn("failed-0000%d" % (1 - first), str([files for _, _, files in os.walk(folder)]))
            self.assertEqual(Checkpoint(dir=folder, run=make_run(attempt=2)).resume(), 0)
            self.assertEqual([name for name in os.listdir(folder) if name.startswith(".gone")], [])

    def test_rank_that_is_killed_after_staging_has_saved(self):
        for attempt in range(1, 6):
            folder = self.path(str(attempt))
            process = start_python(["-c", _STAGES_AND_DIES], {"TIDE_CHECKPOINT_DIR": folder})
            _, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err), (-signal.SIGKILL, ""))
            target = {"w": array.array("d", bytes(8 * 3_000_000))}
            ck = Checkpoint(dir=folder, replicated={"m": target}, run=make_run(attempt=None))
            self.assertEqual(ck.resume(), 7, "resume() waits for a saver whose rank is gone")
            self.assertEqual(target["w"][2_999_999], 2_999_999.0)
            self.assertEqual([name[:17] for name in checkpoints_in(folder)], ["s000000000007-000"])

    def test_agent_waits_for_a_saver_that_has_not_heard_yet(self):
        self.die_before_it_is_heard("reads")

    def test_saver_hears_what_a_rank_said_that_did_not_listen(self):
        """The end of a connection with unread answers is an error at its other end, before what is still to be read."""
        self.die_before_it_is_heard("does not read")

    def die_before_it_is_heard(self, how):
        make_page(self.path("page-0"))
        rank = start_python(["-c", _DIES_BEFORE_IT_IS_HEARD, how], {
            "TIDE_CHECKPOINT_DIR": self.path("ck"), "TIDE_ATTEMPT": "1", "TIDE_PAGE": self.path("page-0")}, stderr=subprocess.DEVNULL)
        saver = int(rank.stdout.readline())
        rank.wait(60)
        try:
            self.assertTrue(is_locked(self.path("saver-0.lock")))
        finally:
            os.kill(saver, signal.SIGCONT)
            rank.communicate()
        wait_until(lambda: not is_locked(self.path("saver-0.lock")), "the saver to end")
        self.assertEqual([item.step for item in store.scan(self.path("ck")) if item.has_manifest], [1, 7])

    def test_saver_of_a_living_rank_is_not_waited_for(self):
        ck = Checkpoint(dir=self.dir, replicated={"m": {"w": array.array("d", [1.0])}}, run=make_run())
        ck.save(1)
        os.kill(ck._background.saver_pid, signal.SIGSTOP)
        self.addCleanup(os.kill, ck._background.saver_pid, signal.SIGCONT)
        ck.save(2, wait=False)
        begin = time.monotonic()
        other = Checkpoint(dir=self.dir, replicated={"m": {"w": array.array("d", [0.0])}}, run=make_run())
        self.assertEqual(other.resume(), 1)
        self.assertLess(time.monotonic() - begin, store.ORPHANS_END_S / 2)


if __name__ == "__main__":
    unittest.main()
