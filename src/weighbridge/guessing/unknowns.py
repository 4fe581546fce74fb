"""Infers unknown fields from the known result of an expression.

A *cell* is one value to infer: a field, ``("hidden_size",)``, an item of a list, ``("depths", 2)``,
the length of a list, ``("depths", "len")``, or whether a list contains something,
``("moe_layers", "in", 3)``. A list with a known item is not null, which ``("depths", "given")``
records.

`expr.fold` evaluates expressions with special operators: an operator on a cell without a value
returns an `Open` piece. `implied` inverts that piece: ``3 * width = 96`` implies ``width = 32``.
"""

from __future__ import annotations

import math
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import NUMBERS, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree

    Consequences = Iterator[tuple[Any, Any, bool]]

Cell = tuple[Any, ...]

LENGTH, HOLDS, GIVEN = "len", "in", "given"  # the second part of a cell

_MOST_DIVISORS = 200  # each is tried; more would cost more than they help
_TOO_LARGE_TO_DIVIDE = 2**31  # divisors are found by trying all numbers up to the square root
_LARGEST_LOGARITHM = 64  # no size needs more bits


class Open(NamedTuple):
    """A piece of an expression without a value yet: an operator and its operands, or a cell.

    A cell's ``kind`` is ``"cell"``, and its ``operands`` are the cell itself.
    """

    kind: str
    operands: tuple[Any, ...]


class Impossible(Exception):  # noqa: N818  # not an error, but the result of a try
    """A value contradicts an equation."""


# Expressions with cells in them


