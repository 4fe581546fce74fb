"""Write files atomically: a reader never sees a partial file."""

from __future__ import annotations

import contextlib
import os

from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MODE = 0o666  # the mode with which `open` creates a file, before the umask


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that a user asked for; at any moment either the old or the new one exists.

    Raises:
        UsageError: the file cannot be written.
    """
    if isinstance(content, str):
        content = content.encode()
    raw = content
    part = path.with_name(
        f".{path.name}.{os.getpid()}.part"
    )  # other processes may write the same file
    try:
        _replace(path, part, lambda: part.write_bytes(raw))
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        hint = "name a file that can be written with --output"
        raise UsageError(what, where=str(path), hint=hint) from None


def write_durably(path: Path, write: Callable[[str], object]) -> None:
    """Have a function write a file; at any moment either the old or the new one exists.

    This holds even if the power fails. The function is given the path of a file in a temporary
    folder next to the final one: a library may add files of its own there. A killed process leaves
    that folder behind; the next write removes it, and so does `discard_part`.

    Raises:
        OSError: the file cannot be written; the previous one is unchanged.
    """
    discard_part(path)
    folder = _part_of(path)
    folder.mkdir()
    part = folder / path.name

    def write_to_disk() -> None:
        write(os.fspath(part))
        part.chmod(_MODE & ~_umask())  # safetensors makes its files readable by the owner only
        _to_disk(part)

    try:
        _replace(path, part, write_to_disk)
    finally:
        discard_part(path)
    _to_disk(path.parent)


def discard_part(path: Path) -> None:
    """Remove what a killed process left behind while it wrote a file."""
    import shutil  # noqa: PLC0415  # slow to import, and few commands write files

    folder = _part_of(path)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.unlink(missing_ok=True)


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _replace(path: Path, part: Path, write: Callable[[], object]) -> None:
    """Have a function write a temporary file, and replace a file with it."""
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
    """Wait until a file, or the entries of a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
