"""Reads 1.74 × 10¹¹ as one number, which is rounded to the digits that it shows."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.text.lines import Stretch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weighbridge.articles.text.token import Token

LARGEST_EXPONENT = 40  # as of a number with an e
_MANTISSA = re.compile(r"\d[\d,_]*(?:\.\d+)?")
_POWER = ("*", "10", "^")
_BRACKET = 3  # tokens: an exponent between brackets


class _Exponent(NamedTuple):
    """The exponent of ten, and the position of the first token after it."""

    value: int
    end: int


def with_powers_of_ten(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens, with one number in place of a number times a power of ten.

    Example:
        >>> from weighbridge.articles.text.tokens import tokens
        >>> [token.text for token in tokens("6 × 2.5 · 10^{12} = 1.5 × 10¹³", 1)]
        ['6', '*', '2.5 × 10^12', '=', '1.5 × 10^13']
    """
    position = 0
    while position < len(tokens):
        exponent = _exponent_after(tokens, position)
        if exponent is None:
            yield tokens[position]
            position += 1
        else:
            yield _as_one_number(tokens[position], tokens[exponent.end - 1], exponent.value)
            position = exponent.end


def _exponent_after(tokens: Sequence[Token], position: int) -> _Exponent | None:
    """Return the exponent of ten by which the number at a position is multiplied."""
    token = tokens[position]
    if token.kind != "number" or token.doubt or not _MANTISSA.fullmatch(token.text):
        return None
    after = tokens[position + 1 : position + 1 + len(_POWER)]
    if tuple(sign.text for sign in after) != _POWER or _is_power(tokens, position - 1):
        return None
    exponent = _exponent_at(tokens, position + 1 + len(_POWER))
    if exponent is None or abs(exponent.value) > LARGEST_EXPONENT:
        return None
    return None if _is_power(tokens, exponent.end) else exponent


def _exponent_at(tokens: Sequence[Token], position: int) -> _Exponent | None:
    """Return the whole number at a position, which may have a sign and stand in brackets."""
    rest = tokens[position : position + _BRACKET + 1]
    if rest and rest[0].kind == "open":
        inner = _exponent_at(tokens, position + 1)
        closes = inner and inner.end < len(tokens) and tokens[inner.end].kind == "close"
        return _Exponent(inner.value, inner.end + 1) if inner and closes else None
    sign = rest[0].text if rest and rest[0].kind == "op" and rest[0].text in "+-" else ""
    digits = rest[len(sign)].text if len(rest) > len(sign) else ""
    if not (digits.isascii() and digits.isdigit()):
        return None
    return _Exponent(int(sign + digits), position + len(sign) + 1)


def _is_power(tokens: Sequence[Token], position: int) -> bool:
    return 0 <= position < len(tokens) and tokens[position].text == "^"


def _as_one_number(first: Token, last: Token, exponent: int) -> Token:
    """Return the token of a number times a power of ten."""
    if first.number is None:
        return first
    scale = Fraction(10) ** exponent
    text = f"{first.text} × 10^{exponent}"
    place = first.number.shown_place * scale
    number = first.number._replace(
        value=first.number.value * scale,
        text=text,
        place=place,
        shown_place=place,
        rounded="." in first.text,
        is_power=True,
        at=Stretch(first.line, first.start, last.end),
    )
    return first._replace(text=text, number=number, end=last.end, doubt=last.doubt)
