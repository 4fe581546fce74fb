"""Repeated names and their numbers: module lists, and stems such as expert_0, expert_1."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.rewrite import NULL, ZERO, field_names, joined
from weighbridge.derive.generalize.evidence import MOST_ANSWERS
from weighbridge.derive.generalize.expressions import piecewise
from weighbridge.derive.generalize.places import Level, list_above
from weighbridge.derive.generalize.stages import find_stages
from weighbridge.derive.probing.symbolic import node_count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.evidence import Evidence
    from weighbridge.derive.generalize.places import Place


FEWEST_LENGTHS = 3  # a line fits any two
IN_A_ROUND = (2, 3, 4)  # modules that a loop adds: attention, cross-attention, and two more


class _Length(NamedTuple):
    """The length of a list at one place."""

    place: Place
    length: int
    is_stem: bool
    """Whether the list is not a module list, but numbered names."""


class _ListSeen(NamedTuple):
    """The length of a list at a path of one observation."""

    observation: int
    path: str
    length: int
    is_stem: bool


def find_repeats(evidence: Evidence, *, until_unknown: bool = False) -> None:
    """Add the lists with several modules in some observation, from the outside in.

    ``until_unknown`` ends this at the first list whose number of modules is not found.
    """
    by_depth: dict[int, list[_ListSeen]] = {}
    for seen in _lists(evidence):
        by_depth.setdefault(seen.path.count("."), []).append(seen)
    for depth in sorted(by_depth):
        for template, lengths in _by_template(evidence, by_depth[depth]).items():
            if _is_repeated(lengths):
                _add_list(evidence, template, lengths)
            if until_unknown and evidence.repeats.get(template, ZERO) is None:
                return


def _is_repeated(lengths: Iterable[_Length]) -> bool:
    """Whether a list has several lengths, besides none."""
    return len({seen.length for seen in lengths if seen.length}) > 1


def _by_template(evidence: Evidence, lists: Iterable[_ListSeen]) -> dict[str, list[_Length]]:
    by_template: dict[str, list[_Length]] = {}
    for observation, path, length, is_stem in lists:
        template, indices = evidence.template(path)
        seen = _Length((observation, indices), length, is_stem)
        by_template.setdefault(template, []).append(seen)
    return by_template


def _lists(evidence: Evidence) -> Iterator[_ListSeen]:
    for number, observation in enumerate(evidence.observations):
        for path, length in observation.lengths.items():
            yield _ListSeen(number, path, length, is_stem=False)
        for path, length in observation.stems.items():
            yield _ListSeen(number, path, length, is_stem=path not in observation.lengths)


def _add_list(evidence: Evidence, template: str, lengths: list[_Length]) -> None:
    parent = evidence.levels[list_above(template)]
    length_at = {seen.place: seen.length for seen in lengths if seen.place in parent.position}
    present = {place: length_at[place] for place in parent.places if length_at.get(place)}
    count = _count(evidence, template, present)
    if all(seen.is_stem for seen in lengths) and (count is None or not field_names(count)):
        return  # numbered names that no field counts, such as fc1 and fc2, are not a list
    if count is None:
        count = _piecewise_count(evidence, parent, present)
    if count is None:
        count = _count_by_answers(evidence, present)
    if count is not None:
        count = _zero_if_absent(evidence, template, count, present)
    items: list[Place] = []
    for (row, indices), length in present.items():
        items.extend((row, (*indices, index)) for index in range(length))
    evidence.repeats[template] = count
    evidence.levels[template] = Level(
        template, items, evidence.observations, length_at, evidence.stages
    )


def _piecewise_count(
    evidence: Evidence, parent: Level, present: Mapping[Place, int]
) -> Tree | None:
    """Return a conditional expression for the lengths of a list; the shorter of two ways.

    Without multiples of bounds, constants may fit the few places where a loop adds several modules.
    """
    bounds = evidence.lost_values.bounds
    ways = [
        piecewise(evidence, parent, present, options)
        for options in (bounds, [*bounds, *_multiples(bounds)])
    ]
    return min(filter(None, ways), key=node_count, default=None)


def _count_by_answers(
    evidence: Evidence, lengths: Mapping[Place, int], answers: int = MOST_ANSWERS
) -> Tree | None:
    """Return an expression for the lengths under each answer to up to so many questions.

    A flag may add a module to each round of a loop: ``3*n - 1 if norm else 2*n - 1``.
    """
    if len({*lengths.values()}) < FEWEST_LENGTHS or not answers:
        return None
    ways: list[Tree] = []
    for question, yes, no in evidence.splits(lengths):
        there, elsewhere = (
            _count_of_part(evidence, {place: lengths[place] for place in part}, answers - 1)
            for part in (yes, no)
        )
        if there is not None and elsewhere is not None:
            ways.append(("if", question, there, elsewhere))
    return min(ways, key=node_count, default=None)


def _count_of_part(evidence: Evidence, part: Mapping[Place, int], answers: int) -> Tree | None:
    environments = evidence.environments(part)
    count = evidence.lost_values.count_of_rounds([*part.values()], environments)
    return count or _count_by_answers(evidence, part, answers)


def _multiples(bounds: Iterable[Tree]) -> Iterator[Tree]:
    """Yield the numbers of modules if each round of a loop adds several."""
    for bound in bounds:
        for modules in IN_A_ROUND:
            yield ("*", ("value", modules), bound)


def _count(evidence: Evidence, template: str, lengths: Mapping[Place, int]) -> Tree | None:
    """Return the expression for the lengths of a list; if it is a flat list, note its stages."""
    bounds = evidence.lost_values.bounds
    stages = find_stages(template, lengths, bounds, evidence.observations)
    if stages is None:
        environments = evidence.environments(lengths)
        return evidence.lost_values.expression([*lengths.values()], environments, bounds)
    evidence.add_stages(template, stages)
    return stages.total


def _zero_if_absent(
    evidence: Evidence, template: str, count: Tree, present: Collection[Place]
) -> Tree | None:
    """Return a list's number of modules, 0 where it is absent or a single module instead."""
    parent = evidence.levels[list_above(template)]
    absent = [place for place in parent.places if place not in present]
    count = _zero_if_null(evidence, count, absent)
    single = [place for place in absent if _holds_tensors(evidence, template, place)]
    if not single:
        return count
    is_list = evidence.condition_between(parent, present, single)
    return is_list and ("if", is_list, count, ("value", 0))


def _holds_tensors(evidence: Evidence, template: str, place: Place) -> bool:
    """Whether a module that is not a list has this path at a place."""
    observation, indices = place
    path = template.format(*indices)
    return any(name.startswith(f"{path}.") for name in evidence.observations[observation].values)


def _zero_if_null(evidence: Evidence, count: Tree, absent: Iterable[Place]) -> Tree:
    """Return an expression for a number of modules, 0 if one of its fields is null."""
    fields = field_names(count)
    nulls: set[str] = set()
    for place in absent:
        environment = evidence.environment(place)
        nulls |= {name for name in fields if name in environment and environment[name] is None}
    if not nulls:
        return count
    given: list[Tree] = [("!=", ("name", name), NULL) for name in sorted(nulls)]
    return ("if", joined("and", given), count, ("value", 0))
