"""Unites the expressions that several configs give for one value into one expression.

Between places, the expressions of a value differ in their numbers (a loop was in its third round)
or altogether (another branch was taken). Expressions of the same form are united; the forms are
joined by conditions.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weighbridge.algebra.rewrite import leaves
from weighbridge.derive.generalize.conditions import PERIODS
from weighbridge.derive.generalize.evidence import MOST_ANSWERS
from weighbridge.derive.generalize.lost_values import plus, simple_terms
from weighbridge.derive.generalize.places import value_at
from weighbridge.derive.generalize.reversed_lists import is_item, listed_items_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.evidence import Evidence
    from weighbridge.derive.generalize.places import Flags, Level, Observed, Place

MOST_PIECES = 5  # pieces of a conditional expression; a longer chain is not a rule
MOST_CONSTANTS = 8  # constants that are tried as pieces
MOST_DISTANCES = 3  # distances at which numbers follow an index; more are chance
MOST_NUMBERS = 4  # sets of numbers by which one form is split, if they follow no index


@dataclass
class _Way:
    """An expression, and the places whose value it gives."""

    tree: Tree
    places: list[Place]


def expression_of(evidence: Evidence, level: Level, seen: Mapping[Place, Observed]) -> Tree | None:
    """Return the expression for the values seen at these places; None if there is none."""
    waiting = _by_form(seen)
    ways: list[_Way] = []
    while waiting:
        places = waiting.pop(0)
        values = {place: seen[place].value for place in places}
        if _is_known(evidence, ways, values):
            continue
        tree, parts = _tree_or_parts(evidence, level, places, seen)
        if tree is not None:
            ways.append(_Way(tree, list(places)))
        elif len(parts) > 1:
            waiting = [*parts, *waiting]
        else:
            return None
    return _chosen(evidence, level, ways, seen)


def _tree_or_parts(
    evidence: Evidence, level: Level, places: list[Place], seen: Mapping[Place, Observed]
) -> tuple[Tree | None, list[list[Place]]]:
    """Return one expression for places with trees of the same form, or parts of the places."""
    trees = [seen[place].tree for place in places]
    values = {place: seen[place].value for place in places}
    tree = _single(evidence, trees, values)
    parts = _parts(evidence, trees, places) if tree is None else []
    if tree is not None or len(parts) > 1:
        return tree, parts
    tree = piecewise(evidence, level, values)
    parts = [] if tree else _parts_by_answers(evidence, places, seen)
    return tree, parts


def _is_known(evidence: Evidence, ways: list[_Way], values: Mapping[Place, Any]) -> bool:
    """Whether one of these ways gives these values too; the first such way gets their places."""
    for way in ways:
        if gives(evidence, way.tree, values):
            way.places.extend(values)
            return True
    return False


def _by_form(seen: Mapping[Place, Observed]) -> list[list[Place]]:
    """Return groups of places whose expressions differ only in numbers, the largest first."""
    by_form: dict[Tree, list[Place]] = {}
    for place, observed in seen.items():
        by_form.setdefault(_form(observed.tree), []).append(place)
    return sorted(by_form.values(), key=len, reverse=True)


def gives(evidence: Evidence, tree: Tree, values: Mapping[Place, Any]) -> bool:
    """Whether an expression has these values.

    A text or a flag is never taken from another field: it has few possible values, so two fields
    that agree in a few configs are weak evidence.
    """
    for place, value in values.items():
        if type(value) is int:
            if value_at(tree, evidence.environment(place)) != value:
                return False
        elif tree[0] != "value" or not is_same(tree[1], value):
            return False
    return True


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are identical; 1, 1.0 and true differ."""
    return repr(one) == repr(other)


def piecewise(
    evidence: Evidence, level: Level, values: Mapping[Place, Any], bounds: Sequence[Tree] = ()
) -> Tree | None:
    """Return a conditional expression for values that no single expression gives."""
    places = list(values)
    options = _options(evidence, values, bounds)
    is_open = np.ones(len(places), dtype=bool)
    pieces: list[tuple[Tree, Tree]] = []
    while is_open.any() and len(pieces) < MOST_PIECES:
        tree, hits = max(options, key=lambda option: int((option[1] & is_open).sum()))
        given = hits & is_open
        if not given.any():
            return None
        condition = evidence.condition(
            level,
            level.flags(place for place, flag in zip(places, given, strict=True) if flag),
            level.flags(place for place, flag in zip(places, is_open, strict=True) if flag),
        )
        if condition is None:
            return None
        pieces.append((tree, condition))
        is_open &= ~given
    if is_open.any():
        return None
    return _conditional(pieces)


def _options(
    evidence: Evidence, values: Mapping[Place, Any], bounds: Sequence[Tree]
) -> list[tuple[Tree, Flags]]:
    """Return simple expressions and constants, each with the places whose value it gives."""
    wanted = list(values.values())
    is_number = np.array([type(value) is int for value in wanted])
    numbers = np.array([value if type(value) is int else 0 for value in wanted])
    simple = simple_terms(evidence.environments(values), bounds)
    options = [(tree, (given == numbers) & is_number) for tree, given in simple]
    constants = sorted({value for value in wanted if type(value) is int})
    others = {repr(value): value for value in wanted if type(value) is not int}
    for constant in [*constants, *others.values()][:MOST_CONSTANTS]:
        hits = np.array([is_same(value, constant) for value in wanted])
        options.append((("value", constant), hits))
    return options


