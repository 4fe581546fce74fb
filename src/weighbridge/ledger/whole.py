"""The parameters of a class in closed form, by component, for other configs than the one at hand.

`ledger.letters` writes the formula of one config: its flags decide which tensors are in it, and
loops over layers may be closed where that config allows it. Here the writer of a family's formula
is used, which decides nothing that another config could change.
"""

from __future__ import annotations

from weighbridge.algebra.expr import evaluate, is_number, names_in, parse
from weighbridge.algebra.polynomial import Opaque, Polynomial
from weighbridge.blueprint.bind import uses
from weighbridge.blueprint.roles import component_of
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.ledger.bind import product_of
from weighbridge.ledger.family_formula import CaseWriter
from weighbridge.ledger.letters import over, variables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint, Template
    from weighbridge.ledger.family_formula import Cases, Presence


class Summand(NamedTuple):
    """A product that counts where all its conditions hold, in their order.

    ``factors`` are expressions with their powers. A power may be negative: the division is exact
    for any config that the family allows.
    """

    conditions: tuple[Tree, ...]
    coefficient: int
    factors: tuple[tuple[Tree, int], ...]


def terms_by_component(
    blueprint: Blueprint,
    class_name: str,
    fields: Mapping[str, Any],
    open_fields: Collection[str] = (),
) -> dict[str, list[Summand]]:
    """Return the terms of each component, over all tensors of a class.

    Flags, texts and lists have the values of ``fields``, and numbers stay letters. ``open_fields``
    stay names whatever they are: they may be null or a flag in one config and a number in another.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> bert = load("bert")
        >>> terms = terms_by_component(bert, "BertModel", bert.defaults)
        >>> terms["pooler"][0].factors
        ((('name', 'hidden_size'), 2),)
    """
    writer = _writer(blueprint, fields, open_fields)
    sums: dict[str, Cases] = {}
    long_terms: dict[str, list[Summand]] = {}
    for template in blueprint.templates(class_name):
        presence = writer.presence(template)
        if presence is None:
            continue
        component = component_of(template.role)
        try:
            elements = writer.elements(template, presence)
        except ExpressionError:
            long_terms.setdefault(component, []).append(_long_term(blueprint, template, presence))
            continue
        cases = sums.setdefault(component, {})
        cases[presence.case] = cases.get(presence.case, Polynomial({})) + elements
    terms = {name: list(_terms(cases)) for name, cases in sums.items()}
    for name, others in long_terms.items():
        terms.setdefault(name, []).extend(others)
    return terms


def _writer(
    blueprint: Blueprint, fields: Mapping[str, Any], open_fields: Collection[str]
) -> CaseWriter:
    """Return a writer to which all is a constant but numbers, and what follows from other fields.

    Flags and texts that follow decide no condition, yet have their values in the sizes.
    """
    letters: dict[str, Any] = variables(fields)
    constants = {}
    for name, value in fields.items():
        is_list = isinstance(value, tuple)
        if name in open_fields or (is_list and name in blueprint.computed):
            letters[name] = Opaque(("name", name))
        elif not is_number(value) and name not in blueprint.computed:
            constants[name] = value
    return CaseWriter(blueprint, constants, letters)


def _terms(cases: Cases) -> Iterator[Summand]:
    for conditions, polynomial in cases.items():
        for monomial, coefficient in polynomial.terms.items():
            factors = tuple((parse(factor), power) for factor, power in monomial)
            yield Summand(conditions, coefficient, factors)


def _long_term(blueprint: Blueprint, template: Template, presence: Presence) -> Summand:
    """Return the term of a tensor whose sum over layers is too long to be written as text."""
    repeat = {index: blueprint.repeat[index] for index in template.repeat}
    dims = [blueprint.dims[dim] for dim in template.dims]
    loops, factors = product_of(repeat, dims, template.varies)
    looped = [tree for tree in factors if uses(tree, loops)]
    whole = [
        over(loops, presence.inside, looped),
        *(tree for tree in factors if tree not in looped),
    ]
    return Summand(presence.case, 1, tuple((tree, 1) for tree in whole))


class Following:
    """The lists of a config that follow from its other fields, so that other sizes change them.

    A list that the config gives itself, or that does not follow in each of the configs, stays.
    """

    def __init__(self, blueprint: Blueprint, *configs: Mapping[str, Any]) -> None:
        self.trees: dict[str, Tree] = {}
        for name, tree in blueprint.computed.items():
            is_list = isinstance(configs[0].get(name), tuple)
            if is_list and all(_follows(tree, name, fields) for fields in configs):
                self.trees[name] = tree

    def sources(self, tree: Tree) -> set[str]:
        """Return the fields that an expression depends on, through lists to their sources."""
        found = set[str]()
        for name in names_in(tree):
            if name in self.trees:
                found |= self.sources(self.trees[name])
            else:
                found.add(name)
        return found

    def at(self, fields: Mapping[str, Any], tree: Tree) -> Mapping[str, Any]:
        """Return fields with the lists of an expression as they follow from the other fields.

        Raises:
            ExpressionError: a list has no value there.
        """
        needed = self._needed(tree)
        if not needed:
            return fields
        values = dict(fields)
        for name, list_tree in self.trees.items():
            if name in needed:
                values[name] = tuple(evaluate(list_tree, values))
        return values

    def _needed(self, tree: Tree) -> set[str]:
        needed = set[str]()
        for name in names_in(tree):
            if name in self.trees:
                needed |= {name} | self._needed(self.trees[name])
        return needed


def _follows(tree: Tree, name: str, fields: Mapping[str, Any]) -> bool:
    try:
        return bool(tuple(evaluate(tree, fields)) == fields[name])
    except (ExpressionError, TypeError):
        return False
