"""Reads the header of a GGUF file.

A header consists of the magic, a version, the number of tensors and the number of keys; then the
keys with their values; then the name, sizes, type and offset of each tensor. Its length is stated
nowhere, and it may contain a vocabulary of a million texts, so it is read in pieces, and what no
answer needs is skipped. The rules are those of https://github.com/ggml-org/ggml (``docs/gguf.md``
and ``src/gguf.cpp``), whose code requires the same order of offsets.
"""

from __future__ import annotations

import os
import re
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from weighbridge.readers.header import Header, found_row
from weighbridge.readers.rules import FETCH, REWRITE, Rule, elements, is_remote
from weighbridge.readers.stores import open_file, read_on, size_of
from weighbridge.units import DTYPES, stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.ledger.rows import Row

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LONGEST_HEADER_BYTES = 500_000_000
LONGEST_NAME_BYTES = 65_535
LONGEST_TEXTS = 20_000_000  # bytes of all names and kept texts together
MOST_TENSORS = 150_000
MOST_KEYS = 100_000  # and arrays in arrays
MOST_TEXTS = 5_000_000  # in arrays; the largest vocabularies have about a million words and merges
MOST_DIMS = 4
_PIECE = 1 << 18  # bytes that are read at a time, at least
_DEFAULT_ALIGNMENT = 32
_LEAST_KEY, _LEAST_TENSOR = 8 + 4 + 1, 8 + 4 + 4 + 8  # bytes
_DEEPEST = 8  # arrays in arrays
_LONGEST_TEXT = 1 << 16  # bytes of a value's text that are kept

MAGIC_WRONG = Rule("gguf-magic", "a GGUF file must start with GGUF and a version", FETCH)
VERSION = Rule(
    "gguf-version",
    f"only GGUF versions {' and '.join(map(str, VERSIONS))} can be read",
    "convert the file to GGUF 3",
)
CUT = Rule("gguf-cut", "the header must end before the file does", FETCH)
LIMIT = Rule("gguf-limit", f"a header may have at most {LONGEST_HEADER_BYTES:,} bytes", FETCH)
COUNT = Rule("gguf-count", "a file must be long enough for the entries that it states", FETCH)
MOST = Rule(
    "gguf-most",
    f"a header may have at most {MOST_TENSORS:,} tensors, {MOST_KEYS:,} keys and nested arrays, "
    f"{MOST_TEXTS:,} texts in arrays, and {LONGEST_TEXTS:,} bytes of names and other texts",
    FETCH,
)
TEXT = Rule("gguf-text", f"a name must be UTF-8, of at most {LONGEST_NAME_BYTES:,} bytes", REWRITE)
VALUE = Rule(
    "gguf-value",
    f"a value must have one of the 13 types, and arrays may nest at most {_DEEPEST} deep",
    FETCH,
)
TWICE = Rule("gguf-twice", "a key or a tensor's name may occur only once", REWRITE)
ALIGNMENT = Rule(
    "gguf-alignment", "general.alignment must be a power of two, of type uint32", REWRITE
)
DIMS = Rule(
    "gguf-dims",
    f"a tensor must have at most {MOST_DIMS} dims, and fewer than 2^63 elements",
    REWRITE,
)
TYPE = Rule(
    "gguf-type",
    "a tensor must have a type that ggml supports",
    "update weighbridge, or convert the model again",
)
BLOCKS = Rule(
    "gguf-blocks", "the rows of a tensor must consist of whole blocks of its type", REWRITE
)
OFFSET = Rule(
    "gguf-offset", "a tensor must begin at the first aligned byte after the one before it", REWRITE
)
SPLIT = Rule(
    "gguf-split",
    "a split model must have the number of files that its name and its header state",
    "fetch the missing files",
)
SHORT = Rule("gguf-short", "the tensors must end before the file does", FETCH)

# ggml's types by number; ggml has removed the missing ones.
# Source: enum ggml_type of https://github.com/ggml-org/ggml (include/ggml.h).
TYPES = {
    **dict(enumerate(("F32", "F16", "Q4_0", "Q4_1"))),
    **dict(
        enumerate(
            ("Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K"), 6
        )
    ),
    **dict(
        enumerate(
            ("IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS"), 16
        )
    ),
    **dict(enumerate(("I8", "I16", "I32", "I64", "F64", "IQ1_M", "BF16"), 24)),
    **dict(enumerate(("TQ1_0", "TQ2_0"), 34)),
    **dict(enumerate(("MXFP4", "NVFP4", "Q1_0"), 39)),
}

