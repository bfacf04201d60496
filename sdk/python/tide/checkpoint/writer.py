"""Writing a checkpoint: every rank its data file and part, rank 0 the commit.

Replicated tensors are equal on all ranks and stored once: rank r writes the r-th 1/N of the bytes of their
concatenation in name order, cut at element borders. Buffers of torch modules differ between the ranks of a
DistributedDataParallel model, whose next forward pass takes rank 0's: those are rank 0's alone. Of a Shard each rank
writes its own box.

Whoever removes a rank's part decides about it, for a name can be removed only once: rank 0, which then writes the
manifest, or the rank itself, which gives up. So no manifest appears after a rank has given up, and no rank gives up
what is about to be committed.
"""

from __future__ import annotations

import math
import os
import time
import zlib
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .. import _files
from .._errors import CheckpointError, DamagedError, first_line, warn
from . import format as fmt
from .merge import Part, Shared, merge
from .sections import RANKS, Row, Section, pack
from .state import SHARDED, Captured, capture, states_of
from .tensors import ITEM_BYTES, View, count

# Rank 0 has one small file left to write once it has taken the parts.
DECIDED_GRACE_S = 30.0
_FIRST_NAP_S = 0.0005
_LONGEST_NAP_S = 0.02
# At a thousand ranks all of them together ask the file system no more than a few thousand times a second.
_RANKS_AT_ONCE = 64
SHARED_FILE = "shared.json"


class RemovedError(CheckpointError):
    """The folder of a save is gone, which the other ranks find, too: it must not be made again for a mark."""


class Identity(NamedTuple):
    """Which checkpoint, by whom. directory: the checkpoint's own folder; attempt, start: as in its name."""

    directory: str
    job: str
    step: int
    attempt: int
    start: str
    rank: int
    world: int


class Groups(NamedTuple):
    """The program's objects by how they are distributed. compared: whether ranks compare what is replicated."""

    replicated: Mapping[str, Any]
    local: Mapping[str, Any]
    global_: Mapping[str, Any]
    sharded: Mapping[str, Any]
    compared: bool = False

    @property
    def objects(self) -> "Tuple[Mapping[str, Any], ...]":
        return self.replicated, self.local, self.global_, self.sharded


def is_committed(directory: str) -> bool:
    """True if the folder has a manifest that is whole."""
    return committed_bytes(directory) is not None


def committed_bytes(directory: str) -> Optional[int]:
    """The size on record of what is committed there, None if nothing is."""
    try:
        with open(os.path.join(directory, fmt.MANIFEST), "rb") as manifest:
            return int(fmt.unseal(manifest.read(), directory).get("bytes", 0))
    except (FileNotFoundError, NotADirectoryError, DamagedError):
        return None


class Held(NamedTuple):
    """A tensor that one rank knows of. view: its memory, which must stay; shape: of the whole; place: what of it this
    rank stores, as the manifest has it: {"range": …} or {"box": …}, None: nothing."""

    view: View
    shape: Tuple[int, ...]
    place: Optional[Dict[str, Any]]


class Gathered(NamedTuple):
    """What one rank stores. tensors: {entry name: Held}; boxed: names of those of them that ranks hold in boxes, sorted; shared:
    {group: {object: tree}} that all ranks know; digests: {entry name: CRC-32} of the tensors of which it stores a share, empty
    where ranks do not compare."""

    layout: fmt.Layout
    tensors: Dict[str, Held]
    boxed: List[str]
    local: Dict[str, Any]
    shared: Dict[str, Dict[str, Any]]
    digests: Dict[str, str]


class PartText(NamedTuple):
    """A part before its data file is written. head, tail: the JSON around the CRCs of the data file, without the last brace;
    shared, section: format.py."""

    head: str
    tail: str
    shared: bytes
    section: Section


def fetch(rank: int, groups: Groups) -> Dict[str, Dict[str, Any]]:
    """{group: {object: what is to be stored of it}}, of what this rank stores. Asks each object once. Errors: CheckpointError."""
    states = {"local": states_of(groups.local), "replicated": states_of(groups.replicated), SHARDED: states_of(groups.sharded)}
    return {**states, "global": states_of(groups.global_)} if rank == 0 else states


