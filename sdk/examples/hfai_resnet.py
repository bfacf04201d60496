"""A training script as it was written for the HAI Platform: nothing in it knows of Tide.

    RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python3 hfai_resnet.py --out /tmp/out

One process is started for each GPU of a node; RANK and WORLD_SIZE count nodes. Only rank 0 asks whether to suspend:
the others are in the next step's all-reduce when it saves and goes. A small residual network on CPUs and on made-up
images, so that it runs anywhere.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time

import hfai
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

CLASSES = 4


class Block(nn.Module):
    """Two convolutions with batch norm, residual. x: [batch, width, height, height]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(y)))


def make_model() -> nn.Module:
    """Images [batch, 1, 8, 8] to scores [batch, CLASSES]."""
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), Block(8), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8, CLASSES))


def make_images(count: int) -> TensorDataset:
    """Each class is a pattern of its own under noise."""
    draw = torch.Generator().manual_seed(1)
    patterns = torch.randn(CLASSES, 1, 8, 8, generator=draw)
    labels = torch.randint(CLASSES, (count,), generator=draw)
    return TensorDataset(patterns[labels] + torch.randn(count, 1, 8, 8, generator=draw), labels)


def train(loader: DataLoader, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int, start_step: int,
          options: argparse.Namespace) -> None:
    """One epoch from `start_step`."""
    model.train()
    for step, (images, labels) in enumerate(loader):
        if step < start_step:
            continue
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(options.step_ms / 1000)
        if dist.get_rank() == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        # Only rank 0 is told.
        if dist.get_rank() == 0 and hfai.client.receive_suspend_command():
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                     "step": step + 1}
            torch.save(state, os.path.join(options.out, "latest.pt"))
            time.sleep(options.settle_s)
            hfai.client.go_suspend()


def main(local_rank: int, options: argparse.Namespace) -> None:
    """One training process."""
    torch.set_num_threads(1)
    torch.manual_seed(7)
    rank = int(os.environ["RANK"]) * options.procs + local_rank
    world = int(os.environ["WORLD_SIZE"]) * options.procs
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    dist.init_process_group("gloo", init_method=f"tcp://{address}:{port}", world_size=world, rank=rank)

    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = make_images(512)
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=16, sampler=sampler)

    start_epoch, start_step = 0, 0
    latest = os.path.join(options.out, "latest.pt")
    if os.path.exists(latest):
        state = torch.load(latest, map_location="cpu")
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start_epoch, start_step = state["epoch"], state["step"]
        if rank == 0:
            print(f"goes on at epoch {start_epoch} step {start_step}", flush=True)
    for epoch in range(start_epoch, options.epochs):
        sampler.set_epoch(epoch)
        train(loader, model, optimizer, epoch, start_step, options)
        start_step = 0
    if rank == 0:
        print(f"weights sha256 {digest(model.module)}", flush=True)
    dist.barrier()


def digest(module: nn.Module) -> str:
    """sha256 of all weights and averages in name order."""
    total = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        total.update(name.encode() + tensor.numpy().tobytes())
    return total.hexdigest()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains as scripts of the HAI Platform do.")
    parser.add_argument("--out", required=True, help="folder for latest.pt")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--procs", type=int, default=1, help="training processes a node")
    parser.add_argument("--step-ms", type=float, default=0.0)
    parser.add_argument("--settle-s", type=float, default=5.0, help="from the save to going")
    return parser.parse_args()


if __name__ == "__main__":
    chosen = parse_arguments()
    os.makedirs(chosen.out, exist_ok=True)
    torch.multiprocessing.spawn(main, args=(chosen,), nprocs=chosen.procs, join=True)
