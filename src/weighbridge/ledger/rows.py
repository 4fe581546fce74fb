"""Rows of a ledger, entries that represent many rows, groups of entries, and checkpoint order."""

from __future__ import annotations

from math import prod

from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.ledger.places import Places
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weighbridge.blueprint.schema import Template
    from weighbridge.ledger.places import Place


class Row(NamedTuple):
    """One tensor, expected or found.

    ``count`` is its number of elements. ``parameters`` is the number that it adds to the unique
    parameters of its class: the same as ``count``, or 0 for a buffer and for a tied tensor, where
    ``tied_to`` names the row that holds the weight. A header does not distinguish buffers from
    parameters. For a quantised weight, ``parameters`` is the number of elements that it represents.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    dims: tuple[str, ...]
    # Users know the word "count", and nothing needs a tuple's own count().
    count: int  # type: ignore[assignment]
    parameters: int
    tied_to: str | None = None

    @property
    def bytes(self) -> int:
        """The bytes that its elements take; 0 if it is tied to another tensor."""
        if self.tied_to:
            return 0
        return stored_bytes(self.count, self.dtype)


class Entry(NamedTuple):
    """A template bound to numbers: one row, or the same row in each of the places ``indices``.

    The places are ranges if the tensor exists in every layer, so the cost of an entry does not grow
    with them. ``part`` is true for an entry with the places of a single layer only.
    """

    template: Template
    shape: tuple[int, ...]
    indices: Places
    tied: bool
    part: bool = False

    @property
    def parameters(self) -> int:
        """The number that its rows add to the unique parameters."""
        if self.tied:
            return 0
        return prod(self.shape) * len(self.indices)

    def name(self, place: Place) -> str:
        """Return the tensor's name in a place: a value for each index, outermost first."""
        return self._in(self.template.name, place)

    def tied_to(self, place: Place) -> str | None:
        """Return the name of the tensor that this one is tied to in this place, if any."""
        if self.template.tie is None or not self.tied:
            return None
        return self._in(self.template.tie.to, place)

    def bound(self, place: Place) -> dict[str, int]:
        """Return the values of its indices in this place, by their names."""
        return dict(zip(self.template.repeat, place, strict=True))

    def _in(self, name: str, place: Place) -> str:
        for index, value in zip(self.template.repeat, place, strict=True):
            name = name.replace(f"{{{index}}}", str(value))
        return name


class RowGroup(NamedTuple):
    """A group of entries under one name: a component, a role, a layer or a tensor."""

    name: str
    entries: tuple[Entry, ...]

    @property
    def parameters(self) -> int:
        """The unique parameters of the group."""
        return sum(entry.parameters for entry in self.entries)

    @property
    def tied(self) -> int:
        """The number of elements in the group that are shared with a tensor elsewhere."""
        return sum(prod(entry.shape) * len(entry.indices) for entry in self.entries if entry.tied)


def layer_path(entry: Entry, prefix: str) -> str:
    """Return the path of an entry's layer, or of its first module after the base's prefix."""
    name = entry.template.name
    if entry.template.repeat:
        return f"{name.partition('{')[0]}{entry.indices.outermost[0]}"
    below = name.removeprefix(prefix)
    above = name.removesuffix(below)
    return above + below.partition(".")[0]


class _LayerPart(NamedTuple):
    """The part of an entry inside a layer: the rest of its name, in pieces, and its places."""

    entry: Entry
    stems: Sequence[str]
    places: Places


def _layer_parts(entries: Iterable[Entry]) -> list[_LayerPart]:
    return [_LayerPart(entry, _stems(entry.template.name), entry.indices) for entry in entries]


def _stems(name: str) -> list[str]:
    """Return the pieces of a name down to each of its indices: ``["stages.", ".blocks."]``."""
    return [piece.rpartition("}")[2] for piece in name.split("{")[:-1]]


def _runs(parts: Sequence[_LayerPart]) -> Iterator[list[_LayerPart]]:
    """Split neighbours into runs: parts in layers under one path, or one part without layers."""
    run: list[_LayerPart] = []
    for part in parts:
        if run and not (part.stems and part.stems[:1] == run[0].stems[:1]):
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def _layers(run: Iterable[_LayerPart]) -> Iterator[tuple[int, list[_LayerPart]]]:
    """Yield each layer of a run with its parts."""
    layers: dict[int, list[_LayerPart]] = {}
    for entry, stems, places in run:
        for values, inside in places.blocks:
            part = _LayerPart(entry, stems[1:], inside)
            for value in values:
                layers.setdefault(value, []).append(part)
    for value in sorted(layers):
        yield value, layers[value]


def by_layer(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield entries split by outermost layer: all of layer 0, then all of layer 1, and so on."""
    for run in _runs(_layer_parts(entries)):
        if not run[0].stems:
            yield run[0].entry
            continue
        for value, inside in _layers(run):
            for part in inside:
                yield part.entry._replace(indices=Places.at(value, part.places), part=True)


def in_checkpoint_order(entries: Iterable[Entry]) -> Iterator[tuple[Entry, Place]]:
    """Yield entries place by place: all of layer 0, then all of layer 1, and so on inside."""
    return _ordered(_layer_parts(entries), ())


def _ordered(parts: Sequence[_LayerPart], above: Place) -> Iterator[tuple[Entry, Place]]:
    for run in _runs(parts):
        if not run[0].stems:
            yield run[0].entry, above
            continue
        for value, inside in _layers(run):
            yield from _ordered(inside, (*above, value))