def partly(tree: Tree, indices: Mapping[str, int], known: Mapping[Cell, Any]) -> Any:
    """Return the value of a tree, or an `Open` piece where it depends on unknown cells.

    Raises:
        Impossible: the tree has no value for these values of the cells.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> partly(parse("depths[i] * 2"), {"i": 1}, {("depths", 1): 4})
        8
        >>> partly(parse("3 * width"), {}, {})
        Open(kind='*', operands=(3, Open(kind='cell', operands=('width',))))
    """
    has_unknown = False

    def name(leaf: str) -> Any:
        nonlocal has_unknown
        if leaf in indices:
            return indices[leaf]
        if (leaf,) in known:
            return known[leaf,]
        has_unknown = True
        return Open("cell", (leaf,))

    try:
        return fold(tree, name, _unchanged, _Partly(known))
    except (
        ArithmeticError,
        AttributeError,
        IndexError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        if has_unknown:
            return Open("unclear", ())
        raise Impossible from error


def _unchanged(value: Any) -> Any:
    return value


def _plain(kind: str, *operands: Any) -> Any:
    """Apply an operator of `expr.NUMBERS` if all its operands have values."""
    for operand in operands:
        if is_open(operand):
            return Open(kind, operands)
    return NUMBERS[kind](*operands)


_PLAIN: dict[str, Callable[..., Any]] = {kind: partial(_plain, kind) for kind in NUMBERS}
_PLAIN["list"] = lambda *items: list(items)


class _Partly(dict[str, "Callable[..., Any]"]):
    """Operators that leave a piece open if it has no value yet."""

    def __init__(self, known: Mapping[Cell, Any]) -> None:
        super().__init__()
        self.known = known

    def __missing__(self, kind: str) -> Callable[..., Any]:
        method = _METHODS.get(kind)
        if method is None:
            return _PLAIN[kind]
        return getattr(self, method)  # type: ignore[no-any-return]

    def equal(self, left: Any, right: Any) -> Any:
        if (left is None and self.is_given(right)) or (right is None and self.is_given(left)):
            return False
        return _plain("==", left, right)

    def is_given(self, value: Any) -> bool:
        """Return whether an open value is known not to be null, because an item of it is known."""
        return isinstance(value, Open) and bool(self.known.get((*value.operands[:1], GIVEN)))

    def unequal(self, left: Any, right: Any) -> Any:
        if self.equal(left, right) is False:
            return True
        return _plain("!=", left, right)

    def cell(self, *cell: Any) -> Any:
        if cell in self.known:
            return self.known[cell]
        return Open("cell", cell)

    def item(self, container: Any, index: Any) -> Any:
        if isinstance(index, Open):
            return Open("[]", (container, index))
        if not isinstance(container, Open):
            return NUMBERS["[]"](container, index)
        if container.kind == "slice" and index >= 0:
            whole, start = container.operands
            return self.item(whole, start + index)
        if container.kind not in ("cell", "slice"):
            return Open("[]", (container, index))
        if type(index) is int and index < 0:
            return self.item_from_end(container, index)
        return self.cell(*container.operands, index)

    def item_from_end(self, container: Open, index: int) -> Any:
        length = self.length(container)
        if isinstance(length, Open):
            return Open("last", (length,))
        return self.item(container, length + index)

    def length(self, container: Any) -> Any:
        if not isinstance(container, Open):
            return len(container)
        if container.kind == "slice":
            whole, start = container.operands
            return _plain("-", self.length(whole), start)
        if container.kind == "cell":
            return self.cell(*container.operands, LENGTH)
        return Open("len", (container,))

    def holds(self, item: Any, container: Any) -> Any:
        if isinstance(container, Open) and container.kind == "cell" and not isinstance(item, Open):
            return self.cell(*container.operands, HOLDS, item)
        return _plain("in", item, container)

    def lacks(self, item: Any, container: Any) -> Any:
        return _plain("not", self.holds(item, container))

    def slice(self, container: Any, start: Any, stop: Any) -> Any:
        start_or_zero = start or 0
        if (
            isinstance(container, Open)
            and container.kind == "cell"
            and stop is None
            and start_or_zero >= 0
        ):
            return Open("slice", (container, start_or_zero))
        return _plain("[:]", container, start, stop)

    def sum(self, items: Any) -> Any:
        if isinstance(items, Open):
            return Open("sum", (items,))
        return reduce(_PLAIN["+"], items, 0)

    def loop(self, _: str, rounds: Any, item_at: Callable[[Any], Any]) -> Any:
        if isinstance(rounds, Open):
            return Open("for", (rounds,))
        return [item_at(index) for index in range(rounds)]

    def count(self, index: str, rounds: Any, holds_at: Callable[[Any], Any]) -> Any:
        truths = self.loop(index, rounds, holds_at)
        if is_open(truths):
            return Open("count", (truths,))
        return sum(truths)


_METHODS = {
    "==": "equal",
    "!=": "unequal",
    "[]": "item",
    "len": "length",
    "in": "holds",
    "not in": "lacks",
    "sum": "sum",
    "[:]": "slice",
    "for": "loop",
    "count": "count",
}


def is_open(value: Any) -> bool:
    """Return whether a value or one of its items has no value yet."""
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


# What follows from the value of an open piece


def implied(value: Any, target: Any, *, sure: bool = True) -> Iterator[tuple[Cell, Any, bool]]:
    """Yield the values of cells for which an open piece equals ``target``, and their certainty.

    Raises:
        Impossible: the piece cannot equal the target.

    Example:
        >>> list(implied(Open("*", (3, Open("cell", ("width",)))), 96))
        [(('width',), 32, True)]
        >>> list(implied(Open("//", (Open("cell", ("width",)), 2)), 5))
        [(('width',), 10, False), (('width',), 11, False)]
    """
    if not isinstance(value, Open):
        return
    if value.kind == "cell":
        yield value.operands, target, sure
        return
    if value.kind not in _INVERSES:
        return
    try:
        consequences = list(_INVERSES[value.kind](value.operands, target))
    except (ArithmeticError, TypeError, ValueError):  # no size has the type of the target
        return
    for operand, operand_target, certain in consequences:
        try:
            yield from implied(operand, operand_target, sure=sure and certain)
        except Impossible:
            if certain:
                raise


# Each inverse yields an operand, a value that it may have, and whether that is certain.


def _invert_sum(operands: Sequence[Any], target: Any) -> Consequences:
    left, right = operands
    if not is_open(right):
        yield left, target - right, True
    elif not is_open(left):
        yield right, target - left, True


def _invert_difference(operands: Sequence[Any], target: Any) -> Consequences:
    left, right = operands
    if not is_open(right):
        yield left, target + right, True
    elif not is_open(left):
        yield right, left - target, True


def _invert_product(operands: Sequence[Any], target: Any) -> Consequences:
    left, right = operands
    if is_open(left) and left == right:
        yield from _invert_power((left, 2), target)
    elif is_open(left) and is_open(right):
        for divisor in _divisors(target):
            yield left, divisor, False
            yield right, divisor, False
    elif is_open(left):
        yield from _invert_multiple(left, right, target)
    else:
        yield from _invert_multiple(right, left, target)


def _invert_multiple(piece: Any, factor: Any, target: Any) -> Consequences:
    if factor == 0:
        if target != 0:
            raise Impossible
    elif type(factor) is int and type(target) is int:
        if target % factor:
            raise Impossible
        yield piece, target // factor, True
    else:
        yield piece, target / factor, False
        yield piece, round(target / factor), False


@cache
def _divisors(number: Any) -> list[int]:
    """Return the smallest divisors of an integer, in order; none if it is too large to try."""
    if type(number) is not int or not 0 < number < _TOO_LARGE_TO_DIVIDE:
        return []
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})[:_MOST_DIVISORS]


