"""One rank of gloo's all-reduce. Arguments: rank, ranks in all, address of rank 0, bytes.

For each line on stdin, a number of iterations, it prints a line of JSON: the seconds of each iteration but the first.
"""

from __future__ import annotations

import json
import sys
import time

import torch
import torch.distributed


def main() -> None:
    rank, world, address, nbytes = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="tcp://" + address, rank=rank, world_size=world)
    print("ready", flush=True)
    for line in sys.stdin:
        vector = torch.empty(nbytes // 4)
        times = []
        for _ in range(1 + int(line)):
            vector.fill_(rank + 1)
            torch.distributed.barrier()
            begin = time.perf_counter()
            torch.distributed.all_reduce(vector)
            times.append(time.perf_counter() - begin)
        assert bool((vector == world * (world + 1) // 2).all()), "gloo has the sum"
        del vector  # memory is for whose turn it is
        print(json.dumps(times[1:]), flush=True)


if __name__ == "__main__":
    main()
