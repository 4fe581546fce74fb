"""Reads checkpoint headers to rows: the entry to the readers of all formats.

Only headers are read, never the tensors' data, and nothing in a header is trusted before it is
checked. A format is one file in this folder and one line of `formats.FORMATS`.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from weighbridge.errors import UsageError
from weighbridge.readers import index as indexes
from weighbridge.readers import module, packing, tensorflow
from weighbridge.readers.formats import FORMATS, FileFormat, format_of, format_of_index
from weighbridge.readers.header import Header, collecting_later
from weighbridge.readers.paths import files_at, looks_like_checkpoint
from weighbridge.readers.rules import Rule, is_remote, without_secrets
from weighbridge.readers.stores.pages import checkpoint_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weighbridge.ledger.rows import Row
    from weighbridge.readers.module import Module
    from weighbridge.readers.packing import Packed

    Watch = Callable[[int, int], None]

__all__ = ["FORMATS", "FileFormat", "StoredCheckpoint", "is_checkpoint", "read"]

MIXED = Rule(
    "mixed-formats", "the files are of several formats", "give a pattern that fits those of one"
)


class StoredCheckpoint(NamedTuple):
    """What the headers of a checkpoint hold.

    ``rows`` go by file and then by the header's own order, and hold each name once. ``parameters``
    of each is its ``count``, since a header does not mark buffers; but a tensor that is tied to
    another adds nothing, one that packs a weight adds the elements of that weight, and the scales
    beside it add nothing. ``packed`` are those weights, by the name that they are stored under;
    ``called`` are the names of weights that are stored under names without a meaning.

    The four fields from ``duplicates`` on are what does not agree; they are facts to report, not
    errors. They are the files of each name that stands in several, of which ``rows`` has the first;
    in ``absent`` the names, with the shard, that the index puts in a shard which lacks them,
    whether or not another file holds them; in ``unlisted`` the names that the index leaves out; in
    ``stated_bytes`` the index's total, if it states one.
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


@collecting_later
def read(path: str | os.PathLike[str] | Module, watch: Watch | None = None) -> StoredCheckpoint:
    """Return what a checkpoint holds.

    ``path`` is a file, a pattern, an index of shards, or a folder with any of these. Of a folder
    ``model.safetensors.index.json`` is read; without it the only index, ``model.safetensors``, or
    all files of the format, in order of their names. ``header_bytes`` counts the bytes read, an
    index's with them.

    It may be an address: ``https://…``, a repository on the Hugging Face Hub as
    ``hf://org/name@revision`` or as its page in a browser, or one of a kind that fsspec knows,
    ``s3://bucket/folder``. Ranges
    are fetched, never whole files; several files are read at once, and ``watch`` is called after
    each with the number of files that are done and of all. Or it may be in memory: a module of
    PyTorch.

    Raises:
        CheckpointError: nothing to read there, a format with no reader yet, or a file that breaks a
            rule.

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
    if isinstance(path, module.Module):
        rows = module.read(path).rows
        return StoredCheckpoint(
            type(path).__name__, "PyTorch module", rows, {}, (), 0, {}, {}, (), None
        )
    if not isinstance(path, str | os.PathLike):
        what, hint = "a checkpoint is given by its path", "name a file or a folder"
        raise UsageError(what, values={"found": path}, hint=hint)
    path = checkpoint_at(os.fspath(path))
    if not os.path.lexists(path) and os.path.isfile(path + tensorflow.SUFFIX):
        path += tensorflow.SUFFIX  # no file has the name that TensorFlow gives a checkpoint
    files = files_at(path)
    of_shards = format_of_index(files[0])
    if of_shards:
        index = indexes.read(files[0])
        shards = list(index.shards.values())
        return _merged(path, shards, _headers(shards, of_shards, watch), of_shards, index)
    file_format = _common_format(path, files)
    if file_format.parts and len(files) == 1:
        header = file_format.read(files[0])
        files = file_format.parts(files[0], header)
        if len(files) == 1:
            return _merged(path, files, [header], file_format)
    return _merged(path, files, _headers(files, file_format, watch), file_format)


def is_checkpoint(path: object) -> TypeGuard[str | os.PathLike[str] | Module]:
    """Return whether this is a module, or plainly the path of a checkpoint and not of a config.

    Example:
        >>> is_checkpoint("model.safetensors"), is_checkpoint("config.json"), is_checkpoint("bert")
        (True, False, False)
    """
    if isinstance(path, module.Module):
        return True
    return isinstance(path, str | os.PathLike) and looks_like_checkpoint(os.fspath(path))


def _common_format(path: str, files: list[str]) -> FileFormat:
    """Return the one format that all files have."""
    file_format = format_of(files[0])
    others = [file for file in files if format_of(file).name != file_format.name]
    if others:
        names = {"one": os.path.basename(files[0]), "another": os.path.basename(others[0])}
        raise MIXED.broken(path, **names)
    return file_format


def _headers(files: list[str], file_format: FileFormat, watch: Watch | None) -> list[Header]:
    """Read the header of each file: on this disk one after the other, elsewhere several at once."""
    if not is_remote(files[0]):
        return [file_format.read(file) for file in files]
    from weighbridge.readers.stores.remote import read_at_once  # noqa: PLC0415

    return read_at_once(files, file_format.read, watch)


def _merged(
    path: str,
    files: list[str],
    headers: list[Header],
    file_format: FileFormat,
    index: indexes.Index | None = None,
) -> StoredCheckpoint:
    """Put the rows of headers behind one another, and note what does not agree."""
    rows = {row.name: row for header in headers for row in header.rows}
    has_duplicates = len(rows) < sum(len(header.rows) for header in headers)
    holders = _holders(files, headers) if has_duplicates or index else {}
    if has_duplicates:
        first_rows = {row.name: row for header in reversed(headers) for row in header.rows}
        rows = {name: first_rows[name] for name in holders}
    rows, packed = packing.unpack(rows, os.path.dirname(files[0]))
    found = StoredCheckpoint(
        path=without_secrets(path),
        format=file_format.name,
        rows=tuple(rows.values()),
        metadata=_metadata(headers),
        files=tuple(map(without_secrets, files)),
        header_bytes=sum(header.header_bytes for header in headers),
        duplicates={name: held_by for name, held_by in holders.items() if len(held_by) > 1},
        absent={},
        unlisted=(),
        stated_bytes=None,
        packed=packed,
        called={name: weight for header in headers for name, weight in header.called.items()},
    )
    if not index:
        return found
    listed = {file_format.row_name(name): file for name, file in index.paths().items()}
    return found._replace(
        header_bytes=found.header_bytes + index.index_bytes,
        absent={name: file for name, file in listed.items() if file not in holders.get(name, ())},
        unlisted=tuple(name for name in rows if name not in listed),
        stated_bytes=index.total_bytes,
    )


def _metadata(headers: list[Header]) -> dict[str, str]:
    """Return the free text of all headers: of one key, that of the first file that has it."""
    metadata: dict[str, str] = {}
    for header in reversed(headers):
        metadata.update(header.metadata)
    return metadata


def _holders(files: list[str], headers: list[Header]) -> dict[str, tuple[str, ...]]:
    """Return the files that hold each name, in their order."""
    holders: dict[str, tuple[str, ...]] = {}
    for file, header in zip(files, headers, strict=True):
        alone = (file,)
        for row in header.rows:
            if holders.setdefault(row.name, alone) is not alone:
                holders[row.name] += alone
    return holders
