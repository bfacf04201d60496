"""Staging slots: memory that this rank shares with its saver (sdk/native/slot.h).

  0     control page
  4096  the data file's content, then zeros up to the next page, then the ticket
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from typing import List, Optional, Tuple

from .._errors import warn
from ._native import Cuda, Native, threads
from .device import DeviceBytes
from .format import Layout
from .plan import Plan, Taken

PAGE_BYTES = 4096
SLOTS = 2
OPEN, CALLED_OFF = 0, 2  # the slot's verdict; 1: published by the saver
# A slot gets this much more than asked for: tickets grow, and a new slot costs fresh memory.
_SPARE = 1 / 32
_GRAIN_BYTES = 2 << 20
# Left of the memory that the job or the machine has.
_LEAVE_SHARE = 0.1


class Slot:
    """One memfd, mapped. Filled and given back by the training thread."""

    def __init__(self, index: int, nbytes: int) -> None:
        """Errors: OSError where there is no memory."""
        self.index, self.nbytes = index, nbytes
        self._registered: Optional[Tuple[Cuda, int]] = None
        self.fd = -1
        self.fd = os.memfd_create(f"tide-slot-{index}", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, nbytes)
        self._map = mmap.mmap(self.fd, nbytes)
        self.memory = memoryview(self._map)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.busy = False

    def register(self, cuda: Cuda, device: int) -> None:
        """Lets devices write into it by themselves. Where the driver refuses, copies are slower and no worse."""
        if self._registered is None and cuda.register(device, self.address, self.nbytes):
            self._registered = cuda, device

    def close(self) -> None:
        """Gives the file back; the mapping goes with the last user of its memory."""
        if self._registered is not None:
            cuda, device = self._registered
            self._registered = None
            cuda.unregister(device, self.address)
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()

    def fill(self, layout: Layout, ticket: bytes, native: Native) -> None:
        """Copies everything in. The slot is at least slot_bytes(layout, ticket) long."""
        self._begin(layout.header)
        position = PAGE_BYTES + len(layout.header)
        spans = []
        on_device = []
        for entry in layout.entries:
            if isinstance(entry.data, DeviceBytes):
                on_device.append((position, entry.data))
            elif entry.address:
                spans.append((self.address + position, entry.address, entry.data.nbytes))
            else:
                self.memory[position:position + entry.data.nbytes] = entry.data
            position += entry.data.nbytes
        self._fill_from_devices(on_device, native)
        native.copy(spans, threads())
        self._end(position, ticket)

    def fill_planned(self, plan: Plan, taken: Taken, ticket: bytes, native: Native) -> None:
        """The same by a plan, with what it has taken."""
        self._begin(plan.header)
        native.copy_flat(plan.spans(taken, self.address + PAGE_BYTES), threads())
        self._end(PAGE_BYTES + plan.nbytes, ticket)

    def _begin(self, header: bytes) -> None:
        ctypes.c_uint32.from_address(self.address).value = OPEN
        self.memory[PAGE_BYTES:PAGE_BYTES + len(header)] = header

    def _end(self, position: int, ticket: bytes) -> None:
        end = _rounded(position, PAGE_BYTES)
        self.memory[position:end] = bytes(end - position)
        self.memory[end:end + len(ticket)] = ticket

    def _fill_from_devices(self, places: "List[Tuple[int, DeviceBytes]]", native: Native) -> None:
        if not places:
            return
        cuda = native.cuda()
        if cuda is None or not cuda.copy([(self.address + position, data.address, data.nbytes, data.stream, data.device)
                                          for position, data in places]):
            for position, data in places:
                self.memory[position:position + data.nbytes] = bytes(data)


def slot_bytes(layout_bytes: int, ticket_bytes: int) -> int:
    return PAGE_BYTES + _rounded(layout_bytes, PAGE_BYTES) + ticket_bytes


class Slots:
    """The slots of one rank. They are made when first needed and kept."""

    def __init__(self, native: Native) -> None:
        self._native = native
        self._slots: List[Optional[Slot]] = [None] * SLOTS
        self._warned = False
        self._preparing: Optional[threading.Thread] = None

    def take(self, nbytes: int) -> "tuple[Optional[Slot], bool]":
        """(a free slot of at least nbytes or None, whether one is free or memory is missing).

        The slot counts as busy until it is given back with `slot.busy = False`.
        """
        free = [index for index, slot in enumerate(self._slots) if slot is None or not slot.busy]
        if not free:
            return None, False
        # One that is large enough first: its pages are there already.
        fitting = (slot for slot in (self._slots[index] for index in free) if slot is not None and slot.nbytes >= nbytes)
        slot = next(fitting, None) or self._make(free[0], nbytes)
        if slot is not None:
            slot.busy = True
        return slot, True

    def prepare(self, nbytes: int, device: Optional[int] = None, wait: bool = False) -> None:
        """Makes the pages of all slots ready in a thread of its own, so that no save has to wait for fresh memory.

          device: a GPU that they will be filled from.   wait: until they are.
        """
        if self._preparing is not None:
            self._preparing.join()
        made = [slot for slot in (self._large_enough(index, nbytes) for index in range(SLOTS)) if slot]

        cuda = None if device is None else self._native.cuda()

        def populate() -> None:
            for slot in made:
                if not self._native.populate(slot.address, slot.nbytes):
                    return
                if cuda is not None:
                    slot.register(cuda, device or 0)

        self._preparing = threading.Thread(target=populate, name="tide-populate", daemon=True)
        self._preparing.start()
        if wait:
            self._preparing.join()

    def _large_enough(self, index: int, nbytes: int) -> Optional[Slot]:
        slot = self._slots[index]
        return slot if slot is not None and (slot.busy or slot.nbytes >= nbytes) else self._make(index, nbytes)

    def _make(self, index: int, nbytes: int) -> Optional[Slot]:
        wanted = _rounded(int(nbytes * (1 + _SPARE)), _GRAIN_BYTES)
        old = self._slots[index]
        if old is not None:
            old.close()
            self._slots[index] = None
        room = _available_bytes()
        if room is not None and room * (1 - _LEAVE_SHARE) < wanted:
            self._say(f"{wanted >> 20} MiB of memory for staging are not there ({room >> 20} MiB are left)")
            return None
        try:
            self._slots[index] = Slot(index, wanted)
        except OSError as error:
            self._say(f"cannot stage {wanted >> 20} MiB: {error.strerror}")
        return self._slots[index]

    def _say(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            warn(f"{why}; checkpoints are written while training waits")


def _rounded(nbytes: int, unit: int) -> int:
    return -(-nbytes // unit) * unit


def _available_bytes() -> Optional[int]:
    """What this process may still allocate: of the machine, and of its control group. None if that is not known."""
    rooms = [room for room in (_machine_room(), _group_room()) if room is not None]
    return min(rooms) if rooms else None


def _machine_room() -> Optional[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as source:
            for line in source:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _group_room() -> Optional[int]:
    try:
        with open("/proc/self/cgroup", encoding="ascii") as source:
            path = next(line.split("::", 1)[1].strip() for line in source if line.startswith("0::"))
        folder = "/sys/fs/cgroup" + path
        limit = _read(folder, "memory.max")
        if limit == "max":
            return None
        # The page cache that the group has filled is given up for new memory.
        stat = dict(line.split() for line in _read(folder, "memory.stat").splitlines())
        return int(limit) - int(_read(folder, "memory.current")) + int(stat["inactive_file"]) + int(stat["active_file"])
    except (OSError, ValueError, StopIteration, KeyError):
        return None


def _read(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="ascii") as source:
        return source.read().strip()
