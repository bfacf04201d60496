"""Checkpoints that stay beyond the last few: one every so many hours, the best by a number. Each by a pin that says why."""

from __future__ import annotations

import json
import math
import os
import time
from typing import Dict, Optional

from .. import _files
from .store import PIN_PREFIX

_HOURS, _BEST = "hours", "best"


class Retention:
    """Used by rank 0's training thread. What people pinned is never let go."""

    def __init__(self, folder: str, every_hours: float) -> None:
        """every_hours: 0 = none."""
        self._folder, self._every_s = folder, every_hours * 3600
        self._last: Optional[float] = None  # Unix seconds of the newest one that was kept for its hour

    def note(self, name: str) -> None:
        """Keeps a committed checkpoint where the last one that was kept so is old enough. Errors: OSError."""
        if self._every_s <= 0:
            return
        if self._last is None:
            self._last = max((pin["at"] for pin in self._pins(_HOURS).values()), default=-math.inf)
        if time.time() - self._last >= self._every_s:
            self._last = time.time()
            self._pin(name, {"why": _HOURS, "at": self._last})

    def best(self, name: str, value: float, count: int, lowest: bool) -> None:
        """Keeps the `count` best of all that were given, and lets the others go. Errors: OSError."""
        known = {pinned: float(pin["value"]) for pinned, pin in self._pins(_BEST).items()}
        known[name] = float(value)
        # Of equal ones the earlier stays, which nothing has beaten.
        ordered = sorted(known, key=lambda each: (math.isnan(known[each]), known[each] if lowest else -known[each], each))
        if name in ordered[:count]:
            self._pin(name, {"why": _BEST, "value": known[name]})
        for worse in ordered[count:]:
            if worse != name:
                _files.remove_quietly(self._path(worse))

    def _pin(self, name: str, why: "Dict[str, object]") -> None:
        if not os.path.lexists(self._path(name)):  # it may be kept for another reason already
            _files.write_durably(self._path(name), json.dumps(why).encode())

    def _pins(self, why: str) -> "Dict[str, dict[str, float]]":
        """{name: what its pin says} of those that were pinned for this reason."""
        found = {}
        for file in os.listdir(self._folder):
            if file.startswith(PIN_PREFIX):
                try:
                    with open(os.path.join(self._folder, file), encoding="utf-8") as source:
                        pin = json.load(source)
                except (OSError, ValueError):
                    continue  # of people: empty
                if isinstance(pin, dict) and pin.get("why") == why:
                    found[file[len(PIN_PREFIX):]] = pin
        return found

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, PIN_PREFIX + name)
