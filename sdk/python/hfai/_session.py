"""How the ranks of an old script leave together when only one of them was asked.

The agents agree at once on a step that no old script ever reaches, for it counts none: so the order is committed on
the pages of all ranks. Rank 0 looks at its page, saves, and says go. The others are in a collective that never ends,
so a thread of theirs watches: once the order is there, it looks for a note in the checkpoint folder that rank 0 leaves
when it goes. The note names a moment a little later. Then every rank acknowledges and exits with 85, wherever its
program is. One whose program fails meanwhile, because a peer is already gone, does the same instead of failing.

Old scripts save where they like, so their job may have no checkpoint folder that all nodes see. Rank 0 therefore says
go in the store of torch.distributed as well; any process that finds it there leaves the note for its own node.

One process of each rank owns the page: the first that imports hfai. Workers that it starts (one per GPU, in the usual
script) only look; they end with it.
"""

from __future__ import annotations

import atexit
import glob
import json
import os
import sys
import threading
import time
from typing import Any, Optional

import tide
from tide import _files, _page
from tide._errors import warn
from tide._state import State

from . import _store

OWNER = "TIDE_HFAI_OWNER"
LOOK_AT_PAGE_S = 0.1
LOOK_FOR_NOTE_S = 0.05      # once the order is there
LOOK_UNASKED_S = 10.0       # a script may go without having been asked
# From the note to the exits: what every watcher needs to see it.
MARGIN_S = 0.5
MARGIN_MANY_NODES_S = 1.5   # some look into the store
LOOK_INTO_STORE_S = 1.0     # one process answers all of them
MARGIN_UNASKED_S = LOOK_UNASKED_S + 1.0
# A program that failed under an order may know before the file server shows the note.
FAILED_WAIT_S = 5.0
END_WAIT_S = 60.0
CLOCKS_DIFFER_S = 60.0


