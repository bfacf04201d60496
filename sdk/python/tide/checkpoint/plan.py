"""What saves of one structure have in common: worked out once, so that a save costs a look at each tensor and no more.

A plan keeps the data file's header, the texts of the part, and which bytes of which tensor go where. take() walks over the program's
state beside the plan's nodes: it compares types, keys, shapes and dtypes with what they were, notes where each tensor lies now, and
writes down the values that may differ (numbers, bytes, what has no tensor in it). Where anything else has changed it raises Changed,
and the save is worked out anew; so both ways give the same bytes, which tests/sdk/test_plan.py compares.
"""

from __future__ import annotations

import array
import collections
import json
import re
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .._errors import CheckpointError
from . import format as fmt
from . import tensors, typed
from .shard import Shard
from .state import SHARDED, buffers_of
from .sections import Section
from .writer import Gathered, Groups, Identity, PartText, documents, part_head, table_of, tail_of

_FILE = "\1file\1"  # stands for the data file's name
_FILE_TEXT = json.dumps(_FILE)
_MARK = re.compile(r'\{"\$@":0\}')
_FIXED = (type(None), bool, str)  # a save in which one differs is worked out anew


class Changed(Exception):
    """The state is not what the plan was made for."""


class _Unplanned(Exception):
    """Holds what no plan is made for: tensors in other containers, on devices, or not contiguous."""


States = Dict[str, Dict[str, Any]]


class Taken(NamedTuple):
    """addresses: of each tensor, in the order of the walk; texts: JSON of the values that may differ; states: what the addresses
    point into, to be kept until it is copied."""

    addresses: List[int]
    texts: List[str]
    states: States


class Plan:
    """For saves of one rank. header: of the data file; nbytes: of the whole file."""

    def __init__(self, rank: int, world: int, groups: Groups, gathered: Gathered, states: States) -> None:
        """gathered: what was made of `states`.   Errors: _Unplanned, by make()."""
        # As in the part's documents; what is global rank 0 stores alone.
        order = [group for group in ("local", "replicated", SHARDED, "global") if rank == 0 or group != "global"]
        prefix = {"local": f"local/{rank:05d}"}
        self._nodes = [(group, name, _Node.of(state, name)) for group in order for name, state in states[group].items()]
        self._modules = [(item, list(buffers_of(item))) for given in (groups.replicated, groups.sharded) for item in given.values()
                         if hasattr(item, "named_buffers")]
        self.rank, self.world = rank, world
        self.header, self.nbytes = gathered.layout.header, gathered.layout.bytes
        names: List[str] = []
        trees = {group: _marked(prefix.get(group, group), states[group], names) for group in order}
        trees.setdefault("global", {})
        numbers = {name: number for number, name in enumerate(names)}
        self.tensors = len(names)
        self._moves: List[Tuple[int, int, int, int]] = []
        position = len(self.header)
        for entry in gathered.layout.entries:
            held = gathered.tensors[entry.name]
            first = held.place["range"][0] * tensors.ITEM_BYTES[entry.dtype] if held.place and "range" in held.place else 0
            if entry.data.nbytes:
                self._moves.append((position, numbers[entry.name], first, entry.data.nbytes))
            position += entry.data.nbytes
        # Text alone: nothing of the program's state is held on to.
        marked = gathered._replace(local=trees["local"], shared={group: trees[group] for group in ("replicated", "global", SHARDED)})
        tail, shared, text = (fmt.to_json(document) for document in documents(Identity("", "", 0, 0, "", rank, world), marked, _FILE))
        self._texts = (text, shared, tail_of(tail))  # in the order of the walk
        self._table = table_of(gathered)
        ranges = sum(1 for name, held in gathered.tensors.items()
                     if held.place is not None and "range" in held.place and not name.startswith("local/"))
        if sum(text.count(_FILE_TEXT) for text in self._texts) != ranges + 1:
            raise _Unplanned
        self._file = ""
        self._cut: "List[List[str]]" = []

    @classmethod
    def make(cls, rank: int, world: int, groups: Groups, gathered: Gathered, states: States) -> "Optional[Plan]":
        """Makes a plan; None where there can be none: the state holds what is looked at anew each time. A plan only hurries, so it
        raises nothing, and one that does not give what gather() gave is none."""
        if groups.compared:
            return None
        try:
            plan = cls(rank, world, groups, gathered, states)
            taken = plan.take(states)
            plan.part(Identity("", "", 0, 0, "", rank, world), fmt.data_file(rank), taken)
            spans = plan.spans(taken, 0)
        except Exception:
            return None
        position, expected = len(gathered.layout.header), []
        for entry in gathered.layout.entries:
            if entry.data.nbytes:
                expected += [position, entry.address, entry.data.nbytes]
            position += entry.data.nbytes
        return plan if list(spans) == expected and len(taken.addresses) == plan.tensors else None

    def take(self, states: States) -> Taken:
        """Looks at the state as it is now. states: of fetch().   Errors: Changed."""
        taken = Taken([], [], states)
        try:
            for group, name, node in self._nodes:
                node.take(states[group][name], taken)
        except CheckpointError:
            raise Changed from None  # what cannot be stored is named by the slower way
        if any(list(buffers_of(item)) != names for item, names in self._modules):
            raise Changed
        return taken

    def spans(self, taken: Taken, to: int) -> "array.array[int]":
        """Returns (to, from, bytes) of each copy into the data file's memory at `to`, one after the other."""
        addresses = taken.addresses
        flat = array.array("Q")
        for position, number, first, nbytes in self._moves:
            flat.extend((to + position, addresses[number] + first, nbytes))
        return flat

    def part(self, identity: Identity, file: str, taken: Taken) -> PartText:
        """Returns the part of this save, whose data goes to `file`."""
        if file != self._file:
            self._file, self._cut = file, [_MARK.split(text.replace(_FILE_TEXT, json.dumps(file))) for text in self._texts]
        if sum(len(cut) - 1 for cut in self._cut) != len(taken.texts):
            raise Changed
        first = 0
        woven = []
        for cut in self._cut:
            pieces = [""] * (2 * len(cut) - 1)
            pieces[::2], pieces[1::2] = cut, taken.texts[first:first + len(cut) - 1]
            first += len(cut) - 1
            woven.append("".join(pieces))
        text, shared, tail = woven
        return PartText(part_head(identity, file, self.nbytes), tail, shared.encode(), Section(text.encode(), self._table))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Shard) or tensors.library(value) is not None


