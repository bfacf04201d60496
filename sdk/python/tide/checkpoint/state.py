"""Between the program's objects and what is stored: typed JSON trees and named tensors.

An object is anything with state_dict()/load_state_dict(), a tensor, or a plain dict or list; tensors, dicts and lists
are filled in place when they are restored. Under sharded= its leaves may be Shards: boxes of tensors that no rank holds
whole. There an object may have shard_at(path, global shape) -> box or None: what this rank will hold of a tensor that
its state has no Shard of yet; path: below the object, such as "state.0.exp_avg".
"""

from __future__ import annotations

import collections
import types
import weakref
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Tuple

from .._errors import CheckpointError, first_line
from . import boxes, dtensor, tensors, typed
from .shard import Shard

SHARDED = "sharded"
_CODE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, weakref.ref)


class Captured(NamedTuple):
    """trees: {object: typed JSON}; found: {tensor name: View}, names starting with the group; shards: {tensor name:
    Shard} of those of them that are a box of a larger one; buffers: names of those that are a torch module's buffers."""

    trees: Dict[str, Any]
    found: Dict[str, tensors.View]
    shards: Dict[str, Shard]
    buffers: FrozenSet[str]


def states_of(objects: Mapping[str, Any]) -> Dict[str, Any]:
    """{object: what is to be stored of it}. Asks each once: a state_dict() may be a collective. Errors: CheckpointError."""
    return {name: state_of(name, item) for name, item in objects.items()}


def capture(group: str, objects: Mapping[str, Any], states: Mapping[str, Any]) -> Captured:
    """Everything that must be stored of `objects`. states: of states_of().   Errors: CheckpointError naming what cannot be stored."""
    found: Dict[str, tensors.View] = {}
    shards: Dict[str, Shard] = {}

    def take(value: Any, path: str) -> "dict | None":
        if not _is_leaf(value):
            return None
        name, number = f"{group}/{path}", 1
        while name in found:  # {1: a, "1": b} give the same path
            name, number = f"{group}/{path}~{number}", number + 1
        if isinstance(value, Shard):
            if group != SHARDED:
                raise CheckpointError(f"{path} is held in part (a tide.Shard or a DTensor); give the object {path.split('.')[0]!r} under sharded=")
            value.check(path)  # its tensor may have grown since
            shards[name], value = value, value.tensor
        found[name] = tensors.view(value, path)
        return {"$tensor": name, "lib": found[name].lib}

    trees = {name: typed.encode(state, name, take) for name, state in states.items()}
    buffers = frozenset(f"{group}/{name}.{buffer}" for name, item in objects.items() for buffer in buffers_of(item))
    return Captured(trees, found, shards, buffers & found.keys())


def restore(objects: Mapping[str, Any], trees: Mapping[str, Any], stored: "Stored", where: str) -> None:
    """Puts stored state back into `objects`.

      where: the checkpoint's folder, for messages.
      Errors: CheckpointError where an object or tensor is absent or differs in shape or dtype. Shapes of all objects
        are compared before the first one is changed.
    """
    for name, item in objects.items():
        if name not in trees:
            raise CheckpointError(f"{where} holds no object {name!r} (it holds {', '.join(sorted(trees)) or 'none'}); "
                                  "use the names it was saved with, or another folder")
        try:
            _require_match(name, item, trees[name], stored)
        except CheckpointError as error:
            raise CheckpointError(f"{where}: {error}") from None
    for name, item in objects.items():
        try:
            _put_back(name, item, trees[name], stored)
        except CheckpointError:
            raise
        except Exception as error:  # whatever the user's load_state_dict raises
            raise CheckpointError(f"{where}: object {name!r} refused its stored state: {first_line(error)}") from error


def restore_what_fits(objects: Mapping[str, Any], trees: Mapping[str, Any], stored: "Stored") -> List[str]:
    """Puts back what the program still has, with the shape and type it was stored with; the rest stays as it is, as for a model that
    got another head. Returns what was left out, a line each."""
    left: List[str] = []
    for name, item in objects.items():
        if name not in trees:
            left.append(f"{name}: is not in the checkpoint")
            continue
        try:
            if hasattr(item, "named_parameters"):
                left += _put_back_module(name, item, trees[name], stored)
            else:
                _require_match(name, item, trees[name], stored)
                if hasattr(item, "param_groups"):
                    _require_state_fits(name, item, typed.decode(trees[name], stored.make))
                _put_back(name, item, trees[name], stored)
        except Exception as error:  # its own, or whatever the user's load_state_dict raises
            left.append(f"{name}: {first_line(error)}")
    return left


def _require_state_fits(name: str, item: Any, state: Any) -> None:
    """Compares the state of a torch optimizer with its parameters, which torch itself does at the next step only.

      Errors: CheckpointError naming a parameter whose state has another shape: the optimizer begins anew then.
    """
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    parameters = [parameter for group in item.param_groups for parameter in group["params"]]
    for number, parameter in zip(numbers, parameters):
        for key, value in state["state"].get(number, {}).items():
            if tensors.library(value) is not None and len(value.shape) > 0 and tuple(value.shape) != tuple(parameter.shape):
                raise CheckpointError(f"state.{number}.{key} has the shape {list(value.shape)}, its parameter {list(parameter.shape)}; the "
                                      "optimizer begins anew")


