"""Nested dicts, lists, tuples and named tuples of arrays (JAX, numpy) as one object of tide.Checkpoint.

    box = Pytree({"params": params, "opt": opt_state}, put=lambda array, like: jax.device_put(array, like.sharding))
    ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"state": box})
    step = ck.resume()
    ...
        box.tree = {"params": params, "opt": opt_state}     # before each tick: trees are new ones after each step
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import numpy

from tide import CheckpointError

_PLAIN = (bool, int, float, str, bytes, type(None))


class Pytree:
    """A tree whose leaves are arrays or plain values. Its structure comes from the program; leaves are stored by path.

      put: puts a numpy array where the leaf `like` is (a device, a sharding); default: as numpy arrays.
    """

    def __init__(self, tree: Any, put: Optional[Callable[[numpy.ndarray, Any], Any]] = None) -> None:
        self.tree = tree
        self._put = put or (lambda array, like: array)

    def state_dict(self) -> Dict[str, Any]:
        """{path: numpy array or plain value}. Arrays of JAX that this process holds whole; keys as jax.random.key_data()."""
        return {path: leaf if isinstance(leaf, _PLAIN) else numpy.asarray(leaf) for path, leaf in _leaves(self.tree, "")}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Makes self.tree anew from what is stored. Errors: CheckpointError where paths, shapes or types differ."""
        now = dict(_leaves(self.tree, ""))
        if now.keys() != state.keys():
            odd = sorted(now.keys() ^ state.keys())
            raise CheckpointError(f"the tree has other leaves than the stored one: {', '.join(odd[:5])}; use the same settings")
        self.tree = _rebuilt(self.tree, "", lambda path, leaf: self._loaded(path, leaf, state[path]))

    def _loaded(self, path: str, leaf: Any, value: Any) -> Any:
        if isinstance(leaf, _PLAIN) or isinstance(value, _PLAIN):
            return value
        shape, dtype = getattr(leaf, "shape", value.shape), getattr(leaf, "dtype", value.dtype)
        if tuple(shape) != value.shape or dtype != value.dtype:
            raise CheckpointError(f"{path}: stored as {value.dtype}{list(value.shape)}, the program has {dtype}{list(shape)}")
        if isinstance(leaf, numpy.ndarray):
            return value
        return value[()] if isinstance(leaf, numpy.generic) else self._put(value, leaf)


def _children(node: Any) -> "Optional[list[Tuple[Any, Any]]]":
    """[(key, child)], None for a leaf."""
    if isinstance(node, dict):
        return list(node.items())
    if isinstance(node, (list, tuple)):
        return list(zip(getattr(node, "_fields", range(len(node))), node))
    return None


def _leaves(node: Any, path: str) -> "Iterator[Tuple[str, Any]]":
    children = _children(node)
    if children is None:
        yield path, node
        return
    for key, child in children:
        yield from _leaves(child, _below(path, key))


def _rebuilt(node: Any, path: str, load: Callable[[str, Any], Any]) -> Any:
    children = _children(node)
    if children is None:
        return load(path, node)
    made = [_rebuilt(child, _below(path, key), load) for key, child in children]
    if isinstance(node, dict):
        copy = node.copy()
        copy.update(zip(node, made))
        return copy
    return type(node)(*made) if hasattr(node, "_fields") else type(node)(made)


def _below(path: str, key: Any) -> str:
    # {1: a} and {"1": a} are different leaves, and a "/" in a key is none of ours.
    name = key.replace("~", "~0").replace("/", "~1") if isinstance(key, str) else f"~{key!r}"
    return f"{path}/{name}" if path else name