def _marked(group: str, states: "dict[str, Any]", names: List[str]) -> "dict[str, Any]":
    """Makes the trees of a group, as capture() does, with marks for the values that may differ. names: gets those of the tensors,
    in order."""
    used: "set[str]" = set()

    def hook(value: Any, path: str) -> "Optional[dict[str, Any]]":
        if _is_tensor(value):
            name, number = f"{group}/{path}", 1
            while name in used:
                name, number = f"{group}/{path}~{number}", number + 1
            used.add(name)
            names.append(name)
            inner = value.tensor if isinstance(value, Shard) else value
            return {"$tensor": name, "lib": tensors.library(inner)}
        return None if type(value) in _CONTAINERS else {"$@": 0}

    return {name: typed.encode(state, name, hook) for name, state in states.items()}


_CONTAINERS = (dict, collections.OrderedDict, list, tuple)


class _Node:
    """One value of the state as it was."""

    @staticmethod
    def of(value: Any, path: str) -> "_Node":
        kind = type(value)
        if kind in _FIXED:
            return _Fixed(value)
        if isinstance(value, Shard):
            return _OfShard(value)
        lib = tensors.library(value)
        if lib == "torch":
            return _OfTorch(value)
        if lib is not None:
            return _OfOther(value)
        if kind in (dict, collections.OrderedDict):
            return _OfDict(value, path)
        if kind in (list, tuple):
            return _OfList(value, path)
        return _Value(path)

    def take(self, value: Any, taken: Taken) -> None:
        raise NotImplementedError


class _Fixed(_Node):
    def __init__(self, value: Any) -> None:
        self._value = value

    def take(self, value: Any, taken: Taken) -> None:
        if type(value) is not type(self._value) or value != self._value:
            raise Changed


class _Value(_Node):
    """A number, bytes, or a container without tensors."""

    def __init__(self, path: str) -> None:
        self._path = path

    def take(self, value: Any, taken: Taken) -> None:
        kind = type(value)
        if kind in _FIXED or kind in _CONTAINERS or _is_tensor(value):
            raise Changed
        taken.texts.append(fmt.to_json(typed.encode(value, self._path, _no_tensor)))


def _no_tensor(value: Any, path: str) -> None:
    if _is_tensor(value):
        raise Changed


class _OfTorch(_Node):
    def __init__(self, value: Any) -> None:
        torch = sys.modules["torch"]
        self.kind, self.shape, self.dtype = type(value), value.shape, value.dtype
        plain = value.is_cpu and value.layout is torch.strided and not value.dtype.is_complex
        odd = hasattr(value, "device_mesh") or hasattr(value, "local_shards") or not hasattr(value, "is_neg")
        if not plain or odd or not value.is_contiguous() or value.is_neg():
            raise _Unplanned
        self.layout = value.layout

    def take(self, value: Any, taken: Taken) -> None:
        if (type(value) is not self.kind or value.shape != self.shape or value.dtype is not self.dtype or not value.is_cpu or
                value.layout is not self.layout or not value.is_contiguous() or value.is_neg()):
            raise Changed
        taken.addresses.append(value.data_ptr())


