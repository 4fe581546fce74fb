"""Reads the headers of checkpoints in any format.

Tensor data is never read, and nothing in a header is trusted until it has been checked. Each format
has one file in this folder and one line in `formats.FORMATS`.
"""

from __future__ import annotations

import os
from itertools import chain
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeGuard, TypeVar

from weighbridge.errors import CheckpointError, UsageError
from weighbridge.readers import distributed, module, packing, tensorflow, wrappers
from weighbridge.readers import index as indexes
from weighbridge.readers.formats import FORMATS, FileFormat, format_of, format_of_index
from weighbridge.readers.header import Header, collecting_later
from weighbridge.readers.numbering import SHARD_MISSING, missing_in
from weighbridge.readers.paths import PARTIAL, candidates_at, looks_like_checkpoint, paths_in_brief
from weighbridge.readers.rules import Rule, is_remote, without_secrets
from weighbridge.readers.stores import explained_error
from weighbridge.readers.stores.pages import checkpoint_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from weighbridge.ledger.rows import Row
    from weighbridge.readers.header import Packed
    from weighbridge.readers.module import Module
    from weighbridge.readers.paths import FileGroup

    Watch = Callable[[int, int], None]

_T = TypeVar("_T")

__all__ = [
    "FORMATS",
    "FileFormat",
    "StoredCheckpoint",
    "is_checkpoint",
    "read",
    "read_all",
    "read_group",
]

MIXED = Rule(
    "mixed-formats",
    "the files have different formats",
    "give a pattern that matches files of one format",
)
SEVERAL = Rule(
    "several-checkpoints",
    "the path means several checkpoints, not one",
    "give the path of one of them; `weighbridge inspect` lists each with its total",
)


MOST_TENSORS = 300_000
TENSORS = Rule(
    "tensors",
    f"a checkpoint may have at most {MOST_TENSORS:,} tensors in all its files",
    "give the path of one of its files",
)


class StoredCheckpoint(NamedTuple):
    """The contents of a checkpoint, according to its headers.

    ``rows`` follow the order of the files and of each header, and each name occurs once. The
    ``parameters`` of a row are its ``count``, because headers do not mark buffers, with three
    exceptions: a tensor that is tied to another adds nothing, a packed weight adds its unpacked
    elements, and the scales beside it add nothing. ``packed`` holds the packed weights by their
    stored names. ``called`` maps stored names without a meaning to the names of the weights.
    ``named`` are the functions and classes that the pickles refer to, all of which are harmless:
    nothing is imported, and a checkpoint that names others is refused.

    ``unwrapped`` maps stored names to names without the wrappers of trainers, and ``wrappers`` are
    the pieces that these lack. Tensors of the training, such as the state of an optimizer, have a
    role that begins with ``training.``, and add nothing to the parameters.

    The fields from ``duplicates`` to ``stated_bytes`` record contradictions between the files and
    the index, which are reported as facts, not as errors. ``duplicates`` maps a name that occurs in
    several files to all of them; ``rows`` has the first. ``absent`` maps a name to the shard in
    which the index lists it, if that shard lacks it, whether or not another file has it.
    ``unlisted`` are the names that the index leaves out, and ``stated_bytes`` is the total size in
    the index, if it has one.
    """

    path: str
    format: str
    rows: tuple[Row, ...]
    metadata: dict[str, str]
    files: tuple[str, ...]
    header_bytes: int
    duplicates: dict[str, tuple[str, ...]]
    absent: dict[str, str]
    unlisted: tuple[str, ...]
    stated_bytes: int | None
    packed: Mapping[str, Packed] = MappingProxyType({})
    called: Mapping[str, str] = MappingProxyType({})
    unwrapped: Mapping[str, str] = MappingProxyType({})
    wrappers: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    def own_name(self, name: str) -> str:
        """Return the name of the weight that a stored tensor is, without the wrappers of trainers.

        It is the stored name if nothing says what the tensor is.
        """
        if name in self.called:
            name = self.called[name]
        elif name in self.packed:
            name = self.packed[name].name
        return self.unwrapped.get(name, name)


