"""The rules that every header must follow, and the checks that all formats share.

A rule has a short name that never changes, and a message for files that break it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable

# The digits of 2^64 - 1. No size or offset needs more, and Python takes quadratic time to parse a
# long integer.
_MOST_DIGITS = 20
# In memory, a small value takes about forty times its bytes in the text. 100,000 matrices have
# 1,200,000 of these marks, 12 each. This limit allows up to 190 MiB and one second, if the names
# and texts between the marks are short and ASCII.
MOST_ITEMS = 1_250_000
LONGEST_CONFIG_BYTES = 2 * 2**20
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PASSWORD = re.compile(r"^(\w+://)[^/]*@")
_ITEM_MARKS = (b",", b":", b"[", b"{")
ELEMENTS_LIMIT = 2**63  # a tensor must have fewer


class Rule(NamedTuple):
    """A rule: its name, what must be true, and what to do about a file that breaks it."""

    name: str
    what: str
    hint: str

    def broken(self, path: str, **values: object) -> CheckpointError:
        """Return the error for a file that breaks the rule, with the values at hand.

        Example:
            >>> print(OBJECT.broken("index.json", found=[]))
            index.json: object: the JSON must be a single object (found = a list of 0).
            Save the file again, or download it again.
        """
        return CheckpointError(
            f"{self.name}: {self.what}", where=without_secrets(path), values=values, hint=self.hint
        )


FETCH = "the file is damaged, or is not what its name says: download it again"
REWRITE = "save the file again, or download it again"

MISSING = Rule("missing", "there is no such file", "check the spelling of the path")
UNREADABLE = Rule("unreadable", "the file cannot be opened", "check its permissions and its links")
REGULAR = Rule(
    "regular-file",
    "only a regular file can be read",
    "give a file, not a folder, a pipe or a device",
)
ITEMS = Rule(
    "items", f"the JSON may have at most {MOST_ITEMS:,} commas, colons and opening brackets", FETCH
)
UTF8 = Rule("utf-8", "the JSON must be valid UTF-8", FETCH)
SYNTAX = Rule("json", "the text must be valid JSON", FETCH)
NESTING = Rule("nesting", "the JSON must not be nested too deeply", FETCH)
DUPLICATE = Rule("duplicate", "a name may occur only once in an object", REWRITE)
DIGITS = Rule("digits", f"an integer may have at most {_MOST_DIGITS} digits", REWRITE)
CONFIG_LIMIT = Rule(
    "config-limit", f"a config may have at most {LONGEST_CONFIG_BYTES:,} bytes", FETCH
)
OBJECT = Rule("object", "the JSON must be a single object", REWRITE)
SURROGATE = Rule("surrogate", "a name or text must not contain half of a surrogate pair", REWRITE)


def is_remote(path: str) -> bool:
    r"""Return whether a path is an address, and not a local path.

    Example:
        >>> is_remote("hf://org/name"), is_remote("a.safetensors"), is_remote("C:\\a.safetensors")
        (True, False, False)
    """
    return bool(_ADDRESS.match(path))


def without_secrets(path: str) -> str:
    """Return an address without its secrets: a password, and a query, which may be a signature.

    Example:
        >>> without_secrets("https://me:word@host/a.safetensors?token=abc")
        'https://host/a.safetensors'
        >>> without_secrets("hf://org/name@main")
        'hf://org/name@main'
    """
    if not path.lower().startswith(("http://", "https://")):
        return path
    return _PASSWORD.sub(r"\1", path.partition("?")[0].partition("#")[0])


def parse_object(raw: bytes, path: str) -> dict[str, Any]:
    """Return a JSON object, parsed as strictly as in safetensors; Python's own parser is laxer.

    Raises:
        CheckpointError: the text breaks one of the rules ``items``, ``utf-8``, ``json``,
            ``nesting``, ``duplicate``, ``digits`` and ``object``.

    Example:
        >>> parse_object(b'{"shape": [2, 3]}', "a.safetensors")
        {'shape': [2, 3]}
        >>> parse_object(b'{"shape": [], "shape": [2]}', "a.safetensors")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        weighbridge.errors.CheckpointError: a.safetensors: duplicate: a name may occur only once ...
    """
    items = items_in(raw)
    if items > MOST_ITEMS:
        raise ITEMS.broken(path, items=items)
    try:
        content = json.loads(
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
    if not isinstance(content, dict):
        raise OBJECT.broken(path, found=content)
    return content


def items_in(raw: bytes) -> int:
    """Return a lower bound of the number of values in a JSON text, or 0 if the text is short.

    Marks inside strings count too, so a few texts are refused slightly too early.
    """
    if len(raw) <= MOST_ITEMS:
        return 0
    return sum(map(raw.count, _ITEM_MARKS))


def check_text(texts: list[str], path: str) -> None:
    r"""Refuse text that JSON can escape but UTF-8 cannot encode, such as ``"\ud800"``.

    Raises:
        CheckpointError: a text breaks the rule ``surrogate``.
    """
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise SURROGATE.broken(path, code=f"U+{ord(error.object[error.start]):04X}") from None


def is_size(value: object) -> bool:
    """Return whether a JSON value is a non-negative integer; a bool or 2.0 is not."""
    return type(value) is int and value >= 0


def elements(shape: Iterable[int]) -> int | None:
    """Return the product of sizes, or None if it is 2^63 or more.

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


def _object(path: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        [(name, times)] = Counter(name for name, _ in pairs).most_common(1)
        raise DUPLICATE.broken(path, name=name, times=times)
    return values


def _integer(path: str, text: str) -> int | float:
    if len(text) > _MOST_DIGITS:
        raise DIGITS.broken(path, digits=len(text), starts=text[:12])
    if text == "-0":
        return -0.0  # as in safetensors: a float, not a non-negative integer
    return int(text)


def _constant(path: str, text: str) -> None:
    raise SYNTAX.broken(path, found=text, problem="NaN and Infinity are not JSON")
