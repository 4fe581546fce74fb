"""One run of reference code: a module on the meta device, its tensors with their expressions."""

from __future__ import annotations

import inspect
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import torch
from torch import nn

from weighbridge.derive.probing.labels import Labels, label_of, put_label
from weighbridge.derive.probing.symbolic import SymbolicInt, SymbolicTrace, tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree


class ProbedTensor(NamedTuple):
    """A parameter or buffer: its shape, its dims as expressions, and the name it is tied to."""

    shape: tuple[int, ...]
    dims: tuple[Tree, ...]
    tied_to: str | None = None
    dtype: str = ""


class Probe(NamedTuple):
    """The result of one config: its fields by dotted path, and the contents of the built module.

    ``lengths`` has the lengths of module lists, ``modules`` the class of each module, both by path.
    """

    changes: Mapping[str, Any]
    fields: Mapping[str, Any]
    tensors: dict[str, ProbedTensor]
    buffers: dict[str, ProbedTensor]
    lengths: dict[str, int]
    modules: dict[str, str]
    trace: SymbolicTrace
    chosen: Mapping[str, Tree] = {}
    """The number of experts that each token is routed to, by the path of the router."""

    @property
    def outline(self) -> dict[str, tuple[tuple[int, ...], str | None]]:
        """The shapes and ties of tensors and buffers; equal for probes with the same tensors."""
        return {
            name: (tensor.shape, tensor.tied_to)
            for name, tensor in (*self.tensors.items(), *self.buffers.items())
        }


@contextmanager
def quick_building() -> Iterator[None]:
    """Build modules without initial values; `torch.nn.Parameter` keeps labels."""
    new = nn.Parameter.__new__

    def labelled(
        cls: Any,
        data: Any = None,
        requires_grad: Any = True,  # noqa: FBT002
        *rest: Any,
        **options: Any,
    ) -> Any:
        parameter = new(cls, data, bool(requires_grad), *rest, **options)
        label = label_of(data)
        if label is not None:
            put_label(parameter, label)
        return parameter

    with ExitStack() as patches:
        for holder, name, instead in _without_values():
            patches.enter_context(mock.patch.object(holder, name, instead))
        patches.enter_context(mock.patch.object(nn.Parameter, "__new__", staticmethod(labelled)))
        yield


def _without_values() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the functions that fill tensors with values: object, attribute and stand-in."""
    for kind in _subclasses(nn.Module):
        if kind.__module__.startswith("torch.nn.modules"):
            yield from (
                (kind, name, _nothing)
                for name in ("reset_parameters", "_reset_parameters")
                if name in kind.__dict__
            )
    for name, function in vars(nn.init).items():
        if name.endswith("_") and not name.startswith("_") and inspect.isfunction(function):
            yield nn.init, name, _as_it_is
    for module in list(sys.modules.values()):
        yield from (
            (module, name, table)
            for name, table in _TABLES.items()
            if name in getattr(module, "__dict__", {})
        )


# Functions that compute a million numbers, one by one, for a tensor that is not a parameter.
_TABLES: dict[str, Any] = {
    "get_sinusoid_encoding_table": lambda positions, size: torch.empty(1, positions, size),
}


def _nothing(_module: nn.Module) -> None:
    pass


def _as_it_is(tensor: torch.Tensor, *_values: Any, **_options: Any) -> torch.Tensor:
    return tensor


def _subclasses(kind: type) -> Iterator[type]:
    below: type
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)


def take(
    build: Callable[[], nn.Module],
    changes: Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    labels: bool = True,
) -> Probe:
    """Build a module on the meta device and return its contents.

    Args:
        build: builds the module; called once.
        changes: the fields that were set.
        fields: the value of every field, including defaults.
        labels: keep the expressions of shapes, which takes more time.
    """
    with tracing() as trace, ExitStack() as modes:
        modes.enter_context(torch.device("meta"))
        if labels:
            modes.enter_context(Labels())
        module = build()
    return Probe(
        changes=changes,
        fields=fields,
        tensors=_parameters(module),
        buffers=_buffers(module),
        lengths={
            name: len(part)
            for name, part in module.named_modules(remove_duplicate=False)
            if isinstance(part, nn.ModuleList | nn.Sequential | nn.ParameterList)
        },
        modules={
            name: type(part).__name__ for name, part in module.named_modules(remove_duplicate=False)
        },
        trace=trace,
        chosen=dict(_chosen_experts(module)),
    )


_CHOSEN_NAMES = (  # attributes that hold the number of experts per token
    "top_k",
    "topk",
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_k",
    "k",
)


def _chosen_experts(module: nn.Module) -> Iterator[tuple[str, Tree]]:
    for path, part in module.named_modules():
        for name in _CHOSEN_NAMES:
            value = vars(part).get(name)
            if isinstance(value, SymbolicInt):
                yield path, value.tree
                break


def _parameters(module: nn.Module) -> dict[str, ProbedTensor]:
    first_names: dict[int, str] = {}
    parameters = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        parameters[name] = _tensor(parameter)
        first_name = first_names.setdefault(id(parameter), name)
        if first_name != name:
            parameters[name] = parameters[name]._replace(tied_to=first_name)
    return parameters


def _buffers(module: nn.Module) -> dict[str, ProbedTensor]:
    """Return the buffers that checkpoints store, and integer buffers, which older ones stored."""
    stored = module.state_dict(keep_vars=True)
    return {
        name: _tensor(buffer)
        for name, buffer in module.named_buffers()
        if name in stored or not buffer.dtype.is_floating_point
    }


def _tensor(tensor: torch.Tensor) -> ProbedTensor:
    shape = tuple(int(size) for size in tensor.shape)
    label = label_of(tensor)
    if label is None or len(label) != len(shape):
        label = tuple(("value", size) for size in shape)
    return ProbedTensor(shape, tuple(label), dtype=str(tensor.dtype).removeprefix("torch."))
