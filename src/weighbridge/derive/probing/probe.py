"""One run of reference code: a module on the meta device, its tensors with their expressions."""

from __future__ import annotations

import inspect
import sys
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import torch
from torch import nn

from weighbridge.derive.probing.labels import Labels, label_of, put_label
from weighbridge.derive.probing.quick_modules import quicker_methods
from weighbridge.derive.probing.quick_tensors import QuickTensors
from weighbridge.derive.probing.symbolic import SymbolicInt, SymbolicTrace, tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

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
    """Build modules without initial values; `torch.nn.Parameter` keeps labels.

    A block inside another one only adds what the modules need that were loaded meanwhile: after a
    change of `torch.nn.Module`, Python looks up all attributes of its thousands of subclasses anew.
    """
    loaded = len(sys.modules)
    with ExitStack() as patches:
        if not _open_blocks or _open_blocks[-1] != loaded:
            for holder, name, instead in _replaced():
                if vars(holder).get(name) is not instead:
                    patches.enter_context(mock.patch.object(holder, name, instead))
        _open_blocks.append(loaded)
        try:
            yield
        finally:
            _open_blocks.pop()


_open_blocks: list[int] = []
"""The number of modules that were loaded at the start of each block of `quick_building`."""


def _replaced() -> Iterator[tuple[Any, str, Any]]:
    """Yield what `quick_building` replaces: object, attribute and stand-in."""
    yield from _without_values()
    yield from quicker_methods()
    yield nn.Parameter, "__new__", _LABELLED


_new_parameter = nn.Parameter.__new__


def _labelled_parameter(
    cls: Any,
    data: Any = None,
    requires_grad: Any = True,  # noqa: FBT002
    *rest: Any,
    **options: Any,
) -> Any:
    parameter = _new_parameter(cls, data, bool(requires_grad), *rest, **options)
    label = label_of(data)
    if label is not None:
        put_label(parameter, label)
    return parameter


_LABELLED = staticmethod(_labelled_parameter)


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
            (module, name, stand_in)
            for name, stand_in in _STAND_INS.items()
            if name in getattr(module, "__dict__", {})
        )


_STAND_INS: dict[str, Any] = {
    # computes a million numbers, one by one, for a tensor that is not a parameter
    "get_sinusoid_encoding_table": lambda positions, size: torch.empty(1, positions, size),
    # refuses to build a module without a package that it may need only when it runs
    "requires_backends": lambda _owner, _packages: None,
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
    rounds_apart: bool = False,
) -> Probe:
    """Build a module on the meta device and return its contents.

    Args:
        build: builds the module; called once.
        changes: the fields that were set.
        fields: the value of every field, including defaults.
        labels: keep the expressions of shapes, which takes more time.
        rounds_apart: tell the rounds of one loop in an expression apart.
    """
    with tracing(rounds_apart=rounds_apart) as trace, ExitStack() as modes:
        modes.enter_context(torch.device("meta"))
        modes.enter_context(Labels() if labels else QuickTensors())
        module = build()
    parts = _parts_of(module)
    return Probe(
        changes=changes,
        fields=fields,
        tensors=_parameters(parts),
        buffers=_buffers(module, parts),
        lengths={
            name: len(part)
            for name, part in parts
            if isinstance(part, _LISTS) and _is_numbered(part)
        },
        modules={name: type(part).__name__ for name, part in parts},
        trace=trace,
        chosen=dict(_chosen_experts(parts)),
    )


_LISTS = nn.ModuleList | nn.Sequential | nn.ParameterList | nn.ModuleDict


def _is_numbered(part: nn.Module) -> bool:
    """Whether a list's modules have numbers as names; those of a `nn.Sequential` may have others.

    A dict of modules is such a list if it counts them from 0, as torchtitan does.

    Example:
        >>> from collections import OrderedDict
        >>> named = nn.Sequential(OrderedDict(act=nn.ReLU()))
        >>> _is_numbered(nn.Sequential(nn.ReLU())), _is_numbered(named)
        (True, False)
        >>> _is_numbered(nn.ModuleDict({"0": named})), _is_numbered(nn.ModuleDict({"1": named}))
        (True, False)
    """
    if isinstance(part, nn.ModuleDict):
        return all(name == str(number) for number, name in enumerate(part._modules))
    return all(map(str.isdigit, part._modules))


