"""Expresses recorded numbers as products of sizes.

A number is known from several draws. It is the product of sizes that equals it in each of them; of
several such products, the one with the fewest factors.
"""

from __future__ import annotations

from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.expr import evaluate
from weighbridge.errors import ModelError, WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree

    Values = tuple[int, ...]

_MOST_FACTORS = 7
_COST_OF_FACTOR = 10
_COST_OF_OTHER_CONSTANT = 11  # than 1 and 2, so that a size that has this value is preferred
_COST_OF_LARGE = 60
_SMALL = 4  # constants up to this one are usual in code


class Numbers:
    """The expressions of numbers in some draws.

    Example:
        >>> numbers = Numbers([("name", "batch"), ("name", "hidden")],
        ...                   [{"batch": 5, "hidden": 6}, {"batch": 5, "hidden": 8}])
        >>> numbers.expressed((60, 80))
        ('*', ('*', ('value', 2), ('name', 'batch')), ('name', 'hidden'))
    """

    def __init__(self, atoms: Iterable[Tree], draws: Sequence[Mapping[str, Any]]) -> None:
        self._draws = draws
        self._atoms = list(atoms)
        self._known: dict[Values, Tree | None] = {}

    @cached_property
    def _sizes(self) -> list[tuple[Tree, Values]]:
        """The atoms with their values, each value once, largest first."""
        sizes: dict[Values, Tree] = {}
        for tree in self._atoms:
            values = self._values(tree)
            if values is not None and max(values) > 1:
                sizes.setdefault(values, tree)
        return sorted(((tree, values) for values, tree in sizes.items()), key=lambda size: size[1])[
            ::-1
        ]

    def _values(self, tree: Tree) -> Values | None:
        """Return the values of an expression; None if it is no positive integer in each draw."""
        values = []
        for names in self._draws:
            try:
                value = evaluate(tree, names)
            except WeighbridgeError:
                return None
            if type(value) is not int or value < 1:
                return None
            values.append(value)
        return tuple(values)

    def expressed(self, values: Values) -> Tree:
        """Return the simplest product of atoms that has these values.

        Raises:
            ModelError: there is none.
        """
        if values not in self._known:
            self._known[values] = self._simplest(values)
        tree = self._known[values]
        if tree is None:
            shown = " and ".join(map(str, values))
            raise ModelError(f"no product of sizes gives {shown}")
        return tree

    def _simplest(self, values: Values) -> Tree | None:
        best: tuple[int, Tree] | None = None
        stack: list[tuple[Values, int, tuple[Tree, ...]]] = [(values, 0, ())]
        while stack:
            rest, start, factors = stack.pop()
            if len(set(rest)) == 1:
                found = _cost(rest[0], len(factors)), _multiplied(rest[0], factors)
                if best is None or found[0] < best[0]:
                    best = found
            is_dearer = best is not None and _COST_OF_FACTOR * len(factors) >= best[0]
            if len(factors) < _MOST_FACTORS and not is_dearer:
                for number, tree, quotients in self._divisors(rest, start):
                    stack.append((quotients, number, (*factors, tree)))
        return None if best is None else best[1]

    def _divisors(self, values: Values, start: int) -> Iterator[tuple[int, Tree, Values]]:
        """Yield the atoms that divide values, each with its number and the quotients."""
        for number in range(start, len(self._sizes)):
            tree, sizes = self._sizes[number]
            if not any(value % size for value, size in zip(values, sizes, strict=True)):
                quotients = (value // size for value, size in zip(values, sizes, strict=True))
                yield number, tree, tuple(quotients)


def _cost(constant: int, factors: int) -> int:
    cost = _COST_OF_FACTOR * factors + constant.bit_length()
    if constant > _SMALL:
        return cost + _COST_OF_LARGE
    return cost + (_COST_OF_OTHER_CONSTANT if constant > 2 else 0)


def _multiplied(constant: int, factors: Sequence[Tree]) -> Tree:
    ordered = sorted(factors, key=_rank)
    if constant > 1 or not factors:
        ordered.insert(0, ("value", constant))
    return reduce(lambda left, right: ("*", left, right), ordered)


_FIRST = ("batch", "choices", "images", "patches", "sequence", "past", "target")


def _rank(tree: Tree) -> tuple[int, str]:
    """Sizes of the run come first in a product."""
    text = repr(tree)
    places = [place for place, name in enumerate(_FIRST) if repr(name) in text]
    return min(places, default=len(_FIRST)), text
