"""Reads the directory of a zip archive, and the first bytes of a member.

PyTorch and NumPy store tensors in zip archives. Python's ``zipfile`` reads a directory of any
length and creates an object for each member; this module reads at most a fixed number of bytes, and
never writes to disk. The format is specified in
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from weighbridge.readers.rules import FETCH, REWRITE, Rule
from weighbridge.readers.stores import read_at, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"PK\x03\x04"
LONGEST_DIRECTORY_BYTES = 16_000_000
MOST_MEMBERS = 100_000

_END = Struct("<4s4H2LH")  # of the directory: PK\5\6
_LOCATOR = Struct("<4sLQL")  # of the end for large archives: PK\6\7
_END_64 = Struct("<4sQ2H2L4Q")  # PK\6\6
# PK\1\2; flags, method, sizes, lengths of name, extra field and comment, offset
_ENTRY = Struct("<4s4x2H8x2L3H8xL")
_LOCAL = Struct("<4s5H3L2H")  # PK\3\4
_LONGEST_COMMENT = 0xFFFF
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 1

END = Rule("zip-end", "a zip archive must end with its directory", FETCH)
LIMIT = Rule(
    "zip-limit",
    f"the directory of a zip archive may have at most {LONGEST_DIRECTORY_BYTES:,} bytes "
    f"and {MOST_MEMBERS:,} members",
    FETCH,
)
DIRECTORY = Rule(
    "zip-directory",
    "the directory of a zip archive must list each member completely, and inside the file",
    FETCH,
)
NAME = Rule("zip-name", "a member must have a plain relative path", "do not trust this checkpoint")
TWICE = Rule("zip-twice", "a zip archive may contain a member only once", REWRITE)
MEMBER = Rule(
    "zip-member", "a member must begin where the directory says, with the same name", FETCH
)
METHOD = Rule("zip-method", "a member must be stored or deflated, and not encrypted", REWRITE)
DEFLATE = Rule("zip-deflate", "a deflated member must inflate to its stated size", FETCH)


class Member(NamedTuple):
    """A member: its name, its header's offset, its method, and its packed and unpacked size."""

    name: str
    offset: int
    method: int
    packed: int
    size: int


def members(file: BinaryIO, path: str) -> dict[str, Member]:
    """Return the members of an archive by name, in the directory's order.

    Raises:
        CheckpointError: the archive breaks a rule of the format.
    """
    file_bytes = size_of(file)
    count, length, start = _directory(file, file_bytes, path)
    if length > LONGEST_DIRECTORY_BYTES:
        raise LIMIT.broken(path, directory_bytes=length)
    if start + length > file_bytes or count * _ENTRY.size > length:
        raise DIRECTORY.broken(
            path, begins=start, directory_bytes=length, members=count, file_bytes=file_bytes
        )
    if count > MOST_MEMBERS:
        raise LIMIT.broken(path, members=count)
    found: dict[str, Member] = {}
    for member in _entries(read_at(file, start, length), count, path):
        if member.name in found:
            raise TWICE.broken(path, member=member.name)
        if member.offset + member.packed > file_bytes:
            raise DIRECTORY.broken(
                path, member=member.name, begins=member.offset, bytes=member.packed
            )
        found[member.name] = member
    return found


def _directory(file: BinaryIO, file_bytes: int, path: str) -> tuple[int, int, int]:
    """Return the number of members in the directory, its length in bytes, and its offset."""
    tail_at = max(0, file_bytes - _END.size - _LONGEST_COMMENT)
    tail = read_at(file, tail_at, file_bytes - tail_at)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise END.broken(path, file_bytes=file_bytes)
    _, _, _, _, count, length, start, _ = _END.unpack_from(tail, at)
    if count != 0xFFFF and 0xFFFFFFFF not in (length, start):
        return count, length, start
    located = read_at(file, max(0, tail_at + at - _LOCATOR.size), _LOCATOR.size)
    if located[:4] != b"PK\x06\x07" or len(located) < _LOCATOR.size:
        return count, length, start
    whole = read_at(file, _LOCATOR.unpack(located)[2], _END_64.size)
    if whole[:4] != b"PK\x06\x06" or len(whole) < _END_64.size:
        raise END.broken(path, file_bytes=file_bytes)
    *_, count, length, start = _END_64.unpack(whole)
    return count, length, start


