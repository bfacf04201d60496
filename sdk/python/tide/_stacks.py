"""Stacks of all threads in the rank's log, when the agent asks for them because ranks stand still."""

from __future__ import annotations

import faulthandler
import signal

STACKS_SIGNAL = 40  # docs/rank-protocol.md section 1
_STDERR = 2         # not sys.stderr, which a program may replace


def answer_requests() -> None:
    """Answers them from now on, without the interpreter's lock: a thread that hangs in native code holds up nothing.

    Leaves a handler that the program has set alone. Processes that are forked later answer, too.
    """
    try:
        if signal.getsignal(STACKS_SIGNAL) is signal.SIG_DFL:
            faulthandler.register(STACKS_SIGNAL, file=_STDERR, all_threads=True)
    except (AttributeError, OSError, RuntimeError, ValueError):
        pass  # a platform without it: only this is missing
