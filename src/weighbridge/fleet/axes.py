"""The axes of a sweep: the values that each field takes."""

from __future__ import annotations

import json
import re
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.blueprint.schema import LARGEST_SIZE
from weighbridge.errors import UsageError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Point = dict[str, Any]
"""A value for each axis."""

MOST_CORNERS = 64
"""Corners of a grid that are looked at; a grid of more axes has more."""
_RANGE = re.compile(r"(\d+)\.\.(\d+)(?::(\d+))?")
_HINT = "write hidden_size=1024..8192:128, layers=8..96, or heads=8,16,32"


class Axis(NamedTuple):
    """A field and the values that it takes: a range of integers, or a tuple of any values."""

    field: str
    values: range | tuple[Any, ...]

    @property
    def is_size(self) -> bool:
        """Whether all values are integers; other values make variants of a model."""
        return isinstance(self.values, range) or all(type(value) is int for value in self.values)

    @property
    def has_zero(self) -> bool:
        """Whether 0 is among the values."""
        return self.is_size and 0 in self.values

    @property
    def ends(self) -> tuple[Any, ...]:
        """The first and the last value, or the only one."""
        return tuple(dict.fromkeys((self.values[0], self.values[-1])))

    def __str__(self) -> str:
        if isinstance(self.values, range):
            step = f":{self.values.step}" if self.values.step > 1 else ""
            return f"{self.values[0]}..{self.values[-1]}{step}"
        return ", ".join(json.dumps(value, ensure_ascii=False) for value in self.values)


def parse_axis(text: str) -> Axis:
    """Read an axis as it is typed: ``FIELD=FIRST..LAST:STEP``, with both ends, or values in a row.

    Raises:
        UsageError: it has another form, or no values.

    Example:
        >>> parse_axis("hidden_size=1024..8192:1024").values
        range(1024, 8193, 1024)
        >>> parse_axis("tie_word_embeddings=true,false").values
        (True, False)
    """
    field, equals, values = text.partition("=")
    if not (field and equals and values):
        raise UsageError("--grid takes FIELD=VALUES", values={"found": text}, hint=_HINT)
    written = _RANGE.fullmatch(values)
    if written is None:
        return axis(field, [_typed_value(piece) for piece in values.split(",")])
    first, last, step = (int(number or "1") for number in written.groups())
    return axis(field, range(first, last + 1, step) if step else ())


def axis(field: str, values: Iterable[Any]) -> Axis:
    """Return an axis with these values, each once.

    Raises:
        UsageError: there are no values, or an integer is too large for a size.
    """
    chosen: range | tuple[Any, ...]
    if isinstance(values, range):
        chosen = values
    else:  # true and 1 are equal, but not the same
        chosen = tuple({(type(value), value): value for value in map(_as_plain, values)}.values())
    if not chosen:
        raise UsageError(f"the axis {shorten(field, str)} has no values", hint=_HINT)
    if any(type(value) is int and abs(value) > LARGEST_SIZE for value in (chosen[0], chosen[-1])):
        raise UsageError(
            f"the axis {shorten(field, str)} is out of range",
            values={"first": chosen[0], "last": chosen[-1]},
            hint=f"give 0 to {LARGEST_SIZE:,}",
        )
    return Axis(field, chosen)


def axes_of(grid: Mapping[str, Iterable[Any]] | Iterable[str]) -> list[Axis]:
    """Return the axes of a grid: a mapping from fields to values, or texts as they are typed.

    Raises:
        UsageError: it is no grid, or a field occurs twice.
    """
    if hasattr(grid, "items"):
        found = [axis(field, values) for field, values in grid.items()]
    else:
        found = list(map(parse_axis, grid))
    if not found:
        raise UsageError("a sweep needs at least one axis", hint=_HINT)
    names = [one.field for one in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError("an axis is given twice", values={"field": name}, hint="join the two")
    return found


def points_in(axes: Sequence[Axis]) -> int:
    """Return the number of points of a grid."""
    return prod(len(one.values) for one in axes)


def corners(axes: Sequence[Axis]) -> Iterator[Point]:
    """Yield the corners of a grid, at most `MOST_CORNERS`."""
    ends = product(*(one.ends for one in axes))
    for values in islice(ends, MOST_CORNERS):
        yield dict(zip((one.field for one in axes), values, strict=True))


def variants(axes: Sequence[Axis]) -> Iterator[Point]:
    """Yield each combination of the values of axes."""
    for values in product(*(one.values for one in axes)):
        yield dict(zip((one.field for one in axes), values, strict=True))


def _typed_value(text: str) -> Any:
    """Read a value: JSON if it can be parsed, otherwise text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int | float | str | None) else text


def _as_plain(value: Any) -> Any:
    """Return NumPy's numbers as Python's own."""
    return value.item() if hasattr(value, "item") else value
