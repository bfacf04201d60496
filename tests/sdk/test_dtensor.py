"""Distributed tensors of torch, by a stand-in: saved by one mesh, loaded by another, copies stored once."""

import threading
import unittest
from unittest import mock

import published
from support import TempCase, make_run
from tide import Checkpoint, CheckpointError, ShardedOptimizer, load
from tide.checkpoint import dtensor

try:
    import torch
    from stand_ins.dtensor import DeviceMesh, DTensor, Partial, Replicate, Shard, _StridedShard, cut
except ImportError:
    torch = None

SHAPES = {"weight": (7, 6), "bias": (7,), "scale": (5,), "empty": (0, 3)}


def whole(name, seed=1):
    generator = torch.Generator().manual_seed(seed * 100 + len(name))
    return torch.randn(SHAPES[name], generator=generator)


@unittest.skipIf(torch is None, "no torch")
class Case(TempCase):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(dtensor, "possible", lambda: True)
        patch.start()
        self.addCleanup(patch.stop)

    def in_all(self, world, what):
        """Calls what(rank) in a thread for each rank. Returns what they returned."""
        results = [None] * world

        def run(rank):
            try:
                results[rank] = what(rank)
            except Exception as error:
                results[rank] = error

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results


def model(mesh, placements, seed=1):
    """A state as FSDP2's model.state_dict(): scale is whole on all ranks."""
    return {**{name: cut(whole(name, seed), mesh, placements) for name in ("weight", "bias", "empty")}, "scale": whole("scale", seed)}


class Meshes(Case):
    def save(self, name, world, make):
        def one(rank):
            ck = Checkpoint(dir=self.path(name), sharded={"model": make(rank)}, run=make_run(rank, world), timeout_s=30)
            return ck.save(1)
        self.in_all(world, one)

    def meshes(self):
        return [(1, (1,), [Shard(0)]), (4, (4,), [Shard(0)]), (3, (3,), [Shard(0)]), (4, (2, 2), [Replicate(), Shard(0)]),
                (4, (2, 2), [_StridedShard(0), Shard(0)]), (2, (2,), [Replicate()])]

    def test_each_loads_what_each_has_saved(self):
        for number, (world, shape, placements) in enumerate(self.meshes()):
            self.save(f"ck-{number}", world, lambda rank: model(DeviceMesh(shape, rank), placements))
            stored = load(self.path(f"ck-{number}"))["sharded"]["model"]
            for name in SHAPES:
                self.assertTrue(torch.equal(torch.as_tensor(stored[name]), whole(name)), (number, name))
            for other, (again, mesh, cuts) in enumerate(self.meshes()):
                with self.subTest(saved=number, loaded=other):
                    def one(rank):
                        mine = model(DeviceMesh(mesh, rank), cuts, seed=2)
                        parts = {key: value._local for key, value in mine.items() if isinstance(value, DTensor)}
                        ck = Checkpoint(dir=self.path(f"ck-{number}"), sharded={"model": mine}, run=make_run(rank, again, attempt=2 + other),
                                        timeout_s=30)
                        self.assertEqual(ck.resume(), 1)
                        for key in SHAPES:
                            expected = cut(whole(key), DeviceMesh(mesh, rank), cuts)._local if key in parts else whole(key)
                            found = mine[key]._local if key in parts else mine[key]
                            self.assertTrue(torch.equal(found, expected), (rank, key))
                            self.assertIsInstance(mine[key], DTensor if key in parts else torch.Tensor)
                            self.assertTrue(key not in parts or mine[key]._local is parts[key], "the program's own memory")
                    self.in_all(again, one)

    def test_copies_are_stored_once(self):
        self.save("copies", 4, lambda rank: model(DeviceMesh((2, 2), rank), [Replicate(), Shard(0)]))
        self.save("alone", 1, lambda rank: model(DeviceMesh((1,), rank), [Shard(0)]))
        from tide.checkpoint import store
        sizes = []
        for name in ("copies", "alone"):
            parts = published.boxed_parts(store.scan(self.path(name))[-1].path)
            sizes.append(sum(published.volume(part["box"]) for found in parts.values() for part in found))
        self.assertEqual(sizes[0], sizes[1])

    def test_what_cannot_be_stored_is_named(self):
        mesh = DeviceMesh((1,), 0)
        for objects, words in (({"sharded": {"m": {"w": DTensor(torch.zeros(2), mesh, [Partial()], (2,), (1,))}}}, r"m.w: a DTensor with Partial\(sum\)"),
                               ({"sharded": {"m": {"w": DTensor(torch.zeros(3), mesh, [Shard(0)], (2,), (1,))}}}, r"this rank holds \[3\], not \[2\]"),
                               ({"replicated": {"m": {"w": cut(torch.zeros(2), mesh, [Shard(0)])}}}, "m.w is held in part.*under sharded=")):
            with self.subTest(words), self.assertRaisesRegex(CheckpointError, words):
                Checkpoint(dir=self.path("bad"), run=make_run(), **objects).save(1)


