"""Formulas of a layer's parts: what plain arithmetic cannot see, a bias that was miscounted or a part left out."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.expr import parse
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.articles import terms
from weighbridge.articles.exact import Number, constant, evaluate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weighbridge.algebra.expr import Tree

_MOST_BIASES = 8  # hidden sizes that a formula may be off, to be one whose biases are miscounted


class Formula(NamedTuple):
    """A formula of an article: its line, the component that the line is about, and what it comes to in letters.

    ``terms`` are the values of what it adds up.
    """

    line: int
    text: str
    component: str
    value: Polynomial
    terms: tuple[Polynomial, ...]


def component_of(lines: Sequence[str], line: int) -> str:
    """Return the one component that a line is about, or the nearest of the two before it that is about any.

    Example:
        >>> component_of(["## Feed-forward", "It has 2*(4H*H + H) = 8H^2 + 2H.", "FFN and LayerNorm: 8H^2 + 2H"], 2)
        'ffn'
        >>> component_of(["FFN and LayerNorm: 8H^2 + 2H"], 1)
        ''
    """
    for near in range(line, max(line - 3, 0), -1):
        text = lines[near - 1] if near <= len(lines) else ""
        named = [
            name
            for name, found in terms.facts()["components"].items()
            if terms.said(text, found["words"])
        ]
        if named:
            return named[0] if len(named) == 1 else ""
    return ""


def hidden_letter(value: Polynomial) -> str:
    """Return the letter of the hidden size, if a formula has no other letter."""
    fields = value.fields()
    return next(
        (
            letter
            for letter in fields
            if len(fields) == 1 and terms.size_of(letter) == "hidden_size"
        ),
        "",
    )


def rights(component: str, letter: str) -> list[list[Polynomial]]:
    """Return the right formulas of a component, in a letter for the hidden size: groups that differ in biases.

    Example:
        >>> [[str(formula) for formula in group] for group in rights("pooler", "H")]
        [['H² + H', 'H²']]
    """
    groups = terms.facts()["components"].get(component, {}).get("right", [])
    return [[_parsed(text, letter) for text in group] for group in groups]


def is_right(value: Polynomial, component: str) -> bool:
    """Whether a formula is a component's, or a part's of it; a LayerNorm may be counted in where the biases are."""
    letter = hidden_letter(value)
    norm = constant(2) * Polynomial.of(letter or "H")
    groups = rights(component, letter) if letter else []
    return any(value in (*group, group[0] + norm) for group in groups)


def miscounted(value: Polynomial, component: str) -> tuple[Polynomial, Polynomial] | None:
    """Return a component's formulas, with biases and without, that a formula is none of and yet begins as.

    Example:
        >>> from weighbridge.articles.exact import constant
        >>> H = Polynomial.of("H")
        >>> wrong = miscounted(constant(8) * H * H + constant(2) * H, "ffn")
        >>> [formula.text() for formula in wrong], miscounted(constant(8) * H * H, "ffn")
        (['8H² + 5H', '8H²'], None)
    """
    letter = hidden_letter(value)
    if not letter or is_right(value, component):
        return None
    groups = rights(component, letter)
    return next(
        (
            (group[0], group[-1])
            for group in groups
            if _biases(value - group[-1], letter) is not None
        ),
        None,
    )


def _biases(rest: Polynomial, letter: str) -> Fraction | None:
    """Return how many times the hidden size a rest is, if it is that and not often."""
    if not rest.terms.keys() <= {((letter, 1),)}:
        return None
    times = Fraction(rest.terms.get(((letter, 1),), 0))
    return times if abs(times) <= _MOST_BIASES else None


def missing_output(formulas: Iterable[Formula], lines: Sequence[str]) -> tuple[Formula, str] | None:
    """Return the formula of attention in an article that derives a layer and has no output projection, and its letter.

    It is one that comes to the three projections and no more, beside a formula of the feed-forward
    in the same letter.
    """
    named = terms.facts()["components"]["attention.output"]["words"]
    if any(terms.said(line, named) for line in lines):
        return None
    found = list(formulas)
    for formula in found:
        letter = hidden_letter(formula.value)
        if formula.component != "attention" or not letter:
            continue
        projections, whole, output = rights("attention", letter)
        layer = any(
            other.component == "ffn" and hidden_letter(other.value) == letter for other in found
        )
        others = [other for other in found if other.component != "ffn"]
        counted = any(
            term in (*whole, *output) for other in others for term in (other.value, *other.terms)
        )
        if layer and not counted and formula.value in projections:
            return formula, letter
    return None


@cache
def _parsed(text: str, letter: str) -> Polynomial:
    return evaluate(
        _with_numbers(parse(text)),
        lambda name: Polynomial.of(letter if name == "H" else name),
        lambda number: constant(number.value),
    )


def _with_numbers(tree: Tree) -> Tree:
    kind, *operands = tree
    if kind == "value":
        return (kind, Number(Fraction(operands[0]), str(operands[0]), Fraction(1)))
    return tree if kind == "name" else (kind, *map(_with_numbers, operands))


def added(tree: Tree) -> list[Tree]:
    """Return the terms that a tree adds up, and those of a sum that it multiplies.

    Example:
        >>> len(added(parse("V*H + (4*H*H + 4*H) * 12")))
        4
    """
    found, ahead = [], [tree]
    while ahead:
        here = ahead.pop()
        if here[0] in ("+", "-"):
            ahead += here[1:]
        else:
            found.append(here)
            ahead += [inside for inside in here[1:] if here[0] == "*" and inside[0] == "+"]
    return found
