"""Sharded state: any partition into boxes, saved by N ranks and loaded by M, by both writers and both loaders."""

import array
import itertools
import math
import os
import random
import threading
import unittest
from unittest import mock

import published
from support import TempCase, captured_stderr, lead, make_run, needs_native
from test_checkpoint import parse_safetensors, save_with
from test_native import contents
from tide import Checkpoint, CheckpointError, DamagedError, RawTensor, Shard, ShardedOptimizer, load
from tide.checkpoint import _native, boxes, tensors
from tide.checkpoint import format as fmt
from tide.checkpoint.__main__ import main as command
from tide.checkpoint.reader import Reader

try:
    import numpy
    import torch
except ImportError:
    numpy = torch = None

LIBRARY_OF = {"F64": "numpy", "F32": "torch", "BF16": "torch", "U8": "raw", "I16": "numpy"}


def flat_indices(box, shape):
    """Row-major positions in the tensor of a box's elements, in the box's own order."""
    found = []
    for place in itertools.product(*(range(start, stop) for start, stop in box)):
        position = 0
        for index, size in zip(place, shape):
            position = position * size + index
        found.append(position)
    return found


def content_of(seed, kind, shape):
    return random.Random(f"{seed} {kind} {shape}").randbytes(math.prod(shape) * fmt.ITEM_BYTES[kind])


def cut(data, kind, shape, box):
    """The bytes of a box of a tensor, one element after the other."""
    size = fmt.ITEM_BYTES[kind]
    return b"".join(data[i * size:(i + 1) * size] for i in flat_indices(box, shape))


def partition(draw, shape, world):
    """One box for each rank; some have no elements."""
    found = [boxes.whole(shape)]
    for _ in range(50):
        chosen = draw.randrange(len(found))
        sides = [dim for dim, (start, stop) in enumerate(found[chosen]) if stop - start > 1]
        if len(found) == world or (len(found) > 1 and draw.random() < 0.05):
            break
        if sides:
            dim = draw.choice(sides)
            start, stop = found[chosen][dim]
            middle = draw.randrange(start + 1, stop)
            box = found[chosen]
            found[chosen] = (*box[:dim], (start, middle), *box[dim + 1:])
            found.append((*box[:dim], (middle, stop), *box[dim + 1:]))
    if not shape:
        return found * world  # copies: a box without dimensions has one element
    nothing = ((0, 0), *boxes.whole(shape)[1:])
    found += [nothing] * (world - len(found))
    draw.shuffle(found)
    return found


def shard_of(kind, shape, box, data):
    """A Shard of the library for this kind, or a RawTensor's where that is not installed."""
    tensor = tensors.build(LIBRARY_OF[kind], kind, boxes.extents(box), data)
    return Shard(tensor, [start for start, _ in box], shape)


def bytes_of(tensor):
    return bytes(tensors.view(tensor, "").data)


