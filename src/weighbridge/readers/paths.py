"""Finds the files that a path refers to: one file, those of a pattern, or those of a folder."""

from __future__ import annotations

import glob
import os

from weighbridge.readers.folders import explained_folder, transformer_in
from weighbridge.readers.formats import FORMAT, FORMATS, INDEX_SUFFIX, READ_SUFFIXES, UNREAD
from weighbridge.readers.rules import UNREADABLE, Rule, is_remote, without_secrets
from weighbridge.readers.stores import store_of

EMPTY = Rule(
    "no-checkpoint",
    "the folder contains no checkpoint",
    f"give a folder with {READ_SUFFIXES} files",
)
NO_MATCH = Rule(
    "no-match",
    "no file matches this pattern",
    "check its spelling, and quote it in the shell",
)
AMBIGUOUS = Rule(
    "which-index", "the folder contains several indexes", "give the path of one of them"
)


def files_at(path: str) -> list[str]:
    """Return the files that a path refers to, at least one.

    Raises:
        CheckpointError: no file matches the pattern, or the folder contains no checkpoint that can
            be read.
    """
    if is_remote(path):
        return _remote_files(path)
    if os.path.isdir(path):
        try:
            names = sorted(os.listdir(path))
        except OSError as error:
            raise UNREADABLE.broken(path, reason=error.strerror) from None
        transformer = transformer_in(path, names)
        if transformer:
            return files_at(os.path.join(path, transformer))
        return [os.path.join(path, name) for name in _choose(path, names)]
    if _is_pattern(path) and not os.path.lexists(path):
        return sorted(glob.glob(path)) or _no_match(path)
    return [path]


def _remote_files(path: str) -> list[str]:
    from weighbridge.readers.stores.remote import RemoteFolder  # noqa: PLC0415  # most are here

    store = store_of(path)
    if _is_pattern(path):
        matching = store.matching(path)
        if matching != [path]:
            return matching or _no_match(path)
    folder = store.folder(path)
    if isinstance(folder, RemoteFolder):
        transformer = transformer_in(folder.path, folder.names)
        if transformer:
            return files_at(f"{folder.path}/{transformer}")
        return [f"{folder.path}/{name}" for name in _choose(path, folder.names)]
    if not folder:
        return [path]
    if is_remote(folder):
        return [folder]
    return files_at(folder)


def looks_like_checkpoint(path: str) -> bool:
    """Return whether a path is clearly that of a checkpoint, and not of a config."""
    path = without_secrets(path)
    indexes = (suffix + INDEX_SUFFIX for suffix in FORMATS)
    if path.endswith((*FORMATS, *indexes)) or _is_pattern(path):
        return True
    return os.path.isdir(path) and not os.path.exists(os.path.join(path, "config.json"))


def _is_pattern(path: str) -> bool:
    return any(mark in path for mark in "*?[")


def _no_match(path: str) -> list[str]:
    raise NO_MATCH.broken(path)


def _choose(folder: str, names: list[str]) -> list[str]:
    """Return the files to read in a folder: an index, one file or several."""
    for suffix in FORMATS:
        if chosen := _of_format(names, suffix, folder):
            return chosen
    unread = [name for name in names if name.endswith(UNREAD)]
    if unread:
        raise FORMAT.broken(folder, found=", ".join(unread))
    explanation = explained_folder(folder, names)
    if explanation and not explanation.is_readable:
        raise Rule(EMPTY.name, explanation.what, explanation.hint).broken(folder)
    raise EMPTY.broken(folder)


def _of_format(names: list[str], suffix: str, folder: str) -> list[str]:
    indexes = [name for name in names if name.endswith(suffix + INDEX_SUFFIX)]
    if "model" + suffix + INDEX_SUFFIX in indexes:
        return ["model" + suffix + INDEX_SUFFIX]
    if len(indexes) == 1:
        return indexes
    if "model" + suffix in names:
        return ["model" + suffix]
    if indexes:
        raise AMBIGUOUS.broken(folder, indexes=", ".join(indexes))
    return [name for name in names if name.endswith(suffix)]
