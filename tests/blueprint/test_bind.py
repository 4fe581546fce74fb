"""The binder: one walk over indices for any meaning, and the sizes that expressions give."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.algebra.expr import parse
from weighbridge.blueprint.bind import bound_size, each_place, fold_indices, indices_used, uses
from weighbridge.blueprint.schema import LARGEST_SIZE
from weighbridge.errors import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Callable


class Written:
    """A meaning that records the walk over the indices."""

    def here(self) -> str:
        return "x"

    def alike(self, index: str, inside: Callable[[], str]) -> str:
        return f"{index}*({inside()})"

    def each(self, index: str, inside: Callable[[], str]) -> str:
        return f"sum_{index}({inside()})"


@pytest.mark.parametrize(
    ("repeat", "varies", "written"),
    [
        ("", "", "x"),
        ("i", "", "i*(x)"),
        ("i", "i", "sum_i(x)"),
        ("ijk", "j", "i*(sum_j(k*(x)))"),
        ("ij", "ij", "sum_i(sum_j(x))"),
        ("i", "j", "i*(x)"),
    ],
)
def test_indices_are_walked_from_the_outermost(repeat: str, varies: str, written: str) -> None:
    assert fold_indices(list(repeat), set(varies), Written()) == written


@given(st.lists(st.integers(0, 3), max_size=3))
def test_each_place_is_each_combination_in_order(counts: list[int]) -> None:
    repeat = [f"i{level}" for level in range(len(counts))]
    number = dict(zip(repeat, counts, strict=True))
    places = list(each_place(repeat, {"width": 8}, lambda index, _: number[index]))
    assert [tuple(place[index] for index in repeat) for place in places] == list(
        product(*map(range, counts))
    )
    assert all(place["width"] == 8 for place in places)


def test_a_count_sees_the_indices_outside_of_it_and_none_inside() -> None:
    seen: list[dict[str, Any]] = []

    def count(index: str, values: Any) -> int:
        seen.append({**values, "of": index})
        return 2 if index == "i" else values["i"]

    places = list(each_place(("i", "j"), {}, count))
    assert places == [{"i": 1, "j": 0}]
    assert seen == [{"of": "i"}, {"of": "j", "i": 0}, {"of": "j", "i": 1}]


def test_each_place_leaves_the_values_that_it_is_given_and_yields_its_own() -> None:
    values = {"width": 8}
    first, second = each_place(("i",), values, lambda *_: 2)
    assert (values, first["i"], second["i"]) == ({"width": 8}, 0, 1)


@pytest.mark.parametrize("size", [1, 2, LARGEST_SIZE])
def test_a_size_is_an_integer_within_its_bounds(size: int) -> None:
    assert bound_size(parse("n"), {"n": size}) == size


@pytest.mark.parametrize("size", [0, -1, LARGEST_SIZE + 1, 1.0, True, None, "1"])
def test_a_value_that_is_not_a_size_is_named_with_its_operands(size: Any) -> None:
    with pytest.raises(ExpressionError) as caught:
        bound_size(parse("n"), {"n": size, "other": 3})
    assert f"n: gives {size!r}, not an integer from 1 to {LARGEST_SIZE}" in str(caught.value)
    assert caught.value.values == {"n": size}


def test_the_bounds_of_a_size_may_be_others() -> None:
    assert bound_size(parse("n"), {"n": 0}, least=0) == 0
    assert bound_size(parse("n"), {"n": 5}, most=5) == 5
    with pytest.raises(ExpressionError, match="gives 6, not an integer from 2 to 5"):
        bound_size(parse("n"), {"n": 6}, 2, 5)


def test_which_names_an_expression_uses() -> None:
    assert uses(parse("width*2**j"), ["i", "j"])
    assert not uses(parse("width*2**j"), ["i"])
    assert not uses(parse("width"), [])
    assert indices_used(["i", "j", "k"], [parse("i + width"), parse("sizes[k]")]) == {"i", "k"}
    assert indices_used(["i"], []) == frozenset()
