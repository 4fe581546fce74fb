"""The other ways in which a side of a statement may be read.

A reader is charitable: words before an expression may belong to it or not, a raised figure may have
been lost in copying (7682 for 768²), and a letter may stand for any number that the article gives
it. A step is right if any plausible reading is right.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.expr import names_in
from weighbridge.articles.arithmetic.byte_counts import with_widths
from weighbridge.articles.arithmetic.expressions import OPERANDS, longest_expression
from weighbridge.articles.arithmetic.figures import LEAST_KNOWN, literal_of
from weighbridge.articles.text.exact import Number, UnreadableError
from weighbridge.articles.text.powers_of_ten import with_powers_of_ten
from weighbridge.articles.text.token import Token

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.articles.arithmetic.figures import Figures
    from weighbridge.articles.arithmetic.grammar import Side

MOST_READINGS = 120
"""Of one step; published ones have less than 20, and each takes an evaluation."""
_MOST_LETTERS = 64  # combinations of the numbers that letters may stand for
_MOST_CUTS = 24  # places where a side may begin or end
_POWERS = "23"
"""Exponents that are lost in copying: squares and cubes."""
_TEN_RAISED = re.compile(r"10(\d{1,2})")
_LEAST_UNSTATED = 100  # a base that the article does not state as a size
_LEAST_RAISED = 16  # 122 is not 12², but 7682 may be 768²


class StepReading(NamedTuple):
    """One way to read a step: the trees of its sides, and numbers for letters."""

    left: Tree
    right: Tree
    names: Mapping[str, Fraction]


def readings(
    left: Side, right: Side, figures: Figures, sizes: Collection[Fraction]
) -> Iterator[StepReading]:
    """Yield the ways to read a step, the one that is written first, then those with least changes.

    ``sizes`` are the numbers whose powers may have lost their sign.
    """
    if left.tree is None or right.tree is None:
        return
    yield StepReading(left.tree, right.tree, {})  # most steps are right, and need no other
    left_trees = [left.tree, *_with_widths(left, right.tree)]
    left_trees += _changed(left, sizes, figures, _endings)
    right_trees = [right.tree]
    if right.tree[0] != "value":
        right_trees += _changed(right, sizes, figures, _beginnings)
    sides = sorted(
        product(range(len(left_trees)), range(len(right_trees))),
        key=lambda pair: (sum(pair), pair),
    )
    for left_at, right_at in sides:
        left_tree, right_tree = left_trees[left_at], right_trees[right_at]
        for names in _numbers_of_letters(left_tree, right_tree, figures):
            yield StepReading(left_tree, right_tree, names)


def _with_widths(left: Side, right: Tree) -> list[Tree]:
    """Return the tree of a side in which 4B is four bytes, if the other side is bytes: 496 MB."""
    number = literal_of(right)
    if number is None or not number.byte_scales:
        return []
    tree = _whole_tree(with_widths(left.part[left.first : left.last]))
    return [tree] if tree and tree != left.tree else []


def _numbers_of_letters(left: Tree, right: Tree, figures: Figures) -> Iterator[dict[str, Fraction]]:
    """Yield the numbers that the letters of a step may stand for; nothing is supposed at first."""
    yield {}
    names = list(dict.fromkeys([*names_in(left), *names_in(right)]))
    choices = [(name, figures.possible_numbers(name)) for name in names]
    several = [(name, numbers) for name, numbers in choices if numbers]
    for count, numbers in enumerate(product(*(numbers for _, numbers in several))):
        if count == _MOST_LETTERS:
            return
        yield {name: number for (name, _), number in zip(several, numbers, strict=True)}


def _changed(
    side: Side,
    sizes: Collection[Fraction],
    figures: Figures,
    cuts: object,
) -> list[Tree]:
    """Return the other trees of a side: with powers put back, and cut at other places."""
    tokens = list(side.part[side.first : side.last])
    if not tokens:
        return []
    raised = _with_powers(tokens, sizes, figures)
    trees = [_whole_tree(raised)] if raised != tokens else []
    trees += map(_whole_tree, _with_one_power(tokens))
    trees += _with_brackets(tokens)
    for cut in [*cuts(tokens)][:_MOST_CUTS]:  # type: ignore[operator]
        trees.append(_whole_tree(cut))
        if raised != tokens:
            trees.append(_whole_tree(_with_powers(cut, sizes, figures)))
    return list(dict.fromkeys(filter(None, trees)))


def _whole_tree(tokens: Sequence[Token]) -> Tree | None:
    """Return the tree of all tokens; None if they are not one expression."""
    try:
        tree, end = longest_expression(tokens, 0)
    except UnreadableError:
        return None
    return tree if end == len(tokens) else None


def _endings(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the shorter ends of a side: after a blank, or after the plus of a sum of numbers.

    In 23,837,184 + 12 * 7,087,872 = 85,054,464, the sum has only begun.
    """
    for start in range(1, len(tokens)):
        after_words = tokens[start - 1].kind == "word"
        if after_words or _is_beside(tokens, start) or _adds_numbers(tokens, start - 1):
            yield tokens[start:]


