"""Reads checkpoint headers to rows: what a checkpoint holds, told from its headers alone.

A format is one file in this folder and one line of ``FORMATS``. Only headers are read, never the
tensors' data, and nothing that a header says is believed before it is checked.
"""

from __future__ import annotations

import glob
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from weighbridge.errors import UsageError
from weighbridge.readers import (
    flax,
    gguf,
    module,
    npz,
    onnx,
    packing,
    pytorch,
    safetensors,
    tensorflow,
)
from weighbridge.readers import index as indexes
from weighbridge.readers.header import Header, collecting_later
from weighbridge.readers.rules import UNREADABLE, Rule, is_remote, without_secrets
from weighbridge.readers.stores import open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weighbridge.ledger.ledger import Row
    from weighbridge.readers.module import Module
    from weighbridge.readers.packing import Packed

    Watch = Callable[[int, int], None]


class FileFormat(NamedTuple):
    """A format's name, how its header is read, and whether a file's first 9 bytes look like it.

    ``parts`` names the files that a checkpoint is split into, of one of which it is given the path
    and the header; ``row_name`` gives a name in an index as the rows have it.
    """

    name: str
    read: Callable[[str], Header]
    recognise: Callable[[bytes], bool]
    parts: Callable[[str, Header], list[str]] | None = None
    row_name: Callable[[str], str] = str


FORMATS = {
    ".safetensors": FileFormat("safetensors", safetensors.read, safetensors.recognise),
    ".gguf": FileFormat("GGUF", gguf.read, gguf.recognise, gguf.parts),
    ".bin": FileFormat("PyTorch", pytorch.read, pytorch.recognise),
    ".pt": FileFormat("PyTorch", pytorch.read, pytorch.recognise),
    ".pth": FileFormat("PyTorch", pytorch.read, pytorch.recognise),
    ".ckpt": FileFormat("PyTorch", pytorch.read, pytorch.recognise),
    ".onnx": FileFormat("ONNX", onnx.read, onnx.recognise),
    ".npz": FileFormat("NumPy", npz.read, npz.recognise),
    ".index": FileFormat("TensorFlow", tensorflow.read, tensorflow.recognise),
    ".msgpack": FileFormat("Flax", flax.read, flax.recognise, row_name=flax.dotted_name),
}
# Suffixes of formats that hold weights too and have no reader yet.
UNREAD = (".h5", ".pdparams", ".tflite")
_READ = ", ".join(FORMATS)
_INDEX = ".index.json"

FORMAT = Rule(
    "format",
    f"only {_READ} are read so far",
    "give such a file, its index, or a folder that holds one",
)
EMPTY = Rule(
    "no-checkpoint", "the folder holds no checkpoint", f"give a folder that holds {_READ} files"
)
NO_MATCH = Rule(
    "no-match",
    "no file fits this pattern",
    "check its spelling, and that the shell leaves it as it is",
)
MIXED = Rule(
    "mixed-formats", "the files are of several formats", "give a pattern that fits those of one"
)
AMBIGUOUS = Rule("which-index", "the folder holds several indexes", "name the one that is meant")