# The types of values by number, as the format characters of ``struct``.
_SCALARS = dict(enumerate("BbHhIif?")) | dict(enumerate("Qqd", 10))
_TEXT, _ARRAY, _U32 = 8, 9, 4
_NAMES = (
    *("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool"),
    *("text", "array", "uint64", "int64", "float64"),
)


def recognise(start: bytes) -> bool:
    r"""Return whether a file's first bytes look like GGUF.

    Example:
        >>> recognise(b"GGUF\x03\x00\x00\x00"), recognise(b"ggml")
        (True, False)
    """
    return start[:4] == MAGIC


def read(path: str) -> Header:
    """Return the tensors of the header, in its order, with sizes outermost first.

    The metadata maps keys to their values as text, or to the length of an array.

    Raises:
        CheckpointError: the file breaks a rule of the format; the message starts with the rule's
            name.

    Example:
        >>> import os, struct, tempfile
        >>> header = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
        >>> # A matrix of 3 rows and 32 columns in Q4_0:
        >>> header += struct.pack("<Q6sI2QIQ", 6, b"weight", 2, 32, 3, 2, 0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.gguf")
        ...     with open(path, "wb") as file:
        ...         _ = file.write(header.ljust(96, b"-") + bytes(3 * 18))
        ...     read(path).rows[0][:3]
        ('weight', (3, 32), 'Q4_0')
    """
    with open_file(path) as file:
        return _GgufReader(file, path).header()


_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")


def parts(path: str, header: Header) -> list[str]:
    """Return all files of a split model, given any one of them: `model-00001-of-00003.gguf`.

    Raises:
        CheckpointError: one of the other files is missing.
    """
    stated = header.metadata.get("split.count", "1")
    if stated in ("0", "1"):
        return [path]
    stem, query = _stem_and_query(path)
    named = _PART.search(stem)
    if not named:
        return [path]
    if stated != str(int(named[1])):
        raise SPLIT.broken(path, **{"split.count": stated})
    files = [
        f"{stem[: named.start()]}-{number:05d}-of-{named[1]}.gguf{query}"
        for number in range(1, int(named[1]) + 1)
    ]
    for file in files:
        # A missing file on a server is found when it is opened.
        if not is_remote(file) and not os.path.exists(file):
            raise SPLIT.broken(path, missing=os.path.basename(file))
    return files


def _stem_and_query(path: str) -> tuple[str, str]:
    """Return an address without its query, and the query with its question mark."""
    if not is_remote(path):
        return path, ""
    stem, mark, query = path.partition("?")
    return stem, mark + query