def _beginnings(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the shorter beginnings of a side, the longest first.

    In 12 * 7,087,872 = 85,054,464 + 23,837,184 = 108,891,648, the sum goes on after the result.
    """
    for end in range(len(tokens) - 1, 0, -1):
        before_words = tokens[end].kind == "word"
        if before_words or _is_beside(tokens, end) or _adds_numbers(tokens, end):
            yield tokens[:end]


def _is_beside(tokens: Sequence[Token], position: int) -> bool:
    """Return whether an operand begins here, after a blank and without a sign before it."""
    token, before = tokens[position], tokens[position - 1]
    return token.kind in OPERANDS and not token.tight and before.kind in ("number", "name", "close")


def _adds_numbers(tokens: Sequence[Token], position: int) -> bool:
    """Return whether a sign stands here beside a number that is too large to be a factor."""
    if tokens[position].kind != "op" or any(token.kind == "name" for token in tokens):
        return False
    beside = tokens[max(position - 1, 0) : position + 2]
    numbers = [token.number.value for token in beside if token.number]
    return bool(numbers) and max(numbers) >= LEAST_KNOWN


def _with_powers(
    tokens: Sequence[Token], sizes: Collection[Fraction], figures: Figures
) -> list[Token]:
    """Return tokens in which powers that lost their sign have it again: 7682, H2.

    A unit that is a letter of the article becomes a factor.
    """
    raised: list[Token] = []
    for token in tokens:
        base, exponent = token.text[:-1], token.text[-1:]
        if token.kind == "number" and _is_factor(token, figures):
            raised += [_number(base, token), token._replace(kind="name", text=exponent, tight=True)]
        elif exponent not in _POWERS or not base:
            raised.append(token)
        elif token.kind == "number" and base.isdigit() and _may_be_raised(int(base), sizes):
            raised += _raised_tokens(_number(base, token), exponent, token)
        elif token.kind == "name" and _is_raised_letter(token.text, base, figures):
            raised += _raised_tokens(token._replace(text=base), exponent, token)
        else:
            raised.append(token)
    return raised


def _with_one_power(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield tokens with a power put back: 10^23 for 1023, and another number wherever it stands.

    Here the sizes of the article do not say which number it is.
    """
    texts = dict.fromkeys(token.text for token in tokens if token.kind == "number")
    for text in texts:
        base, exponent = _as_power(text)
        if exponent:
            yield _raised_everywhere(tokens, text, base, exponent)


def _as_power(text: str) -> tuple[str, str]:
    """Return the base and the exponent of a number that may be a power; "" if it is none."""
    ten = _TEN_RAISED.fullmatch(text)
    if ten:
        return "10", ten[1]
    base, exponent = text[:-1], text[-1:]
    if base.isdigit() and exponent in _POWERS and int(base) >= _LEAST_UNSTATED:
        return base, exponent
    return text, ""


def _raised_everywhere(tokens: Sequence[Token], text: str, base: str, exponent: str) -> list[Token]:
    """Return tokens with a power in place of each number that is written like this."""
    raised: list[Token] = []
    for token in tokens:
        if token.kind == "number" and token.text == text:
            raised += _raised_tokens(_number(base, token), exponent, token)
        else:
            raised.append(token)
    return [*with_powers_of_ten(raised)]


def _with_brackets(tokens: Sequence[Token]) -> Iterator[Tree]:
    """Yield trees in which lost brackets are put back: 3 * 768 * 768 + 768 for 3 * (768² + 768).

    What is added must be a size that the product has too: a matrix and its bias.
    """
    if any(token.kind == "open" for token in tokens):
        return
    for position, token in enumerate(tokens):
        if token.text == "+":
            return
        if token.text == "*":
            factor, rest = _whole_tree(tokens[:position]), _whole_tree(tokens[position + 1 :])
            if factor and rest and rest[0] == "+" and _is_matrix_with_bias(tokens, position):
                yield ("*", factor, rest)


def _is_matrix_with_bias(tokens: Sequence[Token], start: int) -> bool:
    """Return whether the last token is a size that stands twice before it, after a position."""
    bias = tokens[-1]
    before = [token for token in tokens[start:-1] if token.text == bias.text]
    is_size = bias.number is None or bias.number.value >= _LEAST_RAISED
    return is_size and len(before) > 1


def _is_factor(token: Token, figures: Figures) -> bool:
    """Return whether the unit of a number is rather a letter: 2B, where B is the buckets."""
    letter = token.text[-1:]
    return letter.isalpha() and token.text[:-1].isdigit() and figures.has_meaning(letter)


def _may_be_raised(base: int, sizes: Collection[Fraction]) -> bool:
    return base >= _LEAST_RAISED and Fraction(base) in sizes


def _is_raised_letter(name: str, base: str, figures: Figures) -> bool:
    is_known = figures.meaning(name) is not None
    return not is_known and (figures.meaning(base) is not None or len(base) == 1)


def _number(digits: str, token: Token) -> Token:
    at = token.number.at if token.number else None
    number = Number(Fraction(digits), digits, Fraction(1), at=at)
    return token._replace(text=digits, number=number)


def _raised_tokens(base: Token, exponent: str, token: Token) -> list[Token]:
    sign = Token("op", "^", token.line, tight=True)
    raised = Token("number", exponent, token.line, tight=True)
    return [base, sign, raised._replace(number=Number(Fraction(exponent), exponent, Fraction(1)))]