def read(path: str | os.PathLike[str] | Module, watch: Watch | None = None) -> StoredCheckpoint:
    """Return the contents of a checkpoint.

    ``path`` is a file, a pattern, an index of shards, or a folder with any of these. In a folder,
    the first of these is read: ``model.safetensors.index.json``, the only index,
    ``model.safetensors``, or all files of the format in the order of their names. ``header_bytes``
    counts the bytes read, including those of the index.

    Several files are one checkpoint if an index or their numbering says so (``-00001-of-00002``),
    or if a pattern matches them, or if their names in a folder differ in numbers alone; in the last
    two cases no two of them may have a tensor of the same name.

    ``path`` may also be an address: ``https://…``, a repository on the Hugging Face Hub as
    ``hf://org/name@revision`` or as its page in a browser, or any address that fsspec knows, such
    as ``s3://bucket/folder``. Only ranges are fetched, never whole files. Several files are read at
    once, and after each, ``watch`` is called with the number of files read so far and the total.
    Finally, ``path`` may be a PyTorch module in memory.

    Raises:
        CheckpointError: there is nothing to read, the format has no reader, a file breaks a rule,
            or there are several checkpoints.

    Example:
        >>> import os, tempfile
        >>> header = b'{"pooler.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        ...         _ = file.write(len(header).to_bytes(8, "little") + header + bytes(8))
        ...     found = read(folder)
        >>> [(row.name, row.count) for row in found.rows]
        [('pooler.bias', 2)]
        >>> [os.path.basename(file) for file in found.files]
        ['model.safetensors']
    """
    if _is_module(path):
        return _of_module(path)
    candidates = _candidates(path)
    if len(candidates) > 1:
        raise _several(path, [candidate.path for candidate in candidates])
    found = read_group(candidates[0], watch)
    if len(found) > 1:
        raise _several(path, [checkpoint.path for checkpoint in found])
    return found[0]


def read_all(
    path: str | os.PathLike[str] | Module, watch: Watch | None = None
) -> list[StoredCheckpoint]:
    """Return the contents of each checkpoint that a path means, in the order of their files.

    Raises:
        CheckpointError: as for `read`, except that there may be several.

    Example:
        >>> import os, tempfile
        >>> header = b'{"pooler.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("epoch-1.safetensors", "epoch-2.safetensors"):
        ...         with open(os.path.join(folder, name), "wb") as file:
        ...             _ = file.write(len(header).to_bytes(8, "little") + header + bytes(8))
        ...     [os.path.basename(found.path) for found in read_all(folder)]
        ['epoch-1.safetensors', 'epoch-2.safetensors']
    """
    if _is_module(path):
        return [_of_module(path)]
    found = []
    for candidate in _candidates(path):
        found += read_group(candidate, watch)
    return found


def _of_module(of: Module) -> StoredCheckpoint:
    rows = module.read(of).rows
    return StoredCheckpoint(type(of).__name__, "PyTorch module", rows, {}, (), 0, {}, {}, (), None)


def _candidates(path: object) -> list[FileGroup]:
    if not isinstance(path, str | os.PathLike):
        what, hint = "a checkpoint is given by its path", "give the path of a file or a folder"
        raise UsageError(what, values={"found": path}, hint=hint)
    path = checkpoint_at(os.fspath(path))
    if not os.path.lexists(path) and os.path.isfile(path + tensorflow.SUFFIX):
        path += tensorflow.SUFFIX  # TensorFlow's name for a checkpoint is not the name of a file
    return candidates_at(path)


def _several(path: object, paths: list[str]) -> CheckpointError:
    """Return the error for a path that means several checkpoints, with the first two of them."""
    first, second, *_ = paths_in_brief([without_secrets(each) for each in paths])
    return SEVERAL.broken(str(path), checkpoints=len(paths), first=first, second=second)


