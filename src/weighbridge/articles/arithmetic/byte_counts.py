"""Numbers of bytes: their units, and the bytes of a parameter in a calculation."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from weighbridge.articles.arithmetic.expressions import longest_expression
from weighbridge.articles.arithmetic.grammar import is_byte_unit
from weighbridge.articles.text.exact import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weighbridge.articles.arithmetic.grammar import Side
    from weighbridge.articles.text.exact import Number
    from weighbridge.articles.text.token import Token

_WIDTHS = (1, 4, 2, 8)  # bytes of a parameter; 1 also for a number that is bytes already
_WIDTH = re.compile(r"(0?\.5|[1248]|16) ?B")
_DECIMALS = re.compile(r"\.(\d+)")


def may_be_bytes(exact: Fraction, number: Number) -> bool:
    """Return whether a number of bytes may be written for a number of bytes, or of parameters.

    MB is often written for MiB. Parameters have 4, 2, 1 or 8 bytes each.
    """
    for scale in number.byte_scales:
        for width in _WIDTHS:
            if number.fits(exact * width / scale, rounded=True):
                return True
    return False


def counts_bytes(side: Side) -> bool:
    """Return whether a side is a number with the word for bytes: 1,340,567,552 bytes."""
    is_number = side.tree is not None and side.tree[0] == "value"
    return is_number and is_byte_unit(side.part[side.last :])


def bytes_in_unit(number: Number) -> Fraction:
    """Return how many bytes the unit of a number of bytes has.

    Example:
        >>> from weighbridge.articles.text.tokens import tokens
        >>> [int(bytes_in_unit(token.number)) for token in tokens("417.6MB 524,288 B 4 KiB", 1)]
        [1000000, 1, 1024]
    """
    decimals = _DECIMALS.search(number.text)
    shown = len(decimals[1]) if decimals else 0
    return Fraction(number.shown_place * 10**shown)


def with_widths(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens in which 2 B is two bytes, not two billions."""
    return [_width(token) for token in tokens]


def _width(token: Token) -> Token:
    match = _WIDTH.fullmatch(token.text)
    if match is None or token.number is None:
        return token
    number = token.number._replace(value=Fraction(match[1]), place=Fraction(1), rounded=False)
    return token._replace(number=number)


def in_plain_bytes(left: Side, number: Number) -> Side:
    """Return the left side of a number of bytes without prefix: its factors are bytes as well."""
    if not number.byte_scales or bytes_in_unit(number) != 1:
        return left
    part = with_widths(left.part)
    try:
        tree, end = longest_expression(part[: left.last], left.first)
    except UnreadableError:
        return left
    return left._replace(tree=tree, part=tuple(part)) if end == left.last else left
