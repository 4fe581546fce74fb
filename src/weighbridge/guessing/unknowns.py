"""Expressions of which some names have no value yet, and what follows for those from what one came to.

A *cell* is one value to find: a field, ``("hidden_size",)``, an item of a list, ``("depths", 2)``,
a list's length, ``("depths", "len")``, or whether it holds something, ``("moe_layers", "in", 3)``;
what is known of a list's items says that the list is not null. Expressions are read by `expr.fold`
as everywhere; here an operator that meets a cell without a value leaves an `Open` piece behind,
which is then turned round: of ``3 * width = 96`` follows ``width = 32``.
"""

from __future__ import annotations

import math
import operator
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import NUMBERS, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree

    Turned = Iterator[tuple[Any, Any, bool]]

Cell = tuple[Any, ...]

LENGTH, HOLDS, GIVEN = "len", "in", "given"
_MOST_DIVISORS = 200


class Open(NamedTuple):
    """A piece of an expression that has no value yet: an operator and its operands, or ``"cell"`` and a cell."""

    kind: str
    operands: tuple[Any, ...]


class Impossible(Exception):  # noqa: N818  # no error: the answer to a try
    """What was tried contradicts an equation."""


# Expressions with cells in them


def partly(tree: Tree, indices: Mapping[str, int], known: Mapping[Cell, Any]) -> Any:
    """Return what a tree comes to: a value, or an `Open` piece where cells are not known.

    Raises:
        Impossible: at these values it comes to nothing.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> partly(parse("depths[i] * 2"), {"i": 1}, {("depths", 1): 4})
        8
        >>> partly(parse("3 * width"), {}, {})
        Open(kind='*', operands=(3, Open(kind='cell', operands=('width',))))
    """
    unknown = False

    def name(leaf: str) -> Any:
        nonlocal unknown
        if leaf in indices:
            return indices[leaf]
        value = known.get((leaf,), _NONE)
        if value is _NONE:
            unknown = True
            return Open("cell", (leaf,))
        return value

    try:
        return fold(tree, name, _itself, _Partly(known))
    except (
        ArithmeticError,
        AttributeError,
        IndexError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        if unknown:
            return Open("unclear", ())
        raise Impossible from error


_NONE = object()


def _itself(value: Any) -> Any:
    return value


def _plain(kind: str, *operands: Any) -> Any:
    for operand in operands:
        if is_open(operand):
            return Open(kind, operands)
    return NUMBERS[kind](*operands)


_PLAIN: dict[str, Callable[..., Any]] = {kind: partial(_plain, kind) for kind in NUMBERS}
_PLAIN["list"] = lambda *items: list(items)


class _Partly(dict[str, "Callable[..., Any]"]):
    """The meaning of operators under which what cannot be worked out stays open."""

    def __init__(self, known: Mapping[Cell, Any]) -> None:
        super().__init__()
        self.known = known

    def __missing__(self, kind: str) -> Callable[..., Any]:
        own = _OWN.get(kind)
        return getattr(self, own) if own else _PLAIN[kind]

    def equal(self, left: Any, right: Any) -> Any:
        for one, other in ((left, right), (right, left)):
            if (
                one is None
                and isinstance(other, Open)
                and self.known.get((*other.operands[:1], GIVEN))
            ):
                return False
        return _plain("==", left, right)

    def unequal(self, left: Any, right: Any) -> Any:
        equal = self.equal(left, right)
        return not equal if equal is False else _plain("!=", left, right)

    def cell(self, *cell: Any) -> Any:
        value = self.known.get(cell, _NONE)
        return Open("cell", cell) if value is _NONE else value

    def item(self, container: Any, index: Any) -> Any:
        if isinstance(index, Open):
            return Open("[]", (container, index))
        if not isinstance(container, Open):
            return NUMBERS["[]"](container, index)
        if container.kind == "slice" and index >= 0:
            return self.item(container.operands[0], container.operands[1] + index)
        if container.kind not in ("cell", "slice"):
            return Open("[]", (container, index))
        if type(index) is int and index < 0:
            length = self.length(container)
            return (
                Open("last", (length,))
                if isinstance(length, Open)
                else self.item(container, length + index)
            )
        return self.cell(*container.operands, index)

    def length(self, container: Any) -> Any:
        if not isinstance(container, Open):
            return len(container)
        if container.kind == "slice":
            length = self.length(container.operands[0])
            return _plain("-", length, container.operands[1])
        return (
            self.cell(*container.operands, LENGTH)
            if container.kind == "cell"
            else Open("len", (container,))
        )

    def holds(self, item: Any, container: Any) -> Any:
        if isinstance(container, Open) and container.kind == "cell" and not isinstance(item, Open):
            return self.cell(*container.operands, HOLDS, item)
        return _plain("in", item, container)

    def lacks(self, item: Any, container: Any) -> Any:
        return _plain("not", self.holds(item, container))

    def slice(self, container: Any, start: Any, stop: Any) -> Any:
        if (
            isinstance(container, Open)
            and container.kind == "cell"
            and stop is None
            and (start or 0) >= 0
        ):
            return Open("slice", (container, start or 0))
        return _plain("[:]", container, start, stop)

    def sum(self, items: Any) -> Any:
        return Open("sum", (items,)) if isinstance(items, Open) else reduce(_PLAIN["+"], items, 0)

    def each(self, _: str, rounds: Any, each: Callable[[Any], Any]) -> Any:
        return (
            Open("for", (rounds,))
            if isinstance(rounds, Open)
            else [each(index) for index in range(rounds)]
        )

    def count(self, index: str, rounds: Any, holds: Callable[[Any], Any]) -> Any:
        found = self.each(index, rounds, holds)
        if is_open(found):
            return Open("count", (found,))
        return sum(found)


_OWN = {
    "==": "equal",
    "!=": "unequal",
    "[]": "item",
    "len": "length",
    "in": "holds",
    "not in": "lacks",
    "sum": "sum",
    "[:]": "slice",
    "for": "each",
    "count": "count",
}


def is_open(value: Any) -> bool:
    """Whether a value, or an item of it, has no value yet."""
    return isinstance(value, Open) or (isinstance(value, list) and any(map(is_open, value)))


def cells_in(value: Any) -> Iterator[Cell]:
    """Yield the cells that an open piece waits for.

    Example:
        >>> list(cells_in(Open("*", (3, Open("cell", ("width",))))))
        [('width',)]
    """
    if isinstance(value, Open) and value.kind == "cell":
        yield value.operands
    elif isinstance(value, Open):
        for operand in value.operands:
            yield from cells_in(operand)
    elif isinstance(value, list):
        for item in value:
            yield from cells_in(item)


# What follows from what an open piece came to


def implied(value: Any, target: Any, *, sure: bool = True) -> Iterator[tuple[Cell, Any, bool]]:
    """Yield the cells that have a value where an open piece came to ``target``: one that must be, or that may be.

    Raises:
        Impossible: it cannot come to that.

    Example:
        >>> list(implied(Open("*", (3, Open("cell", ("width",)))), 96))
        [(('width',), 32, True)]
        >>> list(implied(Open("//", (Open("cell", ("width",)), 2)), 5))
        [(('width',), 10, False), (('width',), 11, False)]
    """
    if isinstance(value, Open) and value.kind == "cell":
        yield value.operands, target, sure
    elif isinstance(value, Open) and value.kind in _TURNED:
        try:
            turned = list(_TURNED[value.kind](value.operands, target))
        except (ArithmeticError, TypeError, ValueError):  # of numbers that no size comes to
            return
        for operand, came_to, must in turned:
            try:
                yield from implied(operand, came_to, sure=sure and must)
            except Impossible:
                if must:
                    raise


def _turn_sum(operands: Sequence[Any], target: Any) -> Turned:
    left, right = operands
    if not (is_open(left) and is_open(right)):
        yield (left, target - right, True) if is_open(left) else (right, target - left, True)


def _turn_difference(operands: Sequence[Any], target: Any) -> Turned:
    left, right = operands
    if not (is_open(left) and is_open(right)):
        yield (left, target + right, True) if is_open(left) else (right, left - target, True)


def _turn_product(operands: Sequence[Any], target: Any) -> Turned:
    left, right = operands
    if is_open(left) and is_open(right):
        for divisor in _divisors(target):
            yield left, divisor, False
            yield right, divisor, False
        return
    piece, by = (left, right) if is_open(left) else (right, left)
    if by == 0:
        if target != 0:
            raise Impossible
    elif type(by) is int and type(target) is int:
        if target % by:
            raise Impossible
        yield piece, target // by, True
    else:
        yield piece, target / by, False
        yield piece, round(target / by), False


@cache
def _divisors(number: Any) -> list[int]:
    """Return the divisors of an integer, smaller and larger halves in turn; none of what has too many digits."""
    if type(number) is not int or not 0 < number < 2**31:
        return []
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})[:_MOST_DIVISORS]