def _invert_quotient(operands: Sequence[Any], target: Any) -> Consequences:
    """Yield the ends of the range of operands that are rounded down to the target."""
    left, right = operands
    if is_open(left) and not is_open(right) and right:
        yield left, target * right, right == 1
        yield left, target * right + right - 1, right == 1
    elif not is_open(left) and target:
        yield right, left // target, False
        yield right, left // (target + 1) + 1, False


def _invert_fraction(operands: Sequence[Any], target: Any) -> Consequences:
    left, right = operands
    if not is_open(right):
        yield left, _as_integer(target * right), True
    elif not is_open(left) and target:
        yield right, _as_integer(left / target), True


def _as_integer(number: Any) -> Any:
    """Return a float without a fraction as an integer, and anything else unchanged."""
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number


def _invert_power(operands: Sequence[Any], target: Any) -> Consequences:
    base, exponent = operands
    if type(target) is not int or target < 1:
        return
    if is_open(base) and type(exponent) is int and exponent > 0:
        root = round(target ** (1 / exponent))
        if root**exponent != target:
            raise Impossible
        yield base, root, True
    elif is_open(exponent) and type(base) is int and base > 1:
        logarithm = round(math.log(target, base))
        if base**logarithm != target:
            raise Impossible
        yield exponent, logarithm, True


def _invert_remainder(operands: Sequence[Any], target: Any) -> Consequences:
    left, right = operands
    if type(left) is int:
        for divisor in _divisors(abs(left - target)):
            yield right, divisor, False
    elif not is_open(right):
        yield left, target, False


def _invert_extreme(operands: Sequence[Any], target: Any) -> Consequences:
    pieces = [operand for operand in operands if is_open(operand)]
    is_settled = any(operand == target for operand in operands if not is_open(operand))
    if not is_settled and len(pieces) == 1 and len(operands) > 1:
        yield pieces[0], target, True
    for piece in pieces:
        yield piece, target, False


