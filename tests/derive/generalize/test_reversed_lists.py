"""Questions about items of a list that is walked backwards are asked in terms of the round."""

from __future__ import annotations

import pytest

from weighbridge.algebra.expr import parse, source
from weighbridge.derive.generalize.reversed_lists import with_items_from_end

INDEX = ("name", "i")


def from_end(*asked: str) -> list[str]:
    """Return the questions with items that an index counts from the end."""
    return [source(question) for question in with_items_from_end(map(parse, asked), [INDEX])]


def test_an_item_is_that_of_a_round_or_of_the_round_before() -> None:
    assert from_end("widths[3] % groups != 0", "widths[2] % groups != 0") == [
        "widths[len(widths) - 1 - i] % groups != 0",
        "widths[len(widths) - i] % groups != 0",
    ]


def test_items_of_two_lists_may_be_of_the_same_round() -> None:
    found = from_end("ins[1] != outs[1]", "ins[0] != outs[0]")
    assert "ins[len(ins) - 1 - i] != outs[len(outs) - 1 - i]" in found
    assert len(found) == 4


@pytest.mark.parametrize(
    "asked",
    [
        ["widths[0] > 8"],  # one item, which code may well name by its number
        ["widths[0] > 8", "widths[0] > 9"],
        ["width > 8", "width > 9"],
        ["a[0] < b[0] + c[0]", "a[1] < b[1] + c[1]"],  # more items than code compares
    ],
)
def test_other_questions_are_left_alone(asked: list[str]) -> None:
    assert from_end(*asked) == []