def _turn_quotient(operands: Sequence[Any], target: Any) -> Turned:
    left, right = operands
    if is_open(left) and not is_open(right) and right:
        yield left, target * right, right == 1
        yield left, target * right + right - 1, right == 1
    elif not is_open(left) and target:
        yield right, left // target, False
        yield right, left // (target + 1) + 1, False


def _turn_fraction(operands: Sequence[Any], target: Any) -> Turned:
    left, right = operands
    if is_open(left) and not is_open(right):
        yield left, _whole(target * right), True
    elif not is_open(left) and target:
        yield right, _whole(left / target), True


def _whole(number: Any) -> Any:
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _turn_power(operands: Sequence[Any], target: Any) -> Turned:
    left, right = operands
    if type(target) is not int or target < 1 or (is_open(left) and is_open(right)):
        return
    if is_open(left) and type(right) is int and right > 0:
        root = round(target ** (1 / right))
        if root**right != target:
            raise Impossible
        yield left, root, True
    elif is_open(right) and type(left) is int and left > 1:
        exponent = round(math.log(target, left))
        if left**exponent != target:
            raise Impossible
        yield right, exponent, True


def _turn_remainder(operands: Sequence[Any], target: Any) -> Turned:
    left, right = operands
    if not is_open(left) and type(left) is int:
        for divisor in _divisors(abs(left - target)):
            yield right, divisor, False
    elif not is_open(right):
        yield left, target, False