def gather(rank: int, world: int, groups: Groups, states: "Optional[Dict[str, Dict[str, Any]]]" = None) -> Gathered:
    """Looks at the program's objects; copies no tensor that is in main memory.

      states: of fetch(); default: they are fetched.   Errors: CheckpointError.
    """
    states = fetch(rank, groups) if states is None else states
    replicated = capture("replicated", groups.replicated, states["replicated"])
    sharded = capture(SHARDED, groups.sharded, states[SHARDED])
    mine = capture(f"local/{rank:05d}", groups.local, states["local"])
    leader = rank == 0
    shared = capture("global", groups.global_, states["global"]) if leader else Captured({}, {}, {}, frozenset())

    held: Dict[str, Held] = {}
    entries: List[fmt.Entry] = []

    def hold(name: str, item: View, first: int, last: int) -> None:
        held[name] = Held(item, item.shape, {"range": [first, last]})
        entries.append(_entry(name, item, first, last))

    whole = {name: item for found in (replicated.found, sharded.found) for name, item in found.items()
             if name not in sharded.shards}
    buffers = replicated.buffers | (sharded.buffers - sharded.shards.keys())
    shared_out = {name: item for name, item in whole.items() if name not in buffers}
    for name, bounds in share(shared_out, rank, world).items():
        hold(name, whole[name], *bounds)
    for name in sorted(buffers) if leader else ():
        hold(name, whole[name], 0, count(whole[name].shape))
    for name, item in {**mine.found, **shared.found}.items():
        hold(name, item, 0, count(item.shape))
    for name, shard in sharded.shards.items():
        item = sharded.found[name]
        stores = shard.replica == 0 and item.data.nbytes > 0
        held[name] = Held(item, shard.shape, {"box": [list(side) for side in shard.box]} if stores else None)
        if stores:
            entries.append(_entry(name, item, 0, count(item.shape)))
    digests = {name: fmt.digest(item.data) for name, item in shared_out.items()} if groups.compared else {}
    return Gathered(fmt.lay_out(rank, entries), held, sorted(sharded.shards), mine.trees,
                    {"replicated": replicated.trees, "global": shared.trees, SHARDED: sharded.trees}, digests)


_CRC_MARK = '"crc32":[]'


def part_of(identity: Identity, gathered: Gathered, file: str) -> PartText:
    """The part of this rank, whose data goes to `file`."""
    tail, shared, text = (fmt.to_json(document) for document in documents(identity, gathered, file))
    # The CRCs are known once the data has been written; they come between the two.
    return PartText(part_head(identity, file, gathered.layout.bytes), tail_of(tail), shared.encode(),
                    Section(text.encode(), table_of(gathered)))


def documents(identity: Identity, gathered: Gathered, file: str) -> "Tuple[Dict[str, Any], Dict[str, Any], Dict[str, Any]]":
    """(the part's last members, what ranks share, the section's text), as format.py has them."""
    offsets = gathered.layout.offsets
    lengths = {entry.name: entry.data.nbytes for entry in gathered.layout.entries}
    ranges, mine = {}, {}
    for name, item in gathered.tensors.items():
        if item.place is None or "range" not in item.place:
            continue
        if name.startswith("local/"):
            mine[name] = {"dtype": item.view.dtype, "shape": list(item.shape), "offset": offsets[name]}
        else:
            ranges[name] = {"dtype": item.view.dtype, "shape": list(item.shape), "parts": [
                {"file": file, "offset": offsets[name], "length": lengths[name], **item.place}]}
    boxed = {name: {"dtype": gathered.tensors[name].view.dtype, "shape": list(gathered.tensors[name].shape)} for name in gathered.boxed}
    shared = gathered.shared
    return ({"tensors": ranges, "global": shared["global"], **({"digests": gathered.digests} if gathered.digests else {})},
            {"replicated": shared["replicated"], SHARDED: shared[SHARDED], "boxes": boxed},
            {"file": file, "local": gathered.local, "tensors": mine})


def table_of(gathered: Gathered) -> bytes:
    """The rows of the boxes that this rank stores."""
    rows = []
    for number, name in enumerate(gathered.boxed):
        place = gathered.tensors[name].place
        if place is not None:
            rows.append(Row(number, gathered.layout.offsets[name], tuple((first, last) for first, last in place["box"])))
    return pack(rows)


def part_head(identity: Identity, file: str, nbytes: int) -> str:
    """The first members of a part, up to the CRCs of the data file."""
    head = fmt.to_json({"format": fmt.FORMAT, "step": identity.step, "attempt": identity.attempt, "start": identity.start,
                        "world": identity.world, "rank": identity.rank, "files": {file: {"bytes": nbytes, "crc32": []}}})
    return head[:head.rindex(_CRC_MARK)] + _CRC_MARK[:-2]


def tail_of(document: str) -> str:
    """The last members of a part, from behind the CRCs on, without the last brace."""
    return "}}," + document[1:-1]


def write_part(identity: Identity, groups: Groups) -> int:
    """Writes this rank's data file, durably, and then the part that describes it. Returns bytes written."""
    gathered = gather(identity.rank, identity.world, groups)
    os.makedirs(identity.directory, exist_ok=True)
    file = fmt.free_name(identity.directory, identity.rank)
    part = part_of(identity, gathered, file)
    offer_shared(identity, part.shared)
    record = fmt.write_data_file(identity.directory, identity.rank, file, gathered.layout)
    content = part_bytes(part, record["crc32"], is_here=not is_offered(identity, part.shared))
    # The data file's name has to be durable before rank 0 may commit. The part need not: it ends with the commit, and without one it
    # counts for nothing.
    _files.sync_directory(identity.directory)
    _files.replace(part_path(identity.directory, identity.rank), content)
    return record["bytes"]


