"""Writes a file whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from weighbridge.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that at any moment it is there whole, as it was or as it will be.

    Raises:
        UsageError: it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            part.write_bytes(content.encode() if isinstance(content, str) else content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        hint = "name a file that can be written with --output"
        raise UsageError(
            f"cannot be written: {error.strerror}", where=str(path), hint=hint
        ) from None
