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
        >>> numbers.expressed((5 * 6**6, 5 * 8**6))[2]
        ('name', 'hidden')
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
        """Return the cheapest product; of equally cheap ones, that of the smallest factors.

        Products of few factors are tried first: those of more factors cost more.
        """
        found: list[tuple[int, tuple[int, ...], int]] = []
        for count in range(_MOST_FACTORS + 1):
            if found and found[0][0] < _cost(1, count):
                break
            for constant, numbers in self._products(values, count):
                smallest_first = tuple(-number for number in numbers)
                found.append((_cost(constant, count), smallest_first, constant))
            found = sorted(found)[:1]
        for _, smallest_first, constant in found:
            return _multiplied(constant, [self._sizes[-number][0] for number in smallest_first])
        return None

    def _products(self, values: Values, count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the constant, and the numbers of the atoms, of every product of so many atoms."""
        stack: list[tuple[Values, tuple[int, ...]]] = [(values, ())]
        while stack:
            rest, numbers = stack.pop()
            if len(numbers) < count:
                start = numbers[-1] if numbers else 0
                stack += [(left, (*numbers, at)) for at, left in self._divisors(rest, start)]
            elif len(set(rest)) == 1:
                yield rest[0], numbers

    def _divisors(self, values: Values, start: int) -> Iterator[tuple[int, Values]]:
        """Yield the numbers of the atoms that divide values, each with the quotients."""
        for number in range(start, len(self._sizes)):
            sizes = self._sizes[number][1]
            if not any(value % size for value, size in zip(values, sizes, strict=True)):
                quotients = (value // size for value, size in zip(values, sizes, strict=True))
                yield number, tuple(quotients)


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