class Optimizers(Case):
    """Adam's state follows its parameters, which it has from the first step on only."""

    def train(self, name, world, steps, attempt, seed):
        """Resumes, trains to `steps` and saves. Returns rank 0's step at the beginning."""
        def one(rank):
            mesh, placements = DeviceMesh((world,), rank), [Shard(0)]
            weight = cut(whole("weight", seed), mesh, placements)
            opt = torch.optim.Adam([weight], lr=0.1, foreach=False)
            ck = Checkpoint(dir=self.path(name), sharded={"model": {"w": weight}, "opt": ShardedOptimizer(opt)},
                            run=make_run(rank, world, attempt=attempt), timeout_s=30)
            begin = ck.resume()
            for step in range(begin + 1, steps + 1):
                weight.grad = cut(whole("weight", 50 + step), mesh, placements)
                opt.step()
            ck.save(steps)
            return begin

        return self.in_all(world, one)[0]

    def test_a_resumed_run_ends_as_one_that_went_on(self):
        self.train("alone", 2, 4, 1, 1)
        for number, (first, then) in enumerate(((2, 2), (2, 3), (3, 1), (1, 4))):
            name = f"resumed-{number}"
            self.assertEqual(self.train(name, first, 2, 1, 1), 0)
            self.assertEqual(self.train(name, then, 4, 2, 8), 2)
            alone, resumed = load(self.path("alone"))["sharded"], load(self.path(name))["sharded"]
            self.assertTrue(torch.equal(alone["model"]["w"], resumed["model"]["w"]), name)
            for key in ("exp_avg", "exp_avg_sq", "step"):
                self.assertTrue(torch.equal(alone["opt"]["state"][0][key], resumed["opt"]["state"][0][key]), (name, key))

    def test_in_the_middle_of_a_run_the_state_there_is_filled(self):
        mesh = DeviceMesh((1,), 0)
        weight = cut(whole("weight"), mesh, [Shard(0)])
        opt = torch.optim.Adam([weight], lr=0.1, foreach=False)
        ck = Checkpoint(dir=self.path("ck"), sharded={"model": {"w": weight}, "opt": ShardedOptimizer(opt)}, run=make_run())
        weight.grad = cut(whole("weight", 3), mesh, [Shard(0)])
        opt.step()
        ck.save(1)
        before, average = weight._local.clone(), opt.state[weight]["exp_avg"]._local.clone()
        opt.step()
        self.assertEqual(ck.resume(), 1)
        self.assertTrue(torch.equal(weight._local, before) and torch.equal(opt.state[weight]["exp_avg"]._local, average))
        self.assertIsInstance(opt.state[weight]["exp_avg"], DTensor)


if __name__ == "__main__":
    unittest.main()
