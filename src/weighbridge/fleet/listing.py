"""Lists the checkpoints below folders and in stores, without opening them.

What one checkpoint is, `readers.paths` decides, as for `inspect`. The order is the same each time.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import UsageError
from weighbridge.readers.paths import FileGroup, candidates_at, groups_in
from weighbridge.readers.rules import is_remote, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

CONFIG = "config.json"
_BESIDE = (CONFIG, "adapter_config.json", "params.json")
"""Files that say more about the checkpoints in their folder; a changed one is read again."""
_BLOCK = 512  # bytes: the unit of st_blocks
_MARKS_OF_CONTENT = ("etag", "ETag", "md5Hash", "crc32c", "content_md5", "generation", "version_id")
_MARKS_OF_TIME = ("mtime", "LastModified", "last_modified", "modified", "created")


class StoredFile(NamedTuple):
    """A file of a checkpoint; ``inode`` is its place on this disk, and empty elsewhere."""

    name: str
    file_bytes: int
    allocated_bytes: int | None
    mtime_ns: int | None
    inode: str


class ListedCheckpoint(NamedTuple):
    """Files that are one checkpoint by their names, ready to be read anywhere.

    ``path`` means all of them, ``config`` is the path of the config.json beside them or empty, and
    ``stamp`` changes with the name, size or time of any of these files.
    """

    path: str
    kind: str
    is_whole: bool
    files: tuple[StoredFile, ...]
    config: str
    stamp: str

    @property
    def group(self) -> FileGroup:
        """The files, as readers take them."""
        return FileGroup(self.path, [file.name for file in self.files], self.is_whole, self.kind)


def listed_in(paths: Iterable[str]) -> Iterator[ListedCheckpoint]:
    """Yield every checkpoint below some folders, and at some paths and addresses, each once.

    Raises:
        UsageError: a path does not exist.
        CheckpointError: a store cannot be listed.
    """
    seen: set[str] = set()
    for path in paths:
        for listed in _listed_at(path):
            if listed.path not in seen:
                seen.add(listed.path)
                yield listed


def _listed_at(path: str) -> Iterator[ListedCheckpoint]:
    if is_remote(path):
        yield from _in_store(path)
    elif os.path.isdir(path):
        yield from _below(os.path.abspath(path))
    elif os.path.lexists(path) or any(mark in path for mark in "*?["):
        for group in candidates_at(os.path.abspath(path)):
            folder = os.path.dirname(group.files[0])
            beside = _configs_beside(folder, _names_in(folder))
            yield _with_stamp(group, _stats_of([*group.files, *beside]))
    else:
        hint = "check the spelling of the path"
        raise UsageError("there is nothing to scan", values={"path": path}, hint=hint)


# Folders on this machine


def _below(root: str) -> Iterator[ListedCheckpoint]:
    """Yield the checkpoints of all folders below one; links to folders are not followed."""
    waiting, shards_elsewhere = [root], set[str]()
    while waiting:
        folder = waiting.pop()
        folders, entries = _folder_content(folder)
        waiting += reversed(folders)
        for group in groups_in(folder, list(entries)):
            if group.path in shards_elsewhere:
                continue  # an index in a folder above has it
            if group.kind == "index":
                shards_elsewhere.update(_outside(folder, group.files))
            wanted = [*group.files, *_configs_beside(folder, entries)]
            yield _with_stamp(group, {file: _stat(file, entries) for file in wanted})


def _folder_content(folder: str) -> tuple[list[str], dict[str, os.DirEntry[str]]]:
    """Return the folders in a folder and its files, in order; nothing if it may not be read."""
    try:
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
    except OSError:
        return [], {}
    folders, files = [], {}
    for entry in entries:
        if _is_folder(entry, follows=False):
            folders.append(entry.path)
        elif _is_text(entry.name) and not _is_folder(entry, follows=True):
            files[entry.name] = entry
    return folders, files


def _names_in(folder: str) -> list[str]:
    """Return the names of what is in a folder; none if it may not be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _outside(folder: str, files: Iterable[str]) -> list[str]:
    return [file for file in files if os.path.dirname(file) != folder]


