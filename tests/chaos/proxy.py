"""Stands between scheduler and PostgreSQL on a unix socket, and cuts connections around a COMMIT.

Ways of cutting, each at the next COMMIT of any connection:
  before   the COMMIT is not passed on: nothing was committed
  half     a part of the flight with the COMMIT is passed on
  lost     it is passed on, the server's answer is not: it was committed, and nobody was told
  torn     a part of the answer is passed on
  silent   it is passed on; the client's side stays open and hears nothing, for as long as the client waits
"""

import contextlib
import os
import random
import socket
import struct
import threading

WAYS = ("before", "half", "lost", "torn", "silent")
STARTUP_REQUESTS = (80877103, 80877104)  # TLS, GSS: another start follows
READY = b"Z"


class Messages:
    """Cuts a stream of the protocol into messages."""

    def __init__(self, has_startup):
        self._rest = b""
        self._startup = has_startup

    def take(self, data):
        """The messages that are complete now: [(type, body)]; type b"" is a start."""
        self._rest += data
        found = []
        while True:
            head = 0 if self._startup else 1
            if len(self._rest) < head + 4:
                return found
            size = head + struct.unpack("!i", self._rest[head:head + 4])[0]
            if len(self._rest) < size:
                return found
            kind, body = self._rest[:head], self._rest[head + 4:size]
            self._rest = self._rest[size:]
            if self._startup:
                self._startup = struct.unpack("!i", body[:4])[0] in STARTUP_REQUESTS
            found.append((kind, body))


class Statements:
    """Which of a client's messages carry a COMMIT."""

    def __init__(self):
        self._messages = Messages(True)
        self._commits = set()  # names of prepared statements

    def has_commit(self, data):
        found = False
        for kind, body in self._messages.take(data):
            words = body.split(b"\0")
            if kind == b"P" and words[1] == b"COMMIT":
                self._commits.add(words[0])
            found = found or (kind == b"B" and words[1] in self._commits) or (kind == b"Q" and words[0] == b"COMMIT")
        return found


class Connection:
    """One client and its server."""

    def __init__(self, proxy, client, server):
        self._proxy = proxy
        self._client = client
        self._server = server
        self._statements = Statements()
        self._way = None  # it is being cut

    def start(self):
        for pump in (self._from_client, self._from_server):
            threading.Thread(target=pump, daemon=True).start()

    def close(self):
        for each in (self._client, self._server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _from_client(self):
        with contextlib.suppress(OSError):
            while data := self._client.recv(65536):
                if self._way == "silent":
                    continue
                if self._statements.has_commit(data):
                    self._way = self._proxy.take_order()
                if self._way == "before":
                    break
                if self._way == "half":
                    self._server.sendall(data[:self._proxy.part(len(data))])
                    break
                self._server.sendall(data)
        if self._way != "silent":
            self._proxy.fired(self._way)
        self.close()

    def _from_server(self):
        answers = Messages(False)
        with contextlib.suppress(OSError):
            while data := self._server.recv(65536):
                if self._way == "torn":
                    self._client.sendall(data[:self._proxy.part(len(data))])
                    break
                if self._way in ("lost", "silent") and any(kind == READY for kind, _ in answers.take(data)):
                    break
                if self._way is None:
                    answers.take(data)
                    self._client.sendall(data)
        if self._way == "silent":
            self._proxy.fired(self._way)
            return  # the client's side stays as it is
        self._proxy.fired(self._way)
        self.close()


class Proxy:
    def __init__(self, folder, target, seed):
        self._target = target
        self._rng = random.Random(seed)
        self._order = None
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(folder, ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, way):
        """At the next commit. Returns an event that is set when it is done."""
        with self._lock:
            self._done = threading.Event()
            self._order = way
            return self._done

    def take_order(self):
        with self._lock:
            way, self._order = self._order, None
            return way

    def fired(self, way):
        if way:
            self._done.set()

    def part(self, size):
        with self._lock:
            return self._rng.randrange(size)

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self._target)
                except OSError:
                    client.close()
                    server.close()
                    continue
                Connection(self, client, server).start()
