"""Reads the header of a safetensors file.

The format is 8 bytes (the header's length N, little-endian), N bytes of JSON, and the tensors'
data. The rules are those of the reference, https://github.com/huggingface/safetensors
(``safetensors/src/tensor.rs`` and the README's "Format"). The reference accepts some files that are
refused here: a space before the header, a duplicate name, a tensor written as a list, additional
keys, null for metadata, and sizes whose product exceeds 2^63 before it is multiplied by 0.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, BinaryIO

from weighbridge.errors import CheckpointError
from weighbridge.ledger.rows import Row
from weighbridge.readers.header import Header, found_row
from weighbridge.readers.rules import (
    FETCH,
    MOST_ITEMS,
    REWRITE,
    Rule,
    check_text,
    elements,
    is_size,
    is_wide,
    items_in,
    parse_object,
)
from weighbridge.readers.stores import open_file, size_of
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    _Kind = tuple[tuple[Any, ...], int]

LONGEST_HEADER_BYTES = 25_000_000  # a tensor takes about 150, and metadata some thousands
_KEYS = ("dtype", "shape", "data_offsets")

TOO_SHORT = Rule(
    "too-short", "a safetensors file must start with 8 bytes for the length of its header", FETCH
)
HEADER_LIMIT = Rule(
    "header-limit", f"a header may have at most {LONGEST_HEADER_BYTES:,} bytes", FETCH
)
HEADER_CUT = Rule("header-cut", "the header must end before the file does", FETCH)
HEADER_START = Rule("header-start", "a header must start with an opening brace", FETCH)
METADATA = Rule("metadata", "__metadata__ must be an object of strings", REWRITE)
ENTRY = Rule("entry", "the entry of a tensor must be an object", REWRITE)
MISSING_KEY = Rule("missing-key", f"a tensor must have {', '.join(_KEYS)}", REWRITE)
EXTRA_KEY = Rule("extra-key", f"a tensor may have only {', '.join(_KEYS)}", REWRITE)
DTYPE = Rule("dtype", f"a dtype must be one of {', '.join(DTYPE_BITS)}", REWRITE)
SHAPE = Rule("shape", "a shape must be a list of non-negative integers", REWRITE)
ELEMENTS = Rule("elements", "a tensor must have fewer than 2^63 elements", REWRITE)
WHOLE_BYTES = Rule("whole-bytes", "a tensor's elements must fill whole bytes", REWRITE)
OFFSETS = Rule("offsets", "data_offsets must be two non-negative integers", REWRITE)
BACKWARDS = Rule("backwards", "a tensor's data must not end before it begins", REWRITE)
SIZE = Rule("size", "data_offsets must match the shape and the dtype", REWRITE)
OVERLAP = Rule("overlap", "two tensors must not share bytes", REWRITE)
HOLE = Rule("hole", "there must be no gap between two tensors or before the first one", REWRITE)
TRUNCATED = Rule("truncated", "the file must not end before its last tensor does", FETCH)
TRAILING = Rule("trailing", "the file must not continue after its last tensor", FETCH)


def recognise(start: bytes) -> bool:
    """Return whether a file's first 9 bytes look like safetensors.

    Example:
        >>> recognise(bytes([2, 0, 0, 0, 0, 0, 0, 0]) + b"{"), recognise(b"PK-archive")
        (True, False)
    """
    return start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= LONGEST_HEADER_BYTES


def read(path: str) -> Header:
    """Return the tensors in the header, in its order. The data is not read.

    Raises:
        CheckpointError: the file breaks a rule of the format; the message starts with the rule's
            name.

    Example:
        >>> import os, tempfile
        >>> header = b'{"pooler.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.safetensors")
        ...     with open(path, "wb") as file:
        ...         _ = file.write(len(header).to_bytes(8, "little") + header + bytes(8))
        ...     found = read(path)
        >>> found.rows[0].name, found.rows[0].shape, found.rows[0].dtype, found.header_bytes
        ('pooler.bias', (2,), 'F32', 72)
    """
    with open_file(path) as file:
        file_bytes = size_of(file)
        header = _header(file, file_bytes, path)
    data_bytes = file_bytes - 8 - len(header)
    rows, metadata = _usual(header, data_bytes, path) or _any(header, data_bytes, path)
    return Header(tuple(rows), metadata, 8 + len(header))


def _header(file: BinaryIO, file_bytes: int, path: str) -> bytes:
    """Return the N bytes of JSON.

    N is compared with the limit and with the length of the file before anything is allocated.
    """
    start = file.read(8)
    if len(start) < 8:
        raise TOO_SHORT.broken(path, file_bytes=file_bytes)
    length = int.from_bytes(start, "little")
    if length > LONGEST_HEADER_BYTES:
        raise HEADER_LIMIT.broken(path, header_bytes=length)
    header = file.read(length) if length <= file_bytes - 8 else b""
    if len(header) < length:
        raise HEADER_CUT.broken(path, header_bytes=length, file_bytes=file_bytes)
    if header[:1] != b"{":
        raise HEADER_START.broken(path, header_bytes=length, first_byte=header[:1])
    return header


# The usual form of a header: no spaces or escapes, the metadata first, and the keys of each tensor
# in this order.
_METADATA = re.compile(r'"__metadata__":(\{[^{}]*+\}),')
_NUMBER = "(?:0|[1-9][0-9]{0,18})"
_TENSOR = re.compile(
    rf"""
    "([^"\\\x00-\x1f]*+)":\{{
        "dtype":"([A-Z0-9_]++","shape":\[ (?:{_NUMBER} (?:,(?=[0-9]) | (?=\])))*+) \],
        "data_offsets":\[({_NUMBER},{_NUMBER})\]
    \}} (?: ,(?=") | \}}[ ]*+\Z)
    | .+  # everything else, if it has another form; all groups are then empty
    """,
    re.VERBOSE | re.DOTALL,
)


def _usual(header: bytes, data_bytes: int, path: str) -> tuple[list[Row], dict[str, str]] | None:
    """Return what `_any` returns, in a quarter of the time, for a valid header in the usual form.

    For any other header, return None. In the usual form, data lies in the order of the header, so
    each tensor begins where the one before it ends. Tensors of the same dtype and shape are parsed
    only once.
    """
    if items_in(header) > MOST_ITEMS or is_wide(header):
        return None
    try:
        text = header.decode()
        metadata_match = _METADATA.match(text, 1)
        metadata = _metadata(
            parse_object(metadata_match[1].encode(), path) if metadata_match else {}, path
        )
    except (UnicodeDecodeError, CheckpointError):
        return None
    tensors = _TENSOR.findall(text, metadata_match.end() if metadata_match else 1)
    kinds = _kinds({spelling for _, spelling, _ in tensors})
    if not kinds:
        return None
    kind_of_each = [kinds[spelling] for _, spelling, _ in tensors]
    ends = list(accumulate([tensor_bytes for _, tensor_bytes in kind_of_each]))
    spans = [f"{begin},{end}" for begin, end in zip([0, *ends], ends, strict=False)]
    in_order = spans == [span for _, _, span in tensors] and ends[-1] == data_bytes
    names = [name for name, _, _ in tensors]
    if not in_order or len(set(names)) < len(names) or "__metadata__" in names:
        return None
    new = tuple.__new__  # `Row` itself takes twice as long
    rows = [new(Row, (name, *row)) for name, (row, _) in zip(names, kind_of_each, strict=True)]
    return rows, metadata


def _kinds(spellings: Iterable[str]) -> dict[str, _Kind]:
    """Return the `_kind` of each spelling; nothing if one of them is invalid."""
    kinds: dict[str, _Kind] = {}
    for spelling in spellings:
        kind = _kind(spelling)
        if kind is None:
            return {}
        kinds[spelling] = kind
    return kinds


def _kind(spelled: str) -> _Kind | None:
    """Return what tensors of one dtype and shape share: a row without its name, and its bytes.

    Return None if the dtype or the shape is invalid.

    Example:
        >>> _kind('F32","shape":[2,3')
        (((2, 3), 'F32', '', (), 6, 6, None), 24)
    """
    dtype, _, sizes = spelled.partition('","shape":[')
    shape = tuple(map(int, sizes.split(","))) if sizes else ()
    count = elements(shape)
    if dtype not in DTYPE_BITS or count is None or count * DTYPE_BITS[dtype] % 8:
        return None
    return found_row("", shape, dtype, count)[1:], count * DTYPE_BITS[dtype] // 8


def _any(header: bytes, data_bytes: int, path: str) -> tuple[list[Row], dict[str, str]]:
    """Return the rows and the metadata of a header in any form, and check every rule."""
    entries = parse_object(header, path)
    metadata = _metadata(entries.pop("__metadata__", {}), path)
    check_text([*entries], path)
    rows, spans = list[Row](), list[tuple[int, int, str]]()
    for name in list(entries):
        entry = entries.pop(name)  # a row takes its place in memory
        rows.append(_entry_row(name, entry, path))
        begin, end = entry["data_offsets"]
        spans.append((begin, end, name))
    _check_layout(spans, data_bytes, path)
    return rows, metadata


def _metadata(found: object, path: str) -> dict[str, str]:
    if not isinstance(found, dict):
        raise METADATA.broken(path, found=found)
    for key, value in found.items():
        if not isinstance(value, str):
            raise METADATA.broken(path, key=key, found=value)
    check_text([*found, *found.values()], path)
    return found


def _entry_row(name: str, entry: Any, path: str) -> Row:
    """Return the row of an entry, and check each of its fields."""
    if not isinstance(entry, dict):
        raise ENTRY.broken(path, tensor=name, found=entry)
    for key in _KEYS:
        if key not in entry:
            raise MISSING_KEY.broken(path, tensor=name, missing=key)
    if len(entry) > len(_KEYS):
        raise EXTRA_KEY.broken(
            path, tensor=name, extra=next(key for key in entry if key not in _KEYS)
        )
    dtype, shape, offsets = (entry[key] for key in _KEYS)
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise DTYPE.broken(path, tensor=name, dtype=dtype)
    count = _count(name, shape, path)
    _check_span(name, offsets, count * DTYPE_BITS[dtype], path)
    return found_row(name, tuple(shape), dtype, count)


def _count(name: str, shape: Any, path: str) -> int:
    """Return the number of elements."""
    if not isinstance(shape, list):
        raise SHAPE.broken(path, tensor=name, shape=shape)
    for axis, size in enumerate(shape):
        if not is_size(size):
            raise SHAPE.broken(path, tensor=name, axis=axis, size=size)
    count = elements(shape)
    if count is None:
        raise ELEMENTS.broken(path, tensor=name, shape=shape)
    return count


def _check_span(name: str, offsets: Any, bits: int, path: str) -> None:
    if not isinstance(offsets, list) or len(offsets) != 2:
        raise OFFSETS.broken(path, tensor=name, data_offsets=offsets)
    begin, end = offsets
    if not (is_size(begin) and is_size(end)):
        raise OFFSETS.broken(path, tensor=name, begin=begin, end=end)
    if end < begin:
        raise BACKWARDS.broken(path, tensor=name, begin=begin, end=end)
    if bits % 8:
        raise WHOLE_BYTES.broken(path, tensor=name, bits=bits)
    if end - begin != bits // 8:
        raise SIZE.broken(path, tensor=name, begin=begin, end=end, tensor_bytes=bits // 8)


def _check_layout(spans: Iterable[tuple[int, int, str]], data_bytes: int, path: str) -> None:
    """Check that the tensors lie end to end, from 0 to the end of the file."""
    in_order = sorted(spans)
    for (_, expected, before), (begin, _, name) in pairwise([(0, 0, None), *in_order]):
        if begin != expected:
            rule = OVERLAP if begin < expected else HOLE
            raise rule.broken(path, tensor=name, begin=begin, before=before, before_ends=expected)
    _, end, last = in_order[-1] if in_order else (0, 0, None)
    if end != data_bytes:
        rule = TRUNCATED if end > data_bytes else TRAILING
        raise rule.broken(path, last=last, ends=end, data_bytes=data_bytes)
