"""The places of a tensor: all combinations of its indices, held as nested ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self, overload

    Block = tuple[Sequence[int], "Places"]
    Place = tuple[int, ...]


class Places(Sequence["Place"]):
    """The places of a tensor in checkpoint order, each a tuple of its indices, outermost first.

    Each of ``blocks`` pairs values of the outermost index with the places inside, which are the
    same for all values of the block. A tensor without an index has one place, ``()``, and no
    blocks. The values are a `range` if the tensor exists in every layer, so the cost does not grow
    with the number of layers.

    Example:
        >>> list(every(range(2), range(2)))
        [(0, 0), (0, 1), (1, 0), (1, 1)]
        >>> len(every(range(94), range(128)))
        12032
    """

    __slots__ = ("_count", "blocks")

    def __init__(self, blocks: tuple[Block, ...] | None = None) -> None:
        self.blocks = blocks or ()
        self._count = sum(len(values) * len(inside) for values, inside in self.blocks)
        if blocks is None:
            self._count = 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Place]:
        if not self.blocks and self._count:
            yield ()
        for value, inside in self.items():
            for place in inside:
                yield (value, *place)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, at: int) -> Place: ...
        @overload
        def __getitem__(self, at: slice) -> tuple[Place, ...]: ...

    def __getitem__(self, at: int | slice) -> Place | tuple[Place, ...]:
        """Return the place, or places, at these positions."""
        if at == 0 and self._count:
            return next(iter(self))
        return tuple(self)[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and (self.blocks, self._count) == (
            other.blocks,
            other._count,
        )

    def __hash__(self) -> int:
        return hash((self.blocks, self._count))

    def __repr__(self) -> str:
        if self.blocks:
            return f"Places({list(self.blocks)})"
        return f"Places of {self._count}"

    @property
    def outermost(self) -> Sequence[int]:
        """The values of the outermost index: a range if none is missing, empty without an index."""
        if len(self.blocks) == 1:
            return self.blocks[0][0]
        return tuple(value for value, _ in self.items())

    def items(self) -> Iterator[tuple[int, Places]]:
        """Yield each value of the outermost index, in order, with the places inside it."""
        if len(self.blocks) == 1:
            values, inside = self.blocks[0]
            yield from ((value, inside) for value in values)
        else:
            inside_by_value: list[tuple[int, Places]] = []
            for values, inside in self.blocks:
                inside_by_value += [(value, inside) for value in values]
            yield from sorted(inside_by_value, key=itemgetter(0))

    def without(self, level: int) -> Places:
        """Return the places without one index, each once; all its values must have the same places.

        Example:
            >>> list(every(range(3), range(128)).without(1))
            [(0,), (1,), (2,)]
        """
        if level:
            return Places(
                tuple((values, inside.without(level - 1)) for values, inside in self.blocks)
            )
        return next((inside for values, inside in self.blocks if values), Places(()))

    @classmethod
    def at(cls, value: int, inside: Places) -> Self:
        """Return places under a single value of the outermost index."""
        return cls((((value,), inside),))

    @classmethod
    def of(cls, place: Place) -> Places:
        """Return a single place as `Places`.

        Example:
            >>> list(Places.of((3, 7)))
            [(3, 7)]
        """
        places = ONE
        for value in reversed(place):
            places = cls.at(value, places)
        return places


ONE = Places()
"""The place of a tensor without an index."""


def every(*ranges: range) -> Places:
    """Return all combinations of these indices."""
    places = ONE
    for values in reversed(ranges):
        places = Places(((values, places),))
    return places
