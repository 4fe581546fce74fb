"""Tensors on the meta device without the calls that cost most: a derivation makes millions.

On the meta device, torch computes most functions in Python. Tensors there hold no values: for the
result of a function that was called with such tensors before, an empty tensor does as well.
"""

from __future__ import annotations

from types import (
    BuiltinFunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._C import (
    DisableTorchFunction,
    _get_function_stack_at,
    _len_torch_function_stack,
)
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext, _device_constructors

from weighbridge.derive.probing.symbolic import Symbolic, plain_value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

# Functions that fill a new tensor of a given size: without values, all do what `torch.empty` does.
_FILLERS = frozenset((torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn))
_FILLER_OPTIONS = frozenset(("size", "dtype", "device", "requires_grad"))
# Functions that do nothing but create a tensor, on a device that a mode may set.
_CREATORS = _FILLERS | {torch.full, torch.arange}
# Functions whose result is a new tensor, the kind of which only the kinds of the arguments decide.
_PURE_NAMES = (
    *("abs", "add", "clamp", "cos", "cumsum", "div", "exp", "expm1", "float", "floor"),
    *("floor_divide", "log", "log1p", "mul", "neg", "norm_except_dim", "outer", "pow"),
    *("reciprocal", "remainder", "rsqrt", "sigmoid", "sin", "sqrt", "stack", "sub", "tanh"),
    *("to", "true_divide", "_weight_norm", "__floordiv__", "__mod__", "__pow__", "__rdiv__"),
    *("__rfloordiv__", "__rmod__", "__rpow__", "__rsub__"),
    *("eq", "ge", "gt", "le", "lt", "ne", "cat", "linspace", "tril", "triu", "where"),
)
_PURE = frozenset(
    getattr(holder, name)
    for holder in (torch, torch.Tensor)
    for name in _PURE_NAMES
    if hasattr(holder, name)
)
_IN_C = (
    BuiltinFunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
_PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device)
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_MOST_RESULTS = 20_000  # kinds of results that are remembered


class _Kind(NamedTuple):
    """What decides a tensor on the meta device."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


_results: dict[Hashable, _Kind] = {}
"""The kind of the result of each call, by function and the kinds of its arguments."""


class QuickTensors(TorchFunctionMode):
    """Makes tensors quickly, on the device of the mode of torch below this one."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        device = _device_below()
        if device is not None and function in _CREATORS:
            # Each call through a mode costs more than the tensor itself.
            with DisableTorchFunction():
                result = _created(function, args, kwargs, device)
                self.finish(function, result, args, kwargs)
        elif device is not None and function in _PURE:
            result = _computed(function, args, kwargs)
            with DisableTorchFunction():
                self.finish(function, result, args, kwargs)
        elif device is not None and _needs_no_mode(function, types):
            with DisableTorchFunction():
                result = function(*args, **kwargs)
                self.finish(function, result, args, kwargs)
        else:
            result = function(*args, **kwargs)
            self.finish(function, result, args, kwargs)
        return result

    def finish(self, function: Any, result: Any, args: Any, kwargs: Any) -> None:
        """Do what is left to do with the result of a function of torch."""


def _device_below() -> torch.device | None:
    """Return the device that the only other mode sets; None if there are other modes."""
    if _len_torch_function_stack() == 1:
        mode_below = _get_function_stack_at(0)
        if type(mode_below) is DeviceContext:
            device: torch.device = mode_below.device
            return device
    return None


def _needs_no_mode(function: Any, types: Iterable[type]) -> bool:
    """Whether no other code of torch or of a model replaces a function or what it calls."""
    return (
        isinstance(function, _IN_C)
        and function not in _device_constructors()
        and all(kind in _TENSORS for kind in types)
    )


def _created(function: Any, args: Any, kwargs: Any, device: torch.device) -> Any:
    """Return a new tensor on a device, without the mode of torch that adds the device."""
    if kwargs.get("device") is None:
        kwargs = {**kwargs, "device": device}
    if torch.device(kwargs["device"]).type == "meta" and _FILLER_OPTIONS.issuperset(kwargs):
        if function in _FILLERS:
            return torch.empty(*args, **kwargs)
        if function is torch.arange and (length := _arange_length(args)) is not None:
            return torch.empty(length, **{**kwargs, "dtype": kwargs.get("dtype") or torch.int64})
    return function(*args, **kwargs)


def _arange_length(bounds: Sequence[Any]) -> int | None:
    """Return how many integers `torch.arange` counts; None if it counts no integers upwards."""
    numbers = [plain_value(bound) for bound in bounds]
    if not numbers or any(type(number) is not int for number in numbers):
        return None
    counted = slice(*numbers)
    start, stop, step = counted.start or 0, counted.stop, counted.step or 1
    if len(numbers) > 3 or step < 0 or stop < start:
        return None
    return len(range(start, stop, step))


def _computed(function: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a pure function; an empty tensor if one like it was computed before."""
    key = _call_key(function, args, kwargs)
    if key is None:
        return function(*args, **kwargs)
    kind = _results.get(key)
    if kind is not None:
        with DisableTorchFunction():
            return torch.empty_strided(kind.shape, kind.stride, dtype=kind.dtype, device="meta")
    result = function(*args, **kwargs)
    with DisableTorchFunction():
        if _is_new(result, (*args, *kwargs.values())) and len(_results) < _MOST_RESULTS:
            _results[key] = _Kind(tuple(result.shape), result.stride(), result.dtype)
    return result


def _is_new(result: Any, args: Iterable[Any]) -> bool:
    """Whether a result is a plain tensor of its own on the meta device."""
    return (
        type(result) is torch.Tensor
        and result.device.type == "meta"
        and not result.requires_grad
        and not result._is_view()
        and all(result is not arg for arg in args)
    )


def _call_key(function: Any, args: Any, kwargs: Mapping[str, Any]) -> Hashable | None:
    """Return what decides the kind of a function's result; None if that is not known."""
    with DisableTorchFunction():
        arguments = [_argument_key(arg) for arg in args]
        options = [(name, _argument_key(value)) for name, value in kwargs.items()]
    if None in arguments or any(option is None for _, option in options):
        return None
    is_recorded = torch.is_grad_enabled()
    return function, torch.get_default_dtype(), is_recorded, (*arguments,), (*options,)


def _argument_key(value: Any) -> Hashable | None:
    """Return what decides the results of functions of a value; None if that is not known."""
    kind = type(value)
    if kind in _TENSORS:
        if value.device.type != "meta":
            return None
        return value.shape, value.stride(), value.dtype, value.requires_grad
    if kind in (list, tuple):
        items = [_argument_key(item) for item in value]
        return None if None in items else (kind, *items)
    if isinstance(value, Symbolic):
        value = plain_value(value)
    return (type(value), value) if type(value) in _PLAIN else None
