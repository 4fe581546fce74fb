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
    from weighbridge.derive.probing.unreached import UnreachedLine

MOST_AIMED = 24  # configs for one set of conditions; enough for the values of a field or two
NUMBER_FOR_NULL = 8  # divisible by 2 and 4, as the code may require


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
    return probe


def _numbers_for_nulls(exploration: Exploration, changes: Changes) -> Changes:
    """Return numbers for the fields that are null by default and stand beside the changed ones."""
    holders = {path.rpartition(".")[0] for path in changes}
    return {
        path: NUMBER_FOR_NULL
        for path, knob in exploration.knobs.items()
        if knob.value is None
        and knob.annotation.startswith("int")
        and path.rpartition(".")[0] in holders
    }


def _making_true(exploration: Exploration, condition: str) -> Iterator[Changes]:
    """Yield values for the fields that a condition names: for each field alone, then for all."""
    words = set(re.findall(r"\w+", condition))
    texts = re.findall(r"['\"]([^'\"]+)['\"]", condition)
    numbers = [int(number) for number in re.findall(r"\b\d+\b", condition)]
    options = {}
    for path, knob in exploration.knobs.items():
        if path.rpartition(".")[2] in words:
            values = list(answering(exploration.value_in_base(knob), texts, numbers))
            if values:
                options[path] = values
    for path, values in options.items():
        yield from ({path: value} for value in values)
    if len(options) > 1:
        for combination in itertools.product(*options.values()):
            yield dict(zip(options, combination, strict=True))
