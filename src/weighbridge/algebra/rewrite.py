"""The expressions of a derivation: evaluated many times, negated and simplified.

Their leaves are names, values, indices in a tensor's name, ``("index", 0)``, and counters of loops
that ran, ``("loop", site, 3)``.
"""

from __future__ import annotations

from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.expr import MOST_ROUNDS, NUMBERS, fold, itself, names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree

LEAVES = ("name", "value", "loop", "index")
NULL: Tree = ("value", None)
TRUE: Tree = ("value", True)
FALSE: Tree = ("value", False)
ZERO: Tree = ("value", 0)
ONE: Tree = ("value", 1)
_WITH_LOOPS = ("for", "count")
_ROUNDS_LEFT = "rounds left"  # no field has a name with a space
_OPPOSITE = {"==": "!=", "<": ">=", "<=": ">", "in": "not in"}
_OPPOSITE |= {after: before for before, after in _OPPOSITE.items()}


def replaced(tree: Tree, leaf: Callable[[Tree], Tree]) -> Tree:
    """Return a tree in which each leaf is replaced by a tree.

    Example:
        >>> replaced(("+", ("name", "a"), ("index", 0)), lambda _: ("value", 1))
        ('+', ('value', 1), ('value', 1))
    """
    if tree[0] in LEAVES:
        return leaf(tree)
    return _with_operands(tree, lambda operand: replaced(operand, leaf))


