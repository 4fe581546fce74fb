"""Tensors in letters: sizes become symbols, conditions on a layer become counts of layers."""

from __future__ import annotations

from functools import reduce
from math import prod

from weighbridge.algebra.expr import evaluate, names_in
from weighbridge.algebra.polynomial import Opaque, Polynomial, in_letters, symbols
from weighbridge.algebra.settle import settled
from weighbridge.blueprint.bind import indices_used, uses
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.ledger.bind import product_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint, Template


def variables(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with a symbol in place of each number; flags, texts and lists are kept.

    Example:
        >>> variables({"hidden_size": 8, "is_decoder": False})
        {'hidden_size': Polynomial('hidden_size'), 'is_decoder': False}
    """
    return {
        name: _KINDS.get(type(value), lambda _, value: value)(name, value)
        for name, value in fields.items()
    }


_KINDS: dict[type, Any] = {
    int: lambda name, _: Polynomial.of(name),
    float: lambda name, _: Opaque(("name", name)),
}


_ONE = Polynomial({(): 1})


class Letters:
    """A blueprint's expressions in letters; the config decides which tensors exist."""

    def __init__(self, blueprint: Blueprint, fields: Mapping[str, Any]) -> None:
        self.blueprint, self.fields = blueprint, fields
        self.bound, self.meaning = variables(fields), symbols(blueprint.require.values())
        self._decisions = {
            name: value
            for name, value in fields.items()
            if value is None or isinstance(value, bool | str)
        }
        self._values: dict[Tree, Polynomial] = {}
        self._numbers: dict[Tree, Polynomial | None] = {}
        self._products: dict[tuple[Tree, ...], Polynomial] = {}
        self.assumed: dict[Tree, None] = {}
        """Conditions under which the formulas written so far hold."""
        self.frozen: set[str] = set()
        """Fields whose values are numbers in the formulas written so far."""
        self.decided: set[str] = set()
        """Texts, flags and nulls that decided a part of the formulas written so far."""

    def of(self, tree: Tree, indices: Mapping[str, int] | None = None) -> Polynomial:
        """Return the value of an expression in letters, in the layer with these indices."""
        if indices:
            return in_letters(tree, self.bound, self.meaning, indices)
        if tree not in self._values:
            self._values[tree] = in_letters(tree, self.bound, self.meaning, {})
        return self._values[tree]

    def every(self, template: Template, *, active: bool = False) -> Polynomial | None:
        """Return the number of elements of a template's untied tensors, or of their active experts.

        Return None if it cannot be written: an expression is too long, or has too many rounds.
        """
        repeat, dims = self._expressions(template, active=active)
        varies, conditions = template.varies, conditions_of(template)
        if active:
            varies = indices_used(repeat, [*conditions, *dims, *repeat.values()])
        loops, factors = product_of(repeat, dims, varies)
        if not loops:
            return self._product(tuple(factors))
        looped = [tree for tree in factors if uses(tree, loops)]
        decided = [tree for tree in conditions if uses(tree, loops)]
        number = self.number(loops, decided, looped)
        if number is None:
            return None
        return prod([self.of(tree) for tree in factors if tree not in looped], start=number)

    def freeze(self, template: Template, *, active: bool) -> None:
        """Note that a template is written layer by layer: what repeats it has a fixed value."""
        repeat, dims = self._expressions(template, active=active)
        fixed = [*conditions_of(template), *repeat.values()]
        if active:
            fixed += dims
        for tree in fixed:
            self.frozen.update(names_in(tree))
        self.frozen.difference_update(template.repeat)

    def _product(self, factors: tuple[Tree, ...]) -> Polynomial:
        """Return a product; it is cached, since many tensors of a model have the same sizes."""
        if factors not in self._products:
            self._products[factors] = prod(map(self.of, factors), start=_ONE)
        return self._products[factors]

    def _expressions(
        self, template: Template, *, active: bool
    ) -> tuple[dict[str, Tree], list[Tree]]:
        """Return the repetitions of each index, and the dims; of experts, those that are active."""
        repeat = {index: self.blueprint.repeat[index] for index in template.repeat}
        dims = [self.blueprint.dims[dim] for dim in template.dims]
        if active and template.active:
            if template.active.over:
                repeat[template.active.over] = template.active.number
            else:
                dims[0] = template.active.number
        return repeat, dims

    def number(
        self, loops: Mapping[str, Tree], conditions: Sequence[Tree], factors: Sequence[Tree]
    ) -> Polynomial | None:
        """Return the number of places where conditions hold, or the sum of a product over them."""
        tree = over(loops, conditions, factors)
        if tree not in self._numbers:
            try:
                evaluate(tree, self.fields)
                self._numbers[tree] = self._in_all_layers(tree)
            except ExpressionError:
                self._numbers[tree] = None
        return self._numbers[tree]

    def _in_all_layers(self, loop: Tree) -> Polynomial:
        """Return a count or a sum over layers, without what texts, flags and nulls decide."""
        plain = settled(loop, self._decisions)
        self.decided |= set(names_in(loop)) & self._decisions.keys()
        if plain[0] == "count" and plain[3] == ("value", True):
            return self.of(plain[2])
        if plain[0] not in ("count", "sum"):
            return self.of(plain)
        return self._closed(plain) or Polynomial.whole(plain)

    def _closed(self, loop: Tree) -> Polynomial | None:
        """Return a count over layers in closed form, if it has one.

        ``count(i < f for i in range(n))`` is ``f``, with ``i == f`` it is 1, and so on, if f is
        from 0 to n.
        """
        if loop[0] != "count":
            return None
        _, index, rounds, holds = loop
        is_negated = holds[0] == "not"
        comparison = holds
        if is_negated:
            comparison = holds[1]
        kind, *operands = comparison
        if kind not in _COUNTED or operands[0] != ("name", index) or index in names_in(operands[1]):
            return None
        first = evaluate(operands[1], self.fields)
        most = evaluate(rounds, self.fields) - (kind not in ("<", ">="))
        if type(first) is not int or not 0 <= first <= most:
            return None
        self.assumed[(">=", operands[1], ("value", 0))] = None
        self.assumed[("<=" if kind in ("<", ">=") else "<", operands[1], rounds)] = None
        every = self.of(rounds)
        number = _COUNTED[kind](self.of(operands[1]), every)
        if is_negated:
            return every - number
        return number


_COUNTED: dict[str, Callable[[Polynomial, Polynomial], Polynomial]] = {
    "<": lambda first, _: first,
    "<=": lambda first, _: first + 1,
    ">": lambda first, every: every - first - 1,
    ">=": lambda first, every: every - first,
    "==": lambda *_: _ONE,
    "!=": lambda _, every: every - 1,
}
"""The number of indices for which a comparison with one of them holds."""


def conditions_of(template: Template) -> Sequence[Tree]:
    """Return the conditions under which a tensor exists and is not tied."""
    if template.tie and template.tie.when:
        return (*template.when, ("not", template.tie.when))
    return template.when


def over(loops: Mapping[str, Tree], conditions: Sequence[Tree], factors: Sequence[Tree]) -> Tree:
    """Return ``count(condition for i in range(n))``, or the ``sum([…])`` of varying factors."""
    *outer, index = loops
    holds: Tree | None = None
    if conditions:
        holds = reduce(lambda left, right: ("and", left, right), conditions)
    if factors:
        term = reduce(lambda left, right: ("*", left, right), factors)
        if holds:
            term = ("if", holds, term, ("value", 0))
        tree: Tree = ("sum", ("for", index, loops[index], term))
    else:
        tree = ("count", index, loops[index], holds)
    for index in reversed(outer):
        tree = ("sum", ("for", index, loops[index], tree))
    return tree
