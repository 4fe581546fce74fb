"""The costs of running a model: pure functions of a ledger's rows and a class's operations.

Multiplying a batch of b matrices m × k with matrices k × n takes 2·b·m·k·n FLOPs: a multiplication
and an addition for each term.
"""

from __future__ import annotations

from itertools import chain, groupby
from math import prod

from weighbridge.blueprint.operations import COMPUTE
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from weighbridge.blueprint.operations import Operation
    from weighbridge.ledger.rows import Row


class Quantity(NamedTuple):
    """A quantity with its prediction and its measurement; None stands for an unknown value.

    Example:
        >>> Quantity("weight_bytes", 400, 500).ratio, Quantity("weight_bytes", 400, None).ratio
        (1.25, None)
    """

    name: str
    predicted: int | float | None
    measured: int | float | None

    @property
    def ratio(self) -> float | None:
        """The measured value divided by the predicted value."""
        if self.predicted is None or self.measured is None or not self.predicted:
            return None
        return self.measured / self.predicted


class Note(NamedTuple):
    """A note on a measurement: the key of its sentence, and the values to fill in."""

    key: str
    values: dict[str, str]


class Measurement(NamedTuple):
    """A model's costs, predicted and measured, with the settings of the run and notes on it.

    ``exact`` lists the quantities whose prediction is a count, which must match exactly.
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
        """The counts that differ from their prediction."""
        return [
            quantity.name
            for quantity in self.quantities
            if quantity.name in self.exact and quantity.ratio not in (None, 1)
        ]


def matmul_flops(products: Iterable[Operation]) -> int:
    """Return the floating-point operations of matrix products, in either pass.

    Example:
        >>> from weighbridge.blueprint.operations import Operation
        >>> matmul_flops([Operation("layer.{i}.dense", (1, 2, 3, 4), "", ((0,), (1,)))])
        96
    """
    return sum(
        2 * prod(product.shape) * len(product.places) * product.times for product in products
    )


def moved_bytes(products: Iterable[Operation], dtype: str) -> int:
    """Return the bytes that products move: each reads both factors and writes its result once.

    Nothing else is counted, neither elementwise operations nor what a kernel reads again.

    Example:
        >>> from weighbridge.blueprint.operations import Operation
        >>> moved_bytes([Operation("dense", (1, 2, 3, 4), "", ((),))], "BF16")
        52
    """
    moved = 0
    for product in products:
        batch, rows, inner, columns = product.shape
        elements = batch * (rows * inner + inner * columns + rows * columns)
        moved += stored_bytes(elements, dtype) * len(product.places) * product.times
    return moved


def saved_for_backward_bytes(saved: Iterable[Operation], compute_dtype: str) -> int:
    """Return the bytes that the forward pass saves for the backward pass, each storage once.

    Example:
        >>> from weighbridge.blueprint.operations import Operation
        >>> norm = Operation("norm", (2, 3), "compute", ((),))
        >>> saved = [norm, Operation("loss", (2,), "I64", ((),))]
        >>> saved_for_backward_bytes(saved, "F32"), saved_for_backward_bytes(saved, "BF16")
        (40, 28)
    """
    return sum(_bytes(tensor, compute_dtype) * len(tensor.places) for tensor in saved)


def weight_bytes(rows: Iterable[Row]) -> int:
    """Return the bytes that tensors take in memory; shared tensors count once."""
    return sum(row.bytes for row in rows)


def peak_bytes(
    rows: Iterable[Row],
    saved: Iterable[Operation],
    products: Iterable[Operation],
    compute_dtype: str,
    *,
    training: bool,
) -> int:
    """Return the peak memory of one step that starts without gradients.

    In training it is the weights, as given in ``rows``, and the largest total at any module of the
    backward pass. The total has three parts: saved tensors, which the pass frees; gradients of
    parameters, which it allocates; and twice the largest output of a product, for the gradients
    that enter and leave an operation. Where a tied weight gets its second gradient, the total has
    that gradient and the sum of both instead of the third part. Without training it is the weights,
    all saved tensors, and twice that output. The memory of kernels and the state of the optimizer
    are not included.
    """
    rows, saved = list(rows), list(saved)
    outputs = [prod(product.shape[:2]) * product.shape[3] for product in products]
    transient_bytes = 2 * stored_bytes(max(outputs, default=0), compute_dtype)
    if training:
        held_bytes = _most_in_backward_bytes(rows, saved, compute_dtype, transient_bytes)
    else:
        held_bytes = saved_for_backward_bytes(saved, compute_dtype) + transient_bytes
    return weight_bytes(rows) + held_bytes


def _most_in_backward_bytes(
    rows: list[Row], saved: list[Operation], compute_dtype: str, transient_bytes: int
) -> int:
    """Return the largest total of saved tensors, gradients and transient ones at any module."""
    rows_by_module: dict[str, list[Row]] = {}
    for row in rows:
        if row.parameters or row.tied_to:
            rows_by_module.setdefault(row.name.rpartition(".")[0], []).append(row)
    modules = list(_modules_in_order(saved, compute_dtype))
    saved_bytes = sum(size for _, size in modules)
    gradients = _Gradients()
    most_bytes = saved_bytes + transient_bytes
    for path, size in reversed(modules):
        second_bytes = sum(map(gradients.make, rows_by_module.pop(path, ())))
        transient_here = max(transient_bytes, 2 * second_bytes)  # the second gradient and the sum
        most_bytes = max(most_bytes, saved_bytes + gradients.bytes + transient_here)
        saved_bytes -= size
    # A module that saves nothing still has gradients; at the end all of them are allocated.
    for row in chain.from_iterable(rows_by_module.values()):
        gradients.make(row)
    return max(most_bytes, gradients.bytes + transient_bytes)


class _Gradients:
    """The gradients that a backward pass has made: one for each weight, however many use it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._weights: set[str] = set()

    def make(self, row: Row) -> int:
        """Add the gradient of a row; return its bytes if its weight had one before, else 0."""
        size, weight = stored_bytes(row.count, row.dtype), row.tied_to or row.name
        if weight in self._weights:
            return size
        self._weights.add(weight)
        self.bytes += size
        return 0


def _modules_in_order(saved: Iterable[Operation], compute_dtype: str) -> Iterator[tuple[str, int]]:
    """Yield each module that saves tensors, in the order they run, and the bytes it saves."""
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
    """Return the bytes that an operation saves in one place."""
    dtype = operation.dtype
    if dtype == COMPUTE:
        dtype = compute_dtype
    return operation.times * stored_bytes(prod(operation.shape), dtype)
