"""Saving and restoring: round trips, other world sizes, damage, errors, clean-up."""

import array
import collections
import contextlib
import errno
import json
import os
import shutil
import struct
import subprocess
import sys
import threading
import unittest
import zlib
from unittest import mock

from support import TempCase, captured_stderr, checkpoints_in, make_run, name_of, pure_python, told
from tide import Checkpoint, CheckpointError, Sampler, TideError, load
from tide.checkpoint import format as fmt
from tide.checkpoint import RawTensor, store, writer
from tide.checkpoint.__main__ import main as command

try:
    import numpy
    import torch
except ImportError:
    numpy = torch = None


class Plain:
    """A stateful object of the standard library."""

    def __init__(self, value=None):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def save_with(world, folder, step, objects, attempt=1, **options):
    """Saves with `world` ranks, one thread each. objects(rank) -> keyword arguments of Checkpoint."""
    failures = []
    ranks = [Checkpoint(dir=folder, run=make_run(rank, world, attempt), timeout_s=20, **objects(rank), **options)
             for rank in range(world)]
    os.makedirs(folder, exist_ok=True)
    ranks[0]._agreed_start()  # no rank may take the note that another call has left

    def rank_main(rank):
        try:
            ranks[rank].save(step)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def parse_safetensors(path):
    """{name: (dtype, shape, bytes)} by the published format alone."""
    with open(path, "rb") as source:
        data = source.read()
    (length,) = struct.unpack("<Q", data[:8])
    text = data[8:8 + length]
    assert text[:1] == b"{" and (8 + length) % 4096 == 0
    header = json.loads(text)
    header.pop("__metadata__")
    body, position, found = data[8 + length:], 0, {}
    for name, item in header.items():
        begin, end = item["data_offsets"]
        assert begin == position, "holes are not allowed"
        position = end
        found[name] = (item["dtype"], item["shape"], body[begin:end])
    assert position == len(body)
    return found


class RoundTrip(TempCase):
    def test_plain_objects(self):
        block = array.array("d", [1.5, -0.0, float("inf")])
        save_with(1, self.dir, 7, lambda rank: {"replicated": {"a": Plain({"x": (1, b"2"), "block": block})},
                                                "global_": {"g": {"n": 2 ** 80}}, "local": {"l": [1, 2]}})
        a, g, block_list = Plain(), {"old": 1}, [0]
        ck = Checkpoint(dir=self.dir, replicated={"a": a}, global_={"g": g}, local={"l": block_list}, run=make_run())
        self.assertEqual(ck.resume(), 7)
        self.assertEqual((a.value, g, block_list), ({"x": (1, b"2"), "block": block}, {"n": 2 ** 80}, [1, 2]))

    @unittest.skipIf(torch is None, "needs torch")
    def test_torch_and_numpy(self):
        def objects(seed):
            torch.manual_seed(seed)
            net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3))
            opt = torch.optim.AdamW(net.parameters())
            net(torch.randn(4, 5)).sum().backward()
            opt.step()
            extra = {"bf16": torch.randn(3, 7).bfloat16(), "bool": torch.tensor([True, False]), "scalar": torch.tensor(3.5),
                     "empty": torch.zeros(0, 4), "turned": torch.randn(4, 6).t(), "i64": torch.arange(seed, seed + 5),
                     "np": numpy.random.RandomState(seed).randn(3, 2), "f16": numpy.float16([seed, 2]),
                     "npscalar": numpy.float32(seed)}
            return net, opt, extra

        net, opt, extra = objects(1)
        for world in (1, 3):
            save_with(world, self.dir, world, lambda rank: {"replicated": {"net": net, "opt": opt, "extra": extra}})
            net2, opt2, extra2 = objects(2)
            held = extra2["bf16"]
            ck = Checkpoint(dir=self.dir, replicated={"net": net2, "opt": opt2, "extra": extra2}, run=make_run())
            self.assertEqual(ck.resume(), world)
            for name, tensor in net.state_dict().items():
                self.assertTrue(torch.equal(tensor, net2.state_dict()[name]), name)
            for number, state in opt.state_dict()["state"].items():
                for name, tensor in state.items():
                    self.assertTrue(torch.equal(tensor, opt2.state_dict()["state"][number][name]))
            for name in extra:
                same = torch.equal if torch.is_tensor(extra[name]) else numpy.array_equal
                self.assertTrue(same(extra[name], extra2[name]), name)
                self.assertEqual(extra[name].dtype, extra2[name].dtype)
            self.assertIs(held, extra2["bf16"], "tensors in dicts are filled in place")

    def test_other_world_sizes(self):
        block = array.array("f", [i / 3 for i in range(1001)])
        for step, world in enumerate((1, 2, 4, 7), 1):
            save_with(world, self.dir, step, lambda rank: {
                "replicated": {"m": Plain({"w": block, "b": array.array("q", [1, 2, 3]), "e": array.array("d")})},
                "local": {"r": Plain(rank)}})
            for reader in (0, 5):
                m, r = Plain(), Plain("fresh")
                with captured_stderr():
                    ck = Checkpoint(dir=self.dir, replicated={"m": m}, local={"r": r}, run=make_run(reader, 6))
                    self.assertEqual(ck.resume(), step)
                self.assertEqual(m.value, {"w": block, "b": array.array("q", [1, 2, 3]), "e": array.array("d")})
                self.assertEqual(r.value, reader if reader < world else "fresh")

    def test_files_by_the_published_format(self):
        block = array.array("f", range(3000))
        save_with(2, self.dir, 5, lambda rank: {"replicated": {"m": {"w": block, "b": array.array("B", b"xyz")}}})
        path = os.path.join(self.dir, "s000000000005-0001-d998b860")
        self.assertEqual(sorted(os.listdir(path)), ["MANIFEST.json", "RANKS.bin", "d00000.safetensors", "d00001.safetensors"])
        pieces = [parse_safetensors(os.path.join(path, f"d{rank:05d}.safetensors")) for rank in range(2)]
        joined = b"".join(piece["replicated/m.w"][2] for piece in pieces)
        self.assertEqual(joined, block.tobytes())
        sizes = [sum(len(item[2]) for item in piece.values()) for piece in pieces]
        self.assertLess(abs(sizes[0] - sizes[1]), 8)
        with open(os.path.join(path, "MANIFEST.json"), "rb") as source:
            text = source.read()
        manifest, cut = json.loads(text), text.rindex(b',"crc32"')
        self.assertEqual(int(manifest["crc32"], 16), zlib.crc32(text[:cut]))
        for item in manifest["tensors"]["replicated/m.w"]["parts"]:
            with open(os.path.join(path, item["file"]), "rb") as source:
                source.seek(item["offset"])
                first, last = item["range"]
                self.assertEqual(source.read(item["length"]), block[first:last].tobytes())
        for name, record in manifest["files"].items():
            with open(os.path.join(path, name), "rb") as source:
                data = source.read()
            self.assertEqual((record["bytes"], record["crc32"]), (len(data), [f"{zlib.crc32(data):08x}"]))

    def test_load_without_objects(self):
        save_with(2, self.dir, 5, lambda rank: {"replicated": {"m": {"w": array.array("h", [1, 2])}}, "local": {"r": [rank]}})
        self.assertEqual(load(self.dir), {"replicated": {"m": {"w": array.array("h", [1, 2])}}, "global": {}, "sharded": {},
                                          "ranks": [{"r": [0]}, {"r": [1]}]})

    @pure_python
    def test_chunks(self):
        with mock.patch.object(fmt, "CHUNK_BYTES", 4096):
            save_with(1, self.dir, 1, lambda rank: {"replicated": {"m": {"w": array.array("B", bytes(range(256)) * 99)}}})
        self.assertEqual(load(self.dir)["replicated"]["m"]["w"], array.array("B", bytes(range(256)) * 99))
        path = self.path("s000000000001-0001-d998b860", "d00000.safetensors")
        with open(path, "r+b") as out:
            out.seek(2 * 4096 + 1)
            out.write(b"?")
        with self.assertRaisesRegex(CheckpointError, r"chunk 2 \(bytes 8192 to 12288\)"):
            load(self.dir)


