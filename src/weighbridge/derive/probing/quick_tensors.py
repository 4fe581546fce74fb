"""Tensors on the meta device without the calls that cost most: a derivation makes millions."""

from __future__ import annotations

from types import (
    BuiltinFunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

import torch
from torch._C import (
    DisableTorchFunction,
    _get_function_stack_at,
    _len_torch_function_stack,
)
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext, _device_constructors

from weighbridge.derive.probing.known_results import TENSORS, changed, computed
from weighbridge.derive.probing.symbolic import plain_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
# Functions that put other values into a tensor, and return it.
_IN_PLACE_NAMES = (
    *("abs_", "add_", "clamp_", "clamp_max_", "clamp_min_", "div_", "erfinv_", "exp_", "fill_"),
    *("log_", "mul_", "neg_", "pow_", "sqrt_", "sub_", "zero_"),
)
_IN_PLACE = frozenset(getattr(torch.Tensor, name) for name in _IN_PLACE_NAMES)
_IN_C = (
    BuiltinFunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)


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
            result = computed(function, args, kwargs)
            with DisableTorchFunction():
                self.finish(function, result, args, kwargs)
        elif device is not None and function in _IN_PLACE:
            with DisableTorchFunction():
                result = changed(function, args, kwargs)
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
        and all(kind in TENSORS for kind in types)
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