def _put_back_module(name: str, item: Any, tree: Any, stored: "Stored") -> List[str]:
    """Puts back what fits of a torch module, tensor by tensor. Returns what was left out."""
    state = typed.decode(tree, stored.make)  # of the type that torch made: it says which version each module had
    now = item.state_dict()
    left = [f"{name}.{key}: is not in the checkpoint" for key in now if key not in state]
    for key in list(state):
        if key not in now:
            left.append(f"{name}.{key}: is not in the program")
            del state[key]
        elif tensors.library(now[key]) is not None:
            try:
                shape, dtype = tensors.signature(state[key], key)
                tensors.require_same(now[key], dtype, shape, f"{name}.{key}")
            except CheckpointError as error:
                left.append(first_line(error))
                del state[key]
    item.load_state_dict(state, strict=False)
    return left


class Stored(NamedTuple):
    """The reader's side. info(name) -> (dtype, shape), KeyError if absent; make(name, lib) -> a new tensor, or a Shard
    where a box of it was asked for; is_sharded(name): it was saved as boxes."""

    info: Callable[[str], "Tuple[str, Tuple[int, ...]]"]
    make: Callable[[str, str], Any]
    is_sharded: Callable[[str], bool]


def boxes_wanted(objects: Mapping[str, Any], trees: Mapping[str, Any], stored: Stored, where: str) -> Dict[str, boxes.Box]:
    """{stored tensor: the box of it that this rank's `objects` hold}, for those given under sharded=.

      where: the checkpoint's folder, for messages.
      Errors: CheckpointError where a global shape or dtype differs, a Shard has nothing stored, or nobody says which box
        of a stored tensor this rank holds.
    """
    wanted: Dict[str, boxes.Box] = {}
    for name, item in objects.items():
        if name in trees:
            try:
                _add_boxes(name, item, trees[name], stored, wanted)
            except CheckpointError as error:
                raise CheckpointError(f"{where}: {error}") from None
    return wanted


def _add_boxes(name: str, item: Any, tree: Any, stored: Stored, wanted: Dict[str, boxes.Box]) -> None:
    nodes: Dict[str, str] = {}
    _tensor_nodes(tree, name, nodes)

    def look(value: Any, path: str) -> "dict | None":
        if not _is_leaf(value):
            return None
        if path in nodes:
            known = nodes.pop(path)
            if isinstance(value, Shard):
                tensors.require_same(value.tensor, *stored.info(known), path, shape_now=value.shape)
                wanted[known] = value.box
        elif isinstance(value, Shard) and not hasattr(item, "load_state_dict"):
            raise CheckpointError(f"{path} is not in the checkpoint; the program's {name!r} differs from the one that was saved")
        return {}

    typed.encode(state_of(name, item), name, look)
    shard_at = getattr(item, "shard_at", None)
    for path, known in nodes.items():
        box = shard_at(path[len(name) + 1:], stored.info(known)[1]) if shard_at is not None else None
        if box is not None:
            wanted[known] = box
        elif stored.is_sharded(known):
            raise CheckpointError(f"{path} was saved as shards, and the program has no tide.Shard there that says which box "
                                  "this rank holds; give one, or for an optimizer a tide.ShardedOptimizer")


def tensors_of(tree: Any) -> Iterator["Tuple[str, str]"]:
    """(name, library) of each tensor in a typed tree."""
    if isinstance(tree, list):
        for child in tree:
            yield from tensors_of(child)
    elif isinstance(tree, dict):
        if "$tensor" in tree:
            yield tree["$tensor"], tree.get("lib", "raw")
        else:
            for child in tree.values():
                yield from tensors_of(child)


def state_of(name: str, item: Any) -> Any:
    """What is to be stored of an object, with Shards for distributed tensors. Errors: CheckpointError naming it."""
    return dtensor.as_shards(_raw_state_of(name, item), name)


def _raw_state_of(name: str, item: Any) -> Any:
    if hasattr(item, "state_dict"):
        try:
            state = item.state_dict()
        except CheckpointError:
            raise
        except Exception as error:  # whatever the user's object raises
            raise CheckpointError(f"object {name!r}: state_dict() failed: {first_line(error)}") from error
        return without_code(state) if _is_torch_schedule(item) else state
    if isinstance(item, dict) and type(item) not in (dict, collections.OrderedDict):
        return dict(item)  # it is filled in place, so what kind of dict it is stays the program's
    if isinstance(item, list):
        return list(item)
    if _is_leaf(item) or isinstance(item, dict):
        return item
    raise CheckpointError(f"object {name!r} is a {type(item).__qualname__}: give a tensor, dict or list, or an object "
                          "with state_dict() and load_state_dict()")


