"""Suspended and resumed again and again at random moments, with other world sizes too: as if nothing had happened.

TIDE_SDK_SUSPENSIONS: how many (3).   TIDE_SEED: repeats the draw of moments and world sizes; it is printed.
"""

import collections
import contextlib
import io
import os
import random
import re
import sys
import time
import unittest

from support import DEADLINE_S, EXAMPLES, TempCase, coordinate, free_port, long_training, make_page, run_ranks, start_python, wait_until
from tide import Sampler, _page, load
from tide.checkpoint.__main__ import main as command

try:
    import torch
except ImportError:
    torch = None

SUSPENSIONS = int(os.environ.get("TIDE_SDK_SUSPENSIONS", "3"))
SEED = int(os.environ.get("TIDE_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
STEPS_A_LIFE = 30

# All ranks finish a step before any begins the next, as with a collective: they look at each other's steps in a file.
# Its "model" adds up the samples of each global batch in their order, as an all-gather would give them. What this
# rank was given of each step is a line of its log.
SAMPLED = """
import array, mmap, os, sys, time, tide
STEPS, SIZE, BATCH, SEED = 0, 0, 0, 0
run = tide.attach()
mine = tide.Sampler(SIZE, global_batch=BATCH, seed=SEED)
whole = tide.Sampler(SIZE, global_batch=BATCH, seed=SEED, rank=0, world_size=1)
model = {"weights": array.array("d", [0.0] * 64), "mean": 0.0, "sum": 0}
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"model": model}, global_={"mine": mine, "whole": whole}, every=7)
step = ck.resume()
with open(os.path.join(sys.argv[1], f"steps-{run.attempt:04d}"), "r+b") as file:
    steps = memoryview(mmap.mmap(file.fileno(), 8 * run.world_size)).cast("q")
steps[run.rank] = step
log = open(os.path.join(sys.argv[1], f"{run.attempt:04d}-{run.rank}"), "w", buffering=1)
while step < STEPS:
    for share, batch in zip(mine, whole):
        while min(steps) < step:
            time.sleep(0.0005)  # tidy: poll
        for sample in batch:
            model["weights"][sample % 64] += 1 / (1 + sample)
            model["mean"] += (sample - model["mean"]) * 0.01
            model["sum"] = (model["sum"] * 31 + sample) % (1 << 89)
        time.sleep(0.002)  # the length of a step, not a wait; tidy: poll
        step += 1
        steps[run.rank] = step
        print(step, *share, file=log)
        if ck.tick(step, total=STEPS):
            run.exit()
        if step >= STEPS:
            break
ck.save(step)
run.done()
"""


class Suspended(TempCase):
    def setUp(self):
        super().setUp()
        self.draw = random.Random(SEED)
        self.attempt = 0

    def live(self, arguments, world, env, steps=None):
        """One start of a job: ranks under pages, suspended about `steps` steps after the first tick, or run to the end.

        Returns (the step it was suspended at or None, outputs of the ranks).
        """
        self.attempt += 1
        names = [self.path(f"page-{self.attempt}-{rank}") for rank in range(world)]
        pages = [make_page(name) for name in names]
        self.lockstep("log", self.attempt, world)
        ranks = [start_python(arguments, {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
                                          "TIDE_PAGE": names[rank], "TIDE_ATTEMPT": str(self.attempt), **env})
                 for rank in range(world)]
        try:
            step = None
            if steps is not None:
                self.wait_for(ranks, lambda: all(page.step > 0 for page in pages), "the first ticks", 120)
                first = pages[0].step
                self.wait_for(ranks, lambda: pages[0].step >= first + steps, f"{steps} steps")
                time.sleep(self.draw.random() * 0.01)  # tidy: poll (the moment is the input)
                step = coordinate(pages, _page.ORDER_SUSPEND)
            results = [rank.communicate(timeout=120) for rank in ranks]
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
                    rank.communicate()
        self.assertEqual([rank.returncode for rank in ranks], [0 if step is None else 85] * world, results)
        # Steps are short, a disk may be slower: a rank skips a save, rank 0 does not commit it, and the others are told so.
        slow = "step [0-9]+ skipped|could not write|rank 0 could not commit"
        self.assertEqual([(rank, line) for rank, (_, err) in enumerate(results) for line in err.splitlines() if not re.search(slow, line)], [])
        if step is not None:
            self.assertEqual([(page.saved_step, page.phase) for page in pages], [(step, _page.PHASE_SAVED)] * world)
        return step, [out for out, _ in results]

    def wait_for(self, ranks, condition, what, deadline_s=DEADLINE_S):
        """Waits while no rank has ended: the others would wait for it, too."""
        def ended():
            return [rank for rank in ranks if rank.poll() is not None]
        wait_until(lambda: condition() or ended(), what, deadline_s)
        self.assertEqual([(rank.returncode, rank.communicate()) for rank in ended()], [], f"before {what}")

    def lockstep(self, folder, attempt, world):
        """The file by which the ranks of SAMPLED keep pace."""
        os.makedirs(self.path(folder), exist_ok=True)
        with open(self.path(folder, f"steps-{attempt:04d}"), "wb") as out:
            out.write(bytes(8 * world))

    def equal(self, one, other):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(command(["diff", self.path(one), self.path(other)]), 0, said.getvalue())

    def tell(self, what, steps, began):
        print(f"seed {SEED}: {what}, suspended at steps {steps}, {time.monotonic() - began:.0f} s", file=sys.stderr)

    @long_training
    @unittest.skipIf(torch is None, "needs torch")
    def test_training_at_one_world_size(self):
        """DDP over gloo: the weights, the optimizer and the random states, bit for bit."""
        began, steps = time.monotonic(), STEPS_A_LIFE * (SUSPENSIONS + 1)
        arguments = [os.path.join(EXAMPLES, "train_charlm.py"), "--steps", str(steps), "--save-every", "11", "--log-every", "1000"]

        def env(folder):
            return {"GLOO_SOCKET_IFNAME": "lo", "MASTER_PORT": str(free_port()), "TIDE_CHECKPOINT_DIR": self.path(folder)}

        stops = [self.live(arguments, 2, env("parts"), self.draw.randrange(STEPS_A_LIFE // 3))[0] for _ in range(SUSPENSIONS)]
        _, (last, _) = self.live(arguments, 2, env("parts"))
        self.assertIn(f"from step {stops[-1]}\n", last)
        whole = run_ranks(arguments, 2, env("whole"))
        self.assertEqual([code for code, _, _ in whole], [0, 0], whole)
        self.assertEqual(self.weights(last), self.weights(whole[0][1]))
        self.equal("whole", "parts")
        self.tell("charlm on 2 ranks", stops, began)

    def weights(self, text):
        return re.search(r"sha256 (\w+)\s*$", text).group(1)

    def test_samples_at_any_world_size(self):
        """4 ranks, 2, 4 …: each step has the samples it has on one rank, in their order, and the model is the same."""
        began, steps = time.monotonic(), STEPS_A_LIFE * (SUSPENSIONS + 1)
        size, batch = 211, 23  # neither the ranks nor the epoch divide them: an epoch is 9 steps
        worlds = [(4, 2)[life % 2] for life in range(SUSPENSIONS + 1)]
        if SUSPENSIONS > 4:  # and some others among them
            worlds[4::5] = [self.draw.choice((1, 3, 7)) for _ in worlds[4::5]]
        program = SAMPLED.replace("STEPS, SIZE, BATCH, SEED = 0, 0, 0, 0", f"STEPS, SIZE, BATCH, SEED = {steps}, {size}, {batch}, 5")
        arguments = ["-c", program, self.path("log")]
        stops = [self.live(arguments, world, {"TIDE_CHECKPOINT_DIR": self.path("parts")}, self.draw.randrange(STEPS_A_LIFE // 3))[0]
                 for world in worlds[:-1]]
        self.live(arguments, worlds[-1], {"TIDE_CHECKPOINT_DIR": self.path("parts")})
        batches = self.whole(size, batch, steps)
        self.assertEqual(self.trained(stops, worlds), batches)
        for world in (1, 2, 4):
            with self.subTest(world):
                self.lockstep(f"log-{world}", 1, world)
                whole = run_ranks(["-c", program, self.path(f"log-{world}")], world,
                                  {"TIDE_CHECKPOINT_DIR": self.path(f"whole-{world}"), "TIDE_ATTEMPT": "1"})
                self.assertEqual([code for code, _, _ in whole], [0] * world, whole)
                self.assertEqual(self.state(f"whole-{world}"), self.state("parts"))
        self.tell(f"samples on {', '.join(map(str, worlds))} ranks", stops, began)

    def whole(self, size, batch, steps):
        """The global batches of an uninterrupted run on one rank."""
        sampler, found = Sampler(size, batch, seed=5, rank=0, world_size=1), []
        while len(found) < steps:
            found += list(sampler)
            sampler.consumed = len(found) * batch
        return found[:steps]

    def state(self, folder):
        """What is equal on all ranks, and so at all world sizes, to the bit."""
        found = load(self.path(folder))
        model = found["replicated"]["model"]
        return model["weights"].tobytes(), model["mean"].hex(), model["sum"], found["global"]

    def trained(self, stops, worlds):
        """The global batches put together from what the ranks were given; each step exactly once on each of them."""
        found = collections.defaultdict(list)
        begins = [0, *stops]
        for life, world in enumerate(worlds):
            for rank in range(world):
                with open(self.path("log", f"{life + 1:04d}-{rank}"), encoding="ascii") as log:
                    lines = [[int(word) for word in line.split()] for line in log]
                last = stops[life] if life < len(stops) else lines[-1][0]
                self.assertEqual([line[0] for line in lines], list(range(begins[life] + 1, last + 1)), f"life {life}, rank {rank}")
                for line in lines:
                    found[line[0]] += line[1:]
        return [found[step] for step in sorted(found)]


if __name__ == "__main__":
    unittest.main()
