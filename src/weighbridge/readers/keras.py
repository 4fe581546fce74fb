"""Reads Keras weights: HDF5 files, as Keras 2 and 3 write them, and ``.keras`` archives.

An HDF5 file holds groups and datasets as a file system holds folders and files. A ``.keras`` file
is a zip archive with such a file in it, ``model.weights.h5``. The HDF5 library reads the structure;
this module never reads a dataset, and follows no link: a soft or external link could lead anywhere.
The format is specified in https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t4.html, and
the use that Keras makes of it in ``keras/src/saving/saving_lib.py``.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO

from weighbridge.readers import archive
from weighbridge.readers.header import Header, found_row
from weighbridge.readers.npz import DTYPES
from weighbridge.readers.rules import FETCH, REWRITE, Rule, elements, parse_object
from weighbridge.readers.stores import open_file, read_at, size_of
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from weighbridge.ledger.rows import Row

MAGIC = b"\x89HDF\r\n\x1a\n"
WEIGHTS = "model.weights.h5"
MOST_OBJECTS = 500_000
MOST_DEEP = 64
LONGEST_METADATA_BYTES = 1_000_000
_METADATA = "metadata.json"

EXTRA = Rule(
    "keras-extra",
    "reading HDF5 needs the package h5py, which is not installed",
    "run pip install 'weighbridge[keras]'",
)
WEIGHTS_FILE = Rule("keras-weights", f"a .keras archive must contain {WEIGHTS}, stored", REWRITE)
HDF5 = Rule("hdf5", "the file must be a valid HDF5 file", FETCH)
LINK = Rule(
    "hdf5-link",
    "the tensors must be in the file itself: a link is not followed",
    "save the file again, without links",
)
DEEP = Rule(
    "hdf5-deep",
    f"groups may nest at most {MOST_DEEP} deep, have at most {MOST_OBJECTS:,} members, "
    "and contain no circle",
    REWRITE,
)
DTYPE = Rule("hdf5-dtype", "a tensor must hold numbers or booleans", "save the tensor as numbers")
SHAPE = Rule("hdf5-shape", "a tensor must have a shape with fewer than 2^63 elements", REWRITE)
SIZE = Rule("hdf5-size", "the file must be long enough for each tensor that it stores", FETCH)


def recognise(start: bytes) -> bool:
    r"""Return whether a file's first 9 bytes look like HDF5; a ``.keras`` file has a suffix only.

    Example:
        >>> recognise(b"\x89HDF\r\n\x1a\n\x00"), recognise(b"PK\x03\x04\x14\x00\x00\x00\x00")
        (True, False)
    """
    return start[: len(MAGIC)] == MAGIC


def read(path: str) -> Header:
    """Return the tensors of a file, named by the path of groups to each, in the file's order.

    A tensor that several names share is tied to the first. Variables of an optimizer, and numbers
    of text or of other kinds that Keras stores beside weights, add no parameters.

    Raises:
        CheckpointError: h5py is not installed, or the file breaks a rule of the format; the message
            starts with the rule's name.
    """
    with open_file(path) as file:
        if read_at(file, 0, len(archive.MAGIC)) != archive.MAGIC:
            return _of_hdf5(file, path)
        members = archive.members(file, path)
        weights = members.get(WEIGHTS)
        if weights is None or weights.packed != weights.size:
            raise WEIGHTS_FILE.broken(path, members=", ".join(members)[:100])
        window = _Window(file, archive.data_of(file, weights, path), weights.size)
        header = _of_hdf5(window, path)
        metadata = {}
        if _METADATA in members:
            raw = archive.content(file, members[_METADATA], path, LONGEST_METADATA_BYTES)
            metadata = {key: str(value) for key, value in parse_object(raw, path).items()}
        return header._replace(metadata={**header.metadata, **metadata})


class _Window(io.RawIOBase):
    """A part of a file as a file; the HDF5 library reads it through this object.

    It counts the bytes that were read.
    """

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self.size = file, start, size
        self._at = self.read_bytes = 0

    def readable(self) -> bool:
        """Return True: the file is for reading."""
        return True

    def seekable(self) -> bool:
        """Return True: the file can be read in any order."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset, which is counted from the start, from here, or from the end."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def tell(self) -> int:
        """Return the current offset."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the current offset, and return the number of bytes."""
        length = min(len(buffer), max(0, self.size - self._at))
        piece = read_at(self._file, self._start + self._at, length)
        buffer[: len(piece)] = piece
        self._at += len(piece)
        self.read_bytes += len(piece)
        return len(piece)


