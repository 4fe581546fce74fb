"""Checks operations against runs on configs and sizes that they were not derived from."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from math import prod
from typing import TYPE_CHECKING, Any

from weighbridge.blueprint.operations import COMPUTE
from weighbridge.derive.operations.class_operations import MOST_REFUSED
from weighbridge.derive.operations.region import Recorded
from weighbridge.derive.operations.workload import ATTENTIONS, RECORDED_DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weighbridge.blueprint.operations import Operation, Operations
    from weighbridge.derive.operations.region import Draw, RecordedByKind, Region, Situation

HELD_OUT = 12  # runs of each class that its operations are checked against
_HELD_OUT_LAYERS = (1, 5)
_RUNS_BETWEEN_EDGES = 2  # in every second run, sizes are 1
_SITUATIONS_OF_A_FIELD = 4  # about this many situations show whether a field matters


def held_out(
    region: Region, operations: Operations, class_name: str, most: int = HELD_OUT
) -> tuple[int, str | None]:
    """Check a class against runs that it was not derived from.

    Returns:
        The number of runs that agree, and the difference in the next run; None if all agree.
    """
    dice = random.Random(f"held out {class_name} {region.seed}")  # noqa: S311
    runs = tried = 0
    ways = list(itertools.product(ATTENTIONS, RECORDED_DTYPES))
    while runs < most and tried < most * MOST_REFUSED:
        draw = region.draw(class_name, dice, _HELD_OUT_LAYERS)
        if draw is None:
            continue
        if tried % _RUNS_BETWEEN_EDGES:
            draw = draw.at_one(dice.choice(region.edges(class_name)))
        attention, dtype = ways[tried % len(ways)]
        situation = dice.choice(region.situations())._replace(attention=attention, dtype=dtype)
        tried += 1
        try:
            recorded = region.operations(class_name, draw, situation)
        except Exception:  # noqa: S112  # whatever the code raises is its way to refuse
            continue
        if difference := _difference(operations, class_name, draw, situation, recorded):
            return runs, difference
        runs += 1
    if runs < most:
        return runs, f"only {runs} of {most} runs succeeded"
    return runs, None


def deciding_fields(region: Region, operations: Operations) -> Iterator[tuple[str, Any]]:
    """Yield the fields that must keep their values, with these values.

    Another value changes the operations, or cannot be run.
    """
    varied = {*region.sizes, *region.counts, *region.dropouts, *region.choosing}
    for knob in region.subject.knobs({}):
        name, value = knob.path, region.usual.get(knob.path, knob.value)
        if name in varied or not isinstance(value, bool | int | float | str):
            continue
        for class_name in operations.class_names:
            if not _is_free(region, operations, class_name, name, value):
                yield name, value
                break


def _is_free(
    region: Region, operations: Operations, class_name: str, name: str, value: Any
) -> bool:
    """Whether a class has the same operations if a field has another value."""
    dice = random.Random(f"{class_name} {name} {region.seed}")  # noqa: S311
    draw = region.draw(class_name, dice)
    while draw is None:
        draw = region.draw(class_name, dice)
    turned = draw._replace(changes={**draw.changes, name: _other_value(value)})
    runs: list[tuple[Situation, RecordedByKind]] = []
    for situation in _some_situations(region):
        try:
            runs.append((situation, region.operations(class_name, turned, situation)))
        except Exception:  # whatever the code raises is its way to refuse
            return False
    differences = (_difference(operations, class_name, turned, *run) for run in runs)
    return not any(differences)


def _some_situations(region: Region) -> list[Situation]:
    situations = region.situations()
    step = max(1, len(situations) // _SITUATIONS_OF_A_FIELD)
    return [situation for situation in situations if situation.dtype == "F32"][::step]


def _other_value(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return "relu"
    return value * 2 or 1


def _difference(
    operations: Operations,
    class_name: str,
    draw: Draw,
    situation: Situation,
    recorded: RecordedByKind,
) -> str | None:
    """Return how a run differs from what the operations predict; None if it does not."""
    fields = {**draw.fields, **dict(situation.dropouts)}
    names = operations.names(fields, **draw.run_sizes, **situation.settings)
    for kind, done in recorded.items():
        predicted = list(_predicted(operations.bind(class_name, kind, names), situation.dtype))
        if kind == "saved" and 1 in draw.run_sizes.values():  # a dim of 1 may be anywhere
            found, expected = Counter(map(_flat, done)), Counter(map(_flat, predicted))
        else:
            found, expected = Counter(done), Counter(predicted)
        for path, dtype, numbers in (found - expected) + (expected - found):
            return f"{kind} {path} {dtype} {numbers} differs from the run, with {names}"
    return None


def _predicted(operations: Iterable[Operation], compute_dtype: str) -> Iterator[Recorded]:
    """Yield operations as a run would record them."""
    for operation in operations:
        dtype = compute_dtype if operation.dtype == COMPUTE else operation.dtype
        yield from (Recorded(path, dtype, operation.shape) for path in operation.paths)


def _flat(tensor: Recorded) -> Recorded:
    return tensor._replace(numbers=(prod(tensor.numbers),))
