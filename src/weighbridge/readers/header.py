"""What every reader shares: what a header yields, and how a file that is not trusted is opened, read and parsed.

A rule is one thing that a file must hold to. It has a short name that stays, and breaking it gives
one message.
"""

from __future__ import annotations

import gc
import json
import os
import re
import stat
from collections import Counter
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, ParamSpec, TypeVar

from weighbridge.errors import CheckpointError
from weighbridge.ledger.ledger import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# The digits of 2^64 - 1. No size or offset needs more, and Python takes quadratic time over a long
# integer.
_MOST_DIGITS = 20
# Small values take some forty times the bytes that spell them. 100,000 matrices have 1,200,000 of
# these marks, 12 each. As many as may be take up to 190 MiB and a second, where the names and texts
# between them are short ASCII.
MOST_ITEMS = 1_250_000
LONGEST_CONFIG_BYTES = 2 * 2**20
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PASSWORD = re.compile(r"^(\w+://)[^/]*@")
_ITEM_MARKS = (b",", b":", b"[", b"{")
ELEMENTS_LIMIT = 2**63  # of one tensor; it has fewer

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Header(NamedTuple):
    """What one file's header says: rows in the header's own order, its free text, and the bytes read to know it.

    Most headers tell neither ties nor buffers, nor what a tensor is for: each row's ``parameters``
    is its ``count``, a buffer's too, and ``role``, ``dims`` and ``tied_to`` are empty. ``called``
    are the weights that tensors are whose names do not tell it, where something else in the header
    does.
    """

    rows: tuple[Row, ...]
    metadata: dict[str, str]
    header_bytes: int
    called: Mapping[str, str] = MappingProxyType({})


class Rule(NamedTuple):
    """A rule by name: what must hold, and what to do where it does not."""

    name: str
    what: str
    hint: str

    def broken(self, path: str, **values: object) -> CheckpointError:
        """Return the error that says so of ``path``, with the values at hand.

        Example:
            >>> print(OBJECT.broken("index.json", found=[]))
            index.json: object: the JSON must be one object (found = a list of 0). Write it again, or fetch it again.
        """
        return CheckpointError(
            f"{self.name}: {self.what}", where=shown(path), values=values, hint=self.hint
        )


FETCH = "the file is damaged or is not what its name says: fetch it again"
REWRITE = "write it again, or fetch it again"

MISSING = Rule("missing", "there is no such file", "check the spelling of the path")
UNREADABLE = Rule("unreadable", "the file cannot be opened", "check its permissions and its links")
REGULAR = Rule(
    "regular-file",
    "only a regular file can be read",
    "give a file, not a folder, a pipe or a device",
)
ITEMS = Rule("items", f"the JSON may have at most {MOST_ITEMS:,} commas, colons, [ and {{", FETCH)
UTF8 = Rule("utf-8", "the JSON must be valid UTF-8", FETCH)
SYNTAX = Rule("json", "the text must be JSON", FETCH)
NESTING = Rule("nesting", "the JSON must not nest deeply", FETCH)
DUPLICATE = Rule("duplicate", "a name may stand only once in an object", REWRITE)
DIGITS = Rule("digits", f"an integer may have at most {_MOST_DIGITS} digits", REWRITE)
CONFIG_LIMIT = Rule(
    "config-limit", f"a config may have at most {LONGEST_CONFIG_BYTES:,} bytes", FETCH
)
OBJECT = Rule("object", "the JSON must be one object", REWRITE)
SURROGATE = Rule(
    "surrogate", "a name or text must be writable as UTF-8: half a surrogate pair is not", REWRITE
)


def is_remote(path: str) -> bool:
    r"""Whether a path is an address, and not that of a file here.

    Example:
        >>> is_remote("hf://org/name"), is_remote("model.safetensors"), is_remote("C:\\model.safetensors")
        (True, False, False)
    """
    return bool(_ADDRESS.match(path))


def shown(path: str) -> str:
    """Return an address without what is secret in it: passwords, and what a signed one has behind its ``?``.

    Example:
        >>> shown("https://me:word@host/a.safetensors?token=abc"), shown("hf://org/name@main")
        ('https://host/a.safetensors', 'hf://org/name@main')
    """
    if not path.lower().startswith(("http://", "https://")):
        return path
    return _PASSWORD.sub(r"\1", path.partition("?")[0].partition("#")[0])


