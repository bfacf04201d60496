"""`tide dev` for the benchmark of short jobs: real scheduler, API and agents, the store on disk, asked over HTTP."""

from __future__ import annotations

import glob
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from typing import Callable, Dict, Tuple

DEADLINE_S = 600.0
_PROGRAMS = ("tide-scheduler", "tide-api", "tide-agent")


def wait_until(condition: Callable[[], bool], what: str, pause_s: float = 0.02) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited {DEADLINE_S:.0f} s until {what}")
        time.sleep(pause_s)


def busy_seconds() -> float:
    """CPU time of the whole machine so far."""
    with open("/proc/stat", encoding="ascii") as source:
        fields = [int(field) for field in source.readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


class Cluster:
    """Agents of 8 parts each, until stop()."""

    def __init__(self, bin_folder: str, folder: str, runtime: str, nodes: int) -> None:
        self.folder = folder
        self._tide = os.path.join(bin_folder, "tide")
        self.env = {"HOME": folder, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                    "TIDE_DEV_PROFILE": os.path.join(folder, "profile.yaml")}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with open(os.path.join(folder, "dev.log"), "wb") as log:
            self._dev = subprocess.Popen(
                [self._tide, "dev", "--no-demo", "--nodes", str(nodes), "--runtime", runtime, "--state",
                 os.path.join(folder, "state"), "--port", str(port), "--agent-flag=--gpus=8"],
                env=self.env, cwd=folder, stdout=log, stderr=log)
        try:
            wait_until(lambda: self._lives() and self._ready() == nodes, "all nodes are ready", 0.1)
        except BaseException:
            self._end()
            raise
        with open(self.env["TIDE_DEV_PROFILE"], encoding="utf-8") as profile:
            token = re.search(r'token: *"?([^"\s]+)', profile.read())
        assert token is not None
        self._headers = {"Authorization": f"Bearer {token.group(1)}", "Content-Type": "application/json"}
        self._http = http.client.HTTPConnection("127.0.0.1", port)
        self._connect()
        self._pids = {int(os.path.basename(os.path.dirname(path))): name for name in _PROGRAMS
                      for path in glob.glob("/proc/[0-9]*/exe") if _program(path) == name}

    def _ready(self) -> int:
        return self.tide("nodes", "-o", "json", check=False).count('"ready"')

    def _lives(self) -> bool:
        if self._dev.poll() is not None:
            with open(os.path.join(self.folder, "dev.log"), encoding="utf-8", errors="replace") as log:
                raise SystemExit(f"tide dev ended: {log.read().strip()[-1000:]}")
        return True

    def tide(self, *words: str, check: bool = True) -> str:
        done = subprocess.run([self._tide, *words], env=self.env, cwd=self.folder, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise SystemExit(f"tide {' '.join(words)} failed: {done.stderr.strip()}")
        return done.stdout

    def submit(self, count: int = 1) -> int:
        """Returns the number of the (first) job, which runs `true` on one part of a node."""
        body = json.dumps({"version": 1, "name": "short", "command": ["true"], "count": count,
                           "resources": {"gpus_per_node": 1}})
        status, answer = self.request("POST", "/v1/jobs", body)
        if status != 201:
            raise SystemExit(f"a job was refused: {answer}")
        return int(json.loads(answer)["id"][2:])

    def states(self, first: int, count: int) -> Dict[str, int]:
        """Number of an array's elements by their state."""
        answer = json.loads(self.request("GET", f"/v1/jobs/j-{first}[0-{count - 1}]")[1])
        if "states" not in answer:
            raise SystemExit(f"no states of an array: {answer}")
        return answer["states"]

    def job_word(self, number: int) -> str:
        job = json.loads(self.request("GET", f"/v1/jobs/j-{number}")[1])
        return job["outcome"] or job["state"]

    def request(self, method: str, path: str, body: str = "") -> Tuple[int, str]:
        headers = {**self._headers, "Idempotency-Key": uuid.uuid4().hex}
        for attempt in range(2):
            try:
                self._http.request(method, path, body, headers)
                response = self._http.getresponse()
                return response.status, response.read().decode()
            except (ConnectionError, http.client.HTTPException):
                if attempt > 0:
                    raise
                self._http.close()  # the server ends a connection that was quiet
                self._connect()
        raise AssertionError

    def _connect(self) -> None:
        self._http.connect()
        self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def cpu_seconds(self) -> Dict[str, float]:
        """CPU time of the daemons so far, by program, and of the whole machine."""
        used = dict.fromkeys(_PROGRAMS, 0.0)
        for pid, name in self._pids.items():
            with open(f"/proc/{pid}/stat", encoding="ascii") as source:
                fields = source.read().rsplit(") ", 1)[1].split()
            used[name] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        used["machine"] = busy_seconds()
        return used

    def resident_bytes(self) -> Dict[str, int]:
        """Memory of the daemons by program."""
        used = dict.fromkeys(_PROGRAMS, 0)
        for pid, name in self._pids.items():
            with open(f"/proc/{pid}/statm", encoding="ascii") as source:
                used[name] += int(source.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return used

    def stop(self) -> None:
        self._http.close()
        self._end()

    def _end(self) -> None:
        self._dev.send_signal(signal.SIGINT)
        self._dev.wait()


def _program(exe: str) -> str:
    try:
        return os.path.basename(os.readlink(exe))
    except OSError:
        return ""

