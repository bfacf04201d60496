"""torch.distributed.checkpoint over Tide's checkpoints, by the stand-in of its hooks: saved by N ranks, loaded by M."""

import contextlib
import os
import sys
import threading
import time
import unittest
from unittest import mock

from support import ROOT, SDK, TempCase, captured_stderr, make_run, run_ranks

PATHS = [os.path.join(ROOT, "sdk", "adapters"), os.path.join(ROOT, "tests", "sdk", "stand_ins")]
sys.path[:0] = PATHS
from tide import CheckpointError, DamagedError  # noqa: E402
from tide.checkpoint.sections import RanksFile  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
if torch is not None:
    import dcp
    dcp.install()
    from tide_torch_dcp.storage import Storage, TideReader, TideWriter

# A training that is suspended by rehearsal: what it has learned depends on every step.
_TRAINS = """
import dcp, sys, tide, torch
dcp.install()
from tide_torch_dcp.storage import Storage
run = tide.attach()
weight = torch.zeros(5)
state = {"weight": weight, "epoch": 0}
storage = Storage(run)
step = storage.resume(state)
print("from", step, state["epoch"], flush=True)
while step < 12:
    step += 1
    weight.mul_(0.5).add_(step)
    storage.answer(lambda: {"weight": weight, "epoch": step // 4}, step)
print(weight.tolist())
"""


