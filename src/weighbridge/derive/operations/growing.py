"""Loops that grow: each round saves more than the one before it.

Code may solve the rows of a chunk one by one, each from those before it. In round ``i`` it saves a
row of ``i`` numbers and a square of ``i * i``, for ``i`` from 1 to the chunk less one. No size of a
run is the number of a round, so all rounds are recorded as one tensor: that of the first round, as
often as all of them have it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weighbridge.algebra.expr import Tree

_FEWEST_ROUNDS = 7  # fewer tensors may be multiples of each other by chance
_ONE: Tree = ("value", 1)


class Same(NamedTuple):
    """An operation as it was in all runs: its module, its dtype, and its numbers in each run."""

    path: str
    dtype: str
    numbers: tuple[tuple[int, ...], ...]
    rounds: tuple[Tree, ...] = ()
    """How many times the numbers a loop that grows has in all rounds; empty without a loop."""


def below_the_diagonal(chunk: Tree) -> Tree:
    """Return 1 + 2 + 3 + … + (chunk - 1): the numbers of a square matrix below its diagonal.

    Example:
        >>> from weighbridge.algebra.expr import evaluate
        >>> evaluate(below_the_diagonal(("value", 64)), {})
        2016
    """
    return ("//", ("*", chunk, ("-", chunk, _ONE)), ("value", 2))


def squares_below(chunk: Tree) -> Tree:
    """Return 1 + 4 + 9 + … + (chunk - 1)².

    Example:
        >>> from weighbridge.algebra.expr import evaluate
        >>> evaluate(squares_below(("value", 4)), {}), 1 + 4 + 9
        (14, 14)
    """
    last: Tree = ("-", chunk, _ONE)
    twice: Tree = ("-", ("*", ("value", 2), chunk), _ONE)
    return ("//", ("*", ("*", chunk, last), twice), ("value", 6))


_SUMS: dict[int, Callable[[Tree], Tree]] = {1: below_the_diagonal, 2: squares_below}
"""The sum over all rounds, by the power of a round's number that each round has."""


def added_up(tensors: Iterable[Same], chunk: Tree, length: int) -> Iterator[Same]:
    """Yield tensors, those of each loop that grows over a chunk of this length as one.

    A loop has a tensor for every round. Where one is missing, the others are left as they are.

    Example:
        >>> sizes = (9, 5, 10, 15, 20, 25, 30, 35)
        >>> tensors = [Same("layer", "F32", ((size,),)) for size in sizes]
        >>> [(tensor.numbers, len(tensor.rounds)) for tensor in added_up(tensors, ("value", 8), 8)]
        [(((9,),), 0), (((5,),), 1)]
        >>> len(list(added_up(tensors[:-1], ("value", 8), 8)))
        7
    """
    tensors = list(tensors)
    left = Counter(tensors)
    loops: dict[Same, list[Same]] = {}
    for first in dict.fromkeys(tensors) if length > _FEWEST_ROUNDS else ():
        for power, total in _SUMS.items():
            while all(left[tensor] for tensor in _rounds(first, power, length)):
                left.subtract(_rounds(first, power, length))
                loops.setdefault(first, []).append(first._replace(rounds=(total(chunk),)))
    for tensor in tensors:
        yield from loops.pop(tensor, ())
        if left[tensor]:
            left[tensor] -= 1
            yield tensor


def _rounds(first: Same, power: int, length: int) -> Iterator[Same]:
    """Yield the tensor of every round, given that of the first one."""
    for number in range(1, length):
        times = number**power
        yield first._replace(numbers=tuple((size * times,) for (size,) in first.numbers))
