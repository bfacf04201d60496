"""`hfai.client`: what scripts for the HAI Platform call while they train.

`timeout` is taken and not needed: no call waits for a manager. HFAI_SIMULATE=1 with SIMULATE_SUSPEND=SECONDS rehearses
a suspension on one machine; MARSV2_WHOLE_LIFE_STATE is then the state that is found.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, Optional

from tide import TideError
from tide._errors import first_line, warn

from . import _session

__all__ = ["EXP_PRIORITY", "WARN_TYPE", "disable_warn", "get_whole_life_state", "go_suspend",
           "receive_suspend_command", "set_priority", "set_watchdog_time", "set_whole_life_state"]

_IMPORTED_AT = time.monotonic()
_STATE_KEY = "whole_life_state"


class EXP_PRIORITY:
    """Priorities of jobs, under their old names and numbers. Tide's classes have the same."""

    EXTREME_HIGH = 50
    VERY_HIGH = 40
    HIGH = 30
    ABOVE_NORMAL = 20
    NORMAL = 10
    UNDER_NORMAL = 8
    BELOW_NORMAL = 5
    LOW = 0
    AUTO = -1


class WARN_TYPE:
    """Kinds of warnings, to be combined with |."""

    COMPLETED = 1
    TERMINATING = 2
    LOG = 4
    INTERRUPT = 8


def receive_suspend_command(timeout: int = 500, raise_exception: bool = False) -> bool:
    """True when the job has to save and go; always False but in the ranks of the first node.

    Cost: about a microsecond. May be called from any thread, and of every step.
    """
    if _session.simulated():
        return _simulated_command()
    session = _session.current
    if session is None or not session.on_first_node or not session.asked():
        return False
    session.note_saving()
    return True


def go_suspend(timeout: int = 500, raise_exception: bool = False) -> None:
    """Ends all ranks of the job as suspended: it waits in the queue and starts again. Does not return.

    Without an order of the scheduler, too; that takes eleven seconds. Returns at once outside the platform.
    """
    if _session.simulated():
        print("hfai: simulated suspension, the process ends", flush=True)
        sys.exit(0)
    if _session.current is None:
        _say_outside("go_suspend")
        return
    _session.current.go()


def set_whole_life_state(state: int, timeout: int = 500, raise_exception: bool = True) -> bool:
    """Stores a number that the job finds again after a restart. True if it was stored, False if it was that already.

    It is `tide.attach().state["whole_life_state"]`, and may be set back. On the HAI Platform it could not.
    """
    global _known_state
    if _session.simulated():
        print(f"hfai: simulated; start with MARSV2_WHOLE_LIFE_STATE={int(state)} to find it", flush=True)
        return True
    if _session.current is None:
        _say_outside("set_whole_life_state")
        return False
    try:
        stored = _session.current.state
        if stored.get(_STATE_KEY, 0) == int(state):
            return False
        stored[_STATE_KEY] = _known_state = int(state)
        return True
    except TideError as error:
        if raise_exception:
            raise
        warn(f"hfai: {first_line(error)}")
        return False


def get_whole_life_state() -> Optional[int]:
    """The number that was there when this process started, or that it set itself; 0 at first. None outside the
    platform.

    Not what other ranks set meanwhile: ranks that ask at different moments would go different ways.
    """
    if _session.simulated():
        return int(os.environ.get("MARSV2_WHOLE_LIFE_STATE") or 0)
    if _session.current is None:
        _say_outside("get_whole_life_state")
        return None
    return _known_state


def set_priority(priority: int, timeout: int = 500, raise_exception: bool = False) -> bool:
    """False: a rank has no right to change its job. Its owner has: see README.md beside this file."""
    return _cannot("set_priority", f"priority {int(priority)} is not set; a rank may not change its job",
                   raise_exception)


def set_watchdog_time(seconds: int) -> Optional[Dict[str, Any]]:
    """Nothing to do: Tide does not end a job that prints nothing."""
    if not isinstance(seconds, int):
        raise AssertionError(f"seconds={seconds!r} is not a whole number")
    if _session.current is None and not _session.simulated():
        _say_outside("set_watchdog_time")
        return None
    return {"success": 1, "msg": f"set_watchdog_time {seconds}"}


def disable_warn(warn_type: int, timeout: int = 500, raise_exception: bool = False) -> bool:
    """Nothing to do: Tide sends none of these warnings. True on the platform."""
    if _session.current is None and not _session.simulated():
        _say_outside("disable_warn")
        return False
    return True


def _simulated_command() -> bool:
    try:
        after_s = int(os.environ.get("SIMULATE_SUSPEND") or -1)
    except ValueError:
        return False
    return 0 < after_s < time.monotonic() - _IMPORTED_AT


def _cannot(call: str, why: str, raise_exception: bool) -> bool:
    if _session.simulated():
        print(f"hfai: simulated {call}", flush=True)
        return True
    if _session.current is None:
        _say_outside(call)
        return False
    if raise_exception:
        raise TideError(f"{call}: {why}")
    warn(f"hfai: {call}: {why}")
    return False


def _say_outside(call: str) -> None:
    if call not in _said:
        _said.add(call)
        print(f"hfai: {call} does nothing outside the platform", flush=True)


def _state_at_start() -> int:
    """Workers get it from the process that started them, so that all of a rank agree."""
    session = _session.current
    if session is None:
        return 0
    if session.owner:
        try:
            os.environ["MARSV2_WHOLE_LIFE_STATE"] = str(int(session.state.get(_STATE_KEY, 0)))
        except (TideError, TypeError, ValueError) as error:
            warn(f"hfai: no whole life state: {first_line(error)}")
            return 0
    return int(os.environ.get("MARSV2_WHOLE_LIFE_STATE") or 0)


_said: "set[str]" = set()
_known_state = _state_at_start()
