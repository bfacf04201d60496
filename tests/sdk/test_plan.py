"""A plan gives the same bytes as looking at everything anew, or says that something has changed."""

import array
import collections
import ctypes
import random
import unittest

from support import NATIVE, TempCase, make_run, needs_native
from tide import Checkpoint, Shard
from tide.checkpoint import staging
from tide.checkpoint.plan import Changed, Plan
from tide.checkpoint.saver import Looked, Planned
from tide.checkpoint.writer import Groups, Identity, fetch, gather

try:
    import numpy
    import torch
except ImportError:
    numpy = torch = None


def make(rank, world, groups):
    states = fetch(rank, groups)
    return Plan.make(rank, world, groups, gather(rank, world, groups, states), states)


def identity(rank, world):
    return Identity("/ck/s000000000007-0001-00000001", "j", 7, 1, "00000001", rank, world)


def stored(source, rank, world):
    """The part's texts and the data file's bytes, as the saver finds them."""
    part = source.part(identity(rank, world), f"d{rank:05d}.safetensors")
    slot = staging.Slot(0, staging.slot_bytes(source.nbytes, len(part.head)) + 4096)
    source.fill(slot, part.head.encode(), NATIVE)
    return part, ctypes.string_at(slot.address, slot.nbytes)


class Draw:
    """States of programs, at random."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self):
        return self.random.choice([0, -5, 2 ** 60, 1.5, float("nan"), float("inf"), -0.0, b"\0x", 3 + 1j, numpy.float32(2), {1, 2},
                                   collections.deque([1, 2], 3), frozenset([4]), bytearray(b"ab")])

    def fixed(self):
        return self.random.choice([None, True, "adam", '{"$@":0}', "µ"])

    def tensor(self):
        shape = [self.random.randrange(4) for _ in range(self.random.randrange(3))]
        kind = self.random.randrange(5)
        if kind == 0:
            return array.array("d", [self.random.random() for _ in range(self.random.randrange(4))])
        if kind == 1:
            return numpy.full(shape, self.random.randrange(99), dtype=self.random.choice([numpy.int16, numpy.float64]))
        if kind == 2:
            return torch.nn.Parameter(torch.rand(shape))
        return torch.rand(shape).to(self.random.choice([torch.float32, torch.bfloat16, torch.float64]))

    def value(self, depth=0):
        kind = self.random.randrange(9 if depth < 3 else 6)
        if kind < 3:
            return self.tensor()
        if kind == 3:
            return self.fixed()
        if kind < 6:
            return self.number()
        items = [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        if kind == 6:
            return self.random.choice([list, tuple])(items)
        keys = self.random.choice([["a", "b", "c"], [1, 0, 2], ["$x", "y", 3], [7, None, b"k"]])
        return self.random.choice([dict, collections.OrderedDict])(zip(keys, items))


class Holder:
    def __init__(self, value):
        self.state = {"value": value}

    def state_dict(self):
        return self.state


def changed_values(value, draw):
    """The same state some steps later."""
    kind = type(value)
    if torch is not None and isinstance(value, torch.Tensor):
        if draw.random.random() < 0.5:
            return type(value)(torch.rand(value.shape).to(value.dtype)) if kind is torch.nn.Parameter else torch.rand(value.shape).to(value.dtype)
        with torch.no_grad():
            value.copy_(torch.rand(value.shape))
        return value
    if kind is array.array:
        return array.array(value.typecode, [draw.random.random() for _ in value])
    if kind in (int, float):
        return draw.random.choice([1, 7.25, -(2 ** 70)])
    if kind in (list, tuple):
        return kind(changed_values(item, draw) for item in value)
    if kind in (dict, collections.OrderedDict):
        return kind((key, changed_values(item, draw)) for key, item in value.items())
    return value


@unittest.skipIf(torch is None, "no torch")
@needs_native
class SameBytes(TempCase):
    def check(self, groups, plan, rank, world):
        states = fetch(rank, groups)
        self.assertEqual(stored(Planned(plan, plan.take(states)), rank, world),
                         stored(Looked(gather(rank, world, groups, states)), rank, world))

    def test_of_states_at_random(self):
        for seed in range(300):
            draw = Draw(seed)
            rank, world = seed % 3, 3
            holders = [Holder(draw.value()) for _ in range(4)]
            groups = Groups({"x": holders[0], "y": holders[1]}, {"n": holders[2]}, {"z": holders[3]}, {})
            with self.subTest(seed):
                plan = make(rank, world, groups)
                self.assertIsNotNone(plan)
                self.check(groups, plan, rank, world)
                for holder in holders:
                    holder.state = changed_values(holder.state, draw)
                self.check(groups, plan, rank, world)

    def test_of_a_training(self):
        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
        opt = torch.optim.AdamW(net.parameters(), lr=0.1)
        steps = torch.optim.lr_scheduler.StepLR(opt, 2)
        whole = torch.arange(12.0).reshape(4, 3)
        for rank in range(2):
            groups = Groups({"model": net, "opt": opt, "plan": steps}, {"rng": {"torch": torch.get_rng_state(), "n": 1}}, {"g": {"epoch": 0}},
                            {"s": {"w": Shard(whole[2 * rank:2 * rank + 2], (2 * rank, 0), (4, 3)), "step": 0}})
            self.train(net, opt, steps)
            plan = make(rank, 2, groups)
            for _ in range(4):
                self.train(net, opt, steps)
                groups.local["rng"].update(torch=torch.get_rng_state(), n=groups.local["rng"]["n"] + 1)
                groups.sharded["s"]["step"] += 1
                self.check(groups, plan, rank, 2)

    def train(self, net, opt, steps):
        opt.zero_grad()
        net(torch.randn(8, 7)).pow(2).sum().backward()
        opt.step()
        steps.step()


@unittest.skipIf(torch is None, "no torch")
class Changes(unittest.TestCase):
    def test_each_is_noticed(self):
        base = {"w": torch.zeros(2, 3), "n": 1, "s": "a", "l": [1, 2], "d": {1: 1.0}, "np": numpy.zeros(3), "a": array.array("d", [0.0]),
                "o": collections.OrderedDict(a=1), "none": None, "shard": Shard(torch.zeros(2), (0,), (4,))}
        cases = [("w", torch.zeros(3, 2)), ("w", torch.zeros(2, 3).double()), ("w", torch.zeros(3, 2).t()), ("w", 1.0),
                 ("w", torch.nn.Parameter(torch.zeros(2, 3))), ("n", True), ("n", "1"), ("n", torch.zeros(1)), ("n", {"a": 1}),
                 ("s", "b"), ("s", 1), ("l", [1]), ("l", (1, 2)), ("l", [1, torch.zeros(1)]), ("d", {2: 1.0}), ("d", {True: 1.0}),
                 ("d", {1: 1.0, 2: 1.0}), ("np", numpy.zeros(4)), ("np", numpy.zeros(3, numpy.float32)), ("np", numpy.zeros(6)[::2]),
                 ("a", array.array("f", [0.0])), ("a", array.array("d")), ("o", {"a": 1}), ("none", 0), ("none", torch.zeros(1)),
                 ("shard", Shard(torch.zeros(2), (2,), (4,))), ("shard", torch.zeros(2)), ("new", 1)]
        for key, value in cases:
            state = dict(base)
            groups = Groups({}, {}, {}, {"m": state})
            plan = make(0, 2, groups)
            plan.take(fetch(0, groups))
            with self.subTest(key=key, value=str(value)[:40]):
                state[key] = value
                with self.assertRaises(Changed):
                    plan.take(fetch(0, groups))
        groups = Groups({}, {}, {}, {"m": base})
        reordered = {"m": dict(reversed(base.items()))}
        plan = make(0, 2, groups)
        base_copy = dict(base)
        base.clear()
        base.update(reordered["m"])
        with self.assertRaises(Changed):
            plan.take(fetch(0, groups))
        base.clear()
        base.update(base_copy)

    def test_what_none_is_made_for(self):
        for value in (torch.zeros(3, 2).t(), torch.zeros(2, dtype=torch.complex64), {"s": {(1, 2): 3}}, {"s": {0.0: 1}}):
            groups = Groups({"m": {"x": value}}, {}, {}, {})
            self.assertIsNone(make(0, 1, groups))

    def test_what_torch_notes_of_a_module_counts(self):
        def state(meta):
            made = collections.OrderedDict(a=torch.tensor([5.0]))
            made._metadata = meta
            return made

        def groups(meta):
            return Groups({"m": state(meta), "z": {"b": torch.tensor([7.0])}}, {}, {}, {})

        plain = {"": {"version": 1}, "a": {"version": None, "tied": True}}
        plan = make(0, 1, groups(plain))
        plan.take(fetch(0, groups(dict(plain))))
        for other in ({"": {"version": True}, "a": {"version": None, "tied": True}}, {"": {"version": 1}}):
            with self.subTest(other), self.assertRaises(Changed):
                plan.take(fetch(0, groups(other)))
        for odd in ({"": {"scale": torch.tensor([2.0])}}, {"": {"scale": torch.zeros(2)}}, {"": {"version": 1.0}}, {1: {}}):
            with self.subTest(odd):
                self.assertIsNone(make(0, 1, groups(odd)))

    def test_a_parameter_that_becomes_a_buffer(self):
        net = torch.nn.Linear(2, 2)
        groups = Groups({"m": net}, {}, {}, {})
        plan = make(0, 2, groups)
        bias = net.bias.detach()
        del net.bias
        net.register_buffer("bias", bias)
        with self.assertRaises(Changed):
            plan.take(fetch(0, groups))

    def test_ranks_that_compare_look_each_time(self):
        groups = Groups({"m": {"n": 1}}, {}, {}, {}, compared=True)
        self.assertIsNone(make(0, 1, groups))


@unittest.skipIf(torch is None, "no torch")
@needs_native
class InCheckpoints(TempCase):
    def test_each_object_is_asked_once(self):
        """A state_dict() may be a collective: all ranks must call it equally often, whatever has changed on one."""
        calls = collections.Counter()

        class Counted:
            def __init__(self, name):
                self.name, self.state = name, {"n": 1, "w": torch.zeros(2)}

            def state_dict(self):
                calls[self.name] += 1
                return self.state

        objects = {name: Counted(name) for name in "abc"}
        ck = Checkpoint(dir=self.path("ck"), replicated={"a": objects["a"]}, local={"b": objects["b"]}, global_={"c": objects["c"]},
                        run=make_run())
        for step in range(1, 12):
            calls.clear()
            if step % 3 == 0:
                objects["b"].state[f"new-{step}"] = 1
            if step == 5:
                ck.prepare()
            else:
                ck.save(step)
            self.assertEqual(set(calls.values()), {1}, (step, calls))

    def test_what_changes_is_saved_all_the_same(self):
        state = {"w": torch.zeros(3), "n": 0}
        ck = Checkpoint(dir=self.path("ck"), replicated={"m": state}, keep=99, run=make_run())
        ck.resume()
        ck.prepare()
        expected = {}
        for step in range(1, 15):
            state["n"] = step
            with torch.no_grad():
                state["w"] += 1
            if step % 3 == 0:
                state[f"new-{step}"] = torch.full((2,), float(step))
            ck.save(step)
            expected[step] = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in state.items()}
        for step, values in expected.items():
            again = {"w": torch.zeros(3), "n": 0, **{key: torch.zeros(2) for key in values if key.startswith("new")}}
            self.assertEqual(Checkpoint(dir=self.path("ck"), replicated={"m": again}, run=make_run()).resume(step=step), step)
            self.assertEqual(again.keys(), values.keys())
            self.assertTrue(all(torch.equal(again[key], value) if isinstance(value, torch.Tensor) else again[key] == value
                                for key, value in values.items()), (step, again, values))


if __name__ == "__main__":
    unittest.main()
