"""Shapley values against their definition, and rounded tables against their sums."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.algebra.shares import rounded, shapley

fractions = st.fractions(min_value=-50, max_value=50, max_denominator=12)


@st.composite
def games(draw: st.DrawFn) -> tuple[list[str], dict[frozenset[str], Fraction]]:
    """Draw a game: a number for every set of players."""
    players = draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=4))
    values = {}
    for members in range(2 ** len(players)):
        inside = frozenset(name for at, name in enumerate(players) if members >> at & 1)
        values[inside] = draw(fractions)
    return players, values


@given(games())
def test_a_share_is_the_average_over_all_orders(
    game: tuple[list[str], dict[frozenset[str], Fraction]],
) -> None:
    players, values = game
    shares = shapley(players, values.__getitem__)
    orders = list(permutations(players))
    for player in players:
        added = Fraction(0)
        for order in orders:
            before = frozenset(order[: order.index(player)])
            added += values[before | {player}] - values[before]
        assert shares[player].value == added / len(orders)
        assert shares[player].alone == values[frozenset({player})] - values[frozenset()]


@given(games())
def test_shares_add_up(game: tuple[list[str], dict[frozenset[str], Fraction]]) -> None:
    players, values = game
    shares = shapley(players, values.__getitem__)
    whole = values[frozenset(players)] - values[frozenset()]
    assert sum(share.value for share in shares.values()) == whole


places = st.tuples(st.sampled_from("rstu"), st.sampled_from("vwxyz"))


@given(st.dictionaries(places, fractions))
def test_a_rounded_table_rounds_cells_and_sums(table: dict[tuple[str, str], Fraction]) -> None:
    whole = rounded(table)
    assert whole.keys() == table.keys()
    for place, value in table.items():
        assert whole[place] in (floor(value), ceil(value))
    for axis in (0, 1):
        for line in {place[axis] for place in table}:
            exact = sum((v for place, v in table.items() if place[axis] == line), Fraction(0))
            total = sum(v for place, v in whole.items() if place[axis] == line)
            assert total in (floor(exact), ceil(exact))


@pytest.mark.parametrize("number", [2, 3, 7])
def test_a_whole_row_of_equal_parts_keeps_its_sum(number: int) -> None:
    table = {("row", str(at)): Fraction(10, number) for at in range(number)}
    assert sum(rounded(table).values()) == 10