@unittest.skipIf(torch is None, "no torch")
class Buffers(TempCase):
    """As DistributedDataParallel leaves them: each rank has running statistics of its own, and goes on with rank 0's."""

    def test_buffers_are_those_of_rank_0(self):
        def model(rank):
            torch.manual_seed(1)
            net = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.BatchNorm1d(5), torch.nn.BatchNorm1d(5, affine=False))
            with torch.no_grad():
                for number, (_, buffer) in enumerate(sorted(net.named_buffers())):
                    buffer.fill_(100 * rank + number)
            return net

        save_with(3, self.dir, 1, lambda rank: {"replicated": {"net": model(rank)}})
        for reader in range(2):
            net = model(7)
            Checkpoint(dir=self.dir, replicated={"net": net}, run=make_run(reader, 2, 6)).resume()
            for name, value in model(0).state_dict().items():
                self.assertTrue(torch.equal(net.state_dict()[name], value), name)


class Damage(TempCase):
    def setUp(self):
        super().setUp()
        for step in (1, 2, 3):
            save_with(1, self.dir, step, lambda rank: {"replicated": {"m": Plain(array.array("d", [step] * 5000))}})

    def resume(self, **options):
        m = Plain()
        ck = Checkpoint(dir=self.dir, replicated={"m": m}, run=make_run(attempt=2), **options)
        with captured_stderr() as err:
            step = ck.resume()
        return ck, m, step, err.getvalue()

    def change(self, name, change):
        path = self.path("s000000000003-0001-d998b860", name)
        with open(path, "rb") as source:
            data = bytearray(source.read())
        with open(path, "wb") as out:
            out.write(change(data))

    def test_flipped_bit_is_named_and_the_previous_used(self):
        for position in (9, 4096, 30000):
            with self.subTest(position):
                def flip(data):
                    data[position] ^= 4
                    return data

                self.change("d00000.safetensors", flip)
                _, m, step, err = self.resume()
                self.assertEqual((step, m.value[0]), (2, 2.0))
                self.assertIn("s000000000003-0001-d998b860", err)
                self.assertIn("d00000.safetensors chunk 0", err)
                self.change("d00000.safetensors", flip)
        self.assertEqual(self.resume()[2:], (3, ""))

    def test_torn_files(self):
        for name in ("d00000.safetensors", "MANIFEST.json"):
            self.change(name, lambda data: data[:-7])
            _, _, step, err = self.resume()
            self.assertEqual((step, err.count("\n")), (2, 1))
        os.unlink(self.path("s000000000003-0001-d998b860", "MANIFEST.json"))
        self.assertEqual(self.resume()[2:], (2, ""), "an uncommitted folder is not worth a word")

    def test_nothing_whole_needs_a_word(self):
        for step in (1, 2, 3):
            os.truncate(self.path(name_of(step), "d00000.safetensors"), 100)
        with self.assertRaisesRegex(CheckpointError, "no checkpoint in .* is whole, 3 damaged.*allow_restart=True"), captured_stderr():
            Checkpoint(dir=self.dir, replicated={"m": Plain()}, run=make_run(attempt=2)).resume()
        with captured_stderr():
            self.assertEqual(Checkpoint(dir=self.dir, replicated={"m": Plain()}, run=make_run(attempt=2)).resume(allow_restart=True), 0)

    def test_what_the_job_has_saved_must_be_there(self):
        def run():
            return make_run(attempt=2, TIDE_CHECKPOINT_STEP="3", TIDE_CHECKPOINT_DIR=self.dir)

        def start(**how):
            return Checkpoint(dir=self.dir, replicated={"m": Plain()}, run=run()).resume(**how)

        self.assertEqual(start(), 3)
        self.change("d00000.safetensors", lambda data: data[:-1])
        with captured_stderr() as err:
            self.assertEqual(start(), 2)  # told, and what the one before is kept for
        self.assertIn("is damaged", err.getvalue())
        shutil.rmtree(self.path("s000000000003-0001-d998b860"))
        with self.assertRaisesRegex(CheckpointError, "has saved step 3, but step 2 is the newest in .*mounted"):
            start()
        self.assertEqual(start(allow_restart=True), 2)
        for name in checkpoints_in(self.dir):
            shutil.rmtree(self.path(name))
        with self.assertRaisesRegex(CheckpointError, "has saved step 3, but there is none in .*mounted"):
            start()
        self.assertEqual(start(allow_restart=True), 0)

    def test_an_older_damaged_one_does_not_excuse_that_the_newest_is_gone(self):
        self.change("d00000.safetensors", lambda data: data[:-1])
        run = make_run(attempt=2, TIDE_CHECKPOINT_STEP="9", TIDE_CHECKPOINT_DIR=self.dir)
        with self.assertRaisesRegex(CheckpointError, "has saved step 9, but step 2 is the newest in"), captured_stderr():
            Checkpoint(dir=self.dir, replicated={"m": Plain()}, run=run).resume()

    def test_a_second_checkpoint_elsewhere_is_not_on_record(self):
        run = make_run(attempt=2, TIDE_CHECKPOINT_STEP="3", TIDE_CHECKPOINT_DIR=self.dir)
        main = Checkpoint(dir=self.dir, replicated={"m": Plain()}, run=run)
        best = Checkpoint(dir=self.path("best"), replicated={"m": Plain(1)}, run=run)
        self.assertEqual((main.resume(), best.resume()), (3, 0))
        best.save(9)
        self.assertEqual(run.page.saved_step, 3)
        again = Checkpoint(dir=self.path("best"), replicated={"m": Plain()}, run=run)
        self.assertEqual((again.resume(), run.page.saved_step), (9, 3))

    def test_damaged_is_not_overwritten_and_goes_when_passed(self):
        self.change("d00000.safetensors", lambda data: data[:-1])
        ck, _, _, _ = self.resume(keep=1)
        ck.save(3)
        ck.flush()
        names = checkpoints_in(self.dir)
        self.assertEqual(names, ["s000000000003-0001-d998b860", "s000000000003-0002-dbde0639"])
        ck.save(4)
        ck.flush()
        self.assertEqual(checkpoints_in(self.dir), ["s000000000004-0002-dbde0639"])

    @pure_python
    def test_what_is_committed_is_not_written_again(self):
        """As where a saver ended after the commit, and the rank begins anew."""
        path = self.path("s000000000003-0001-d998b860")
        before = {name: os.stat(os.path.join(path, name)).st_ino for name in os.listdir(path)}
        identity = writer.Identity(path, "j", 3, 1, "d998b860", 0, 1)
        self.assertGreater(writer.commit(identity, 0.0), 0)
        self.assertEqual({name: os.stat(os.path.join(path, name)).st_ino for name in os.listdir(path)}, before)

    def test_newer_format_is_not_skipped(self):
        path = self.path("s000000000003-0001-d998b860", "MANIFEST.json")
        with open(path, "rb") as source:
            record = json.loads(source.read())
        record.pop("crc32")
        with open(path, "wb") as out:
            out.write(fmt.seal({**record, "format": "tide-checkpoint/3"}))
        with self.assertRaisesRegex(CheckpointError, "update tide"):
            self.resume()

    def test_command_line(self):
        with mock.patch("builtins.print") as printed:
            self.assertEqual(command(["ls", self.dir]), 0)
            self.assertEqual(printed.call_count, 3)
            self.assertEqual(command(["verify", self.dir]), 0)
            old, new = self.path("s000000000002-0001-d998b860"), self.path("s000000000003-0001-d998b860")
            self.assertEqual(command(["diff", new, self.dir]), 0)
            self.assertEqual(command(["diff", old, new]), 1)
            self.assertEqual(command(["diff", old, new, "--only", "m."]), 1)
            self.assertEqual(command(["diff", old, new, "--only", "nothing"]), 2)
            self.assertEqual(command(["diff", old, self.path("absent")]), 2)
            self.change("d00000.safetensors", lambda data: data[:-1])
            self.assertEqual(command(["verify", self.dir]), 1)
            with self.assertRaises(SystemExit) as usage, captured_stderr():
                command(["diff", old])
        self.assertEqual(usage.exception.code, 2)


