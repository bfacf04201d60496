"""Typed JSON comes back as the same values, through real JSON text."""

import collections
import enum
import json
import math
import struct
import unittest

import support  # noqa: F401
from tide._errors import CheckpointError
from tide.checkpoint.typed import decode, encode


def through(value):
    text = json.dumps(encode(value, "x", lambda item, path: None), allow_nan=False)
    return decode(json.loads(text), lambda name, lib: None)


class Typed(unittest.TestCase):
    def test_round_trip(self):
        values = [
            None, True, False, 0, -1, 2 ** 53, -2 ** 53 - 1, 2 ** 200, -(2 ** 64), 0.1, -0.0, 1e-320, 1.0, math.inf,
            -math.inf, "", "$tensor", "é\n", b"\0\xff", (), (1, (2, [3])), [None, (True,)], {}, {"a": 1},
            {1: "int", "1": "text", None: 2.5, (1, 2): b"x", 2.0 ** -1074: 1}, {"$int": "not a tag"}, {1, 2, 3},
            frozenset({"a"}), 1 + 2j, bytearray(b"\0\xff"), collections.deque([1, (2,)], 7), collections.deque(),
            collections.Counter({30: 2, "a": 1}), collections.defaultdict(list, {"a": [1]}), collections.defaultdict(None), {"deep": [{"er": ({"est": 2 ** 70},)}]},
        ]
        for value in values:
            with self.subTest(value=value):
                back = through(value)
                self.assertEqual(repr(back), repr(value))
                self.assertIs(type(back), type(value))

    def test_nan_keeps_its_bits(self):
        odd = struct.unpack(">d", bytes.fromhex("7ff8000000000123"))[0]
        self.assertEqual(struct.pack(">d", through(odd)).hex(), "7ff8000000000123")

    def test_ordered_dict_keeps_order_type_and_metadata(self):
        value = collections.OrderedDict([("b", 1), ("a", 2)])
        value._metadata = {"": {"version": 2}}
        back = through(value)
        self.assertIs(type(back), collections.OrderedDict)
        self.assertEqual((list(back), back._metadata), (["b", "a"], {"": {"version": 2}}))

    def test_what_cannot_be_stored_is_named(self):
        with self.assertRaisesRegex(CheckpointError, r"x\.a\.1: a builtins\.object"):
            through({"a": [1, object()]})
        loop = []
        loop.append(loop)
        with self.assertRaisesRegex(CheckpointError, "contain itself"):
            through(loop)

    def test_what_would_come_back_as_another_type_is_named(self):
        class Color(enum.IntEnum):
            RED = 1

        class Word(str):
            pass

        class Table(dict):
            pass

        class Numbers(list):
            pass

        Point = collections.namedtuple("Point", "x y")
        for value, base in ((Color.RED, "int"), (Word("a"), "str"), (Table(), "dict"), (Numbers(), "list"), (Point(1, 2), "tuple")):
            with self.subTest(value=value):
                with self.assertRaisesRegex(CheckpointError, rf"x\.a: a .* plain {base}: give {base}\(…\)"):
                    through({"a": value})
        with self.assertRaisesRegex(CheckpointError, r"x\.a: a defaultdict of .*lambda"):
            through({"a": collections.defaultdict(lambda: 1)})

    def test_unknown_tag_asks_for_an_update(self):
        with self.assertRaisesRegex(CheckpointError, "update tide"):
            decode({"$future": 1}, lambda name, lib: None)


if __name__ == "__main__":
    unittest.main()
