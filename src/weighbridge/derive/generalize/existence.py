"""Names with their places, and the condition under which each path exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weighbridge.derive.generalize.places import list_above, merged_order, paths_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

    A path that always exists is left out.
    """
    present = _present(evidence, named)
    found: dict[str, Tree | None] = {}
    for (list_path, path), flags in present.items():
        level = evidence.levels[list_path]
        everywhere = np.ones(len(level.places), dtype=bool)
        mask = present.get((list_path, path.rpartition(".")[0]), everywhere)
        if not flags[mask].all():
            found[path] = evidence.condition(level, flags, mask)
    return found


def _present(evidence: Evidence, named: Iterable[Templated]) -> dict[tuple[str, str], Flags]:
    """Return the places of a level where a path exists, by level and path."""
    present: dict[tuple[str, str], Flags] = {}

    def add(path: str, level: Level, flags: Flags) -> None:
        for part in paths_below(level.path, path):
            key = (level.path, part)
            present[key] = present[key] | flags if key in present else flags

    for template, level, names in named:
        add(template, level, level.flags(names))
    for list_path in evidence.repeats:
        parent = evidence.levels[list_above(list_path)]
        lengths = evidence.levels[list_path].lengths
        add(list_path, parent, parent.flags(place for place, length in lengths.items() if length))
    return present
