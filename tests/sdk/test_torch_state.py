"""Every optimizer and every scheduler of the installed torch goes on after a resume as if nothing had happened."""

import inspect
import unittest
import warnings

from support import TempCase, make_run
from tide import Checkpoint

try:
    import torch
    from torch.optim import lr_scheduler
except ImportError:
    torch = None

STEPS, SAVED_AT = 12, 5


# {class: arguments beside the parameters}
OPTIMIZERS = {"Adadelta": {}, "Adagrad": {}, "Adam": {"amsgrad": True}, "AdamW": {}, "SparseAdam": {}, "Adamax": {}, "ASGD": {"t0": 3},
              "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True}, "RAdam": {}, "Rprop": {},
              "RMSprop": {"centered": True, "momentum": 0.5}, "NAdam": {}, "LBFGS": {"max_iter": 2}}


def schedulers():
    """{class: makes one for an optimizer}"""
    def chained(optimizer):
        return lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=4),
                                              lr_scheduler.MultiStepLR(optimizer, [2, 6, 6, 8], gamma=0.5)])

    def sequential(optimizer):
        return lr_scheduler.SequentialLR(optimizer, [lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=2),
                                                     lr_scheduler.MultiStepLR(optimizer, [1, 4], gamma=0.9),
                                                     lr_scheduler.ExponentialLR(optimizer, gamma=0.8)], milestones=[3, 8])

    return {
        "LambdaLR": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 0.9 ** step),
        "MultiplicativeLR": lambda optimizer: lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.9),
        "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 3),
        "MultiStepLR": lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [2, 6, 6, 9]),
        "ConstantLR": lambda optimizer: lr_scheduler.ConstantLR(optimizer, total_iters=7),
        "LinearLR": lambda optimizer: lr_scheduler.LinearLR(optimizer, total_iters=9),
        "ExponentialLR": lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.8),
        "SequentialLR": sequential,
        "PolynomialLR": lambda optimizer: lr_scheduler.PolynomialLR(optimizer, total_iters=9, power=2.0),
        "CosineAnnealingLR": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 8),
        "ChainedScheduler": chained,
        "ReduceLROnPlateau": lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, patience=1),
        "CyclicLR": lambda optimizer: lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=3),
        "CosineAnnealingWarmRestarts": lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4),
        "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=STEPS + 2),
    }


def types_of(value):
    """The value's type, and those of what it holds; of functions only that they are some."""
    if isinstance(value, dict):
        return type(value), {key: types_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [types_of(item) for item in value]
    return "code" if callable(value) and not isinstance(value, torch.Tensor) else type(value)


class Training:
    """Twelve steps of a small model, with the objects that a checkpoint holds."""

    def __init__(self, optimizer, make_scheduler=None):
        torch.manual_seed(5)
        self.embedding = torch.nn.Embedding(6, 3, sparse=optimizer == "SparseAdam")
        self.optimizer = getattr(torch.optim, optimizer)(list(self.embedding.parameters()), **OPTIMIZERS[optimizer])
        self.scheduler = make_scheduler(self.optimizer) if make_scheduler else None
        self.rates = []

    def objects(self):
        objects = {"model": self.embedding, "optimizer": self.optimizer}
        return {**objects, "scheduler": self.scheduler} if self.scheduler else objects

    def go(self, first, last):
        for step in range(first, last):
            chosen = torch.tensor([step % 6, (2 * step + 1) % 6])

            def closure():
                self.optimizer.zero_grad()
                loss = (self.embedding(chosen) - 1.0).pow(2).sum()
                loss.backward()
                return loss

            loss = self.optimizer.step(closure)
            if isinstance(self.scheduler, lr_scheduler.ReduceLROnPlateau):
                self.scheduler.step(float(loss) if step < 3 else 10.0)
            elif self.scheduler:
                self.scheduler.step()
            self.rates.append([group["lr"] for group in self.optimizer.param_groups])


@unittest.skipIf(torch is None, "no torch")
class TorchState(TempCase):
    def setUp(self):
        super().setUp()
        warnings.simplefilter("ignore")  # of torch's schedulers about themselves

    def check(self, name, optimizer, make_scheduler=None):
        whole = Training(optimizer, make_scheduler)
        whole.go(0, SAVED_AT)
        folder = self.path(name)
        Checkpoint(dir=folder, replicated=whole.objects(), run=make_run(0, 1, 1)).save(SAVED_AT)
        resumed = Training(optimizer, make_scheduler)
        self.assertEqual(Checkpoint(dir=folder, replicated=resumed.objects(), run=make_run(0, 1, 2)).resume(), SAVED_AT)
        for mine, other in zip(resumed.objects().values(), whole.objects().values()):
            self.assertEqual(types_of(mine.state_dict()), types_of(other.state_dict()))
        whole.rates.clear()
        whole.go(SAVED_AT, STEPS)
        resumed.go(SAVED_AT, STEPS)
        self.assertEqual(resumed.rates, whole.rates)
        self.assertTrue(torch.equal(resumed.embedding.weight, whole.embedding.weight))

    def test_optimizers(self):
        there = {name for name, kind in vars(torch.optim).items() if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)}
        self.assertEqual(there - {"Optimizer"}, set(OPTIMIZERS), "the table names all that torch has")
        for name in OPTIMIZERS:
            with self.subTest(optimizer=name):
                self.check(name, name)

    def test_schedulers(self):
        table = schedulers()
        base = getattr(lr_scheduler, "LRScheduler", None) or lr_scheduler._LRScheduler
        there = {name for name, kind in vars(lr_scheduler).items() if inspect.isclass(kind) and issubclass(kind, base)}
        self.assertEqual((there | {"ReduceLROnPlateau"}) - {"LRScheduler", "_LRScheduler"}, set(table), "the table names all that torch has")
        for name, make_scheduler in table.items():
            with self.subTest(scheduler=name):
                self.check(name, "SGD", make_scheduler)


if __name__ == "__main__":
    unittest.main()
