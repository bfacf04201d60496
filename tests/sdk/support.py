"""What the SDK's tests share: temporary folders, ranks as processes, and a small coordinator."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from typing import Callable, Dict, List, Optional

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SDK = os.path.join(ROOT, "sdk", "python")
EXAMPLES = os.path.join(ROOT, "sdk", "examples")
for folder in (SDK, os.path.join(ROOT, "tests")):
    if folder not in sys.path:
        sys.path.insert(0, folder)

from ports import free_port  # noqa: E402, F401  (for those that import it from here)
from tide import Checkpoint, _page  # noqa: E402
from tide._run import Run  # noqa: E402
from tide.checkpoint import _native, format as fmt, lease  # noqa: E402
from tide.checkpoint.__main__ import main as command  # noqa: E402

DEADLINE_S = 60.0
NATIVE = _native.find()
# ctest runs the tests with the native core and without it.
needs_native = unittest.skipIf(NATIVE is None, "the native core is not built, or TIDE_NATIVE=0")
# What looks inside the writer in Python, or expects a save to be over when the call is.
pure_python = unittest.skipIf(NATIVE is not None, "of the writer in Python; TIDE_NATIVE=0 runs it")
# Trainings that say nothing about the writer: one of the two runs leaves them out.
long_training = unittest.skipIf(bool(os.environ.get("TIDE_SDK_SHORT")), "long; TIDE_SDK_SHORT is set")


class TempCase(unittest.TestCase):
    """A test with a folder of its own, self.dir."""

    def setUp(self) -> None:
        self.dir = tempfile.mkdtemp(prefix="tide-sdk-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, *names: str) -> str:
        return os.path.join(self.dir, *names)


def checkpoints_in(folder: str) -> List[str]:
    """The names in a folder of checkpoints, but for what its starts keep for themselves."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def start_of(name: str) -> str:
    """The nonce of a start that make_run() names so."""
    return f"{zlib.crc32(f'{name}:0'.encode()):08x}"


def name_of(step: int, attempt: int = 1, generation: int = 1) -> str:
    """A checkpoint's name, of make_run(attempt=…)."""
    return fmt.directory_name(fmt.Name(step, attempt, start_of(str(attempt)), generation))


def make_run(rank: int = 0, world: int = 1, attempt: Optional[int] = 1, **env: str) -> Run:
    """A run of its own, not the process's."""
    values = {"RANK": str(rank), "WORLD_SIZE": str(world), **env}
    if attempt is not None:
        values["TIDE_ATTEMPT"] = str(attempt)
        values.setdefault("TIDE_START", str(attempt))
    return Run(values)


def lead(folder: str, world: int, attempt: int = 1) -> None:
    """Does rank 0's part at the start of make_run(attempt=…), for tests in which it takes no other."""
    Checkpoint(dir=folder, run=make_run(0, world, attempt)).resume(allow_restart=True)


def release(folder: str) -> None:
    """Lets go of the lease of a folder, as the end of this process would."""
    os.close(lease._held.pop(os.path.realpath(os.path.join(folder, lease.FILE))))


def make_page(path: str) -> _page.Page:
    """A zeroed page with its header, as the agent makes it."""
    with open(path, "wb") as out:
        out.write(_page.MAGIC.to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(_page.PAGE_BYTES - 8))
    return _page.Page.map(path)


def is_locked(path: str) -> bool:
    """As agents ask before they end what is left of a task: whether a saver still lives."""
    if not os.path.exists(path):
        return False
    with open(path, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline_s} s for {what}")
        time.sleep(0.0005)  # tidy: poll


def start_python(arguments: List[str], env: Dict[str, str], **options) -> subprocess.Popen:
    """Runs this interpreter with the SDK and without any other TIDE_ or rank variable."""
    clean = {name: value for name, value in os.environ.items()
             if name == "TIDE_NATIVE" or not name.startswith("TIDE_") and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([sys.executable, *arguments], env={**clean, "PYTHONPATH": SDK, **env}, text=True, **options)


def run_ranks(arguments: List[str], world: int, env: Dict[str, str]) -> "list[tuple[int, str, str]]":
    """Starts `world` ranks and gives (exit code, stdout, stderr) of each."""
    ranks = [start_python(arguments, {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), **env})
             for rank in range(world)]
    try:
        results = []
        for process in ranks:
            out, err = process.communicate(timeout=DEADLINE_S)
            results.append((process.returncode, out, err))
        return results
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
                process.wait()


def coordinate(pages: "list[_page.Page]", order: int, margin: int = 2, deadline: int = 0) -> int:
    """The agents' side of one agreement, as in docs/rank-protocol.md. Returns the step committed."""
    end = time.monotonic() + DEADLINE_S
    while True:
        if time.monotonic() > end:
            raise AssertionError("the coordinator found no step")
        step = max(page.step for page in pages) + 1 + margin
        for page in pages:
            page.at_step = step
            page.deadline = deadline
            page.state = _page.STATE_ARMED
            page.order = order
            page.seq = page.seq + 1
        for page in pages:
            page.fence()
        if all(page.step < step for page in pages) and all(page.refused_seq != page.seq for page in pages):
            for page in pages:
                page.state = _page.STATE_COMMITTED
            return step


def withdraw(pages: "list[_page.Page]") -> None:
    for page in pages:
        page.order = _page.ORDER_NONE
        page.state = _page.STATE_IDLE


@contextlib.contextmanager
def captured_stderr():
    saved, sys.stderr = sys.stderr, io.StringIO()
    try:
        yield sys.stderr
    finally:
        sys.stderr = saved


def told(arguments: List[str]) -> "tuple[int, str]":
    """(exit code, output) of python3 -m tide.checkpoint."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        return command(arguments), out.getvalue()
