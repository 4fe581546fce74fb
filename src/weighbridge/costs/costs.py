"""What running a model costs: pure functions of a ledger's rows and of operations, with units in their names.

A product of a batch of b matrices m × k and k × n is 2·b·m·k·n FLOPs: a multiply and an add for
each of its terms.
"""

from __future__ import annotations

from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.blueprint.operations import COMPUTE
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weighbridge.blueprint.operations import Operation
    from weighbridge.ledger.rows import Row


class Quantity(NamedTuple):
    """Something that is predicted and measured; either is None where it is not known.

    Example:
        >>> Quantity("weight_bytes", 400, 500).ratio, Quantity("weight_bytes", 400, None).ratio
        (1.25, None)
    """

    name: str
    predicted: int | float | None
    measured: int | float | None

    @property
    def ratio(self) -> float | None:
        """What was measured, in parts of what was predicted."""
        if self.predicted is None or self.measured is None or not self.predicted:
            return None
        return self.measured / self.predicted


class Note(NamedTuple):
    """Something to say of a measurement: the key of a sentence, and what it is filled with."""

    key: str
    values: dict[str, str]


class Measurement(NamedTuple):
    """A model's costs, predicted and measured, with how it was run and what is to be said of it.

    ``exact`` are the quantities whose prediction is a count, and so is wrong if it is off at all.
    """

    model: str
    family: str
    class_name: str
    run: dict[str, Any]
    quantities: tuple[Quantity, ...]
    exact: tuple[str, ...]
    notes: tuple[Note, ...]

    @property
    def differing(self) -> list[str]:
        """The counts that are not what was predicted."""
        return [
            each.name
            for each in self.quantities
            if each.name in self.exact and each.ratio not in (None, 1)
        ]


def matmul_flops(products: Iterable[Operation]) -> int:
    """Return the floating point operations of matrix products, of whichever pass.

    Example:
        >>> from weighbridge.blueprint.operations import Operation
        >>> matmul_flops([Operation("layer.{i}.dense", (1, 2, 3, 4), "", ((0,), (1,)))])
        96
    """
    return sum(2 * prod(each.shape) * len(each.places) for each in products)


def saved_for_backward_bytes(saved: Iterable[Operation], compute_dtype: str) -> int:
    """Return what the forward pass keeps for the backward pass, each storage once.

    Example:
        >>> from weighbridge.blueprint.operations import Operation
        >>> saved = [Operation("norm", (2, 3), "compute", ((),)), Operation("loss", (2,), "I64", ((),))]
        >>> saved_for_backward_bytes(saved, "F32"), saved_for_backward_bytes(saved, "BF16")
        (40, 28)
    """
    return sum(_bytes(each, compute_dtype) * len(each.places) for each in saved)


def weight_bytes(rows: Iterable[Row]) -> int:
    """Return what tensors take in memory, each that is shared once."""
    return sum(row.bytes for row in rows)


def peak_bytes(
    rows: Iterable[Row],
    saved: Iterable[Operation],
    products: Iterable[Operation],
    compute_dtype: str,
    *,
    training: bool,
) -> int:
    """Return the most that is held at a time in one step, gradients not yet made at its start.

    It is the sum of the weights, as given in ``rows``; of what is saved and of the gradients of
    parameters, at the module of the backward pass where both together are most, as the one goes
    while the others come; and of twice the largest output of a product, for the gradient that comes
    into an operation and the one that leaves it. Without training it is the weights, all that is
    saved, and twice that output. What kernels take for themselves, and an optimizer's state, are
    not in it.
    """
    rows, saved = list(rows), list(saved)
    largest = max((each.shape[0] * each.shape[1] * each.shape[3] for each in products), default=0)
    transient_bytes = 2 * stored_bytes(largest, compute_dtype)
    if not training:
        return weight_bytes(rows) + saved_for_backward_bytes(saved, compute_dtype) + transient_bytes
    return (
        weight_bytes(rows) + _most_in_backward_bytes(rows, saved, compute_dtype) + transient_bytes
    )


def _most_in_backward_bytes(rows: list[Row], saved: list[Operation], compute_dtype: str) -> int:
    """Return the most that saved tensors and gradients take together, from module to module."""
    gradient_bytes: dict[str, int] = {}
    for row in rows:
        if row.parameters:
            path = row.name.rpartition(".")[0]
            gradient_bytes[path] = gradient_bytes.get(path, 0) + row.bytes
    steps = list(_in_order(saved, compute_dtype))
    met = {path for path, _ in steps}
    held = sum(size for _, size in steps)
    made = 0
    most = held
    for path, size in reversed(steps):
        made += gradient_bytes.pop(path, 0)
        most = max(most, held + made)
        held -= size
    return max(most, made + sum(gradient_bytes.values())) if met else held


def _in_order(saved: Iterable[Operation], compute_dtype: str) -> Iterator[tuple[str, int]]:
    """Yield the modules that save, in the order in which they run, layer by layer, and what each saves."""
    for repeats, group in groupby(saved, key=lambda each: "{" in each.path):
        listed = [(each, dict(zip(each.places, each.paths, strict=True))) for each in group]
        places = sorted({place for each, _ in listed for place in each.places}) if repeats else [()]
        for place in places:
            yield from (
                (paths[place], _bytes(each, compute_dtype))
                for each, paths in listed
                if place in paths
            )


def _bytes(each: Operation, compute_dtype: str) -> int:
    return stored_bytes(prod(each.shape), compute_dtype if each.dtype == COMPUTE else each.dtype)
