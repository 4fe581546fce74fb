"""A token of an article: a number, a name, a sign, a word or a separator."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weighbridge.articles.text.exact import Number


class Token(NamedTuple):
    """A token of a line.

    ``tight`` is true if there is no space before it. ``number`` is the value of a number, and
    ``why`` the reason why a number cannot be read. ``start`` and ``end`` are its columns. A token
    is in ``doubt`` if what stands beside it may belong to it: the 2 of 2AB, the 13 of 13, 476.
    So is an asterisk, which may be markup.

    Kinds are ``number``, ``name``, ``word``, ``op``, ``relation``, ``open``, ``close``,
    ``separator`` and ``other``. The ``text`` of a sign is its meaning: ``*`` for every
    multiplication sign.
    """

    kind: str
    text: str
    line: int
    tight: bool = False
    number: Number | None = None
    why: str = ""
    start: int = 0
    end: int = 0
    doubt: bool = False
