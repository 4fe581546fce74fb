"""The rules that every header must follow, and the checks that all formats share.

A rule has a short name that never changes, and a message for files that break it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from weighbridge.errors import CheckpointError
from weighbridge.nesting import MOST_NESTED

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
# A string with a single character beyond Latin-1 takes four times its bytes in memory.
LONGEST_WIDE_BYTES = 10_000_000
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# The user and the password in an address. The second form has an unescaped slash in its password;
# a colon followed by digits and a slash belongs to a port.
_USER = re.compile(r"[\w+.:-]+://([^/?]*@|[^/@?]*:(?!\d*/)[^@?]*@)")
# On the Hub, a name may be followed by @ and a revision, so only a colon reveals a user.
_USER_ON_HUB = re.compile(r"hf://([^/@]*:[^@]*@)", re.IGNORECASE)
_QUERY = re.compile(r"\?[^/]*=.*$")  # elsewhere than on the web, ? may belong to a pattern
_ITEM_MARKS = (b",", b":", b"[", b"{")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_CHANGE_OF_DEPTH = bytes.maketrans(b"[{]}", b"\2\2\0\0")  # plus 1
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
        if "://" in path:
            for name, value in values.items():
                if isinstance(value, str):
                    values[name] = without_secrets_of(path, value)
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
NESTING = Rule("nesting", f"lists and objects may nest at most {MOST_NESTED} deep in JSON", FETCH)
WIDE = Rule(
    "wide",
    f"JSON with characters other than ASCII may have at most {LONGEST_WIDE_BYTES:,} bytes",
    FETCH,
)
DUPLICATE = Rule("duplicate", "a name may occur only once in an object", REWRITE)
DIGITS = Rule("digits", f"an integer may have at most {_MOST_DIGITS} digits", REWRITE)
CHANGED = Rule("changed", "the length of the file changed while it was read", "try again")
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
        >>> without_secrets("hf://org/name@main"), without_secrets("s3://key:word@bucket/a.pt")
        ('hf://org/name@main', 's3://bucket/a.pt')
    """
    if "://" not in path:
        return path
    if _is_web(path):
        path = path.partition("?")[0].partition("#")[0]
    user = _user_in(path)
    return _QUERY.sub("", path.replace(user, "", 1) if user else path)


def without_secrets_of(path: str, text: str) -> str:
    """Return a text, such as a library's message about an address, without the address's secrets.

    Example:
        >>> without_secrets_of("ftp://me:word@host/a", "login of 'me' with 'word' failed")
        "login of 'me' with '***' failed"
    """
    text = text.replace(path, without_secrets(path))
    user = _user_in(path)
    password = user.rstrip("@").partition(":")[2]
    for secret in (user, unquote(user), password, unquote(password), *password.split("/")):
        if secret:
            text = text.replace(secret, "***")
    return text


def _is_web(path: str) -> bool:
    return path.lower().startswith(("http://", "https://"))


def _user_in(path: str) -> str:
    """Return the user and the password in an address, with the @ after them."""
    pattern = _USER_ON_HUB if path.lower().startswith("hf://") else _USER
    match = pattern.match(path)
    return match[1] if match else ""


def parse_object(raw: bytes, path: str) -> dict[str, Any]:
    """Return a JSON object, parsed as strictly as in safetensors; Python's own parser is laxer.

    Raises:
        CheckpointError: the text breaks the rule ``object`` or one of those of `parse_json`.

    Example:
        >>> parse_object(b'{"shape": [2, 3]}', "a.safetensors")
        {'shape': [2, 3]}
        >>> parse_object(b'{"shape": [], "shape": [2]}', "a.safetensors")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        weighbridge.errors.CheckpointError: a.safetensors: duplicate: a name may occur only once ...
    """
    content = parse_json(raw, path)
    if not isinstance(content, dict):
        raise OBJECT.broken(path, found=content)
    return content


def parse_json(raw: bytes, path: str) -> Any:
    """Return what a JSON text holds, parsed as strictly as in safetensors.

    Raises:
        CheckpointError: the text breaks one of the rules ``items``, ``wide``, ``nesting``,
            ``utf-8``, ``json``, ``duplicate`` and ``digits``.

    Example:
        >>> parse_json(b'[{"idx": 0}]', "modules.json")
        [{'idx': 0}]
    """
    items = items_in(raw)
    if items > MOST_ITEMS:
        raise ITEMS.broken(path, items=items)
    if is_wide(raw):
        raise WIDE.broken(path, bytes=len(raw))
    if is_too_deep(raw):
        raise NESTING.broken(path, depth=nesting_of(raw))
    try:
        return json.loads(
            raw.decode(),
            object_pairs_hook=partial(_object, path),
            parse_int=partial(_integer, path),
            parse_constant=partial(_constant, path),
        )
    except UnicodeDecodeError as error:
        raise UTF8.broken(path, byte=error.start) from None
    except json.JSONDecodeError as error:
        raise SYNTAX.broken(path, character=error.pos, problem=error.msg) from None


def items_in(raw: bytes) -> int:
    """Return a lower bound of the number of values in a JSON text, or 0 if the text is short.

    Marks inside strings count too, so a few texts are refused slightly too early.
    """
    if len(raw) <= MOST_ITEMS:
        return 0
    return sum(map(raw.count, _ITEM_MARKS))


def is_wide(raw: bytes) -> bool:
    """Return whether a JSON text is too long for one that may have characters beyond ASCII."""
    return len(raw) > LONGEST_WIDE_BYTES and (not raw.isascii() or b"\\u" in raw)


def is_too_deep(raw: bytes) -> bool:
    """Return whether a JSON text nests too deeply to be parsed."""
    openings = raw.count(b"[") + raw.count(b"{")
    return openings > MOST_NESTED and nesting_of(raw) > MOST_NESTED


def nesting_of(raw: bytes) -> int:
    r"""Return how deep lists and objects nest in a JSON text, at least as deep as a parser gets.

    Brackets in strings do not count. Parsers recurse at each level, and where the stack is small,
    as in a thread or in a browser, the process ends before Python raises an error.

    Example:
        >>> nesting_of(b'{"a[[[": [{}, []]}'), nesting_of(b"[" * 5000), nesting_of(b"1")
        (3, 5000, 0)
    """
    # A valid text has at most one string more than it has marks, and as many closing brackets as
    # opening ones. What comes after more of them is not reached by a parser.
    most = 2 * (MOST_ITEMS + 1)
    unescaped = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = b"".join(unescaped.split(b'"', most)[::2])
    brackets = outside.translate(None, _NO_BRACKETS)[:most].translate(_CHANGE_OF_DEPTH)
    return max(accumulate(change - 1 for change in brackets), default=0)


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
