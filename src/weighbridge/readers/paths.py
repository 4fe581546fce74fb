"""Finds the files that a path refers to: one file, those of a pattern, or those of a folder."""

from __future__ import annotations

import glob
import os
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import data
from weighbridge.readers.distributed import DATA_SUFFIX
from weighbridge.readers.distributed import SUFFIX as METADATA_NAME
from weighbridge.readers.folders import explained_folder, transformer_in
from weighbridge.readers.foreign import SUFFIXES, check_readable
from weighbridge.readers.formats import FORMATS, INDEX_SUFFIX, READ_SUFFIXES, format_of_index
from weighbridge.readers.index import names_in_index
from weighbridge.readers.numbering import missing_in, numbering_of
from weighbridge.readers.rules import UNREADABLE, Rule, is_remote, without_secrets
from weighbridge.readers.stores import store_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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

PARTIAL = "partial"
_STATING_PARTS = tuple(suffix for suffix, of in FORMATS.items() if of.parts)


class FileGroup(NamedTuple):
    """Files that make one checkpoint by their names: a path that means them, and the files.

    ``is_whole`` is true if their names leave no doubt: one file, an index, or a numbering such as
    ``model-00001-of-00002``. Other files are one checkpoint only if no two of them have a tensor of
    the same name.

    ``kind`` is what the names say: a ``file``, an ``index`` with its shards, a ``split`` into
    several files, a ``partial`` one of which a file is missing, the slices of ``parallel`` devices,
    an ``adapter``, or the ``state`` of a training.
    """

    path: str
    files: list[str]
    is_whole: bool
    kind: str = "file"


def candidates_at(path: str) -> list[FileGroup]:
    """Return the checkpoints that a path refers to, as far as the names of files show.

    Each index and each numbering is a checkpoint of its own, and so is each folder. In a folder,
    other files belong together only if their names differ in numbers alone. A pattern means that
    its files belong together, except those of formats whose files state their parts.

    Raises:
        CheckpointError: as for `files_at`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("a-1-of-2.gguf", "a-2-of-2.gguf", "b.gguf"):
        ...         open(os.path.join(folder, name), "w").close()
        ...     [len(candidate.files) for candidate in candidates_at(folder)]
        [2, 1]
    """
    files = files_at(path)
    if len(files) == 1 and _is_name_of(path, files[0]):
        return [_file_group(path, files)]
    groups: dict[str, list[str]] = {}
    in_folder, meant = not _is_pattern(path), "*"
    if not in_folder:
        meant = os.path.basename(path)
    for file in files:
        groups.setdefault(_siblings(file, in_folder=in_folder), []).append(file)
    if len(groups) == 1:
        return [_partial_if_missing(_file_group(path, files), path, meant)]
    candidates = []
    for pattern, group in groups.items():
        one = _file_group(group[0] if len(group) == 1 else pattern, group)
        candidates.append(_partial_if_missing(one, pattern, meant))
    return candidates


def _is_name_of(path: str, file: str) -> bool:
    """Return whether a path is that of a file, however its address is written."""
    return os.path.basename(without_secrets(path)) == os.path.basename(without_secrets(file))


def _partial_if_missing(group: FileGroup, path: str, meant: str = "*") -> FileGroup:
    """Return a group, as a ``partial`` one at this path if a file is missing by their numbering."""
    if group.kind == "split" and missing_in(group.files, meant):
        return group._replace(path=path, kind=PARTIAL)
    return group


def groups_in(folder: str, names: Sequence[str]) -> list[FileGroup]:
    """Return every checkpoint in a folder, given the names of its files, in the order of names.

    `candidates_at` chooses one format of a folder and groups its files by the same rules. This
    includes all formats, the state of a training, and files of formats without a reader. The
    shards of an index belong to it, even if one of them is missing; a file that the index leaves
    out is a checkpoint of its own.

    Example:
        >>> names = ["a-1-of-2.bin", "a-2-of-2.bin", "model.gguf", "optimizer.pt", "README.md"]
        >>> [(group.kind, len(group.files)) for group in groups_in("runs", names)]
        [('split', 2), ('file', 1), ('state', 1)]
    """
    prefix = os.path.join(folder, "")
    groups, shards = [], set[str]()
    for name in sorted(filter(format_of_index, names)):
        listed = names_in_index(prefix + name)
        shards |= listed
        files = [prefix + file for file in (name, *sorted(listed))]
        groups.append(FileGroup(prefix + name, files, is_whole=True, kind="index"))
    if METADATA_NAME in names:
        of_ranks = [name for name in sorted(names) if name.endswith(DATA_SUFFIX)]
        files = [prefix + name for name in (METADATA_NAME, *of_ranks)]
        groups.append(_file_group(files[0], files))
    weights = [name for name in sorted(names) if _is_weights(name) and name not in shards]
    return sorted([*groups, *_groups_by_name(prefix, weights, shards)])


def _groups_by_name(prefix: str, weights: list[str], shards: set[str]) -> list[FileGroup]:
    """Return the checkpoints in the files of a folder as far as their names alone show.

    Files that an index leaves out are not ``partial``, because it has the others.
    """
    states = set(_files_beside(weights))
    members: dict[str, list[str]] = {}
    for name in weights:
        pattern = prefix + name
        if name not in states:
            pattern = _siblings(pattern, in_folder=True)
        members.setdefault(pattern, []).append(prefix + name)
    groups = []
    for pattern, files in members.items():
        group = _file_group(files[0] if len(files) == 1 else pattern, files)
        checked, name = _partial_if_missing(group, pattern), os.path.basename(pattern)
        is_indexed = checked != group and any(fnmatchcase(shard, name) for shard in shards)
        groups.append(group if is_indexed else checked)
    return groups