def _single(evidence: Evidence, trees: list[Tree], values: Mapping[Place, Any]) -> Tree | None:
    """Return one expression for trees of the same form, united or found by value."""
    places = list(values)
    tree = _united(evidence, trees, places)
    if tree is not None and gives(evidence, tree, values):
        return tree
    wanted = list(values.values())
    if all(type(value) is int for value in wanted):
        return evidence.lost_values.expression(wanted, evidence.environments(places))
    if all(is_same(value, wanted[0]) for value in wanted):
        return ("value", wanted[0])
    return None


def _united(evidence: Evidence, trees: list[Tree], places: list[Place]) -> Tree | None:
    """Return one tree for trees that differ only in their numbers."""
    first = trees[0]
    if first[0] in ("value", "loop"):
        return _united_numbers(evidence, first[0], [tree[-1] for tree in trees], places)
    if first[0] in ("name", "index"):
        return first
    from_end = _united_from_end(evidence, trees, places)
    if from_end is not None:
        return from_end
    operands: list[Tree] = []
    for position in range(1, len(first)):
        operand = _united(evidence, [tree[position] for tree in trees], places)
        if operand is None:
            return None
        operands.append(operand)
    return (first[0], *operands)


def _united_numbers(
    evidence: Evidence, kind: str, numbers: list[Any], places: list[Place]
) -> Tree | None:
    """Return an expression for the numbers at one position of several trees."""
    index = _index_followed(numbers, places)
    if kind == "loop" and index:
        return index
    if all(is_same(number, numbers[0]) for number in numbers):
        return ("value", numbers[0])
    if index or not all(type(number) is int for number in numbers):
        return index
    return evidence.lost_values.expression(numbers, evidence.environments(places))


