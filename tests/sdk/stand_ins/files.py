"""How all stand-ins write a file: half of it, then the rest, so that a test can end or fail a save in the middle."""

import json
import os
import signal


def put(path, state):
    """STAND_IN_KILL: ends the process in the middle; STAND_IN_FAIL: the rank whose writing fails."""
    text = json.dumps(state)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write(text[:len(text) // 2])
        out.flush()
        if os.environ.get("STAND_IN_KILL"):
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("STAND_IN_FAIL") == rank():
            raise OSError(28, "No space left on device")
        out.write(text[len(text) // 2:])


def get(path):
    with open(path) as file:
        return json.load(file)


def rank():
    return os.environ.get("RANK", "0")
