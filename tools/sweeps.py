"""Hold the sweeps of all families against weighing: drawn rows on random axes, one by one.

Run ``python tools/sweeps.py`` (minutes), or name some families. For each, up to six integer fields
are drawn as axes, with values around their defaults; 40 points are drawn in their grid. A row
is exact if every column is what `weighbridge weigh` gives, or if both refuse the point. A family is
refused if a rule forbids all points. The exit status is 1 if a row is wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.blueprint.schema import families, load
from weighbridge.errors import WeighbridgeError
from weighbridge.fleet.axes import Axis
from weighbridge.fleet.sweep import Sweep
from weighbridge.fleet.sweep_columns import Asked

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 40
MOST_AXES = 6
MOST_CHOICES = 4  # a default up to this is a choice or a number of layers rather than a size


class Outcome(NamedTuple):
    """What came of a family: ``exact``, ``wrong`` or ``refused``, with a word about it."""

    family: str
    kind: str
    rows: int = 0
    refused_rows: int = 0
    reason: str = ""


def drawn_axes(family: str, drawn: random.Random) -> list[Axis]:
    """Return random integer axes of a family, with values around their defaults."""
    blueprint = load(family)
    at_defaults = blueprint.at_defaults
    names = [
        name
        for name in sorted(blueprint.fields - blueprint.computed.keys())
        if blueprint.kinds[name] is int and type(at_defaults.get(name)) is int
    ]
    chosen = drawn.sample(names, min(len(names), drawn.randint(1, MOST_AXES)))
    return [Axis(name, tuple(_values(at_defaults[name], drawn))) for name in chosen]


def _values(default: int, drawn: random.Random) -> Iterator[int]:
    """Yield values around a default, in order, each once."""
    near = {default, default + 1, default + 2, max(0, default - 1)}
    if default > MOST_CHOICES:
        near = {default, 2 * default, 3 * default, max(1, default // 2), default + 1}
        near.add(default + drawn.choice((8, 64)))
    yield from sorted(near)


def held(family: str, seed: str, rows: int = ROWS) -> Outcome:
    """Sweep drawn axes of a family, and compare drawn rows with weighing."""
    drawn = random.Random(f"{seed} {family}")  # noqa: S311
    axes = drawn_axes(family, drawn)
    if not axes:
        return Outcome(family, "refused", reason="it has no integer field")
    try:
        swept = Sweep(Asked(family, None, {}, None, ()), axes, [], 1)
        (variant,) = swept.variants
        points = [{axis.field: drawn.choice(axis.values) for axis in axes} for _ in range(rows)]
        swept.hold(variant, points)
    except WeighbridgeError as error:
        kind = "wrong" if "differ from what" in str(error) else "refused"
        return Outcome(family, kind, reason=str(error))
    return Outcome(family, "exact", swept.held + swept.refused, swept.refused)


def main() -> int:
    """Print what is not exact, and the counts; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--seed", default="weighbridge")
    options = parser.parse_args()
    counts, rows, refused = Counter[str](), 0, 0
    for family in options.families or families():
        outcome = held(family, options.seed)
        counts[outcome.kind] += 1
        rows += outcome.rows
        refused += outcome.refused_rows
        if outcome.kind != "exact":
            print(f"{outcome.kind:<8}{outcome.reason}")
    print(
        f"families: {counts['exact']} exact, {counts['wrong']} wrong, {counts['refused']} refused;"
        f" rows: {rows:,}, of which both refuse {refused:,}"
    )
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
