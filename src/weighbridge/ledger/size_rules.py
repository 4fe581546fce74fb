"""The rules under which what a formula multiplies is a size: dims at least 1, lists long enough."""

from __future__ import annotations

from functools import reduce

from weighbridge.algebra.expr import evaluate, is_number, names_in
from weighbridge.algebra.settle import settled
from weighbridge.blueprint.bind import uses
from weighbridge.blueprint.classify import may_be_zero
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint

_ZERO: Tree = ("value", 0)


class SizeRules:
    """The rules about the dims of a blueprint, under a config of which some fields may be letters.

    Args:
        blueprint: the family.
        fields: the values of the config.
        constants: those of them that a rule may contain as they are; the others are letters.
    """

    def __init__(
        self, blueprint: Blueprint, fields: Mapping[str, Any], constants: Mapping[str, Any]
    ) -> None:
        self.blueprint, self.fields, self.constants = blueprint, fields, constants

    def at_least(self, tree: Tree, loops: Mapping[str, Tree], inside: list[Tree]) -> Iterator[Tree]:
        """Yield the condition that a dim is a size, unless the sizes in it ensure that."""
        if self.is_positive(settled(tree, self.constants)):
            return
        least: Tree = ("value", 1)
        if may_be_zero(tree, self.blueprint.zero):
            least = _ZERO
        if uses(tree, loops):
            yield nowhere(loops, [*inside, ("<", tree, least)])
        else:
            yield (">=", tree, least)

    def long_enough(self, trees: Iterable[Tree], loops: Mapping[str, Tree]) -> Iterator[Tree]:
        """Yield the conditions under which the lists of layers have an item for each layer."""
        for tree in trees:
            for name, index in _items(tree):
                if index not in loops or uses(loops[index], loops):
                    continue
                is_enough: Tree = ("<=", loops[index], ("len", ("name", name)))
                is_list = isinstance(self.fields.get(name), tuple)
                if is_list and evaluate(is_enough, self.fields):  # or it is used for some layers
                    yield is_enough

    def is_positive(self, tree: Tree) -> bool:
        """Whether an expression is a size that the reader has checked, or made of such."""
        kind, *operands = tree
        if kind == "name":
            value = self.fields.get(operands[0])
            if isinstance(value, tuple):
                return all(is_number(item) and item > 0 for item in value)
            return operands[0] in self.blueprint.sizes
        if kind == "value":
            return is_number(operands[0]) and operands[0] > 0
        if kind == "//":
            remainder = ("==", ("%", *operands), _ZERO)
            if operands[0] != operands[1] and remainder not in self._rules:
                return False
        return kind in _POSITIVE_IF and all(map(self.is_positive, operands[_POSITIVE_IF[kind]]))

    @property
    def _rules(self) -> list[Tree]:
        return list(self.blueprint.require.values())


_POSITIVE_IF = {
    **dict.fromkeys(("+", "*", "max", "//", "ceil"), slice(None)),
    "**": slice(1),  # an exponent is an index or a number of layers
    "[]": slice(1),
    "if": slice(1, None),
}
"""The operands of an operator that must be positive for its value to be positive."""


def _items(tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield each list that an expression takes an item of, with the index, if that is a name."""
    kind, *operands = tree
    if kind == "[]" and operands[0][0] == operands[1][0] == "name":
        yield operands[0][1], operands[1][1]
    for operand in operands:
        if isinstance(operand, tuple) and kind != "value":
            yield from _items(operand)


def nowhere(loops: Mapping[str, Tree], conditions: Iterable[Tree]) -> Tree:
    """Return the condition that some conditions together hold for no values of the indices."""
    holds = reduce(lambda left, right: ("and", left, right), conditions)
    *outer, index = loops
    tree: Tree = ("count", index, loops[index], holds)
    for name in reversed(outer):
        tree = ("sum", ("for", name, loops[name], tree))
    return _first_count(tree) or ("==", tree, _ZERO)


def _first_count(tree: Tree) -> Tree | None:
    """Return the condition that a count over the first or last layers is zero, without a loop."""
    if tree[0] != "count":
        return None
    _, index, rounds, (kind, *operands) = tree
    if kind not in _NONE_OF or operands[0] != ("name", index) or index in names_in(operands[1]):
        return None
    relation, is_of_all = _NONE_OF[kind]
    if is_of_all:
        return (relation, operands[1], rounds)
    return (relation, operands[1], _ZERO)


_NONE_OF = {"<": ("<=", False), "<=": ("<", False), ">=": (">=", True)}
"""No index is below a number if it is at most 0, and so on; whether all layers are the limit."""
