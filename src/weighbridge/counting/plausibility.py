"""How plausible a way of counting is, and whether a random number would be explained as well."""

from __future__ import annotations

from math import inf, log2
from typing import TYPE_CHECKING

from weighbridge.counting.conventions import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_STEPS = 3
"""The number of conventions that people combine; longer chains give almost any number."""

_PRIOR = 0.05  # of a convention whose facts state none
_NEIGHBOURHOOD = 0.05  # a number is compared with random ones that differ by up to 5%
_CHANCE = 0.001  # the share of random numbers that may be explained
_LEAST_ALLOWED = 10  # totals; a number of few digits is not near more of them by chance


def improbability(conventions: Iterable[str]) -> float:
    """Return the improbability of counting by several conventions, in bits.

    Example:
        >>> improbability([]), improbability(["pooler"]) < improbability(["segment_embedding"])
        (0, True)
    """
    return sum(-log2(table()[name].get("prior", _PRIOR)) for name in conventions)


def neighbourhood(number: int) -> tuple[int, int]:
    """Return the lowest and highest of the numbers that a number is compared with."""
    return round(number * (1 - _NEIGHBOURHOOD)), round(number * (1 + _NEIGHBOURHOOD))


def chance_limit(number: int, improbabilities: Mapping[int, float]) -> float:
    """Return the improbability from which a way of counting a number may fit by chance.

    ``improbabilities`` has the totals near the number, each with that of its most plausible way.
    Ways below the limit have so few totals that at most 1 in 1,000 random numbers is one of them.

    Example:
        >>> chance_limit(1_000_000, {1_000_001: 2.0})
        inf
        >>> chance_limit(1_000_000, {1_000_000 + more: 2.0 + more for more in range(1000)})
        102.0
    """
    least, most = neighbourhood(number)
    allowed = max(int((most - least + 1) * _CHANCE), _LEAST_ALLOWED)
    nearby = sorted(improbabilities.values())
    if len(nearby) <= allowed:
        return inf
    return nearby[allowed]
