"""`articles.arithmetic.expressions`: which tokens form an expression, and what its value is."""

import re
from fractions import Fraction

import pytest

from weighbridge.algebra.polynomial import Polynomial
from weighbridge.articles.arithmetic.expressions import DEEPEST, Expression, longest_expression
from weighbridge.articles.text.exact import UnreadableError, constant, evaluate_exactly, number_of
from weighbridge.articles.text.token import Token
from weighbridge.articles.text.tokens import MOST_DIGITS, tokens


def read(text: str) -> tuple[list[Token], Expression]:
    line = list(tokens(text, 1))
    return line, longest_expression(line, 0)


def value_of(text: str) -> Fraction | None:
    expression = read(text)[1]
    return number_of(
        evaluate_exactly(expression.tree, Polynomial.of, lambda number: constant(number.value))
    )


VALUES = {
    "1 + 2 * 3": 7,
    "(1 + 2) * 3": 9,
    "2 - 3 - 4": -5,
    "12 / 3 / 2": 2,
    "2^3^2": 512,
    "-2^2": -4,
    "2 * -3": -6,
    "2(3 + 4)": 14,
    "2(3 + 4)(1 + 1)": 28,
    "12 encoder layers * 7": 84,
    "[{(1 + 1)}]": 2,
    "1.5M": 1_500_000,
    "2万": 20_000,
}


@pytest.mark.parametrize("text", VALUES)
def test_operators_bind_as_in_arithmetic(text: str) -> None:
    assert value_of(text) == VALUES[text]


# The part of a text that belongs to the expression.
EXPRESSIONS = {
    "2 * 3 parameters": "2 * 3",
    "4 H": "4 H",
    "12 layers": "12",
    "2304 (3 + 4)": "2304 ( 3 + 4 )",
    "2,304 (3 + 4)": "2,304",
    "2H (768)": "2 H",
    "2 + and so on": "2 + and so on",
    "2 + words that go on and on": "2",
    "embeddings + layers": "embeddings + layers",
    "2 * 3 = 6": "2 * 3",
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_the_longest_expression_is_taken(text: str) -> None:
    line, (_, end) = read(text)
    assert " ".join(token.text for token in line[:end]) == EXPRESSIONS[text]


REFUSED = {
    "of 5": "not_read",
    "f(x)": "not_read",
    "= 5": "not_read",
    "5 * (2 * 3": "bracket",
    "H/2H": "two_ways",
    "(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1): "too_deep",
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_text_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(UnreadableError, match=f"^{re.escape(repr((REFUSED[text], '')))}$"):
        read(text)


def test_brackets_may_be_as_deep_as_the_limit() -> None:
    assert value_of("(" * DEEPEST + "1 + 1" + ")" * DEEPEST) == 2


def test_the_limits_are_far_from_each_other() -> None:
    assert DEEPEST < 100 < MOST_DIGITS * 10
