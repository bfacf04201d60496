"""Restoring what fits, and asking what became of a save that nobody waited for."""

import array
import os
import threading
import unittest

from support import TempCase, captured_stderr, lead, make_run, needs_native, run_ranks
from tide import Checkpoint, CheckpointError
from tide.checkpoint import store

try:
    import torch
except ImportError:
    torch = None

_HOOKS = """
import sys, tide
run = tide.attach()
run.at_exit(lambda: print("first", flush=True))
run.at_exit(lambda: print("last", flush=True))
run.at_exit(lambda: 1 / 0)
run.at_exit(lambda: sys.exit(3))
if sys.argv[1] == "exit":
    run.exit(7)
run.done()
"""


@unittest.skipIf(torch is None, "no torch")
class WhatFits(TempCase):
    def save(self, **objects):
        Checkpoint(dir=self.path("ck"), replicated=objects, run=make_run()).save(4)

    def resume(self, **objects):
        """What was said of what was left out."""
        ck = Checkpoint(dir=self.path("ck"), replicated=objects, run=make_run(attempt=2))
        with self.assertRaises(CheckpointError):
            ck.resume()
        with captured_stderr() as err:
            self.assertEqual(ck.resume(strict=False), 4)
        self.assertEqual(err.getvalue().count("\n"), 1)
        return err.getvalue().split("not restored: ")[1].strip()

    def test_a_module_with_another_head(self):
        torch.manual_seed(1)
        old = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        self.save(model=old)
        new = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 5), torch.nn.Linear(5, 1))
        before = [parameter.clone() for parameter in new.parameters()]
        said = self.resume(model=new)
        for part in ("model.2.weight: is not in the checkpoint", "model.1.weight: the checkpoint holds F32[2, 3], the program has F32[5, 3]"):
            self.assertIn(part, said)
        self.assertEqual(said.count(";") >= 3, True)
        self.assertTrue(torch.equal(new[0].weight, old[0].weight) and torch.equal(new[0].bias, old[0].bias))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(list(new.parameters())[2:], before[2:])))

    def test_an_optimizer_of_another_head_begins_anew(self):
        def train(net, opt):
            opt.zero_grad()
            net(torch.ones(2, 4)).sum().backward()
            opt.step()

        old = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        old_opt = torch.optim.Adam(old.parameters())
        train(old, old_opt)
        self.save(model=old, opt=old_opt)
        for outputs in (5, 1):
            new = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, outputs))
            opt = torch.optim.Adam(new.parameters())
            said = self.resume(model=new, opt=opt)
            self.assertIn("opt: state.2.exp_avg has the shape [2, 3], its parameter [%d, 3]; the optimizer begins anew" % outputs, said)
            train(new, opt)

    def test_versions_of_modules_are_kept(self):
        class Versioned(torch.nn.Linear):
            _version = 2
            seen = None

            def _load_from_state_dict(self, state, prefix, local_metadata, *rest):
                Versioned.seen = local_metadata.get("version")
                super()._load_from_state_dict(state, prefix, local_metadata, *rest)

        self.save(model=Versioned(2, 2), other={"n": 1})
        ck = Checkpoint(dir=self.path("ck"), replicated={"model": Versioned(2, 2), "new": {}}, run=make_run(attempt=2))
        with captured_stderr():
            ck.resume(strict=False)
        self.assertEqual(Versioned.seen, 2)

    def test_objects_that_are_new_or_refuse(self):
        net = torch.nn.Linear(2, 2)
        opt = torch.optim.Adam(net.parameters())
        self.save(model=net, opt=opt, counts={"n": 3})
        other = torch.nn.Linear(2, 2)
        two_groups = torch.optim.Adam([{"params": [other.weight]}, {"params": [other.bias]}])
        state, fresh = {"n": 0}, {"mean": 1.0}
        said = self.resume(model=other, opt=two_groups, counts=state, stats=fresh)
        self.assertIn("opt: loaded state dict has a different number of parameter groups", said)
        self.assertIn("stats: is not in the checkpoint", said)
        self.assertEqual((state, fresh), ({"n": 3}, {"mean": 1.0}))
        self.assertTrue(torch.equal(net.weight, other.weight))


class Fates(TempCase):
    def make(self, **options):
        self.block = array.array("d", [1.0]) * 1000
        return Checkpoint(dir=self.path("ck"), replicated={"m": {"w": self.block}}, run=options.pop("run", make_run()), **options)

    def test_committed(self):
        ck = self.make()
        saving = ck.save(3, wait=False)
        self.assertTrue(saving.committed(30))
        self.assertEqual(saving, os.path.basename(store.scan(self.path("ck"))[-1].path))
        self.assertTrue(ck.save(4).committed())

    def test_two_at_once_and_one_that_is_gone(self):
        """Of a rank that does not commit: it learns of each by itself, with the native core and without."""
        ranks = [Checkpoint(dir=self.path("ck"), replicated={"m": {"n": 1}}, keep=1, run=make_run(rank, 2), timeout_s=20)
                 for rank in range(2)]
        self.assertEqual([ck.resume() for ck in ranks], [0, 0])
        savings = []
        for step in (1, 2):  # as many as there are slots
            savings.append(ranks[1].save(step, wait=False))
            other = threading.Thread(target=ranks[0].save, args=(step,))
            other.start()
            other.join()
        ranks[0].flush()
        self.assertEqual([item.step for item in store.scan(self.path("ck"))], [2])
        self.assertEqual([saving.committed(30) for saving in savings], [True] * 2)

    @needs_native
    def test_one_that_waits_for_another_rank(self):
        lead(self.path("ck"), 2)
        ck = self.make(timeout_s=0.05, run=make_run(1, 2))
        ck.resume()
        saving = ck.save(3, wait=False)
        self.assertFalse(saving.committed())
        with captured_stderr(), self.assertRaisesRegex(CheckpointError, "not committed in time"):
            saving.committed(30)
        with self.assertRaisesRegex(CheckpointError, "not committed in time"):
            saving.committed()


class Hooks(TempCase):
    def test_they_are_called_the_last_one_first(self):
        for how, code in (("exit", 7), ("done", 0)):
            [(ended, out, err)] = run_ranks(["-c", _HOOKS, how], 1, {"TIDE_CHECKPOINT_DIR": self.path("ck")})
            self.assertEqual((ended, out), (code, "last\nfirst\n"))
            self.assertIn("what was to be done at exit failed: ZeroDivisionError", err)


if __name__ == "__main__":
    unittest.main()