def _turn_extreme(operands: Sequence[Any], target: Any) -> Turned:
    pieces = [operand for operand in operands if is_open(operand)]
    settled = any(operand == target for operand in operands if not is_open(operand))
    if not settled and len(pieces) < len(operands) and len(pieces) == 1:
        yield pieces[0], target, True
    yield from ((piece, target, False) for piece in pieces)


def _turn_choice(operands: Sequence[Any], target: Any) -> Turned:
    truth, then, otherwise = operands
    may = [is_open(side) or same(side, target) for side in (then, otherwise)]
    if not any(may):
        raise Impossible
    if not all(may):
        yield truth, may[0], True
        yield then if may[0] else otherwise, target, True
    else:
        yield truth, True, False
        yield truth, False, False
        yield then, target, False
        yield otherwise, target, False


def _joined(*, settles: bool) -> Callable[[Sequence[Any], Any], Turned]:
    """Return how ``and`` and ``or`` are turned: the one is false, the other true, if one side ``settles`` it."""

    def turn(operands: Sequence[Any], target: Any) -> Turned:
        pieces = [operand for operand in operands if is_open(operand)]
        if target is not settles:
            yield from ((piece, target, True) for piece in pieces)
        elif settles not in [operand for operand in operands if not is_open(operand)]:
            yield from ((piece, settles, len(pieces) == 1) for piece in pieces)

    return turn


def _turn_equality(operands: Sequence[Any], target: Any) -> Turned:
    left, right = operands
    if is_open(left) and is_open(right):
        return
    piece, other = (left, right) if is_open(left) else (right, left)
    if target:
        yield piece, other, True
    elif type(other) is bool:
        yield piece, not other, True
    elif type(other) is int:
        yield from ((piece, other + step, False) for step in (1, -1, 2))


def _turn_inequality(operands: Sequence[Any], target: Any) -> Turned:
    return _turn_equality(operands, not target)


def _turn_order(operands: Sequence[Any], _: Any) -> Turned:
    left, right = operands
    if is_open(left) is not is_open(right):
        piece, other = (left, right) if is_open(left) else (right, left)
        if type(other) is int:
            yield from ((piece, other + step, False) for step in (0, 1, -1))


def _turn_membership(operands: Sequence[Any], target: Any) -> Turned:
    item, container = operands
    if target and not is_open(container):
        yield from ((item, value, len(container) == 1) for value in container)


def _through(
    come_from: Callable[[Any], Any] = lambda target: target, *, sure: bool = False
) -> Callable[..., Turned]:
    """Return how an operator of one operand is turned."""

    def turn(operands: Sequence[Any], target: Any) -> Turned:
        yield operands[0], come_from(target), sure

    return turn


_TURNED: dict[str, Callable[[Sequence[Any], Any], Turned]] = {
    "+": _turn_sum,
    "-": _turn_difference,
    "*": _turn_product,
    "//": _turn_quotient,
    "/": _turn_fraction,
    "**": _turn_power,
    "%": _turn_remainder,
    "max": _turn_extreme,
    "min": _turn_extreme,
    "if": _turn_choice,
    "and": _joined(settles=False),
    "or": _joined(settles=True),
    "==": _turn_equality,
    "!=": _turn_inequality,
    "in": _turn_membership,
    **dict.fromkeys(("<", "<=", ">", ">="), _turn_order),
    "neg": _through(operator.neg, sure=True),
    "not": _through(operator.not_, sure=True),
    "sqrt": _through(lambda target: target * target, sure=True),
    "log2": _through(lambda target: 2**target if 0 <= target < 64 else 0, sure=True),
    **dict.fromkeys(("int", "round", "floor", "ceil"), _through()),
}


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal; true is not 1."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return bool(one == other) and (type(one) is bool) == (type(other) is bool)
