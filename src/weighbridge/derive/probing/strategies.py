"""The strategies of an exploration: each tries configs of one kind and keeps what is new.

`explore` runs them in order.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.rewrite import field_names, leaves
from weighbridge.derive.probing.candidates import (
    SMALLEST_SIZE,
    compared_items,
    fewer,
    other_values,
    values_about,
    values_for_none,
)
from weighbridge.derive.probing.state import LAYER_COUNT, Turn, fields_used, names_in_all
from weighbridge.derive.probing.symbolic import without_counts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.state import Changes, Exploration
    from weighbridge.derive.probing.subject import Knob

BIG_MODEL = 1200  # tensors of a model that takes too long to build repeatedly
LEFT_FOR_ANSWERS = 0.4  # share of the budget that turning fields one by one leaves to the rest
LEFT_FOR_CHANCE = 0.35  # share that answers and pairs leave for random configs
MOST_CHANGES = 3  # values of a field that change tensors: two determine a line, a third confirms it
MOST_TAKEN = 6  # accepted values of one field
TRIES_IN_VAIN = 2  # values that change no tensor, after which a field is given up
MOST_FLAGS = 8  # flags with which a refused field is turned
VALUES_WITH_FLAG = 2  # values of a refused field that are tried with each flag
MOST_ITEMS = 64  # items of a list whose items are exchanged; no list of layers is longer
MOST_STAGES = 8  # items of a list with one item for each stage
MOST_PAIRS = 120  # the number of pairs of 16 choices
_STAGE_COUNT = re.compile("num_|stage|level|n_")


# A model of few layers


def shrink(exploration: Exploration) -> None:
    """Find a base with few layers, and keep it; keep the default too if it is cheap to build."""
    findings, subject = exploration.findings, exploration.subject
    findings.base = dict(exploration.start)
    _add_optional(exploration)
    default = subject.probe(exploration.class_name, dict(findings.base))
    findings.is_cheap = len(default.tensors) < BIG_MODEL
    smallest = default
    for path in _layer_counts(exploration, default):
        value = default.fields.get(path)
        is_worked_out = isinstance(value, list) and subject.stated.get(path) is None
        if is_worked_out or path in {*findings.base, *findings.pinned}:
            continue  # a computed list follows the fields that it is computed from
        for smaller in fewer(value):
            probe = exploration.try_change(path, smaller)
            if probe is not None and len(probe.tensors) < len(smallest.tensors):
                findings.base[path], smallest = smaller, probe
                break
    exploration.keep(smallest)
    if smallest is not default and findings.is_cheap:
        exploration.keep(default)


def _add_optional(exploration: Exploration) -> None:
    """Add the sub-configs that are null by default to the base, if the code accepts them."""
    for place in exploration.subject.optional:
        if exploration.try_change(place, {}) is not None:
            exploration.findings.base[place] = {}


def _layer_counts(exploration: Exploration, probe: Probe) -> list[str]:
    """Return the fields that bound loops, or that count layers by their names."""
    paths = {path for path in exploration.knobs if LAYER_COUNT.search(path)}
    paths |= names_in_all(probe.trace.bounds)
    for tree in probe.trace.asked:
        for leaf in leaves(tree):
            if leaf[0] == "name" and LAYER_COUNT.search(leaf[1]):
                paths.add(leaf[1])
    return sorted(paths & exploration.knobs.keys())


# The findings of another class


def retry_known(exploration: Exploration, earlier: Exploration) -> None:
    """Begin with the findings about another class with the same config."""
    exploration.findings = earlier.findings.copied()
    base = exploration.subject.probe(exploration.class_name, exploration.findings.base)
    exploration.keep(base)
    for known in earlier.probes[1:]:
        probe = exploration.try_out(known.changes)
        if probe is not None and exploration.is_new(probe):
            exploration.keep(probe)


# Each field alone


def turn_groups(exploration: Exploration) -> None:
    """Turn the fields that can only be turned together."""
    findings = exploration.findings
    for group in exploration.subject.together:
        probe = exploration.try_out({**findings.base, **group})
        if probe is not None:
            findings.groups.append(dict(group))
            findings.active |= group.keys()
            if exploration.is_new(probe):
                exploration.keep(probe)


def used_first(exploration: Exploration) -> list[str]:
    """Return all fields, those that the code was seen to use first."""
    used = _all_fields_used(exploration)
    return sorted(exploration.knobs, key=lambda path: path not in used)


def used_newly(exploration: Exploration, earlier: Exploration) -> list[str]:
    """Return the fields that this class uses and that change nothing in the earlier class."""
    used = _all_fields_used(exploration)
    active = earlier.findings.active
    return [path for path in exploration.knobs if path in used and path not in active]


def _all_fields_used(exploration: Exploration) -> set[str]:
    used: set[str] = set()
    for probe in exploration.probes:
        used |= fields_used(probe)
    return used


def turn_each(exploration: Exploration, paths: Iterable[str]) -> None:
    """Turn each field alone."""
    for path in paths:
        if exploration.budget.share_left < LEFT_FOR_ANSWERS:
            break
        _turn(exploration, exploration.knobs[path])


def _turn(exploration: Exploration, knob: Knob) -> None:
    value = exploration.value_in_base(knob)
    taken = [
        candidate
        for candidate in values_for_none(knob, value)
        if _leaves_something_out(exploration, knob.path, candidate)
    ]
    is_free = _turn_to_others(exploration, knob, value, taken)
    if taken:
        exploration.findings.turns[knob.path] = Turn(value, taken, is_free)
    elif isinstance(value, bool | str) or value is None:
        _turn_with_flag(exploration, knob, value)


def _turn_to_others(exploration: Exploration, knob: Knob, value: Any, taken: list[Any]) -> bool:
    """Try other values, add the accepted ones, and return whether any integer will do."""
    usual = exploration.probes[0]
    is_free = False
    changes = 0
    for tries, candidate in enumerate(other_values(exploration, knob, value)):
        is_in_vain = tries >= TRIES_IN_VAIN and taken and not changes
        if changes >= MOST_CHANGES or len(taken) >= MOST_TAKEN or is_in_vain:
            break
        probe = exploration.try_change(knob.path, candidate)
        if probe is None:
            continue
        taken.append(candidate)
        is_free |= tries == 0 and _is_size(value)
        is_change = probe.outline != usual.outline
        changes += is_change
        if _teaches(exploration, probe, candidate, changes if is_change else 0):
            exploration.keep(probe)
    if changes:
        exploration.findings.active.add(knob.path)
    return is_free


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= SMALLEST_SIZE


def _teaches(exploration: Exploration, probe: Probe, value: Any, change: int) -> bool:
    """Whether to keep the probe of a turned field that changes tensors for the nth time.

    Kept are the first change, later changes that give new tensors if the value is not a number,
    and, if nothing changes (0), probes that ask a new question.
    """
    if not change:
        questions = {without_counts(tree) for tree in probe.trace.asked}
        return not questions <= set(exploration.asked())
    return change == 1 or (exploration.is_new(probe) and type(value) is not int)


def _leaves_something_out(exploration: Exploration, path: str, value: Any) -> bool:
    """Whether a value is accepted and gives other tensors, none of size 0; keep the probe if so."""
    probe = exploration.try_change(path, value)
    if probe is None or probe.outline == exploration.probes[0].outline:
        return False
    if any(0 in tensor.shape for tensor in (*probe.tensors.values(), *probe.buffers.values())):
        return False
    exploration.findings.active.add(path)
    exploration.keep(probe)
    return True


def _turn_with_flag(exploration: Exploration, knob: Knob, value: Any) -> None:
    """Turn a field that is refused alone with a flag; try flags that the refusal names first."""
    base, refusal = exploration.findings.base, exploration.error
    flags = [
        other
        for other in exploration.knobs.values()
        if isinstance(other.value, bool) and other.path != knob.path
    ]
    flags.sort(key=lambda flag: flag.path.rpartition(".")[2] not in refusal)
    candidates = itertools.islice(other_values(exploration, knob, value), VALUES_WITH_FLAG)
    for candidate, flag in itertools.product(candidates, flags[:MOST_FLAGS]):
        both = {knob.path: candidate, flag.path: not flag.value}
        probe = exploration.try_out({**base, **both})
        if probe is not None:
            exploration.findings.together.append(both)
            exploration.keep(probe)
            alone = exploration.try_change(flag.path, not flag.value)
            if alone is not None:
                exploration.keep(alone)
            return


# Every question answered both ways


def answer_both_ways(exploration: Exploration) -> None:
    """Try to get the other answer to questions always answered alike: `x == "a"`, `x > 2`."""
    knobs, active = exploration.knobs, exploration.findings.active
    for tree in dict.fromkeys(exploration.asked()):
        if exploration.budget.share_left < LEFT_FOR_CHANCE:
            return
        paths = sorted(field_names(tree))
        if len(paths) == 2 and tree[0] in ("==", "!="):
            _make_equal(exploration, *paths)
        if len(paths) == 1 and paths[0] in knobs and paths[0] not in active:
            _answer_differently(exploration, knobs[paths[0]], tree)


def _answer_differently(exploration: Exploration, knob: Knob, tree: Tree) -> None:
    """Try the values of a field that a question about this field alone suggests."""
    for value in values_about(tree):
        if value == knob.value or type(knob.value) not in (type(value), type(None)):
            continue
        probe = exploration.try_change(knob.path, value)
        if probe is not None and exploration.is_new(probe):
            exploration.add_value(knob.path, value)
            exploration.findings.active.add(knob.path)
            exploration.keep(probe)


def _make_equal(exploration: Exploration, one: str, other: str) -> None:
    """Set two fields that the code compares to the same value."""
    usual = exploration.probes[0].fields
    for path, value in ((one, usual.get(other)), (other, usual.get(one))):
        if path not in exploration.knobs or type(value) is not int or usual.get(path) == value:
            continue
        probe = exploration.try_change(path, value)
        if probe is not None and repr(probe.changes) not in {
            repr(known.changes) for known in exploration.probes
        }:
            exploration.add_value(path, value)
            exploration.keep(probe)


# Lists


def exchange_items(exploration: Exploration) -> None:
    """Find the texts that the items of lists may be."""
    base = exploration.subject.config(exploration.findings.base)
    for path, value in exploration.subject.fields(base).items():
        is_of_texts = (
            isinstance(value, list)
            and 1 <= len(value) <= MOST_ITEMS
            and all(isinstance(item, str) for item in value)
        )
        if path in exploration.knobs and is_of_texts:
            alphabet = set(value)
            for text in compared_items(exploration, path, alphabet):
                if _takes_item(exploration, path, value, text):
                    alphabet.add(text)
            exploration.findings.alphabets[path] = sorted(alphabet)


def _takes_item(exploration: Exploration, path: str, items: list[str], text: str) -> bool:
    """Whether a list may hold a text as first or last item; keep the probe if it is new."""
    for at in dict.fromkeys((0, len(items) - 1)):
        probe = exploration.try_change(path, [*items[:at], text, *items[at + 1 :]])
        if probe is not None:
            if exploration.is_new(probe):
                exploration.keep(probe)
                exploration.findings.active.add(path)
            return True
    return False


def change_lengths(exploration: Exploration) -> None:
    """Lengthen and shorten lists that belong together, with one item for each stage."""
    for (holder, length), lists in _lists_of_stages(exploration).items():
        counts = _stage_counts(exploration, holder, length)
        counted_or_not = (counts, []) if counts else ([],)
        for step, counting in itertools.product((-1, 1), counted_or_not):
            changes = {path: _stepped(items, step) for path, items in lists.items()}
            changes |= dict.fromkeys(counting, length + step)
            probe = exploration.try_out({**exploration.findings.base, **changes})
            if probe is not None:
                exploration.findings.groups.append(changes)
                if exploration.is_new(probe):
                    exploration.keep(probe)
                break


def _lists_of_stages(exploration: Exploration) -> dict[tuple[str, int], Changes]:
    """Return the lists of each length in each sub-config: their values in the base, by path."""
    lists: dict[tuple[str, int], Changes] = {}
    for path, knob in exploration.knobs.items():
        value = exploration.value_in_base(knob)
        if isinstance(value, list | tuple) and 2 <= len(value) <= MOST_STAGES:
            holder = path.rpartition(".")[0]
            lists.setdefault((holder, len(value)), {})[path] = value
    return lists


def _stage_counts(exploration: Exploration, holder: str, length: int) -> list[str]:
    """Return the fields of a sub-config that count its stages, judging by their names."""
    return [
        path
        for path, knob in exploration.knobs.items()
        if type(knob.value) is int
        and knob.value == length
        and path.rpartition(".")[0] == holder
        and _STAGE_COUNT.search(path)
    ]


def _stepped(items: Any, step: int) -> Any:
    """Return a list or tuple without its last item, or with this item repeated."""
    return items[:-1] if step < 0 else type(items)([*items, items[-1]])


# Pairs


def turn_pairs(exploration: Exploration, active: set[str]) -> None:
    """Turn each pair of choices together if one of the two fields is active.

    A field that changes a tensor in a pair then counts as active.
    """
    choices: list[tuple[str, Any]] = []
    for path, turn in exploration.findings.turns.items():
        choices += [
            (path, value)
            for value in turn.values
            if isinstance(value, bool | str) or value is None or turn.value is None
        ]
    tries = 0
    for (one, first), (other, second) in itertools.combinations(choices, 2):
        if one == other or not {one, other} & active:
            continue
        if tries > MOST_PAIRS or exploration.budget.share_left < LEFT_FOR_CHANCE:
            return
        tries += 1
        probe = exploration.try_out({**exploration.findings.base, one: first, other: second})
        if probe is not None and exploration.is_new(probe):
            exploration.keep(probe)
            exploration.findings.active |= {one, other}
