"""The questions that reference code asks about a config, and changes that flip their answers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.rewrite import compiled, field_names, leaves

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from weighbridge.algebra.expr import Tree

MOST_FLIPPING = 3  # values of one field that flip one question; the first lie at its threshold
LARGEST_THRESHOLD = 2**20  # a larger number is a limit of a device or a format, not a size
SIZE_FOR_NULL = 16  # a size that most code accepts


def names_a_round(tree: Tree) -> bool:
    """Whether a question names the round of a loop, so that a config alone does not answer it."""
    return any(leaf[0] == "loop" for leaf in leaves(tree))


def answer_to(tree: Tree, fields: Mapping[str, Any]) -> bool | None:
    """Return the answer to a question for these fields; None if it has none."""
    try:
        return bool(compiled(tree)(fields))
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
        return None


def flipping(
    tree: Tree, fields: Mapping[str, Any], settable: Container[str]
) -> Iterator[tuple[str, Any]]:
    """Yield fields with values that flip the answer to a question, one field at a time.

    Args:
        tree: the question, without loop counters.
        fields: the values at which it was asked.
        settable: the fields that a config may set.
    """
    answer = answer_to(tree, fields)
    for path in sorted(field_names(tree)):
        if path not in settable or path not in fields:
            continue
        values = _values_near(tree, path, fields)
        flipped = (
            (path, value)
            for value in values
            if answer_to(tree, {**fields, path: value}) is (not answer)
        )
        yield from itertools.islice(flipped, MOST_FLIPPING)


def _values_near(tree: Tree, path: str, fields: Mapping[str, Any]) -> Iterator[Any]:
    """Yield values for a field of a question that lie at what it is compared with, or beside it."""
    value = fields[path]
    constants = [leaf[1] for leaf in leaves(tree) if leaf[0] == "value"]
    texts = [constant for constant in constants if isinstance(constant, str)]
    numbers = [number for number in _values_compared(tree, fields) if type(number) is int]
    thresholds = [near for number in numbers for near in (number, number + 1, number - 1)]
    thresholds = [number for number in thresholds if 0 <= number <= LARGEST_THRESHOLD]
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (*thresholds, 2 * value, value // 2)
    elif isinstance(value, str):
        yield from texts
    elif isinstance(value, list | tuple):
        yield from _lists_near(tree, path, list(value), [*texts, *thresholds])
    elif value is None:
        yield from texts
        yield from ([text] for text in texts)
        yield from (True, SIZE_FOR_NULL, *thresholds)


def _values_compared(tree: Tree, fields: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the numbers in a question: the values of its sides, of its fields and constants."""
    for part in (*tree[1:], *leaves(tree)):
        if isinstance(part, tuple):
            try:
                yield compiled(part)(fields)
            except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
                continue


def _lists_near(tree: Tree, path: str, items: list[Any], values: list[Any]) -> Iterator[Any]:
    """Yield lists with one of these values at the index that a question names, or at the end."""
    for index in _indices_asked(tree, path):
        if -len(items) <= index < len(items):
            for value in values:
                yield [*items[:index], value, *items[index:][1:]]
    for value in values:
        if value in items:
            yield [item for item in items if item != value]
        elif not items or type(items[0]) is type(value):
            yield [*items, value]


def _indices_asked(tree: Tree, path: str) -> Iterator[int]:
    if tree[0] == "[]" and tree[1] == ("name", path) and type(tree[2][-1]) is int:
        yield tree[2][-1]
    for part in tree[1:]:
        if isinstance(part, tuple):
            yield from _indices_asked(part, path)
