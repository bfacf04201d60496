"""Every flipped bit of a checkpoint is detected and named, and the checkpoint before is used.

TIDE_SDK_RESUMES=all: resume() meets every flipped bit too, not one of each byte (a minute).
"""

import array
import os
import shutil
import tempfile
import unittest

from support import TempCase, captured_stderr, make_run, name_of
from tide import Checkpoint, DamagedError
from tide.checkpoint import format as fmt
from tide.checkpoint.reader import Reader
from tide.checkpoint.sections import RANKS

_EVERY_BIT = os.environ.get("TIDE_SDK_RESUMES") == "all"
_DATA = "d00000.safetensors"


def _block():
    return array.array("d", [0.0] * 20)


class Flips(TempCase):
    def setUp(self):
        super().setUp()
        # Tens of thousands of flips: where there is memory to write to, no disk has to follow them.
        if os.access("/dev/shm", os.W_OK):
            self.dir = tempfile.mkdtemp(prefix="tide-sdk-", dir="/dev/shm")
            self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def save(self, block):
        """Commits steps 1 and 2; bits of the second are flipped afterwards."""
        ck = Checkpoint(dir=self.path("ck"), replicated={"m": {"w": block, "n": 7}}, local={"l": {"b": array.array("b", b"xyz")}},
                        run=make_run())
        for block[0] in (1.0, 2.0):
            ck.save(int(block[0]))
        self.assertTrue(ck.flush())
        self.newest = self.path("ck", name_of(2))

    def flipped(self, name, bits):
        """Yields each bit of `bits` while it is flipped in the file `name`."""
        with open(os.path.join(self.newest, name), "r+b", buffering=0) as file:
            for bit in bits:
                byte = os.pread(file.fileno(), 1, bit // 8)
                os.pwrite(file.fileno(), bytes([byte[0] ^ (1 << bit % 8)]), bit // 8)
                yield bit
                os.pwrite(file.fileno(), byte, bit // 8)

    def bytes_of(self, name):
        return os.path.getsize(os.path.join(self.newest, name))

    def named(self, name, bit, text):
        """True if a message names what the flipped bit damaged."""
        if name == fmt.MANIFEST:
            return os.path.join(self.newest, name) in text
        if name == RANKS:
            return f"{RANKS}, rank 0: the section does not match its CRC-32" in text
        first = bit // 8 // fmt.CHUNK_BYTES * fmt.CHUNK_BYTES
        last = min(first + fmt.CHUNK_BYTES, self.bytes_of(name))
        return f"{name} chunk {first // fmt.CHUNK_BYTES} (bytes {first} to {last}) does not match its CRC-32" in text

    def verdict(self):
        try:
            with Reader(self.newest) as reader:
                reader.verify()
        except DamagedError as error:
            return str(error)
        return "good"

    def resume(self):
        target = {"w": _block(), "n": 0}
        ck = Checkpoint(dir=self.path("ck"), replicated={"m": target}, run=make_run(attempt=2))
        with captured_stderr() as err:
            return ck.resume(), target["w"][0], err.getvalue()

    def test_every_bit_is_detected_and_named(self):
        self.save(_block())
        self.assertEqual(sorted(os.listdir(self.newest)), [fmt.MANIFEST, RANKS, _DATA])
        for name in (fmt.MANIFEST, RANKS, _DATA):
            for bit in self.flipped(name, range(8 * self.bytes_of(name))):
                said = self.verdict()
                if not self.named(name, bit, said):
                    self.fail(f"bit {bit % 8} of byte {bit // 8} of {name}: {said}")
        self.assertEqual(self.verdict(), "good")

    def test_resume_uses_the_one_before(self):
        self.save(_block())
        for name in (fmt.MANIFEST, RANKS, _DATA):
            size = self.bytes_of(name)
            bits = range(8 * size) if _EVERY_BIT else [8 * byte + byte % 8 for byte in range(size)]
            for bit in self.flipped(name, bits):
                step, value, said = self.resume()
                if (step, value) != (1, 1.0) or not self.named(name, bit, said) or self.newest not in said:
                    self.fail(f"bit {bit % 8} of byte {bit // 8} of {name}: step {step}, {value}, {said!r}")
        self.assertEqual(self.resume(), (2, 2.0, ""))

    def test_chunk_and_bytes_are_named(self):
        self.save(array.array("d", [0.0]) * (fmt.CHUNK_BYTES // 8 + 1000))
        size, border = self.bytes_of(_DATA), fmt.CHUNK_BYTES
        self.assertGreater(size, border)
        for bit in self.flipped(_DATA, [0, 8 * border - 1, 8 * border, 8 * size - 1]):
            self.assertTrue(self.named(_DATA, bit, self.verdict()), (bit, self.verdict()))

    def test_other_lengths(self):
        self.save(_block())
        for name, size, word in ((_DATA, self.bytes_of(_DATA) + 1, _DATA), (_DATA, 0, _DATA), (_DATA, None, _DATA + " is missing"),
                                 (fmt.MANIFEST, self.bytes_of(fmt.MANIFEST) + 1, fmt.MANIFEST), (fmt.MANIFEST, 0, fmt.MANIFEST)):
            with self.subTest(f"{name} of {size} bytes"):
                path = os.path.join(self.newest, name)
                shutil.copy2(path, self.path("good"))
                if size is None:
                    os.unlink(path)
                else:
                    os.truncate(path, size)
                self.assertIn(word, self.verdict())
                self.assertEqual(self.resume()[:2], (1, 1.0))
                shutil.copy2(self.path("good"), path)
        self.assertEqual(self.resume(), (2, 2.0, ""))


if __name__ == "__main__":
    unittest.main()
