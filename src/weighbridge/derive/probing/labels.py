"""Labels: the expressions of a tensor's dims, put on the tensor by the calls that create it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from weighbridge.derive.probing.quick_tensors import QuickTensors
from weighbridge.derive.probing.symbolic import tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weighbridge.algebra.expr import Tree

Dims = tuple["Tree", ...]

_LABEL = "_weighbridge_dims"
_FACTORIES = {
    "empty",
    "zeros",
    "ones",
    "rand",
    "randn",
    "full",
    "randint",
    "normal",
    "empty_strided",
}


def label_of(tensor: Any) -> Dims | None:
    """Return the expressions of a tensor's dims; None if it has no label."""
    return getattr(tensor, _LABEL, None)


def put_label(tensor: torch.Tensor, label: Dims) -> None:
    """Keep the expressions of a tensor's dims on it."""
    setattr(tensor, _LABEL, label)


class Labels(QuickTensors):
    """Labels tensors with the expressions of the sizes that they are created with."""

    def finish(self, function: Any, result: Any, args: Any, kwargs: Any) -> None:
        """Label a tensor that a function of torch returned."""
        if isinstance(result, torch.Tensor):
            label = _label_for(getattr(function, "__name__", ""), result, args, kwargs)
            if label is not None and len(label) == result.dim():
                put_label(result, label)


def _label_for(name: str, result: torch.Tensor, args: Any, kwargs: Any) -> Dims | None:
    if name in _FACTORIES:
        return _factory_label(args, kwargs)
    if name == "arange":
        return _arange_label(args)
    if not args or not isinstance(args[0], torch.Tensor) or label_of(result) is not None:
        return None
    label = label_of(args[0])
    if name == "expand" and len(args) > 1:
        sizes = args[1] if isinstance(args[1], list | tuple) else args[1:]
        return _expanded_label(label, sizes, result)
    return label if args[0].shape == result.shape else None


def _factory_label(args: Any, kwargs: Any) -> Dims | None:
    sizes = kwargs.get("size")
    if sizes is None and args:
        sizes = args[0]
        if not isinstance(sizes, list | tuple):
            sizes = [arg for arg in args if isinstance(arg, int)]
    if sizes is None:
        return None
    return tuple(tree_of(size) for size in sizes)


def _arange_label(args: Any) -> Dims | None:
    bounds = [arg for arg in args if isinstance(arg, int)]
    return (tree_of(bounds[0]),) if len(bounds) == 1 else None


def _expanded_label(label: Dims | None, sizes: Sequence[Any], result: torch.Tensor) -> Dims:
    """Return the label of an expanded tensor: a size of -1 keeps the dim."""
    if label:
        new_dims = [("value", 1)] * (len(sizes) - len(label))
        kept: Sequence[Tree] = (*new_dims, *label)
    else:
        kept = [("value", size) for size in result.shape]
    # `!=`, as users of torch write it: the size may note the question in a trace
    return tuple(tree_of(size) if size != -1 else kept[at] for at, size in enumerate(sizes))
