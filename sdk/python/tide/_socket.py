"""Reports from a rank to its agent: JSON, one object a line, over a unix stream socket.

Nothing depends on a report arriving: page, exit code and checkpoint folder decide. So a report is sent or dropped
within 50 ms, and a lost connection is made again at the next report.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from typing import Any, Dict, Optional

BUDGET_S = 0.05
LINE_LIMIT = 64 * 1024


class Reporter:
    """One connection to the agent. Thread safe; a call lasts at most BUDGET_S."""

    def __init__(self, path: Optional[str], rank: int) -> None:
        """path: the agent's socket, or None outside the platform (every report is then dropped)."""
        self._path = path
        self._rank = rank
        self._socket: Optional[socket.socket] = None
        self._lock = threading.Lock()
        self.dropped = 0

    def send(self, kind: str, await_reply: bool = False, **fields: Any) -> bool:
        """Sends one report. True if it was handed to the socket (and answered, with await_reply)."""
        if not self._path:
            return False
        line = _line({"t": kind, "rank": self._rank, **fields})
        if len(line) > LINE_LIMIT:
            self.dropped += 1
            return False
        deadline = time.monotonic() + BUDGET_S
        # A report from another thread may hold the connection; its time counts against this call's budget too.
        if not self._lock.acquire(timeout=BUDGET_S):
            self.dropped += 1
            return False
        try:
            return self._send_locked(line, deadline, await_reply)
        finally:
            self._lock.release()

    def hello(self) -> bool:
        """Connects, which says who this rank is. Later reports do it by themselves."""
        if not self._path:
            return False
        with self._lock:
            return self._send_locked(b"", time.monotonic() + BUDGET_S, await_reply=False)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send_locked(self, line: bytes, deadline: float, await_reply: bool) -> bool:
        try:
            if self._socket is not None:
                self._drain(self._socket)  # finds out that the agent has gone since the last report
            connection = self._socket if self._socket is not None else self._connect(deadline)
            _write(connection, line, deadline)
            if await_reply:
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                return bool(connection.recv(4096))
            return True
        except OSError:
            # Part of a line may be out; only a new connection starts at a line boundary again.
            self.dropped += 1
            self.close()
            return False

    def _connect(self, deadline: float) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            connection.connect(self._path or "")
        except OSError:
            connection.close()
            raise
        self._socket = connection
        _write(connection, _line({"t": "hello", "rank": self._rank, "pid": os.getpid(), "version": 1}), deadline)
        return connection

    def _drain(self, connection: socket.socket) -> None:
        """Reads the answers that have come. An orderly end from the agent drops the connection."""
        connection.setblocking(False)
        try:
            while True:
                if not connection.recv(4096):
                    self.close()
                    return
        except BlockingIOError:
            return
        except OSError:
            self.close()


def _write(connection: socket.socket, data: bytes, deadline: float) -> None:
    connection.settimeout(max(0.001, deadline - time.monotonic()))
    connection.sendall(data)


def _line(message: Dict[str, Any]) -> bytes:
    return (json.dumps(message, separators=(",", ":")) + "\n").encode()
