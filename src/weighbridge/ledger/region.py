"""The region of a ledger's formulas: the rules on its sizes under which they hold.

A formula has the tensors of one config. At other sizes, tensors may appear or disappear, a
division may leave a remainder, and a list of layers may be too short. So the formula holds where
the family's requirements hold, where each condition on a tensor is as true or false as under that
config, and where what became a number on the way has the same value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import evaluate, is_number, names_in, parse
from weighbridge.algebra.rewrite import negated
from weighbridge.algebra.settle import conjuncts, settled
from weighbridge.blueprint.bind import uses
from weighbridge.ledger.bind import product_of
from weighbridge.ledger.size_rules import SizeRules, nowhere

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Template
    from weighbridge.ledger.ledger import Ledger

_ZERO: Tree = ("value", 0)
_TRUE: Tree = ("value", True)


class FormulaRegion(NamedTuple):
    """The rules of a region, and the fields that have a fixed value in it.

    The rules are conditions on numbers, all true under the ledger's config. That sizes are at least
    1, or at least 0, is not among them: see `least_of`. ``fixed`` lists the fields that are not
    numbers, and that the formulas depend on.
    """

    rules: tuple[Tree, ...]
    fixed: tuple[str, ...]


def region_of(ledger: Ledger, computed: Mapping[str, Tree] | None = None) -> FormulaRegion:
    """Return the region of the formulas that were written of a ledger.

    Args:
        ledger: a ledger whose formulas have been asked for: each adds what it takes for granted.
        computed: fields that are computed from the sizes, in order. The rules may name the lists
            among them, see `lists_anew`.

    Example:
        >>> from weighbridge.algebra.expr import source
        >>> from weighbridge.answers.weigh import weigh
        >>> ledger = weigh("bert-base-chinese").ledger
        >>> [source(rule) for rule in region_of(ledger).rules][:1]
        ['hidden_size % num_attention_heads == 0']
    """
    conditions, blueprint = _Conditions(ledger), ledger.blueprint
    trees = [*blueprint.require.values(), *ledger.letters.assumed, *conditions.of_tensors()]
    trees += map(parse, (*blueprint.guards, *blueprint.class_guards(ledger.class_name)))
    fixed = conditions.folded | ledger.letters.decided
    fixed |= {name for tree in trees for name in names_in(tree)}
    anew = lists_anew(ledger.fields, computed or {})
    trees += _unchanged(sorted(conditions.folded), ledger.fields, anew)
    trees += _same_values(sorted(fixed), ledger.fields, computed or {})
    constants = {name: value for name, value in conditions.constants.items() if name not in anew}
    rules: dict[Tree, None] = {}
    for tree in trees:
        for rule in conjuncts(settled(tree, constants)):
            if rule != _TRUE:
                rules.update(dict.fromkeys([*_divisible(rule, ledger), rule]))
    return FormulaRegion(tuple(rules), tuple(sorted(fixed & constants.keys())))


def lists_anew(fields: Mapping[str, Any], computed: Mapping[str, Tree]) -> dict[str, Tree]:
    """Return the computed fields that are lists and follow the sizes."""
    lists = {name for name, value in fields.items() if isinstance(value, tuple)}
    return {name: tree for name, tree in computed.items() if name in lists and [*names_in(tree)]}


def _same_values(
    names: Iterable[str], fields: Mapping[str, Any], computed: Mapping[str, Tree]
) -> Iterator[Tree]:
    """Yield the rules under which computed flags, texts and nulls keep their values."""
    for name in names:
        value = fields.get(name)
        if name in computed and (value is None or isinstance(value, bool | str)):
            yield ("==", computed[name], ("value", value))


def _divisible(rule: Tree, ledger: Ledger) -> Iterator[Tree]:
    """Yield the rules that the divisors in a rule are not zero, if their sizes do not say so."""
    kind, *operands = rule
    if kind in ("name", "value"):
        return
    if kind in ("//", "%", "/"):
        for name in names_in(operands[1]):
            if is_number(ledger.fields.get(name)) and least_of(ledger, name) != 1:
                yield ("!=", ("name", name), _ZERO)
    for operand in operands:
        if isinstance(operand, tuple):
            yield from _divisible(operand, ledger)


def least_of(ledger: Ledger, name: str) -> int | None:
    """Return the least value of a size of the config; None for a number that is no size."""
    if name not in ledger.blueprint.sizes:
        return None
    if name in ledger.blueprint.zero:
        return 0
    return 1


def frozen_rules(tree: Tree, fields: Mapping[str, Any]) -> Iterator[Tree]:
    """Yield the rules under which an expression keeps its value: its numbers keep theirs."""
    for name in dict.fromkeys(names_in(tree)):
        if is_number(fields.get(name)):
            yield ("==", ("name", name), ("value", fields[name]))


def _unchanged(
    names: Iterable[str], fields: Mapping[str, Any], computed: Mapping[str, Tree]
) -> Iterator[Tree]:
    """Yield the rules under which fields keep their values, as these became part of a formula."""
    for name in names:
        if is_number(fields.get(name)):
            yield ("==", ("name", name), ("value", fields[name]))
        elif name in computed:
            yield from frozen_rules(computed[name], fields)
            inner = [other for other in names_in(computed[name]) if other in computed]
            yield from _unchanged(inner, fields, computed)


class _Conditions:
    """Collects the conditions on the tensors of a class; ``folded`` are fields that became part."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.fields = ledger, ledger.fields
        self.blueprint = ledger.blueprint
        self.constants = {
            name: value for name, value in self.fields.items() if not is_number(value)
        }
        self.sizes = SizeRules(self.blueprint, self.fields, self.constants)
        self.folded: set[str] = set(ledger.letters.frozen)
        for tree in ledger.letters.assumed:
            self._fold(tree)

    def _fold(self, tree: Tree) -> None:
        for name in names_in(tree):
            if name in self.fields and not is_number(self.fields[name]):
                self.folded.add(name)

    def of_tensors(self) -> Iterator[Tree]:
        for template in self.blueprint.templates(self.ledger.class_name):
            yield from self._of_template(template)

    def _of_template(self, template: Template) -> Iterator[Tree]:
        """Yield conditions under which a tensor exists where it does, with sizes that it can have.

        The conditions are read in order, because the first may rule out a value for the next.
        """
        inside: list[Tree] = []
        for condition in template.when:
            if uses(condition, template.repeat):
                inside.append(condition)
                continue
            holds = evaluate(condition, self.fields)
            yield condition if holds else negated(condition)
            if not holds:
                return
        if template.tie is not None:
            tie = template.tie.when
            if tie is None:
                return
            if uses(tie, template.repeat):
                inside.append(("not", tie))
            else:
                is_tied = evaluate(tie, self.fields)
                yield tie if is_tied else negated(tie)
                if is_tied:
                    return
        yield from self._of_places(template, inside)

    def _of_places(self, template: Template, inside: list[Tree]) -> Iterator[Tree]:
        """Yield the conditions on an untied tensor; ``inside`` decide in which layers it exists."""
        repeat = {index: self.blueprint.repeat[index] for index in template.repeat}
        dims = [self.blueprint.dims[dim] for dim in template.dims]
        loops, factors = product_of(repeat, dims, template.varies)
        if not self.ledger.untied_places(template):
            yield from self._of_absence(loops, inside, repeat.values())
            return
        for tree in factors:
            if not uses(tree, loops):
                self._fold(tree)
        for count in repeat.values():
            if not self.sizes.is_positive(count) and not uses(count, template.repeat):
                yield (">=", count, _ZERO)
        for tree in dims:
            yield from self.sizes.at_least(tree, loops, inside)
        yield from self.sizes.long_enough([*inside, *dims, *repeat.values()], loops)

    def _of_absence(
        self, loops: Mapping[str, Tree], inside: list[Tree], counts: Iterable[Tree]
    ) -> Iterator[Tree]:
        """Yield the conditions under which a tensor exists in no layer."""
        if inside:
            yield nowhere(loops, inside)
            return
        for count in counts:
            self._fold(count)
            yield from frozen_rules(count, self.fields)
