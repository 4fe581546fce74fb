"""Items of lists that code walks backwards: such an item forgets the round of the loop.

``widths = widths[::-1]``, then ``widths[i] != widths[i - 1]`` in each round, asks about items by
plain numbers, which depend on the length of the list.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from weighbridge.algebra.rewrite import LEAVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weighbridge.algebra.expr import Tree

_MOST_ITEMS = 2  # in one question: the item of a round, and the one before
_ONE: Tree = ("value", 1)


def with_items_from_end(questions: Iterable[Tree], indices: Sequence[Tree]) -> Iterator[Tree]:
    """Yield questions about items of lists, with items that an index counts from the end instead.

    Each item is that of a round of the loop or, beside another, that of the round before.

    Example:
        >>> from weighbridge.algebra.expr import parse, source
        >>> asked = [parse("widths[2] != widths[1]"), parse("widths[1] != widths[0]")]
        >>> for question in with_items_from_end(asked, [("name", "i")]):
        ...     print(source(question))
        widths[len(widths) - 1 - i] != widths[len(widths) - i]
        widths[len(widths) - i] != widths[len(widths) - 1 - i]
    """
    asked_of: dict[Tree, set[Tree]] = {}
    for question in questions:
        asked_of.setdefault(_with_places(question, itertools.repeat(_ONE)), set()).add(question)
    for form, asked in asked_of.items():
        if len(asked) > 1:
            for index in indices:
                yield from _of_rounds(form, index)


def _of_rounds(form: Tree, index: Tree) -> Iterator[Tree]:
    lists = [item[1] for item in listed_items_in(form)]
    if len(lists) > _MOST_ITEMS:
        return
    choices = [(_this(field, index), _before(field, index)) for field in lists]
    for items in itertools.product(*choices):
        if len({*items}) == len(items):
            yield _with_places(form, iter(items))


def _this(field: Tree, index: Tree) -> Tree:
    return ("-", ("-", ("len", field), _ONE), index)


def _before(field: Tree, index: Tree) -> Tree:
    return ("-", ("len", field), index)


def is_item(tree: Tree) -> bool:
    """Whether a tree is the item of a list field at a plain number."""
    kind, *operands = tree
    return bool(kind == "[]" and operands[0][0] == "name" and operands[1][0] == "value")


def listed_items_in(tree: Tree) -> Iterator[Tree]:
    """Yield the items of list fields at plain numbers, left to right."""
    if is_item(tree):
        yield tree
    elif tree[0] not in LEAVES:
        for operand in tree[1:]:
            if isinstance(operand, tuple):
                yield from listed_items_in(operand)


def _with_places(tree: Tree, numbers: Iterator[Tree]) -> Tree:
    """Return a question with other numbers of its items, left to right."""
    if is_item(tree):
        return ("[]", tree[1], next(numbers))
    if tree[0] in LEAVES:
        return tree
    return (
        tree[0],
        *(_with_places(part, numbers) if isinstance(part, tuple) else part for part in tree[1:]),
    )
