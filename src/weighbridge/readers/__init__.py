"""Reads the headers of checkpoints in any format.

Tensor data is never read, and nothing in a header is trusted until it has been checked. Each format
has one file in this folder and one line in `formats.FORMATS`.
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
    "mixed-formats",
    "the files have different formats",
    "give a pattern that matches files of one format",
)


class StoredCheckpoint(NamedTuple):
    """The contents of a checkpoint, according to its headers.

    ``rows`` follow the order of the files and of each header, and each name occurs once. The
    ``parameters`` of a row are its ``count``, because headers do not mark buffers, with three
    exceptions: a tensor that is tied to another adds nothing, a packed weight adds its unpacked
    elements, and the scales beside it add nothing. ``packed`` holds the packed weights by their
    stored names. ``called`` maps stored names without a meaning to the names of the weights.

    The last four fields record contradictions between the files and the index, which are reported
    as facts, not as errors. ``duplicates`` maps a name that occurs in several files to all of them;
    ``rows`` has the first. ``absent`` maps a name to the shard in which the index lists it, if that
    shard lacks it, whether or not another file has it. ``unlisted`` are the names that the index
    leaves out, and ``stated_bytes`` is the total size in the index, if it has one.
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
    """Return the contents of a checkpoint.

    ``path`` is a file, a pattern, an index of shards, or a folder with any of these. In a folder,
    the first of these is read: ``model.safetensors.index.json``, the only index,
    ``model.safetensors``, or all files of the format in the order of their names. ``header_bytes``
    counts the bytes read, including those of the index.

    ``path`` may also be an address: ``https://…``, a repository on the Hugging Face Hub as
    ``hf://org/name@revision`` or as its page in a browser, or any address that fsspec knows, such
    as ``s3://bucket/folder``. Only ranges are fetched, never whole files. Several files are read at
    once, and after each, ``watch`` is called with the number of files read so far and the total.
    Finally, ``path`` may be a PyTorch module in memory.

    Raises:
        CheckpointError: there is nothing to read, the format has no reader, or a file breaks a
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
    if _is_module(path):
        rows = module.read(path).rows
        return StoredCheckpoint(
            type(path).__name__, "PyTorch module", rows, {}, (), 0, {}, {}, (), None
        )
    if not isinstance(path, str | os.PathLike):
        what, hint = "a checkpoint is given by its path", "give the path of a file or a folder"
        raise UsageError(what, values={"found": path}, hint=hint)
    path = checkpoint_at(os.fspath(path))
    if not os.path.lexists(path) and os.path.isfile(path + tensorflow.SUFFIX):
        path += tensorflow.SUFFIX  # TensorFlow's name for a checkpoint is not the name of a file
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
    """Concatenate the rows of all headers, and record contradictions."""
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
