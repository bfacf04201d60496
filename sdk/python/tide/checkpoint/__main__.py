"""python -m tide.checkpoint ls DIR | verify DIR | diff A B [--only PREFIX]
| export --to torch DIR OUT [--object NAME] [--force] | rm CHECKPOINT... | pin CHECKPOINT... | unpin CHECKPOINT...

Exit codes: 0 good or equal, 1 damaged or different, 2 usage or unreadable.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, List, Optional

from .._errors import CheckpointError, DamagedError
from . import export, store
from .reader import Reader
from .writer import is_committed

_MOST_LINES = 20


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tide.checkpoint", description="Looks at checkpoints, keeps or removes them.")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("ls", help="list a folder's checkpoints, oldest first")
    listing.add_argument("dir")
    verify = commands.add_parser("verify", help="read every byte and compare it with the manifest; look for holes")
    verify.add_argument("dir", help="a checkpoint, or a folder of checkpoints: all committed ones")
    diff = commands.add_parser("diff", help="compare two checkpoints bit for bit, whoever stored what")
    diff.add_argument("a", help="a checkpoint, or a folder of checkpoints: the newest committed one")
    diff.add_argument("b")
    diff.add_argument("--only", default="", metavar="PREFIX",
                      help='only tensors whose name starts so, e.g. "model." or "replicated/model."')
    export_to = commands.add_parser("export", help="write it as one file for torch.load")
    export_to.add_argument("dir", help="a checkpoint, or a folder of checkpoints: the newest committed one")
    export_to.add_argument("out", help="the file, such as model.pt")
    export_to.add_argument("--to", choices=["torch"], required=True)
    export_to.add_argument("--object", metavar="NAME", help="the state of this object alone, as load_state_dict takes it")
    export_to.add_argument("--force", action="store_true", help="replace the file if it is there")
    for command, what in (("rm", "remove them; not the newest one, and none that is pinned"),
                          ("pin", "keep them, whatever `keep` says"), ("unpin", "let go what was pinned")):
        commands.add_parser(command, help=what).add_argument("checkpoints", nargs="+", help="their folders")
    options = parser.parse_args(arguments)
    try:
        if options.command == "ls":
            return _list(options.dir)
        if options.command == "verify":
            return _verify(options.dir)
        if options.command == "export":
            return _export(options)
        if options.command == "diff":
            return _diff(options.a, options.b, options.only)
        return _change(options.command, options.checkpoints)
    except DamagedError as error:
        print(f"damaged: {error}")
        return 1
    except (CheckpointError, OSError) as error:
        print(f"tide.checkpoint: {error}", file=sys.stderr)
        return 2


def _list(folder: str) -> int:
    if not os.path.isdir(folder):
        raise CheckpointError(f"{folder} is not a folder")
    for item in store.scan(folder):
        name = os.path.basename(item.path)
        try:
            with Reader(item.path) as reader:
                manifest = reader.manifest
            print(f"{name}  step {item.step}  attempt {item.name.attempt}  {manifest['world']} ranks  "
                  f"{manifest['bytes']} bytes  committed{'  pinned' if item.is_pinned else ''}")
        except FileNotFoundError:
            print(f"{name}  step {item.step}  attempt {item.name.attempt}  not committed")
        except DamagedError as error:
            print(f"{name}  step {item.step}  attempt {item.name.attempt}  damaged: {error}")
    return 0


def _change(command: str, paths: List[str]) -> int:
    """Nothing is changed unless all of it can be."""
    found = [_found(path) for path in paths]
    if command == "rm":
        for item in found:
            _require_removable(item)
    for item in found:
        if command == "rm":
            store.remove(item)
        elif command == "pin":
            store.pin(item)
        else:
            store.unpin(item)
        print(f"{item.path}: {'removed' if command == 'rm' else command + 'ned'}")
    return 0


def _found(path: str) -> store.Found:
    path = os.path.abspath(path)
    for item in store.scan(os.path.dirname(path)):
        if item.path == path:
            return item
    raise CheckpointError(f"{path} is no checkpoint's folder; `ls` shows them")


def _require_removable(item: store.Found) -> None:
    if item.is_pinned:
        raise CheckpointError(f"{item.path} is pinned; `unpin` it first")
    committed = [other.path for other in store.scan(os.path.dirname(item.path)) if other.has_manifest]
    if committed and item.path == committed[-1]:
        raise CheckpointError(f"{item.path} is the newest one, from which the job resumes; to begin at an earlier one use "
                              "`tide resume --step` or resume(step=)")
    if not item.has_manifest:
        raise CheckpointError(f"{item.path} is not committed: a save may be under way; the next commit removes what is left over")


def _verify(folder: str) -> int:
    if is_committed(folder):
        paths = [folder]
    else:
        paths = [item.path for item in store.scan(folder) if item.has_manifest] or [store.newest_committed(folder)]
    bad = 0
    for path in paths:
        try:
            with Reader(path) as reader:
                reader.verify()
            print(f"{path}: good")
        except DamagedError as error:
            bad += 1
            print(f"{path}: damaged: {error}")
    return 1 if bad else 0


def _diff(a: str, b: str, only: str) -> int:
    with Reader(store.newest_committed(a)) as left, Reader(store.newest_committed(b)) as right:
        left.verify()
        right.verify()

        def names(reader: Reader) -> "set[str]":
            return {name for name in reader.names()
                    if name.startswith(only) or name.split("/", 1)[1].startswith(only)}

        differences = _differences(left, right, sorted(names(left) | names(right)), whole=not only)
        for line in differences[:_MOST_LINES]:
            print(line)
        if len(differences) > _MOST_LINES:
            print(f"… and {len(differences) - _MOST_LINES} more")
        compared = len(names(left) & names(right))
    if only and not compared and not differences:
        raise CheckpointError(f"no tensor starts with {only!r}")
    print(f"{'different' if differences else 'equal'}: {compared} tensors compared, {left.directory} (step "
          f"{left.manifest['step']}) and {right.directory} (step {right.manifest['step']})")
    return 1 if differences else 0


def _export(options: argparse.Namespace) -> int:
    directory = export.to_torch(options.dir, options.out, options.object, options.force)
    print(f"{options.out}: {options.object or 'all objects'} of {directory}, {os.path.getsize(options.out)} bytes")
    return 0


def _differences(left: Reader, right: Reader, names: List[str], whole: bool) -> List[str]:
    lines = []
    held = {reader: set(reader.names()) for reader in (left, right)}
    for name in names:
        sides = [reader for reader in (left, right) if name in held[reader]]
        if len(sides) == 1:
            lines.append(f"{name}: only in {sides[0].directory}")
        elif left.info(name) != right.info(name):
            lines.append(f"{name}: {left.info(name)} and {right.info(name)}")
        else:
            one, two = left.read(name), right.read(name)
            if one != two:
                first = next(i for i, (x, y) in enumerate(zip(one, two)) if x != y)
                lines.append(f"{name}: differs, first at byte {first} of {len(one)}")
    if whole:
        if _text(left.objects_of_all) != _text(right.objects_of_all):
            lines.append("objects: values outside tensors differ")
        if _text(_local(left)) != _text(_local(right)):
            lines.append("ranks: values outside tensors differ")
    return lines


def _local(reader: Reader) -> List[Any]:
    """Local state up to the last rank that has some: worlds of other sizes may hold the same otherwise."""
    ranks = [reader.local(rank) for rank in range(reader.ranks)]
    while ranks and not ranks[-1]:
        ranks.pop()
    return ranks


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


if __name__ == "__main__":
    sys.exit(main())