def buffers_of(item: Any) -> Iterator[str]:
    """Yields the names of a torch module's buffers, below the module. DistributedDataParallel keeps rank 0's: before each forward pass
    it broadcasts them, and after it every rank has running statistics of its own."""
    if hasattr(item, "named_buffers"):
        for name, _ in item.named_buffers():
            yield name


def is_empty(item: Any) -> bool:
    """True for an object that has no state now."""
    return hasattr(item, "state_dict") and item.state_dict() == {}


def check(objects: Mapping[str, Any]) -> None:
    """Looks at the types that `objects` hold now. What cannot be asked yet, such as a state that comes with the first step,
    is left for later.   Errors: CheckpointError naming what no save could store."""
    for name, item in objects.items():
        if hasattr(item, "state_dict"):
            try:
                item.state_dict()
            except Exception:  # whatever the user's object raises, it may not later
                continue
        typed.encode(state_of(name, item), name, lambda value, path: {} if _is_leaf(value) else None)


def _is_torch_schedule(item: Any) -> bool:
    """True for those that load a state as torch does: what is not in it stays as it is."""
    return getattr(getattr(item, "load_state_dict", None), "__module__", "") == "torch.optim.lr_scheduler"


def without_code(state: Any) -> Any:
    """Returns the state of a scheduler without the functions that torch keeps in it, such as OneCycleLR's anneal_func: the
    program makes them anew."""
    if isinstance(state, list):
        return [without_code(item) for item in state]
    if type(state) is not dict:
        return state
    return {key: without_code(item) for key, item in state.items() if not isinstance(item, _CODE)}


def _require_match(name: str, item: Any, tree: Any, stored: Stored) -> None:
    """Compares the tensors the program has now with the stored ones.

    A module's tensors must all be there. An optimizer has none before its first step and random states come and go
    with devices, so of other objects only tensors present on both sides are compared.
    """
    nodes: Dict[str, str] = {}
    _tensor_nodes(tree, name, nodes)
    complete = hasattr(item, "named_parameters") or _is_leaf(item)

    def compare(value: Any, path: str) -> "dict | None":
        if not _is_leaf(value):
            return None
        if isinstance(value, Shard):
            return {}  # boxes_wanted() has compared it
        if path in nodes:
            tensors.require_same(value, *stored.info(nodes[path]), path)
        elif complete:
            raise CheckpointError(f"{path} is missing; the program's {name!r} differs from the one that was saved")
        return {}

    # random states and counters of this package and of users need no comparison, and may be costly to ask for
    if complete or isinstance(item, (dict, list)):
        typed.encode(state_of(name, item), name, compare)


def _tensor_nodes(node: Any, path: str, out: Dict[str, str]) -> None:
    if isinstance(node, list):
        for index, child in enumerate(node):
            _tensor_nodes(child, f"{path}.{index}", out)
    elif isinstance(node, dict):
        if "$tensor" in node:
            out[path] = node["$tensor"]
        for key, child in node.items():
            if key in typed.PAIR_TAGS:
                for pair_key, item in child:
                    _tensor_nodes(item, f"{path}.{pair_key}", out)
            else:
                _tensor_nodes(child, path if key.startswith("$") else f"{path}.{key}", out)


def _put_back(name: str, item: Any, tree: Any, stored: Stored) -> None:
    if hasattr(item, "load_state_dict"):
        state = typed.decode(tree, stored.make)
        item.load_state_dict(dtensor.rejoined(state, item.state_dict()) if dtensor.possible() else state)
        return
    if _is_leaf(item):
        if not isinstance(tree, dict) or "$tensor" not in tree:
            raise CheckpointError(f"object {name!r} is a tensor, the stored one is not; use the program it was saved by")
        target = _bare(item)
        tensors.fill(target, _bare(stored.make(tree["$tensor"], tensors.library(target) or "raw")), name)
        return
    value = typed.decode(tree, stored.make)
    if not any(isinstance(value, kind) and isinstance(item, kind) for kind in (dict, list)):
        raise CheckpointError(f"object {name!r} is a {type(item).__name__}, the stored one a {type(value).__name__}")
    _merge(item, value)


def _merge(target: Any, value: Any) -> None:
    """Gives a dict or list the stored content. Tensors with a stored twin keep their identity: others may hold them."""
    if isinstance(target, dict):
        kept = {key: _settled(target.get(key), item) for key, item in value.items()}
        target.clear()
        target.update(kept)
    else:
        target[:] = [_settled(target[i] if i < len(target) else None, item) for i, item in enumerate(value)]


def _settled(old: Any, new: Any) -> Any:
    if isinstance(old, (dict, list)) and type(old) is type(new):
        _merge(old, new)
        return old
    if tensors.library(_bare(old)) not in (None, "raw") and _is_leaf(new):
        tensors.fill(_bare(old), _bare(new), "stored")
        return old
    return new


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Shard) or tensors.library(value) is not None


def _bare(value: Any) -> Any:
    """The tensor of a Shard, this rank's part of a distributed one; anything else as it is."""
    if dtensor.is_dtensor(value):
        return value.to_local()
    return value.tensor if isinstance(value, Shard) else value
