"""The SDK for C++: its example under pages that the test holds, and its checkpoints beside Python's."""

import os
import re
import signal
import subprocess
import threading
import unittest

from support import NATIVE, TempCase, coordinate, make_page, make_run, release, told, wait_until
from tide import Checkpoint, Shard, _page, load
from tide.checkpoint import RawTensor, store

try:
    import numpy
except ImportError:
    numpy = None

_BIN = os.path.dirname(NATIVE.saver) if NATIVE is not None and NATIVE.saver else ""
_EXAMPLE = os.path.join(_BIN, "tide-train-example")
_STEPS = 300


def committed(folder):
    return [item.step for item in store.scan(folder) if item.has_manifest]


@unittest.skipUnless(_BIN and os.path.exists(_EXAMPLE), "the example in C++ is not built, or TIDE_NATIVE=0")
class Example(TempCase):
    @classmethod
    def setUpClass(cls):
        case = TempCase()
        case.setUp()
        try:
            process = cls.start(case.path("ck"), step_ms=0)
            cls.digest = cls.digest_of(process)
        finally:
            case.doCleanups()

    @staticmethod
    def start(folder, *more, step_ms=1, **env):
        """One rank in a folder of checkpoints. more: further options."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TIDE_") and name != "RANK"}
        return subprocess.Popen([_EXAMPLE, "--steps", str(_STEPS), "--save-every", "100", "--step-ms", str(step_ms), *more],
                                env={**clean, "TIDE_NATIVE": _BIN, "TIDE_CHECKPOINT_DIR": folder, **env},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def digest_of(process):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return re.search(r"weights fnv1a (\w+)\s*$", out).group(1)

    def start_ranks(self, world, attempt):
        """(processes, pages): one start of the job by agents whose pages the test holds."""
        paths = [self.path(f"page-{rank}") for rank in range(world)]
        pages = [make_page(path) for path in paths]
        ranks = [self.start(self.path("ck"), RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), TIDE_PAGE=path,
                            TIDE_ATTEMPT=str(attempt)) for rank, path in enumerate(paths)]
        for rank in ranks:
            self.addCleanup(rank.communicate)
            self.addCleanup(rank.kill)
        return ranks, pages

    def suspend_and_resume(self, world, after):
        for attempt, least in enumerate(after, 1):
            ranks, pages = self.start_ranks(world, attempt)
            wait_until(lambda: all(page.step >= least for page in pages), f"step {least}")
            step = coordinate(pages, _page.ORDER_SUSPEND)
            for rank, process in enumerate(ranks):
                self.assertEqual((rank, process.wait(timeout=60)), (rank, 85), process.stderr.read())
            self.assertEqual([(page.saved_step, page.ack_seq, page.phase) for page in pages],
                             [(step, page.seq, _page.PHASE_SAVED) for page in pages])
            self.assertEqual(committed(self.path("ck"))[-1], step)
        ranks, pages = self.start_ranks(world, len(after) + 1)
        self.assertEqual({self.digest_of(ranks[0])}, {self.digest})
        self.assertEqual([rank.wait(timeout=60) for rank in ranks], [0] * world)
        self.assertEqual([page.phase for page in pages], [_page.PHASE_DONE] * world)
        self.assertEqual(told(["verify", self.path("ck")])[0], 0)

    def test_learns(self):
        process = self.start(self.path("ck"), "--steps", "3000", step_ms=0)
        out, _ = process.communicate(timeout=60)
        self.assertGreater(float(re.search(r"accuracy (\S+)", out).group(1)), 0.98, out)

    def test_suspended_and_resumed_bit_for_bit(self):
        self.suspend_and_resume(1, (20, 60, 150))

    def test_two_ranks(self):
        self.suspend_and_resume(2, (20, 110))

    def test_other_world_size(self):
        ranks, pages = self.start_ranks(2, 1)
        wait_until(lambda: all(page.step >= 30 for page in pages), "step 30")
        coordinate(pages, _page.ORDER_SUSPEND)
        self.assertEqual([rank.wait(timeout=60) for rank in ranks], [85, 85])
        ranks, _ = self.start_ranks(1, 2)
        self.assertEqual(self.digest_of(ranks[0]), self.digest)

    def test_rehearsal(self):
        process = self.start(self.path("ck"), TIDE_REHEARSE_SUSPEND="77")
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (85, ""))
        self.assertIn("leaving at step 77", out)
        self.assertEqual(self.digest_of(self.start(self.path("ck"), TIDE_REHEARSE_SUSPEND="77")), self.digest)

    def test_ordered_save_and_stop(self):
        ranks, pages = self.start_ranks(2, 1)
        wait_until(lambda: all(page.step >= 5 for page in pages), "step 5")
        step = coordinate(pages, _page.ORDER_SAVE)
        wait_until(lambda: all(page.ack_seq == page.seq and page.saved_step == step for page in pages), "the save")
        for page in pages:
            page.order, page.seq = _page.ORDER_STOP, page.seq + 1
        self.assertEqual([rank.wait(timeout=60) for rank in ranks], [85, 85])
        self.assertEqual(committed(self.path("ck")), [step])

    def test_killed_rank_loses_no_staged_save(self):
        ranks, pages = self.start_ranks(1, 1)
        wait_until(lambda: pages[0].staged_step == 100, "the save of step 100")
        ranks[0].send_signal(signal.SIGKILL)
        wait_until(lambda: committed(self.path("ck")) == [100], "the saver")
        self.assertEqual(self.digest_of(self.start_ranks(1, 2)[0][0]), self.digest)

    def test_without_saver(self):
        process = self.start(self.path("ck"), TIDE_NATIVE="0", TIDE_REHEARSE_SUSPEND="150")
        self.assertEqual((process.wait(timeout=60), process.stderr.read()), (85, ""))
        process.communicate()
        self.assertEqual(committed(self.path("ck")), [100, 150])
        self.assertEqual(self.digest_of(self.start(self.path("ck"), TIDE_NATIVE="0")), self.digest)

    def saver_of(self, process):
        """The pid of the one process that the example has started."""
        def children():
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as source:
                return source.read().split()

        wait_until(lambda: len(children()) == 1, "the saver")
        return int(children()[0])

    def test_killed_saver_is_done_without(self):
        ranks, pages = self.start_ranks(1, 1)
        wait_until(lambda: pages[0].step >= 3, "step 3")
        os.kill(self.saver_of(ranks[0]), signal.SIGKILL)
        out, err = ranks[0].communicate(timeout=60)
        self.assertEqual((ranks[0].returncode, err.count("the saver of this rank has ended (signal 9)")), (0, 1), err)
        self.assertIn(f"fnv1a {self.digest}", out)
        # A saver killed between its commit and its word leaves a step that is saved once more.
        self.assertEqual(sorted(set(committed(self.path("ck")))), [100, 200, 300])

    def test_saver_that_stands_still_stops_no_training(self):
        ranks, pages = self.start_ranks(1, 1)
        wait_until(lambda: pages[0].step >= 3, "step 3")
        saver = self.saver_of(ranks[0])
        os.kill(saver, signal.SIGSTOP)
        try:
            wait_until(lambda: pages[0].step == _STEPS, "the last step")
        finally:
            os.kill(saver, signal.SIGCONT)
        out, err = ranks[0].communicate(timeout=60)
        # Both slots were taken by the first two; the last one is waited for.
        self.assertEqual((ranks[0].returncode, committed(self.path("ck"))), (0, [100, 200, 300]), err)
        self.assertIn("save of step 300 skipped", err)
        self.assertIn(f"fnv1a {self.digest}", out)

    def test_damaged_one_is_passed_over(self):
        process = self.start(self.path("ck"), TIDE_REHEARSE_SUSPEND="150")
        process.communicate(timeout=60)
        with open(os.path.join(store.scan(self.path("ck"))[-1].path, "d00000.safetensors"), "r+b") as data:
            data.seek(5000)
            byte = data.read(1)[0]
            data.seek(5000)
            data.write(bytes([byte ^ 1]))
        process = self.start(self.path("ck"))
        out, err = process.communicate(timeout=60)
        self.assertIn("from step 100 of", out)
        self.assertRegex(err, "s000000000150-0001-[0-9a-f]{8} is damaged .*does not match its CRC-32")
        self.assertIn(f"fnv1a {self.digest}", out)

    def test_python_reads_and_writes_what_it_goes_on_with(self):
        process = self.start(self.path("ck"), TIDE_REHEARSE_SUSPEND="150")
        process.communicate(timeout=60)
        state = load(self.path("ck"))
        weight = state["replicated"]["model"]["second.weight"]
        self.assertEqual((type(weight).__module__.split(".")[0] if numpy else type(weight), tuple(weight.shape)),
                         ("numpy" if numpy else RawTensor, (32, 32)))
        self.assertIsInstance(state["global"]["sampler"]["state"], int)
        ck = Checkpoint(dir=self.path("again"), replicated=state["replicated"], global_=state["global"],
                        run=make_run(attempt=1))
        ck.save(150)
        code, text = told(["diff", self.path("ck"), self.path("again")])
        self.assertEqual(code, 0, text)
        files = [os.path.join(store.scan(self.path(name))[-1].path, "d00000.safetensors") for name in ("ck", "again")]
        contents = []
        for file in files:
            with open(file, "rb") as data:
                contents.append(data.read())
        self.assertEqual(*contents)
        release(self.path("again"))
        self.assertEqual(self.digest_of(self.start(self.path("again"))), self.digest)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_shards_of_python_load_whole(self):
        process = self.start(self.path("ck"), TIDE_REHEARSE_SUSPEND="150")
        process.communicate(timeout=60)
        state = load(self.path("ck"))

        def half(rank, whole):
            axis = whole.ndim - 1  # columns: the rows of a part are apart in memory
            middle, size = whole.shape[axis] // 2, whole.shape[axis]
            begin, end = (0, middle) if rank == 0 else (middle, size)
            offsets = [0] * axis + [begin]
            return Shard(numpy.ascontiguousarray(whole[..., begin:end]), offsets, whole.shape)

        def save(rank):
            model = state["replicated"]["model"]
            ck = Checkpoint(dir=self.path("parts"), sharded={"model": {name: half(rank, model[name]) for name in model}},
                            replicated={"momentum": state["replicated"]["momentum"]}, global_=state["global"],
                            run=make_run(rank, 2))
            ck.save(150)

        ranks = [threading.Thread(target=save, args=(rank,)) for rank in range(2)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        self.assertEqual(committed(self.path("parts")), [150])
        release(self.path("parts"))
        self.assertEqual(self.digest_of(self.start(self.path("parts"))), self.digest)

    def test_other_state_is_refused_by_name(self):
        Checkpoint(dir=self.path("ck"), replicated={"model": {"first.weight": RawTensor("F32", (2, 2), bytes(16))}},
                   run=make_run(attempt=1)).save(7)
        release(self.path("ck"))
        process = self.start(self.path("ck"))
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err, "model.first.bias is not in it; the program's \"model\" differs")


if __name__ == "__main__":
    unittest.main()