def _is_folder(entry: os.DirEntry[str], *, follows: bool) -> bool:
    """Return whether an entry is a folder, or with ``follows`` a link to one.

    A link that cannot be followed is a file, and its reader says what is wrong with it.
    """
    try:
        return entry.is_dir(follow_symlinks=follows)
    except OSError:
        return False


def _is_text(name: str) -> bool:
    """Return whether a file name can be written as UTF-8, as Parquet's texts are."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _configs_beside(folder: str, names: Iterable[str]) -> list[str]:
    held = set(names)
    return [os.path.join(folder, name) for name in _BESIDE if name in held]


def _stat(path: str, entries: Mapping[str, os.DirEntry[str]]) -> StoredFile:
    """Return the size and time of a file; zeros if it is gone, or a link to nothing."""
    entry = entries.get(os.path.basename(path))
    try:
        found = entry.stat() if entry and entry.path == path else os.stat(path)
    except (OSError, ValueError):
        return StoredFile(path, 0, 0, 0, "")
    blocks = getattr(found, "st_blocks", None)  # Windows has none
    allocated = None if blocks is None else blocks * _BLOCK
    inode = f"{found.st_dev}:{found.st_ino}"
    return StoredFile(path, found.st_size, allocated, found.st_mtime_ns, inode)


def _stats_of(paths: Iterable[str]) -> dict[str, StoredFile]:
    return {path: _stat(path, {}) for path in paths}


def _with_stamp(group: FileGroup, stats: Mapping[str, StoredFile]) -> ListedCheckpoint:
    """Return a group with its stamp, given the size and time of each file and of those beside."""
    digest = sha256()
    config = ""
    for path, file in stats.items():
        marks = (
            os.path.basename(path),
            file.file_bytes,
            file.mtime_ns,
            file.inode.partition("#")[2],
        )
        digest.update(repr(marks).encode())
        if os.path.basename(path) == CONFIG:
            config = path
    files = tuple(stats[path] for path in group.files)
    stamp = digest.hexdigest()[:16]
    return ListedCheckpoint(group.path, group.kind, group.is_whole, files, config, stamp)


# Stores elsewhere


def _in_store(address: str) -> Iterator[ListedCheckpoint]:
    """Yield the checkpoints below an address: those of fsspec are walked, others are one place."""
    scheme = address.partition("://")[0].lower()
    if scheme in {"http", "https", "hf"}:
        for group in candidates_at(address):
            nothing = {file: StoredFile(file, 0, None, None, "") for file in group.files}
            yield _with_stamp(group, nothing)
        return
    from weighbridge.readers.stores.cloud import folders_below  # noqa: PLC0415  # most are here

    is_empty = True
    for folder, entries in folders_below(address):
        is_empty = False
        for group in groups_in(folder, list(entries)):
            wanted = [*group.files, *_configs_beside(folder, entries)]
            yield _with_stamp(group, {file: _stored_there(file, entries) for file in wanted})
    if is_empty:
        hint = "check the address"
        where = without_secrets(address)
        raise UsageError("there is nothing to scan", values={"path": where}, hint=hint)


def _stored_there(path: str, entries: Mapping[str, Mapping[str, Any]]) -> StoredFile:
    """Return a file of a store; what says that its content has changed is put after its inode."""
    found = entries.get(os.path.basename(path), {})
    marks: Sequence[str] = [str(found[mark]) for mark in _MARKS_OF_CONTENT if found.get(mark)]
    if not marks:
        marks = [str(found[mark]) for mark in _MARKS_OF_TIME if found.get(mark)]
    return StoredFile(path, int(found.get("size") or 0), None, _time(found), "#" + "/".join(marks))


def _time(found: Mapping[str, Any]) -> int | None:
    for mark in _MARKS_OF_TIME:
        value: Any = found.get(mark)
        if hasattr(value, "timestamp"):
            return int(value.timestamp() * 1e6) * 1000
        if isinstance(value, float | int) and value:
            return int(value * 1e6) * 1000
    return None