@unittest.skipIf(torch is None, "needs torch")
class Export(TempCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3))
        self.opt = torch.optim.AdamW(self.net.parameters())
        self.net(torch.randn(4, 5)).sum().backward()
        self.opt.step()
        self.save("ck")
        self.out = self.path("out.pt")

    def save(self, folder, **more):
        objects = {"model": self.net, "opt": self.opt, **more}
        save_with(2, self.path(folder), 7, lambda rank: {"replicated": objects, "global_": {"data": {"n": 5}},
                                                         "local": {"own": [rank]}})

    def export(self, *arguments, folder="ck"):
        with captured_stderr() as said, mock.patch("builtins.print") as printed:
            code = command(["export", "--to", "torch", self.path(folder), self.out, *arguments])
        return code, said.getvalue() + "".join(str(call.args[0]) for call in printed.call_args_list if call.args)

    def test_torch_reads_it_without_tide(self):
        self.assertEqual(self.export()[0], 0)
        look = ("import sys, torch; all_ = torch.load(sys.argv[1]); assert 'tide' not in sys.modules\n"
                "net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3))\n"
                "net.load_state_dict(all_['model']); opt = torch.optim.AdamW(net.parameters())\n"
                "opt.load_state_dict(all_['opt']); assert all_['data'] == {'n': 5}\n"
                "print(all_['tide'], net.state_dict()['0.weight'].tolist(), opt.state_dict()['state'][0]['exp_avg'].tolist())")
        seen = subprocess.run([sys.executable, "-c", look, self.out], env={"PATH": "/usr/bin:/bin"}, cwd="/",
                              capture_output=True, text=True, check=False)
        self.assertEqual(seen.returncode, 0, seen.stderr)
        about = {"step": 7, "attempt": 1, "world": 2, "ranks": [{"own": [0]}, {"own": [1]}]}
        weight = self.net.state_dict()["0.weight"].tolist()
        moment = self.opt.state_dict()["state"][0]["exp_avg"].tolist()
        self.assertEqual(seen.stdout, f"{about} {weight} {moment}\n")

    def test_one_object_is_what_load_state_dict_takes(self):
        self.assertEqual(self.export("--object", "model")[0], 0)
        state = torch.load(self.out)
        self.assertEqual(list(state), list(self.net.state_dict()))
        self.assertTrue(torch.equal(state["0.weight"], self.net.state_dict()["0.weight"]))
        code, said = self.export("--object", "modle", "--force")
        self.assertEqual(code, 2)
        self.assertIn("holds data, model, opt", said)

    def test_a_file_that_is_there_stays(self):
        with open(self.out, "wb") as file:
            file.write(b"precious")
        code, said = self.export()
        self.assertEqual(code, 2)
        self.assertIn("--force", said)
        with mock.patch("torch.save", side_effect=OSError(28, "No space left on device")):
            self.assertEqual(self.export("--force")[0], 2)
        with open(self.out, "rb") as file:
            self.assertEqual(file.read(), b"precious")
        self.assertEqual(checkpoints_in(self.dir), ["ck", "out.pt"])
        self.assertEqual(self.export("--force")[0], 0)
        self.assertIn("model", torch.load(self.out))

    def test_what_cannot_be_exported_is_said(self):
        self.assertEqual(self.export(folder="absent")[0], 2)
        self.save("twice", data=Plain(1))
        code, said = self.export(folder="twice")
        self.assertEqual(code, 2)
        self.assertIn("used twice", said)
        self.save("raw", odd=Plain({"x": [RawTensor("F8_E4M3", (1,), b"x")]}))
        code, said = self.export(folder="raw")
        self.assertEqual(code, 2)
        self.assertIn("odd.value.x.0", said)
        data = self.path("ck", "s000000000007-0001-d998b860", "d00000.safetensors")
        with open(data, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\xff")
        self.assertEqual(self.export()[0], 1)
        self.assertFalse(os.path.exists(self.out))


class Crash(BaseException):
    """Ends a save on the spot; no cleanup handler catches it."""


@pure_python
class CrashPoints(TempCase):
    CALLS = ("fsync", "rename", "replace", "unlink", "makedirs")

    def traced(self, crash_at, action):
        """Runs `action`, ends it before its crash_at-th call to the system. Returns (call, path) of each one made."""
        calls = []

        def wrap(name, real):
            def call(*arguments, **options):
                if len(calls) == crash_at:
                    raise Crash
                target = arguments[-1] if name in ("rename", "replace") else arguments[0]
                calls.append((name, os.readlink(f"/proc/self/fd/{target}") if name == "fsync" else target))
                return real(*arguments, **options)

            return call

        with contextlib.ExitStack() as stack:
            for name in self.CALLS:
                stack.enter_context(mock.patch.object(os, name, wrap(name, getattr(os, name))))
            try:
                action()
            except Crash:
                pass
        return calls

    def test_every_point_of_a_save(self):
        crash_at, steps = 0, []
        while True:
            folder = self.path(str(crash_at))
            objects = {"replicated": {"m": Plain(array.array("d", [crash_at] * 600))}, "keep": 1}
            Checkpoint(dir=folder, run=make_run(), **objects).save(1)
            second = Checkpoint(dir=folder, run=make_run(), **objects)
            calls = self.traced(crash_at, lambda: second.save(2))
            with captured_stderr() as err:
                after = Checkpoint(dir=folder, run=make_run(attempt=2), **objects)
                steps.append(after.resume())
            self.assertEqual(err.getvalue(), "")
            self.assertEqual(after.save(9), "s000000000009-0002-dbde0639")
            self.assertEqual(checkpoints_in(folder), ["s000000000009-0002-dbde0639"])
            if len(calls) < crash_at:
                break
            crash_at += 1
        self.assertEqual(steps, sorted(steps), "one call is the commit")
        self.assertEqual((steps[0], steps[-1]), (1, 2))
        self.assertGreater(len(steps), 10)

    def test_everything_is_durable_before_the_commit(self):
        ck = Checkpoint(dir=self.path("ck"), replicated={"m": [array.array("d", [1])]}, run=make_run())
        calls = self.traced(-1, lambda: ck.save(1))
        folder = self.path("ck", "s000000000001-0001-d998b860")
        commit = calls.index(("replace", os.path.join(folder, "MANIFEST.json")))
        data = calls.index(("rename", os.path.join(folder, "d00000.safetensors")))
        self.assertIn("d00000.tmp", calls[data - 1][1])
        self.assertEqual(calls[data - 1][0], "fsync")
        part = calls.index(("replace", os.path.join(folder, "part-00000")))
        self.assertIn(("fsync", folder), calls[data:part], "whoever sees the part may commit")
        sections = calls.index(("replace", os.path.join(folder, "RANKS.bin")))
        self.assertIn("RANKS.bin.tmp", calls[sections - 1][1])
        self.assertEqual((calls[sections - 1][0], calls[sections + 1]), ("fsync", ("fsync", folder)))
        self.assertLess(sections, commit)
        self.assertEqual((calls[commit - 1][0], calls[commit + 1]), ("fsync", ("fsync", folder)))
        self.assertIn("MANIFEST.json.tmp", calls[commit - 1][1])
        self.assertIn(("fsync", self.path("ck")), calls[commit:])


class Errors(TempCase):
    def test_objects_that_do_not_fit(self):
        save_with(1, self.dir, 1, lambda rank: {"replicated": {"m": {"w": array.array("d", [1, 2])}}})
        cases = [({"m": {"w": array.array("d", [1])}}, r"m\.w: the checkpoint holds F64\[2\], the program has F64\[1\]"),
                 ({"m": {"w": array.array("f", [1, 2])}}, r"m\.w"), ({"n": {}}, "no object 'n'"), ({"m": [1]}, "'m' is a list")]
        for objects, expected in cases:
            with self.assertRaisesRegex(CheckpointError, expected) as caught:
                Checkpoint(dir=self.dir, replicated=objects, run=make_run()).resume()
            self.assertNotIn("\n", str(caught.exception))

    @unittest.skipIf(torch is None, "needs torch")
    def test_modules_that_do_not_fit(self):
        save_with(1, self.dir, 1, lambda rank: {"replicated": {"m": torch.nn.Linear(2, 2, bias=False)}})
        for module, expected in ((torch.nn.Linear(3, 2, bias=False), r"m\.weight: the checkpoint holds F32\[2, 2\]"),
                                 (torch.nn.Linear(2, 2), r"m\.bias is missing")):
            with self.assertRaisesRegex(CheckpointError, expected):
                Checkpoint(dir=self.dir, replicated={"m": module}, run=make_run()).resume()

    @pure_python
    def test_full_disk_leaves_training_and_checkpoints_alone(self):
        ck = Checkpoint(dir=self.dir, replicated={"m": Plain(array.array("d", bytes(80000)))}, every=1, run=make_run())
        ck.tick(1)
        for number in (errno.ENOSPC, errno.EROFS, errno.EDQUOT):
            with mock.patch.object(fmt._ChunkedWriter, "write", side_effect=OSError(number, os.strerror(number))):
                with captured_stderr() as err:
                    self.assertFalse(ck.tick(number + 100))
            self.assertIn(os.strerror(number), err.getvalue())
            self.assertEqual(err.getvalue().count("\n"), 1)
        self.assertEqual(ck.failed_saves, 3)
        self.assertEqual(Checkpoint(dir=self.dir, replicated={"m": Plain()}, run=make_run()).resume(), 1)
        ck.tick(1000)
        self.assertEqual(ck.failed_saves, 3)
        self.assertEqual(len(checkpoints_in(self.dir)), 2, "folders of failed saves go after the next commit")

    def test_dir_under_a_file(self):
        with open(self.path("file"), "w"):
            pass
        with self.assertRaisesRegex(CheckpointError, "give another dir="):
            Checkpoint(dir=self.path("file", "ck"), run=make_run(attempt=1)).resume()

    def test_absent_rank_is_named(self):
        # Long enough for this rank's own part on a disk that others keep busy.
        ck = Checkpoint(dir=self.dir, replicated={"m": [1]}, run=make_run(0, 3), timeout_s=3)
        with self.assertRaisesRegex(CheckpointError, "ranks 1, 2 of 3 did not write in time"):
            ck.save(4)
        with self.assertRaisesRegex(CheckpointError, "rank 0"):
            Checkpoint(dir=self.dir, replicated={"m": [1]}, run=make_run(1, 3), timeout_s=3).save(4)

    def test_ranks_that_differ(self):
        with self.assertRaisesRegex(CheckpointError, "ranks 0 and 1 have different|could not commit"):
            save_with(2, self.dir, 1, lambda rank: {"replicated": {"m": [rank]}})
        self.assertEqual(Checkpoint(dir=self.dir, run=make_run()).resume(), 0)

    def test_foreign_files_stay(self):
        for name in ("notes.txt", "s1-1", "s000000000001-zzzz"):
            os.mkdir(self.path(name))
        ck = Checkpoint(dir=self.dir, replicated={"m": [1]}, keep=1, run=make_run())
        self.assertEqual(ck.resume(), 0)
        ck.save(1)
        ck.save(2)
        ck.flush()
        self.assertEqual(len(checkpoints_in(self.dir)), 4)


class Life(TempCase):
    def test_keep_and_leftovers(self):
        os.mkdir(self.path("s000000000009-0001-d998b860"))  # an older attempt that died while saving
        ck = Checkpoint(dir=self.dir, replicated={"m": [1]}, keep=2, run=make_run(attempt=2))
        ck.resume()
        self.assertTrue(os.path.exists(self.path("s000000000009-0001-d998b860")))
        for step in (1, 2, 3, 4):
            ck.save(step)
        ck.flush()
        self.assertEqual(checkpoints_in(self.dir), ["s000000000003-0002-dbde0639", "s000000000004-0002-dbde0639"])

    def test_a_step_is_saved_again_as_it_is_now(self):
        """What a tick saved is not what save() is asked for later: it would drop what changed since."""
        value = Plain(1)
        ck = Checkpoint(dir=self.dir, replicated={"m": value}, every=1, keep=9, run=make_run())
        ck.tick(3)
        ck.flush()
        for value.value in (2, 3):
            ck.save(3)
        ck.flush()
        self.assertEqual(checkpoints_in(self.dir), [name_of(3, generation=3)])
        read = Plain()
        resumed = Checkpoint(dir=self.dir, replicated={"m": read}, run=make_run(attempt=2))
        self.assertEqual((resumed.resume(), read.value), (3, 3))
        read.value = 4
        self.assertEqual(resumed.save(3), name_of(3, 2))
        self.assertEqual((Checkpoint(dir=self.dir, replicated={"m": read}, run=make_run(attempt=3)).resume(), read.value), (3, 4))

    def test_restart_of_an_attempt_replaces_what_it_left(self):
        stale = Checkpoint(dir=self.dir, replicated={"m": ["stale"]}, run=make_run(0, 2), timeout_s=0.01)
        with self.assertRaises(CheckpointError):
            stale.save(5)
        stale.flush()
        save_with(2, self.dir, 5, lambda rank: {"replicated": {"m": ["new"]}})
        target = ["?"]
        self.assertEqual(Checkpoint(dir=self.dir, replicated={"m": target}, run=make_run()).resume(), 5)
        self.assertEqual(target, ["new"])

    @pure_python
    def test_a_second_try_is_not_stopped_by_the_first_ones_marks(self):
        ranks = [Checkpoint(dir=self.dir, replicated={"m": [1]}, run=make_run(rank, 2), timeout_s=10) for rank in range(2)]
        with mock.patch.object(fmt, "write_data_file", side_effect=OSError(errno.ENOSPC, "full")):
            for ck in ranks:
                self.assertRaises(CheckpointError, ck.save, 5)
        second = threading.Thread(target=ranks[1].save, args=(5,))
        second.start()
        self.assertEqual(ranks[0].save(5), "s000000000005-0001-d998b860-2")
        second.join()

    def test_a_program_goes_back(self):
        for step in (10, 20, 30):
            save_with(1, self.dir, step, lambda rank: {"replicated": {"m": Plain(step)}}, keep=9)
        value = Plain()

        def start(attempt, **env):
            return Checkpoint(dir=self.dir, replicated={"m": value}, keep=9,
                              run=make_run(attempt=attempt, TIDE_CHECKPOINT_DIR=self.dir, **env))

        back = start(2, TIDE_CHECKPOINT_STEP="30")
        self.assertEqual((back.resume(step=10), value.value), (10, 10))
        value.value = 11
        back.save(11)
        self.assertEqual((start(3, TIDE_CHECKPOINT_STEP="11").resume(), value.value), (11, 11), "what was saved after it is newer")
        self.assertEqual((start(4, TIDE_CHECKPOINT_STEP="11", TIDE_RESUME_STEP="20").resume(), value.value), (20, 20))
        self.assertEqual(start(5, TIDE_CHECKPOINT_STEP="30", TIDE_RESUME_STEP="0").resume(), 0)
        below = {"TIDE_CHECKPOINT_STEP": "30", "TIDE_RESUME_BEFORE": "20"}
        self.assertEqual((start(7, **below).resume(), value.value), (11, 11), "the newest below it")
        self.assertEqual(start(8, **below).resume(step=20), 20, "its own word goes before")
        below["TIDE_RESUME_BEFORE"] = "10"
        with self.assertRaisesRegex(CheckpointError, "no whole checkpoint below step 10 in .*; there are steps 10, 11, 20, 30"):
            start(9, **below).resume()
        with self.assertRaisesRegex(CheckpointError, "no whole checkpoint of step 15 in .*; there are steps 10, 11, 20, 30"):
            start(6).resume(step=15)

    def test_pinned_checkpoints_stay(self):
        ck = Checkpoint(dir=self.dir, replicated={"m": [1]}, keep=1, run=make_run())
        ck.save(1)
        self.assertEqual(told(["pin", self.path(name_of(1))])[0], 0)
        for step in (2, 3):
            ck.save(step)
        ck.flush()
        self.assertEqual(checkpoints_in(self.dir), [name_of(1), name_of(3)])
        self.assertIn("committed  pinned", told(["ls", self.dir])[1])
        self.assertEqual(told(["rm", self.path(name_of(1))])[0], 2)
        self.assertEqual(told(["unpin", self.path(name_of(1))])[0], 0)
        self.assertEqual(told(["rm", self.path(name_of(3))])[0], 2, "the newest one")
        self.assertEqual(told(["rm", self.path("nothing")])[0], 2)
        self.assertEqual(told(["rm", self.path(name_of(1)), self.path("nothing")])[0], 2)
        self.assertEqual(checkpoints_in(self.dir), [name_of(1), name_of(3)])
        self.assertEqual(told(["rm", self.path(name_of(1))])[0], 0)
        self.assertEqual(checkpoints_in(self.dir), [name_of(3)])

    def test_attempt_outside_the_platform(self):
        for expected in ("0001", "0002"):
            ck = Checkpoint(dir=self.dir, replicated={"m": [1]}, run=make_run(attempt=None))
            self.assertEqual(ck.save(int(expected)).split("-")[1], expected)

    def test_garbage_collection_never_takes_the_newest(self):
        for step in (1, 2):
            save_with(1, self.dir, step, lambda rank: {"replicated": {"m": [1]}}, attempt=3)
        newest = store.scan(self.dir)[0]
        store.collect_garbage(self.dir, newest, 1, set())
        self.assertEqual([item.step for item in store.scan(self.dir)], [1, 2])


class Ticks(TempCase):
    def test_ticks_that_are_not_safe_order_nothing_twice(self):
        value = Plain(1)
        ck = Checkpoint(dir=self.dir, global_={"v": value}, every=10, run=make_run())
        ck.resume()
        for step, safe in [(9, True), (10, True), (10, False), (11, True), (19, True), (20, False), (20, False), (21, True), (22, True)]:
            ck.tick(step, safe=safe)
            self.assertTrue(ck.flush())
        self.assertEqual([item.step for item in store.scan(self.dir) if item.has_manifest], [10, 21])

    def test_what_cannot_be_stored_is_found_before_training(self):
        for value in (object(), {"deep": [Plain]}):
            with self.subTest(value=value), self.assertRaisesRegex(CheckpointError, "opt.value.* cannot be stored"):
                Checkpoint(dir=self.dir, replicated={"opt": Plain(value)}, run=make_run()).resume()

    @unittest.skipIf(torch is None, "no torch")
    def test_what_comes_with_the_first_step_is_not_asked_before(self):
        class Late(Plain):
            def state_dict(self):
                raise RuntimeError("not consolidated")

        for item in (torch.nn.LazyLinear(3), torch.nn.Linear(2, 2, device="meta"), Late()):
            with self.subTest(item=type(item)):
                self.assertEqual(Checkpoint(dir=self.dir, replicated={"m": item}, run=make_run()).resume(), 0)

    def test_a_dict_that_is_filled_in_place_stays_what_it_is(self):
        class Table(dict):
            pass

        def objects(number):
            counts, table = collections.defaultdict(lambda: 7), Table()
            counts["a"] = table["a"] = number
            return {"counts": counts, "table": table}

        Checkpoint(dir=self.dir, global_=objects(1), run=make_run()).save(1)
        found = objects(2)
        self.assertEqual(Checkpoint(dir=self.dir, global_=found, run=make_run(attempt=2)).resume(), 1)
        self.assertEqual((found["counts"]["a"], found["counts"]["new"], type(found["table"]), found["table"]["a"]), (1, 7, Table, 1))

    def test_a_state_that_comes_to_be_unstorable_is_told_by_the_second_tick(self):
        value = Plain(1)
        ck = Checkpoint(dir=self.dir, replicated={"opt": value}, every=100, run=make_run())
        ck.resume()
        value.value = object()  # as an optimizer's state, which comes with the first step
        with captured_stderr() as err:
            ck.tick(1)
            ck.tick(2)
        self.assertIn("a save now would fail: opt.value: a builtins.object", err.getvalue())

    def test_what_a_state_dict_raises_does_not_leave_a_tick(self):
        class Broken(Plain):
            def state_dict(self):
                if self.value:
                    raise KeyError("lost")
                return {"value": 0}

        value = Broken(0)
        ck = Checkpoint(dir=self.dir, replicated={"opt": value}, every=1, run=make_run())
        ck.resume()
        value.value = 1
        with captured_stderr() as err:
            self.assertFalse(ck.tick(1))
        self.assertEqual(ck.failed_saves, 1)
        self.assertIn("object 'opt': state_dict() failed", err.getvalue())


class Samplers(TempCase):
    def test_any_world_size_gives_the_same_batches(self):
        whole = list(Sampler(103, 8, seed=5, rank=0, world_size=1))
        self.assertEqual(len(whole), 12)
        self.assertEqual(len({i for batch in whole for i in batch}), 96)
        shares = [list(Sampler(103, 8, seed=5, rank=rank, world_size=3)) for rank in range(3)]
        self.assertEqual([sum((shares[rank][b] for rank in range(3)), []) for b in range(12)], whole)

    def test_goes_on_where_it_was(self):
        sampler = Sampler(20, 4, seed=1, rank=0, world_size=1)
        ck = Checkpoint(dir=self.dir, global_={"sampler": sampler}, every=7, run=make_run())
        step, seen = ck.resume(), []
        while step < 12:
            for batch in sampler:
                seen.append(batch)
                step += 1
                ck.tick(step)
        self.assertTrue(ck.flush())
        other = Sampler(20, 4, seed=1, rank=0, world_size=1)
        self.assertEqual(Checkpoint(dir=self.dir, global_={"sampler": other}, run=make_run(attempt=2)).resume(), 14)
        with self.assertRaisesRegex(CheckpointError, "seed=1"):
            Checkpoint(dir=self.dir, global_={"sampler": Sampler(20, 4, 2, 0, 1)}, run=make_run()).resume()
        other.consumed = 7 * 4
        self.assertEqual(next(iter(other)), seen[7])
        self.assertNotEqual(seen[0:5], seen[5:10], "epochs differ")

    def test_accumulated_batches_are_given_once(self):
        def training(sampler, attempt, last):
            ck = Checkpoint(dir=self.dir, global_={"sampler": sampler}, run=make_run(attempt=attempt))
            step, seen, batches = ck.resume(), [], iter(sampler)
            while step < last:
                seen += next(batches) + next(batches) + next(batches)
                step += 1
                ck.tick(step)
            ck.save(step)
            return seen

        whole = [i for batch in Sampler(100, 4, 1, 0, 1) for i in batch]
        first = training(Sampler(100, 4, 1, 0, 1, accumulate=3), 1, 4)
        second = training(Sampler(100, 4, 1, 0, 1, accumulate=3), 2, 8)
        self.assertEqual(first + second, whole[:96])

    def test_an_epoch_has_whole_steps(self):
        sampler, steps = Sampler(103, 10, 1, 0, 1, accumulate=4), []
        for _ in range(3):
            batches = list(sampler)
            steps.append(len(batches) // 4)
            sampler.advance_steps(len(batches) // 4)
        self.assertEqual((len(sampler), steps), (8, [2, 2, 2]))
        with self.assertRaisesRegex(TideError, "saved with accumulate=4, the program has 3"):
            Sampler(103, 10, 1, 0, 1, accumulate=3).load_state_dict(sampler.state_dict())
        with self.assertRaisesRegex(TideError, "accumulate=11 batches"):
            Sampler(103, 10, 1, 0, 1, accumulate=11)

    def test_batches_that_are_not_counted_are_told(self):
        for accumulate, told in ((1, 1), (2, 0)):
            sampler = Sampler(8000, 4, 1, 0, 1, accumulate=accumulate)
            batches = iter(sampler)
            with self.subTest(accumulate=accumulate), captured_stderr() as err:
                for _ in range(900):
                    next(batches), next(batches)
                    sampler.advance_steps(1)
                self.assertEqual(err.getvalue().count("accumulate="), told)


if __name__ == "__main__":
    unittest.main()