@unittest.skipIf(torch is None, "needs torch")
class DcpStorage(TempCase):
    def in_all(self, world, act):
        """act(rank, group) in a thread for each rank. Returns what they return; raises what the first one raised."""
        group, results, failures = dcp.Group(world), [None] * world, []

        def rank_main(rank):
            try:
                results[rank] = act(rank, group)
            except Exception as error:
                failures.append(error)
                group.barrier.abort()

        threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise next((error for error in failures if not isinstance(error, threading.BrokenBarrierError)), failures[0])
        return results

    def whole(self, seed):
        torch.manual_seed(seed)
        return {"layers.0.weight": torch.randn(7, 3), "layers.1.weight": torch.randn(9, 2, 2), "bias": torch.randn(4),
                "half": torch.randn(6).to(torch.bfloat16), "scalar": torch.tensor(3.5), "none": torch.empty(0, 3)}

    def state(self, whole, rank, world, empty=False):
        """The first two cut by rows, the others whole on all ranks."""
        held = {}
        for name, tensor in whole.items():
            value = torch.zeros_like(tensor) if empty else tensor.clone()
            if "layers" in name:
                first, last = len(tensor) * rank // world, len(tensor) * (rank + 1) // world
                held[name] = dcp.Rows(value[first:last].clone(), first, len(tensor))
            else:
                held[name] = value
        return {**held, "epoch": -1 if empty else 4, "$odd": None if empty else {"a": [1, 2]}}

    def save(self, folder, whole, world, step, attempt=1):
        def act(rank, group):
            storage = Storage(make_run(rank, world, attempt, TIDE_CHECKPOINT_DIR=folder), timeout_s=20)
            storage.resume(self.state(whole, rank, world, empty=True), lambda state, **options: None)
            return storage.save(self.state(whole, rank, world), step, lambda state, **options: dcp.save(
                state, process_group=group, rank=rank, **options))

        return self.in_all(world, act)

    def load(self, folder, whole, world, attempt=2):
        def act(rank, group):
            storage = Storage(make_run(rank, world, attempt, TIDE_CHECKPOINT_DIR=folder), timeout_s=20)
            state = self.state(whole, rank, world, empty=True)
            step = storage.resume(state, lambda state, **options: dcp.load(state, process_group=group, rank=rank, **options))
            return step, state

        return self.in_all(world, act)

    def same(self, one, other):
        for name, value in one.items():
            value, found = (value.local, other[name].local) if isinstance(value, dcp.Rows) else (value, other[name])
            if isinstance(value, torch.Tensor):
                self.assertTrue(torch.equal(value, found), name)
            else:
                self.assertEqual(value, found, name)

    def test_saved_by_n_loaded_by_m(self):
        for world in (1, 2, 5):
            folder, whole = self.path(str(world)), self.whole(world)
            names = self.save(folder, whole, world, 3)
            self.assertEqual(len(set(names)), 1)
            for attempt, readers in enumerate((1, 2, 3, 5), 2):
                with self.subTest(world=world, readers=readers):
                    for rank, (step, state) in enumerate(self.load(folder, whole, readers, attempt)):
                        self.assertEqual(step, 3)
                        self.same(self.state(whole, rank, readers), state)

    def test_a_damaged_one_is_passed_over(self):
        folder, first, second = self.path("ck"), self.whole(1), self.whole(2)
        self.save(folder, first, 2, 1)
        names = self.save(folder, second, 2, 2, attempt=2)
        with open(os.path.join(folder, names[0], "d00001.safetensors"), "r+b") as file:
            file.seek(4100)
            byte = file.read(1)[0]
            file.seek(4100)
            file.write(bytes([byte ^ 1]))
        with captured_stderr():
            for rank, (step, state) in enumerate(self.load(folder, first, 3, attempt=3)):
                self.assertEqual(step, 1)
                self.same(self.state(first, rank, 3), state)

    def test_damage_is_found_by_the_reader_alone(self):
        folder, whole = self.path("ck"), self.whole(1)
        path = os.path.join(folder, self.save(folder, whole, 1, 1)[0])
        state = self.state(whole, 0, 1, empty=True)
        dcp.load(state, storage_reader=TideReader(path))
        self.same(self.state(whole, 0, 1), state)
        data = os.path.join(path, "d00000.safetensors")
        with open(data, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte ^ 1]))
        with self.assertRaisesRegex(DamagedError, "d00000.safetensors chunk 0"):
            TideReader(path)

    def test_the_sections_are_read_once(self):
        folder, whole = self.path("ck"), self.whole(1)
        path = os.path.join(folder, self.save(folder, whole, 3, 1)[0])
        state = self.state(whole, 1, 2, empty=True)
        reader = TideReader(path)
        with mock.patch.object(RanksFile, "find", autospec=True, side_effect=RanksFile.find) as find:
            dcp.load(state, storage_reader=reader, rank=0)
        self.same(self.state(whole, 1, 2), state)
        self.assertEqual(find.call_count, 1)

    def test_a_rank_whose_planner_fails_fails_all_and_the_step_is_saved_again(self):
        folder, whole = self.path("ck"), self.whole(1)

        def act(rank, group):
            storage = Storage(make_run(rank, 2, 1, TIDE_CHECKPOINT_DIR=folder), timeout_s=30)
            storage.resume({}, lambda state, **options: None)

            def save(state, **options):
                dcp.save(state, process_group=group, rank=rank, **options)

            failed = mock.patch.object(dcp.SavePlanner, "resolve_data", side_effect=MemoryError("no memory left")) if rank == 1 else None
            try:
                with failed or contextlib.nullcontext():
                    plan = dcp.SavePlan([], storage_data={"bias": (torch.float32, (4,))}) if rank == 0 else dcp.SavePlan(
                        [dcp.WriteItem(dcp.MetadataIndex("bias"), dcp.WriteItemType.BYTE_IO)], storage_data={"bias": (torch.float32, (4,))})
                    TideWriter(storage, 5).write_data(plan, dcp.SavePlanner({"bias": whole["bias"]}, rank, 2))
            except (MemoryError, CheckpointError):
                pass
            group.gather(rank, None)
            return storage.save(self.state(whole, rank, 2), 5, save)

        begin = time.monotonic()
        with captured_stderr():
            names = self.in_all(2, act)
        self.assertLess(time.monotonic() - begin, 20, "nobody waits for what does not come")
        self.assertEqual(len(set(names)), 1)
        self.assertEqual({step for step, _ in self.load(folder, whole, 1, attempt=3)}, {5})

    def test_a_rank_that_cannot_write_fails_all(self):
        folder, whole = self.path("ck"), self.whole(1)
        self.save(folder, whole, 2, 1)

        def act(rank, group):
            storage = Storage(make_run(rank, 2, 2, TIDE_CHECKPOINT_DIR=folder), timeout_s=2)
            storage.resume(self.state(whole, rank, 2, empty=True), lambda state, **options: None)
            state = self.state(whole, rank, 2)
            if rank == 1:
                state["layers.0.weight"] = dcp.Rows(torch.zeros(2, 3), 0, 7)  # its rows leave a hole
            return storage.save(state, 2, lambda state, **options: dcp.save(state, process_group=group, rank=rank, **options))

        with captured_stderr(), self.assertRaisesRegex(Exception, "layers.0.weight|could not commit"):
            self.in_all(2, act)
        self.assertEqual({step for step, _ in self.load(folder, whole, 1, attempt=3)}, {1})

    def test_a_suspended_training_ends_as_one_that_was_not(self):
        paths = {"PYTHONPATH": os.pathsep.join([*PATHS, SDK])}

        def train(folder, **env):
            return run_ranks(["-c", _TRAINS], 1, {**paths, "TIDE_CHECKPOINT_DIR": self.path(folder), **env})[0]

        whole = train("whole")
        self.assertEqual((whole[0], whole[2]), (0, ""))
        code, out, err = train("parts", TIDE_REHEARSE_SUSPEND="5")
        self.assertEqual((code, out, err), (85, "from 0 0\n", ""))
        code, out, err = train("parts")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.splitlines(), ["from 5 1", whole[1].splitlines()[-1]])


if __name__ == "__main__":
    unittest.main()
