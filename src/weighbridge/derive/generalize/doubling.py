"""Plain numbers that code doubles from one round of a loop to the next: such a number forgets.

``scale = 1``, then ``scale *= 2`` in each round, is a power of 2 of the round; if the first round
does not double it, of the round before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.algebra.rewrite import leaves, replaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weighbridge.algebra.expr import Tree

_Column = tuple[int, ...]  # the numbers at one position of several questions
_NUMBER: Tree = ("value", "a number")
_DOUBLED_TWICE = {1, 2, 4}  # fewer numbers double by chance


def powers_of_2(index: Tree) -> tuple[Tree, Tree]:
    """Return the numbers that double from the first round of a loop on, or from the second."""
    before: Tree = ("max", ("-", index, ("value", 1)), ("value", 0))
    return ("**", ("value", 2), index), ("**", ("value", 2), before)


def with_powers_of_2(questions: Iterable[Tree], indices: Iterable[Tree]) -> Iterator[Tree]:
    """Yield the questions of one form in which a number doubles, with powers of 2 in its place.

    Example:
        >>> from weighbridge.algebra.expr import parse, source
        >>> asked = [parse(f"image // {scale} <= window") for scale in (1, 2, 4)]
        >>> [source(question) for question in with_powers_of_2(asked, [("name", "i")])]
        ['image // 2 ** i <= window', 'image // 2 ** max(i - 1, 0) <= window']
    """
    powers = [power for index in indices for power in powers_of_2(index)]
    for form, rows in _numbers_by_form(questions).items():
        columns = [*zip(*rows, strict=True)]
        doubled = next(filter(_doubles, columns), None)
        if doubled and all(column == doubled or len({*column}) == 1 for column in columns):
            yield from (_with_power(form, columns, doubled, power) for power in powers)


def _numbers_by_form(questions: Iterable[Tree]) -> dict[Tree, list[list[int]]]:
    """Return the numbers in each question, by what the question is without them."""
    rows: dict[Tree, list[list[int]]] = {}
    for question in questions:
        numbers = [leaf[1] for leaf in leaves(question) if _is_whole(leaf)]
        form = replaced(question, lambda leaf: _NUMBER if _is_whole(leaf) else leaf)
        rows.setdefault(form, []).append(numbers)
    return rows


def _is_whole(leaf: Tree) -> bool:
    return leaf[0] == "value" and type(leaf[1]) is int


def _doubles(numbers: _Column) -> bool:
    are_powers = all(number > 0 and number.bit_count() == 1 for number in numbers)
    return are_powers and {*numbers} >= _DOUBLED_TWICE


def _with_power(form: Tree, columns: Sequence[_Column], doubled: _Column, power: Tree) -> Tree:
    """Return a question with a power of 2 where a number doubles, and its other numbers."""
    numbers: Iterator[Tree] = iter(
        [power if column == doubled else ("value", column[0]) for column in columns]
    )
    return replaced(form, lambda leaf: next(numbers) if leaf is _NUMBER else leaf)
