"""Shares of a difference: Shapley values of products, and tables whose rounded sums stay exact.

A *game* gives every set of players a number. A player's Shapley value is what it adds to the sets
before it, averaged over all orders in which the players may come. The values add up to the number
of all players less that of none, and those of a sum of games are the sums of the values. So a
polynomial is shared monomial by monomial, and only the few players in a monomial count.
"""

from __future__ import annotations

from fractions import Fraction
from math import factorial, floor

from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import TypeVar

    Player = TypeVar("Player", bound=Hashable)
    Line = TypeVar("Line", bound=Hashable)
    Cells = dict[tuple[Hashable, Hashable], Fraction]


class Share(NamedTuple):
    """What a player is worth: averaged over all orders, and alone, with no other player."""

    value: Fraction
    alone: Fraction

    def __add__(self, other: Share) -> Share:  # type: ignore[override]  # not a longer tuple
        return Share(self.value + other.value, self.alone + other.alone)


NOTHING = Share(Fraction(0), Fraction(0))


def shapley(
    players: Sequence[Player], value: Callable[[frozenset[Player]], Fraction | int]
) -> dict[Player, Share]:
    """Return the share of each player of a game, exactly.

    ``value`` is called once for each set of players.

    Example:
        >>> def area(changed):
        ...     return (3 if "width" in changed else 2) * (10 if "depth" in changed else 5)
        >>> [(name, str(share.value)) for name, share in shapley(["width", "depth"], area).items()]
        [('width', '15/2'), ('depth', '25/2')]
    """
    number = len(players)
    values = []
    for members in range(2**number):
        inside = frozenset(name for at, name in enumerate(players) if members >> at & 1)
        values.append(value(inside))
    orders = factorial(number)
    before = [factorial(size) * factorial(number - size - 1) for size in range(number)]
    shares = {}
    for at, player in enumerate(players):
        total: Fraction | int = 0
        for members in range(2**number):
            if not members >> at & 1:
                added = values[members | 1 << at] - values[members]
                total += before[members.bit_count()] * added
        alone = Fraction(values[1 << at] - values[0])
        shares[player] = Share(Fraction(total) / orders, alone)
    return shares


def rounded(cells: Mapping[tuple[Line, Player], Fraction]) -> dict[tuple[Line, Player], int]:
    """Return a table in integers: each cell, row sum and column sum is rounded down or up.

    Integer sums stay as they are. Such a table exists for any table (Bacharach, 1966). It is found
    here by moving fractions around cycles of cells until each cell is an integer.

    Example:
        >>> third, half = Fraction(1, 3), Fraction(1, 2)
        >>> table = {("a", "x"): third, ("a", "y"): 1 - third, ("b", "x"): half, ("b", "y"): half}
        >>> whole = rounded(table)
        >>> [whole["a", "x"] + whole["a", "y"], whole["b", "x"] + whole["b", "y"]]
        [1, 1]
    """
    table = _with_whole_sums(cells)
    while cycle := _cycle_of_fractions(table):
        _moved_around(table, cycle)
    return {place: int(table[place]) for place in cells}


_REST = object()
"""The row and the column that fill up the sums of a table to integers."""


def _with_whole_sums(cells: Mapping[tuple[Line, Player], Fraction]) -> Cells:
    """Return a table with one more row and column, so that all sums are integers."""
    table: Cells = dict(cells)  # type: ignore[arg-type]
    corner = Fraction(0)
    for axis in (0, 1):
        sums: dict[Hashable, Fraction] = {}
        for place, value in cells.items():
            sums[place[axis]] = sums.get(place[axis], Fraction(0)) + value
        for name, total in sums.items():
            missing = -total % 1
            table[(name, _REST) if axis == 0 else (_REST, name)] = missing
            if axis == 0:
                corner += missing
    table[_REST, _REST] = -corner % 1
    return table


def _cycle_of_fractions(table: Cells) -> list[tuple[Hashable, Hashable]]:
    """Return places of fractions, by turns in the same row and the same column; or none.

    A row or column with an integer sum that has a fraction has another one, so that a walk from
    fraction to fraction always goes on, and comes back to a row or a column.
    """
    by_line: dict[tuple[int, Hashable], list[tuple[Hashable, Hashable]]] = {}
    for place, value in table.items():
        if value % 1:
            for axis in (0, 1):
                by_line.setdefault((axis, place[axis]), []).append(place)
    if not by_line:
        return []
    place = next(iter(by_line.values()))[0]
    walk, lines, axis = [place], [(1, place[1])], 0
    while True:
        line = (axis, place[axis])
        if line in lines:
            return walk[lines.index(line) :]
        lines.append(line)
        place = next(other for other in by_line[line] if other != place)
        walk.append(place)
        axis = 1 - axis


def _moved_around(table: Cells, cycle: Sequence[tuple[Hashable, Hashable]]) -> None:
    """Add a number to the even places of a cycle and take it from the odd ones.

    It is the least that makes one of them an integer.
    """
    rise = min(-table[place] % 1 for place in cycle[::2])
    fall = min(table[place] - floor(table[place]) for place in cycle[1::2])
    step = min(rise, fall)
    for at, place in enumerate(cycle):
        table[place] += -step if at % 2 else step
