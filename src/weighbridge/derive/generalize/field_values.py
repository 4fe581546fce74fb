"""A config's field as an expression over its other fields, generalized over its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge.algebra.rewrite import NULL, replaced
from weighbridge.derive.generalize.generalize import in_common
from weighbridge.derive.generalize.places import Observation, Observed
from weighbridge.derive.probing.symbolic import plain_value, tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.generalize import InCommon
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Subject


def field_expression(subject: Subject, name: str, probes: Sequence[Probe]) -> Tree | None:
    """Return the expression for a field's value in these probes; None if there is none."""
    observations = [_observation(subject, name, probe) for probe in probes]
    if not all(map(_is_expressible, observations)):
        return None
    common = in_common(observations)
    if not common.is_complete:
        return None
    values = {template: found[0] for template, found in common.expressions.items() if found}
    if name in common.repeats:
        return _list_of_any_length(name, values, common)
    items = [value for template, value in values.items() if template.startswith(f"{name}.")]
    if items and common.conditions.keys() - {name}:
        return None
    if not items and name not in values:
        return None
    tree: Tree = ("list", *items) if items else values[name]
    exists = common.conditions.get(name)
    if exists is not None:
        tree = ("if", exists, tree, NULL)
    return replaced(tree, _unfrozen)


def _observation(subject: Subject, name: str, probe: Probe) -> Observation:
    """Return what a probe shows about a field: its value, or the items of its list, if not null."""
    made, trace = subject.remembered(probe)
    value = made.get(name, probe.fields[name])
    others: dict[str, Any] = {}
    for field, known in probe.fields.items():
        has_own_value = subject.stated.get(field) is not None or field in probe.changes
        if field != name and (has_own_value or known is None):
            others[field] = known
    if isinstance(value, list | tuple):
        items = {f"{name}.{index}": [_observed(item)] for index, item in enumerate(value)}
        return Observation(others, items, {name: len(value)}, trace)
    if value is None:
        return Observation(others, {}, {}, trace)
    return Observation(others, {name: [_observed(value)]}, {}, trace)


def _observed(value: Any) -> Observed:
    known, tree = plain_value(value), tree_of(value)
    if type(known) is int or tree[0] == "name":
        return Observed(_frozen(known), tree)
    return Observed(_frozen(known), ("value", _frozen(known)))


def _frozen(value: Any) -> Any:
    """Return a value with tuples in place of lists, so that it can be a leaf of a tree."""
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return value


def _unfrozen(leaf: Tree) -> Tree:
    """Return a leaf in the form that can be written: a tuple becomes a list of its items."""
    if leaf[0] == "value" and isinstance(leaf[1], tuple):
        return ("list", *[_unfrozen(("value", item)) for item in leaf[1]])
    return leaf


def _is_expressible(observation: Observation) -> bool:
    """Whether expressions can hold all values; no expression can hold a dict."""
    return all(_is_literal(observed.value) for (observed,) in observation.values.values())


def _is_literal(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_literal, value))
    return value is None or isinstance(value, bool | int | float | str)


def _list_of_any_length(name: str, values: dict[str, Tree], common: InCommon) -> Tree | None:
    """Return a list as ``[item for i in range(count)]``."""
    item, count = values.get(f"{name}.{{0}}"), common.repeats[name]
    if item is None or count is None or common.conditions:
        return None

    def with_counter(leaf: Tree) -> Tree:
        if leaf[0] == "index":
            return ("name", "i")
        return _unfrozen(leaf)

    return ("for", "i", count, replaced(item, with_counter))
