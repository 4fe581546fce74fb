"""Reads a NumPy archive: the header of each array in it.

An ``.npz`` file is a zip archive of ``.npy`` files. Each begins with its dtype and shape, written
as a Python dict. The format is specified in
https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Arrays of objects are
pickles, and are refused.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING, Any, BinaryIO

from weighbridge.ledger.rows import Row
from weighbridge.readers import archive
from weighbridge.readers.header import Header, found_row
from weighbridge.readers.rules import FETCH, REWRITE, Rule, elements, is_size
from weighbridge.readers.stores import open_file
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from weighbridge.readers.archive import Member

LONGEST_HEADER_BYTES = 10_000  # NumPy's own limit
MOST_ARRAYS = 20_000
LONGEST_HEADERS = 20_000_000  # bytes, of all headers together
_MAGIC = b"\x93NUMPY"
_SUFFIX = ".npy"
# The header is a literal of these. No other text is parsed, so that nothing but brackets can nest.
_LITERAL = re.compile(
    rb"""(?: [][(){},:\s]++ | True | False | None
        | -?[0-9][0-9.eE+]*+ | '(?:[^'\\\n]|\\.)*+' | "(?:[^"\\\n]|\\.)*+" )*+""",
    re.VERBOSE,
)
_MOST_BRACKETS = 64  # opening ones; NumPy writes two, and one more for each field of a structure
_OPENING = (b"[", b"(", b"{")
_LENGTHS = {1: 2, 2: 4, 3: 4}  # bytes of the header's length, by version

MEMBER = Rule(
    "npz-member", f"each member of an npz archive must be an array, NAME{_SUFFIX}", REWRITE
)
VERSION = Rule("npz-version", "an array's header must have version 1, 2 or 3", FETCH)
LIMIT = Rule(
    "npz-limit", f"an array's header may have at most {LONGEST_HEADER_BYTES:,} bytes", FETCH
)
MOST = Rule(
    "npz-most",
    f"an archive may have at most {MOST_ARRAYS:,} arrays, and {LONGEST_HEADERS:,} bytes of headers",
    FETCH,
)
HEADER = Rule(
    "npz-header", "an array's header must be a dict with descr, fortran_order and shape", REWRITE
)
DTYPE = Rule(
    "npz-dtype",
    "an array must hold numbers or booleans, of a size that NumPy supports",
    "save the array as numbers",
)
SHAPE = Rule(
    "npz-shape",
    "a shape must have non-negative integers as sizes, and fewer than 2^63 elements",
    REWRITE,
)
SIZE = Rule("npz-size", "the length of an array's data must match its shape and dtype", FETCH)

DTYPES = {
    "f2": "F16",
    "f4": "F32",
    "f8": "F64",
    "i1": "I8",
    "i2": "I16",
    "i4": "I32",
    "i8": "I64",
    "u1": "U8",
    "u2": "U16",
    "u4": "U32",
    "u8": "U64",
    "b1": "BOOL",
    "c8": "C64",
    "c16": "C128",
}


def recognise(_start: bytes) -> bool:
    """Return False: every zip archive begins with the same bytes."""
    return False


def read(path: str) -> Header:
    """Return each array in an archive, in the archive's order.

    Raises:
        CheckpointError: the file breaks a rule of the format; the message starts with the rule's
            name.
    """
    with open_file(path) as file:
        members = archive.members(file, path)
        if len(members) > MOST_ARRAYS:
            raise MOST.broken(path, arrays=len(members))
        rows, read_bytes = list[Row](), 0
        for member in members.values():
            row, header_bytes = _array_row(file, member, path)
            rows.append(row)
            read_bytes += header_bytes
            if read_bytes > LONGEST_HEADERS:
                raise MOST.broken(path, header_bytes=read_bytes)
    return Header(tuple(rows), {}, read_bytes)


def _array_row(file: BinaryIO, member: Member, path: str) -> tuple[Row, int]:
    """Return the row of an array, and the length of its header in bytes."""
    if not member.name.endswith(_SUFFIX):
        raise MEMBER.broken(path, member=member.name)
    name = member.name.removesuffix(_SUFFIX)
    start = archive.content(file, member, path, LONGEST_HEADER_BYTES)
    if start[: len(_MAGIC)] != _MAGIC or len(start) < len(_MAGIC) + 2:
        raise MEMBER.broken(path, member=member.name, starts_with=start[:8])
    version = start[len(_MAGIC)]
    if version not in _LENGTHS:
        raise VERSION.broken(path, member=member.name, version=version)
    at = len(_MAGIC) + 2
    begin = at + _LENGTHS[version]
    length = int.from_bytes(start[at:begin], "little")
    if begin + length > len(start):
        raise LIMIT.broken(path, member=member.name, header_bytes=length, bytes=member.size)
    dtype, shape = _dtype_and_shape(start[begin : begin + length], name, path)
    count = elements(shape)
    if count is None:
        raise SHAPE.broken(path, member=member.name, shape=shape)
    if begin + length + stored_bytes(count, dtype) != member.size:
        raise SIZE.broken(
            path, member=member.name, shape=shape, dtype=dtype, bytes=member.size - begin - length
        )
    return found_row(name, shape, dtype, count), begin + length


def _dtype_and_shape(raw: bytes, name: str, path: str) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and the shape in a header. It is parsed as a literal, and never run."""
    if not _LITERAL.fullmatch(raw) or sum(map(raw.count, _OPENING)) > _MOST_BRACKETS:
        raise HEADER.broken(path, member=name, found=raw)
    try:
        # Python warns of odd spelling, such as invalid escapes, which is not an error here.
        with warnings.catch_warnings(action="ignore"):
            found: Any = ast.literal_eval(raw.decode("utf-8").strip())
    except (TypeError, ValueError, SyntaxError):
        raise HEADER.broken(path, member=name, found=raw) from None
    if not isinstance(found, dict) or set(found) != {"descr", "fortran_order", "shape"}:
        raise HEADER.broken(path, member=name, found=raw)
    descr, shape = found["descr"], found["shape"]
    if not isinstance(descr, str) or descr[1:] not in DTYPES:
        raise DTYPE.broken(path, member=name, descr=descr)
    if not isinstance(shape, tuple) or not all(map(is_size, shape)):
        raise SHAPE.broken(path, member=name, shape=shape)
    return DTYPES[descr[1:]], shape