def _index_followed(numbers: list[Any], places: list[Place]) -> Tree | None:
    """Return the index that these numbers follow at a fixed distance, plus that distance.

    Where each round of a loop adds several modules, numbers follow the round of an index.
    """
    if not all(type(number) is int for number in numbers):
        return None
    for modules, depth in itertools.product((1, *PERIODS), range(len(places[0][1]))):
        indices = [place_indices[depth] // modules for _, place_indices in places]
        distances = {number - index for number, index in zip(numbers, indices, strict=True)}
        if len(distances) == 1 and len(set(indices)) > 1:
            index: Tree = ("index", depth)
            followed = index if modules == 1 else ("//", index, ("value", modules))
            return plus(followed, distances.pop())
    return None


def _united_from_end(evidence: Evidence, trees: list[Tree], places: list[Place]) -> Tree | None:
    """Return items of a list field by their index from its end, as in a reverse loop."""
    first = trees[0]
    if not is_item(first):
        return None
    items = [evidence.environment(place).get(first[1][1]) for place in places]
    positions = [tree[2][1] for tree in trees]
    if not all(isinstance(value, list) for value in items):
        return None
    if not all(type(position) is int for position in positions):
        return None
    for depth in range(len(places[0][1])):
        indices = [place_indices[depth] for _, place_indices in places]
        offsets = set()
        for position, index, value in zip(positions, indices, items, strict=True):
            offsets.add(position + index - len(value or ()))
        if len(offsets) == 1 and len(set(indices)) > 1:
            return ("[]", first[1], ("-", ("value", offsets.pop()), ("index", depth)))
    return None


def _form(tree: Tree) -> Tree:
    """Return a tree without its numbers."""
    if tree[0] in ("value", "loop"):
        return ("value",)
    if tree[0] in ("name", "index"):
        return tree
    return (tree[0], *map(_form, tree[1:]))


def _parts(evidence: Evidence, trees: list[Tree], places: list[Place]) -> list[list[Place]]:
    """Split the places by the distance of a number to an index, or else by all numbers.

    The numbers may be of items of a list that is walked backwards; that takes fewer parts.
    """
    numbers_at = [_numbers_in(tree) for tree in trees]
    if not numbers_at[0]:
        return []
    by_distance: list[list[list[Place]]] = []
    for numbers in zip(*numbers_at, strict=True):
        if len(set(numbers)) > 1 and all(type(number) is int for number in numbers):
            depths = range(len(places[0][1]))
            by_distance += [_parts_by_distance(numbers, places, depth) for depth in depths]
    by_distance = [parts for parts in by_distance if 1 < len(parts) <= MOST_DISTANCES]
    if by_distance:
        return min(by_distance, key=len)
    by_numbers = _grouped(numbers_at, places)
    from_end = _parts_from_end(evidence, trees, places)
    if from_end and len(from_end) < len(by_numbers):
        return from_end
    return by_numbers if len(by_numbers) <= MOST_NUMBERS else []


def _grouped(keys: Iterable[Any], places: Iterable[Place]) -> list[list[Place]]:
    """Return the places that have each key."""
    groups: dict[Any, list[Place]] = {}
    for key, place in zip(keys, places, strict=True):
        groups.setdefault(key, []).append(place)
    return [*groups.values()]


def _parts_from_end(
    evidence: Evidence, trees: list[Tree], places: list[Place]
) -> list[list[Place]]:
    """Split the places by how far from the end of a list an item is, beside an index.

    Only the code of strangers is looked at so.
    """
    if not evidence.rounds_apart:
        return []
    for depth in range(len(places[0][1])):
        offsets = [
            tuple(
                _from_end(item, evidence.environment(place), place[1][depth])
                for item in listed_items_in(tree)
            )
            for tree, place in zip(trees, places, strict=True)
        ]
        if () not in offsets and 1 < len({*offsets}) <= MOST_DISTANCES:
            return _grouped(offsets, places)
    return []


def _from_end(item: Tree, environment: Mapping[str, Any], index: int) -> int | None:
    """Return how far before the end an item is, less an index; None if that is not known."""
    _, (_, field), (_, number) = item
    items = environment.get(field)
    if not isinstance(items, list | tuple) or type(number) is not int:
        return None
    return number + index - (len(items) if number >= 0 else 0)


def _parts_by_answers(
    evidence: Evidence,
    places: list[Place],
    seen: Mapping[Place, Observed],
    answers: int = MOST_ANSWERS,
) -> list[list[Place]]:
    """Split the places by the answers to up to so many questions, so that each part has one tree.

    A flag may add a module to each round of a loop; then the round of an index depends on it.
    """
    if _follow_an_index([seen[place].tree for place in places], places):
        return [places]
    if not answers:
        return []
    for _, *parts in evidence.splits(places):
        halves = [_parts_by_answers(evidence, part, seen, answers - 1) for part in parts]
        if all(halves):
            return [*itertools.chain.from_iterable(halves)]
    return []


def _follow_an_index(trees: list[Tree], places: list[Place]) -> bool:
    """Whether every number that differs between trees of the same form follows an index."""
    rows = zip(*map(_numbers_in, trees), strict=True)
    return all(len({*map(repr, row)}) == 1 or _index_followed([*row], places) for row in rows)


def _numbers_in(tree: Tree) -> tuple[Any, ...]:
    return tuple(leaf[-1] for leaf in leaves(tree) if leaf[0] in ("value", "loop"))


def _parts_by_distance(
    numbers: Sequence[int], places: list[Place], depth: int
) -> list[list[Place]]:
    distances = (number - place[1][depth] for number, place in zip(numbers, places, strict=True))
    return _grouped(distances, places)


def _chosen(
    evidence: Evidence, level: Level, ways: list[_Way], seen: Mapping[Place, Observed]
) -> Tree | None:
    """Return one expression that chooses between several ways to compute a value."""
    waiting = list(ways)
    pieces: list[tuple[Tree, Tree]] = []
    while waiting:
        way = waiting.pop(0)
        condition = evidence.condition_between(level, way.places, _all_places(waiting))
        if condition is None or condition[0] in ("and", "or"):
            simpler = _question_where_they_differ(evidence, level, way, waiting, seen)
            condition = simpler or condition
        if condition is None:
            return None
        pieces.append((way.tree, condition))
    return _conditional(pieces)


def _question_where_they_differ(
    evidence: Evidence,
    level: Level,
    way: _Way,
    waiting: list[_Way],
    seen: Mapping[Place, Observed],
) -> Tree | None:
    """Return a question that separates a way from the others wherever their values differ.

    Where the values agree, the code may have computed them either way. The question decides which
    way gets these places.
    """

    def fitting(places: Iterable[Place], other: _Way) -> list[Place]:
        return [
            place for place in places if gives(evidence, other.tree, {place: seen[place].value})
        ]

    others = _all_places(waiting)
    either = set(fitting(others, way))
    for other in waiting:
        either.update(fitting(way.places, other))
    question = evidence.condition_between(
        level, _without(way.places, either), _without(others, either)
    )
    if question is None or question[0] in ("and", "or", "value"):
        return None
    taken = {place for place in either if value_at(question, evidence.environment(place))}
    freed = [place for place in way.places if place in either - taken]
    for other in waiting:
        other.places = [*_without(other.places, taken), *fitting(freed, other)]
    return question


def _all_places(ways: Iterable[_Way]) -> list[Place]:
    places: list[Place] = []
    for way in ways:
        places += way.places
    return places


def _without(places: Iterable[Place], excluded: set[Place]) -> list[Place]:
    return [place for place in places if place not in excluded]


def _conditional(pieces: list[tuple[Tree, Tree]]) -> Tree:
    """Return an expression for the first piece whose condition holds; the last always holds."""
    tree = pieces[-1][0]
    for value, condition in reversed(pieces[:-1]):
        tree = ("if", condition, value, tree)
    return tree
