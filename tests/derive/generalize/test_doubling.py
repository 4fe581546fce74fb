"""Plain numbers that double from round to round are powers of 2, and few others are."""

from __future__ import annotations

import pytest

from weighbridge.algebra.expr import parse, source
from weighbridge.derive.generalize.doubling import with_powers_of_2

INDEX = ("name", "i")


def in_place_of(*asked: str) -> list[str]:
    """Return the questions with powers of 2 for what the code asked."""
    return [source(question) for question in with_powers_of_2(map(parse, asked), [INDEX])]


def test_a_number_that_doubles_at_two_positions_is_one_power() -> None:
    asked = [f"(side + {scale} - 1) // {scale} <= window" for scale in (1, 1, 2, 4, 8)]
    assert in_place_of(*asked) == [
        "(side + 2 ** i - 1) // 2 ** i <= window",
        "(side + 2 ** max(i - 1, 0) - 1) // 2 ** max(i - 1, 0) <= window",
    ]


@pytest.mark.parametrize(
    "numbers",
    [
        [(1, 1), (2, 2)],  # two numbers double by chance
        [(1, 1), (2, 2), (3, 3), (4, 4)],  # a counter
        [(1, 1), (2, 3), (4, 5)],  # another number differs, too
        [(1, 1), (2, 2), (4, 4), (6, 6)],
    ],
)
def test_other_numbers_are_left_alone(numbers: list[tuple[int, int]]) -> None:
    assert in_place_of(*[f"(side + {one}) // {other} <= window" for one, other in numbers]) == []
