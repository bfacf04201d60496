"""Reads the Dockerfiles of docker/: as much of the language as they use; anything else is an error."""

import json
import os
import re
import shlex

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INSTALL = re.compile(r"apt-get install -y --no-install-recommends ([^&|;]+)")
KNOWN = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENTRYPOINT", "STOPSIGNAL", "HEALTHCHECK"}


class Copy:
    """COPY [--from=STAGE] SOURCE… TARGET."""

    def __init__(self, text):
        words = shlex.split(text)
        self.stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
        *self.sources, self.target = words


class Stage:
    def __init__(self, base, name):
        self.base, self.name = base, name
        self.steps = []  # (instruction, its text), FROM left out

    def texts(self, instruction):
        return [text for word, text in self.steps if word == instruction]

    def last(self, instruction, default):
        return (self.texts(instruction) or [default])[-1]

    @property
    def copies(self):
        return [Copy(text) for text in self.texts("COPY")]

    @property
    def packages(self):
        return [name for text in self.texts("RUN") for match in INSTALL.findall(text) for name in match.split()]

    @property
    def entrypoint(self):
        return json.loads(self.last("ENTRYPOINT", "[]"))

    @property
    def health(self):
        """The command that asks for it; None where there is none."""
        text = self.last("HEALTHCHECK", "")
        return json.loads(text[text.index("CMD ") + 4:]) if text else None


def stages(path):
    """The stages of the Dockerfile at a path below the repository's root."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if line and not line.startswith("#")]
    found = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, text = line.partition(" ")
        if word not in KNOWN:
            raise ValueError("%s: no test knows the instruction %s" % (path, word))
        if word == "FROM":
            base, _, name = text.partition(" AS ")
            found.append(Stage(base, name))
        else:
            found[-1].steps.append((word, " ".join(text.split())))
    return found
