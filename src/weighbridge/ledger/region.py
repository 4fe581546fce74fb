"""The region of a ledger's formulas: the rules on its sizes under which they hold.

A formula has the tensors of one config. At other sizes, tensors may appear or disappear, a
division may leave a remainder, and a list of layers may be too short. So the formula holds where
the family's requirements hold, where each condition on a tensor is as true or false as under that
config, and where what became a number on the way has the same value.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import evaluate, is_number, names_in, parse
from weighbridge.algebra.rewrite import negated
from weighbridge.blueprint.bind import uses
from weighbridge.blueprint.classify import size_names
from weighbridge.errors import ExpressionError
from weighbridge.ledger.bind import product_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Template
    from weighbridge.ledger.ledger import Ledger

_ZERO: Tree = ("value", 0)
_TRUE: Tree = ("value", True)
_LOOPS = ("for", "count")


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
    fixed = conditions.folded | {name for tree in trees for name in names_in(tree)}
    anew = lists_anew(ledger.fields, computed or {})
    trees += _unchanged(sorted(conditions.folded), ledger.fields, anew)
    trees += _same_values(sorted(fixed), ledger.fields, computed or {})
    constants = {name: value for name, value in conditions.constants.items() if name not in anew}
    rules: dict[Tree, None] = {}
    for tree in trees:
        for rule in _conjuncts(settled(tree, constants)):
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
        if not self.ledger.untied_places(template.name):
            yield from self._of_absence(loops, inside, repeat.values())
            return
        for tree in factors:
            if not uses(tree, loops):
                self._fold(tree)
        for count in repeat.values():
            if not self._is_positive(count) and not uses(count, template.repeat):
                yield (">=", count, _ZERO)
        for tree in dims:
            yield from self._at_least(tree, loops, inside)
        yield from self._long_enough([*inside, *dims, *repeat.values()], loops)

    def _of_absence(
        self, loops: Mapping[str, Tree], inside: list[Tree], counts: Iterable[Tree]
    ) -> Iterator[Tree]:
        """Yield the conditions under which a tensor exists in no layer."""
        if inside:
            yield _nowhere(loops, inside)
            return
        for count in counts:
            self._fold(count)
            yield from frozen_rules(count, self.fields)

    def _at_least(
        self, tree: Tree, loops: Mapping[str, Tree], inside: list[Tree]
    ) -> Iterator[Tree]:
        """Yield the condition that a dim is a size, unless the sizes in it ensure that."""
        if self._is_positive(settled(tree, self.constants)):
            return
        least: Tree = ("value", 1)
        if not self.blueprint.zero.isdisjoint(size_names(tree)):
            least = _ZERO
        if uses(tree, loops):
            yield _nowhere(loops, [*inside, ("<", tree, least)])
        else:
            yield (">=", tree, least)

    def _long_enough(self, trees: Iterable[Tree], loops: Mapping[str, Tree]) -> Iterator[Tree]:
        """Yield the conditions under which the lists of layers have an item for each layer."""
        for tree in trees:
            for name, index in _items(tree):
                if index not in loops or uses(loops[index], loops):
                    continue
                is_enough: Tree = ("<=", loops[index], ("len", ("name", name)))
                is_list = isinstance(self.fields.get(name), tuple)
                if is_list and evaluate(is_enough, self.fields):  # or it is used for some layers
                    yield is_enough

    def _is_positive(self, tree: Tree) -> bool:
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
        return kind in _POSITIVE_IF and all(map(self._is_positive, operands[_POSITIVE_IF[kind]]))

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


def _nowhere(loops: Mapping[str, Tree], conditions: Iterable[Tree]) -> Tree:
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


def _conjuncts(tree: Tree) -> Iterator[Tree]:
    if tree[0] == "and":
        for operand in tree[1:]:
            yield from _conjuncts(operand)
    else:
        yield tree


def settled(tree: Tree, constants: Mapping[str, Any]) -> Tree:
    """Return an expression in which everything that constants decide is worked out.

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
        return (kind, index, settled(rounds, constants), settled(body, others))
    return _simpler(kind, [settled(operand, constants) for operand in operands])


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


def _simpler(kind: str, operands: list[Tree]) -> Tree:
    """Return an expression without operands that are decided: true, false or null."""
    if kind in ("and", "or"):
        return _joined(kind, operands)
    if kind == "not" and operands[0][0] == "value":
        return ("value", not operands[0][1])
    if kind == "if" and operands[0][0] == "value":
        return operands[1] if operands[0][1] else operands[2]
    if kind in ("==", "!=") and ("value", None) in operands and operands[0][0] == "name":
        return ("value", kind == "!=")  # it is a number or a list, or it would be decided
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