@collecting_later
def read_group(candidate: FileGroup, watch: Watch | None = None) -> list[StoredCheckpoint]:
    """Return the checkpoint in some files or, if they have tensors of the same name, each file's.

    An index and a numbering say what belongs together, so there the names may occur twice.

    Raises:
        CheckpointError: a file breaks a rule of its format, or is missing by their numbering.
    """
    try:
        return _of_group(candidate, watch)
    except CheckpointError as error:
        raise explained_error(error) from None


def _of_group(candidate: FileGroup, watch: Watch | None) -> list[StoredCheckpoint]:
    path, files, is_whole, kind = candidate
    if kind == PARTIAL:
        raise SHARD_MISSING.broken(path, files=len(files), missing=missing_in(files))
    if os.path.basename(files[0]) == distributed.SUFFIX:
        files = files[:1]  # it describes what the data files beside it hold
    of_shards = format_of_index(files[0])
    if of_shards:
        index = indexes.read(files[0])
        shards = list(index.shards.values())
        return [_merged(path, shards, _headers(shards, of_shards, watch), of_shards, index)]
    file_format = _common_format(path, files)
    if file_format.parts and len(files) == 1:
        header = file_format.read(files[0])
        files = file_format.parts(files[0], header)
        if len(files) == 1:
            return [_merged(path, files, [header], file_format)]
    headers = _headers(files, file_format, watch)
    if is_whole or not _have_common_names(headers):
        return [_merged(path, files, headers, file_format)]
    found = []
    for file, header in zip(files, headers, strict=True):
        found.append(_merged(file, [file], [header], file_format))
    return found


def _have_common_names(headers: list[Header]) -> bool:
    names = {row.name for header in headers for row in header.rows}
    return len(names) < sum(len(header.rows) for header in headers)


def is_checkpoint(path: object) -> TypeGuard[str | os.PathLike[str] | Module]:
    """Return whether this is a module, or a path that is clearly a checkpoint's and not a config's.

    Example:
        >>> is_checkpoint("model.safetensors"), is_checkpoint("config.json"), is_checkpoint("bert")
        (True, False, False)
    """
    if _is_module(path):
        return True
    return isinstance(path, str | os.PathLike) and looks_like_checkpoint(os.fspath(path))


def _is_module(path: object) -> TypeGuard[Module]:
    """Whether this is a module, and not its class, which has the same methods."""
    return isinstance(path, module.Module) and not isinstance(path, type)


def _common_format(path: str, files: list[str]) -> FileFormat:
    """Return the format that all files share."""
    file_format = format_of(files[0])
    others = [file for file in files if format_of(file).name != file_format.name]
    if others:
        names = {"one": os.path.basename(files[0]), "another": os.path.basename(others[0])}
        raise MIXED.broken(path, **names)
    return file_format


def _headers(files: list[str], file_format: FileFormat, watch: Watch | None) -> list[Header]:
    """Read the header of each file: local files one by one, remote ones several at once."""
    tensors = 0

    def counted(file: str) -> Header:
        nonlocal tensors
        header = file_format.read(file)
        tensors += len(header.rows)
        if tensors > MOST_TENSORS:
            raise TENSORS.broken(file, tensors=tensors)
        return header

    if not is_remote(files[0]):
        return [counted(file) for file in files]
    from weighbridge.readers.stores.remote import read_at_once  # noqa: PLC0415

    return read_at_once(files, counted, watch)


