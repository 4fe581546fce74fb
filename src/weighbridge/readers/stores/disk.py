"""Opens local files, without waiting for a pipe or following a link out of a folder."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from weighbridge.readers.rules import MISSING, REGULAR, UNREADABLE, is_remote

if TYPE_CHECKING:
    from weighbridge.readers.rules import Rule


def open_regular(path: str) -> BinaryIO:
    """Open a regular file, without a buffer.

    Raises:
        CheckpointError: the file does not exist, is not a regular file, or may not be opened.
    """
    try:
        # This is checked first, because opening a device may have side effects.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise REGULAR.broken(path)
        return open(path, "rb", buffering=0, opener=_open_without_waiting)
    except (FileNotFoundError, NotADirectoryError):
        raise MISSING.broken(path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UNREADABLE.broken(path, reason=reason) from None


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file and check it again: a pipe may have replaced it since the first check."""
    no_wait = getattr(os, "O_NONBLOCK", 0)  # Windows has neither the flag nor the wait
    descriptor = os.open(path, flags | no_wait)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise REGULAR.broken(path)
    return descriptor


def inside(folder: str, name: str, path: str, wrong: Rule, missing: Rule) -> str:
    """Return the path of a file in a folder, from the relative name that the file ``path`` states.

    The file must be in that folder, even if links are followed.

    Raises:
        CheckpointError: the name is not a plain path or leads out of the folder (``wrong``), or
            there is no such file (``missing``).
    """
    if not _is_plain(name):
        raise wrong.broken(path, shard=name)
    if is_remote(folder):
        return f"{folder}/{name}"
    file = os.path.join(folder, name)
    try:
        kind = os.lstat(file).st_mode
    except (OSError, ValueError):
        raise missing.broken(path, shard=name) from None
    if "/" not in name and not stat.S_ISLNK(kind):
        return file  # what is directly in a folder, and no link, leads nowhere else
    target = os.path.realpath(file)
    homes = _homes(os.path.realpath(folder))
    if not any(target.startswith(os.path.join(home, "")) for home in homes):
        raise wrong.broken(path, shard=name, leads_to=target)
    return file


def _is_plain(name: str) -> bool:
    r"""Return whether a file name is relative and goes only downwards, on any operating system.

    Example:
        >>> [_is_plain(name) for name in ("a.safetensors", "b/a.safetensors", "b\\a", "C:a")]
        [True, True, False, False]
        >>> [_is_plain(name) for name in ("../a", "/a", "")]
        [False, False, False]
    """
    return (
        name.isprintable()
        and not {"\\", ":"} & set(name)
        and not {"", ".", ".."} & set(name.split("/"))
    )


def _homes(folder: str) -> list[str]:
    """Return the folders that links in a folder may lead to: itself, and the Hub cache's blobs.

    Example:
        >>> _homes("/cache/models--a--b/snapshots/0123")
        ['/cache/models--a--b/snapshots/0123', '/cache/models--a--b/blobs']
    """
    repository, snapshots, _ = os.path.join(folder, "").rpartition("/snapshots/")
    if not snapshots:
        return [folder]
    return [folder, repository + "/blobs"]
