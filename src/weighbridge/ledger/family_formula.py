"""The count of a class for every config of its family, and the rules under which it holds.

The formula of a ledger has the tensors of one config. Here nothing is decided in advance: a
condition on a config becomes a case, a condition on a layer a count over the layers. Fields may be
given as constants, which decide what they can; all other fields are letters.
"""

from __future__ import annotations

from math import prod

from weighbridge.algebra.expr import parse
from weighbridge.algebra.polynomial import Opaque, Polynomial, in_letters, symbols
from weighbridge.algebra.settle import conjuncts, settled
from weighbridge.blueprint.bind import indices_used, uses
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.ledger.bind import product_of
from weighbridge.ledger.letters import conditions_of, over, variables
from weighbridge.ledger.size_rules import SizeRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint, Template

Conditions = tuple["Tree", ...]
"""What must hold for a case: all of them."""
Cases = dict[Conditions, Polynomial]
"""The parts of a count: each is added where its conditions hold."""

_TRUE: Tree = ("value", True)
_FALSE: Tree = ("value", False)
_ZERO: Tree = ("value", 0)


class FamilyFormula(NamedTuple):
    """A count as cases, and the rules on a config under which it holds.

    That sizes are at least 1, or at least 0, is not among the rules.
    """

    cases: Cases
    rules: tuple[Tree, ...]


def family_formula(
    blueprint: Blueprint,
    class_name: str,
    constants: Mapping[str, Any] | None = None,
    *,
    active: bool = False,
) -> FamilyFormula:
    """Return the parameters of a class for all configs that have these constants.

    Args:
        blueprint: the family.
        class_name: a class of it.
        constants: the values of fields that are no letters.
        active: count only the parameters that one token uses.

    Raises:
        ModelError: the family has no such class.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> bert = load("bert")
        >>> of_config = {**bert.at_defaults, "num_labels": 2}
        >>> vocabulary = of_config.pop("vocab_size")
        >>> family_formula(bert, "BertModel", of_config).cases
        {(): Polynomial('768 * vocab_size + 86041344')}
    """
    writer = CaseWriter(blueprint, constants or {}, active=active)
    sizes = SizeRules(blueprint, writer.constants, writer.constants)
    cases: Cases = {}
    on_tensors: list[Tree] = []
    for template in blueprint.templates(class_name):
        presence = writer.presence(template)
        if presence is None:
            continue
        elements = writer.elements(template, presence)
        cases[presence.case] = cases.get(presence.case, Polynomial({})) + elements
        rules_on_sizes = _rules_on_sizes(writer, sizes, template, presence)
        on_tensors += [_implied(presence.case, rule) for rule in rules_on_sizes]
    guards = map(parse, (*blueprint.guards, *blueprint.class_guards(class_name)))
    rules = [*blueprint.require.values(), *guards, *on_tensors]
    return FamilyFormula(cases, tuple(_distinct(rules, writer)))


def _distinct(rules: Iterable[Tree], writer: CaseWriter) -> Iterator[Tree]:
    """Yield each rule that is not sure to hold once, without what constants decide."""
    seen = {_TRUE}
    for rule in rules:
        for part in conjuncts(writer.settled(rule)):
            if part not in seen:
                seen.add(part)
                yield part


class Presence(NamedTuple):
    """Where a tensor exists: the conditions of its case, and those on the layer."""

    case: Conditions
    inside: list[Tree]


