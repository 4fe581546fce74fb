"""Aims at lines of code that no config has reached: tries to make their conditions true."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from weighbridge.derive.probing.candidates import answering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.state import Changes, Exploration
    from weighbridge.derive.probing.subject import Knob
    from weighbridge.derive.probing.unreached import UnreachedLine

MOST_AIMED = 24  # configs for one set of conditions; enough for the values of a field or two
NUMBER_FOR_NULL = 8  # divisible by 2 and 4, as the code may require
_NAME_READ = r"(?:get|has)attr\([\w.]+, ['\"](\w+)['\"]"  # the name of a field, not its value


def aim(exploration: Exploration, lines: Iterable[UnreachedLine]) -> list[Changes]:
    """Try to make the conditions around lines true; return the changes that were accepted."""
    taken = []
    for conditions, near in {line.tests: line.near for line in lines}.items():
        aimed = _making_true(exploration, " and ".join(conditions))
        for changes in itertools.islice(aimed, MOST_AIMED):
            probe = _try_near(exploration, near, changes)
            if probe is not None:
                taken.append(dict(probe.changes))
    return taken


def _try_near(exploration: Exploration, near: Mapping[str, Any], changes: Changes) -> Probe | None:
    """Try changes to a config; if nulls make it fail, with numbers for them. Keep what is new."""
    near_base = {**exploration.findings.base, **near}
    probe = exploration.try_out({**near_base, **changes})
    if probe is None and "NoneType" in exploration.error:
        changes = {**_numbers_for_nulls(exploration, changes), **changes}
        probe = exploration.try_out({**near_base, **changes})
    if probe is not None and exploration.is_new(probe):
        for path, value in changes.items():
            exploration.add_value(path, value)
            exploration.findings.active.add(path)
        exploration.keep(probe)
        _keep_without_each(exploration, near_base, changes)
    return probe


def _keep_without_each(exploration: Exploration, near_base: Changes, changes: Changes) -> None:
    """Show which of several changes are needed: keep the configs with all but one of them.

    A flag that is among them with its usual value is needed if the other value changes something.
    """
    if len(changes) < 2:
        return
    for left_out, value in changes.items():
        others = {path: other for path, other in changes.items() if path != left_out}
        if isinstance(value, bool):
            others[left_out] = not value
        probe = exploration.try_out({**near_base, **others})
        if probe is not None:
            exploration.keep(probe)


def _numbers_for_nulls(exploration: Exploration, changes: Changes) -> Changes:
    """Return numbers for the fields that are null by default and stand beside the changed ones."""
    holders = {path.rpartition(".")[0] for path in changes}
    return {
        path: NUMBER_FOR_NULL
        for path, knob in exploration.knobs.items()
        if _is_null_number(knob) and path.rpartition(".")[0] in holders
    }


def _making_true(exploration: Exploration, condition: str) -> Iterator[Changes]:
    """Yield values for the fields that a condition names: for each field alone, then for all."""
    values_of = _values_to_try(exploration, condition)
    for path, values in values_of.items():
        yield from ({path: value} for value in values)
    if len(values_of) > 1:
        for path, values in values_of.items():  # one of them may be right already
            values.append(exploration.value_in_base(exploration.knobs[path]))
        for combination in itertools.product(*values_of.values()):
            yield dict(zip(values_of, combination, strict=True))


def _values_to_try(exploration: Exploration, condition: str) -> dict[str, list[Any]]:
    """Return the values that may make a condition true, for each field that it names."""
    words = set(re.findall(r"\w+", condition))
    names = re.findall(_NAME_READ, condition)
    texts = [text for text in re.findall(r"['\"]([^'\"]+)['\"]", condition) if text not in names]
    numbers = [int(number) for number in re.findall(r"\b\d+\b", condition)]
    values_of: dict[str, list[Any]] = {}
    for path, knob in exploration.knobs.items():
        if path.rpartition(".")[2] not in words:
            continue
        values = list(answering(exploration.value_in_base(knob), texts, numbers))
        if _is_null_number(knob):
            values.insert(0, NUMBER_FOR_NULL)
        if values:
            values_of[path] = values
    return values_of


def _is_null_number(knob: Knob) -> bool:
    """Whether a field is null by default, and otherwise an integer."""
    return knob.value is None and knob.annotation.startswith("int")
