"""Known solutions are found again; contradictions and open fields are reported."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.algebra.expr import evaluate, parse
from weighbridge.guessing.solver import (
    MOST_STEPS,
    MOST_TRIED,
    CellValue,
    Constraint,
    Problem,
    Solution,
    majority,
    solve,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.guessing.unknowns import Cell

LAWS = settings(max_examples=40, deadline=None, derandomize=True, database=None)
SIZES = st.integers(1, 200)


def problem(
    *equations: tuple[Any, ...],
    usual: Mapping[str, Any] | None = None,
    given: Mapping[Cell, Any] | None = None,
) -> Problem:
    """Return a problem of (text, result[, weight]) with positive numbers or booleans as fields."""
    usual_values = {(name,): value for name, value in (usual or {}).items()}
    return Problem(
        [Constraint(parse(text), (), *rest) for text, *rest in equations],
        given or {},
        lambda _, value: value is None or type(value) is bool or value > 0,
        lambda cell, _: [usual_values[cell]] if cell in usual_values else [],
        usual_values,
        str,
    )


def solved(*equations: tuple[Any, ...], **options: Any) -> Solution:
    return solve(problem(*equations, **options))


# Laws


@given(width=SIZES, inner=SIZES, words=SIZES)
@LAWS
def test_equations_of_known_values_are_solved_to_them(width: int, inner: int, words: int) -> None:
    hidden = {"width": width, "inner": inner, "words": words}
    texts = ("3 * width", "width + inner", "words * width + 2 * inner")
    solution = solved(*((text, evaluate(parse(text), hidden)) for text in texts))
    assert solution.values == {(name,): value for name, value in hidden.items()}
    assert all(cell_value.after is None for cell_value in solution.cells.values())
    assert not solution.broken


@given(heads=st.integers(2, 16), size=st.integers(1, 64))
@LAWS
def test_chosen_values_fit_all_equations(heads: int, size: int) -> None:
    hidden = {"heads": heads, "size": size}
    texts = ("heads * size", "heads * size * 3 + 1")
    equations = [(text, evaluate(parse(text), hidden)) for text in texts]
    solution = solved(*equations, usual={"heads": 8, "size": 64})
    values = {name: value for (name,), value in solution.values.items()}
    assert not solution.broken
    assert [evaluate(parse(text), values) for text in texts] == [size for _, size in equations]
    assert any(cell_value.after for cell_value in solution.cells.values())


@given(heads=st.integers(2, 16), size=st.integers(1, 16))
@LAWS
def test_an_open_field_lists_the_other_values_that_fit(heads: int, size: int) -> None:
    width = heads * size
    solution = solved(
        ("width", width), ("heads * (width // heads)", width), usual={"heads": 4, "width": width}
    )
    chosen = solution.cells["heads",]
    assert heads in (chosen.value, *chosen.others)
    assert chosen.value not in chosen.others
    assert chosen.after == ("heads",)
    assert all(width % value == 0 for value in (chosen.value, *chosen.others))


@given(width=SIZES, other=SIZES, votes=st.integers(2, 9))
@LAWS
def test_the_majority_wins(width: int, other: int, votes: int) -> None:
    tree = parse("width * 2")
    counts = {(tree, ()): Counter({other * 2: 1})}
    counts[tree, ()][width * 2] += votes
    assert majority(counts)[0].target == width * 2
    assert solved(("width", other, 1), ("width * 2", width * 2, votes)).values == {
        ("width",): width
    }


# Determined values


def test_a_given_value_is_kept_and_used() -> None:
    solution = solved(("heads * size", 96), given={("heads",): 4})
    assert solution.cells == {
        ("heads",): CellValue(4),
        ("size",): CellValue(24),
    }


def test_a_value_follows_through_several_equations() -> None:
    assert solved(("a * b", 6), ("b * c", 15), ("c + 1", 6)).values == {
        ("a",): 2,
        ("b",): 3,
        ("c",): 5,
    }


def test_the_only_value_that_fits_is_determined() -> None:
    solution = solved(("x // 4", 5), ("x % 4", 3), usual={"x": 1})
    assert solution.cells["x",] == CellValue(23)


def test_conditions_of_layers_determine_items() -> None:
    equations = [
        Constraint(parse("kinds[i] == 'full'"), (("i", layer),), layer == 1) for layer in range(2)
    ]
    options = ["full", "linear"]
    solution = solve(
        Problem(
            equations, {}, lambda _, value: value in options, lambda *_: options, {}, lambda c: c
        )
    )
    assert solution.values == {("kinds", 0): "linear", ("kinds", 1): "full"}


# Open values


def test_the_usual_value_is_taken_where_it_fits() -> None:
    chosen = solved(("heads * (96 // heads)", 96), usual={"heads": 12}).cells["heads",]
    assert chosen.value == 12
    assert set(chosen.others) == {1, 2, 3, 4, 6, 8, 16, 24, 32, 48, 96}


def test_a_value_is_scaled_with_the_model() -> None:
    usual = {"heads": 12, "width": 768}
    equations = [("width", 384), ("heads * (width // heads)", 384)]
    assert solved(*equations, usual=usual).cells["heads",].value == 6


def test_a_value_that_follows_from_a_choice_names_it() -> None:
    solution = solved(("heads * size", 96), usual={"heads": 12, "size": 8})
    chosen = solution.cells["heads",]
    assert (chosen.value, chosen.after) == (12, ("heads",))
    assert solution.cells["size",] == CellValue(8, after=("heads",))


def test_a_field_that_no_equation_mentions_has_no_value() -> None:
    assert solved(("width", 8), usual={"heads": 12}).values == {("width",): 8}


def test_no_more_values_are_tried_than_the_limit() -> None:
    chosen = solved(("x > 0", True), usual={"x": 500}).cells["x",]
    assert len(chosen.others) < MOST_TRIED


# Contradictions


@pytest.mark.parametrize(
    "equations",
    [
        [("x * 4", 10)],
        [("x", -3)],
        [("x", 3, 5), ("x", 4, 2)],
        [("x", 3, 5), ("x * 2", 8, 2)],
    ],
)
def test_a_contradiction_is_broken(equations: list[tuple[Any, ...]]) -> None:
    solution = solved(*equations)
    assert [constraint.target for constraint in solution.broken] == [equations[-1][1]]


def test_a_contradiction_leaves_the_rest_solved() -> None:
    solution = solved(("x", 3, 9), ("x", 4, 1), ("y + x", 5, 1), ("a * b", 6), usual={"a": 2})
    assert solution.values == {("x",): 3, ("y",): 2, ("a",): 2, ("b",): 3}
    assert len(solution.broken) == 1


def test_equations_that_no_choice_fulfils_are_broken() -> None:
    solution = solved(("x * y", 6), ("x + y", 6), usual={"x": 2, "y": 3})
    assert len(solution.broken) == 1


def test_work_is_bounded() -> None:
    names = [f"x{at}" for at in range(14)]
    sums = [(f"{one} // 3 + {other} // 5", 7) for one in names for other in names if one < other]
    assert solved(*sums, usual=dict.fromkeys(names, 1)).steps < 4 * MOST_STEPS


def test_no_equations_determine_nothing() -> None:
    assert solved() == Solution({}, (), 0)