class CaseWriter:
    """Writes the elements of a class's tensors, by the conditions under which they exist.

    Args:
        blueprint: the family.
        constants: the values of fields that decide what they can.
        letters: what each other field is in a formula; by default a letter.
        active: count only the parameters that one token uses.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        constants: Mapping[str, Any],
        letters: Mapping[str, Any] | None = None,
        *,
        active: bool = False,
    ) -> None:
        self.blueprint, self.constants, self.active = blueprint, dict(constants), active
        self._bound = {**(letters or _letters(blueprint)), **self.constants}
        self._meaning = symbols(blueprint.require.values())
        self._values: dict[Tree, Polynomial] = {}
        self._nullable = {
            name
            for name, letter in self._bound.items()
            if name not in self.constants and not isinstance(letter, Polynomial)
        }

    def presence(self, template: Template) -> Presence | None:
        """Return where a tensor exists and is not tied; None if nowhere."""
        if template.tie and template.tie.when is None:
            return None
        outside: list[Tree] = []
        inside: list[Tree] = []
        for condition in map(self.settled, conditions_of(template)):
            for part in conjuncts(condition):
                (inside if uses(part, template.repeat) else outside).append(part)
        if _FALSE in (*outside, *inside):
            return None
        case = tuple(dict.fromkeys(tree for tree in outside if tree != _TRUE))
        return Presence(case, [tree for tree in inside if tree != _TRUE])

    def elements(self, template: Template, presence: Presence) -> Polynomial:
        """Return the elements of a tensor in all its places.

        Raises:
            ExpressionError: a sum over layers is too long to be written as text.
        """
        repeat, dims = self.expressions(template)
        varies = template.varies
        if self.active:
            varies = indices_used(repeat, [*presence.inside, *dims, *repeat.values()])
        loops, factors = product_of(repeat, dims, varies)
        return self._elements(loops, factors, presence.inside)

    def expressions(self, template: Template) -> tuple[dict[str, Tree], list[Tree]]:
        """Return the repetitions of each index, and the dims; of experts, those that are active."""
        repeat = {index: self.blueprint.repeat[index] for index in template.repeat}
        dims = [self.blueprint.dims[dim] for dim in template.dims]
        if not (self.active and template.active):
            return repeat, dims
        over_index, number = template.active.over, template.active.number
        every = repeat[over_index] if over_index else dims[0]
        number = self._unless_null(number, every)
        if over_index:
            repeat[over_index] = number
        else:
            dims[0] = number
        return repeat, dims

    def _unless_null(self, number: Tree, every: Tree) -> Tree:
        """Return the number of active experts: all of them if the config does not say."""
        is_stated: Tree = ("!=", number, ("value", None))
        if number[0] != "name":
            return number
        if number[1] in self.constants:
            return number if self.constants[number[1]] is not None else every
        if self.blueprint.kinds.get(number[1]) is int:
            return number
        return ("if", is_stated, number, every)

    def _elements(
        self, loops: Mapping[str, Tree], factors: list[Tree], inside: list[Tree]
    ) -> Polynomial:
        """Return a product of factors in letters, over the indices that something depends on."""
        if not loops:
            return prod(map(self._in_letters, factors), start=Polynomial({(): 1}))
        looped = [tree for tree in factors if uses(tree, loops)]
        decided = [tree for tree in inside if uses(tree, loops)]
        if not looped and not decided:
            decided = [_TRUE]
        number = self._counted(self.settled(over(loops, decided, looped)))
        others = [self._in_letters(tree) for tree in factors if tree not in looped]
        return prod(others, start=number)

    def _counted(self, loop: Tree) -> Polynomial:
        """Return a count over layers: without a loop if it compares the index with a number.

        ``count(i < f for i in range(n))`` is f, but at least 0 and at most n.
        """
        kind, *operands = loop
        if kind != "count" or operands[2] == _TRUE:
            return self._in_letters(loop if kind != "count" else operands[1])
        index, rounds, holds = operands
        comparison = holds[1] if holds[0] == "not" else holds
        relation, *sides = comparison
        if relation not in _COMPARED or sides[0] != ("name", index) or uses(sides[1], [index]):
            return self._in_letters(loop)
        every = self._in_letters(rounds)
        is_rest = (relation in (">", ">=", "!=")) != (holds[0] == "not")
        number = self._in_letters(self._selected(relation, sides[1], rounds))
        return every - number if is_rest else number

    def _selected(self, relation: str, number: Tree, rounds: Tree) -> Tree:
        """Return how many layers a comparison with a number selects, or its opposite."""
        if relation in ("==", "!="):
            is_layer: Tree = ("and", (">=", number, _ZERO), ("<", number, rounds))
            return ("if", is_layer, ("value", 1), _ZERO)
        is_size = number[0] == "name" and number[1] in self.blueprint.sizes
        if relation in ("<=", ">"):
            number = ("+", number, ("value", 1))
        first: Tree = ("min", number, rounds)
        return first if is_size else ("max", _ZERO, first)

    def settled(self, tree: Tree) -> Tree:
        """Return an expression without what the constants decide."""
        return settled(tree, self.constants, self._nullable)

    def _in_letters(self, tree: Tree) -> Polynomial:
        if tree not in self._values:
            plain = self.settled(tree)
            self._values[tree] = in_letters(plain, self._bound, self._meaning, {})
        return self._values[tree]


def _rules_on_sizes(
    writer: CaseWriter, sizes: SizeRules, template: Template, presence: Presence
) -> Iterator[Tree]:
    """Yield the rules under which a tensor has a size in each of its places."""
    blueprint = writer.blueprint
    repeat = {index: blueprint.repeat[index] for index in template.repeat}
    own_dims = [blueprint.dims[dim] for dim in template.dims]
    loops = product_of(repeat, own_dims, template.varies).loops
    for count in repeat.values():
        if not uses(count, template.repeat) and not sizes.is_positive(count):
            yield (">=", count, _ZERO)
    for tree in own_dims:
        yield from sizes.at_least(tree, loops, presence.inside)
    _, dims = writer.expressions(template)
    if dims != own_dims and dims[0] != own_dims[0]:
        yield (">=", dims[0], _ZERO)


_COMPARED = frozenset(("<", "<=", ">", ">=", "==", "!="))


def _letters(blueprint: Blueprint) -> dict[str, Any]:
    """Return a letter for each field: one that may be null, or is no integer, is opaque."""
    letters: dict[str, Any] = {}
    for name in blueprint.fields:
        letters[name] = Opaque(("name", name))
        if blueprint.kinds[name] is int and name not in blueprint.nullable:
            letters |= variables({name: 1})
    return letters


def _implied(case: Conditions, rule: Tree) -> Tree:
    """Return the rule that must hold only where the conditions of a case do."""
    tree = rule
    for condition in reversed(case):
        tree = ("or", ("not", condition), tree)
    return tree
