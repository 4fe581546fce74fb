"""Comparing all terms with a goal at once passes by none that fits."""

from __future__ import annotations

import numpy as np
import pytest

from weighbridge.derive.generalize.lost_values import Term, _affine, _TermTable

DICE = np.random.default_rng(17)
TERMS = [
    Term(("name", f"field_{number}"), DICE.integers(1, 10_000, 6, dtype=np.int64))
    for number in range(300)
]
TABLE = _TermTable([Term(("name", "constant"), np.full(6, 4, dtype=np.int64)), *TERMS])


@pytest.mark.parametrize(("factor", "offset"), [(1, 0), (1, -64), (3, 0), (7, 5), (256, 64)])
def test_a_term_with_a_factor_and_an_offset_is_found(factor: int, offset: int) -> None:
    for term in TERMS[::37]:
        goal = factor * term.numbers + offset
        assert term in TABLE.like(goal)
        assert _affine(TABLE.like(goal), goal) == _affine(TABLE.terms, goal)


@pytest.mark.parametrize("factor", [1, 2, 3, 4])
def test_terms_that_add_up_to_a_goal_are_found(factor: int) -> None:
    first, second = TERMS[5], TERMS[250]
    for goal in (factor * first.numbers + second.numbers, factor * first.numbers - second.numbers):
        assert first in TABLE.completed(goal, factor)


def test_few_others_remain() -> None:
    goal = DICE.integers(1, 10_000, 6, dtype=np.int64)
    assert not TABLE.like(goal)
    assert not TABLE.completed(goal, 3)
