"""A config's field as an expression over its other fields, generalized over its values."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.rewrite import NULL, replaced
from weighbridge.derive.generalize.generalize import in_common
from weighbridge.derive.generalize.places import Observation, Observed
from weighbridge.derive.probing.symbolic import plain_value, tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.generalize import InCommon
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Subject

    ItemsOf = Callable[[str, Any, dict[str, int]], Iterator[tuple[str, Any]]]

_FIELD = "field"  # the path of the value in observations; a field's own name may have dots
_COUNTERS = "ij"  # of the loops of a list, and of the lists in it


def field_expression(
    subject: Subject, name: str, probes: Sequence[Probe], *, from_config: bool = False
) -> Tree | None:
    """Return the expression for a field's value in these probes; None if there is none.

    With ``from_config`` the field's own name in the expression means its value in the config.
    """
    forms = [_items]
    if any(map(_is_list, _items_in(name, probes))):
        forms.append(_items_of_items)
    for items_of in forms:
        observe = partial(_observation, subject, items_of=items_of, from_config=from_config)
        observations = [observe(name, probe) for probe in probes]
        tree = _expression(observations)
        if tree is None and not from_config:
            tree = _expression(_with_others(subject, name, observations, probes))
        if tree is not None:
            return tree
    return None


def _items_in(name: str, probes: Sequence[Probe]) -> Iterator[Any]:
    for probe in probes:
        if _is_list(probe.fields[name]):
            yield from probe.fields[name]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _with_others(
    subject: Subject, name: str, observations: Sequence[Observation], probes: Sequence[Probe]
) -> list[Observation]:
    """Return observations with the fields that were asked about, and follow from others.

    The list is empty if there are no such fields.
    """
    following = _following_others(subject, name, observations, probes)
    if not following:
        return []
    with_others: list[Observation] = []
    for observation, probe in zip(observations, probes, strict=True):
        others = {field: probe.fields.get(field) for field in following}
        with_others.append(observation._replace(fields={**observation.fields, **others}))
    return with_others


def default_expression(subject: Subject, name: str, probes: Sequence[Probe]) -> Tree | None:
    """Return the expression for a field that no config sets; others may count as null in it."""
    tree = field_expression(subject, name, probes)
    if tree is not None:
        return tree
    observations = [_observation(subject, name, probe) for probe in probes]
    return _expression(_with_nulls(observations, probes))


def _following_others(
    subject: Subject, name: str, observations: Sequence[Observation], probes: Sequence[Probe]
) -> list[str]:
    """Return the fields that are asked about, and that themselves follow from others."""
    asked: set[str] = set()
    for observation in observations:
        asked |= observation.trace.fields_asked
    known = set(observations[0].fields).intersection(*(seen.fields for seen in observations))
    following: list[str] = []
    for field in sorted(asked - known - {name}):
        free = [probe for probe in probes if field not in probe.changes and field in probe.fields]
        alone = [_observation(subject, field, probe) for probe in free]
        if free and _expression(alone) is not None:
            following.append(field)
    return following


def _expression(observations: Sequence[Observation]) -> Tree | None:
    if not observations or not all(map(_is_expressible, observations)):
        return None
    common = in_common(observations)
    if not common.is_complete:
        return None
    values = {template: trees[0] for template, trees in common.expressions.items() if trees}
    if _FIELD in common.repeats:
        return _list_of_any_length(_FIELD, values, common)
    tree = _value_or_items(values, common)
    if tree is None:
        return None
    exists = common.conditions.get(_FIELD)
    if exists is not None:
        tree = ("if", exists, tree, ("list",) if _is_ever_empty(observations) else NULL)
    return replaced(tree, _unfrozen)


def _value_or_items(values: dict[str, Tree], common: InCommon) -> Tree | None:
    """Return a single value, or a list that always has the same items; None for other lists."""
    items = [value for template, value in values.items() if template.startswith(f"{_FIELD}.")]
    if not items:
        return values.get(_FIELD)
    if common.conditions.keys() - {_FIELD}:
        return None
    return ("list", *items)


def _is_ever_empty(observations: Sequence[Observation]) -> bool:
    """Whether a field is an empty list in some config, rather than null."""
    return any(observation.lengths.get(_FIELD) == 0 for observation in observations)


def _items(path: str, value: Any, lengths: dict[str, int]) -> Iterator[tuple[str, Any]]:
    """Yield a value, or the items of a list, by path; add the list's length."""
    if not _is_list(value):
        yield path, value
        return
    lengths[path] = len(value)
    for index, item in enumerate(value):
        yield f"{path}.{index}", item


def _items_of_items(path: str, value: Any, lengths: dict[str, int]) -> Iterator[tuple[str, Any]]:
    """Yield the items of the lists in a list, by path; add the lengths of all lists."""
    for inner_path, inner in _items(path, value, lengths):
        yield from _items(inner_path, inner, lengths)


def _observation(
    subject: Subject,
    name: str,
    probe: Probe,
    *,
    items_of: ItemsOf = _items,
    from_config: bool = False,
) -> Observation:
    """Return what a probe shows about a field: its value, or the items of its list, if not null."""
    made, trace = subject.remembered(probe)
    value = made.get(name, probe.fields[name])
    others: dict[str, Any] = {}
    for field, known in probe.fields.items():
        has_own_value = subject.stated.get(field) is not None or field in probe.changes
        if field != name and (has_own_value or known is None):
            others[field] = known
        elif field != name and field in subject.stated:
            others[field] = None  # as the config has it, before the class computes a value
    if from_config:
        others[name] = probe.changes.get(name, subject.stated.get(name))
    if value is None:
        return Observation(others, {}, {}, trace)
    lengths: dict[str, int] = {}
    items = dict(items_of(_FIELD, value, lengths))
    values = {path: [_observed(item)] for path, item in items.items()}
    return Observation(others, values, lengths, trace)


def _with_nulls(observations: Sequence[Observation], probes: Sequence[Probe]) -> list[Observation]:
    """Return observations in which the fields that the class computes are null."""
    nulled: list[Observation] = []
    for observation, probe in zip(observations, probes, strict=True):
        others: dict[str, Any] = {**dict.fromkeys(probe.fields), **observation.fields}
        nulled.append(observation._replace(fields=others))
    return nulled


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


def _list_of_any_length(path: str, values: dict[str, Tree], common: InCommon) -> Tree | None:
    """Return a list as ``[item for i in range(count)]``."""
    depth = path.count("{")
    item_path, count = f"{path}.{{{depth}}}", common.repeats[path]
    if item_path in common.repeats:
        item = _list_of_any_length(item_path, values, common)
    else:
        item = values.get(item_path)
    if item is None or count is None or common.conditions:
        return None

    def with_counter(leaf: Tree) -> Tree:
        if leaf == ("index", depth):
            return ("name", _COUNTERS[depth])
        return _unfrozen(leaf)

    return ("for", _COUNTERS[depth], count, replaced(item, with_counter))
