"""Tide's SDK for training programs: suspension at an agreed step, and checkpoints without pickle.

    run = tide.attach()
    ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"model": net, "opt": opt}, local={"rng": tide.rng()})
    step = ck.resume()
    while step < total:
        ...train...; step += 1
        if ck.tick(step, loss=loss):   # True = saved and acknowledged, or told to stop: leave
            run.exit()
    ck.save(step, wait=True); run.done()

Standard library only; with the native core, where it is installed, training waits while this rank's share is copied, not
written. Tensors that no rank holds whole are given under sharded=, as Shards. Outside the platform no order ever comes and
checkpoints are plain local ones; TIDE_REHEARSE_SUSPEND=100 rehearses a suspension at step 100.
"""

from ._errors import CheckpointError, DamagedError, TideError
from ._rng import device, rng
from ._request import Request
from ._run import EXIT_SUSPENDED, Notice, Run, attach
from ._sampler import Sampler
from .checkpoint import Checkpoint, RawTensor, Shard, ShardedOptimizer, load

__all__ = ["Checkpoint", "CheckpointError", "DamagedError", "EXIT_SUSPENDED", "Notice", "RawTensor", "Request", "Run", "Sampler",
           "Shard", "ShardedOptimizer", "TideError", "attach", "device", "load", "rng"]
