"""One run of reference code: a module built on the meta device, its tensors with the expressions of their shapes."""

from __future__ import annotations

import inspect
import sys
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from weighbridge.derive.probing import symbolic
from weighbridge.derive.probing.symbolic import Trace, tracing, tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree


class Tensor(NamedTuple):
    """A parameter or buffer: its shape, the expression of each dim where one is known, and the first name it has."""

    shape: tuple[int, ...]
    dims: tuple[Tree, ...]
    tied_to: str | None = None
    dtype: str = ""


class Probe(NamedTuple):
    """What one config gave: its fields' values by dotted path, and everything that the built module holds.

    ``lengths`` are those of the module lists, ``modules`` the class of each module, both by path.
    """

    changes: Mapping[str, Any]
    fields: Mapping[str, Any]
    tensors: dict[str, Tensor]
    buffers: dict[str, Tensor]
    lengths: dict[str, int]
    modules: dict[str, str]
    trace: Trace
    chosen: Mapping[str, Tree] = {}
    """How many experts each router sends a token to, by the path of the module that says so."""

    @property
    def outline(self) -> dict[str, tuple[tuple[int, ...], str | None]]:
        """What two probes of the same tensors and buffers have in common."""
        return {
            name: (tensor.shape, tensor.tied_to)
            for name, tensor in (*self.tensors.items(), *self.buffers.items())
        }


class Labels(TorchFunctionMode):
    """Keeps the expressions of sizes that tensors are made with, on the tensors."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        made = function(*args, **kwargs)
        if isinstance(made, torch.Tensor):
            label = _label(getattr(function, "__name__", ""), made, args, kwargs)
            if label is not None and len(label) == made.dim():
                made._weighbridge_dims = label  # type: ignore[attr-defined]
        return made


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


def _label(name: str, made: torch.Tensor, args: Any, kwargs: Any) -> tuple[Tree, ...] | None:
    if name in _FACTORIES:
        sizes = kwargs.get("size")
        if sizes is None and args:
            sizes = (
                args[0]
                if isinstance(args[0], list | tuple)
                else [arg for arg in args if isinstance(arg, int)]
            )
        return None if sizes is None else tuple(tree_of(size) for size in sizes)
    if name == "arange":
        bounds = [arg for arg in args if isinstance(arg, int)]
        return (tree_of(bounds[0]),) if len(bounds) == 1 else None
    if not args or not isinstance(args[0], torch.Tensor) or hasattr(made, "_weighbridge_dims"):
        return None
    before: tuple[Tree, ...] | None = getattr(args[0], "_weighbridge_dims", None)
    if name == "expand" and len(args) > 1:
        sizes = args[1] if isinstance(args[1], list | tuple) else args[1:]
        kept = (*[("value", 1)] * (len(sizes) - len(before)), *before) if before else None
        return tuple(
            tree_of(size) if size != -1 else kept[at] if kept else ("value", made.shape[at])
            for at, size in enumerate(sizes)
        )
    return before if args[0].shape == made.shape else None


@contextmanager
def quick_building() -> Iterator[None]:
    """Build modules without working out initial values or tables, and keep labels through `torch.nn.Parameter`."""
    new = nn.Parameter.__new__

    def labelled(
        cls: Any,
        data: Any = None,
        requires_grad: Any = True,  # noqa: FBT002
        *rest: Any,
        **options: Any,
    ) -> Any:
        parameter = new(cls, data, bool(requires_grad), *rest, **options)
        label = getattr(data, "_weighbridge_dims", None)
        if label is not None:
            parameter._weighbridge_dims = label
        return parameter

    with ExitStack() as patches:
        for holder, name, instead in _without_values():
            patches.enter_context(mock.patch.object(holder, name, instead))
        patches.enter_context(mock.patch.object(nn.Parameter, "__new__", staticmethod(labelled)))
        yield


def _without_values() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield what fills tensors with values, as an object and a name in it, and what to put in its place."""
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


_TABLES: dict[
    str, Any
] = {  # functions that work out a million numbers, one by one, of a tensor that is no parameter
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
    """Build a module on the meta device and return what it holds.

    Args:
        build: makes the module; run once.
        changes: the fields that were set, to be told from the defaults.
        fields: the value of every field.
        labels: keep the expressions of shapes, at some cost in time.
    """
    with tracing() as trace, ExitStack() as modes:
        modes.enter_context(torch.device("meta"))
        if labels:
            modes.enter_context(Labels())
        module = build()
    return Probe(
        changes=changes,
        fields=fields,
        tensors=_tensors(module),
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
        chosen=dict(_chosen(module)),
    )


_OF_EXPERTS = (
    "top_k",
    "topk",
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_k",
    "k",
)


def _chosen(module: nn.Module) -> Iterator[tuple[str, Tree]]:
    for path, part in module.named_modules():
        for name in _OF_EXPERTS:
            value = vars(part).get(name)
            if isinstance(value, symbolic.SymbolicInt):
                yield path, value.tree
                break


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    first: dict[int, str] = {}
    found = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        known = first.setdefault(id(parameter), name)
        found[name] = _tensor(parameter)._replace(tied_to=None if known == name else known)
    return found


def _buffers(module: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that a checkpoint stores, and those of integers, which older ones did."""
    stored = module.state_dict(keep_vars=True)
    return {
        name: _tensor(buffer)
        for name, buffer in module.named_buffers()
        if name in stored or not buffer.dtype.is_floating_point
    }


def _tensor(tensor: torch.Tensor) -> Tensor:
    shape = tuple(int(size) for size in tensor.shape)
    label = getattr(tensor, "_weighbridge_dims", None)
    if label is None or len(label) != len(shape):
        label = tuple(("value", size) for size in shape)
    return Tensor(shape, tuple(label), dtype=str(tensor.dtype).removeprefix("torch."))


def install_stand_ins(*prefixes: str) -> None:
    """Let the modules of these packages compute with what remembers."""
    for name in sys.modules.keys() - _seen:
        _seen.add(name)
        module = sys.modules[name]
        if module is not None and name.startswith(prefixes):
            symbolic.install(module.__dict__, without=_as_dtypes(name))


_seen: set[str] = set()  # names of modules that were looked at


@contextmanager
def standing_in(*prefixes: str) -> Iterator[None]:
    """Let the modules of these packages compute with what remembers inside the block, and be as they were after it.

    A prefix ``package.`` is of the package itself too.
    """
    found = {
        name: module
        for name, module in sys.modules.copy().items()
        if f"{name}.".startswith(prefixes)
    }
    for name, module in found.items():
        symbolic.install(module.__dict__, without=_as_dtypes(name))
    try:
        yield
    finally:
        for module in found.values():
            symbolic.uninstall(module.__dict__)


@cache
def _as_dtypes(module: str) -> set[str]:
    """Return Python's types that a module's code passes to torch as dtypes, which takes no stand-in for them."""
    try:
        code = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):
        return set()
    return {name for name in ("bool", "int") if f"dtype={name}" in code or f".to({name})" in code}
