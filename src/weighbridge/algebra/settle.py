"""Partial evaluation: an expression of which some names have values, and the others are letters."""

from __future__ import annotations

from functools import reduce

from weighbridge.algebra.expr import evaluate, is_number, names_in
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree

_LOOPS = ("for", "count")


def conjuncts(tree: Tree) -> Iterator[Tree]:
    """Yield the conditions that ``and`` joins."""
    if tree[0] == "and":
        for operand in tree[1:]:
            yield from conjuncts(operand)
    else:
        yield tree


def settled(
    tree: Tree, constants: Mapping[str, Any], nullable: Container[str] = frozenset()
) -> Tree:
    """Return an expression in which everything that constants decide is worked out.

    Names that are no constants stand for numbers or lists, except those that are ``nullable``.

    Example:
        >>> from weighbridge.algebra.expr import parse, source
        >>> rule = parse("width > 3 and (gated or depth == 2) and len(kinds) == depth")
        >>> source(settled(rule, {"gated": False, "kinds": ("a", "b")}))
        'width > 3 and depth == 2 and 2 == depth'
    """
    kind, *operands = tree
    if kind == "value":
        return tree
    if constants.keys() >= set(names_in(tree)):
        return _worked_out(tree, constants)
    if kind == "name":
        return tree
    if kind in _LOOPS:
        index, rounds, body = operands
        others = {name: value for name, value in constants.items() if name != index}
        return (kind, index, settled(rounds, constants, nullable), settled(body, others, nullable))
    return _simpler(kind, [settled(operand, constants, nullable) for operand in operands], nullable)


def _worked_out(tree: Tree, constants: Mapping[str, Any]) -> Tree:
    """Return the value of an expression, unless it is a list or has no value."""
    try:
        value = evaluate(tree, constants)
    except ExpressionError:
        return tree
    if isinstance(value, tuple | list) or hasattr(value, "keys"):
        return tree
    if is_number(value) and value < 0:
        return ("neg", ("value", -value))
    return ("value", value)


def _simpler(kind: str, operands: list[Tree], nullable: Container[str]) -> Tree:
    """Return an expression without operands that are decided: true, false or null."""
    if kind in ("and", "or"):
        return _joined(kind, operands)
    if kind == "not" and operands[0][0] == "value":
        return ("value", not operands[0][1])
    if kind == "if" and operands[0][0] == "value":
        return operands[1] if operands[0][1] else operands[2]
    is_about_null = kind in ("==", "!=") and operands[1] == ("value", None)
    if is_about_null and operands[0][0] == "name" and operands[0][1] not in nullable:
        return ("value", kind == "!=")
    return (kind, *operands)


def _joined(kind: str, operands: list[Tree]) -> Tree:
    """Return operands joined by ``and`` or ``or``, without those that are decided."""
    decisive: Tree = ("value", kind == "or")
    if decisive in operands:
        return decisive
    rest = [operand for operand in operands if operand[0] != "value"]
    if not rest:
        return ("value", kind == "and")
    return reduce(lambda left, right: (kind, left, right), rest)
