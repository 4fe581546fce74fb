"""Lists of a config that belong together: those with one item for each stage."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from weighbridge.derive.probing.candidates import SMALLEST_SIZE

if TYPE_CHECKING:
    from random import Random

    from weighbridge.derive.probing.state import Changes, Exploration

FEWEST_STAGES = 2  # items of a list with one item for each stage
MOST_STAGES = 8
DRAWN_CHANCE = 0.4  # of drawing other items for the lists of one length
REPEATED_CHANCE = 0.3  # of an item that is like the one before: code asks whether a stage widens
COUNTED_CHANCE = 0.5  # of turning the fields that may count the stages, too
ALONE_CHANCE = 0.5  # of drawing one list alone, if lists have at most one item each
SHORTER_CHANCE = 0.25  # of drawing any smaller number of items, where several are the default
STEPS = (-1, 0, 0, 0, 1, 1, 2, 3)  # items more than by default, otherwise
ITEMS_OF_EMPTY = (1, 2, 3, 8, 12, 16, 24, 40)  # numbers of layers, or sizes
_STAGE_COUNT = re.compile("num_|stage|level|n_")


def lists_of_stages(
    exploration: Exploration, fewest: int = FEWEST_STAGES
) -> dict[tuple[str, int], Changes]:
    """Return the lists of each length in each sub-config: their values in the base, by path."""
    lists: dict[tuple[str, int], Changes] = {}
    for path, knob in exploration.knobs.items():
        value = exploration.value_in_base(knob)
        if isinstance(value, list | tuple) and fewest <= len(value) <= MOST_STAGES:
            holder = path.rpartition(".")[0]
            lists.setdefault((holder, len(value)), {})[path] = value
    return lists


def stage_counts(exploration: Exploration, holder: str, length: int) -> list[str]:
    """Return the fields of a sub-config that count its stages, judging by their names."""
    return [
        path
        for path, knob in exploration.knobs.items()
        if type(knob.value) is int
        and knob.value == length
        and path.rpartition(".")[0] == holder
        and _STAGE_COUNT.search(path)
    ]


def drawn_lists(exploration: Exploration) -> Changes:
    """Return the lists of one length, often with another length, with items drawn one by one.

    Lists that were changed as a whole hide what code does with each item: whether a stage is as
    wide as the one before, or has an item that no rule gives.
    """
    random, turned = exploration.random, exploration.findings.turned
    every_list = lists_of_stages(exploration, fewest=0)
    for path, turn in exploration.findings.turns.items():
        if turn.value is None and any(isinstance(value, list) for value in turn.values):
            every_list.setdefault((path.rpartition(".")[0], 0), {})[path] = []
    groups = {key: lists for key, lists in every_list.items() if turned & lists.keys()}
    if not groups or random.random() > DRAWN_CHANCE:
        return {}
    (holder, length), lists = random.choice([*groups.items()])
    if length < FEWEST_STAGES and random.random() < ALONE_CHANCE:
        path = random.choice(sorted(turned & lists.keys()))
        lists = {path: lists[path]}
    drawn_length = _drawn_length(random, length)
    changes = {
        path: type(items)(_drawn_items(random, [*items], drawn_length))
        for path, items in lists.items()
        if path in turned or drawn_length != length
    }
    if drawn_length != length and random.random() < COUNTED_CHANCE:
        changes |= dict.fromkeys(stage_counts(exploration, holder, length), drawn_length)
    return changes


def without_lists(changes: Changes) -> Changes:
    """Return the changes of other fields than lists.

    Example:
        >>> without_lists({"layers": 3, "layer_types": ["full", "full"]})
        {'layers': 3}
    """
    return {path: value for path, value in changes.items() if not isinstance(value, list | tuple)}


def _drawn_length(random: Random, length: int) -> int:
    """Return a number of items; none only where one item at most is the default."""
    if length > 1 and random.random() < SHORTER_CHANCE:
        return random.randrange(1, length)
    return max(0, length + random.choice(STEPS))


def _drawn_items(random: Random, items: list[Any], length: int) -> list[Any]:
    """Return items of the same kind: numbers keep the divisors that all of them have."""
    choices = items or [*ITEMS_OF_EMPTY]
    if items and all(type(item) is int and item > 0 for item in items):
        is_of_sizes = max(items) >= SMALLEST_SIZE
        unit = math.gcd(*items) if is_of_sizes else 1
        choices = [*range(unit, (2 if is_of_sizes else 1) * max(items) + 2, unit)]
    drawn: list[Any] = []
    for _ in range(length):
        is_repeated = drawn and random.random() < REPEATED_CHANCE
        drawn.append(drawn[-1] if is_repeated else random.choice(choices))
    return drawn
