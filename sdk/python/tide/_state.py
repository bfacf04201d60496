"""A job's own small key/value: what it wants to know again after a restart, besides its checkpoints.

One JSON file in the checkpoint folder, so it lives as long as the checkpoints do and is read wherever they are. A write
is durable when it returns, and a reader sees the file of before or the new one whole.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any, Dict, Iterator, MutableMapping

from ._errors import TideError
from ._files import write_durably

FILE = "whole_life_state.json"
FORMAT = "tide-state/1"
LIMIT_BYTES = 64 * 1024


class State(MutableMapping[str, Any]):
    """`state["stage"] = 2`: keys are strings, values what JSON can hold; together at most 64 KiB.

    Every access reads the file, so another rank's write is seen at once. Writes replace the whole file: let one rank
    write, for of two at the same moment only one stays. Thread safe.
    Errors: TideError for what cannot be stored, a file that cannot be read, written or understood.
    """

    def __init__(self, folder: str) -> None:
        """folder: made at the first write if it is absent."""
        self._folder = os.path.abspath(folder)
        self._path = os.path.join(self._folder, FILE)
        self._lock = threading.Lock()

    @property
    def version(self) -> int:
        """How often the state was written, 0 = never."""
        return self._read()["version"]

    def update(self, *args: Any, **values: Any) -> None:
        """Sets several keys in one write: after a crash all of them are there, or none."""
        new = dict(*args, **values)
        self._change(lambda stored: stored.update(new))

    def clear(self) -> None:
        """Forgets everything, in one write."""
        self._change(lambda stored: stored.clear())

    def __getitem__(self, key: str) -> Any:
        return self._read()["values"][key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        self._change(lambda stored: stored.__delitem__(key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._read()["values"])

    def __len__(self) -> int:
        return len(self._read()["values"])

    def __repr__(self) -> str:
        return f"<tide state {self._path}>"

    def _read(self) -> Dict[str, Any]:
        try:
            with open(self._path, encoding="utf-8") as source:
                record = json.loads(source.read())
        except FileNotFoundError:
            return {"format": FORMAT, "version": 0, "values": {}}
        except OSError as error:
            raise TideError(f"cannot read the job's state {self._path}: {error.strerror}") from error
        except ValueError:
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("values"), dict):
            raise TideError(f"the job's state {self._path} is no state; put it back, or remove it to begin anew")
        if record.get("format") != FORMAT or not isinstance(record.get("version"), int):
            raise TideError(f"the job's state {self._path} has format {record.get('format')!r}, this SDK reads "
                            f"{FORMAT!r}; update tide")
        return record

    def _change(self, change: Any) -> None:
        with self._lock:
            record = self._read()
            change(record["values"])
            record["version"] += 1
            self._write(_encode(record))

    def _write(self, data: bytes) -> None:
        try:
            os.makedirs(self._folder, exist_ok=True)
            write_durably(self._path, data)
        except OSError as error:
            raise TideError(f"cannot write the job's state {self._path}: {error.strerror or error}; free space or "
                            "repair the file system, what was stored before is still there") from error


def _encode(record: Dict[str, Any]) -> bytes:
    for key in record["values"]:
        if not isinstance(key, str):
            raise TideError(f"the job's state cannot have the key {key!r}: keys are strings")
    try:
        data = json.dumps(record, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise TideError(f"the job's state cannot hold this: {error}; store numbers, strings, lists and dicts") from None
    if len(data) > LIMIT_BYTES:
        raise TideError(f"the job's state would have {len(data)} bytes, {LIMIT_BYTES} is the most; large data belongs "
                        "in a checkpoint")
    return data