class Session:
    """This process's side of its rank's suspension. Thread safe."""

    def __init__(self, env: "os._Environ[str] | dict[str, str]") -> None:
        """env: has TIDE_PAGE. Errors: tide.TideError if the page cannot be mapped."""
        self.owner = OWNER not in env
        if self.owner:
            self._run: Optional[tide.Run] = tide.attach()
            self._page = self._run.page
            env[OWNER] = str(os.getpid())
        else:
            self._run = None
            self._page = _page.Page.map(env["TIDE_PAGE"])
        self._pid = os.getpid()
        self.on_first_node = int(env.get("NODE_RANK") or 0) == 0
        self._margin_s = MARGIN_MANY_NODES_S if int(env.get("NNODES") or 1) > 1 else MARGIN_S
        self.folder = os.path.abspath(env.get("TIDE_CHECKPOINT_DIR") or "checkpoints")
        self.state = State(self.folder)
        self._job, attempt = env.get("TIDE_JOB_ID", ""), env.get("TIDE_ATTEMPT") or "0"
        self._note = os.path.join(self.folder, f"hfai-go-{self._job}-{attempt}.json")
        self._started_at = time.time()
        if self.owner:
            if env.get("RANK", "0") == "0":
                self._remove_old_notes()
            self._install_hooks()
            threading.Thread(target=self._watch, name="hfai-watch", daemon=True).start()
        if not self.on_first_node:
            threading.Thread(target=self._relay, name="hfai-relay", daemon=True).start()

    @property
    def run(self) -> Optional[tide.Run]:
        """The rank's run in the process that owns it, else None. A forked child owns nothing."""
        return self._run if os.getpid() == self._pid else None

    def asked(self) -> bool:
        """True once every rank has the order to save and leave."""
        order = self._page.read_order()
        return order.order == _page.ORDER_STOP or (order.order == _page.ORDER_SUSPEND
                                                   and order.state == _page.STATE_COMMITTED)

    def note_saving(self) -> None:
        """Shows on the page that this rank saves."""
        if self.run is not None:
            self._page.phase = _page.PHASE_SAVING

    def go(self) -> None:
        """Tells all ranks to leave, and leaves with them. Does not return.

        Ranks that neither the note nor the store reaches stay until the deadline, when the agents end them.
        """
        margin_s = self._margin_s if self.asked() else MARGIN_UNASKED_S
        leave_at = time.time() + margin_s
        try:
            self._write_note(leave_at)
        except OSError as error:
            warn(f"hfai: cannot tell the other ranks to leave: {error.strerror} ({self._note})")
        _store.post(leave_at)
        time.sleep(max(0.0, leave_at - time.time()))
        if self.run is None:
            self.await_end()
        self._leave()

    def await_end(self) -> None:
        """For a worker whose rank is leaving: the owner's exit ends it. Does not return."""
        time.sleep(END_WAIT_S)
        self._leave()

    def _leave(self) -> None:
        """Acknowledges and exits with 85."""
        if self.run is None:
            os._exit(tide.EXIT_SUSPENDED)
        page = self._page
        page.ack_seq = page.seq
        page.phase = _page.PHASE_SAVED
        page.fence()
        self.run.exit()

    def _watch(self) -> None:
        unasked_at = time.monotonic()
        while True:
            asked = self.asked()
            if asked or time.monotonic() - unasked_at >= LOOK_UNASKED_S:
                unasked_at = time.monotonic()
                self._leave_at_note()
            time.sleep(LOOK_FOR_NOTE_S if asked else LOOK_AT_PAGE_S)

    def _relay(self) -> None:
        """Leaves the note for this node once the store has it. A thread of its own: a store may not answer."""
        unasked_at = time.monotonic()
        while True:
            asked = self.asked()
            if asked or time.monotonic() - unasked_at >= LOOK_UNASKED_S:
                unasked_at = time.monotonic()
                leave_at = _store.read()
                if leave_at is not None:
                    self._pass_on(leave_at)
                    return
            time.sleep(LOOK_INTO_STORE_S if asked else LOOK_AT_PAGE_S)

    def _pass_on(self, leave_at: float) -> None:
        try:
            if self._read_note() is None:
                self._write_note(leave_at)
        except OSError as error:
            warn(f"hfai: cannot tell this node's ranks to leave: {error.strerror} ({self._note})")

    def _leave_at_note(self) -> None:
        leave_at = self._read_note()
        if leave_at is not None:
            # Bounded, for the clocks of two nodes may differ by more.
            time.sleep(min(max(0.0, leave_at - time.time()), MARGIN_UNASKED_S))
            self._leave()

    def _install_hooks(self) -> None:
        before = sys.excepthook

        def on_error(kind: Any, error: Any, trace: Any) -> None:
            self._leave_if_gone(FAILED_WAIT_S if self.on_first_node and self.asked() else 0.0)
            before(kind, error, trace)
            # Ranks of other nodes have nothing that is saved, and fail under the order because peers went. Whether
            # the job is suspended or failed is decided by the exits on the first node.
            if self.run is not None and not self.on_first_node and self.asked():
                self._leave()

        sys.excepthook = on_error
        atexit.register(self._leave_if_gone)

    def _leave_if_gone(self, wait_s: float = 0.0) -> None:
        """At the end of the program: leaves as suspended if rank 0 has said go, or says it within `wait_s`."""
        if self.run is None:
            return
        give_up_at = time.monotonic() + wait_s
        while self._read_note() is None:
            if time.monotonic() >= give_up_at:
                return
            time.sleep(LOOK_FOR_NOTE_S)
        self._leave()

    def _read_note(self) -> Optional[float]:
        try:
            with open(self._note, encoding="ascii") as source:
                leave_at = float(json.load(source)["leave_at"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        # A job of the same number, of a scheduler whose database was lost, may have left one in the same folder.
        return leave_at if leave_at > self._started_at - CLOCKS_DIFFER_S else None

    def _write_note(self, leave_at: float) -> None:
        os.makedirs(self.folder, exist_ok=True)
        _files.write_durably(self._note, json.dumps({"leave_at": leave_at}).encode())

    def _remove_old_notes(self) -> None:
        pattern = os.path.join(glob.escape(self.folder), f"hfai-go-{glob.escape(self._job)}-*")
        for old in glob.glob(pattern):
            try:
                os.unlink(old)
            except OSError:
                pass


def simulated() -> bool:
    """True where the script rehearses on one machine, as it did on the HAI Platform: HFAI_SIMULATE=1."""
    return os.environ.get("HFAI_SIMULATE", "0") == "1"


# What a rank is told lies on its page, so there is one session a process, from the import on.
current: Optional[Session] = Session(os.environ) if os.environ.get("TIDE_PAGE") and not simulated() else None