def _with_operands(tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """Return a tree with its operands changed; the name of a loop's index is kept."""
    kind, *operands = tree
    for position, operand in enumerate(operands):
        if isinstance(operand, tuple):
            operands[position] = change(operand)
    return (kind, *operands)


def leaves(tree: Tree) -> Iterator[Tree]:
    """Yield the leaves of a tree, left to right."""
    if tree[0] in LEAVES:
        yield tree
        return
    for operand in tree[1:]:
        if isinstance(operand, tuple):
            yield from leaves(operand)


def field_names(tree: Tree) -> set[str]:
    """Return the fields in a tree.

    Example:
        >>> field_names(("[]", ("name", "depths"), ("index", 0)))
        {'depths'}
    """

    def field(leaf: Tree) -> Tree:
        return leaf if leaf[0] == "name" else ZERO

    return set(names_in(replaced(tree, field)))


def compiled(tree: Tree) -> Callable[[Mapping[str, Any]], Any]:
    """Return a tree as a function of the values of its names; index 0 has the name ``@0``.

    The function returns what `evaluate` returns. Where that has no value it raises Python's own
    errors: it is called hundreds of thousands of times, so it builds no messages.

    Example:
        >>> compiled(("+", ("name", "width"), ("index", 0)))({"width": 8, "@0": 2})
        10
    """
    known = _COMPILED.get(id(tree))  # by identity: a tree with true equals the same tree with 1
    if known is not None and known[0] is tree:
        return known[1]
    if len(_COMPILED) >= _MOST_COMPILED:
        _COMPILED.clear()
    function = _function_of(tree)
    _COMPILED[id(tree)] = (tree, function)
    return function


_COMPILED: dict[int, tuple[Tree, Callable[[Mapping[str, Any]], Any]]] = {}
_MOST_COMPILED = 50_000  # trees that are kept with their functions


def _evaluable(leaf: Tree) -> Tree:
    if leaf[0] == "index":
        return ("name", f"@{leaf[1]}")
    if leaf[0] == "loop":
        return ("value", leaf[-1])
    return leaf


def _function_of(tree: Tree) -> Callable[[Mapping[str, Any]], Any]:
    """Return a tree as a function that calls those of its operands, as `fold` evaluates them."""
    kind = tree[0]
    if kind in LEAVES:
        leaf, content = _evaluable(tree)
        if leaf == "name":
            return itemgetter(content)
        return lambda _: content
    if kind in _WITH_LOOPS:
        return _loop(tree)
    if kind not in NUMBERS:
        evaluable = replaced(tree, _evaluable)
        return lambda fields: fold(evaluable, fields.__getitem__, itself, NUMBERS)
    operate = NUMBERS[kind]
    operands = [_function_of(operand) for operand in tree[1:]]
    if kind in ("and", "or", "if"):
        return _lazy(kind, operands)
    if len(operands) == 1:
        (only,) = operands
        return lambda fields: operate(only(fields))
    if len(operands) == 2:
        first, second = operands
        return lambda fields: operate(first(fields), second(fields))
    return lambda fields: operate(*[operand(fields) for operand in operands])


def _loop(tree: Tree) -> Callable[[Mapping[str, Any]], Any]:
    """Return a loop, whose body takes its index, and the rounds left, from a copy of the fields."""
    kind, index, *operands = tree
    operate = NUMBERS[kind]
    rounds_of, body_of = map(_function_of, operands)

    def run(fields: Mapping[str, Any]) -> Any:
        rounds = rounds_of(fields)
        most = fields.get(_ROUNDS_LEFT, MOST_ROUNDS)
        if type(rounds) is int and rounds > most:
            raise OverflowError
        inside = {**fields, _ROUNDS_LEFT: most // max(rounds, 1)}

        def body_at(value: Any) -> Any:
            inside[index] = value
            return body_of(inside)

        return operate(index, rounds, body_at)

    return run


def _lazy(
    kind: str, operands: Sequence[Callable[[Mapping[str, Any]], Any]]
) -> Callable[[Mapping[str, Any]], Any]:
    """Return an operator that does not evaluate an operand that cannot matter."""
    first, *others = operands
    operate = NUMBERS[kind]

    def choose(fields: Mapping[str, Any]) -> Any:
        result = first(fields)
        if type(result) is bool:
            if kind == "if":
                return others[not result](fields)
            if result is (kind == "or"):
                return result
        return operate(result, *[operand(fields) for operand in others])

    return choose


def negated(tree: Tree) -> Tree:
    """Return the negation of a condition, pushed as far inwards as possible.

    Example:
        >>> from weighbridge.algebra.expr import parse, source
        >>> source(negated(parse("a < b and not c")))
        'a >= b or c'
    """
    kind, *operands = tree
    if kind in _OPPOSITE:
        return (_OPPOSITE[kind], *operands)
    if kind == "not":
        condition: Tree = operands[0]
        return condition
    if kind in _DUAL:
        return (_DUAL[kind], *map(negated, operands))
    return ("not", tree)


def plain_condition(condition: Tree) -> Tree:
    """Return a condition that is true in the same cases, without a choice between flags.

    Example:
        >>> from weighbridge.algebra.expr import parse, source
        >>> source(plain_condition(parse("false if not a else true")))
        'a'
    """
    kind, *operands = condition
    if kind == "if" and operands[1:] == [TRUE, FALSE]:
        return plain_condition(operands[0])
    if kind == "if" and operands[1:] == [FALSE, TRUE]:
        return negated(plain_condition(operands[0]))
    return condition


def joined(kind: str, conditions: list[Tree]) -> Tree:
    """Return conditions joined by ``and`` or ``or``, without duplicates."""
    tree, *others = dict.fromkeys(conditions)
    for condition in others:
        tree = (kind, tree, condition)
    return tree


def is_whole(tree: Tree) -> bool:
    """Whether a tree's value is certainly an integer if its fields are integers."""
    kind, *operands = tree
    if kind == "value":
        return type(operands[0]) is int
    if kind in _ALWAYS_WHOLE:
        return True
    return kind in _WHOLE_OF_WHOLE and all(map(is_whole, operands))


def simplified(tree: Tree, floats: frozenset[str] = frozenset()) -> Tree:
    """Return a simpler tree with the same value; ``floats`` are the fields that hold fractions.

    Example:
        >>> from weighbridge.algebra.expr import parse, source
        >>> source(simplified(parse("int(a / b) * 1 + 1 + 1")))
        'a // b + 2'
    """
    if tree[0] in LEAVES or len(tree) == 1:
        return tree
    inside = _with_operands(tree, lambda operand: simplified(operand, floats))
    for rule in _RULES:
        shorter = rule(inside, floats)
        if shorter is not None:
            return shorter
    return inside


def _add_constants(tree: Tree, _: frozenset[str]) -> Tree | None:
    """Evaluate an expression without names, and write a + 1 + 1 as a + 2."""
    kind, *operands = tree
    if kind in _WORKED_OUT and all(operand[0] == "value" for operand in operands):
        with suppress(ArithmeticError, TypeError, ValueError):  # without a value it stays
            return ("value", compiled(tree)({}))
    if kind == "+" and operands[0][0] == "+":
        _, first, second = operands[0]
        third = operands[1]
        if _is_whole_constant(second) and _is_whole_constant(third):
            return ("+", first, ("value", second[1] + third[1]))
    return None


def _is_whole_constant(tree: Tree) -> bool:
    return tree[0] == "value" and type(tree[1]) is int


def _drop_neutral(tree: Tree, _: frozenset[str]) -> Tree | None:
    kind, *operands = tree
    remaining: Tree | None = None
    if (kind, operands[-1]) in _NEUTRAL_ON_THE_RIGHT:
        remaining = operands[0]
    elif (kind, operands[0]) in _NEUTRAL_ON_THE_LEFT:
        remaining = operands[1]
    return remaining


def _divide_integers(tree: Tree, floats: frozenset[str]) -> Tree | None:
    """Drop ``int`` where its operand is an integer, and write ``int(a / b)`` as ``a // b``."""

    def is_surely_whole(part: Tree) -> bool:
        return is_whole(part) and field_names(part).isdisjoint(floats)

    kind, operand, *_ = tree
    if kind in _ROUNDING and is_surely_whole(operand):
        whole: Tree = operand
        return whole
    if kind in _ROUNDING_DOWN and operand[0] == "/" and all(map(is_surely_whole, operand[1:])):
        return simplified(("//", *operand[1:]), floats)
    return None


def _simplify_condition(tree: Tree, _: frozenset[str]) -> Tree | None:
    """Push a negation inwards, and write ``a // b * b == a`` as ``a % b == 0``."""
    kind, left, *others = tree
    if kind == "not":
        return negated(left)
    if kind == "!=" and left[0] == "if" and others == [ZERO]:
        condition: Tree = left[1]  # a flag that was used as a number and compared with 0
        return condition
    if kind in ("==", "!=") and left[0] == "*":
        (whole,) = others
        _, quotient, divisor = left
        if quotient == ("//", whole, divisor):
            return (kind, ("%", whole, divisor), ZERO)
    return None


def _which_item(tree: Tree, _: frozenset[str]) -> Tree | None:
    """Write ``["a", "b"][i % 2] == "a"`` as ``i % 2 == 0``."""
    kind, left, *others = tree
    if kind not in ("==", "!=") or left[0] != "[]" or others[0][0] != "value":
        return None
    _, items, at = left
    if items[0] != "list" or at[0] != "%" or at[2] != ("value", len(items) - 1):
        return None
    if any(item[0] != "value" for item in items[1:]):
        return None
    places = [place for place, item in enumerate(items[1:]) if item[1] == others[0][1]]
    if not places or len(places) == len(items) - 1:
        return ("value", bool(places) == (kind == "=="))
    if len(places) == 1:
        return (kind, at, ("value", places[0]))
    within = "in" if kind == "==" else "not in"
    return (within, at, ("list", *[("value", place) for place in places]))


_RULES = (_add_constants, _drop_neutral, _divide_integers, _simplify_condition, _which_item)
_WORKED_OUT = ("+", "-", "*", "//", "neg", "**")
_DUAL = {"and": "or", "or": "and"}
_ALWAYS_WHOLE = ("name", "index", "loop", "int", "floor", "ceil", "len")
_WHOLE_OF_WHOLE = ("+", "-", "*", "//", "%", "neg", "max", "min")
_ROUNDING = ("int", "floor", "ceil", "round")
_ROUNDING_DOWN = ("int", "floor")  # as // does for operands that are not negative
_NEUTRAL_ON_THE_RIGHT = {  # a * 1 is a
    *(("*", ONE), ("//", ONE), ("**", ONE), ("/", ONE)),
    *(("+", ZERO), ("-", ZERO)),
}
_NEUTRAL_ON_THE_LEFT = {("*", ONE), ("+", ZERO)}  # 1 * a is a
