"""Places: many combinations held as a few ranges, without loss."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.ledger.places import ONE, Places, every

values = st.lists(st.integers(0, 5), max_size=3, unique=True).map(sorted).map(tuple) | st.builds(
    range, st.integers(0, 3)
)


def grow(inside: st.SearchStrategy[Places]) -> st.SearchStrategy[Places]:
    """Return places with one more index, whose blocks share no value."""
    pairs = st.lists(st.tuples(values, inside), max_size=3)
    return pairs.map(lambda blocks: Places(tuple(apart(blocks))))


def apart(blocks: list[tuple[tuple[int, ...], Places]]) -> list[tuple[tuple[int, ...], Places]]:
    taken: set[int] = set()
    kept = []
    for own, inside in blocks:
        kept.append((tuple(value for value in own if value not in taken), inside))
        taken.update(own)
    return kept


two_deep = grow(grow(st.just(ONE)))


def spelled(places: Places) -> list[tuple[int, ...]]:
    """Return all combinations, computed from the blocks alone."""
    if places == ONE:
        return [()]
    return sorted(
        (value, *rest) for own, inside in places.blocks for value in own for rest in spelled(inside)
    )


@given(two_deep)
def test_places_are_their_combinations_in_order(places: Places) -> None:
    found = list(places)
    assert found == spelled(places)
    assert len(places) == len(found)
    assert bool(places) == bool(found)
    assert [places[at] for at in range(len(found))] == found
    assert list(places[1:3]) == found[1:3]
    assert all(place in places for place in found)


@given(two_deep)
def test_the_outermost_values_are_those_of_the_combinations(places: Places) -> None:
    assert {value for value, inside in places.items() if inside} == {place[0] for place in places}
    assert [value for value, _ in places.items()] == sorted(places.outermost)


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_every_combination_of_ranges_is_there(a: int, b: int, c: int) -> None:
    ranges = (range(a), range(b), range(c))
    assert list(every(*ranges)) == list(product(*ranges))
    assert every(*ranges) == every(*ranges)
    assert hash(every(*ranges)) == hash(every(*ranges))


def test_places_that_differ_have_hashes_that_differ() -> None:
    assert len({hash(every(range(count))) for count in range(5)}) == 5


@pytest.mark.parametrize("level", [0, 1, 2])
def test_an_index_is_left_out_and_the_others_stay(level: int) -> None:
    ranges = [range(2), range(3), range(4)]
    without = every(*ranges).without(level)
    del ranges[level]
    assert list(without) == list(product(*ranges))
    assert list(every(range(0)).without(0)) == []


def test_no_place_is_not_one_place() -> None:
    assert list(ONE) == [()]
    assert list(Places(())) == []
    assert Places(()) != ONE
    assert ONE != ()
    assert len(every(range(10_000), range(10_000))) == 10**8
    with pytest.raises(IndexError):
        Places(())[0]


def test_places_are_shown_by_their_blocks() -> None:
    assert len(Places()) == 1
    assert repr(Places()) == "Places of 1"
    assert repr(Places(())) == "Places of 0"
    assert repr(every(range(2))) == "Places([(range(0, 2), Places of 1)])"