_Parts = list[tuple[str, nn.Module]]


def _parts_of(module: nn.Module) -> _Parts:
    """Return all modules by path, as `named_modules` does; shared ones under each of their paths.

    All contents are read from this one list: torch walks through the modules for each of them.
    """
    parts: _Parts = []
    _add_parts(parts, "", module)
    return parts


def _add_parts(parts: _Parts, path: str, part: nn.Module) -> None:
    """Add a module and all modules in it.

    This is not a function inside `_parts_of`: one that calls itself would keep every probed module
    alive until Python looks for cycles.
    """
    parts.append((path, part))
    prefix = f"{path}." if path else ""
    for name, inner in part._modules.items():
        if inner is not None:
            _add_parts(parts, prefix + name, inner)


def _distinct(parts: _Parts) -> _Parts:
    """Return each module once, under its first path."""
    first_paths: dict[nn.Module, str] = {}
    for path, part in parts:
        first_paths.setdefault(part, path)
    return [(path, part) for part, path in first_paths.items()]


_CHOSEN_NAMES = (  # attributes that hold the number of experts per token
    "top_k",
    "topk",
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_k",
    "k",
)
_CHOSEN_SET = frozenset(_CHOSEN_NAMES)
_CHOSEN_IN_CONFIG = "top_k_experts"  # a field that a router reads when it runs


def _chosen_experts(parts: _Parts) -> Iterator[tuple[str, Tree]]:
    for path, part in _distinct(parts):
        attributes = vars(part)
        if _reads_chosen(type(part).forward):
            value = getattr(attributes.get("config"), _CHOSEN_IN_CONFIG, None)
            if isinstance(value, SymbolicInt):
                yield path, value.tree
        if _CHOSEN_SET.isdisjoint(attributes):
            continue
        for name in _CHOSEN_NAMES:
            value = attributes.get(name)
            if isinstance(value, SymbolicInt):
                yield path, value.tree
                break


@cache
def _reads_chosen(forward: Callable[..., Any]) -> bool:
    """Whether a method reads from a config how many experts a token is routed to."""
    code = getattr(forward, "__code__", None)
    return code is not None and _CHOSEN_IN_CONFIG in code.co_names


def _parameters(parts: _Parts) -> dict[str, ProbedTensor]:
    first_names: dict[int, str] = {}
    parameters = {}
    for path, part in parts:
        for attribute, parameter in part._parameters.items():
            if parameter is None:
                continue
            name = f"{path}.{attribute}" if path else attribute
            parameters[name] = _tensor(parameter)
            first_name = first_names.setdefault(id(parameter), name)
            if first_name != name:
                parameters[name] = parameters[name]._replace(tied_to=first_name)
    return parameters


def _buffers(module: nn.Module, parts: _Parts) -> dict[str, ProbedTensor]:
    """Return the buffers that checkpoints store, and integer buffers, which older ones stored."""
    buffers: dict[torch.Tensor, str] = {}
    for path, part in _distinct(parts):
        for attribute, buffer in part._buffers.items():
            if buffer is not None:
                buffers.setdefault(buffer, f"{path}.{attribute}" if path else attribute)
    stored: Container[str] = ()
    if any(buffer.dtype.is_floating_point for buffer in buffers):
        stored = module.state_dict(keep_vars=True)
    return {
        name: _tensor(buffer)
        for buffer, name in buffers.items()
        if not buffer.dtype.is_floating_point or name in stored
    }


def _tensor(tensor: torch.Tensor) -> ProbedTensor:
    shape = tuple(tensor.shape)
    label = label_of(tensor)
    if label is None or len(label) != len(shape):
        label = tuple(("value", size) for size in shape)
    return ProbedTensor(shape, tuple(label), dtype=_dtype_name(tensor.dtype))


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
