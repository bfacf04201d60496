"""A training-like loop without any library, for trying out suspension and restarts.

Each step changes an integer and a float state from the step's number and a random draw; a run that was suspended and
resumed any number of times prints the same digest as an uninterrupted one.

    python3 count.py --steps 1000 --step-ms 5 --save-every 100
"""

from __future__ import annotations

import argparse
import array
import hashlib
import random
import time

import tide


class State:
    """What "training" produces: an integer, a float, and a block of floats that gives a checkpoint its size."""

    def __init__(self, floats: int) -> None:
        self.total = 0
        self.average = 0.0
        self.block = array.array("d", bytes(8 * floats))

    def train(self, step: int) -> float:
        draw = random.random()
        self.total += step * step + int(draw * 1000)
        self.average += (draw - self.average) / step
        if self.block:
            self.block[step % len(self.block)] += draw
        return self.average

    def digest(self) -> str:
        text = f"{self.total} {self.average.hex()}".encode() + self.block.tobytes()
        return hashlib.sha256(text).hexdigest()[:16]

    def state_dict(self) -> dict:
        return {"total": self.total, "average": self.average, "block": self.block}

    def load_state_dict(self, state: dict) -> None:
        self.total, self.average, self.block = state["total"], state["average"], state["block"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts, saves, and can be suspended.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--step-ms", type=float, default=0.0, help="shortest duration of a step, milliseconds")
    parser.add_argument("--save-every", type=int, default=50)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--floats", type=int, default=1024, help="size of the state, in floats of 8 bytes")
    options = parser.parse_args()

    run = tide.attach()
    random.seed(1)
    state = State(options.floats)
    ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"state": state}, local={"rng": tide.rng()},
                         every=options.save_every)
    step = ck.resume()
    print(f"rank {run.rank} of {run.world_size} starts after step {step}", flush=True)
    while step < options.steps:
        started = time.monotonic()
        average = state.train(step + 1)
        step += 1
        if step % options.log_every == 0:
            print(f"rank {run.rank} step {step} average {average:.6f}", flush=True)
        time.sleep(max(0.0, options.step_ms / 1000 - (time.monotonic() - started)))
        if ck.tick(step, loss=average, total=options.steps):
            print(f"rank {run.rank} leaves at step {step}", flush=True)
            run.exit()
    ck.save(step, wait=True)
    print(f"rank {run.rank} step {step} digest {state.digest()}", flush=True)
    run.done()


if __name__ == "__main__":
    main()
