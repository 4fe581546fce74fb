"""The lines of an article as they are read, and what is said of each number on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class ArticleLine(NamedTuple):
    """A line as a reader sees it, without markup.

    ``number`` counts the lines from 1; except in pages, it is the line in the source. A formula
    that is written on several lines goes on in each line that ``continues`` the one before it.
    """

    number: int
    text: str
    continues: bool = False


class Stretch(NamedTuple):
    """A stretch of a line's text: the number of the line, and its columns, the last excluded."""

    line: int
    start: int
    end: int


SIZE = "size"
RIGHT = "right"
SLIP = "slip"
FOLLOWS = "follows"
KNOWN = "known"
BOILERPLATE = "boilerplate"
UNREAD = "unread"
VERDICTS = (SIZE, RIGHT, SLIP, FOLLOWS, KNOWN, BOILERPLATE, UNREAD)
"""A size that the article states; right; a slip; a number that follows from a slip; one that the
model has under a named convention; one that is not about the model; not read."""
_FROM_WEAKEST = (UNREAD, BOILERPLATE, KNOWN, RIGHT, SIZE, FOLLOWS, SLIP)
STRENGTH = {verdict: strength for strength, verdict in enumerate(_FROM_WEAKEST)}
"""Of several verdicts on one number, the strongest stands."""


class NumberVerdict(NamedTuple):
    """What is said of one number: where it stands, its verdict, and the reason.

    ``reason`` is a key of the table ``reasons`` in the words of an audit, and ``values`` fill in
    the braces of its text.
    """

    at: Stretch
    text: str
    verdict: str
    reason: str
    values: Mapping[str, Any]
