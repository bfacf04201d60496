"""A small character-level language model, trained with PyTorch DDP over gloo and resumable bit for bit.

    RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python3 train_charlm.py --steps 300

On CPUs with one thread per rank the final weights of a run that was suspended and resumed equal those of an
uninterrupted run: the batch of a step is a function of (seed, step, rank, world), dropout draws from a random state
that is saved, and gloo adds in a fixed order.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import tide

CONTEXT = 32
WIDTH = 64
HEADS = 4
LAYERS = 1


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, both residual. x: [batch, CONTEXT, WIDTH]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.drop = nn.Dropout(0.1)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch = x.shape[0]
        q, k, v = (part.view(batch, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        weights = (q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5 + self.mask).softmax(3)
        x = x + self.drop(self.out((weights @ v).transpose(1, 2).reshape(batch, CONTEXT, WIDTH)))
        return x + self.drop(self.mlp(self.norm2(x)))


class CharModel(nn.Module):
    """tokens [batch, CONTEXT] -> logits [batch, CONTEXT, vocabulary]."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(CONTEXT, device=tokens.device)
        return self.head(self.blocks(self.token(tokens) + self.place(places)))


def load_text(path: str) -> "tuple[torch.Tensor, int]":
    """(character numbers, size of the vocabulary)."""
    with open(path, encoding="utf-8", errors="replace") as source:
        text = source.read()
    alphabet = {char: number for number, char in enumerate(sorted(set(text)))}
    return torch.tensor([alphabet[char] for char in text]), len(alphabet)


def batch_of(data: torch.Tensor, seed: int, step: int, run: tide.Run, size: int) -> "tuple[torch.Tensor, torch.Tensor]":
    """This rank's inputs and targets of one step, each [size, CONTEXT]."""
    key = hashlib.sha256(f"{seed}/{step}/{run.rank}/{run.world_size}".encode()).digest()
    draw = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
    starts = torch.randint(len(data) - CONTEXT - 1, (size,), generator=draw)
    window = torch.stack([data[start:start + CONTEXT + 1] for start in starts])
    return window[:, :-1], window[:, 1:]


def loss_of(net: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(net(inputs).flatten(0, 1), targets.flatten())


def settle_buckets(net: DDP, data: torch.Tensor, options: argparse.Namespace, run: tide.Run) -> None:
    """Two backward passes whose result is dropped.

    DDP reorders its gradient buckets after the first pass of a process, and the order in which gloo adds depends on
    an element's place in its bucket. Without this the first step after a restart would differ in the last bit.
    """
    inputs, targets = batch_of(data, options.seed, 0, run, 1)
    device = tide.device()
    for _ in range(2):
        loss_of(net, inputs.to(device), targets.to(device)).backward()
    net.zero_grad(set_to_none=True)
    seed_everything(options.seed * 1000 + run.rank)


def seed_everything(seed: int) -> None:
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def digest(module: nn.Module) -> str:
    """sha256 of all weights in name order."""
    total = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        total.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a character model on a text.")
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=16, help="sequences per step over all ranks")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--step-ms", type=float, default=0.0, help="shortest duration of a step, milliseconds")
    return parser.parse_args()


def train(options: argparse.Namespace, run: tide.Run) -> None:
    device = tide.device()
    data, vocabulary = load_text(options.text)
    net = DDP(CharModel(vocabulary).to(device), broadcast_buffers=False)  # the only buffers are constants
    settle_buckets(net, data, options, run)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=True)
    ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"model": net.module, "opt": optimizer},
                         local={"rng": tide.rng()}, every=options.save_every)
    step = ck.resume()
    if run.rank == 0:
        print(f"training on {run.world_size} ranks, {device}, from step {step}", flush=True)
    loss = torch.tensor(float("nan"))
    while step < options.steps:
        started = time.monotonic()
        inputs, targets = batch_of(data, options.seed, step, run, max(1, options.batch // run.world_size))
        loss = loss_of(net, inputs.to(device), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if run.rank == 0 and step % options.log_every == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        time.sleep(max(0.0, options.step_ms / 1000 - (time.monotonic() - started)))
        if ck.tick(step, loss=loss, total=options.steps):
            if run.rank == 0:
                print(f"leaving at step {step}", flush=True)
            run.exit()
    ck.save(step, wait=True)
    if run.rank == 0:
        print(f"step {step} loss {loss.item():.6f} weights sha256 {digest(net.module)}", flush=True)


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
    # All ranks leave together: one that closed its connections first would make the others complain.
    dist.barrier()
    dist.destroy_process_group()
    run.done()


if __name__ == "__main__":
    main()
