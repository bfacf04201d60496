"""Typed JSON: Python values as JSON that comes back as the same values of the same types, with no pickle.

JSON's own types stand for themselves: null, booleans, strings, lists, integers up to 2**53, finite floats (written by
repr, the shortest text that reads back to the same 64 bits), and objects whose keys are strings not starting with "$".
Everything else is an object with one "$" key:

  {"$int": "-0x1f…"}           integers beyond 2**53
  {"$float": "7ff8000000000000"}  the bits of a NaN or an infinity, big endian hex
  {"$tuple": […]} {"$set": […]} {"$frozenset": […]}
  {"$deque": […], "maxlen": N or null}
  {"$bytes": base64} {"$bytearray": base64}
  {"$dict": [[key, value], …]}  keys of any of these types, in order
  {"$odict": [[key, value], …], "$meta": …}   collections.OrderedDict; $meta: its `_metadata`, as torch modules use it
  {"$counter": [[key, value], …]}   collections.Counter
  {"$defaultdict": [[key, value], …], "factory": name of a builtin type, or null}
  {"$complex": [float, float]}
  {"$numpy": [dtype, hex of the little endian bytes]}   a numpy scalar
  {"$tensor": NAME, "lib": "torch" | "numpy" | "array" | "raw"}   stored in the data files under NAME
"""

from __future__ import annotations

import base64
import collections
import math
import struct
import sys
from typing import Any, Callable, Dict, Optional

from .._errors import CheckpointError

_EXACT_INT = 1 << 53
_MAX_DEPTH = 64

# Objects of pairs [key, value].
PAIR_TAGS = ("$dict", "$odict", "$counter", "$defaultdict")

# What a defaultdict may make: by these names it is found again.
_FACTORIES = {kind.__name__: kind for kind in (int, float, complex, bool, str, bytes, list, dict, set, tuple)}

TensorHook = Callable[[Any, str], Optional[dict]]


def encode(value: Any, path: str, tensor: TensorHook, depth: int = 0) -> Any:
    """The typed JSON of `value`.

      path: where the value stands, for names and messages, e.g. "opt.state.3.exp_avg".
      tensor: gives the node for a tensor, None for anything else.
      Errors: CheckpointError naming the path of a value that cannot be stored.
    """
    if depth > _MAX_DEPTH:
        raise CheckpointError(f"{path[:120]}…: nested deeper than {_MAX_DEPTH}; does it contain itself?")
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    node = tensor(value, path)
    if node is not None:
        return node
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return _encode_numpy_scalar(value, path)
    if kind is int:
        return value if -_EXACT_INT <= value <= _EXACT_INT else {"$int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": struct.pack(">d", value).hex()}
    if kind is complex:
        return {"$complex": [encode(part, path, tensor, depth + 1) for part in (value.real, value.imag)]}
    if kind is bytes or kind is bytearray:
        return {"$" + kind.__name__: base64.b64encode(value).decode()}
    if kind in _DICTS:
        return _encode_dict(value, path, tensor, depth)
    if kind in (list, tuple, collections.deque):
        items = [encode(item, f"{path}.{index}", tensor, depth + 1) for index, item in enumerate(value)]
        if kind is collections.deque:
            return {"$deque": items, "maxlen": value.maxlen}
        return {"$tuple": items} if kind is tuple else items
    if kind is set or kind is frozenset:
        # Sorted, because the order of a set of strings differs from process to process.
        items = [encode(item, path, tensor, depth + 1) for item in sorted(value, key=repr)]
        return {"$" + kind.__name__: items}
    raise CheckpointError(f"{path}: a {kind.__module__}.{kind.__qualname__} cannot be stored; {_advice(value)}")


_DICTS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)


def _advice(value: Any) -> str:
    """What to do about a value that would come back as something else, or not at all."""
    for base in (str, int, float, complex, bytes, bytearray, dict, list, tuple, set, frozenset):
        if isinstance(value, base):
            return f"it would come back as a plain {base.__name__}: give {base.__name__}(…) of it in state_dict()"
    return "turn it into numbers, strings, lists, dicts or tensors in state_dict()"


