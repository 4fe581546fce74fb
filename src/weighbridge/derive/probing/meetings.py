"""Configs in which every two choices meet: flags, texts and nulls, each with each of another field.

Configs drawn at random leave out rare pairs, and a condition that nobody tried may be wrong there.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.derive.probing.earlier_probes import is_accepted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weighbridge.derive.probing.state import Changes, Exploration

MOST_TRIED = 240  # configs; where the code refuses one, another with only two choices is tried
MOST_VALUES = 6  # of one field


class _Choice(NamedTuple):
    """One of the ways to set a field, by number; the first one leaves it as it is in the base."""

    field: str
    number: int


_Pair = tuple[_Choice, _Choice]  # in order
_Ways = dict[str, list["Changes"]]
_Row = dict[str, int]
"""The number of the way to set each field."""


def meeting_choices(exploration: Exploration) -> Iterator[Changes]:
    """Yield configs that the code accepts, until every two choices met that it accepts together.

    Pairs are left if so many configs are refused that `MOST_TRIED` do not suffice.
    """
    ways = _ways(exploration)
    unmet = _pairs(ways)
    of_class = exploration.subject, exploration.class_name
    for _ in range(MOST_TRIED):
        if not unmet:
            return
        first = next(iter(unmet))
        for row in (_filled(exploration, first, ways, unmet), dict(first)):
            changes = _changes_of(exploration, row, ways)
            met = {*_pairs_in(_row_of(changes, ways))}
            if first in met and is_accepted(*of_class, changes):
                yield changes
                unmet = {pair: None for pair in unmet if pair not in met}
                break
        unmet.pop(first, None)  # these two met, or are refused even alone


def _changes_of(exploration: Exploration, row: _Row, ways: _Ways) -> Changes:
    changes = dict(exploration.findings.base)
    for field, known in ways.items():
        changes |= known[row.get(field, 0)]
    return changes


def _ways(exploration: Exploration) -> _Ways:
    """Return the ways to set each field whose values say what exists; the first one sets nothing.

    A field that the code accepts only with a flag is set with it.
    """
    findings = exploration.findings
    ways: _Ways = {}
    for field, turn in findings.turns.items():
        chosen = [value for value in turn.values if turn.value is None or _is_choice(value)]
        if chosen and field not in findings.base:
            ways[field] = [{}, *({field: value} for value in chosen[:MOST_VALUES])]
    for changes in findings.together:
        if all(map(_is_choice, changes.values())):
            ways.setdefault(" with ".join(changes), [{}]).append(changes)
    return ways


def _is_choice(value: Any) -> bool:
    return value is None or isinstance(value, bool | str) or (type(value) is int and not value)


def _pairs(ways: Mapping[str, Sequence[Changes]]) -> dict[_Pair, None]:
    """Return every two choices of two fields; in a dict, which keeps their order."""
    choices = [[_Choice(field, at) for at in range(len(known))] for field, known in ways.items()]
    return {
        _pair(*both): None
        for one, other in itertools.combinations(choices, 2)
        for both in itertools.product(one, other)
    }


def _row_of(changes: Changes, ways: _Ways) -> _Row:
    """Return the ways that a config sets its fields; one way may set the flag of another field."""
    return {
        field: max(at for at, way in enumerate(known) if way.items() <= changes.items())
        for field, known in ways.items()
    }


def _pair(one: _Choice, other: _Choice) -> _Pair:
    return (one, other) if one < other else (other, one)


def _pairs_in(row: _Row) -> Iterator[_Pair]:
    choices = itertools.starmap(_Choice, row.items())
    return itertools.starmap(_pair, itertools.combinations(choices, 2))


def _filled(
    exploration: Exploration,
    first: _Pair,
    ways: Mapping[str, Sequence[Changes]],
    unmet: Mapping[_Pair, None],
) -> _Row:
    """Return a choice for every field, beside two, such that as many pairs as possible meet."""
    row: _Row = dict(first)
    others = [field for field in ways if field not in row]
    exploration.random.shuffle(others)
    for field in others:
        chosen = [_Choice(*at) for at in row.items()]
        choices = [_Choice(field, at) for at in range(len(ways[field]))]
        meets = [sum(_pair(choice, at) in unmet for at in chosen) for choice in choices]
        best = [at for at, number in enumerate(meets) if number == max(meets)]
        row[field] = exploration.random.choice(best)
    return row
