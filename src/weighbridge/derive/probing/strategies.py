"""The strategies of an exploration: each tries configs of one kind and keeps what is new.

`explore` runs them in order.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.rewrite import field_names, leaves
from weighbridge.derive.probing.candidates import (
    FEW_LAYERS,
    SMALLEST_SIZE,
    STAGES_ANNOTATION,
    compared_items,
    fewer,
    is_of_texts,
    of_each_kind,
    other_values,
    values_for_none,
)
from weighbridge.derive.probing.earlier_probes import probe_once
from weighbridge.derive.probing.lists import lists_of_stages, stage_counts
from weighbridge.derive.probing.state import LAYER_COUNT, Turn, fields_used
from weighbridge.derive.probing.symbolic import without_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
NUMBER_BESIDE = 48  # in place of a null that a refusal names; no default is so
VALUES_WITH_FLAG = 2  # values of a refused field that are tried with each flag
MORE_LAYERS = (9, 14)  # a pattern of kinds may need a whole period
MOST_ITEMS = 64  # items of a list whose items are exchanged; no list of layers is longer
OTHER_LENGTHS = (3, 5, 6)  # of lists with one item for each layer, beside the base's length
MOST_PAIRS = 120  # the number of pairs of 16 choices


# A model of few layers


def shrink(exploration: Exploration) -> None:
    """Find a base with few layers, and keep it; keep the default too if it is cheap to build."""
    findings, subject = exploration.findings, exploration.subject
    findings.base = dict(exploration.start)
    _add_optional(exploration)
    default = probe_once(subject, exploration.class_name, dict(findings.base))
    findings.is_cheap = len(default.tensors) < BIG_MODEL
    findings.base |= _default_stages(exploration, default)
    smallest = default
    counts = _layer_counts(exploration, default)
    counts.sort(key=lambda path: _may_follow(exploration, default, path))
    for path in counts:
        smallest = _with_fewer(exploration, path, default, smallest)
    exploration.keep(smallest)
    if smallest is not default and findings.is_cheap:
        exploration.keep(default)


def _may_follow(exploration: Exploration, default: Probe, path: str) -> bool:
    """Whether a list of layers may follow the number of layers."""
    value = default.fields.get(path)
    is_worked_out = isinstance(value, list) and exploration.subject.stated.get(path) is None
    return is_worked_out or is_of_texts(value)


def _with_fewer(exploration: Exploration, path: str, default: Probe, smallest: Probe) -> Probe:
    """Add a smaller value of a field to the base if the model becomes smaller; return its probe."""
    findings, value = exploration.findings, default.fields.get(path)
    is_worked_out = isinstance(value, list) and exploration.subject.stated.get(path) is None
    if is_worked_out and smallest.fields.get(path) != value:
        return smallest  # the list follows the fields that it is computed from
    if path in {*findings.base, *findings.pinned}:
        return smallest
    is_refused = True
    for smaller in fewer(value):
        probe = exploration.try_change(path, smaller)
        is_refused &= probe is None
        if probe is not None and len(probe.tensors) < len(smallest.tensors):
            findings.base[path] = smaller
            _add_lengths(exploration, {path: smaller})
            return probe
    if is_refused and type(value) is int:
        return _with_few_kinds(exploration, path, default, smallest)
    return smallest


def _with_few_kinds(exploration: Exploration, path: str, default: Probe, smallest: Probe) -> Probe:
    """Do the same with more layers, or with shorter lists of the kinds of layers."""
    findings = exploration.findings
    fewer_layers: list[Changes] = []
    if default.fields[path] > max(MORE_LAYERS):
        fewer_layers += [{path: count} for count in MORE_LAYERS]
    lists: Changes = {**_lists_as_long(exploration, default, path, FEW_LAYERS[0])}
    lists |= _layer_numbers(exploration, default, FEW_LAYERS[0])
    if lists and default.fields[path] > FEW_LAYERS[0]:
        fewer_layers.append({path: FEW_LAYERS[0], **lists})
    for changes in fewer_layers:
        probe = exploration.try_out({**findings.base, **changes})
        if probe is not None and len(probe.tensors) < len(smallest.tensors):
            findings.base |= changes
            _add_lengths(exploration, changes)
            return probe
    return smallest


def _lists_as_long(
    exploration: Exploration, probe: Probe, path: str, length: int
) -> dict[str, list[str]]:
    """Return lists of texts of this length for those with one item for each layer."""
    holder, count = path.rpartition(".")[0], probe.fields.get(path)
    lists: dict[str, list[str]] = {}
    for other, value in probe.fields.items():
        is_beside = other in exploration.knobs and other.rpartition(".")[0] == holder
        if is_beside and is_of_texts(value) and len(value) == count:
            lists[other] = of_each_kind(value, length)
    return lists


def _layer_numbers(exploration: Exploration, probe: Probe, count: int) -> dict[str, list[int]]:
    """Return smaller layer numbers for the lists of numbers that the last refusal names."""
    lists: dict[str, list[int]] = {}
    for path, value in probe.fields.items():
        is_named = path.rpartition(".")[2] in exploration.error
        if is_named and path in exploration.knobs and _is_of_numbers(value):
            lists[path] = [number % count for number in value]
    return lists


def _is_of_numbers(value: Any) -> bool:
    is_list = isinstance(value, list | tuple) and bool(value)
    return is_list and all(type(item) is int for item in value)


def _add_lengths(exploration: Exploration, changes: Changes) -> None:
    """Note other numbers of layers, if lists with one item for each layer change with them."""
    lists = {path: value for path, value in changes.items() if is_of_texts(value)}
    if not lists or any(_is_of_numbers(value) for value in changes.values()):
        return
    for length in OTHER_LENGTHS:
        group: Changes = dict.fromkeys(changes, length)
        for path, items in lists.items():
            group[path] = of_each_kind(items, length)
        exploration.findings.groups.append(group)


def _add_optional(exploration: Exploration) -> None:
    """Add the sub-configs that are null by default to the base, if the code accepts them."""
    for place in exploration.subject.optional:
        if exploration.try_change(place, {}) is not None:
            exploration.findings.base[place] = {}


def _default_stages(exploration: Exploration, default: Probe) -> Changes:
    """Return the stages of backbones in the default config, where a given one has others.

    Where a given backbone has too few layers for them, their number is that of the default, too.
    """
    given = exploration.subject.fields_of_given()
    others = {
        path: default.fields[path]
        for path in exploration.knobs
        if path in given and path in default.fields and given[path] != default.fields[path]
    }
    stages = {
        path: value
        for path, value in others.items()
        if exploration.knobs[path].annotation.startswith(STAGES_ANNOTATION)
    }
    if not stages or exploration.try_out(stages) is not None:
        return stages
    holders = {path.rpartition(".")[0] for path in stages}
    counts = {
        path: value
        for path, value in others.items()
        if LAYER_COUNT.search(path) and path.rpartition(".")[0] in holders
    }
    return {**counts, **stages}


def _layer_counts(exploration: Exploration, probe: Probe) -> list[str]:
    """Return the fields that bound loops, or that count layers by their names."""
    paths = {path for path in exploration.knobs if LAYER_COUNT.search(path)}
    paths |= probe.trace.fields_in_bounds
    for tree in probe.trace.asked:
        for leaf in leaves(tree):
            if leaf[0] == "name" and LAYER_COUNT.search(leaf[1]):
                paths.add(leaf[1])
    return sorted(paths & exploration.knobs.keys())


# The findings of another class


def retry_known(exploration: Exploration, earlier: Exploration) -> None:
    """Begin with the findings about another class with the same config."""
    exploration.findings = earlier.findings.copied()
    changes = exploration.findings.base
    base = probe_once(exploration.subject, exploration.class_name, changes)
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
    elif _is_size(value):
        _turn_with_size(exploration, knob.path)
    elif isinstance(value, bool | str) or value is None:
        _turn_with_flag(exploration, knob, value)


def _turn_to_others(exploration: Exploration, knob: Knob, value: Any, taken: list[Any]) -> bool:
    """Try other values, add the accepted ones, and return whether any integer will do."""
    usual = exploration.probes[0]
    is_free = False
    changes = 0
    for tries, candidate in enumerate(other_values(exploration, knob, value)):
        if _are_enough(tries, len(taken), changes):
            break
        probe = _turned(exploration, knob.path, candidate)
        if probe is None or has_other_ranks(probe, usual, candidate):
            continue
        taken.append(candidate)
        is_free |= tries == 0 and _is_size(value)
        is_change = probe.outline != usual.outline
        if not is_change:
            exploration.findings.quiet.setdefault(knob.path, []).append(candidate)
        changes += is_change
        if _teaches(exploration, probe, candidate, changes if is_change else 0):
            exploration.keep(probe)
    if changes:
        exploration.findings.active.add(knob.path)
    return is_free


def _are_enough(tries: int, taken: int, changes: int) -> bool:
    """Whether enough values of a field are tried: accepted, changing tensors, or all in vain."""
    is_in_vain = tries >= TRIES_IN_VAIN and taken > 0 and not changes
    return changes >= MOST_CHANGES or taken >= MOST_TAKEN or is_in_vain


def has_other_ranks(probe: Probe, usual: Probe, value: Any) -> bool:
    """Whether a list gives a tensor more or fewer dims: a kernel with one size is unusable."""
    if not isinstance(value, list | tuple):
        return False
    for name, tensor in probe.tensors.items():
        if name in usual.tensors and len(tensor.dims) != len(usual.tensors[name].dims):
            return True
    return False


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
    if probe is None:
        return False
    if probe.outline == exploration.probes[0].outline:
        exploration.findings.quiet.setdefault(path, []).append(value)
        return False
    if any(0 in tensor.shape for tensor in (*probe.tensors.values(), *probe.buffers.values())):
        return False
    exploration.findings.active.add(path)
    exploration.keep(probe)
    return True


def _turn_with_size(exploration: Exploration, path: str) -> None:
    """Turn a size that is refused alone with the sizes that the config class compares it with."""
    base = exploration.probes[0]
    _, trace = exploration.subject.remembered(base)
    others: dict[str, None] = {}
    for tree in trace.asked:
        if path in field_names(tree):
            others |= dict.fromkeys(sorted(field_names(tree) & exploration.knobs.keys() - {path}))
    for other in others:
        size, other_size = base.fields.get(path), base.fields.get(other)
        if type(size) is not int or type(other_size) is not int:
            continue
        for changed in (2 * other_size, other_size // 2):
            group = {path: 2 * size, other: changed}
            probe = exploration.try_out({**exploration.findings.base, **group})
            if probe is not None:
                exploration.findings.groups.append(group)
                exploration.findings.active |= group.keys()
                exploration.keep(probe)


def _turned(exploration: Exploration, path: str, value: Any) -> Probe | None:
    """Return the probe of a field turned alone; if it is refused, a number may be missing."""
    probe = exploration.try_change(path, value)
    if probe is None:
        _turn_with_number(exploration, path, value)
    return probe


def _turn_with_number(exploration: Exploration, path: str, value: Any) -> None:
    """Turn a text that a stranger's code refuses alone, with a number for a null that it names."""
    if not isinstance(value, str) or not exploration.subject.is_explored_for_equals:
        return
    for other in exploration.knobs.values():
        is_named = re.search(rf"\b{other.path.rpartition('.')[2]}\b", exploration.error)
        is_null = exploration.subject.stated.get(other.path) is None
        if not is_named or not is_null or other.path == path:
            continue
        both = {path: value, other.path: NUMBER_BESIDE}
        probe = exploration.try_out({**exploration.findings.base, **both})
        if probe is not None:
            exploration.findings.together.append(both)
            exploration.findings.active |= both.keys()
            exploration.keep(probe)
            return


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


