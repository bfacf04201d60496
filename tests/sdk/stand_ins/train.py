"""A training with each adapter: train.py FRAMEWORK STEPS. Prints the step it begins at and what it has learned."""

import collections
import sys
import types

import tide

# What an optimizer of JAX looks like
Moments = collections.namedtuple("Moments", "mean count")


class Model:
    """Learns one number, which depends on all batches in their order."""

    def __init__(self):
        self.value = 0

    def training_step(self, batch, batch_idx):
        self.value = (self.value * 31 + batch + 7) % (1 << 61)

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def lightning(run, model, steps):
    from lightning.pytorch import Trainer
    from tide_lightning import TideCallback, ckpt_path
    trainer = Trainer(max_steps=steps, callbacks=[TideCallback(run)], accumulate_grad_batches=2)
    trainer.fit(model, range(10 ** 9), ckpt_path=ckpt_path(run))


def transformers(run, model, steps):
    from transformers import Trainer, TrainingArguments
    from tide_transformers import TideCallback, newest
    args = TrainingArguments(run.checkpoint_dir, max_steps=steps, save_steps=0 if run.in_platform else 10)
    Trainer(model, args, callbacks=[TideCallback(run)]).train(resume_from_checkpoint=newest(run))


def accelerate(run, model, steps):
    import tide_accelerate
    from frameworks import Accelerator
    accelerator = Accelerator()
    accelerator.prepare(model)
    for step in range(tide_accelerate.resume(run, accelerator), steps):
        model.training_step(step, step)
        tide_accelerate.answer(run, accelerator, step + 1, total=steps)


def deepspeed(run, model, steps):
    import tide_deepspeed
    from frameworks import DeepSpeedEngine
    engine = DeepSpeedEngine(model)
    step, client = tide_deepspeed.resume(run, engine)
    assert client == ({"seen": step} if step else {}), client
    while engine.global_steps < steps:
        engine.step()
        tide_deepspeed.answer(run, engine, client={"seen": engine.global_steps})


def megatron(run, model, steps):
    import tide_megatron
    from frameworks import Megatron
    args = types.SimpleNamespace(save="elsewhere", load=None, finetune=False, async_save=True)
    megatron = Megatron(args)
    begun = tide_megatron.resume(run, args)
    iteration, _ = megatron.load_checkpoint(model, None, None)
    assert iteration == begun, (iteration, begun)
    while iteration < steps:
        model.training_step(iteration, iteration)
        iteration += 1
        tide_megatron.answer(run, args, iteration, lambda: megatron.save_checkpoint(iteration, model, None, None, 0))
    assert args.save == "elsewhere" and args.async_save


def torch_dcp(run, model, steps):
    import tide_torch_dcp
    from frameworks import dcp_load, dcp_save
    state = {"app": model}
    for step in range(tide_torch_dcp.resume(run, state, dcp_load), steps):
        model.training_step(step, step)
        tide_torch_dcp.answer(run, state, step + 1, dcp_save)


def torchdata(run, model, steps):
    from frameworks import StatefulDataLoader
    loader = StatefulDataLoader(range(17), batch_size=2, seed=3)
    ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"model": model}, local={"loader": loader})
    step = ck.resume()
    while step < steps:
        for batch in loader:
            model.training_step(sum(batch) * batch[0], step)
            step += 1
            if ck.tick(step):
                run.exit()
            if step == steps:
                break


def pytree(run, model, steps):
    import numpy
    from tide_pytree import Pytree
    tree = {"w": numpy.zeros(3, numpy.float32), "layers": [(numpy.ones(2), None)], "opt": Moments(numpy.zeros((2, 2)), 0),
            1: numpy.int64(0)}
    box = Pytree(tree)
    ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"state": box, "model": model})
    for step in range(ck.resume(), steps):
        now = box.tree
        box.tree = {"w": now["w"] * numpy.float32(1.5) + step, "layers": [(now["layers"][0][0] - step, None)],
                    "opt": Moments(now["opt"].mean + step, now["opt"].count + 1), 1: now[1] + 1}
        model.training_step(step, step)
        if ck.tick(step + 1):
            run.exit()
    assert box.tree["opt"].count == steps == box.tree[1] and box.tree["w"].dtype == numpy.float32, box.tree
    model.value = (model.value, [float(item) for item in (*box.tree["w"], *box.tree["layers"][0][0], box.tree["opt"].mean.sum())])


def main():
    run, model = tide.attach(), Model()
    resumed = run.resumed
    run.resumed = lambda step, allow_restart=False: (resumed(step, allow_restart), print("from", step, flush=True))
    globals()[sys.argv[1]](run, model, int(sys.argv[2]))
    print("learned", model.value, flush=True)
    run.done()


if __name__ == "__main__":
    main()
