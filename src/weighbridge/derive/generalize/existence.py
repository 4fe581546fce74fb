"""Names with their places, and the condition under which each path exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.rewrite import negated
from weighbridge.derive.generalize.places import (
    list_above,
    merged_order,
    paths_below,
    values_at,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.evidence import Evidence
    from weighbridge.derive.generalize.places import Flags, Level, Place


class Templated(NamedTuple):
    """A name with ``{0}``, ``{1}`` for indices, and its full name at each place."""

    template: str
    level: Level
    names: dict[Place, str]


def templates(evidence: Evidence, names: Sequence[Iterable[str]]) -> list[Templated]:
    """Return the names of all observations as templates, in an order that agrees with each."""
    names_of: dict[str, dict[Place, str]] = {}
    orders: list[list[str]] = []
    for row, observed_names in enumerate(names):
        order: list[str] = []
        for name in observed_names:
            template, indices = evidence.template(name)
            names_of.setdefault(template, {})[row, indices] = name
            order.append(template)
        orders.append(order)
    return [
        Templated(template, evidence.levels[list_above(template)], names_of[template])
        for template in merged_order(orders)
    ]


def conditions(evidence: Evidence, named: Iterable[Templated]) -> dict[str, Tree | None]:
    """Return the condition under which each path exists if its parent does; None if none fits.

    A path that always exists is left out. A tensor may have the name that a module has in other
    configs: its condition is its own then, and says nothing about the tensors of that module.
    """
    named_list = list(named)
    tensors = {template for template, _, _ in named_list}
    present = _present(evidence, named_list, tensors)
    found: dict[str, Tree | None] = {}
    for (list_path, path), flags in present.items():
        level = evidence.levels[list_path]
        everywhere = np.ones(len(level.places), dtype=bool)
        mask = present.get((list_path, _module_above(path, tensors)), everywhere)
        if not flags[mask].all():
            listed = None if list_path else _named_in_list(evidence, path, flags, mask)
            condition = listed or evidence.condition(level, flags, mask)
            if condition or not _is_counted(evidence, path, level, mask & ~flags):
                found[path] = condition
    return found | _opposites(present, found)


def _is_counted(evidence: Evidence, path: str, level: Level, absent: Flags) -> bool:
    """Whether a path is a list whose number of modules is 0 where it is absent."""
    count = evidence.repeats.get(path)
    if count is None:
        return False
    places = [place for place, is_absent in zip(level.places, absent, strict=True) if is_absent]
    return {*values_at(count, evidence.environments(places))} == {0}


def _opposites(
    present: Mapping[tuple[str, str], Flags], found: Mapping[str, Tree | None]
) -> dict[str, Tree]:
    """Return the conditions of paths that exist exactly where another one beside them does not.

    An ``else`` may join more conditions than a search can, where those of its ``if`` are few.
    """
    opposites: dict[str, Tree] = {}
    for (list_path, path), flags in present.items():
        if path not in found or found[path] is not None:
            continue
        for (other_list, other), other_flags in present.items():
            condition = found.get(other)
            are_beside = other_list == list_path and _parent(other) == _parent(path)
            if condition is not None and are_beside and (flags == ~other_flags).all():
                opposites[path] = negated(condition)
                break
    return opposites


def _named_in_list(evidence: Evidence, path: str, flags: Flags, mask: Flags) -> Tree | None:
    """Return the condition that a list of texts names a module, if it has the name of a text.

    A dict of modules has a text of a config as each key: `hidden_states_norms.stage2`.
    """
    key = path.rpartition(".")[2]
    all_fields = [observation.fields for observation in evidence.observations]
    for name in _lists_with(key, all_fields):
        lists = [fields.get(name) for fields in all_fields]
        named = np.array([isinstance(value, list) and key in value for value in lists])
        if (named[mask] == flags[mask]).all():
            return ("in", ("value", key), ("name", name))
    return None


def _lists_with(text: str, all_fields: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the fields whose lists have this text, those with the fewest other items first."""
    items_in: dict[str, int] = {}
    for fields in all_fields:
        for name, value in fields.items():
            if isinstance(value, list) and text in value:
                items_in[name] = items_in.get(name, 0) + len(value)
    return sorted(items_in, key=lambda name: (items_in[name], name))


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _module_above(path: str, tensors: Collection[str]) -> str:
    """Return the path of the module around a path that no tensor has as its name."""
    parent = _parent(path)
    while parent in tensors:
        parent = _parent(parent)
    return parent


def _present(
    evidence: Evidence, named: Sequence[Templated], tensors: Collection[str]
) -> dict[tuple[str, str], Flags]:
    """Return the places of a level where a path exists, by level and path."""
    present: dict[tuple[str, str], Flags] = {}

    def add(path: str, level: Level, flags: Flags) -> None:
        for part in paths_below(level.path, path):
            if part != path and part in tensors:
                continue
            key = (level.path, part)
            present[key] = present[key] | flags if key in present else flags

    for template, level, names in named:
        add(template, level, level.flags(names))
    for list_path in evidence.repeats:
        parent = evidence.levels[list_above(list_path)]
        lengths = evidence.levels[list_path].lengths
        add(list_path, parent, parent.flags(place for place, length in lengths.items() if length))
        present[parent.path, list_path] |= _single_modules(list_path, parent, named)
    return present


def _single_modules(list_path: str, level: Level, named: Iterable[Templated]) -> Flags:
    """Return the places where an item of a list is one module, which is a list at others."""
    flags = level.flags(())
    for template, its_level, names in named:
        if its_level is level and template.startswith(f"{list_path}."):
            flags |= level.flags(names)
    return flags
