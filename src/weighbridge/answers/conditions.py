"""Counts the places of an operation in letters: conditions on layers become counts of layers.

A condition on sizes, such as ``past + 1 < sliding_window``, becomes a factor that is 1 where it
holds and otherwise 0, so that a formula is right on both sides of a window. Two terms with opposite
conditions become one with a minimum where their sizes allow it.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.expr import names_in, parse
from weighbridge.algebra.polynomial import Monomial, Polynomial
from weighbridge.algebra.settle import settled
from weighbridge.blueprint.bind import uses
from weighbridge.blueprint.paths import indices_in
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger.lettering import is_indicator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.operations import OperationTemplate
    from weighbridge.ledger.letters import Letters

_TRUE: Tree = ("value", True)
_FALSE: Tree = ("value", False)
_ONE = Polynomial({(): 1})
_JOINED = ("and", "or", "not")
_ORDERED = {"<": (0, 1, False), ">=": (0, 1, True), ">": (1, 0, False), "<=": (1, 0, True)}
"""How a comparison is written with ``<``: the operands, and whether the result is negated."""


class PlaceCounter:
    """Counts the places of operations in letters.

    Args:
        letters: the letters of the model and of the run.
        repeat: the number of values of each index.
        decided: the names whose values decide conditions; other names are letters in them.
        computed: the expressions of fields that follow from others.
    """

    def __init__(
        self,
        letters: Letters,
        repeat: Mapping[str, Tree],
        decided: Mapping[str, Any],
        computed: Mapping[str, Tree],
    ) -> None:
        self._letters, self._repeat = letters, repeat
        self._decided, self._computed = decided, computed
        self.lists: dict[str, Tree] = {}
        """The lists with an item for each layer that conditions depend on, with their length."""

    def places(self, entry: OperationTemplate) -> Polynomial:
        """Return the number of places of an operation."""
        loops = {index: self._repeat[index] for index in indices_in(entry.path)}
        if entry.when is None:
            return self._every(loops)
        return self._over(self._plain(settled(entry.when, self._decided), loops), loops)

    def _every(self, loops: Mapping[str, Tree]) -> Polynomial:
        return prod(map(self._letters.of, loops.values()), start=_ONE)

    def _over(self, condition: Tree, loops: Mapping[str, Tree]) -> Polynomial:
        """Return the number of places where a condition holds, by the cases of its sizes."""
        atom = next(_of_sizes(condition, loops), None)
        if atom is None:
            return self._of_indices(condition, loops)
        cases = []
        for value in (_TRUE, _FALSE):
            case = settled(_with_value(condition, atom, value), {})
            cases.append(self._over(case, loops))
        holds, fails = cases
        indicator = Polynomial.whole(("if", _readable(atom), ("value", 1), ("value", 0)))
        return fails + indicator * (holds - fails)

    def _of_indices(self, condition: Tree, loops: Mapping[str, Tree]) -> Polynomial:
        """Return the number of places where a condition on indices holds."""
        kind, *operands = condition
        if kind == "value":
            return self._every(loops) * int(bool(operands[0]))
        if kind == "not":
            return self._every(loops) - self._of_indices(operands[0], loops)
        decisive = {index: loops[index] for index in loops if index in names_in(condition)}
        others = {index: loops[index] for index in loops if index not in decisive}
        number = self._letters.number(decisive, [condition], [])
        if number is None:
            raise WeighbridgeError(
                "a condition on its layers is too long for a formula",
                hint="`weighbridge cost` gives the numbers",
            )
        return number * self._every(others)

    def _plain(self, tree: Tree, loops: Mapping[str, Tree]) -> Tree:
        """Return a condition in which the same comparison is always written the same way."""
        kind, *operands = tree
        if kind in _JOINED:
            return settled((kind, *[self._plain(operand, loops) for operand in operands]), {})
        if kind in ("==", "!=") and operands[0][0] == "[]":
            plain = self._of_kind(operands, loops)
            return plain if kind == "==" else settled(("not", plain), {})
        if kind in _ORDERED and not uses(tree, loops):
            if any(map(self._is_null, operands)):  # then no place exists that asks for it
                return _FALSE
            first, second, is_negated = _ORDERED[kind]
            sides = [self._letters.of(operand).tree() for operand in operands]
            plain = ("<", sides[first], sides[second])
            return ("not", plain) if is_negated else plain
        return tree

    def _is_null(self, tree: Tree) -> bool:
        is_name = tree[0] == "name" and tree[1] in self._decided
        return tree == ("value", None) or (is_name and self._decided[tree[1]] is None)

    def _of_kind(self, operands: list[Tree], loops: Mapping[str, Tree]) -> Tree:
        """Return the condition that a layer is of a kind, with one kind to ask for of two."""
        (_, listed, index), wanted = operands
        kinds = self._kinds(listed, index, loops)
        if wanted not in kinds or listed[0] != "name":
            return ("==", *operands) if not kinds else _FALSE
        if len(kinds) == 1:
            return _TRUE
        if len(kinds) == 2 and wanted != kinds[0]:
            return ("not", ("==", operands[0], kinds[0]))
        return ("==", *operands)

    def _kinds(self, listed: Tree, index: Tree, loops: Mapping[str, Tree]) -> list[Tree]:
        """Return the values that a list of texts may have, none if they are not known."""
        name = listed[1]
        if listed[0] != "name" or index[0] != "name" or index[1] not in loops:
            return []
        self.lists[name] = loops[index[1]]
        values: set[Tree] = set()
        if name in self._computed and self._computed[name][0] == "for":
            values.update(_results(settled(self._computed[name][-1], self._decided)))
        elif isinstance(self._decided.get(name), tuple | list):
            values.update(("value", item) for item in self._decided[name])
        if any(value[0] != "value" for value in values):
            return []
        return sorted(values, key=str)


def _of_sizes(tree: Tree, loops: Mapping[str, Tree]) -> Iterator[Tree]:
    """Yield the parts of a condition that depend on sizes only."""
    kind, *operands = tree
    if kind in _JOINED:
        for operand in operands:
            yield from _of_sizes(operand, loops)
    elif kind != "value" and not uses(tree, loops):
        yield tree


def _with_value(tree: Tree, part: Tree, value: Tree) -> Tree:
    """Return a condition with a value in place of one of its parts."""
    if tree == part:
        return value
    kind, *operands = tree
    if kind not in _JOINED:
        return tree
    return (kind, *[_with_value(operand, part, value) for operand in operands])


def _results(tree: Tree) -> Iterator[Tree]:
    """Yield the possible results of an expression with choices."""
    if tree[0] == "if":
        yield from _results(tree[2])
        yield from _results(tree[3])
    else:
        yield tree


def _readable(condition: Tree) -> Tree:
    """Return ``batch > 1`` in place of ``1 < batch``."""
    kind, *operands = condition
    if kind == "<" and operands[0][0] == "value":
        return (">", operands[1], operands[0])
    return condition


# Minima


class _Comparison(NamedTuple):
    """An indicator of ``lower < upper``, with both sides as polynomials and as a tree."""

    factor: str
    lower: Polynomial
    upper: Polynomial
    least: Polynomial


def with_minima(formula: Polynomial, letters: Letters) -> Polynomial:
    """Return a formula with minima in place of indicators, where the terms of both cases allow it.

    ``(1 if a < b else 0) * (a - b)`` is ``min(a, b) - b``.

    Example:
        >>> from weighbridge.ledger.letters import Letters
        >>> from weighbridge.blueprint.schema import load
        >>> letters = Letters(load("llama"), {"context": 9, "window": 4})
        >>> inside = Polynomial.of("1 if context < window else 0")
        >>> context, window = map(Polynomial.of, ("context", "window"))
        >>> with_minima(inside * context + (1 - inside) * window, letters)
        Polynomial('min(context, window)')
        >>> with_minima(Polynomial.of("1 if images > 0 else 0") * Polynomial.of("images"), letters)
        Polynomial('images')
    """
    factors = {factor for monomial in formula.terms for factor, _ in monomial}
    for factor in sorted(factors):
        tree = parse(factor)
        if is_indicator(tree) and tree[1][0] in ("<", ">"):
            formula = _with_minimum(formula, _comparison(factor, tree[1], letters))
    return formula


def _comparison(factor: str, condition: Tree, letters: Letters) -> _Comparison:
    kind, *sides = condition
    lower, upper = sides if kind == "<" else sides[::-1]
    least = Polynomial.whole(("min", lower, upper))
    if lower == ("value", 1):  # which is the least size of a run
        least = _ONE
    elif lower == ("value", 0) and upper[0] == "name":  # such as images, of which there may be none
        least = Polynomial({})
    return _Comparison(factor, letters.of(lower), letters.of(upper), least)


def _with_minimum(formula: Polynomial, comparison: _Comparison) -> Polynomial:
    inside, rest = dict[Monomial, int](), dict[Monomial, int]()
    for monomial, coefficient in formula.terms.items():
        others = tuple(power for power in monomial if power[0] != comparison.factor)
        chosen = rest if len(others) == len(monomial) else inside
        chosen[others] = chosen.get(others, 0) + coefficient
    quotient = _quotient(Polynomial(inside), comparison.lower - comparison.upper)
    if quotient is None:
        return formula
    return Polynomial(rest) + quotient * (comparison.least - comparison.upper)


def _quotient(dividend: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """Return the quotient of a division without a remainder; None if it leaves one.

    The divisor must be a name plus or minus something without this name.
    """
    for monomial, sign in divisor.terms.items():
        if len(monomial) != 1 or monomial[0][1] != 1 or abs(sign) != 1:
            continue
        name = monomial[0][0]
        root = Polynomial({monomial: 1}) - divisor * sign
        if name in root.fields():
            continue
        quotient, carried = Polynomial({}), Polynomial({})
        coefficients = _by_power(dividend, name)
        for power in range(max(coefficients, default=0), -1, -1):
            carried = carried * root + coefficients.get(power, 0)
            if power:
                quotient += carried * Polynomial.of(name) ** (power - 1)
        return quotient * sign if not carried.terms else None
    return None


def _by_power(formula: Polynomial, name: str) -> dict[int, Polynomial]:
    """Return the coefficient of each power of a name."""
    coefficients: dict[int, Polynomial] = {}
    for monomial, coefficient in formula.terms.items():
        power = dict(monomial).get(name, 0)
        rest = tuple(factor for factor in monomial if factor[0] != name)
        term = Polynomial({rest: coefficient})
        coefficients[power] = coefficients.get(power, Polynomial({})) + term
    return coefficients
