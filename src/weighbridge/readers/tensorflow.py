"""Reads the index of a TensorFlow checkpoint, `bert_model.ckpt.index`: the place of each tensor.

An index is a table of keys and values. It consists of data blocks in the order of their keys, each
followed by its kind of compression and a checksum; a block with the offsets of the data blocks; and
a footer of 48 bytes with the offset of that block. The value of the first key, which is empty, has
the number of data files; the other keys are the names of tensors. The table is defined in
https://github.com/tensorflow/tensorflow (``tensorflow/core/lib/io``: ``format.cc``,
``block_builder.cc``), and the values are the messages of
``tensorflow/core/protobuf/tensor_bundle.proto``. Data files are not read; only their sizes are
checked.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.readers.header import Header, found_row
from weighbridge.readers.rules import FETCH, REWRITE, Rule, elements
from weighbridge.readers.stores import open_file, read_on, size_of
from weighbridge.readers.wrappers import role_of_variable
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.ledger.rows import Row

SUFFIX = ".index"
LONGEST_INDEX_BYTES = 8_000_000  # a tensor takes about 100 bytes
MOST_TENSORS = 40_000  # and slices of tensors
LONGEST_KEYS = 10_000_000  # bytes, of all keys together
_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # after a block: its compression and its checksum
_COMPRESSIONS = {1: "snappy"}

FOOTER = Rule("tf-footer", "an index must end with a footer of 48 bytes", FETCH)
LIMIT = Rule(
    "tf-limit",
    f"an index may have at most {LONGEST_INDEX_BYTES:,} bytes and {MOST_TENSORS:,} tensors",
    FETCH,
)
BLOCK = Rule("tf-block", "a block must lie inside the file, after the block before it", FETCH)
CHECKSUM = Rule("tf-checksum", "a block must match its stated checksum", FETCH)
COMPRESSED = Rule(
    "tf-compressed",
    "a block must not be compressed",
    "save the checkpoint with TensorFlow, which does not compress it",
)
KEY = Rule(
    "tf-key",
    "keys must be complete, in order and in UTF-8, and have at most "
    f"{LONGEST_KEYS:,} bytes together",
    FETCH,
)
MESSAGE = Rule("tf-message", "a value must be a message of fields, each inside the message", FETCH)
HEADER = Rule(
    "tf-header",
    "the first key must be empty, and its value must state the number of data files",
    FETCH,
)
TYPE = Rule("tf-type", "a tensor must have a type that TensorFlow supports", "update weighbridge")
SHAPE = Rule(
    "tf-shape",
    "a shape must have known sizes, none negative, and fewer than 2^63 elements",
    REWRITE,
)
SIZE = Rule("tf-size", "the length of a tensor's data must match its shape and type", FETCH)
SHARD = Rule("tf-shard", "the data file of a tensor must be one of those that the index has", FETCH)
BEYOND = Rule("tf-beyond", "a tensor must lie inside its data file", FETCH)

# Source: DataType of tensorflow/core/framework/types.proto. Texts and resources have no width and
# are not weights.
_TYPES = {
    1: "F32",
    2: "F64",
    3: "I32",
    4: "U8",
    5: "I16",
    6: "I8",
    8: "C64",
    9: "I64",
    10: "BOOL",
    11: "I8",
    12: "U8",
    13: "I32",
    14: "BF16",
    15: "I16",
    16: "U16",
    17: "U16",
    18: "C128",
    19: "F16",
    22: "U32",
    23: "U64",
    24: "F8_E5M2",
    25: "F8_E4M3",
    26: "F8_E4M3FNUZ",
    28: "F8_E5M2FNUZ",
}
_OTHERS = {7: "text", 20: "resource", 21: "variant"}

# The numbers of the fields.
_FILES = 1  # of the header
_TYPE, _SHAPE, _SHARD, _OFFSET, _SIZE, _SLICES = 1, 2, 3, 4, 5, 7  # of an entry
_DIM, _UNKNOWN_RANK = 2, 3  # of a shape
_DIM_SIZE = 1
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5  # kinds of values


class _Entry(NamedTuple):
    """A tensor in the index, or a slice of one."""

    kind: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    sliced: bool


class _TableCutError(Exception):
    """The table ends before a value does."""


def recognise(_start: bytes) -> bool:
    """Return False: the first bytes are those of a key, and may be anything."""
    return False


def read(path: str) -> Header:
    """Return all tensors of a checkpoint, in the order of the index, which is that of the names.

    The step and the state of an optimizer have roles of their own and add no parameters. Tensors of
    texts become metadata.

    Raises:
        CheckpointError: the index breaks a rule of the format, or does not match the existing data
            files.
    """
    raw = _index(path)
    rows, others = [], dict[str, str]()
    for key, name, entry, _ in _checked_entries(raw, path):
        if entry.kind in _OTHERS:
            others[name] = f"{_OTHERS[entry.kind]}, {entry.size} bytes"
            continue
        row = _tensor_row(entry, name, path)
        if role := role_of_variable(name):
            row = row._replace(role=role, parameters=0)
        if not key.startswith(_SLICE):
            rows.append(row)
    return Header(tuple(rows), others, len(raw))


class Place(NamedTuple):
    """The place of a tensor's data, the file and the offset, and its shape and dtype."""

    file: str
    offset: int
    shape: tuple[int, ...]
    dtype: str


