"""Writes a file whole or not at all: no reader ever sees half of it."""

from __future__ import annotations

import contextlib
import os

from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MODE = 0o666  # before the umask: the mode that `open` creates a file with


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that a user asked for, so that at any moment the old or the new one is there.

    Raises:
        UsageError: it cannot be written.
    """
    if isinstance(content, str):
        content = content.encode()
    raw = content
    part = path.with_name(f".{path.name}.{os.getpid()}.part")  # others may write the same file
    try:
        _replace(path, part, lambda: part.write_bytes(raw))
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        hint = "name a file that can be written with --output"
        raise UsageError(what, where=str(path), hint=hint) from None


def write_durably(path: Path, write: Callable[[str], object]) -> None:
    """Have a function write a file, so that at any moment the old or the new one is there.

    That holds even if the power fails. The function takes the path of a part beside the file. A
    process that is killed leaves it, and the next one that writes the same file overwrites it.

    Raises:
        OSError: the file cannot be written; what was there before is still there.
    """
    part = path.with_name(f".{path.name}.part")

    def write_to_disk() -> None:
        write(os.fspath(part))
        part.chmod(_MODE & ~_umask())  # safetensors lets nobody else read what it writes
        _to_disk(part)

    _replace(path, part, write_to_disk)
    _to_disk(path.parent)


def _replace(path: Path, part: Path, write: Callable[[], object]) -> None:
    """Have a function write a part, and put the part in the place of a file."""
    try:
        write()
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