def part_bytes(part: PartText, crcs: Sequence[str], is_here: bool) -> bytes:
    """The whole part. crcs: of the data file; is_here: whether it holds what ranks share."""
    described = {"shared": {"bytes": len(part.shared), "crc32": f"{zlib.crc32(part.shared):08x}", "is_here": is_here},
                 "section": part.section.record}
    line = fmt.seal_text(fmt.to_json(list(crcs)).join((part.head, part.tail)) + "," + fmt.to_json(described)[1:-1])
    return line + (part.shared if is_here else b"") + part.section.text + part.section.table


def offer_shared(identity: Identity, shared: bytes) -> None:
    """Rank 0, at the beginning: lets the other ranks see what it has, so that they need not write the same."""
    if identity.rank == 0 and identity.world > 1:
        _files.replace(os.path.join(identity.directory, SHARED_FILE), shared)


def is_offered(identity: Identity, shared: bytes) -> bool:
    """True where rank 0 has offered the same bytes. Its own part holds them in any case."""
    if identity.rank == 0:
        return False
    try:
        with open(os.path.join(identity.directory, SHARED_FILE), "rb") as source:
            return source.read(len(shared) + 1) == shared
    except OSError:
        return False


def share(found: Mapping[str, View], rank: int, world: int) -> Dict[str, Tuple[int, int]]:
    """{tensor name: (first, last+1 element)} that `rank` of `world` stores. Empty tensors belong to rank 0."""
    names = sorted(found)
    total = sum(found[name].data.nbytes for name in names)
    begin, end = total * rank // world, total * (rank + 1) // world
    mine: Dict[str, Tuple[int, int]] = {}
    start = 0
    for name in names:
        size, item = found[name].data.nbytes, ITEM_BYTES[found[name].dtype]
        # Both borders are rounded down the same way, so that neighbours meet exactly.
        first = min(max(begin - start, 0), size) // item
        last = min(max(end - start, 0), size) // item
        if last > first or (size == 0 and rank == 0):
            mine[name] = (first, last)
        start += size
    return mine


def commit(identity: Identity, deadline: float, hurry: Callable[[], float] = lambda: math.inf) -> int:
    """Rank 0: waits for all parts, writes the manifest. Returns the checkpoint's bytes.

      deadline: time.monotonic() seconds.   hurry: the same, asked while it waits: something may come up.
      Errors: CheckpointError naming the ranks that did not write in time, that failed, or that disagree.
    """
    known = committed_bytes(identity.directory)
    if known is not None:  # by a saver that has ended since; its sections must stay
        _files.remove_quietly(part_path(identity.directory, identity.rank))
        return known
    parts = _collect(identity, deadline, hurry)
    manifest = merge(identity, parts)
    _files.write_durably(os.path.join(identity.directory, RANKS), b"".join(half for part in parts for half in part.section))
    _files.remove_quietly(os.path.join(identity.directory, SHARED_FILE))
    _take_parts(identity)
    try:
        _files.write_durably(os.path.join(identity.directory, fmt.MANIFEST), fmt.seal(manifest))
        _files.sync_directory(os.path.dirname(identity.directory))
    except OSError as error:
        # A manifest in its place counts: other ranks may have seen it, and left.
        if not is_committed(identity.directory):
            raise
        warn(f"{identity.directory} is committed, but may not survive a power failure: {first_line(error)}")
    return manifest["bytes"]


