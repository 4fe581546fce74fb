"""The binder: binds the indices of a tensor, for any kind of result.

A blueprint gives the number of repetitions of each index, and the conditions, dims and tie of a
tensor in each place. The walk over the indices is the same for the integers of a config, for
arrays, for letters and for the values of a probe; only the result differs. So `fold_indices` walks,
and a meaning builds the result: a list of places here, ranges of places in `ledger/bind.py`, a
product of counts and sizes in `ledger/letters.py`.
"""

from __future__ import annotations

from weighbridge.algebra.expr import evaluate, names_in, source
from weighbridge.blueprint.classify import all_names_in
from weighbridge.blueprint.schema import LARGEST_SIZE
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol, TypeVar

    from weighbridge.algebra.expr import Tree

    Result = TypeVar("Result")

    class IndexMeaning(Protocol[Result]):
        """How the indices of a tensor give a result, from the innermost outwards."""

        def here(self) -> Result:
            """Return the result in one place; every index is bound."""

        def alike(self, index: str, inside: Callable[[], Result]) -> Result:
            """Return the result over an index that changes nothing; call ``inside`` once."""

        def each(self, index: str, inside: Callable[[], Result]) -> Result:
            """Return the result over an index on which something depends.

            The meaning may bind the index and call ``inside`` once for each of its values.
            """


def fold_indices(
    repeat: Sequence[str], varies: Collection[str], meaning: IndexMeaning[Result]
) -> Result:
    """Return the result over indices, outermost first; something depends on ``varies``."""
    if not repeat:
        return meaning.here()
    index, *inner = repeat
    if index in varies:
        return meaning.each(index, lambda: fold_indices(inner, varies, meaning))
    return meaning.alike(index, lambda: fold_indices(inner, varies, meaning))


def each_place(
    repeat: Sequence[str],
    values: Mapping[str, Any],
    count: Callable[[str, Mapping[str, Any]], int],
) -> Iterator[dict[str, Any]]:
    """Yield ``values`` with a value for each index, place by place, the outermost index slowest.

    ``count`` returns the repetitions of an index, given its name and the values outside it.

    Example:
        >>> def count(index, values):
        ...     return values.get("i", 1) + 1
        >>> places = each_place(("i", "j"), {"width": 8}, count)
        >>> [(place["i"], place["j"]) for place in places]
        [(0, 0), (1, 0), (1, 1)]
    """
    return fold_indices(repeat, repeat, _EachPlace(values, count))


class _EachPlace:
    """The meaning of `each_place`: the bound values themselves."""

    def __init__(
        self, values: Mapping[str, Any], count: Callable[[str, Mapping[str, Any]], int]
    ) -> None:
        self.values, self.count = dict(values), count

    def here(self) -> Iterator[dict[str, Any]]:
        yield dict(self.values)

    def each(
        self, index: str, inside: Callable[[], Iterator[dict[str, Any]]]
    ) -> Iterator[dict[str, Any]]:
        for value in range(self.count(index, self.values)):
            self.values[index] = value
            yield from inside()
        self.values.pop(index, None)

    alike = each


def bound_size(
    tree: Tree, values: Mapping[str, Any], least: int = 1, most: int = LARGEST_SIZE
) -> int:
    """Return the integer value of an expression.

    Raises:
        ExpressionError: it has no value, or the value is not an integer from ``least`` to ``most``.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> bound_size(parse("width - 8"), {"width": 768})
        760
    """
    size = evaluate(tree, values)
    if type(size) is not int or not least <= size <= most:
        raise ExpressionError(
            f"gives {size!r}, not an integer from {least} to {most}",
            where=source(tree),
            values={name: values[name] for name in names_in(tree)},
        )
    return size


def uses(tree: Tree, names: Iterable[str]) -> bool:
    """Whether an expression contains any of these names."""
    return not set(names_in(tree)).isdisjoint(names)


def indices_used(repeat: Iterable[str], trees: Iterable[Tree]) -> frozenset[str]:
    """Return the indices of a tensor on which any of these expressions depends."""
    return all_names_in(trees).intersection(repeat)