class _OfOther(_Node):
    """A tensor of numpy or an array.array."""

    def __init__(self, value: Any) -> None:
        self._lib = tensors.library(value)
        if self._lib == "raw":
            raise _Unplanned
        self._signature = self._look(value)

    def _look(self, value: Any) -> "Tuple[Any, ...]":
        if tensors.library(value) != self._lib:
            raise Changed
        if self._lib == "array":
            return value.typecode, len(value)
        if value.dtype.byteorder == ">" or not value.flags.c_contiguous:
            raise _Unplanned
        return value.dtype, value.shape

    def take(self, value: Any, taken: Taken) -> None:
        try:
            if self._look(value) != self._signature:
                raise Changed
        except _Unplanned:
            raise Changed from None
        taken.addresses.append(value.buffer_info()[0] if self._lib == "array" else value.ctypes.data)


class _OfShard(_Node):
    def __init__(self, value: Shard) -> None:
        self._place = (value.offsets, value.shape, value.replica)
        self._inner = _Node.of(value.tensor, "")

    def take(self, value: Any, taken: Taken) -> None:
        if type(value) is not Shard or (value.offsets, value.shape, value.replica) != self._place:
            raise Changed
        self._inner.take(value.tensor, taken)


class _OfDict(_Node):
    def __init__(self, value: Any, path: str) -> None:
        self._kind, self._keys, self._types = type(value), list(value), list(map(type, value))
        self._children = [_Node.of(item, f"{path}.{key}") for key, item in value.items()]
        self._key_texts: "Optional[List[Optional[str]]]" = None
        if type(value) is not dict or not all(type(key) is str and not key.startswith("$") for key in value):
            if not all(type(key) in (int, bytes, *_FIXED) for key in value):
                raise _Unplanned  # 0.0 and -0.0 are one key
            # Keys of pairs are values, too; those that never differ have no mark.
            self._key_texts = [None if type(key) in _FIXED else fmt.to_json(typed.encode(key, path, _no_tensor)) for key in value]
        self._meta = _meta_text(value)
        self._meta_texts: List[str] = []
        if self._meta is not None:
            meta = Taken([], [], {})
            _Node.of(dict(value._metadata), path).take(dict(value._metadata), meta)
            self._meta_texts = meta.texts

    def take(self, value: Any, taken: Taken) -> None:
        if type(value) is not self._kind or list(value) != self._keys or list(map(type, value)) != self._types:
            raise Changed
        addresses = taken.addresses
        key_texts = self._key_texts
        for number, (child, item) in enumerate(zip(self._children, value.values())):
            if key_texts is not None and key_texts[number] is not None:
                taken.texts.append(key_texts[number])  # type: ignore[arg-type]
            if child.__class__ is _OfTorch:  # most are, so without a call
                like: Any = child
                if (type(item) is not like.kind or item.shape != like.shape or item.dtype is not like.dtype or not item.is_cpu or
                        item.layout is not like.layout or not item.is_contiguous() or item.is_neg()):
                    raise Changed
                addresses.append(item.data_ptr())
            else:
                child.take(item, taken)
        if _meta_text(value) != self._meta:
            raise Changed
        taken.texts.extend(self._meta_texts)


def _meta_text(value: Any) -> "Optional[str]":
    """Returns what torch notes of a module's state, as text: 1 and True are equal, and are not the same. Errors: _Unplanned for
    anything else."""
    meta = getattr(value, "_metadata", None)
    if meta is None:
        return None
    if not _is_plain(dict(meta)):
        raise _Unplanned
    return json.dumps(dict(meta))


def _is_plain(value: Any) -> bool:
    if type(value) in (dict, collections.OrderedDict):
        return all(type(key) is str and _is_plain(item) for key, item in value.items()) and not hasattr(value, "_metadata")
    return type(value) in (int, *_FIXED)


class _OfList(_Node):
    def __init__(self, value: Any, path: str) -> None:
        self._kind = type(value)
        self._children = [_Node.of(item, f"{path}.{index}") for index, item in enumerate(value)]

    def take(self, value: Any, taken: Taken) -> None:
        if type(value) is not self._kind or len(value) != len(self._children):
            raise Changed
        for child, item in zip(self._children, value):
            child.take(item, taken)