def places(path: str) -> dict[str, Place]:
    """Return the place of each tensor's data, if it is stored in one piece.

    Raises:
        CheckpointError: as in `read`.
    """
    return {
        name: Place(
            data.file(entry.shard), entry.offset, entry.shape, _tensor_row(entry, name, path).dtype
        )
        for key, name, entry, data in _checked_entries(_index(path), path)
        if entry.kind not in _OTHERS and not entry.sliced and not key.startswith(_SLICE)
    }


def _index(path: str) -> bytes:
    with open_file(path) as file:
        index_bytes = size_of(file)
        if index_bytes > LONGEST_INDEX_BYTES:
            raise LIMIT.broken(path, index_bytes=index_bytes)
        return read_on(file, index_bytes)


def _checked_entries(raw: bytes, path: str) -> Iterator[tuple[bytes, str, _Entry, _DataFiles]]:
    """Yield the key, name and entry of each tensor in the index, and the data files."""
    pairs = _Table(raw, path).pairs()
    first, value = next(pairs, (None, b""))
    numbers = dict(_numbers(value, path))
    files = numbers.get(_FILES, 0)
    if first != b"" or not 0 < files < 2**31:
        raise HEADER.broken(path, first_key=first, files=files)
    data = _DataFiles(path, files)
    for tensors, (key, message) in enumerate(pairs, start=1):
        if tensors > MOST_TENSORS:
            raise LIMIT.broken(path, tensors=tensors, index_bytes=len(raw))
        name = _name(key, path)
        entry = _entry(message, name, path)
        if not entry.sliced:
            data.check(entry, name)
        yield key, name, entry, data


_SLICE = b"\0"  # the first byte of the keys of slices; the whole tensor has a key of its own


class _Table:
    """Reads a table in the order of its keys."""

    def __init__(self, raw: bytes, path: str) -> None:
        self.raw, self.path = raw, path
        self._key_bytes = 0

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key with its value."""
        raw = self.raw
        if len(raw) < _FOOTER_BYTES or raw[-len(_MAGIC) :] != _MAGIC:
            raise FOOTER.broken(self.path, index_bytes=len(raw), ends_with=raw[-len(_MAGIC) :])
        footer = raw[-_FOOTER_BYTES : -len(_MAGIC)]
        _, _, at = self._handle(footer, 0)  # the handle of a block that is still unused
        before, reached = None, 0
        for _, handle in self._entries(*self._handle(footer, at)[:2]):
            begin, size, _ = self._handle(handle, 0)
            if begin < reached:
                raise BLOCK.broken(self.path, begins=begin, before_ends=reached)
            reached = begin + size + _TRAILER_BYTES
            for key, value in self._entries(begin, size):
                if before is not None and key <= before:
                    raise KEY.broken(self.path, key=key, before=before)
                before = key
                yield key, value

    def _handle(self, raw: bytes, at: int) -> tuple[int, int, int]:
        """Return the offset and the length of a block, and the offset after its handle."""
        try:
            begin, at = _varint(raw, at, len(raw))
            size, at = _varint(raw, at, len(raw))
        except _TableCutError:
            raise BLOCK.broken(self.path, handle=raw) from None
        return begin, size, at

    def _entries(self, begin: int, size: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys and values of a block.

        A key shares its first bytes with the one before it.
        """
        block = self._block(begin, size)
        restarts = int.from_bytes(block[-4:], "little")
        end = len(block) - 4 - 4 * restarts
        if end < 0:
            raise BLOCK.broken(self.path, begins=begin, bytes=size, restarts=restarts)
        at, key = 0, b""
        try:
            while at < end:
                shared, at = _varint(block, at, end)
                rest, at = _varint(block, at, end)
                length, at = _varint(block, at, end)
                self._key_bytes += shared + rest
                if shared > len(key) or rest + length > end - at or self._key_bytes > LONGEST_KEYS:
                    raise _TableCutError
                key = key[:shared] + block[at : at + rest]
                at += rest
                yield key, block[at : at + length]
                at += length
        except _TableCutError:
            raise KEY.broken(self.path, at=begin + at, before=key, bytes=self._key_bytes) from None

    def _block(self, begin: int, size: int) -> bytes:
        end = begin + size
        if end + _TRAILER_BYTES > len(self.raw) - _FOOTER_BYTES:
            raise BLOCK.broken(self.path, begins=begin, bytes=size, index_bytes=len(self.raw))
        stated = int.from_bytes(self.raw[end + 1 : end + _TRAILER_BYTES], "little")
        if not has_checksum(self.raw[begin : end + 1], stated):
            raise CHECKSUM.broken(self.path, begins=begin, bytes=size, stated=stated)
        if self.raw[end]:
            kind = self.raw[end]
            raise COMPRESSED.broken(
                self.path, begins=begin, compression=_COMPRESSIONS.get(kind, kind)
            )
        return self.raw[begin:end]


