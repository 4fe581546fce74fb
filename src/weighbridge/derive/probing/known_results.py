"""Results without values that are known from an earlier call.

On the meta device, torch computes most functions in Python. Tensors there hold no values: for the
result of a function that was called with such tensors before, an empty tensor does as well. So do
zeros for numbers on the CPU, where their values do not matter.
"""

from __future__ import annotations

import mmap
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._C import DisableTorchFunction
from torch.utils._python_dispatch import _get_current_dispatch_mode

from weighbridge.derive.probing.symbolic import Symbolic, plain_value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

_PLAIN = (
    *(type(None), bool, int, float, str),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
_NUMBERS = frozenset((bool, int, float))
TENSORS = (torch.Tensor, torch.nn.Parameter)
"""The classes of plain tensors: code may replace functions for others."""
_META, _CPU = "meta", "cpu"
_MOST_RESULTS = 50_000  # kinds of results that are remembered
_MANY_BYTES = 1 << 18  # of zeros, which take longer to write than to ask the system for
_SIZED_BY_VALUES = torch.Tag.dynamic_output_shape
_DRAWN = torch.ops.aten.bernoulli_.float
_VIEW_IN_ALL_BUT_NAME = torch.ops.aten._unsafe_view.default
_OF_ONE_NUMBER = {"ones_like", "new_ones", "full_like", "new_full"}


class _Kind(NamedTuple):
    """What decides a tensor without values."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: str

    def tensor(self) -> torch.Tensor:
        """Return a tensor of this kind: zeros, unless the device holds no values."""
        if self.device == _META:
            return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=_META)
        return zeros(self.shape, self.dtype, self.stride)


def zeros(shape: tuple[int, ...], dtype: torch.dtype, stride: tuple[int, ...] = ()) -> torch.Tensor:
    """Return zeros on the CPU that fill their storage; many are not written before they are read.

    Memory that the system hands out is zeros, which it writes when something first looks at them.

    Example:
        >>> zeros((2, 3), torch.bfloat16, stride=(1, 2)).stride()
        (1, 2)
        >>> int(zeros((1 << 20,), torch.float32).count_nonzero())
        0
    """
    size = prod(shape) * dtype.itemsize
    if size >= _MANY_BYTES:
        memory = torch.frombuffer(mmap.mmap(-1, size, access=mmap.ACCESS_COPY), dtype=dtype)
        storage = memory.untyped_storage()
        return torch.empty(0, dtype=dtype, device=_CPU).set_(storage, 0, shape, stride)
    if stride:
        return torch.empty_strided(shape, stride, dtype=dtype, device=_CPU).zero_()
    return torch.zeros(shape, dtype=dtype, device=_CPU)


_results: dict[Hashable, tuple[_Kind | None, ...]] = {}
"""The kinds of the results of each call, by function and the kinds of its arguments.

A function may leave out a result that is not asked for.
"""
_changes: set[Hashable] = set()
"""The kinds of calls that put other values into a tensor, and that torch did not refuse."""


def computed(function: Any, args: Any, kwargs: Any, device: str = _META) -> Any:
    """Return what a pure function returns: empty tensors if it was called with such ones before."""
    key = _call_key(function, args, kwargs, device)
    if key is None:
        return function(*args, **kwargs)
    kinds = _results.get(key)
    if kinds is not None:
        with DisableTorchFunction():
            tensors = [kind and kind.tensor() for kind in kinds]
        return tensors[0] if len(tensors) == 1 else (*tensors,)
    result = function(*args, **kwargs)
    has_more = type(result) is tuple and len(result) > 1
    tensors = [*result] if has_more else [result]
    with DisableTorchFunction():
        if _are_new(tensors, (*args, *kwargs.values()), device):
            if len(_results) == _MOST_RESULTS:
                _results.clear()
            _results[key] = (*(_kind_of(tensor, device) for tensor in tensors),)
    return result


def changed(function: Any, args: Any, kwargs: Any) -> Any:
    """Return a tensor after a function has put other values into it; there are no values here."""
    key = _change_key(function, args, kwargs)
    if key in _changes:
        return args[0]
    result = function(*args, **kwargs)
    if key is not None:
        _changes.add(key)
    return result


def dispatched(operator: Any, args: Any, kwargs: Any, device: str = _META) -> Any:
    """Return what an operator of torch returns: for a pure one, as `computed` does.

    Another mode below the present one may want to see the call, and then sees it.
    """
    if _is_pure(operator) and _get_current_dispatch_mode() is None:
        return computed(operator, args, kwargs, device)
    return operator(*args, **kwargs)


def with_zeros(operator: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator returns on the CPU, with zeros for numbers that were computed before.

    Integers and flags are computed, since code asks for them, and so is what is made of no other
    tensor: code asks whether a mask of ones is all ones.
    """
    if operator is _DRAWN:  # what a dropout drops
        return args[0].zero_()
    if _SIZED_BY_VALUES in operator.tags or _is_made_of_numbers(operator):
        return operator(*args, **kwargs)
    return dispatched(operator, args, kwargs, _CPU)


@cache
def _is_pure(operator: Any) -> bool:
    """Whether an operator returns tensors, which share nothing with its arguments."""
    schema = operator._schema
    return (
        operator is not _VIEW_IN_ALL_BUT_NAME
        and {str(part.type) for part in schema.returns} == {"Tensor"}
        and all(part.alias_info is None for part in (*schema.arguments, *schema.returns))
    )


@cache
def _is_made_of_numbers(operator: Any) -> bool:
    """Whether an operator returns a tensor that has no values of other tensors."""
    if operator.overloadpacket.__name__ in _OF_ONE_NUMBER:
        return True
    return not any("Tensor" in str(part.type) for part in operator._schema.arguments)


def _kind_of(result: torch.Tensor | None, device: str) -> _Kind | None:
    if result is None:
        return None
    return _Kind(result.shape, result.stride(), result.dtype, device)


def _are_new(results: Iterable[Any], args: Iterable[Any], device: str) -> bool:
    """Whether results are plain tensors on a device, each with a storage of its own.

    On the CPU, they are numbers besides, neither integers nor flags. A function may leave out some.
    """
    results = [result for result in results if result is not None]
    if not all(
        type(result) is torch.Tensor
        and result.device.type == device
        and (device == _META or result.is_floating_point())
        and not result.requires_grad
        and not result._is_view()
        and _is_dense(result)
        for result in results
    ):
        return False
    storages = [result.untyped_storage()._cdata for result in results]
    return len({*storages}) == len(storages) and not {*storages}.intersection(_storages_in(args))


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor fills its storage."""
    return tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


def _storages_in(values: Iterable[Any]) -> Iterable[int]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value.untyped_storage()._cdata
        elif isinstance(value, list | tuple):
            yield from _storages_in(value)


def _call_key(function: Any, args: Any, kwargs: Mapping[str, Any], device: str) -> Hashable | None:
    """Return what decides the kind of a function's result; None if that is not known."""
    with DisableTorchFunction():
        arguments = [_argument_key(arg, device) for arg in args]
        options = [(name, _argument_key(value, device)) for name, value in kwargs.items()]
    if None in arguments or any(option is None for _, option in options):
        return None
    is_recorded = torch.is_grad_enabled()
    return function, device, torch.get_default_dtype(), is_recorded, (*arguments,), (*options,)


def _argument_key(value: Any, device: str) -> Hashable | None:
    """Return what decides the results of functions of a value; None if that is not known."""
    kind = type(value)
    if kind in TENSORS:
        if value.device.type != device:
            return None
        return value.shape, value.stride(), value.dtype, value.requires_grad
    if kind in (list, tuple):
        items = [_argument_key(item, device) for item in value]
        return None if None in items else (kind, *items)
    if isinstance(value, Symbolic):
        value = plain_value(value)
    return (type(value), value) if type(value) in _PLAIN else None


def _change_key(function: Any, args: Any, kwargs: Mapping[str, Any]) -> Hashable | None:
    """Return what decides whether torch refuses to change a tensor; None if that is not known."""
    if not args:
        return None
    tensor, *others = args
    if type(tensor) not in TENSORS or tensor.device.type != "meta" or not tensor.is_contiguous():
        return None
    if tensor.requires_grad and torch.is_grad_enabled():
        return None  # torch records the change, or refuses it
    kinds = [type(plain_value(value)) for value in (*others, *kwargs.values())]
    if not _NUMBERS.issuperset(kinds):
        return None
    return function, tensor.dtype, len(others), (*kwargs,), (*kinds,)