def _entries(directory: bytes, count: int, path: str) -> Iterator[Member]:
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(directory) or directory[at : at + 4] != b"PK\x01\x02":
            raise DIRECTORY.broken(path, at=at, directory_bytes=len(directory))
        _, flags, method, packed, size, named, extra, comment, offset = _ENTRY.unpack_from(
            directory, at
        )
        name_at = at + _ENTRY.size
        at = name_at + named + extra + comment
        name = _name(directory[name_at : name_at + named], path)
        if at > len(directory):
            raise DIRECTORY.broken(path, member=name, directory_bytes=len(directory))
        if flags & _ENCRYPTED:
            raise METHOD.broken(path, member=name, encrypted=True)
        if 0xFFFFFFFF in (packed, size, offset):
            size, packed, offset = _large(
                directory[name_at + named : name_at + named + extra], size, packed, offset
            )
        yield Member(name, offset, method, packed, size)


def _name(raw: bytes, path: str) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise NAME.broken(path, member=raw) from None
    parts = f"/{name.rstrip('/')}/"
    if "//" in parts or "/./" in parts or "/../" in parts or "\\" in parts:
        raise NAME.broken(path, member=name)
    return name


def _large(extra: bytes, *stated: int) -> list[int]:
    """Return sizes; those that do not fit into 32 bits are taken from a member's extra field."""
    at, large = 0, list[int]()
    while at + 4 <= len(extra):
        kind, length = (
            int.from_bytes(extra[at : at + 2], "little"),
            int.from_bytes(extra[at + 2 : at + 4], "little"),
        )
        if kind == 1:
            sizes = extra[at + 4 : at + 4 + length]
            large = [
                int.from_bytes(sizes[begin : begin + 8], "little")
                for begin in range(0, len(sizes) // 8 * 8, 8)
            ]
        at += 4 + length
    return [large.pop(0) if number == 0xFFFFFFFF and large else number for number in stated]


def data_of(file: BinaryIO, member: Member, path: str) -> int:
    """Return the offset of a member's data.

    Raises:
        CheckpointError: the member is not where the directory says.
    """
    header = read_at(file, member.offset, _LOCAL.size)
    if len(header) < _LOCAL.size or header[:4] != MAGIC:
        raise MEMBER.broken(path, member=member.name, begins=member.offset)
    *_, named, extra = _LOCAL.unpack(header)
    if read_at(file, member.offset + _LOCAL.size, named) != member.name.encode():
        raise MEMBER.broken(path, member=member.name, begins=member.offset)
    return member.offset + _LOCAL.size + int(named) + int(extra)


def content(file: BinaryIO, member: Member, path: str, most: int) -> bytes:
    """Return the first bytes of a member, ``most`` at most.

    Raises:
        CheckpointError: the member cannot be read.
    """
    start = data_of(file, member, path)
    if member.method == _STORED:
        return read_at(file, start, min(most, member.size, member.packed))
    if member.method != _DEFLATED:
        raise METHOD.broken(path, member=member.name, method=member.method)
    inflate, wanted = zlib.decompressobj(-zlib.MAX_WBITS), min(most, member.size)
    try:
        # For zlib, a limit of 0 means no limit.
        inflated = inflate.decompress(
            read_at(file, start, min(member.packed, wanted + _DEFLATE_ROOM)), max(wanted, 1)
        )
    except zlib.error as error:
        raise DEFLATE.broken(path, member=member.name, problem=str(error)) from None
    if len(inflated) != wanted:
        raise DEFLATE.broken(path, member=member.name, bytes=len(inflated), stated=member.size)
    return inflated


_DEFLATE_ROOM = 1 << 16  # bytes by which deflated data may be longer than the original