def has_checksum(raw: bytes, stated: int) -> bool:
    """Return whether bytes have this checksum: a CRC, rotated and offset as in TensorFlow."""
    crc = crc32c(raw)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF == stated


def crc32c(raw: bytes) -> int:
    """Return Castagnoli's cyclic redundancy check.

    Example:
        >>> f"{crc32c(b'123456789'):08X}"
        'E3069283'
    """
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in raw:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


_CASTAGNOLI = 0x82F63B78  # the polynomial, its bits reversed


@cache
def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            lowest_bit, remainder = remainder & 1, remainder >> 1
            if lowest_bit:
                remainder ^= _CASTAGNOLI
        table.append(remainder)
    return table


def _varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Return an integer with 7 bits in each byte, and the offset after it."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= end:
            break
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _TableCutError


def _message_fields(raw: bytes, path: str) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message, each with its number, and an integer or its bytes."""
    at, end = 0, len(raw)
    try:
        while at < end:
            tag, at = _varint(raw, at, end)
            kind, length = tag & 7, {_FIXED_64: 8, _FIXED_32: 4}.get(tag & 7, -1)
            if kind == _VARINT:
                value, at = _varint(raw, at, end)
                yield tag >> 3, value
                continue
            if kind == _BYTES:
                length, at = _varint(raw, at, end)
            if not 0 <= length <= end - at:
                raise _TableCutError
            yield tag >> 3, raw[at : at + length]
            at += length
    except _TableCutError:
        raise MESSAGE.broken(path, message=raw, at=at) from None


def _numbers(raw: bytes, path: str) -> Iterator[tuple[int, int]]:
    """Yield the fields of a message that are integers."""
    return (
        (number, value) for number, value in _message_fields(raw, path) if isinstance(value, int)
    )


def _name(key: bytes, path: str) -> str:
    """Return the name of a tensor, or for a slice a text that messages can show."""
    try:
        return key.decode(errors="replace" if key.startswith(_SLICE) else "strict")
    except UnicodeDecodeError:
        raise KEY.broken(path, key=key) from None


def _entry(message: bytes, name: str, path: str) -> _Entry:
    numbers, shape, sliced = dict[int, int](), list[int](), False
    for number, value in _message_fields(message, path):
        if isinstance(value, int):
            numbers[number] = value
        elif number == _SHAPE:
            shape += _shape_sizes(value, name, path)
        elif number == _SLICES:
            sliced = True
    kind, shard, offset, size = (
        numbers.get(number, 0) for number in (_TYPE, _SHARD, _OFFSET, _SIZE)
    )
    return _Entry(kind, tuple(shape), shard, offset, size, sliced)


def _shape_sizes(message: bytes, name: str, path: str) -> Iterator[int]:
    """Yield the sizes of a shape. A size of 0 is not written: its message is empty."""
    for number, value in _message_fields(message, path):
        if number == _UNKNOWN_RANK and value:
            raise SHAPE.broken(path, tensor=name, shape="unknown")
        if number == _DIM and isinstance(value, bytes):
            yield dict(_numbers(value, path)).get(_DIM_SIZE, 0)


def _tensor_row(entry: _Entry, name: str, path: str) -> Row:
    if entry.kind not in _TYPES:
        raise TYPE.broken(path, tensor=name, type=entry.kind)
    dtype, count = _TYPES[entry.kind], elements(entry.shape)
    if count is None:
        raise SHAPE.broken(path, tensor=name, shape=entry.shape)
    taken = stored_bytes(count, dtype)
    if not entry.sliced and entry.size != taken:
        raise SIZE.broken(path, tensor=name, bytes=entry.size, expected_bytes=taken)
    return found_row(name, entry.shape, dtype, count)


class _DataFiles:
    """The data files beside an index, and the sizes of those that exist."""

    def __init__(self, path: str, files: int) -> None:
        self.path, self.files = path, files
        self._sizes: dict[int, int | None] = {}

    def check(self, entry: _Entry, name: str) -> None:
        """Check that a tensor lies inside its file."""
        if entry.shard >= self.files:
            raise SHARD.broken(self.path, tensor=name, data_file=entry.shard, data_files=self.files)
        if entry.shard not in self._sizes:
            self._sizes[entry.shard] = self._size(entry.shard)
        size = self._sizes[entry.shard]
        if size is not None and entry.offset + entry.size > size:
            raise BEYOND.broken(
                self.path, tensor=name, begins=entry.offset, bytes=entry.size, file_bytes=size
            )

    def file(self, shard: int) -> str:
        """Return the path of a data file."""
        return f"{self.path.removesuffix(SUFFIX)}.data-{shard:05d}-of-{self.files:05d}"

    def _size(self, shard: int) -> int | None:
        data = self.file(shard)
        if not os.path.lexists(data):
            return None
        with open_file(data) as file:
            return size_of(file)
