"""Checks the formulas of a layer's components for miscounted biases and a missing component.

Arithmetic alone cannot find these slips: the formula itself is wrong, not its value.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.expr import parse
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.articles.text import terms
from weighbridge.articles.text.exact import Number, constant, evaluate_exactly

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weighbridge.algebra.expr import Tree

_MOST_BIASES = 8  # hidden sizes; a formula that is off by more counts something else
_LINES_BEFORE = 2  # in which the component of a formula may be named


class StatedFormula(NamedTuple):
    """A formula that an article states, and the component that its line is about.

    ``value`` is the formula in letters, and ``terms`` are the values of its terms.
    """

    line: int
    text: str
    component: str
    value: Polynomial
    terms: tuple[Polynomial, ...]


def component_on_line(lines: Sequence[str], line: int) -> str:
    """Return the component that a line is about; "" if there is none, or several.

    If the line names no component, the nearest of the two lines before it that does decides.

    Example:
        >>> component_on_line(["## Feed-forward", "It has 2*(4H*H + H) = 8H^2 + 2H."], 2)
        'ffn'
        >>> component_on_line(["FFN and LayerNorm: 8H^2 + 2H"], 1)
        ''
    """
    for near in range(line, max(line - _LINES_BEFORE - 1, 0), -1):
        text = "".join(lines[near - 1 : near])
        named = [
            name
            for name, component in terms.facts()["components"].items()
            if terms.mentions(text, component["words"])
        ]
        if len(named) == 1:
            return str(named[0])
        if named:
            return ""
    return ""


def hidden_letter(value: Polynomial) -> str:
    """Return the letter of the hidden size, if a formula has no other letter."""
    letters = [*value.fields()]
    if len(letters) == 1 and terms.config_field_of(letters[0]) == "hidden_size":
        return letters[0]
    return ""


def rights(component: str, letter: str) -> list[list[Polynomial]]:
    """Return the correct formulas of a component, in a letter for the hidden size.

    The formulas of a group differ in the biases that they count.

    Example:
        >>> [[str(formula) for formula in group] for group in rights("pooler", "H")]
        [['H² + H', 'H²']]
    """
    groups = terms.facts()["components"].get(component, {}).get("right", [])
    return [[_parsed(text, letter) for text in group] for group in groups]


def is_right(value: Polynomial, component: str) -> bool:
    """Return whether a formula is correct for a component, or for a part of it.

    A formula with all biases may also count those of a LayerNorm.
    """
    letter = hidden_letter(value)
    if not letter:
        return False
    norm = constant(2) * Polynomial.of(letter)
    return any(value in (*group, group[0] + norm) for group in rights(component, letter))


def miscounted(value: Polynomial, component: str) -> tuple[Polynomial, Polynomial] | None:
    """Return the correct formulas, with and without biases, for a formula with wrong biases.

    Example:
        >>> from weighbridge.articles.text.exact import constant
        >>> H = Polynomial.of("H")
        >>> wrong = miscounted(constant(8) * H * H + constant(2) * H, "ffn")
        >>> [formula.text() for formula in wrong], miscounted(constant(8) * H * H, "ffn")
        (['8H² + 5H', '8H²'], None)
    """
    letter = hidden_letter(value)
    if not letter or is_right(value, component):
        return None
    for group in rights(component, letter):
        with_biases, without_biases = group[0], group[-1]
        if _is_biases(value - without_biases, letter):
            return with_biases, without_biases
    return None


def with_usual_sizes(value: Polynomial) -> Polynomial:
    """Return a formula with 4H for F, as in most models, in the article's own letters."""
    hidden = [name for name in value.fields() if terms.config_field_of(name) == "hidden_size"]
    if len(hidden) != 1:
        return value
    four = constant(4) * Polynomial.of(hidden[0])
    result = constant(0)
    for powers, coefficient in value.terms.items():
        term = constant(Fraction(coefficient))
        for name, power in powers:
            is_inner = terms.config_field_of(str(name)) == "intermediate_size"
            if power < 0 or Fraction(power).denominator != 1:
                return value
            for _ in range(int(power)):
                term = term * (four if is_inner else Polynomial.of(str(name)))
        result = result + term
    return result


def _is_biases(rest: Polynomial, letter: str) -> bool:
    """Return whether the rest of a formula is a few times the hidden size."""
    if not rest.terms.keys() <= {((letter, 1),)}:
        return False
    return abs(Fraction(rest.terms.get(((letter, 1),), 0))) <= _MOST_BIASES


def missing_output(
    formulas: Iterable[StatedFormula], lines: Sequence[str]
) -> tuple[StatedFormula, str] | None:
    """Return a formula of attention that lacks the output projection, and its letter.

    It counts only the three other projections, and the article does not name the output projection
    anywhere, but has a formula of the feed-forward part in the same letter.
    """
    named = terms.facts()["components"]["attention.output"]["words"]
    if any(terms.mentions(line, named) for line in lines):
        return None
    formulas = list(formulas)
    for formula in formulas:
        letter = hidden_letter(formula.value)
        if formula.component != "attention" or not letter:
            continue
        projections, whole, output = rights("attention", letter)
        if (
            formula.value in projections
            and _has_feed_forward(formulas, letter)
            and not _counts(formulas, [*whole, *output])
        ):
            return formula, letter
    return None


def _has_feed_forward(formulas: Iterable[StatedFormula], letter: str) -> bool:
    return any(
        formula.component == "ffn" and hidden_letter(formula.value) == letter
        for formula in formulas
    )


def _counts(formulas: Iterable[StatedFormula], values: Sequence[Polynomial]) -> bool:
    """Return whether a formula, except the feed-forward part's, has or adds one of the values."""
    for formula in formulas:
        added_values = (formula.value, *formula.terms)
        if formula.component != "ffn" and any(value in values for value in added_values):
            return True
    return False


@cache
def _parsed(text: str, letter: str) -> Polynomial:
    return evaluate_exactly(
        _with_numbers(parse(text)),
        lambda name: Polynomial.of(letter if name == "H" else name),
        lambda number: constant(number.value),
    )


def _with_numbers(tree: Tree) -> Tree:
    kind, *operands = tree
    if kind == "value":
        return (kind, Number(Fraction(operands[0]), str(operands[0]), Fraction(1)))
    if kind == "name":
        return tree
    return (kind, *map(_with_numbers, operands))


def added(tree: Tree) -> list[Tree]:
    """Return the terms that a tree adds, including those of sums that it multiplies.

    Example:
        >>> len(added(parse("V*H + (4*H*H + 4*H) * 12")))
        4
    """
    added_terms, ahead = [], [tree]
    while ahead:
        term = ahead.pop()
        if term[0] in ("+", "-"):
            ahead += term[1:]
            continue
        added_terms.append(term)
        if term[0] == "*":
            ahead += [factor for factor in term[1:] if factor[0] == "+"]
    return added_terms
