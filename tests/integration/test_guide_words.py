"""Commands that the guides name without running them: verbs and flags are ones that the programs know.

Those in blocks marked sh are run (test_guide_certificates.py, test_guide_people.py).
"""

import functools
import glob
import os
import re
import shlex
import subprocess
import unittest

from harness import ROOT, program

PROGRAMS = ("tide", "tide-scheduler", "tide-api", "tide-agent")
SPAN = re.compile(r"`(tide(?:-\w+)? [^`\n]+)`")
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)
LINE = re.compile(r"^(tide(?:-\w+)? .+)$", re.M)
END = {"|", ">", "<", "#", "&&", ";", "--"}  # what follows is no word of the program's


@functools.lru_cache(maxsize=None)
def told(words):
    """What --help prints; "" where these are no program and verb."""
    done = subprocess.run([program(words[0]), *words[1:], "--help"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout if done.returncode == 0 else ""


def commands(text):
    """Every command in a guide, as its words."""
    blocks = "".join(BLOCK.findall(text)).replace("\\\n", " ")
    for found in LINE.findall(blocks) + SPAN.findall(BLOCK.sub("", text)):
        lexer = shlex.shlex(found, posix=True, punctuation_chars="|<>;&")
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            words = list(lexer)
        except ValueError:
            words = found.split()  # a quote that goes on in the next line
        if words[0] in PROGRAMS:
            yield words[:next((i for i, word in enumerate(words) if word in END), len(words))]


def split(words):
    """(program with its verbs, the rest)"""
    count = 1
    while count < len(words) and words[0] == "tide" and re.fullmatch(r"[a-z]+", words[count]) and (
            "\n  " + words[count] + " " in told(tuple(words[:count]))):
        count += 1
    return tuple(words[:count]), words[count:]


class GuideTest(unittest.TestCase):
    def test_verbs_and_flags(self):
        seen = 0
        for path in sorted(glob.glob(ROOT + "/docs/guide/*.md")) + [ROOT + "/docker/README.md", ROOT + "/README.md"]:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for words in commands(text):
                verb, rest = split(words)
                with self.subTest(os.path.basename(path), command=" ".join(words)):
                    seen += 1
                    if verb == ("tide",):
                        self.assertTrue(not rest or not re.fullmatch("[a-z]+", rest[0]), "no such verb")
                    known = set(re.findall(r"(?<![\w-])--?[\w-]+", told(verb) + told(verb[:1])))
                    flags = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
                    self.assertLessEqual(flags, known)
        self.assertGreater(seen, 100)


if __name__ == "__main__":
    unittest.main()