def left_out_of(path: object, files: Sequence[str]) -> list[str]:
    """Return the names of the checkpoints in a local folder that have none of these files.

    The state of a training is not a checkpoint of its own here.
    """
    if not isinstance(path, str | os.PathLike) or not os.path.isdir(path):
        return []
    folder = os.fspath(path)
    read = {os.path.basename(file) for file in files}
    left_out = []
    for group in groups_in(folder, os.listdir(folder)):
        names = {os.path.basename(file) for file in group.files}
        if group.kind != "state" and read.isdisjoint(names):
            left_out.append(os.path.basename(group.path))
    return left_out


def _is_weights(name: str) -> bool:
    # The Hub's client writes model.safetensors.metadata; of torch.distributed it is the whole name.
    return name.endswith((*FORMATS, *SUFFIXES)) and not name.endswith(METADATA_NAME)


def _file_group(path: str, files: list[str]) -> FileGroup:
    is_whole = len(files) == 1 or bool(numbering_of(os.path.basename(files[0])))
    return FileGroup(path, files, is_whole, _kind_of(files))


def _kind_of(files: Sequence[str]) -> str:
    """Return the kind of a checkpoint in these files, according to their names."""
    name = os.path.basename(files[0])
    if format_of_index(name):
        return "index"
    if are_slices(files):
        return "parallel"
    if len(files) > 1 or numbering_of(name):
        return "split"
    if _files_beside([name]):
        return "state"
    return "adapter" if name.startswith("adapter_model.") else "file"


def are_slices(files: Sequence[str]) -> bool:
    """Return whether the files are slices of one model for several devices, by their names.

    Example:
        >>> are_slices(["consolidated.00.pth", "consolidated.01.pth"])
        True
        >>> are_slices(["consolidated.00.pth"]), are_slices(["a.1.pth", "a.2.pth"])
        (False, False)
    """
    names = [os.path.basename(file) for file in files]
    if names[0] == METADATA_NAME:
        return True
    patterns = data.read_toml("facts/wrappers.toml")["slices"]
    return len(names) > 1 and any(
        all(fnmatchcase(name, pattern) for name in names) for pattern in patterns
    )


def _siblings(file: str, *, in_folder: bool) -> str:
    """Return a pattern for the files that belong to the same checkpoint by their names."""
    folder, name = os.path.split(file)
    if numbering := numbering_of(name):
        return os.path.join(folder, numbering.pattern)
    if format_of_index(name) or name.endswith(_STATING_PARTS):
        return file
    if in_folder:
        return os.path.join(folder, re.sub(r"\d+", "*", name))
    return os.path.join(folder, "*")


def files_at(path: str) -> list[str]:
    """Return the files that a path refers to, at least one.

    Raises:
        CheckpointError: no file matches the pattern, or the folder contains no checkpoint that can
            be read.
    """
    if is_remote(path):
        return _remote_files(path)
    if path.endswith(DATA_SUFFIX):
        return [os.path.join(os.path.dirname(path), METADATA_NAME)]
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


def paths_in_brief(paths: Sequence[str]) -> list[str]:
    """Return paths without the folders at the beginning that all of them share.

    Example:
        >>> paths_in_brief(["runs/a/model.safetensors", "runs/b/model.safetensors"])
        ['a/model.safetensors', 'b/model.safetensors']
    """
    folders = [path.split("/")[:-1] for path in paths]
    shared = 0
    for pieces in zip(*folders, strict=False):
        if len(set(pieces)) > 1:
            break
        shared += 1
    return ["/".join(path.split("/")[shared:]) or "." for path in paths]


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
    beside = set(_files_beside(names))
    weights = [name for name in names if name not in beside]
    for held in (weights, names):
        for suffix in FORMATS:
            if chosen := _of_format(held, suffix, folder):
                return chosen
    check_readable(folder, files=names)
    for name in names:
        if name.endswith(SUFFIXES):
            check_readable(os.path.join(folder, name))
    explanation = explained_folder(folder, names)
    if explanation and not explanation.is_readable:
        raise Rule(EMPTY.name, explanation.what, explanation.hint).broken(folder)
    raise EMPTY.broken(folder)


def _files_beside(names: list[str]) -> list[str]:
    """Return the files that trainers write beside a model, such as ``optimizer.pt``."""
    patterns = data.read_toml("facts/wrappers.toml")["beside"]
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _of_format(names: list[str], suffix: str, folder: str) -> list[str]:
    indexes = [name for name in names if name.endswith(suffix + INDEX_SUFFIX)]
    if "model" + suffix + INDEX_SUFFIX in indexes:
        return ["model" + suffix + INDEX_SUFFIX]
    if len(indexes) == 1:
        return indexes
    for single in ("model", "adapter_model"):
        if single + suffix in names:
            return [single + suffix]
    if indexes:
        raise AMBIGUOUS.broken(folder, indexes=", ".join(indexes))
    if suffix == METADATA_NAME:
        return [name for name in names if name == suffix]
    return [name for name in names if name.endswith(suffix)]
