"""One rank of the job that suspend.py suspends: what it saw goes to OUT/NAME-ATTEMPT-RANK.

    suspend_job.py OUT BYTES STEP_MS
"""

import json
import os
import sys
import time

import tide
import torch
import torch.distributed as dist

out, nbytes, step_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1000
torch.set_num_threads(1)
run = tide.attach()
dist.init_process_group("gloo")
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"model": {"w": torch.ones(nbytes // 4)}}, keep=1)
gradient = torch.ones(1)
step = ck.resume()


def put(name: str, **record: int) -> None:
    path = os.path.join(out, f"{name}-{run.attempt}-{run.rank}")
    with open(path + ".tmp", "w", encoding="ascii") as target:
        json.dump(record, target)
    os.rename(path + ".tmp", path)


leaving = False
ready = False
while not leaving:
    time.sleep(step_s)  # the work, which a machine with few CPUs could not do for all ranks at once
    dist.all_reduce(gradient)
    step += 1
    at = time.time_ns()
    leaving = ck.tick(step)
    # Ready is what a training is after its first minute: memory for saves is there.
    if not ready and ck._ticks >= 2 and not ck._background._saver.slots._preparing.is_alive():
        ready = True
        put("ready", step=step)
put("left", step=step, parked_ns=at, saved_ns=time.time_ns())
run.exit()