def collecting_later(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function that does the same, and lets Python collect garbage only when it is done.

    A collection looks through all that was built, and a reader builds much of which nothing is
    garbage yet.
    """

    @wraps(read)
    def later(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        collects = gc.isenabled()
        gc.disable()
        try:
            return read(*args, **kwargs)
        finally:
            if collects:
                gc.enable()

    return later


def open_file(path: str) -> BinaryIO:
    """Open a regular file without a buffer, so that only the bytes asked for are read.

    It never waits for a pipe.

    Of one that is elsewhere, at an address, ranges are fetched.

    Raises:
        CheckpointError: no such file, not a regular one, or one that may not be opened.
    """
    if is_remote(path):
        from weighbridge.readers.stores import store_of  # noqa: PLC0415  # most files are here

        found: BinaryIO = store_of(path).open(path)
        return found
    try:
        if not stat.S_ISREG(
            os.stat(path).st_mode
        ):  # before it is opened: to open a device may do something
            raise REGULAR.broken(path)
        return open(path, "rb", buffering=0, opener=_open_regular)
    except (FileNotFoundError, NotADirectoryError):
        raise MISSING.broken(path) from None
    except (OSError, ValueError) as error:
        raise UNREADABLE.broken(
            path, reason=getattr(error, "strerror", None) or str(error)
        ) from None


def _open_regular(path: str, flags: int) -> int:
    """Open without waiting, and look again: a pipe may have been put there since the check."""
    descriptor = os.open(
        path, flags | getattr(os, "O_NONBLOCK", 0)
    )  # Windows has neither the flag nor the wait
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise REGULAR.broken(path)
    return descriptor


def size_of(file: BinaryIO) -> int:
    """Return the bytes of an open file as the file system or the server has them, whatever the file says."""
    return int(file.size) if hasattr(file, "size") else os.fstat(file.fileno()).st_size


def read_at(file: BinaryIO, offset: int, length: int) -> bytes:
    """Return so many bytes from there on, or as many as the file has."""
    if offset + length > size_of(file):
        length = max(0, size_of(file) - offset)
    if not length:
        return b""
    file.seek(offset)
    return read_on(file, length)


def read_on(file: BinaryIO, length: int) -> bytes:
    """Return so many bytes from where the file stands, or as many as it has: one read may give fewer."""
    pieces = []
    while length > 0 and (piece := file.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def inside(folder: str, name: str, path: str, wrong: Rule, missing: Rule) -> str:
    """Return the path of a file that ``path`` names in its folder.

    It may lead nowhere else, whatever links there are.

    Raises:
        CheckpointError: the name is no plain path or leads out of the folder, or there is no such
            file.
    """
    if not _is_plain(name):
        raise wrong.broken(path, shard=name)
    found = os.path.join(folder, name)
    if is_remote(folder):
        return f"{folder}/{name}"
    if not os.path.lexists(found):
        raise missing.broken(path, shard=name)
    target = os.path.realpath(found)
    if not any(
        target.startswith(os.path.join(home, "")) for home in _homes(os.path.realpath(folder))
    ):
        raise wrong.broken(path, shard=name, leads_to=target)
    return found


def _is_plain(shard: str) -> bool:
    r"""Tell whether a file name is relative and goes only downwards, on any operating system.

    Example:
        >>> [_is_plain(name) for name in ("a.safetensors", "b/a.safetensors", "../a", "/a", "C:a", "b\\a", "")]
        [True, True, False, False, False, False, False]
    """
    return (
        shard.isprintable()
        and not {"\\", ":"} & set(shard)
        and not {"", ".", ".."} & set(shard.split("/"))
    )


def _homes(folder: str) -> list[str]:
    """Return where the links of a folder may lead: into itself, and from a hub cache's snapshot into its blobs.

    Example:
        >>> _homes("/cache/models--a--b/snapshots/0123")
        ['/cache/models--a--b/snapshots/0123', '/cache/models--a--b/blobs']
    """
    repository, snapshots, _ = os.path.join(folder, "").rpartition("/snapshots/")
    return [folder, repository + "/blobs"] if snapshots else [folder]


def read_object(path: str) -> dict[str, Any]:
    """Return the JSON object that a config holds.

    Raises:
        CheckpointError: the rule ``config-limit``, or one of those of `parse_object`.
    """
    with open_file(path) as file:
        if size_of(file) > LONGEST_CONFIG_BYTES:
            raise CONFIG_LIMIT.broken(path, config_bytes=size_of(file))
        return parse_object(read_on(file, LONGEST_CONFIG_BYTES), path)


def parse_object(raw: bytes, path: str) -> dict[str, Any]:
    """Return the JSON object that ``raw`` spells: stricter than Python's own parser, as strict as safetensors'.

    Raises:
        CheckpointError: one of the rules ``items``, ``utf-8``, ``json``, ``nesting``,
            ``duplicate``, ``digits`` and ``object``.

    Example:
        >>> parse_object(b'{"shape": [2, 3]}', "a.safetensors")
        {'shape': [2, 3]}
        >>> parse_object(b'{"shape": [], "shape": [2]}', "a.safetensors")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        weighbridge.errors.CheckpointError: a.safetensors: duplicate: a name may stand only once in an object ...
    """
    items = items_in(raw)
    if items > MOST_ITEMS:
        raise ITEMS.broken(path, items=items)
    try:
        found = json.loads(
            raw.decode(),
            object_pairs_hook=partial(_object, path),
            parse_int=partial(_integer, path),
            parse_constant=partial(_constant, path),
        )
    except UnicodeDecodeError as error:
        raise UTF8.broken(path, byte=error.start) from None
    except json.JSONDecodeError as error:
        raise SYNTAX.broken(path, character=error.pos, problem=error.msg) from None
    except RecursionError:
        raise NESTING.broken(path) from None
    if not isinstance(found, dict):
        raise OBJECT.broken(path, found=found)
    return found


def items_in(raw: bytes) -> int:
    """Return about how many values a JSON text has, before any is built: 0 of one too short to have many.

    Marks inside of names and texts count too, which only refuses a little earlier.
    """
    return sum(map(raw.count, _ITEM_MARKS)) if len(raw) > MOST_ITEMS else 0


def check_text(texts: list[str], path: str) -> None:
    r"""Refuse text that JSON can escape but UTF-8 cannot write, such as ``"\ud800"``.

    Raises:
        CheckpointError: the rule ``surrogate``.
    """
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise SURROGATE.broken(path, code=f"U+{ord(error.object[error.start]):04X}") from None


def is_size(value: object) -> bool:
    """Tell whether a JSON value is a non-negative integer: no bool, no float, not even ``2.0``."""
    return type(value) is int and value >= 0


def elements(shape: Iterable[int]) -> int | None:
    """Return the product of sizes, null if it is 2^63 or more; it never grows past that, whatever the shape says.

    Example:
        >>> elements((768, 30522)), elements(()), elements((0, 2**63))
        (23440896, 1, None)
    """
    count = 1
    for size in shape:
        count *= size
        if count >= ELEMENTS_LIMIT or size >= ELEMENTS_LIMIT:
            return None
    return count


def found_row(name: str, shape: tuple[int, ...], dtype: str, count: int) -> Row:
    """Return the row of a tensor as a header tells of it.

    `Row` itself takes twice as long to make the same.

    Example:
        >>> found_row("pooler.bias", (2,), "F32", 2) == Row("pooler.bias", (2,), "F32", "", (), 2, 2)
        True
    """
    return tuple.__new__(Row, (name, shape, dtype, "", (), count, count, None))


def _object(path: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, times)] = Counter(name for name, _ in pairs).most_common(1)
        raise DUPLICATE.broken(path, name=name, times=times)
    return found


def _integer(path: str, text: str) -> int | float:
    if len(text) > _MOST_DIGITS:
        raise DIGITS.broken(path, digits=len(text), starts=text[:12])
    return (
        -0.0 if text == "-0" else int(text)
    )  # "-0" is no non-negative integer: safetensors takes it for a float


def _constant(path: str, text: str) -> None:
    raise SYNTAX.broken(path, found=text, problem="NaN and Infinity are not JSON")
