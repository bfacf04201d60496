#!/usr/bin/env python3
"""Works out cpu_answers.h without the code under test: exact integers and fractions, hashlib, zlib.

cpu_answers.py            prints the header
cpu_answers.py --check F  exit 1 unless F holds the same answers
"""

import hashlib
import re
import struct
import sys
import zlib
from fractions import Fraction

MASK = (1 << 64) - 1
VARIANTS = 4
INTEGER_STEPS = 20000
FMA_STEPS = 1500
FMA_LANES = 8
BUFFER_WORDS = 4096


def split_mix(state):
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def integer(variant):
    x, acc = variant + 1, 0
    for _ in range(INTEGER_STEPS):
        x = (x * 6364136223846793005 + 1442695040888963407) & MASK
        y = ((x ^ (x >> 29)) * 0xBF58476D1CE4E5B9) & MASK
        divisor = (y >> 32) | 1
        acc = ((acc << 7) | (acc >> 57)) & MASK
        acc ^= (y + x // divisor) & MASK
        acc = (acc + bin(x).count("1") * (x % divisor)) & MASK
    return acc


def fma(variant):
    """a <- 3.99 * (a - a * a), each operation rounded once, as IEEE 754 demands."""
    checksum = 0
    for lane in range(FMA_LANES):
        a = (1.0 + lane + 8 * variant) / 64.0
        for _ in range(FMA_STEPS):
            exact = Fraction(a)
            a = 3.99 * float(exact - exact * exact)
        checksum ^= struct.unpack("<Q", struct.pack("<d", a))[0]
        checksum = ((checksum << 9) | (checksum >> 55)) & MASK
    return checksum


def data(variant):
    state, words = 1000 + variant, []
    for _ in range(BUFFER_WORDS):
        state, word = split_mix(state)
        words.append(word)
    return struct.pack("<%dQ" % BUFFER_WORDS, *words)


def sha256(variant):
    return struct.unpack(">Q", hashlib.sha256(data(variant)).digest()[:8])[0]


def crc32(variant):
    return zlib.crc32(data(variant))


def answers():
    kernels = (("kInteger", integer), ("kFma", fma), ("kSha256", sha256), ("kCrc32", crc32))
    return {name: [kernel(v) for v in range(VARIANTS)] for name, kernel in kernels}


def header():
    lines = [
        "#pragma once",
        "// Written by cpu_answers.py; a test compares the two.",
        "",
        "#include <array>",
        "#include <cstdint>",
        "",
        "namespace tide::validators::answers {",
        "",
    ]
    for name, values in answers().items():
        lines.append("constexpr std::array<uint64_t, %d> %s = {" % (VARIANTS, name))
        lines += ["    0x%016x," % value for value in values]
        lines += ["};", ""]
    lines.append("}  // namespace tide::validators::answers")
    return "\n".join(lines) + "\n"


def main(argv):
    if len(argv) == 3 and argv[1] == "--check":
        with open(argv[2], encoding="utf-8") as file:
            found = re.findall(r"0x[0-9a-f]{16}", file.read())
        wanted = ["0x%016x" % value for values in answers().values() for value in values]
        if found != wanted:
            print("%s differs: write it anew with cpu_answers.py > cpu_answers.h" % argv[2])
            return 1
        return 0
    if len(argv) != 1:
        print(__doc__)
        return 2
    print(header(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
