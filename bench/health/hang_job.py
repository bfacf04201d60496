"""One rank of the jobs of detect_hang.py: short steps, an all-reduce in each.

    hang_job.py OUT JOB (train | clean) SEED

It begins once somebody has written to OUT/go-JOB-RANK: its network is there then. At each step it takes the lock of
OUT/lock-JOB-RANK before the all-reduce. "clean" makes the pauses that a training makes.
"""

import fcntl
import json
import os
import random
import sys
import time

out, number, way, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
rank = int(os.environ["RANK"])
name = f"{number}-{rank}"


def wait_for_network() -> None:
    """Tells which process this is, and waits until it has its network."""
    os.mkfifo(os.path.join(out, f"go-{name}"), 0o666)
    os.chmod(os.path.join(out, f"go-{name}"), 0o666)
    path = os.path.join(out, f"rank-{name}")
    with open(path + ".tmp", "w", encoding="ascii") as target:
        json.dump({"pid": os.getpid(), "node": os.environ["TIDE_NODE"], "world": int(os.environ["WORLD_SIZE"])}, target)
    os.rename(path + ".tmp", path)
    with open(os.path.join(out, f"go-{name}"), encoding="ascii") as source:
        os.environ["MASTER_ADDR"] = source.read().strip()


def open_lock() -> int:
    return os.open(os.path.join(out, f"lock-{name}"), os.O_RDWR | os.O_CREAT, 0o666)


def take_lock(lock: int) -> None:
    """Blocks while somebody else holds it: a data loader's lock, a file server's."""
    fcntl.flock(lock, fcntl.LOCK_SH)
    fcntl.flock(lock, fcntl.LOCK_UN)


wait_for_network()
os.environ["GLOO_SOCKET_IFNAME"] = "eth0"

import tide  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402


class Model:
    """Takes as long to hand out its state as it is told to."""

    def __init__(self) -> None:
        self.pause_s = 0.0

    def state_dict(self):
        time.sleep(self.pause_s)
        return {"w": torch.ones(16)}

    def load_state_dict(self, state) -> None:
        pass


def pause(what: str, pauses: random.Random, model: Model, save) -> None:
    """One of the pauses that are no hang. All ranks make it at the same step."""
    seconds = pauses.uniform(17, 24)
    if what == "evaluate":
        with run.evaluating():
            time.sleep(seconds)
    elif what == "evaluate-one":  # the others wait for it
        if run.rank == 0:
            with run.evaluating():
                time.sleep(seconds)
    elif what == "save":
        model.pause_s = seconds
        save()
        model.pause_s = 0.0
    else:
        time.sleep(pauses.uniform(9, 13))  # a slow step


torch.set_num_threads(1)
run = tide.attach()
dist.init_process_group("gloo")
model = Model()
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"model": model}, keep=1)
step = ck.resume()
mine = open_lock()
gradient = torch.ones(16384)
shared = random.Random(seed * 1000 + number)  # each rank draws the same
while True:
    time.sleep(shared.uniform(0.005, 0.05))  # the work, which a machine with few CPUs could not do for all ranks at once
    take_lock(mine)
    dist.all_reduce(gradient)
    gradient /= run.world_size
    step += 1
    if ck.tick(step):
        run.exit()
    if way == "clean" and step % 100 == 0:
        pause(shared.choice(("evaluate", "evaluate-one", "save", "slow")), shared, model, lambda: ck.save(step))
