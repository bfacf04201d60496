"""A script for the HAI Platform that leaves saving to hfai.checkpoint, with whatever state such scripts have.

    try_save.py OUT STEPS HOLD_AT PROCS

Step HOLD_AT, none if -1, waits for a line in the FIFO OUT/held: meanwhile the test asks for the nodes.
"""

import hashlib
import os
import sys

import hfai
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EPOCH_STEPS = 10


def main(local_rank, out, steps, hold_at, procs):
    torch.set_num_threads(1)
    torch.manual_seed(3)
    rank = int(os.environ["RANK"]) * procs + local_rank
    dist.init_process_group("gloo", world_size=int(os.environ["WORLD_SIZE"]) * procs, rank=rank)
    torch.manual_seed(rank)
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 1))
    for parameter in net.parameters():
        dist.broadcast(parameter.data, 0)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=steps + 1)
    epoch, start, best = hfai.checkpoint.init(model, optimizer, scheduler=scheduler,
                                              ckpt_path=os.path.join(out, "latest.pt"))
    if rank == 0:
        print(f"goes on at epoch {epoch} step {start} best {best}", flush=True)
    best = best or (0.0, None)
    for number in range(epoch * EPOCH_STEPS + start, steps):
        draw = torch.Generator().manual_seed(number * 100 + rank)
        x = torch.randn(8, 6, generator=draw)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        best = (best[0] + 1.0, loss.detach())
        if rank == 0 and number == hold_at:
            print(f"step {number}", flush=True)
            with open(os.path.join(out, "held"), encoding="ascii") as held:
                held.readline()
        model.try_save((number + 1) // EPOCH_STEPS, (number + 1) % EPOCH_STEPS, others=best)
    if rank == 0:
        total = hashlib.sha256(repr(best).encode())
        for name, tensor in sorted(net.state_dict().items()):
            total.update(name.encode() + tensor.numpy().tobytes())
        print(f"weights sha256 {total.hexdigest()}", flush=True)
    dist.barrier()


if __name__ == "__main__":
    folder, count, hold, workers = sys.argv[1], *map(int, sys.argv[2:])
    if workers:
        torch.multiprocessing.spawn(main, args=(folder, count, hold, workers), nprocs=workers)
    else:
        main(0, folder, count, hold, 1)