class Globals:
    """Some global tensors with random content, cut at random for each world size."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.seed = seed
        self.shapes = {f"t{i}": (draw.choice(sorted(LIBRARY_OF)), tuple(draw.randint(0 if draw.random() < 0.1 else 1, 7)
                                                           for _ in range(draw.randint(0, 4)))) for i in range(6)}

    def data(self, name):
        return content_of(self.seed, *self.shapes[name])

    def cuts(self, world, salt=0):
        """{name: [box of each rank]}"""
        draw = random.Random(f"{self.seed} {world} {salt}")
        return {name: partition(draw, shape, world) for name, (_, shape) in self.shapes.items()}

    def shards(self, cuts, rank, empty=False):
        """What one rank holds; empty: with zeros in it."""
        made = {}
        for name, (kind, shape) in self.shapes.items():
            data = cut(self.data(name), kind, shape, cuts[name][rank])
            made[name] = shard_of(kind, shape, cuts[name][rank], bytes(len(data)) if empty else data)
        return made


def without_native(function, *arguments):
    found, _native._found = _native.find(), None
    try:
        return function(*arguments)
    finally:
        _native._found = found


class Arithmetic(unittest.TestCase):
    def test_ranges_are_boxes_one_after_the_other(self):
        draw = random.Random(1)
        for _ in range(500):
            shape = tuple(draw.randint(1, 5) for _ in range(draw.randint(0, 4)))
            first = draw.randint(0, math.prod(shape))
            last = draw.randint(first, math.prod(shape))
            seen = []
            found = list(boxes.of_range(first, last, shape))
            for box, before in found:
                self.assertEqual(before, len(seen))
                seen += flat_indices(box, shape)
            self.assertEqual(seen, list(range(first, last)))
            self.assertLessEqual(len(found), max(1, 2 * len(shape) - 1))

    def test_runs_are_few_and_in_order(self):
        whole = boxes.whole((4, 5, 6))
        self.assertEqual(boxes.runs(whole, whole, 2), boxes.Strided(0, 0, 240))
        self.assertEqual(boxes.runs(((1, 3), (0, 5), (0, 6)), whole, 2), boxes.Strided(0, 60, 120))
        self.assertEqual(boxes.runs(((0, 4), (0, 5), (2, 3)), whole, 4), boxes.Strided(0, 8, 4, ((20, 4, 24),)))
        self.assertIsNone(boxes.runs(((0, 2), (0, 5), (0, 6)), ((2, 4), (0, 5), (0, 6)), 1))

    def test_flaws_are_those_of_a_count(self):
        draw = random.Random(2)
        for _ in range(500):
            shape = tuple(draw.randint(1, 4) for _ in range(draw.randint(0, 3)))
            found = [box for box in partition(draw, shape, draw.randint(1, 6)) if boxes.volume(box)]
            if draw.random() < 0.6:
                found.pop(draw.randrange(len(found)))
            if found and draw.random() < 0.4:
                found.append(draw.choice(found))
            owners = [0] * math.prod(shape)
            for box in found:
                for index in flat_indices(box, shape):
                    owners[index] += 1
            flaw = boxes.flaw(found, shape)
            if flaw is None:
                self.assertEqual(set(owners), {1})
            else:
                for index in flat_indices(flaw.where, shape):
                    self.assertEqual(owners[index] == 0, flaw.is_hole)
                    self.assertNotEqual(owners[index], 1)


class AnyWorld(TempCase):
    def save(self, known, world, folder, step=1):
        cuts = known.cuts(world)
        save_with(world, folder, step, lambda rank: {"sharded": {"m": known.shards(cuts, rank)}, "global_": {"g": {"n": 1}}})

    def load(self, known, world, folder):
        cuts = known.cuts(world, salt="other")
        for rank in range(world):
            state = known.shards(cuts, rank, empty=True)
            ck = Checkpoint(dir=folder, sharded={"m": state}, run=make_run(rank, world, attempt=2))
            self.assertEqual(ck.resume(), 1)
            expected = known.shards(cuts, rank)
            for name, shard in state.items():
                self.assertEqual((shard.box, shard.shape), (expected[name].box, expected[name].shape))
                self.assertEqual(bytes_of(shard.tensor), bytes_of(expected[name].tensor), (name, world, rank))

    def test_saved_by_n_loaded_by_m(self):
        for world in range(1, 9):
            known = Globals(world)
            folder = self.path(str(world))
            self.save(known, world, folder)
            for readers in (1, 2, 3, 5, 8):
                with self.subTest(world=world, readers=readers):
                    self.load(known, readers, folder)
                    without_native(self.load, known, readers, folder)
            whole = load(folder)["sharded"]["m"]
            for name, (kind, shape) in known.shapes.items():
                self.assertEqual(tensors.signature(whole[name], name), (shape, kind))
                self.assertEqual(bytes_of(whole[name]), known.data(name))

    @needs_native
    def test_files_of_both_writers_are_equal(self):
        for world in (1, 3, 8):
            known = Globals(100 + world)
            self.save(known, world, self.path(f"native-{world}"))
            without_native(self.save, known, world, self.path(f"python-{world}"))
            self.assertEqual(contents(self.path(f"native-{world}")), contents(self.path(f"python-{world}")))

    def test_checkpoints_of_version_1_are_read(self):
        for world in (1, 3, 5):
            known = Globals(50 + world)
            folder = self.path(str(world))
            self.save(known, world, folder)
            before = load(folder)
            published.make_version_1(os.path.join(folder, "s000000000001-0001-d998b860"))
            after = load(folder)
            self.assertEqual(after.pop("sharded").keys(), before.pop("sharded").keys())
            self.assertEqual(after, before)
            for readers in (1, 2, 5):
                self.load(known, readers, folder)
                without_native(self.load, known, readers, folder)
            self.assertEqual(command(["verify", folder]), 0)

    def test_files_by_the_published_format(self):
        known = Globals(9)
        self.save(known, 4, self.dir)
        path = self.path("s000000000001-0001-d998b860")
        manifest, parts = published.read_manifest(path), published.boxed_parts(path)
        files = {name: parse_safetensors(os.path.join(path, name)) for name in manifest["files"]}
        for name, (kind, shape) in known.shapes.items():
            item = manifest["boxes"][f"sharded/m.{name}"]
            self.assertEqual((item["dtype"], tuple(item["shape"])), (kind, shape))
            owners = []
            for part in parts[f"sharded/m.{name}"]:
                stored = files[part["file"]][f"sharded/m.{name}"]
                self.assertEqual(stored[:2], (kind, [stop - start for start, stop in part["box"]]))
                with open(os.path.join(path, part["file"]), "rb") as source:
                    source.seek(part["offset"])
                    self.assertEqual(source.read(len(stored[2])), stored[2])
                self.assertEqual(stored[2], cut(known.data(name), kind, shape, part["box"]))
                owners += flat_indices(part["box"], shape)
            self.assertEqual(sorted(owners), list(range(math.prod(shape))))

    def test_flipped_bit_is_found_wherever_it_is(self):
        known = Globals(10)
        self.save(known, 2, self.dir)
        path = self.path("s000000000001-0001-d998b860", "d00001.safetensors")
        with open(path, "r+b") as file:
            file.seek(4096 + 5)
            byte = file.read(1)[0]
            file.seek(4096 + 5)
            file.write(bytes([byte ^ 1]))
        for rank in (0, 1):
            state = known.shards(known.cuts(2), rank, empty=True)
            with captured_stderr() as err:
                self.assertEqual(Checkpoint(dir=self.dir, sharded={"m": state}, run=make_run(rank, 2, 2)).resume(allow_restart=True), 0)
            self.assertIn("d00001.safetensors chunk 0", err.getvalue())


def whole_values(rows=6, columns=4, typecode="f"):
    return array.array(typecode, range(rows * columns))


def rows_of(rank, world, rows=6, columns=4, filled=True):
    """A Shard of RawTensor: some rows of a matrix that counts."""
    first, last = rows * rank // world, rows * (rank + 1) // world
    data = whole_values(rows, columns)[first * columns:last * columns].tobytes()
    return Shard(RawTensor("F32", (last - first, columns), data if filled else bytes(len(data))), (first, 0), (rows, columns))


class Commands(TempCase):
    def setUp(self):
        super().setUp()
        for world, step in ((4, 1), (2, 2), (1, 3)):
            save_with(world, self.path("a"), step, lambda rank: {"sharded": {"m": {"w": rows_of(rank, world), "b": [1]}}})
        save_with(2, self.path("b"), 1, lambda rank: {"sharded": {"m": {"w": rows_of(rank, 2, filled=rank == 0), "b": [1]}}})

    def run_command(self, *arguments):
        with captured_stderr() as said, mock.patch("builtins.print") as printed:
            code = command(list(arguments))
        return code, said.getvalue() + "".join(str(call.args[0]) for call in printed.call_args_list if call.args)

    def test_diff_is_about_values(self):
        first = self.path("a", "s000000000001-0001-d998b860")
        for other in ("s000000000002-0001-d998b860", "s000000000003-0001-d998b860"):
            self.assertEqual(self.run_command("diff", first, self.path("a", other))[0], 0)
        code, said = self.run_command("diff", first, self.path("b"))
        self.assertEqual(code, 1)
        self.assertIn("sharded/m.w: differs, first at byte 50 of 96", said)

    def test_verify_looks_for_holes(self):
        self.assertEqual(self.run_command("verify", self.path("a"))[0], 0)
        self.assertEqual(self.run_command("ls", self.path("a"))[0], 0)
        path = self.path("a", "s000000000002-0001-d998b860")
        before = published.read_sections(path)
        for rank, rows, expected in ((1, [], "[3:6, 0:4] of sharded/m.w is stored nowhere"),
                                     (1, [[0, 4096, [[2, 5], [0, 4]]]], "[2:3, 0:4] of sharded/m.w is stored twice"),
                                     (1, [[0, 4096, [[4, 7], [0, 4]]]], "parts of sharded/m.w do not fit"),
                                     (1, [[0, 4100, [[3, 6], [0, 4]]]], "parts of sharded/m.w do not fit"),
                                     (1, [[0, -8, [[3, 6], [0, 4]]]], "parts of sharded/m.w do not fit"),
                                     (0, [[1, 4096, [[3, 6], [0, 4]]]], "rank 0: the table of boxes does not fit"),
                                     (1, [[0, 4096, [[3, 6]]]], "rank 1: the table of boxes does not fit")):
            sections = list(before)
            sections[rank] = (before[rank][0], rows)
            published.write_sections(path, sections)
            for run in (self.run_command, lambda *words: without_native(self.run_command, *words)):
                code, said = run("verify", path)
                self.assertEqual(code, 1)
                self.assertIn(expected, said)
        published.write_sections(path, [({**before[0][0], "file": "d00002"}, before[0][1]), before[1]])
        self.assertIn("parts of sharded/m.w do not fit", self.run_command("verify", path)[1])
        published.write_sections(path, before)
        self.assertEqual(self.run_command("verify", path)[0], 0)

    def test_every_flipped_bit_of_the_sections_is_named(self):
        path = self.path("a", "s000000000002-0001-d998b860")
        with open(os.path.join(path, "RANKS.bin"), "rb") as source:
            good = source.read()
        first = sum(published.read_manifest(path)["sections"][0][half] for half in ("text", "table"))
        for bit in range(8 * len(good)):
            bad = bytearray(good)
            bad[bit // 8] ^= 1 << bit % 8
            with open(os.path.join(path, "RANKS.bin"), "wb") as out:
                out.write(bad)
            with self.assertRaisesRegex(DamagedError, f"RANKS.bin, rank {int(bit // 8 >= first)}: .*CRC-32"), Reader(path) as reader:
                reader.load()
        for bad, words in ((good[:-1], "has [0-9]+ bytes instead"), (good + b"x", "has [0-9]+ bytes instead"), (None, "is missing")):
            os.unlink(os.path.join(path, "RANKS.bin"))
            if bad is not None:
                with open(os.path.join(path, "RANKS.bin"), "wb") as out:
                    out.write(bad)
            with self.assertRaisesRegex(DamagedError, f"RANKS.bin {words}"), Reader(path) as reader:
                reader.load()

    @unittest.skipIf(torch is None, "needs torch")
    def test_export_gives_whole_tensors(self):
        state = torch.arange(24.0).reshape(6, 4)
        save_with(3, self.path("t"), 1, lambda rank: {
            "sharded": {"m": {"w": Shard(state[:, rank:rank + 1 + (rank == 2)], (0, rank), (6, 4)), "n": 5}}})
        out = self.path("out.pt")
        self.assertEqual(self.run_command("export", "--to", "torch", self.path("t"), out)[0], 0)
        found = torch.load(out)["m"]
        self.assertTrue(torch.equal(found["w"], state))
        self.assertEqual(found["n"], 5)


class Rules(TempCase):
    def save(self, objects, world=2, **options):
        save_with(world, self.dir, 1, objects, **options)

    def refused(self, shards, expected):
        """What rank 0 says of these shards, one of each rank."""
        folder = self.path(str(len(os.listdir(self.dir))))
        ranks = [Checkpoint(dir=folder, sharded={"m": {"w": shard}}, run=make_run(rank, len(shards)), timeout_s=20)
                 for rank, shard in enumerate(shards)]
        others = [threading.Thread(target=self.assertRaises, args=(CheckpointError, ck.save, 1)) for ck in ranks[1:]]
        for thread in others:
            thread.start()
        with self.assertRaises(CheckpointError) as caught:
            ranks[0].save(1)
        for thread in others:
            thread.join()
        self.assertIn(expected, str(caught.exception))

    def test_holes_overlaps_and_disagreement_are_named(self):
        self.refused([rows_of(0, 3), rows_of(1, 3)], "no rank stored [4:6, 0:4] of sharded/m.w; the ranks' shards must "
                     "fill its shape [6,4]")
        self.refused([rows_of(0, 2), rows_of(0, 1)], "several ranks stored [0:3, 0:4] of sharded/m.w")
        self.refused([rows_of(0, 2), rows_of(1, 2, rows=8)], "ranks disagree about sharded/m.w: F32[6,4] before rank 1, "
                     "whose is F32[8,4]")
        self.refused([rows_of(0, 2), Shard(RawTensor("F64", (3, 4), bytes(96)), (3, 0), (6, 4))], "whose is F64[6,4]")
        self.refused([Shard(array.array("f", [1]), (0,), (2,)), array.array("f", [1, 2])],
                     "is a tide.Shard on some ranks and a whole tensor on others")
        self.refused([rows_of(0, 2), {"v": rows_of(1, 2)}], "ranks 0 and 1 have different sharded state; give all ranks")

    def test_a_shard_that_cannot_be(self):
        block = array.array("f", [1, 2, 3])
        for arguments, expected in (((block, (4,), (6,)), r"the box \[4:7\] is not inside the global shape \[6\]"),
                                    ((block, (-1,), (6,)), "is not inside"), ((block, (0, 0), (6, 6)), "one offset and one size"),
                                    (([1, 2], (0,), (6,)), "a list is no tensor")):
            with self.assertRaisesRegex(CheckpointError, expected):
                Shard(*arguments)
        for group in ("replicated", "local", "global_"):
            with self.assertRaisesRegex(CheckpointError, r"m\.w is held in part \(a tide\.Shard or a DTensor\); give the object 'm' under sharded="):
                Checkpoint(dir=self.dir, run=make_run(), **{group: {"m": {"w": rows_of(0, 1)}}}).save(1)

    def test_a_shard_that_has_grown(self):
        block = array.array("f", [1, 2, 3])
        ck = Checkpoint(dir=self.dir, sharded={"m": {"w": Shard(block, (0,), (3,))}}, run=make_run())
        block.append(4)
        with self.assertRaisesRegex(CheckpointError, r"m\.w: the box \[0:4\] is not inside the global shape \[3\]"):
            ck.save(1)
        with self.assertRaisesRegex(CheckpointError, "m is given under replicated= and under sharded="):
            Checkpoint(dir=self.dir, sharded={"m": {}}, replicated={"m": {}, "n": {}}, run=make_run())

    def test_what_does_not_fit_at_resume(self):
        self.save(lambda rank: {"sharded": {"m": {"w": rows_of(rank, 2)}}})
        cases = [({"m": {"w": rows_of(0, 2, rows=8)}}, r"m\.w: the checkpoint holds F32\[6, 4\], the program has F32\[8, 4\]"),
                 ({"m": {"w": Shard(RawTensor("F64", (1, 4), bytes(32)), (0, 0), (6, 4))}}, r"the program has F64\[6, 4\]"),
                 ({"m": {"w": rows_of(0, 2), "v": rows_of(0, 2)}}, r"m\.v is not in the checkpoint"),
                 ({"m": {}}, r"m\.w was saved as shards, and the program has no tide\.Shard there"),
                 ({"n": {}}, "no object 'n'")]
        for objects, expected in cases:
            with self.assertRaisesRegex(CheckpointError, expected) as caught:
                Checkpoint(dir=self.dir, sharded=objects, run=make_run()).resume()
            self.assertNotIn("\n", str(caught.exception))
            self.assertIn("s000000000001-0001-d998b860", str(caught.exception))

    def test_copies_of_a_box_are_stored_once(self):
        def mine(rank, declared):
            return Shard(rows_of(rank % 2, 2).tensor, (3 * (rank % 2), 0), (6, 4), replica=rank // 2 if declared else 0)

        for declared in (False, True):
            folder = self.path(str(declared))
            save_with(6, folder, 1, lambda rank: {"sharded": {"m": {"w": mine(rank, declared)}}})
            path = os.path.join(folder, "s000000000001-0001-d998b860")
            parts = published.boxed_parts(path)["sharded/m.w"]
            self.assertEqual([part["file"] for part in parts], ["d00000.safetensors", "d00001.safetensors"])
            stored = sum(record["bytes"] - 4096 for record in published.read_manifest(path)["files"].values())
            self.assertEqual(stored, 96 if declared else 3 * 96)
            self.assertEqual(load(folder)["sharded"]["m"]["w"].data, whole_values().tobytes())

    def test_whole_tensors_become_shards_and_back(self):
        """Beside them plain state is stored once, as replicated state is."""
        self.save(lambda rank: {"sharded": {"m": {"w": RawTensor("F32", (6, 4), whole_values().tobytes()), "n": 2 ** 80}}}, 3)
        state = {"w": Shard(RawTensor("F32", (6, 1), bytes(24)), (0, 2), (6, 4)), "n": 0}
        lead(self.dir, 5, 2)
        self.assertEqual(Checkpoint(dir=self.dir, sharded={"m": state}, run=make_run(1, 5, 2)).resume(), 1)
        self.assertEqual(array.array("f", state["w"].tensor.data), whole_values()[2::4])
        self.assertEqual(state["n"], 2 ** 80)
        save_with(2, self.dir, 2, lambda rank: {"sharded": {"m": {"w": rows_of(rank, 2), "n": 1}}})
        state = {"w": RawTensor("F32", (6, 4), bytes(96)), "n": 0}
        self.assertEqual(Checkpoint(dir=self.dir, sharded={"m": state}, run=make_run(0, 1, 3)).resume(), 2)
        self.assertEqual(state["w"].data, whole_values().tobytes())

    def test_replicated_state_becomes_sharded_and_back(self):
        self.save(lambda rank: {"replicated": {"m": {"w": RawTensor("F32", (6, 4), whole_values().tobytes())}}}, 3)
        state = {"w": rows_of(1, 4, filled=False)}
        lead(self.dir, 4, 2)
        self.assertEqual(Checkpoint(dir=self.dir, sharded={"m": state}, run=make_run(1, 4, 2)).resume(), 1)
        self.assertEqual(state["w"].tensor, rows_of(1, 4).tensor)
        save_with(4, self.dir, 2, lambda rank: {"sharded": {"m": {"w": rows_of(rank, 4)}}})
        state = {"w": RawTensor("F32", (6, 4), bytes(96))}
        lead(self.dir, 3, 3)
        self.assertEqual(Checkpoint(dir=self.dir, replicated={"m": state}, run=make_run(2, 3, 3)).resume(), 2)
        self.assertEqual(state["w"].data, whole_values().tobytes())

    def test_tensors_are_filled_in_place(self):
        self.save(lambda rank: {"sharded": {"w": Shard(array.array("f", whole_values()[12 * rank:12 * rank + 12]), (12 * rank,), (24,))}})
        own = array.array("f", bytes(40))
        Checkpoint(dir=self.dir, sharded={"w": Shard(own, (7,), (24,))}, run=make_run(0, 1, 2)).resume()
        self.assertEqual(own, whole_values()[7:17])

    def test_checkpoints_of_an_earlier_sdk(self):
        """Without the member "sharded" they load as ever, and into shards as well."""
        self.save(lambda rank: {"replicated": {"m": {"w": array.array("f", [1, 2, 3])}}})
        path = self.path("s000000000001-0001-d998b860")
        published.make_version_1(path)
        record = published.read_manifest(path)
        record["objects"].pop("sharded")
        published.write_manifest(path, record)
        target = {"w": array.array("f", [0, 0, 0])}
        self.assertEqual(Checkpoint(dir=self.dir, replicated={"m": target}, run=make_run(0, 1, 2)).resume(), 1)
        self.assertEqual(target["w"], array.array("f", [1, 2, 3]))
        self.assertEqual(load(self.dir)["sharded"], {})
        state = {"w": Shard(array.array("f", [0, 0]), (1,), (3,))}
        self.assertEqual(Checkpoint(dir=self.dir, sharded={"m": state}, run=make_run(0, 1, 2)).resume(), 1)
        self.assertEqual(state["w"].tensor, array.array("f", [2, 3]))


@unittest.skipIf(torch is None, "needs torch")
class Optimizers(TempCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        self.weight, self.bias = torch.randn(7, 5), torch.randn(3)
        self.steps = [(torch.randn(7, 5), torch.randn(3)) for _ in range(2)]

    def rank(self, rank, world):
        """(parameters, optimizer, Checkpoint's objects): rows of a weight, and a bias that all have."""
        first, last = 7 * rank // world, 7 * (rank + 1) // world
        parameters = [torch.nn.Parameter(self.weight[first:last].clone()), torch.nn.Parameter(self.bias.clone())]
        opt = torch.optim.AdamW(parameters, lr=0.1)
        shard = Shard(parameters[0], (first, 0), (7, 5))
        return parameters, opt, {"sharded": {"model": {"w": shard, "b": parameters[1]}, "opt": ShardedOptimizer(opt, [shard])}}

    def step(self, parameters, opt, number, rank, world):
        rows = slice(7 * rank // world, 7 * (rank + 1) // world)
        parameters[0].grad, parameters[1].grad = self.steps[number][0][rows].clone(), self.steps[number][1].clone()
        opt.step()

    def test_training_goes_on_at_another_world_size(self):
        before = [self.rank(rank, 3) for rank in range(3)]
        for rank, (parameters, opt, _) in enumerate(before):
            self.step(parameters, opt, 0, rank, 3)
        save_with(3, self.dir, 1, lambda rank: before[rank][2])
        for rank, (parameters, opt, _) in enumerate(before):
            self.step(parameters, opt, 1, rank, 3)
        expected = torch.cat([parameters[0] for parameters, _, _ in before])
        for world in (1, 2, 5):
            pieces = []
            for rank in range(world):
                parameters, opt, objects = self.rank(rank, world)
                self.assertEqual(Checkpoint(dir=self.dir, run=make_run(rank, world, 2), **objects).resume(), 1)
                self.step(parameters, opt, 1, rank, world)
                pieces.append(parameters[0])
                self.assertTrue(torch.equal(parameters[1], before[0][0][1]))
            self.assertTrue(torch.equal(torch.cat(pieces), expected), world)

    def test_an_optimizer_that_is_not_wrapped_is_told(self):
        before = [self.rank(rank, 2) for rank in range(2)]
        for rank, (parameters, opt, _) in enumerate(before):
            self.step(parameters, opt, 0, rank, 2)
        save_with(2, self.dir, 1, lambda rank: before[rank][2])
        _, opt, objects = self.rank(0, 1)
        with self.assertRaisesRegex(CheckpointError, r"opt\.state\.0\.exp_avg was saved as shards.*tide\.ShardedOptimizer"):
            Checkpoint(dir=self.dir, run=make_run(0, 1, 2), sharded={**objects["sharded"], "opt": opt}).resume()
        with self.assertRaisesRegex(CheckpointError, "no parameter of the optimizer"):
            ShardedOptimizer(opt, [rows_of(0, 1)])


if __name__ == "__main__":
    unittest.main()