def await_commit(identity: Identity, deadline: float) -> None:
    """Other ranks: waits until rank 0 has committed.

      deadline: time.monotonic() seconds. What rank 0 has taken by then is waited for DECIDED_GRACE_S longer.
      Errors: CheckpointError if rank 0 failed or did not come in time. A commit can follow only where the grace ran
      out or this rank's part could not be removed.
    """
    nap_s, mine = _FIRST_NAP_S, True
    while not is_committed(identity.directory):
        if has_failed(identity, 0):
            raise CheckpointError(f"{identity.directory}: rank 0 could not commit; its log says why")
        # Rank 0 has gone on: with a later commit it removes what it gave up, and its mark with it.
        if not os.path.lexists(identity.directory):
            raise RemovedError(f"{identity.directory} was removed while it was written")
        if time.monotonic() >= deadline:
            if not mine or withdraw(identity):
                raise CheckpointError(f"{identity.directory}: not committed in time; waited for rank 0 to write "
                                      f"{fmt.MANIFEST}; its log says why")
            mine, deadline = False, time.monotonic() + DECIDED_GRACE_S
        time.sleep(nap_s)
        nap_s = min(nap_s * 2, _LONGEST_NAP_S * max(1, identity.world // _RANKS_AT_ONCE))


def withdraw(identity: Identity) -> bool:
    """Takes this rank's part back. True: the checkpoint cannot be committed now. False: rank 0 was first, or the
    file system refused."""
    try:
        os.unlink(part_path(identity.directory, identity.rank))
        return True
    except OSError:
        return False


def mark_failed(identity: Identity) -> None:
    """Tells the ranks that wait for this one to stop waiting, also where it has written nothing yet. Best effort: the same disk
    may be full."""
    try:
        os.makedirs(identity.directory, exist_ok=True)
        with open(failed_path(identity.directory, identity.rank), "wb"):
            pass
    except OSError:
        pass


def has_failed(identity: Identity, rank: int) -> bool:
    """True if `rank` gave this save up."""
    return os.path.lexists(failed_path(identity.directory, rank))


def part_path(directory: str, rank: int) -> str:
    return os.path.join(directory, f"part-{rank:05d}")


def failed_path(directory: str, rank: int) -> str:
    return os.path.join(directory, f"failed-{rank:05d}")


def _entry(name: str, item: View, first: int, last: int) -> fmt.Entry:
    size = ITEM_BYTES[item.dtype]
    shape = item.shape if last - first == count(item.shape) else (last - first,)
    address = item.address + first * size if item.address else 0
    return fmt.Entry(name, item.dtype, shape, item.data[first * size:last * size], address)


def _collect(identity: Identity, deadline: float, hurry: Callable[[], float]) -> List[Part]:
    parts: Dict[int, Part] = {}
    nap_s = _FIRST_NAP_S
    while True:
        for rank in range(identity.world):
            if rank not in parts:
                part = _read_part(identity, rank)
                if part is not None:
                    parts[rank] = part
        missing = [rank for rank in range(identity.world) if rank not in parts]
        if not missing:
            return [parts[rank] for rank in range(identity.world)]
        # Nobody but this rank takes its part away while it collects.
        if not os.path.lexists(part_path(identity.directory, identity.rank)):
            raise _part_gone(identity)
        failed = [rank for rank in missing if has_failed(identity, rank)]
        if failed:
            raise CheckpointError(f"{identity.directory}: {ranks_text(failed)} could not write; their logs say why")
        if time.monotonic() >= min(deadline, hurry()):
            raise CheckpointError(f"{identity.directory}: {ranks_text(missing)} of {identity.world} did not write in time")
        time.sleep(nap_s)
        nap_s = min(nap_s * 2, _LONGEST_NAP_S * max(1, identity.world // _RANKS_AT_ONCE))


def _part_gone(identity: Identity) -> CheckpointError:
    return CheckpointError(f"{part_path(identity.directory, identity.rank)} is gone; see what else removes files in this folder")


def _take_parts(identity: Identity) -> None:
    """Errors: CheckpointError if a rank gave up meanwhile. Those whose parts are taken then wait for the mark."""
    for rank in range(identity.world):
        try:
            os.unlink(part_path(identity.directory, rank))
        except FileNotFoundError:
            raise _part_gone(identity) if rank == identity.rank else CheckpointError(
                f"{identity.directory}: rank {rank} gave up waiting; its log says why") from None


def _read_part(identity: Identity, rank: int) -> "Part | None":
    try:
        with open(part_path(identity.directory, rank), "rb") as source:
            data = source.read()
        head = fmt.unseal(data[:data.index(b"\n") + 1], source.name)
        # A part of another start, or of another size of this one, is not what is waited for; its rank will replace it.
        if (head["format"], head["world"], head.get("start")) != (fmt.FORMAT, identity.world, identity.start):
            return None
        return _split(head, data[data.index(b"\n") + 1:])
    except (FileNotFoundError, ValueError, DamagedError):
        return None


def _split(head: Dict[str, Any], rest: bytes) -> "Part | None":
    shared, record = head["shared"], head["section"]
    begin = shared["bytes"] if shared["is_here"] else 0
    middle = begin + record["text"]
    section = Section(rest[begin:middle], rest[middle:])
    if section.record != record or (begin and f"{zlib.crc32(rest[:begin]):08x}" != shared["crc32"]):
        return None
    return Part(head, Shared(shared["bytes"], shared["crc32"], rest[:begin] if begin else None), section)


def ranks_text(ranks: Sequence[int]) -> str:
    """"rank 3", "ranks 1, 2", with no more than the first eight."""
    shown = ", ".join(str(rank) for rank in ranks[:8]) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
    return ("rank " if len(ranks) == 1 else "ranks ") + shown
