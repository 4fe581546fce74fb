"""The totals of a run's operations, whatever their sizes are: letters, or arrays in a sweep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.expr import evaluate, names_in
from weighbridge.blueprint.bind import bound_size, each_place
from weighbridge.blueprint.operations import COMPUTE
from weighbridge.blueprint.paths import indices_in
from weighbridge.blueprint.schema import MOST_LAYERS
from weighbridge.costs.figures import BYTES, FLOPS, MOVED
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from weighbridge.answers.cost import RunCost
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.blueprint.operations import OperationTemplate


class RunTotals(ABC):
    """Adds up the operations of a class; a subclass says what each of them is."""

    one: Any = 1

    def __init__(self, found: RecordedModel, names: Mapping[str, Any], dtype: str) -> None:
        self._found, self._names, self._dtype = found, dict(names), dtype

    @abstractmethod
    def written(
        self, kind: str, only: Callable[[str], bool] | None = None
    ) -> Iterator[tuple[OperationTemplate, Any, list[Any]]]:
        """Yield each operation of a kind, how often it is done, and its dims.

        ``only`` chooses the paths of modules.
        """

    def flops_of(self, kind: str, only: Callable[[str], bool] | None = None) -> Any:
        """Return the FLOPs of a kind of products, of all modules or some."""
        return self._total(kind, lambda dims, _: 2 * prod(dims, start=self.one), only)

    def bytes_of(self, kind: str, only: Callable[[str], bool] | None = None) -> Any:
        """Return the bytes of a kind of tensors, of all modules or some."""

        def size(dims: list[Any], dtype: str) -> Any:
            stored = stored_bytes(1, self._dtype if dtype == COMPUTE else dtype)
            return stored * prod(dims, start=self.one)

        return self._total(kind, size, only)

    def moved_by(self, kind: str) -> Any:
        """Return the bytes that a kind of products moves."""
        stored = stored_bytes(1, self._dtype)

        def moved(dims: list[Any], _: str) -> Any:
            batch, rows, inner, columns = dims
            return stored * batch * (rows * inner + inner * columns + rows * columns)

        return self._total(kind, moved)

    def _total(self, kind: str, size: Any, only: Callable[[str], bool] | None = None) -> Any:
        total = 0 * self.one
        for entry, places, dims in self.written(kind, only):
            total = total + places * size(dims, entry.dtype)
        return total

    def of_kinds(self, kinds: Iterable[str], *, moved: bool) -> dict[str, Any]:
        """Return the total of each kind by the name of its figure."""
        totals = {}
        for kind in kinds:
            if kind in BYTES:
                totals[BYTES[kind]] = self.bytes_of(kind)
                continue
            totals[FLOPS[kind]] = self.flops_of(kind)
            if kind in MOVED and moved:
                totals[MOVED[kind]] = self.moved_by(kind)
        return totals


class SweptTotals(RunTotals):
    """The totals at arrays of sizes of the run.

    Example:
        >>> import numpy
        >>> from weighbridge.answers.recorded import recorded
        >>> llama = recorded("meta-llama/Llama-3.1-8B")
        >>> names = llama.names(batch=1, past=numpy.array([1024, 4096]))
        >>> SweptTotals(llama, names, "BF16").bytes_of("prefilled")
        array([134217728, 536870912])
    """

    def written(
        self, kind: str, only: Callable[[str], bool] | None = None
    ) -> Iterator[tuple[OperationTemplate, Any, list[Any]]]:
        """Yield each operation of a kind, how often it is done, and its dims."""
        for entry in self._found.entries(kind):
            places = self._places(entry)
            if (type(places) is int and not places) or (only is not None and not only(entry.path)):
                continue
            times, *dims = (evaluate(tree, self._names) for tree in (entry.times, *entry.dims))
            yield entry, places * times, dims

    def _places(self, entry: OperationTemplate) -> Any:
        """Return the number of places of an operation."""
        counts, when = self._counts(entry), entry.when
        if when is None:
            return prod(counts.values())
        if set(counts).isdisjoint(names_in(when)):
            return prod(counts.values()) * evaluate(when, self._names)
        return sum(evaluate(when, place) for place in self._everywhere(counts))

    def _counts(self, entry: OperationTemplate) -> dict[str, int]:
        """Return how many values each index in the path of an operation takes."""
        repeat = self._found.known.repeat
        return {
            index: bound_size(repeat[index], self._names, 0, MOST_LAYERS)
            for index in indices_in(entry.path)
        }

    def _everywhere(self, counts: Mapping[str, int]) -> Iterator[dict[str, Any]]:
        """Yield the names with a value for each index."""
        return each_place(tuple(counts), self._names, lambda index, _: counts[index])


def swept(cost: RunCost, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a run at other sizes, which are integers or arrays of them."""
    names = {**cost.names, **{name: _exact(value) for name, value in sizes.items()}}
    if cost.run.past is None:
        names["past"] = names["sequence"]
    if cost.run.target is None:
        names["target"] = names["sequence"]
    totals = SweptTotals(cost.found, names, cost.run.dtype)
    found = totals.of_kinds(cost.operations, moved=not cost.attribution.has_stacks)
    if cost.cache_bytes is not None:
        kind = "prefilled" if cost.run.past is None else "stepped"
        held = SweptTotals(cost.found, {**names, "training": False}, cost.run.dtype)
        found["cache_bytes"] = held.bytes_of(kind)
    return {name: _in_64_bits(total) for name, total in found.items()}


def _exact(value: Any) -> Any:
    """Return an array with Python's integers, which do not overflow."""
    return value.astype(object) if hasattr(value, "astype") else value


def _in_64_bits(total: Any) -> Any:
    """Return an array of 64-bit integers, if they fit."""
    if not hasattr(total, "astype"):
        return total
    try:
        return total.astype("int64")
    except OverflowError:
        return total
