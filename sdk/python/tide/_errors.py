"""Errors and the one way this package talks to a person: one line on stderr."""

from __future__ import annotations

import sys


class TideError(RuntimeError):
    """Something a person must act on. The message says what, where, and what to do."""


class CheckpointError(TideError):
    """A checkpoint could not be written, read or matched to the program's objects. errno: of the system's error behind it, 0 =
    there is none."""

    def __init__(self, text: str = "", errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


class DamagedError(CheckpointError):
    """A committed checkpoint does not hold what its manifest says."""


def warn(text: str) -> None:
    """Prints one line on stderr. Never raises: a closed stderr must not end a training run."""
    try:
        sys.stderr.write("tide: " + text.replace("\n", " ") + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def first_line(error: BaseException) -> str:
    """The first non-empty line of an error's text, or its type name."""
    for line in str(error).splitlines():
        if line.strip():
            return line.strip()
    return type(error).__name__
