"""Plain numbers that code doubles from one round of a loop to the next: such a number forgets.

``scale = 1``, then ``scale *= 2`` in each round, is a power of 2 of the round; if the first round
does not double it, of the round before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.algebra.rewrite import leaves, replaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weighbridge.algebra.expr import Tree

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
    numbers_by_form: dict[Tree, list[list[int]]] = {}
    for question in questions:
        numbers = [leaf[1] for leaf in leaves(question) if _is_whole(leaf)]
        form = replaced(question, lambda leaf: _NUMBER if _is_whole(leaf) else leaf)
        numbers_by_form.setdefault(form, []).append(numbers)
    powers = [power for index in indices for power in powers_of_2(index)]
    for form, rows in numbers_by_form.items():
        columns = [[*column] for column in zip(*rows, strict=True)]
        doubled = next(filter(_doubles, columns), None)
        if doubled and all(column == doubled or len({*column}) == 1 for column in columns):
            first: list[Tree] = [("value", number) for number in rows[0]]
            for power in powers:
                filling = [
                    power if column == doubled else number
                    for column, number in zip(columns, first, strict=True)
                ]
                yield _filled(form, iter(filling))


def _is_whole(leaf: Tree) -> bool:
    return leaf[0] == "value" and type(leaf[1]) is int


def _doubles(numbers: list[int]) -> bool:
    are_powers = all(number > 0 and number.bit_count() == 1 for number in numbers)
    return are_powers and {*numbers} >= _DOUBLED_TWICE


def _filled(form: Tree, numbers: Iterator[Tree]) -> Tree:
    return replaced(form, lambda leaf: next(numbers) if leaf is _NUMBER else leaf)
