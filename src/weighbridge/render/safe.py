"""Keeps names that somebody else chose from acting on what shows them.

A tensor, a file, a class or an article may have any name. A terminal obeys control characters, a
reader is misled by characters that turn the direction of text, and a spreadsheet evaluates a cell
that begins as a formula. Each format escapes its own markup; what acts in all of them is here.
"""

from __future__ import annotations

from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_REPLACED = "\N{REPLACEMENT CHARACTER}"
_TAB, _NEWLINE = 0x09, 0x0A
# C0 and C1 controls, and those of Unicode: marks of direction, ends of lines and paragraphs,
# embeddings and overrides, isolates. Source: https://www.unicode.org/reports/tr9/, table 4.
_CONTROLS = (
    *range(0x20),
    *range(0x7F, 0xA0),
    0x061C,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
_IN_LINES = {code: _REPLACED for code in _CONTROLS if code not in (_TAB, _NEWLINE)}
_IN_A_LINE = {**_IN_LINES, _TAB: " ", _NEWLINE: _REPLACED}
_ESCAPED = {code: f"\\u{code:04x}" for code in _CONTROLS if code != _NEWLINE}
_ESCAPED_IN_A_LINE = {**_ESCAPED, _NEWLINE: "\\u000a"}


def lines(text: str) -> str:
    r"""Return text with a replacement for each control character except tabs and ends of lines.

    Example:
        >>> lines("a\x1b[2J\n\u202egnp.exe")
        'a�[2J\n�gnp.exe'
    """
    if text.isprintable():
        return text
    return text.translate(_IN_LINES)


def cell(text: str) -> str:
    r"""Return text for a cell of a table: on one line, and without control characters.

    Example:
        >>> cell("a\r\nb")
        'a��b'
    """
    if text.isprintable():
        return text
    return text.translate(_IN_A_LINE)


def each_text(value: Any, clean: Callable[[str], str]) -> Any:
    r"""Return a value with every text in its tuples and mappings cleaned; types stay as they are.

    Example:
        >>> each_text((("a\x07", 2), {"b": "c\n"}), cell)
        (('a�', 2), {'b': 'c�'})
    """
    if isinstance(value, str):
        return value if value.isprintable() else type(value)(clean(value))
    if isinstance(value, dict):
        return {key: each_text(item, clean) for key, item in value.items()}
    if not isinstance(value, tuple):
        return value
    items = [each_text(item, clean) for item in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    # A named tuple, such as a block, is made from its items in another way than a plain one.
    make = getattr(type(value), "_make", tuple)
    return make(items)


def json_text(value: object, indent: int | None = 2) -> str:
    r"""Write a value as JSON in UTF-8, with the escapes of JSON for characters that could act.

    Programs read the same value. Besides those that JSON itself escapes, these are the C1 controls,
    the marks of direction, and halves of pairs, which UTF-8 cannot encode.

    Example:
        >>> print(json_text({"词": "\u202egnp.exe\x9b"}, indent=None))
        {"词": "\u202egnp.exe\u009b"}
    """
    import json  # noqa: PLC0415  # a name from the catalogue is answered without it

    text = json.dumps(value, indent=indent, ensure_ascii=False).translate(_ESCAPED)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


_FORMULA = ("=", "+", "-", "@")


def csv_cell(value: object) -> object:
    r"""Return a value for a cell of CSV, so that no spreadsheet takes text for a formula.

    A number stays a number, also in a text. Another text that begins as a formula gets an
    apostrophe before it, and control characters are escaped as in JSON.

    Example:
        >>> [csv_cell(value) for value in (-2, "-2", "=1+1", "pooler.dense.bias", "a\n")]
        [-2, '-2', "'=1+1", 'pooler.dense.bias', 'a\\u000a']
    """
    if not isinstance(value, str):
        return value
    if value.startswith((*_FORMULA, "\t", "\r")) and not _is_number(value):
        value = f"'{value}"
    return value if value.isprintable() else value.translate(_ESCAPED_IN_A_LINE)


def _is_number(text: str) -> bool:
    """Whether a text is a number as a program writes it: digits, and no letters as in ``-inf``."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and text[-1].isdigit()