def decode(node: Any, tensor: Callable[[str, str], Any]) -> Any:
    """The value of typed JSON. tensor(name, lib): gives a stored tensor. Errors: CheckpointError for unknown tags."""
    if isinstance(node, list):
        return [decode(item, tensor) for item in node]
    if not isinstance(node, dict):
        return node
    tag = next((key for key in node if key.startswith("$")), None)
    if tag is None:
        return {key: decode(item, tensor) for key, item in node.items()}
    body = node[tag]
    if tag == "$tensor":
        return tensor(body, node.get("lib", "raw"))
    if tag == "$int":
        return int(body, 16)
    if tag == "$float":
        return struct.unpack(">d", bytes.fromhex(body))[0]
    if tag in ("$bytes", "$bytearray"):
        data = base64.b64decode(body)
        return data if tag == "$bytes" else bytearray(data)
    if tag == "$numpy":
        return _decode_numpy_scalar(*body)
    if tag in PAIR_TAGS:
        pairs = [(decode(key, tensor), decode(item, tensor)) for key, item in body]
        if tag == "$dict":
            return dict(pairs)
        if tag == "$counter":
            return collections.Counter(dict(pairs))
        if tag == "$defaultdict":
            return collections.defaultdict(_factory(node.get("factory")), pairs)
        ordered = collections.OrderedDict(pairs)
        if "$meta" in node:
            ordered._metadata = decode(node["$meta"], tensor)  # type: ignore[attr-defined]
        return ordered
    if tag == "$deque":
        return collections.deque([decode(item, tensor) for item in body], node.get("maxlen"))
    kinds: Dict[str, Callable[[Any], Any]] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset,
                                              "$complex": lambda parts: complex(*parts)}
    if tag not in kinds:
        raise _unknown(tag)
    return kinds[tag]([decode(item, tensor) for item in body])


def _encode_dict(value: dict, path: str, tensor: TensorHook, depth: int) -> Any:
    def child(key: Any, item: Any) -> Any:
        return encode(item, f"{path}.{key}", tensor, depth + 1)

    if type(value) is dict and all(type(key) is str and not key.startswith("$") for key in value):
        return {key: child(key, item) for key, item in value.items()}
    pairs = [[encode(key, path, tensor, depth + 1), child(key, item)] for key, item in value.items()]
    if type(value) is dict:
        return {"$dict": pairs}
    if type(value) is collections.Counter:
        return {"$counter": pairs}
    if type(value) is collections.defaultdict:
        factory = value.default_factory
        if factory is not None and factory not in _FACTORIES.values():
            raise CheckpointError(f"{path}: a defaultdict of {factory!r} cannot be stored; one of a builtin type can, such as "
                                  "defaultdict(list), or give dict(…) of it in state_dict()")
        return {"$defaultdict": pairs, "factory": None if factory is None else factory.__name__}
    node = {"$odict": pairs}
    meta = getattr(value, "_metadata", None)
    if meta is not None:
        node["$meta"] = encode(dict(meta), path + "._metadata", tensor, depth + 1)
    return node


def _factory(name: Optional[str]) -> Optional[type]:
    if name is not None and name not in _FACTORIES:
        raise _unknown(f"defaultdict of {name}")
    return None if name is None else _FACTORIES[name]


def _unknown(what: str) -> CheckpointError:
    return CheckpointError(f"unknown typed value {what!r}: the checkpoint was written by a newer SDK; update tide")


def _encode_numpy_scalar(value: Any, path: str) -> dict:
    if value.dtype.hasobject or value.dtype.fields:
        raise CheckpointError(f"{path}: a numpy scalar of type {value.dtype} cannot be stored")
    little = value.dtype.newbyteorder("<")
    return {"$numpy": [little.str, value.astype(little).tobytes().hex()]}


def _decode_numpy_scalar(dtype: str, body: str) -> Any:
    # Only a program that uses numpy stored one; without numpy in this process the import is the user's own object.
    import numpy
    return numpy.frombuffer(bytes.fromhex(body), dtype=dtype)[0]
