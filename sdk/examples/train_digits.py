"""A small residual network that learns handwritten digits: scikit-learn's data set, PyTorch DDP, resumable bit for bit.

    RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python3 train_digits.py

The parts of an ordinary training program: a data set with a DataLoader, several epochs with a learning rate that
follows a plan, evaluation after each, and the accuracy of the end. On CPUs with one thread per rank the final weights
of a run that was suspended and resumed equal those of an uninterrupted one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sys

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, TensorDataset

import tide

WIDTHS = (16, 32)
TEST_EVERY = 5  # of five images one is kept for testing


class Block(nn.Module):
    """Two convolutions with batch norm and a way around them. [batch, inside, h, w] -> [batch, outside, …]."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.around = nn.Identity() if inside == outside and stride == 1 else nn.Conv2d(inside, outside, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.around(x) + self.norm2(self.conv2(y)))


def make_model() -> nn.Module:
    """Images [batch, 1, 8, 8] to scores [batch, 10]."""
    first, second = WIDTHS
    return nn.Sequential(nn.Conv2d(1, first, 3, padding=1), Block(first, first, 1), Block(first, second, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(second, 10))


def load_digits() -> "tuple[Dataset, Dataset]":
    """1,797 images of 8 x 8 points: those for training and those for testing."""
    try:
        from sklearn import datasets
    except ImportError:
        sys.exit("train_digits.py needs scikit-learn for its images: apt-get install python3-sklearn")
    bunch = datasets.load_digits()
    images = torch.tensor(bunch.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(bunch.target)
    test = torch.arange(len(labels)) % TEST_EVERY == 0
    return TensorDataset(images[~test], labels[~test]), TensorDataset(images[test], labels[test])


def own_generator() -> torch.Generator:
    """For a DataLoader: it draws a number at the start of each pass, and a suspended run has other passes than a whole
    one. Taken from the global random state, that number would change every draw of dropout after it."""
    return torch.Generator()


def evaluate(net: nn.Module, data: Dataset, run: tide.Run) -> float:
    """Accuracy on `data`, of which each rank looks at its share. To be called by all ranks."""
    device = tide.device()
    shown = right = 0
    # No step is counted meanwhile: evaluating() says that this is no hang.
    with run.evaluating(), torch.no_grad():
        net.eval()
        mine = torch.utils.data.Subset(data, range(run.rank, len(data), run.world_size))
        for images, labels in DataLoader(mine, batch_size=256, generator=own_generator()):
            right += (net(images.to(device)).argmax(1).cpu() == labels).sum().item()
            shown += len(labels)
        net.train()
        total = torch.tensor([right, shown], device=device)
        dist.all_reduce(total)
    return total[0].item() / total[1].item()


def settle_buckets(net: DDP, data: Dataset, seed: int, run: tide.Run) -> None:
    """Two backward passes whose result is dropped: DDP orders its buckets anew after the first pass of a process, and
    the order in which gradients are added decides the last bit. What the passes changed is set as it was."""
    before = {name: tensor.clone() for name, tensor in net.module.state_dict().items()}
    images, labels = data[:2]
    for _ in range(2):
        nn.functional.cross_entropy(net(images.to(tide.device())), labels.to(tide.device())).backward()
    net.zero_grad(set_to_none=True)
    net.module.load_state_dict(before)
    seed_everything(seed * 1000 + run.rank)


def seed_everything(seed: int) -> None:
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def digest(module: nn.Module) -> str:
    """sha256 of all weights and averages in name order."""
    total = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        total.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a classifier of handwritten digits.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64, help="images per step over all ranks")
    parser.add_argument("--rate", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--save-every", type=int, default=50)
    return parser.parse_args()


def train(options: argparse.Namespace, run: tide.Run) -> None:
    device = tide.device()
    training, testing = load_digits()
    net = DDP(make_model().to(device), broadcast_buffers=False)  # share_averages() does it, after the step
    settle_buckets(net, training, options.seed, run)
    sampler = tide.Sampler(len(training), global_batch=options.batch, seed=options.seed)
    loader = DataLoader(training, batch_sampler=sampler, generator=own_generator())
    total = options.epochs * len(sampler)
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.rate)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    ck = tide.Checkpoint(dir=run.checkpoint_dir,
                         replicated={"model": net.module, "opt": optimizer, "plan": plan},
                         local={"rng": tide.rng()}, global_={"sampler": sampler}, every=options.save_every)
    step = ck.resume()
    if run.rank == 0:
        print(f"training on {run.world_size} ranks, {device}, from step {step} of {total}", flush=True)
    while step < total:
        for images, labels in loader:
            loss = nn.functional.cross_entropy(net(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            plan.step()
            share_averages(net.module)
            step += 1
            if ck.tick(step, loss=loss, total=total):
                if run.rank == 0:
                    print(f"leaving at step {step}", flush=True)
                run.exit()
        accuracy = evaluate(net.module, testing, run)
        run.progress(step, total, accuracy=accuracy)
        if run.rank == 0:
            print(f"epoch {step // len(sampler)} loss {loss.item():.4f} accuracy {accuracy:.4f}", flush=True)
    ck.save(step, wait=True)
    accuracy = evaluate(net.module, testing, run)
    if run.rank == 0:
        print(f"step {step} accuracy {accuracy:.4f} weights sha256 {digest(net.module)}", flush=True)


def share_averages(module: nn.Module) -> None:
    """Gives all ranks the averages that batch norm keeps on rank 0, so that the whole state is the same everywhere."""
    averages = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    flat = torch.cat([buffer.flatten() for buffer in averages])
    dist.broadcast(flat, 0)
    for buffer, part in zip(averages, flat.split([buffer.numel() for buffer in averages])):
        buffer.copy_(part.view_as(buffer))


def main() -> None:
    options = parse_arguments()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    run = tide.attach()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(not torch.cuda.is_available())
    seed_everything(options.seed)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", rank=run.rank, world_size=run.world_size)
    train(options, run)
    dist.barrier()  # all ranks leave together: one that closed its connections first would make the others complain
    dist.destroy_process_group()
    run.done()


if __name__ == "__main__":
    main()
