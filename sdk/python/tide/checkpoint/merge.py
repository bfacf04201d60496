"""The ranks' parts put together to a manifest; in C++: sdk/native/manifest.cc, byte for byte the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence

from .._errors import CheckpointError
from . import boxes
from . import format as fmt
from .sections import Row, Section, unpack
from .tensors import count

if TYPE_CHECKING:
    from .writer import Identity

_ADVICE = {"replicated": "give what differs between ranks under local=",
           "sharded": "give all ranks the same names and values; where a rank holds nothing of a tensor, a Shard without "
                      "elements"}


class Shared(NamedTuple):
    """The state in which ranks agree, as a part has it. content: None where it is that of rank 0."""

    nbytes: int
    crc32: str
    content: Optional[bytes]


class Part(NamedTuple):
    """One rank's part. head: its JSON."""

    head: Dict[str, Any]
    shared: Shared
    section: Section


def merge(identity: "Identity", parts: Sequence[Part]) -> Dict[str, Any]:
    """The manifest, not sealed, of the parts of all ranks in order.

      Errors: CheckpointError where ranks disagree, or do not hold every element of a tensor exactly once.
    """
    first = parts[0].shared
    if first.content is None:
        raise CheckpointError(f"{identity.directory}: rank 0's part lacks what ranks share")
    agreed = json.loads(first.content)
    tensors: Dict[str, Any] = {}
    files: Dict[str, Any] = {}
    for rank, part in enumerate(parts):
        if part.shared.content is None and part.shared[:2] != first[:2]:
            raise CheckpointError(f"{identity.directory}: ranks 0 and {rank} have different state; {_ADVICE['replicated']}")
        if part.shared.content is not None and part.shared.content != first.content:
            _require_agreed(identity, agreed, json.loads(part.shared.content), rank)
        _compare(identity, part.head.get("digests", {}), parts[0].head.get("digests", {}), rank)
        files.update(part.head["files"])
        for name, item in part.head["tensors"].items():
            known = tensors.setdefault(name, {**item, "parts": []})
            if (known["dtype"], known["shape"]) != (item["dtype"], item["shape"]):
                raise CheckpointError(_disagreement(identity, name, known, item, rank))
            known["parts"].extend(item["parts"])
    flaws = (flaw for flaw in (*(_settle(name, item) for name, item in tensors.items()), *_box_flaws(agreed["boxes"], parts)) if flaw)
    for flaw in flaws:
        raise CheckpointError(f"{identity.directory}: {flaw}")
    return {"format": fmt.FORMAT, "job": identity.job, "attempt": identity.attempt, "start": identity.start,
            "step": identity.step, "world": identity.world, "bytes": sum(record["bytes"] for record in files.values()),
            "chunk_bytes": fmt.CHUNK_BYTES, "files": files, "tensors": tensors, "boxes": agreed["boxes"],
            "objects": {"replicated": agreed["replicated"], "global": parts[0].head["global"], "sharded": agreed["sharded"]},
            "sections": [part.head["section"] for part in parts]}


def _require_agreed(identity: "Identity", first: Dict[str, Any], other: Dict[str, Any], rank: int) -> None:
    for group, advice in _ADVICE.items():
        # Compared as text: nan is not equal to itself, its stored form is.
        if json.dumps(other[group], sort_keys=True) != json.dumps(first[group], sort_keys=True):
            raise CheckpointError(f"{identity.directory}: ranks 0 and {rank} have different {group} state; {advice}")
    for name in sorted({**first["boxes"], **other["boxes"]}):
        if name not in first["boxes"] or name not in other["boxes"]:
            raise CheckpointError(f"{identity.directory}: {name} is a tide.Shard on some ranks and a whole tensor on others; give a Shard "
                                  "on all of them")
        if first["boxes"][name] != other["boxes"][name]:
            raise CheckpointError(_disagreement(identity, name, first["boxes"][name], other["boxes"][name], rank))
    if list(first["boxes"]) != list(other["boxes"]):  # rows name a tensor by its number
        raise CheckpointError("the ranks' parts list their boxes in different orders")


def _disagreement(identity: "Identity", name: str, known: Dict[str, Any], item: Dict[str, Any], rank: int) -> str:
    return f"{identity.directory}: ranks disagree about {name}: {_kind(known)} before rank {rank}, whose is {_kind(item)}"


def _compare(identity: "Identity", digests: Dict[str, str], first: Dict[str, str], rank: int) -> None:
    """Ranks that were not told to compare have no digests."""
    for name, digest in digests.items():
        if first.get(name, digest) != digest:
            raise CheckpointError(f"{identity.directory}: ranks 0 and {rank} hold different values of {name}; make them equal, "
                                  "or give what differs between ranks under local=")


def _kind(item: Dict[str, Any]) -> str:
    return item["dtype"] + fmt.to_json(item["shape"])


def _settle(name: str, item: Dict[str, Any]) -> str:
    """Puts a tensor's ranges in order. Returns what is wrong with them, or ""."""
    item["parts"].sort(key=lambda piece: piece["range"])
    position = 0
    for piece in item["parts"]:
        if piece["range"][0] != position:
            break
        position = piece["range"][1]
    if position != count(item["shape"]):
        return f"no rank wrote elements from {position} of {name}; the ranks' replicated objects differ"
    return ""


def _box_flaws(boxed: Dict[str, Any], parts: Sequence[Part]) -> "List[str]":
    """What is wrong with the boxes of all ranks, a text for each tensor of which something is."""
    shapes = [item["shape"] for item in boxed.values()]
    dims = [len(shape) for shape in shapes]
    held: "List[Dict[boxes.Box, Row]]" = [{} for _ in shapes]  # copies of a box are one
    for rank, part in enumerate(parts):
        for row in unpack(part.section.table, dims, f"the part of rank {rank}"):
            if not all(0 <= start < stop <= size for (start, stop), size in zip(row.box, shapes[row.tensor])):
                raise CheckpointError(f"a box of {list(boxed)[row.tensor]} does not fit its shape")
            held[row.tensor].setdefault(row.box, row)
    flaws = ((name, shape, boxes.flaw(list(found), shape)) for name, shape, found in zip(boxed, shapes, held))
    return [_flaw_text(name, shape, flaw) for name, shape, flaw in flaws if flaw is not None]


def _flaw_text(name: str, shape: Sequence[int], flaw: boxes.Flaw) -> str:
    if flaw.is_hole:
        return f"no rank stored {boxes.text(flaw.where)} of {name}; the ranks' shards must fill its shape {fmt.to_json(list(shape))}"
    return f"several ranks stored {boxes.text(flaw.where)} of {name}; shards must not overlap, unless they are the same box"
