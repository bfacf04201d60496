"""Small files put in place so that neither a crash nor a reader on another node meets half of one."""

from __future__ import annotations

import os


def sync_directory(path: str) -> None:
    """Makes renames and new names inside `path` survive a power loss."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(path: str, data: bytes) -> None:
    """Puts a small file in place in one step: readers see the old one or the whole new one. Errors: OSError."""
    replace(path, data, durable=True)
    sync_directory(os.path.dirname(path))


def replace(path: str, data: bytes, durable: bool = False) -> None:
    """Puts a small file in place in one step, for as long as the machine runs. durable: its content survives a power loss; its
    name does once the folder is synced. Errors: OSError."""
    # Not the process id: ranks on other nodes, and in other containers, have the same ones.
    temporary = f"{path}.tmp-{os.urandom(8).hex()}"
    try:
        with open(temporary, "xb") as out:
            out.write(data)
            out.flush()
            if durable:
                os.fsync(out.fileno())
        os.replace(temporary, path)
    except OSError:
        remove_quietly(temporary)
        raise


def remove_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
