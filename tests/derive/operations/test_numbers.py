"""Numbers as products of sizes: of a few factors, and found without trying all products."""

from __future__ import annotations

import itertools

import pytest

from weighbridge.algebra.expr import evaluate
from weighbridge.derive.operations.numbers import Numbers

DRAWS = [
    {"batch": 7, "width": 384, "inner": 480, "heads": 24, "keys": 6, "head": 16, "states": 120},
    {"batch": 7, "width": 576, "inner": 360, "heads": 72, "keys": 4, "head": 18, "states": 96},
    {"batch": 7, "width": 480, "inner": 768, "heads": 32, "keys": 8, "head": 4, "states": 60},
]
NAMES = tuple(DRAWS[0])
MOST_LOOKED_AT = 1000  # times that all atoms are tried as divisors


class Counted(Numbers):
    looked_at = 0

    def _divisors(self, values, start):  # type: ignore[no-untyped-def]
        Counted.looked_at += 1
        return super()._divisors(values, start)


def of_draws(times: int, *names: str) -> tuple[int, ...]:
    values = []
    for draw in DRAWS:
        value = times
        for name in names:
            value *= draw[name]
        values.append(value)
    return tuple(values)


@pytest.mark.parametrize("names", [*itertools.combinations_with_replacement(NAMES, 3)])
def test_a_product_of_three_sizes_is_found_again(names: tuple[str, ...]) -> None:
    parts = [("//", ("name", name), ("value", part)) for name in NAMES[1:] for part in (2, 3, 4, 6)]
    numbers = Counted([("name", name) for name in NAMES] + parts, DRAWS)
    Counted.looked_at = 0
    tree = numbers.expressed(of_draws(2, *names))
    assert [evaluate(tree, draw) for draw in DRAWS] == [*of_draws(2, *names)]
    assert Counted.looked_at < MOST_LOOKED_AT