def _of_hdf5(file: Any, path: str) -> Header:
    h5py = _library(path)
    start = read_at(file, 0, len(MAGIC))
    if start != MAGIC:
        raise HDF5.broken(path, starts_with=start)
    window = _Window(file, 0, size_of(file))
    try:
        # The library's own errors are of many classes, and its messages are for programmers.
        with h5py.File(window, "r") as root:
            rows = tuple(_Datasets(h5py, path, window.size).rows(root))
            metadata = _short_texts(root.attrs)
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise HDF5.broken(path, problem=" ".join(str(error).split())) from None
    return Header(rows, metadata, window.read_bytes)


def _library(path: str) -> ModuleType:
    try:
        import h5py  # noqa: PLC0415  # an optional package
    except ModuleNotFoundError:
        raise EXTRA.broken(path) from None
    module: ModuleType = h5py
    return module


def _short_texts(attributes: Any) -> dict[str, str]:
    """Return the attributes of a file that are short texts, such as the version of Keras."""
    texts = {}
    for key in list(attributes)[:_MOST_ATTRIBUTES]:
        if attributes.get_id(key).get_storage_size() > LONGEST_METADATA_BYTES:
            continue
        value = attributes[key]
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, str):
            texts[str(key)] = value
    return texts


_MOST_ATTRIBUTES = 1000

# The groups in which Keras 2 and 3 store what a training needs and the model does not.
_OF_TRAINING = ("optimizer_weights/", "optimizer/")
_BESIDE = ("seed_generator", "_seed_generators")


class _Datasets:
    """Walks through the groups of a file, within the limits of the rule ``hdf5-deep``."""

    def __init__(self, h5py: ModuleType, path: str, file_bytes: int) -> None:
        self._h5py, self._path, self._file_bytes = h5py, path, file_bytes
        self._members = 0
        self._stored_bytes = 0
        self._first: dict[int, str] = {}  # the name of each dataset, by its address in the file

    def rows(self, root: Any) -> Iterator[Row]:
        """Yield a row for each dataset below a group."""
        yield from self._below(root, "", (self._address(root),))

    def _address(self, item: Any) -> int:
        return int(self._h5py.h5o.get_info(item.id).addr)

    def _below(self, group: Any, parent: str, inside: tuple[int, ...]) -> Iterator[Row]:
        for key in group:
            name = f"{parent}{key}"
            self._members += 1
            if self._members > MOST_OBJECTS or len(inside) > MOST_DEEP:
                raise DEEP.broken(self._path, at=name, members=self._members, depth=len(inside))
            if not isinstance(group.get(key, getlink=True), self._h5py.HardLink):
                raise LINK.broken(self._path, link=name)
            item = group[key]
            address = self._address(item)
            if isinstance(item, self._h5py.Dataset):
                yield self._row(item, name, address)
            elif isinstance(item, self._h5py.Group):
                if address in inside:
                    raise DEEP.broken(self._path, at=name)
                yield from self._below(item, f"{name}/", (*inside, address))

    def _row(self, dataset: Any, name: str, address: int) -> Row:
        plan = dataset.id.get_create_plist()
        if plan.get_external_count() or plan.get_layout() == self._h5py.h5d.VIRTUAL:
            raise LINK.broken(self._path, link=name)
        shape = dataset.shape
        count = None if shape is None else elements(shape)
        if count is None:
            raise SHAPE.broken(self._path, tensor=name, shape=shape)
        dtype = self._dtype(dataset, name)
        tied_to = self._first.setdefault(address, name)
        self._check_size(dataset, name, stored_bytes(count, dtype), is_new=tied_to == name)
        row = found_row(name, tuple(shape), dtype, count)
        if tied_to != name:
            return row._replace(parameters=0, tied_to=tied_to)
        if name.startswith(_OF_TRAINING) or any(part in name for part in _BESIDE):
            return row._replace(parameters=0)
        return row

    def _dtype(self, dataset: Any, name: str) -> str:
        kind = f"{dataset.dtype.kind}{dataset.dtype.itemsize}"
        if kind == "V2" and dataset.attrs.get("dtype") == "bfloat16":
            return "BF16"  # HDF5 has no such numbers: Keras stores two bytes and their name
        if kind not in DTYPES:
            raise DTYPE.broken(self._path, tensor=name, dtype=str(dataset.dtype))
        return DTYPES[kind]

    def _check_size(self, dataset: Any, name: str, tensor_bytes: int, *, is_new: bool) -> None:
        """Check that a tensor's data, unless it is compressed or empty, fits into the file."""
        allocated = dataset.id.get_storage_size()
        if dataset.chunks is None and allocated not in (0, tensor_bytes):
            raise SIZE.broken(self._path, tensor=name, bytes=allocated, stated=tensor_bytes)
        self._stored_bytes += allocated * is_new
        if self._stored_bytes > self._file_bytes:
            sizes = {"bytes": self._stored_bytes, "file_bytes": self._file_bytes}
            raise SIZE.broken(self._path, tensor=name, **sizes)
