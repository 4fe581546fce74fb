"""What running a model costs: pure functions of a ledger's rows and of its operations.

A product of a batch of b matrices m × k and k × n is 2·b·m·k·n FLOPs: a multiply and an add for
each of its terms.
"""

from __future__ import annotations

from collections import Counter
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
            quantity.name
            for quantity in self.quantities
            if quantity.name in self.exact and quantity.ratio not in (None, 1)
        ]


def matmul_flops(products: Iterable[Operation]) -> int:
    """Return the floating point operations of matrix products, of whichever pass.

    Example:
        >>> from weighbridge.blueprint.operations import Operation
        >>> matmul_flops([Operation("layer.{i}.dense", (1, 2, 3, 4), "", ((0,), (1,)))])
        96
    """
    return sum(2 * prod(product.shape) * len(product.places) for product in products)


def saved_for_backward_bytes(saved: Iterable[Operation], compute_dtype: str) -> int:
    """Return what the forward pass keeps for the backward pass, each storage once.

    Example:
        >>> from weighbridge.blueprint.operations import Operation
        >>> norm = Operation("norm", (2, 3), "compute", ((),))
        >>> saved = [norm, Operation("loss", (2,), "I64", ((),))]
        >>> saved_for_backward_bytes(saved, "F32"), saved_for_backward_bytes(saved, "BF16")
        (40, 28)
    """
    return sum(_bytes(tensor, compute_dtype) * len(tensor.places) for tensor in saved)


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
    outputs = [prod(product.shape[:2]) * product.shape[3] for product in products]
    transient_bytes = 2 * stored_bytes(max(outputs, default=0), compute_dtype)
    if training:
        held_bytes = _most_in_backward_bytes(rows, saved, compute_dtype)
    else:
        held_bytes = saved_for_backward_bytes(saved, compute_dtype)
    return weight_bytes(rows) + held_bytes + transient_bytes


def _most_in_backward_bytes(rows: list[Row], saved: list[Operation], compute_dtype: str) -> int:
    """Return the most that saved tensors and gradients take together, from module to module."""
    gradient_bytes = Counter[str]()
    for row in rows:
        if row.parameters:
            gradient_bytes[row.name.rpartition(".")[0]] += row.bytes
    modules = list(_modules_in_order(saved, compute_dtype))
    saved_bytes = sum(size for _, size in modules)
    made_bytes, most_bytes = 0, saved_bytes
    for path, size in reversed(modules):
        made_bytes += gradient_bytes.pop(path, 0)
        most_bytes = max(most_bytes, saved_bytes + made_bytes)
        saved_bytes -= size
    # A module that saves nothing has gradients all the same; in the end all of them are there.
    return max(most_bytes, made_bytes + gradient_bytes.total())


def _modules_in_order(saved: Iterable[Operation], compute_dtype: str) -> Iterator[tuple[str, int]]:
    """Yield each module that saves, layer by layer in the order they run, and what it saves."""
    for repeats, neighbours in groupby(saved, key=lambda operation: "{" in operation.path):
        operations = list(neighbours)
        if not repeats:
            for operation in operations:
                yield operation.path, _bytes(operation, compute_dtype)
            continue
        by_place: dict[tuple[int, ...], list[tuple[str, int]]] = {}
        for operation in operations:
            size = _bytes(operation, compute_dtype)
            for place, path in zip(operation.places, operation.paths, strict=True):
                by_place.setdefault(place, []).append((path, size))
        for place in sorted(by_place):
            yield from by_place[place]


def _bytes(operation: Operation, compute_dtype: str) -> int:
    """Return what an operation saves in one place."""
    dtype = operation.dtype
    if dtype == COMPUTE:
        dtype = compute_dtype
    return stored_bytes(prod(operation.shape), dtype)