def _invert_choice(operands: Sequence[Any], target: Any) -> Consequences:
    truth, then, otherwise = operands
    may_be_then = is_open(then) or same(then, target)
    may_be_otherwise = is_open(otherwise) or same(otherwise, target)
    if may_be_then and may_be_otherwise:
        yield truth, True, False
        yield truth, False, False
        yield then, target, False
        yield otherwise, target, False
    elif may_be_then:
        yield truth, True, True
        yield then, target, True
    elif may_be_otherwise:
        yield truth, False, True
        yield otherwise, target, True
    else:
        raise Impossible


def _invert_and(operands: Sequence[Any], target: Any) -> Consequences:
    return _invert_junction(operands, target, settling=False)


def _invert_or(operands: Sequence[Any], target: Any) -> Consequences:
    return _invert_junction(operands, target, settling=True)


def _invert_junction(operands: Sequence[Any], target: Any, *, settling: bool) -> Consequences:
    """Invert ``and``, which one false side decides, or ``or``, which one true side decides."""
    pieces = [operand for operand in operands if is_open(operand)]
    if target is not settling:
        for piece in pieces:
            yield piece, target, True
    elif not any(operand == settling for operand in operands if not is_open(operand)):
        for piece in pieces:
            yield piece, settling, len(pieces) == 1


def _invert_equality(operands: Sequence[Any], target: Any) -> Consequences:
    left, right = operands
    if is_open(left) and is_open(right):
        return
    piece, constant = _open_first(left, right)
    if target:
        yield piece, constant, True
    elif type(constant) is bool:
        yield piece, not constant, True
    elif type(constant) is int:
        for step in (1, -1, 2):
            yield piece, constant + step, False


def _invert_inequality(operands: Sequence[Any], target: Any) -> Consequences:
    return _invert_equality(operands, not target)


def _invert_order(operands: Sequence[Any], _: Any) -> Consequences:
    """Yield the numbers around the bound, on both sides."""
    piece, bound = _open_first(*operands)
    if type(bound) is int:
        for step in (0, 1, -1):
            yield piece, bound + step, False


def _open_first(left: Any, right: Any) -> tuple[Any, Any]:
    if is_open(left):
        return left, right
    return right, left


def _invert_membership(operands: Sequence[Any], target: Any) -> Consequences:
    item, container = operands
    if target and not is_open(container):
        for value in container:
            yield item, value, len(container) == 1


def _invert_rounding(operands: Sequence[Any], target: Any) -> Consequences:
    yield operands[0], target, False


def _invert_negation(operands: Sequence[Any], target: Any) -> Consequences:
    yield operands[0], -target, True


def _invert_not(operands: Sequence[Any], target: Any) -> Consequences:
    yield operands[0], not target, True


def _invert_square_root(operands: Sequence[Any], target: Any) -> Consequences:
    yield operands[0], target * target, True


def _invert_logarithm(operands: Sequence[Any], target: Any) -> Consequences:
    if 0 <= target < _LARGEST_LOGARITHM:
        yield operands[0], 2**target, True
    else:
        yield operands[0], 0, True  # no field with a logarithm may be 0


_INVERSES: dict[str, Callable[[Sequence[Any], Any], Consequences]] = {
    "+": _invert_sum,
    "-": _invert_difference,
    "*": _invert_product,
    "//": _invert_quotient,
    "/": _invert_fraction,
    "**": _invert_power,
    "%": _invert_remainder,
    "max": _invert_extreme,
    "min": _invert_extreme,
    "if": _invert_choice,
    "and": _invert_and,
    "or": _invert_or,
    "==": _invert_equality,
    "!=": _invert_inequality,
    "<": _invert_order,
    "<=": _invert_order,
    ">": _invert_order,
    ">=": _invert_order,
    "in": _invert_membership,
    "neg": _invert_negation,
    "not": _invert_not,
    "sqrt": _invert_square_root,
    "log2": _invert_logarithm,
    "int": _invert_rounding,
    "round": _invert_rounding,
    "floor": _invert_rounding,
    "ceil": _invert_rounding,
}


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; true is not 1."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return bool(one == other) and (type(one) is bool) == (type(other) is bool)
