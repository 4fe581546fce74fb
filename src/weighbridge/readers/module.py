"""Reads the parameters and buffers of a PyTorch module in memory, without importing PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from weighbridge.ledger.rows import Row
from weighbridge.readers.header import Header
from weighbridge.units import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@runtime_checkable
class Module(Protocol):
    """The part of `torch.nn.Module` that is used."""

    def named_parameters(self, *, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield each parameter with its name."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return all tensors that are saved."""


def read(module: Module) -> Header:
    """Return all tensors that a module saves, in order.

    Tied tensors name their target; buffers are not parameters.

    Example:
        >>> import torch
        >>> for row in read(torch.nn.BatchNorm1d(3)).rows:
        ...     print(row.name, row.shape, row.dtype, row.parameters)
        weight (3,) F32 3
        bias (3,) F32 3
        running_mean (3,) F32 0
        running_var (3,) F32 0
        num_batches_tracked () I64 0
    """
    named = dict(module.named_parameters(remove_duplicate=False))
    first: dict[int, str] = {}
    rows = []
    for name, tensor in module.state_dict().items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        count, shape = tensor.numel(), tuple(map(int, tensor.shape))
        parameter = named.get(name)
        first_name = first.setdefault(id(parameter), name) if parameter is not None else name
        parameters = count if parameter is not None and first_name == name else 0
        tied_to = first_name if first_name != name else None
        rows.append(Row(name, shape, NAMES.get(dtype, dtype), "", (), count, parameters, tied_to))
    return Header(tuple(rows), {}, 0)
