"""Reads a Flax checkpoint, `flax_model.msgpack`: nested maps of names, with arrays as leaves.

The file is MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md): a sequence of
values, each with its type, its length and its bytes. Flax stores an array as an extension type with
three values: shape, name of the dtype, and data. An array of more than 2^30 bytes is a map of
chunks. Source: https://github.com/google/flax (``flax/serialization.py``). The data is skipped.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from weighbridge.readers.header import Header, found_row
from weighbridge.readers.rules import FETCH, REWRITE, Rule, elements, is_size
from weighbridge.readers.stores import open_file, read_exactly, size_of
from weighbridge.units import NAMES as NAMES_OF_DTYPES
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.ledger.rows import Row

MOST_DEEP = 32
MOST_DIMS = 64
MOST_VALUES = 300_000
LONGEST_TEXT = 1 << 16
LONGEST_NAMES = 10_000_000  # characters, of all texts together, and of all joined names
_PIECE = 1 << 12

CUT = Rule("flax-cut", "a value must end inside the value that contains it", FETCH)
KIND = Rule("flax-kind", "a value must have a type that Flax writes", FETCH)
DEEP = Rule(
    "flax-deep",
    f"values may nest at most {MOST_DEEP} deep, and there may be at most {MOST_VALUES:,}",
    FETCH,
)
MAP = Rule(
    "flax-map", "a Flax checkpoint must be a single map with names as keys, and nothing else", FETCH
)
NAME = Rule(
    "flax-name", f"a name or text must be UTF-8, of at most {LONGEST_TEXT:,} bytes", REWRITE
)
NAMES = Rule(
    "flax-names",
    f"all names and texts together may have at most {LONGEST_NAMES:,} characters",
    REWRITE,
)
TWICE = Rule("flax-twice", "a name may occur only once", REWRITE)
ARRAY = Rule(
    "flax-array", "an array must have a shape, a dtype and its data, and nothing else", FETCH
)
DTYPE = Rule(
    "flax-dtype",
    "an array must hold numbers or booleans, of a dtype that JAX supports",
    "save the array as numbers",
)
SHAPE = Rule(
    "flax-shape",
    f"a shape must have at most {MOST_DIMS} dims, none negative, and fewer than 2^63 elements",
    REWRITE,
)
SIZE = Rule("flax-size", "the length of an array's data must match its shape and dtype", FETCH)
CHUNKS = Rule(
    "flax-chunks",
    "a chunked array must have a shape, and chunks of a single dtype that fill it",
    FETCH,
)

# Types by their first byte: constants, numbers, and values with a length in the next bytes.
_NOTHING = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {0xCA + at: Struct(f">{form}") for at, form in enumerate("fdBHIQbhiq")}
_LAST_SHORT = 0xBF  # up to this one, the first byte also gives the length
_FIRST_NEGATIVE = 0xE0  # from this one on, the first byte is a number from -32 to -1
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_TEXTS = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_LISTS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_ARRAY_KINDS, _COMPLEX = (1, 3), 2  # arrays and NumPy's scalars; Python's complex numbers
_CHUNKED = "__msgpack_chunked_array__"


class _FlaxArray(NamedTuple):
    """An array: its shape, its dtype, and the number of its elements."""

    shape: tuple[int, ...]
    dtype: str
    elements: int


class _SkippedBytes(NamedTuple):
    """Bytes that were skipped."""

    length: int


def recognise(start: bytes) -> bool:
    r"""Return whether a file's first 9 bytes look like a short map that begins with a short name.

    Example:
        >>> recognise(b"\x81\xa6params\x82"), recognise(b"GGUF\x03\x00\x00\x00\x00")
        (True, False)
    """
    return 0x81 <= int.from_bytes(start[:1]) <= 0x8F and 0xA1 <= int.from_bytes(start[1:2]) <= 0xBF


def dotted_name(listed: str) -> str:
    """Return the row's name for a name in an index, in which transformers separates parts by ``/``.

    Example:
        >>> dotted_name("bert/pooler/dense/kernel")
        'bert.pooler.dense.kernel'
    """
    return listed.replace("/", ".")


def read(path: str) -> Header:
    r"""Return each array in a checkpoint, in the file's order.

    The keys of nested maps are joined by dots. Values that are not arrays, such as the step, become
    metadata.

    Raises:
        CheckpointError: the file breaks a rule of the format; the message starts with the rule's
            name.

    Example:
        >>> import os, tempfile
        >>> array = b"\x93\x91\x02\xa7float16\xc4\x04" + bytes(4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "flax_model.msgpack")
        ...     with open(path, "wb") as file:
        ...         _ = file.write(b"\x81\xa6pooler\x81\xa4bias\xc7")
        ...         _ = file.write(bytes([len(array), 1]) + array)
        ...     read(path).rows[0][:3]
        ('pooler.bias', (2,), 'F16')
    """
    with open_file(path) as file:
        reader = _FlaxReader(file, path)
        content = reader.value()
        if not isinstance(content, dict) or reader.position < reader.ends:
            raise MAP.broken(path, found=content, ends=reader.position, file_bytes=reader.ends)
        header_bytes = reader.read
    rows: dict[str, Row] = {}
    metadata: dict[str, str] = {}
    for name, value in _Leaves(path).of(content):
        if name in rows or name in metadata:
            raise TWICE.broken(path, name=name)
        if isinstance(value, _FlaxArray):
            rows[name] = found_row(name, value.shape, value.dtype, value.elements)
        else:
            metadata[name] = _metadata_text(value)
    return Header(tuple(rows.values()), metadata, header_bytes)


def _metadata_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value.length} bytes" if isinstance(value, _SkippedBytes) else str(value)


class _FlaxReader:
    """Reads a file from start to end, and skips what no answer needs."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file, self._path = file, path
        self.position = 0
        self._file_bytes = self.ends = size_of(file)
        self.read = self._values = self._text_bytes = 0
        self._piece, self._before = b"", 0

    def _take(self, length: int) -> bytes:
        """Return the next bytes."""
        begin = self._step(length) - self._before
        if not 0 <= begin <= begin + length <= len(self._piece):
            self._before, begin = self.position - length, 0
            wanted = max(length, min(_PIECE, self._file_bytes - self._before))
            self._piece = read_exactly(self._file, self._before, wanted, self._path)
            self.read += len(self._piece)
        return self._piece[begin : begin + length]

    def _step(self, length: int) -> int:
        """Skip bytes, and return their offset."""
        at = self.position
        if length > self.ends - at:
            raise CUT.broken(self._path, at=at, needs=length, ends=self.ends)
        self.position += length
        return at

    def _length(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big")

    def value(self, depth: int = 0) -> Any:
        """Return the next value: a Python object, an array, or skipped bytes."""
        self._values += 1
        if depth > MOST_DEEP or self._values > MOST_VALUES:
            raise DEEP.broken(self._path, at=self.position, depth=depth, values=self._values)
        kind = self._length(1)
        if kind <= _LAST_SHORT:
            return self._short_value(kind, depth)
        if kind >= _FIRST_NEGATIVE:
            return kind - 0x100
        if kind in _NOTHING:
            return _NOTHING[kind]
        if kind in _NUMBERS:
            return _NUMBERS[kind].unpack(self._take(_NUMBERS[kind].size))[0]
        if kind in _MAPS:
            return self._map(self._length(_MAPS[kind]), depth)
        if kind in _LISTS:
            return self._list(self._length(_LISTS[kind]), depth)
        if kind in _TEXTS:
            return self._text(self._length(_TEXTS[kind]))
        return self._bytes(kind, depth)

    def _short_value(self, kind: int, depth: int) -> Any:
        """Return a value whose first byte is a number or also gives the length."""
        if kind <= 0x7F:
            return kind
        if kind <= 0x8F:
            return self._map(kind & 0x0F, depth)
        if kind <= 0x9F:
            return self._list(kind & 0x0F, depth)
        return self._text(kind & 0x1F)

    def _list(self, items: int, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(self._room(items))]

    def _bytes(self, kind: int, depth: int) -> Any:
        """Return the array that bytes hold; skip all other bytes."""
        if kind in _BYTES:
            length = self._length(_BYTES[kind])
            self._step(length)
            return _SkippedBytes(length)
        if kind not in _EXTENSIONS and kind not in _FIXED_EXTENSIONS:
            raise KIND.broken(self._path, at=self.position - 1, kind=kind)
        length = self._length(_EXTENSIONS[kind]) if kind in _EXTENSIONS else _FIXED_EXTENSIONS[kind]
        extension = self._length(1)
        if extension in _ARRAY_KINDS:
            return self._array(length, depth)
        if extension != _COMPLEX:
            raise KIND.broken(self._path, at=self.position - 1, extension=extension)
        self._step(length)
        return _SkippedBytes(length)

    def _room(self, items: int) -> int:
        """Return the number of items, if the file is long enough for them."""
        if items > self.ends - self.position:
            raise CUT.broken(self._path, at=self.position, items=items, ends=self.ends)
        return items

    def _text(self, length: int) -> str:
        if length > LONGEST_TEXT:
            raise NAME.broken(self._path, at=self.position, bytes=length)
        self._text_bytes += length
        if self._text_bytes > LONGEST_NAMES:
            raise NAMES.broken(self._path, at=self.position, characters=self._text_bytes)
        raw = self._take(length)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise NAME.broken(self._path, found=raw) from None

    def _map(self, pairs: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(self._room(pairs)):
            name = self.value(depth + 1)
            if not isinstance(name, str):
                raise MAP.broken(self._path, at=self.position, name=name)
            if name in found:
                raise TWICE.broken(self._path, at=self.position, name=name)
            found[name] = self.value(depth + 1)
        return found

    def _array(self, length: int, depth: int) -> _FlaxArray:
        """Return the array in exactly the next ``length`` bytes, which hold values again."""
        begin, file_ends = self.position, self.ends
        self._room(length)
        self.ends = begin + length
        parts = self.value(depth + 1)
        if self.position != self.ends or not isinstance(parts, list) or len(parts) != 3:
            raise ARRAY.broken(self._path, at=begin, bytes=length, found=parts)
        self.ends = file_ends
        shape, name, data = parts
        if not isinstance(shape, list) or not isinstance(data, _SkippedBytes):
            raise ARRAY.broken(self._path, at=begin, shape=shape, data=data)
        if not isinstance(name, str) or name not in NAMES_OF_DTYPES:
            raise DTYPE.broken(self._path, at=begin, dtype=name)
        array = _FlaxArray(tuple(shape), NAMES_OF_DTYPES[name], _count(shape, begin, self._path))
        if stored_bytes(array.elements, array.dtype) != data.length:
            raise SIZE.broken(
                self._path, at=begin, shape=array.shape, dtype=array.dtype, bytes=data.length
            )
        return array


def _count(shape: list[Any], at: object, path: str) -> int:
    """Return the number of elements, if all sizes are valid and their product is not too large."""
    if len(shape) > MOST_DIMS or not all(map(is_size, shape)):
        raise SHAPE.broken(path, at=at, shape=shape)
    count = elements(shape)
    if count is None:
        raise SHAPE.broken(path, at=at, shape=shape)
    return count


class _Leaves:
    """Names the leaves of nested maps."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._characters = 0

    def of(self, value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
        """Yield each array, text and number with its name, whose parts are joined by dots."""
        self._characters += len(name)
        if self._characters > LONGEST_NAMES:
            raise NAMES.broken(self._path, characters=self._characters)
        if isinstance(value, dict) and _CHUNKED in value:
            yield name, self._whole(value, name)
        elif isinstance(value, dict) or type(value) is list:
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from self.of(item, f"{name}.{key}" if name else str(key))
        elif value is not None:
            yield name, value

    def _whole(self, chunked: dict[str, Any], name: str) -> _FlaxArray:
        """Return an array that is stored in chunks."""
        shape, chunks = (self._numbered(chunked.get(part)) for part in ("shape", "chunks"))
        if not chunks or not all(isinstance(chunk, _FlaxArray) for chunk in chunks):
            raise CHUNKS.broken(self._path, array=name, chunks=len(chunks))
        count = _count(shape, name, self._path)
        dtypes = {chunk.dtype for chunk in chunks}
        if len(dtypes) > 1 or sum(chunk.elements for chunk in chunks) != count:
            raise CHUNKS.broken(
                self._path, array=name, shape=shape, dtypes=", ".join(sorted(dtypes))
            )
        return _FlaxArray(tuple(shape), dtypes.pop(), count)

    @staticmethod
    def _numbered(found: Any) -> list[Any]:
        """Return a list that Flax writes as a map with the keys 0, 1, …; else an empty one."""
        return (
            list(found.values())
            if isinstance(found, dict) and [*found] == [*map(str, range(len(found)))]
            else []
        )
