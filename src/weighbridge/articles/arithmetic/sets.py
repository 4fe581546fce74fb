"""Leaves out the sets of shapes, W ∈ R^{4096 × 4096}: they are no powers, and no arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weighbridge.articles.text.token import Token

_IN = "∈"
_SET = ("name", "word", "other")
"""The kinds of the token for a set, such as R."""
_SIZES = ("number", "name")


def without_sets(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens without the power of a set behind a sign for membership.

    Example:
        >>> from weighbridge.articles.text.tokens import tokens
        >>> [token.text for token in without_sets([*tokens("W ∈ R^{768×64} has 49,152", 1)])]
        ['W', '∈', 'has', '49,152']
    """
    position = 0
    while position < len(tokens):
        token = tokens[position]
        yield token
        position += 1
        if token.text == _IN:
            position = _after_power(tokens, position)


def _after_power(tokens: Sequence[Token], start: int) -> int:
    """Return the position behind the power of a set; the position itself if there is none."""
    first = tokens[start : start + 2]
    if [token.text for token in first[1:]] != ["^"] or first[0].kind not in _SET:
        return start
    position = start + len(first)
    if position < len(tokens) and tokens[position].kind == "open":
        return _after_bracket(tokens, position)
    while position < len(tokens) and _is_part_of_shape(tokens[position]):
        position += 1
    return position


def _after_bracket(tokens: Sequence[Token], position: int) -> int:
    """Return the position behind a bracket; that of the end of the line if it is not closed."""
    depth = 0
    while position < len(tokens) and tokens[position].text != "\n":
        depth += (tokens[position].kind == "open") - (tokens[position].kind == "close")
        position += 1
        if not depth:
            break
    return position


def _is_part_of_shape(token: Token) -> bool:
    return token.kind in _SIZES or token.text == "*"