class Found(NamedTuple):
    """A checkpoint as its headers tell it.

    ``rows`` go by file and then by the header's own order, and hold each name once. ``parameters``
    of each is its ``count``, since a header does not tell buffers; but a tensor that is another one
    adds nothing, one that packs a weight adds the elements that this has, and the scales beside it
    add nothing. ``packed`` are those weights, by the name that they are stored under; ``called``
    are the weights that others are whose names do not tell it.

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
def read(path: str | os.PathLike[str] | Module, watch: Watch | None = None) -> Found:
    """Return what a checkpoint holds: ``path`` is a file, a pattern, an index of shards, or a folder with either.

    Of a folder ``model.safetensors.index.json`` is read; without it the only index,
    ``model.safetensors``, or all files of the format, in order of their names. ``header_bytes``
    counts the bytes read, an index's with them.

    It may be elsewhere: ``https://…``, a repository on the Hugging Face Hub as
    ``hf://org/name@revision``, or an address of a kind that fsspec knows, ``s3://bucket/folder``.
    Ranges are fetched, never whole files; several files are read at once, and ``watch`` is told of
    each that is done, as so many of so many. Or it may be in memory: a module of PyTorch.

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
        >>> [(row.name, row.count) for row in found.rows], [os.path.basename(file) for file in found.files]
        ([('pooler.bias', 2)], ['model.safetensors'])
    """
    if isinstance(path, module.Module):
        header = module.read(path)
        return Found(
            type(path).__name__, "PyTorch module", header.rows, {}, (), 0, {}, {}, (), None
        )
    if not isinstance(path, str | os.PathLike):
        raise UsageError(
            "a checkpoint is given by its path",
            values={"found": path},
            hint="name a file or a folder",
        )
    path = os.fspath(path)
    if not os.path.lexists(path) and os.path.isfile(path + tensorflow.SUFFIX):
        path += (
            tensorflow.SUFFIX
        )  # as TensorFlow names a checkpoint, of which no file has the name itself
    files = _files(path)
    for suffix, form in FORMATS.items():
        if without_secrets(files[0]).endswith(suffix + _INDEX):
            index = indexes.read(files[0])
            return _found(path, list(index.shards.values()), form, index, watch)
    form = _form(files[0])
    strange = [file for file in files if _form(file).name != form.name]
    if strange:
        raise MIXED.broken(
            path, one=os.path.basename(files[0]), another=os.path.basename(strange[0])
        )
    if form.parts and len(files) == 1:
        first = form.read(files[0])
        files = form.parts(files[0], first)
        if len(files) == 1:
            return _of_headers(path, files, [first], form, None)
    return _found(path, files, form, None, watch)


def is_checkpoint(path: object) -> TypeGuard[str | os.PathLike[str] | Module]:
    """Whether a path is plainly that of a checkpoint, and not of a config; or is a module itself.

    Example:
        >>> is_checkpoint("model.safetensors"), is_checkpoint("config.json"), is_checkpoint("bert-base-chinese")
        (True, False, False)
    """
    if isinstance(path, module.Module):
        return True
    if not isinstance(path, str | os.PathLike):
        return False
    path = without_secrets(os.fspath(path))
    if path.endswith((*FORMATS, *(suffix + _INDEX for suffix in FORMATS))) or _is_pattern(path):
        return True
    return os.path.isdir(path) and not os.path.exists(os.path.join(path, "config.json"))


def _files(path: str) -> list[str]:
    """Return the files that a path means: itself, those that it is the pattern of, or what to read of a folder."""
    if is_remote(path):
        from weighbridge.readers.stores import store_of  # noqa: PLC0415  # most files are here
        from weighbridge.readers.stores.remote import RemoteFolder  # noqa: PLC0415  # most files are here

        store = store_of(path)
        if _is_pattern(path) and (matching := store.matching(path)) != [path]:
            return matching or _no_match(path)
        folder = store.folder(path)
        if isinstance(folder, RemoteFolder):
            return [f"{folder.path}/{name}" for name in _choose(path, folder.names)]
        return _files(folder) if folder and not is_remote(folder) else [folder or path]
    if os.path.isdir(path):
        try:
            names = sorted(os.listdir(path))
        except OSError as error:
            raise UNREADABLE.broken(path, reason=error.strerror) from None
        return [os.path.join(path, name) for name in _choose(path, names)]
    if _is_pattern(path) and not os.path.lexists(path):
        return sorted(glob.glob(path)) or _no_match(path)
    return [path]


def _is_pattern(path: str) -> bool:
    return any(mark in path for mark in "*?[")


def _no_match(path: str) -> list[str]:
    raise NO_MATCH.broken(path)


def _choose(folder: str, names: list[str]) -> list[str]:
    """Return what to read of a folder: an index, one file or several."""
    for suffix in FORMATS:
        if chosen := _of_format(names, suffix, folder):
            return chosen
    others = [name for name in names if name.endswith(UNREAD)]
    raise FORMAT.broken(folder, found=", ".join(others)) if others else EMPTY.broken(folder)


def _of_format(names: list[str], suffix: str, folder: str) -> list[str]:
    listed = [name for name in names if name.endswith(suffix + _INDEX)]
    if "model" + suffix + _INDEX in listed:
        return ["model" + suffix + _INDEX]
    if len(listed) == 1:
        return listed
    if "model" + suffix in names:
        return ["model" + suffix]
    if listed:
        raise AMBIGUOUS.broken(folder, indexes=", ".join(listed))
    return [name for name in names if name.endswith(suffix)]


def _form(path: str) -> FileFormat:
    """Return the format of a file by its suffix, or by its first bytes where the suffix is not in the table."""
    for suffix, form in FORMATS.items():
        if without_secrets(path).endswith(suffix):
            return form
    with open_file(path) as file:
        start = file.read(9)
    for form in FORMATS.values():
        if form.recognise(start):
            return form
    raise FORMAT.broken(path, starts_with=start)


def _found(
    path: str, files: list[str], form: FileFormat, index: indexes.Index | None, watch: Watch | None
) -> Found:
    """Read each file's header."""
    return _of_headers(path, files, _each(files, form, watch), form, index)


def _of_headers(
    path: str,
    files: list[str],
    headers: list[Header],
    form: FileFormat,
    index: indexes.Index | None,
) -> Found:
    """Put the rows of headers behind one another, and note what does not agree."""
    rows = {row.name: row for header in headers for row in header.rows}
    is_twice = len(rows) < sum(len(header.rows) for header in headers)
    holders = _holders(files, headers) if is_twice or index else {}
    if is_twice:  # of several the first counts
        first = {row.name: row for header in reversed(headers) for row in header.rows}
        rows = {name: first[name] for name in holders}
    rows, packed = packing.unpack(rows, os.path.dirname(files[0]))
    listed = {form.row_name(name): file for name, file in index.paths().items()} if index else {}
    return Found(
        path=without_secrets(path),
        format=form.name,
        rows=tuple(rows.values()),
        metadata={
            key: value for header in reversed(headers) for key, value in header.metadata.items()
        },
        files=tuple(map(without_secrets, files)),
        header_bytes=sum(header.header_bytes for header in headers)
        + (index.index_bytes if index else 0),
        duplicates={name: held for name, held in holders.items() if len(held) > 1}
        if is_twice
        else {},
        absent={name: file for name, file in listed.items() if file not in holders.get(name, ())},
        unlisted=tuple(name for name in rows if name not in listed) if index else (),
        stated_bytes=index.total_bytes if index else None,
        packed=packed,
        called={name: weight for header in headers for name, weight in header.called.items()},
    )


def _holders(files: list[str], headers: list[Header]) -> dict[str, tuple[str, ...]]:
    """Return the files that hold each name, in their order."""
    holders: dict[str, tuple[str, ...]] = {}
    for file, header in zip(files, headers, strict=True):
        alone = (file,)
        for row in header.rows:
            if holders.setdefault(row.name, alone) is not alone:
                holders[row.name] += alone
    return holders


def _each(files: list[str], form: FileFormat, watch: Watch | None) -> list[Header]:
    """Read the header of each file: one after the other where they are here, at once where they are elsewhere."""
    if not is_remote(files[0]):
        return [form.read(file) for file in files]
    from weighbridge.readers.stores.remote import each  # noqa: PLC0415

    return each(files, form.read, watch)
