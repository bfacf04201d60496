"""The ranks' parts put together to a manifest; in C++: sdk/native/manifest.cc, byte for byte the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, List, Sequence

from .._errors import CheckpointError
from . import boxes
from . import format as fmt
from .tensors import count

if TYPE_CHECKING:
    from .writer import Identity

_ADVICE = {"replicated": "give what differs between ranks under local=",
           "sharded": "give all ranks the same names and values; where a rank holds nothing of a tensor, a Shard without "
                      "elements"}


def merge(identity: "Identity", parts: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """The manifest, not sealed, of the parts of all ranks in order.

      Errors: CheckpointError where ranks disagree, or do not hold every element of a tensor exactly once.
    """
    tensors: Dict[str, Any] = {}
    files: Dict[str, Any] = {}
    for rank, part in enumerate(parts):
        for group, advice in _ADVICE.items():
            # Compared as text: nan is not equal to itself, its stored form is.
            if json.dumps(part[group], sort_keys=True) != json.dumps(parts[0][group], sort_keys=True):
                raise CheckpointError(f"{identity.directory}: ranks 0 and {rank} have different {group} state; {advice}")
        _compare(identity, part.get("digests", {}), parts[0].get("digests", {}), rank)
        files.update(part["files"])
        for name, item in part["tensors"].items():
            known = tensors.setdefault(name, {**item, "parts": []})
            if (known["dtype"], known["shape"]) != (item["dtype"], item["shape"]):
                raise CheckpointError(f"{identity.directory}: ranks disagree about {name}: {_kind(known)} before rank {rank}, "
                                      f"whose is {_kind(item)}")
            known["parts"].extend(item["parts"])
    for name, item in tensors.items():
        flaw = _settle(name, item)
        if flaw:
            raise CheckpointError(f"{identity.directory}: {flaw}")
    return {"format": fmt.FORMAT, "job": identity.job, "attempt": identity.attempt, "start": identity.start,
            "step": identity.step, "world": identity.world, "bytes": sum(record["bytes"] for record in files.values()),
            "chunk_bytes": fmt.CHUNK_BYTES, "files": files, "tensors": tensors,
            "objects": {group: parts[0][group] for group in ("replicated", "global", "sharded")},
            "ranks": [part["local"] for part in parts]}


def _compare(identity: "Identity", digests: Dict[str, str], first: Dict[str, str], rank: int) -> None:
    """Ranks that were not told to compare have no digests."""
    for name, digest in digests.items():
        if first.get(name, digest) != digest:
            raise CheckpointError(f"{identity.directory}: ranks 0 and {rank} hold different values of {name}; make them equal, "
                                  "or give what differs between ranks under local=")


def _kind(item: Dict[str, Any]) -> str:
    return item["dtype"] + fmt.to_json(item["shape"])


def _settle(name: str, item: Dict[str, Any]) -> str:
    """Puts a tensor's parts in order. Returns what is wrong with them, or ""."""
    ranges = ["range" in piece for piece in item["parts"]]
    if not any(ranges):
        return _settle_boxes(name, item)
    if not all(ranges):
        return f"{name} is a tide.Shard on some ranks and a whole tensor on others; give a Shard on all of them"
    item["parts"].sort(key=lambda piece: piece["range"])
    position = 0
    for piece in item["parts"]:
        if piece["range"][0] != position:
            break
        position = piece["range"][1]
    if position != count(item["shape"]):
        return f"no rank wrote elements from {position} of {name}; the ranks' replicated objects differ"
    return ""


def _settle_boxes(name: str, item: Dict[str, Any]) -> str:
    kept: List[Dict[str, Any]] = []
    for piece in sorted(item["parts"], key=lambda piece: piece["box"]):
        # Copies of one box: the sort keeps the ranks' order, so the lowest rank's counts.
        if not kept or kept[-1]["box"] != piece["box"]:
            kept.append(piece)
    item["parts"] = kept
    flaw = boxes.flaw([tuple((start, stop) for start, stop in piece["box"]) for piece in kept], item["shape"])
    if flaw is None:
        return ""
    if flaw.is_hole:
        return (f"no rank stored {boxes.text(flaw.where)} of {name}; the ranks' shards must fill its shape "
                f"{fmt.to_json(item['shape'])}")
    return (f"several ranks stored {boxes.text(flaw.where)} of {name}; shards must not overlap, unless they are the "
            "same box")
