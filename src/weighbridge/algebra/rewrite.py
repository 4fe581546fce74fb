"""What derivation does to expressions: run them fast, replace their leaves, negate and simplify them."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.expr import names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree

LEAVES = ("name", "value", "loop", "index")
NULL: Tree = ("value", None)
ZERO: Tree = ("value", 0)
ONE: Tree = ("value", 1)
_FUNCTIONS = {
    "int": int,
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "abs": abs,
    "sum": sum,
    "len": len,
    "max": max,
    "min": min,
}
_OPPOSITE = {"==": "!=", "<": ">=", "<=": ">", "in": "not in"}
_OPPOSITE |= {after: before for before, after in _OPPOSITE.items()}


def replaced(tree: Tree, leaf: Callable[[Tree], Tree]) -> Tree:
    """Return a tree with another in place of each leaf."""
    if tree[0] in LEAVES:
        return leaf(tree)
    return (
        tree[0],
        *[operand if isinstance(operand, str) else replaced(operand, leaf) for operand in tree[1:]],
    )


def leaves(tree: Tree) -> Iterator[Tree]:
    """Yield the leaves of a tree, left to right."""
    if tree[0] in LEAVES:
        yield tree
    else:
        for operand in tree[1:]:
            yield from () if isinstance(operand, str) else leaves(operand)


def names(tree: Tree) -> set[str]:
    """Return the fields in a tree."""
    return set(names_in(replaced(tree, lambda leaf: leaf if leaf[0] == "name" else ("value", 0))))


@cache
def compiled(tree: Tree) -> Callable[[Mapping[str, Any]], Any]:
    """Return a tree as a function of the names' values; an index d is the name ``@d``.

    The tree was made by running code that the user named; it is no text that was found in a file.
    """
    made: Callable[[Mapping[str, Any]], Any] = eval(  # noqa: S307
        f"lambda E: {_python(tree)}",
        {"__builtins__": {}, "inf": math.inf, "nan": math.nan, **_FUNCTIONS},
    )
    return made


def _python(tree: Tree) -> str:
    kind, *operands = tree
    if kind == "name":
        return f"E[{operands[0]!r}]"
    if kind == "index":
        return f'E["@{operands[0]}"]'
    if kind in ("value", "loop"):
        return repr(operands[-1])
    inside = [_python(operand) for operand in operands]
    if kind in _FUNCTIONS:
        return f"{kind}({', '.join(inside)})"
    if kind == "[]":
        return f"{inside[0]}[{inside[1]}]"
    if kind == "[:]":
        return f"{inside[0]}[{inside[1]}:{inside[2]}]"
    if kind == "list":
        return f"[{', '.join(inside)}]"
    if kind == "if":
        return f"({inside[1]} if {inside[0]} else {inside[2]})"
    if kind in ("not", "neg"):
        return f"({'not ' if kind == 'not' else '-'}{inside[0]})"
    return f"({f' {kind} '.join(inside)})"


def negated(tree: Tree) -> Tree:
    """Return the opposite of a condition, the negation as far inside as it goes."""
    kind = tree[0]
    if kind in _OPPOSITE:
        return (_OPPOSITE[kind], *tree[1:])
    if kind == "not":
        return tree[1]  # type: ignore[no-any-return]
    if kind in ("and", "or"):
        return ("or" if kind == "and" else "and", negated(tree[1]), negated(tree[2]))
    return ("not", tree)


def joined(kind: str, conditions: list[Tree]) -> Tree:
    """Return conditions under one ``and`` or ``or``, each once."""
    kept = list(dict.fromkeys(conditions))
    tree = kept[0]
    for condition in kept[1:]:
        tree = (kind, tree, condition)
    return tree


def is_whole(tree: Tree) -> bool:
    """Whether a tree's value is surely an integer where its fields are."""
    kind = tree[0]
    if kind == "value":
        return type(tree[1]) is int
    if kind in ("name", "index", "loop", "int", "floor", "ceil", "len"):
        return True
    return kind in ("+", "-", "*", "//", "%", "neg", "max", "min") and all(map(is_whole, tree[1:]))


def simplified(tree: Tree, floats: frozenset[str] = frozenset()) -> Tree:
    """Return a tree of the same value with less in it; ``floats`` are the fields that are no integers."""
    if tree[0] in LEAVES or len(tree) == 1:
        return tree
    made = (tree[0], *[simplified(operand, floats) for operand in tree[1:]])
    found = (rule(made, floats) for rule in (_constant, _neutral, _whole, _asked))
    return next((other for other in found if other is not None), made)


def _constant(tree: Tree, _: frozenset[str]) -> Tree | None:
    kind, *operands = tree
    if kind in ("+", "-", "*", "//", "neg", "**") and all(
        operand[0] == "value" for operand in operands
    ):
        return ("value", compiled(tree)({}))
    if (
        kind == "+"
        and operands[0][0] == "+"
        and all(
            type(each[-1]) is int and each[0] == "value" for each in (operands[0][2], operands[1])
        )
    ):
        return (
            "+",
            operands[0][1],
            ("value", operands[0][2][1] + operands[1][1]),
        )  # a + 1 + 1 is a + 2
    return None


_LEFT = {("*", ONE), ("//", ONE), ("**", ONE), ("/", ONE), ("+", ZERO), ("-", ZERO)}  # a * 1 is a
_RIGHT = {("*", ONE), ("+", ZERO)}  # 1 * a is a


def _neutral(tree: Tree, _: frozenset[str]) -> Any:
    kind, *operands = tree
    if (kind, operands[-1]) in _LEFT:
        return operands[0]
    return operands[1] if (kind, operands[0]) in _RIGHT else None


def _whole(tree: Tree, floats: frozenset[str]) -> Any:
    """Take out what makes an integer of one, and divide integers as such: ``int(a / b)`` is ``a // b``."""
    if len(tree) != 2:
        return None
    kind, first = tree
    if kind in ("int", "floor", "ceil", "round") and _is_surely_whole(first, floats):
        return first
    if (
        kind in ("int", "floor")
        and first[0] == "/"
        and all(_is_surely_whole(part, floats) for part in first[1:])
    ):
        return simplified(("//", *first[1:]), floats)
    return None


def _is_surely_whole(tree: Tree, floats: frozenset[str]) -> bool:
    return is_whole(tree) and names(tree).isdisjoint(floats)


def _asked(tree: Tree, _: frozenset[str]) -> Any:
    """Turn a negation round, and a question about what is left of a division into one about the remainder."""
    kind, *operands = tree
    if kind == "not":
        return negated(operands[0])
    if kind == "!=" and operands[0][0] == "if" and operands[1] == ZERO:
        return operands[0][1]  # a flag taken for a number, and asked whether it is 0
    if (
        kind in ("==", "!=")
        and operands[0][0] == "*"
        and operands[0][1] == ("//", operands[1], operands[0][2])
    ):
        return (kind, ("%", operands[1], operands[0][2]), ZERO)  # a // b * b == a
    return None