class _GgufReader:
    """Reads a header from start to end, and keeps only one piece of it in memory."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self.path, self._file = path, file
        self.file_bytes = size_of(file)
        self._piece, self._at, self._before = b"", 0, 0
        self._order = "<"
        self._arrays = self._texts = self._text_bytes = 0

    # Bytes

    @property
    def position(self) -> int:
        """Bytes from the start of the file."""
        return self._before + self._at

    @property
    def left(self) -> int:
        """Bytes from here to the end of the file."""
        return self.file_bytes - self.position

    def _need(self, length: int) -> int:
        """Make the next ``length`` bytes available, and return their position in the piece."""
        if self._at + length > len(self._piece):
            if length > self.left:
                raise CUT.broken(
                    self.path, at=self.position, needs=length, file_bytes=self.file_bytes
                )
            if self.position + length > LONGEST_HEADER_BYTES:
                raise LIMIT.broken(self.path, at=self.position, needs=length)
            rest = self._piece[self._at :]
            self._before, self._at = self.position, 0
            self._piece = rest + read_on(self._file, max(length, _PIECE) - len(rest))
            if len(self._piece) < length:
                raise CUT.broken(
                    self.path, at=self.position, needs=length, file_bytes=self.file_bytes
                )
        at = self._at
        self._at += length
        return at

    def _need_text(self, length: int) -> int:
        """Make a text available that is kept, and return its position in the piece."""
        self._text_bytes += length
        if self._text_bytes > LONGEST_TEXTS:
            raise MOST.broken(self.path, text_bytes=self._text_bytes)
        return self._need(length)

    def _skip(self, length: int) -> None:
        """Skip bytes, and do not read those that are not in the piece."""
        if length > self.left:
            raise CUT.broken(self.path, at=self.position, needs=length, file_bytes=self.file_bytes)
        if self.position + length > LONGEST_HEADER_BYTES:
            raise LIMIT.broken(self.path, at=self.position, needs=length)
        beyond = self._at + length - len(self._piece)
        if beyond <= 0:
            self._at += length
            return
        self._before += len(self._piece) + beyond
        self._piece, self._at = b"", 0
        self._file.seek(self._before)

    def _unpack(self, form: str) -> tuple[Any, ...]:
        packed = Struct(self._order + form)
        at = self._need(packed.size)
        return packed.unpack_from(self._piece, at)

    def _text(self, most: int, what: str) -> str:
        (length,) = self._unpack("Q")
        if length > most:
            raise TEXT.broken(self.path, kind=what, bytes=length)
        at = self._need_text(length)
        try:
            return self._piece[at : at + length].decode()
        except UnicodeDecodeError as error:
            raise TEXT.broken(self.path, kind=what, byte=error.start) from None

    # The header

    def header(self) -> Header:
        tensors, keys = self._start()
        metadata = dict(self._metadata(keys))
        alignment = self._alignment(metadata.get("general.alignment"))
        described = list(self._described(tensors))
        header_bytes = self.position
        rows = tuple(self._row(tensor) for tensor in described)
        self._check_layout(described, rows, -(-header_bytes // alignment) * alignment, alignment)
        return Header(rows, {key: value.text for key, value in metadata.items()}, header_bytes)

    def _start(self) -> tuple[int, int]:
        """Return the number of tensors and of keys.

        A version with its bytes reversed means that the file is big-endian.
        """
        at = self._need(len(MAGIC)) if self.file_bytes >= len(MAGIC) + 4 else 0
        if self._piece[at : at + len(MAGIC)] != MAGIC:
            raise MAGIC_WRONG.broken(self.path, file_bytes=self.file_bytes)
        (version,) = self._unpack("I")
        if version not in VERSIONS and version & 0xFFFF == 0:
            self._order = ">"
            version = int.from_bytes(version.to_bytes(4, "little"), "big")
        if version not in VERSIONS:
            raise VERSION.broken(self.path, version=version)
        tensors, keys = self._unpack("QQ")
        least = tensors * _LEAST_TENSOR + keys * _LEAST_KEY
        if least > self.left:
            raise COUNT.broken(self.path, tensors=tensors, keys=keys, needs=least, left=self.left)
        if tensors > MOST_TENSORS or keys > MOST_KEYS:
            raise MOST.broken(self.path, tensors=tensors, keys=keys)
        return tensors, keys

    def _metadata(self, keys: int) -> Iterator[tuple[str, _Value]]:
        seen: set[str] = set()
        for _ in range(keys):
            key = self._text(LONGEST_NAME_BYTES, "key")
            if key in seen:
                raise TWICE.broken(self.path, key=key)
            seen.add(key)
            (kind,) = self._unpack("I")
            yield key, _Value(kind, self._value(key, kind))

    def _value(self, key: str, kind: int) -> Any:
        if kind in _SCALARS:
            return self._unpack(_SCALARS[kind])[0]
        if kind == _TEXT:
            (length,) = self._unpack("Q")
            at = self._need_text(min(length, _LONGEST_TEXT))
            text = self._piece[at : at + length].decode(errors="replace")
            self._skip(length - min(length, _LONGEST_TEXT))
            return text
        if kind == _ARRAY:
            return self._array(key, 1)
        raise VALUE.broken(self.path, key=key, type=kind)

    def _array(self, key: str, depth: int) -> _SkippedArray:
        """Skip an array, and return its type and its length."""
        kind, length = self._unpack("IQ")
        least = length * {_TEXT: 8, _ARRAY: 12}.get(
            kind, 0 if kind not in _SCALARS else Struct(_SCALARS[kind]).size
        )
        if least > self.left:
            raise COUNT.broken(self.path, key=key, items=length, needs=least, left=self.left)
        if kind in _SCALARS:
            self._skip(least)
        elif kind == _TEXT:
            self._skip_texts(length)
        elif kind == _ARRAY and depth < _DEEPEST:
            self._arrays += length
            if self._arrays > MOST_KEYS:
                raise MOST.broken(self.path, key=key, arrays=self._arrays)
            for _ in range(length):
                self._array(key, depth + 1)
        else:
            raise VALUE.broken(self.path, key=key, type=kind, depth=depth)
        return _SkippedArray(kind, length)

    def _skip_texts(self, count: int) -> None:
        """Skip texts by their lengths: they may be a vocabulary of a million words."""
        self._texts += count
        if self._texts > MOST_TEXTS:
            raise MOST.broken(self.path, found_texts=self._texts)
        length_of = Struct(self._order + "Q").unpack_from
        while count:
            self._at = self._need(8)
            piece, at, last = self._piece, self._at, len(self._piece) - 8
            while count and at <= last:
                at += 8 + length_of(piece, at)[0]
                count -= 1
            self._skip(at - self._at)

    @staticmethod
    def _is_power_of_two(number: int) -> bool:
        return number > 0 and number & (number - 1) == 0

    def _alignment(self, stated: _Value | None) -> int:
        if stated is None:
            return _DEFAULT_ALIGNMENT
        if stated.kind != _U32 or not self._is_power_of_two(stated.value):
            raise ALIGNMENT.broken(self.path, found=stated.text)
        return int(stated.value)

    def _described(self, tensors: int) -> Iterator[_Described]:
        seen: set[str] = set()
        for _ in range(tensors):
            name = self._text(LONGEST_NAME_BYTES, "tensor")
            if name in seen:
                raise TWICE.broken(self.path, tensor=name)
            seen.add(name)
            (rank,) = self._unpack("I")
            if rank > MOST_DIMS:
                raise DIMS.broken(self.path, tensor=name, dims=rank)
            *sizes, kind, offset = self._unpack(f"{rank}QIQ")
            yield _Described(name, tuple(reversed(sizes)), kind, offset)

    def _row(self, tensor: _Described) -> Row:
        if tensor.kind not in TYPES:
            raise TYPE.broken(self.path, tensor=tensor.name, type=tensor.kind)
        dtype = TYPES[tensor.kind]
        count = elements(tensor.shape)
        if count is None:
            raise DIMS.broken(self.path, tensor=tensor.name, shape=tensor.shape)
        block = DTYPES[dtype].elements
        if tensor.shape and tensor.shape[-1] % block:
            raise BLOCKS.broken(
                self.path, tensor=tensor.name, row=tensor.shape[-1], type=dtype, block=block
            )
        return found_row(tensor.name, tensor.shape, dtype, count)

    def _check_layout(
        self, tensors: list[_Described], rows: tuple[Row, ...], start: int, alignment: int
    ) -> None:
        """Check that the tensors lie end to end, each aligned, and inside the file."""
        expected = end = 0
        for tensor, row in zip(tensors, rows, strict=True):
            if tensor.offset != expected:
                raise OFFSET.broken(
                    self.path, tensor=row.name, begins=tensor.offset, should_begin=expected
                )
            end = expected + stored_bytes(row.count, row.dtype)
            expected = -(-end // alignment) * alignment
        if rows and start + end > self.file_bytes:
            raise SHORT.broken(
                self.path, last=rows[-1].name, ends=start + end, file_bytes=self.file_bytes
            )


class _SkippedArray(NamedTuple):
    """An array that was skipped."""

    kind: int
    length: int


class _Value(NamedTuple):
    """The value of a key, and the number of its type."""

    kind: int
    value: Any

    @property
    def text(self) -> str:
        """The value as text; for an array, its length and the type of its items."""
        if isinstance(self.value, _SkippedArray):
            return f"{self.value.length} x {_NAMES[self.value.kind]}"
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return str(self.value)


class _Described(NamedTuple):
    """A tensor as the header describes it, with its sizes reversed."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int