# Lists


def exchange_items(exploration: Exploration) -> None:
    """Find the texts that the items of lists may be."""
    base = exploration.subject.config(exploration.findings.base)
    for path, value in exploration.subject.fields(base).items():
        knob = exploration.knobs.get(path)
        if knob is None or knob.annotation.startswith(STAGES_ANNOTATION):
            continue
        if is_of_texts(value) and len(value) <= MOST_ITEMS:
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
    """Lengthen and shorten lists that belong together, with one item for each stage.

    One length is enough for a family; what a stranger's code does with two stages may not show what
    it does with three.
    """
    for (holder, length), lists in lists_of_stages(exploration).items():
        counts = stage_counts(exploration, holder, length)
        for changes in _other_lengths(lists, counts, length):
            probe = exploration.try_out({**exploration.findings.base, **changes})
            usual = exploration.probes[0]
            if probe is not None and not has_other_ranks(probe, usual, [*changes]):
                exploration.findings.groups.append(changes)
                if exploration.is_new(probe):
                    exploration.keep(probe)
                if not exploration.subject.is_explored_for_equals:
                    break


def _other_lengths(lists: Changes, counts: list[str], length: int) -> Iterator[Changes]:
    """Yield lists with one item fewer, then one more, each time with and without their counts."""
    for step in (-1, 1):
        changes = {path: _stepped(items, step) for path, items in lists.items()}
        if counts:
            yield {**changes, **dict.fromkeys(counts, length + step)}
        yield changes


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