def _merged(
    path: str,
    files: list[str],
    headers: list[Header],
    file_format: FileFormat,
    index: indexes.Index | None = None,
) -> StoredCheckpoint:
    """Concatenate the rows of all headers, and record contradictions."""
    every_row = list(chain.from_iterable(header.rows for header in headers))
    rows = dict(zip(map(_NAME, every_row), every_row, strict=True))
    has_duplicates = len(rows) < len(every_row)
    holders = _holders(files, headers) if has_duplicates else {}
    if has_duplicates:
        first_rows = {row.name: row for header in reversed(headers) for row in header.rows}
        rows = {name: first_rows[name] for name in holders}
    metadata = _metadata(headers)
    marked = _union(header.packed for header in headers)
    rows, packed = packing.unpack(rows, os.path.dirname(files[0]), metadata, marked)
    listed = _files_in_index(index, file_format)
    bare = wrappers.unwrapped(_names_of_model(rows, packed, listed), _within(headers))
    found = StoredCheckpoint(
        path=without_secrets(path),
        format=file_format.name,
        rows=tuple(rows.values()),
        metadata=metadata,
        files=tuple(map(without_secrets, files)),
        header_bytes=sum(header.header_bytes for header in headers),
        duplicates={name: held_by for name, held_by in holders.items() if len(held_by) > 1},
        absent={},
        unlisted=(),
        stated_bytes=None,
        packed=packed,
        named=tuple(dict.fromkeys(name for header in headers for name in header.named)),
        called=_union(header.called for header in headers),
        unwrapped=bare.names,
        wrappers=bare.wrappers,
    )
    if not index:
        return found
    found = found._replace(
        header_bytes=found.header_bytes + index.index_bytes, stated_bytes=index.total_bytes
    )
    if not has_duplicates and _files_of_rows(files, headers) == listed:
        return found  # the usual case, without a look at each name
    return _with_contradictions(found, listed, holders or _holders(files, headers))


def _with_contradictions(
    found: StoredCheckpoint, listed: dict[str, str], holders: dict[str, tuple[str, ...]]
) -> StoredCheckpoint:
    """Record what an index lists elsewhere or leaves out; ``listed`` has the file of each name."""
    return found._replace(
        absent={name: file for name, file in listed.items() if file not in holders.get(name, ())},
        unlisted=tuple(row.name for row in found.rows if row.name not in listed),
    )


def _files_of_rows(files: list[str], headers: list[Header]) -> dict[str, str]:
    """Return the file of each row, where no name is in two files."""
    file_of: dict[str, str] = {}
    for file, header in zip(files, headers, strict=True):
        file_of |= dict.fromkeys(map(_NAME, header.rows), file)
    return file_of


_NAME, _ROLE = itemgetter(0), attrgetter("role")  # of a row
_TRAINING = "training."  # begins the roles of what a training keeps beside the model


def _union(parts: Iterable[Mapping[str, _T]]) -> dict[str, _T]:
    return {name: value for part in parts for name, value in part.items()}


def _files_in_index(index: indexes.Index | None, file_format: FileFormat) -> dict[str, str]:
    """Return the file in which an index lists each tensor, by the names of rows."""
    if index is None:
        return {}
    if file_format.row_name is str:
        return index.paths()
    return {file_format.row_name(name): file for name, file in index.paths().items()}


def _names_of_model(
    rows: Mapping[str, Row], packed: Mapping[str, Packed], listed: Mapping[str, str]
) -> list[str]:
    """Return the names of the model's tensors: stored ones, unpacked ones and those in an index."""
    names = dict.fromkeys(rows)
    if any(role.startswith(_TRAINING) for role in set(map(_ROLE, rows.values()))):
        names = {name: None for name in rows if not rows[name].role.startswith(_TRAINING)}
    names.update(dict.fromkeys(weight.name for weight in packed.values()))
    names.update(dict.fromkeys(listed))
    return list(names)


def _within(headers: list[Header]) -> str:
    """Return the path of the state dict, if it is the same in all files."""
    paths = {header.within for header in headers}
    return paths.pop() if len(paths) == 1 else ""


def _metadata(headers: list[Header]) -> dict[str, str]:
    """Return the metadata of all headers; the first file that has a key decides its value."""
    metadata: dict[str, str] = {}
    for header in reversed(headers):
        metadata.update(header.metadata)
    return metadata


def _holders(files: list[str], headers: list[Header]) -> dict[str, tuple[str, ...]]:
    """Return the files that contain each name, in the order of the files."""
    holders: dict[str, tuple[str, ...]] = {}
    for file, header in zip(files, headers, strict=True):
        alone = (file,)
        for row in header.rows:
            if holders.setdefault(row.name, alone) is not alone:
                holders[row.name] += alone
    return holders
