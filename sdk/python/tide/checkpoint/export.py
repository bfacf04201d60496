"""A checkpoint as one file of another library, for programs that know nothing of Tide."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Optional

from .._errors import CheckpointError, first_line
from . import store
from .reader import Reader
from .tensors import RawTensor


def to_torch(path: str, out: str, name: Optional[str] = None, force: bool = False) -> str:
    """Writes what torch.load(out) gives back: {object: state} of all replicated, sharded and global objects, with whole
    tensors, and under "tide" {"step", "attempt", "world", "ranks": [{object: state}]}.

      path: a checkpoint's folder, or a folder of checkpoints (the newest committed one is taken).
      name: this object's state alone, as load_state_dict takes it.
      force: replaces `out` where it is there.
      Returns the folder of the checkpoint that was read. `out` is whole or as it was before.
      Errors: CheckpointError; DamagedError if a byte differs from what was saved.
    """
    try:
        import torch
        with contextlib.suppress(ImportError):
            import numpy  # noqa: F401  pylint: disable=unused-import  states may hold its arrays
    except ImportError as error:
        raise CheckpointError(f"exporting to torch needs a Python that has it: {first_line(error)}") from None
    if os.path.exists(out) and not force:
        raise CheckpointError(f"{out} is there already; name another file, or add --force")
    with Reader(store.newest_committed(path)) as reader:
        reader.load(reader.objects_of_all, [reader.local(rank) for rank in range(reader.ranks)])
        content = _content(reader, name)
        directory = reader.directory
    unknown = _unknown_tensor(content, name or "")
    if unknown is not None:
        raise CheckpointError(f"{directory}: the torch of this Python has no type for the tensor {unknown}; "
                              "use a newer one, or export other objects with --object")
    _write(out, lambda target: torch.save(content, target))
    return directory


def _content(reader: Reader, name: Optional[str]) -> Any:
    groups = reader.objects()
    shared = [groups[group] for group in ("global", "replicated", "sharded")]
    objects: Dict[str, Any] = {name: state for group in shared for name, state in group.items()}
    if name is not None:
        if name not in objects:
            raise CheckpointError(f"{reader.directory} holds no object {name!r} that all ranks share "
                                  f"(it holds {', '.join(sorted(objects)) or 'none'})")
        return objects[name]
    if "tide" in objects or len(objects) < sum(map(len, shared)):
        raise CheckpointError(f"{reader.directory}: names of objects are used twice; export them one by one, with --object")
    manifest = reader.manifest
    about = {"step": manifest["step"], "attempt": manifest["attempt"], "world": manifest["world"],
             "ranks": groups["ranks"]}
    return {**objects, "tide": about}


def _unknown_tensor(value: Any, path: str) -> Optional[str]:
    """Where a tensor stands that only this package could read."""
    if isinstance(value, RawTensor):
        return path.lstrip(".")
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return next(filter(None, (_unknown_tensor(item, f"{path}.{key}") for key, item in items)), None)


def _write(out: str, save: Any) -> None:
    temporary = f"{out}.{os.getpid()}.tmp"
    try:
        with open(temporary, "xb") as target:
            save(target)
            target.flush()
            os.fsync(target.fileno())
        os.replace(temporary, out)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
