"""Records one run of a module: for each module and helper function, the steps of its forward pass.

Hooks see every module that is called. A mode of torch sees every function of tensors. The
functions that the model's code calls by a global name, such as the one that turns queries and keys
by their positions, are wrapped while the model runs, so that each call of them is one step.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from weighbridge import data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MODULE, FUNCTION, OPERATION = "module", "function", "operation"
"""The kinds of steps: a module, a function of the model's own code, a function of torch."""


class Ref(NamedTuple):
    """A value in a frame: its source and the part of it.

    The source is the number of a step or the name of an input or of a parameter.
    """

    source: int | str
    part: str = ""


class RecordedStep(NamedTuple):
    """A call in a frame: its number, its kind, what is called, and its arguments by name."""

    number: int
    kind: str
    called: str
    arguments: Mapping[str, Ref]


class Program(NamedTuple):
    """The steps of one call of a module or function, and what it returns."""

    steps: tuple[RecordedStep, ...]
    returned: tuple[Ref, ...]


class RecordedFlow(NamedTuple):
    """One run: the programs by path of module and by name of function, and what was used.

    A module that is called several times has several programs. ``ran`` lists the modules that
    were called; ``read`` the parameters that code reads itself, by full name.
    """

    modules: dict[str, list[Program]]
    functions: dict[str, list[Program]]
    ran: dict[str, nn.Module]
    read: set[str]


NEW = "new"  # the function that stands for all that make a tensor of constants
UNKNOWN = "?"  # the source of a result that comes from no input, such as a mask
SELF = "self."  # begins the name of a parameter or module of the module whose frame it is
ROOT = "root."  # begins the full name of one elsewhere in the model

_FACTS = data.read_toml("facts/flows.toml")
_SYMBOLS = {name: symbol for symbol, names in _FACTS["symbols"].items() for name in names}
_NAMES: dict[str, str] = _FACTS["names"]
_TURNED = frozenset(_FACTS["turned"])
_MOVING = frozenset(_FACTS["moving"])
_AS_FIRST = frozenset(_FACTS["as_first"])
_ALONE = frozenset(_FACTS["steps"])
_FRESH = frozenset(_FACTS["new"])
_GIVES_NOTHING = frozenset(_FACTS["attributes"])
_CUTTING = frozenset(("chunk", "split", "tensor_split", "unbind", "split_with_sizes"))
# The modules whose own steps are not recorded: those of torch, and activations.
_WHOLE = ("torch.nn.modules", "transformers.activations")
_TRANSPARENT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.Identity)


class _CallFrame:
    """The call of a module or function that is running."""

    def __init__(self, path: str, *, is_quiet: bool = False) -> None:
        self.path, self.is_quiet = path, is_quiet
        self.refs: dict[int, Ref] = {}
        self.steps: list[RecordedStep] = []
        self.calculates = False  # whether anything else than moving elements was done
        self._kept: list[Any] = []

    def bind(self, tensor: torch.Tensor, ref: Ref) -> None:
        self.refs[id(tensor)] = ref
        self._kept.append(tensor)  # so that no other tensor gets its id

    def overwrite(self, tensor: torch.Tensor, ref: Ref) -> None:
        """Let all tensors that share the storage of one that is written to be its new value."""
        storage = tensor.untyped_storage().data_ptr()
        for other in self._kept:
            if other.untyped_storage().data_ptr() == storage:
                self.refs[id(other)] = ref

    def add(self, kind: str, called: str, arguments: Mapping[str, Ref]) -> int:
        number = len(self.steps)
        self.steps.append(RecordedStep(number, kind, called, dict(arguments)))
        self.calculates = True
        return number


class FlowRecorder(TorchFunctionMode):
    """Records the run of a model, which is in evaluation mode."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model
        self._stack: list[_CallFrame] = []
        self.flow = RecordedFlow({}, {}, {}, set())
        self._paths: dict[int, list[str]] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            self._paths.setdefault(id(module), []).append(path)
        self._held: dict[int, list[str]] = {}
        self._kept = [
            *model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False),
        ]
        for name, tensor in self._kept:
            self._held.setdefault(id(tensor), []).append(name)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record what runs."""
        with ExitStack() as stack, torch.no_grad():
            for module in self._model.modules():
                before = module.register_forward_pre_hook(self._enter, with_kwargs=True)
                after = module.register_forward_hook(self._leave, with_kwargs=True)
                stack.callback(before.remove)
                stack.callback(after.remove)
            for holder, name, function in _helpers(self._model):
                setattr(holder, name, self._wrapped(name, function))
                stack.callback(setattr, holder, name, function)
            for holder in _holders(self._model):
                vars(holder)["set"] = _SortedSet
                stack.callback(vars(holder).pop, "set")
            stack.enter_context(self)
            yield

    # Modules

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        path = self._path_in_frame(module)
        is_torch = type(module).__module__.startswith(_WHOLE)
        is_quiet = is_torch and not isinstance(module, nn.Sequential)
        frame = _CallFrame(path, is_quiet=is_quiet or self._is_quiet)
        if not frame.is_quiet:
            _bind_inputs(frame, _arguments(module.forward, args, kwargs))
        self._stack.append(frame)

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        frame = self._stack.pop()
        self.flow.ran.setdefault(frame.path, module)
        if self._is_quiet:
            return
        outs = list(_tensors(out))
        arguments = _arguments(module.forward, args, kwargs)
        returned = tuple(self._ref_in(frame, tensor) or Ref(UNKNOWN) for _, tensor in outs)
        sources = self._moved_by(module, frame, arguments, returned)
        if self._stack and sources:
            self._alias(self._stack[-1], outs, sources)
            return
        if not frame.is_quiet:
            programs = self.flow.modules.setdefault(frame.path, [])
            programs.append(Program(tuple(frame.steps), returned))
        if self._stack:
            above = self._stack[-1]
            self._step(above, MODULE, _below(above.path, frame.path), arguments, outs)

    def _moved_by(
        self,
        module: nn.Module,
        frame: _CallFrame,
        arguments: list[tuple[str, torch.Tensor]],
        returned: tuple[Ref, ...],
    ) -> list[torch.Tensor]:
        """Return the inputs that a module without tensors returns; empty if it does more."""
        if next(module.parameters(), next(module.buffers(), None)) is not None or not arguments:
            return []
        if isinstance(module, _TRANSPARENT):
            return [arguments[0][1]] * len(returned)
        if frame.is_quiet:
            return []
        return _only_moved(frame, arguments, returned)

    def _path_in_frame(self, module: nn.Module) -> str:
        """Return the path of a module: of several, the one below the module that calls it."""
        paths = self._paths[id(module)]
        if self._stack:
            above = self._stack[-1].path
            inside = [path for path in paths if not above or path.startswith(f"{above}.")]
            paths = inside or paths
        return paths[0]

    @property
    def _is_quiet(self) -> bool:
        return bool(self._stack) and self._stack[-1].is_quiet

    # Functions of the model's own code

    def _wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._stack or self._is_quiet:
                return function(*args, **kwargs)
            return self._call(name, function, args, kwargs)

        return call

    def _call(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        above = self._stack[-1]
        frame = _CallFrame(above.path)
        arguments = _arguments(function, args, kwargs)
        _bind_inputs(frame, arguments)
        self._stack.append(frame)
        try:
            out = function(*args, **kwargs)
        finally:
            self._stack.pop()
        outs = list(_tensors(out))
        if not outs:
            return out
        returned = tuple(self._ref_in(frame, tensor) or Ref(UNKNOWN) for _, tensor in outs)
        if sources := _only_moved(frame, arguments, returned):
            self._alias(above, outs, sources)
            return out
        if any(step.kind == MODULE for step in frame.steps):
            self._inline(above, frame, arguments, zip(outs, returned, strict=True))
            return out
        programs = self.flow.functions.setdefault(name, [])
        programs.append(Program(tuple(frame.steps), returned))
        self._step(above, FUNCTION, name, arguments, outs)
        return out

    def _inline(
        self,
        above: _CallFrame,
        frame: _CallFrame,
        arguments: list[tuple[str, torch.Tensor]],
        outs: Iterable[tuple[tuple[str, torch.Tensor], Ref]],
    ) -> None:
        """Let the steps of a function that calls modules be steps of the one that called it."""
        inputs = {name: self._ref_in(above, tensor) for name, tensor in arguments}
        numbers: dict[int, int] = {}

        def outside(ref: Ref) -> Ref | None:
            if isinstance(ref.source, int):
                return Ref(numbers[ref.source], ref.part)
            if ref.source.startswith((SELF, ROOT)):
                return ref
            source = inputs.get(ref.source)
            if source is None:
                return None
            return Ref(source.source, ".".join(filter(None, (source.part, ref.part))))

        for step in frame.steps:
            refs = {name: found for name, ref in step.arguments.items() if (found := outside(ref))}
            numbers[step.number] = above.add(step.kind, step.called, refs)
        for (_, tensor), ref in outs:
            if ref.source != UNKNOWN and (found := outside(ref)):
                above.bind(tensor, found)

    # Functions of torch

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        before = [*_tensors((args, kwargs))]
        out = function(*args, **kwargs)
        if not self._stack or self._is_quiet:
            return out
        called = getattr(function, "__name__", "")
        name = _plain_name(called)
        if name in _GIVES_NOTHING:
            return out
        outs = list(_tensors(out))
        if name == "put" and before:
            outs = [("", args[0])]
        if outs:
            self._operation(called, name, before, outs)
        return out

    def _operation(
        self,
        called: str,
        name: str,
        given: list[tuple[str, torch.Tensor]],
        outs: list[tuple[str, torch.Tensor]],
    ) -> None:
        frame = self._stack[-1]
        if name in _FRESH:
            _bind_step(frame, frame.add(OPERATION, NEW, {}), outs)
            return
        known = self._known(frame, called, name, given)
        if not known:
            return
        if name not in _MOVING:
            frame.calculates = True
        if len(known) > 1 or name in _ALONE:
            arguments = {str(at): ref for at, ref in enumerate(known)}
            number = frame.add(OPERATION, _SYMBOLS.get(name, name), arguments)
            if _is_in_place(called):
                frame.overwrite(outs[0][1], Ref(number))
            _bind_step(frame, number, outs)
            return
        source, part = known[0]
        for at, tensor in outs:
            pieces = (part, at) if name in _CUTTING else (part,)
            frame.bind(tensor, Ref(source, ".".join(filter(None, pieces))))

    def _known(
        self, frame: _CallFrame, called: str, name: str, given: list[tuple[str, torch.Tensor]]
    ) -> list[Ref]:
        """Return the different values that a function is given, in order."""
        refs = [ref for _, tensor in given if (ref := self._ref_in(frame, tensor))]
        known = list(dict.fromkeys(refs))
        if called in _TURNED:
            known.reverse()
        return known[:1] if name in _AS_FIRST else known

    # What all have in common

    def _ref_in(self, frame: _CallFrame, tensor: torch.Tensor) -> Ref | None:
        """Return the value in a frame that a tensor is, or the parameter; None if it is neither."""
        ref = frame.refs.get(id(tensor))
        if ref is not None:
            return ref
        names = self._held.get(id(tensor))
        if names is None:
            return None
        begin = f"{frame.path}." if frame.path else ""
        inside = [name for name in names if name.startswith(begin)]
        name = (inside or names)[0]
        self.flow.read.update(names)
        return Ref(SELF + name[len(begin) :] if inside else ROOT + name)

    def _alias(self, frame: _CallFrame, outs: list[tuple[str, Any]], sources: list[Any]) -> None:
        """Let results be the values that they only moved."""
        for (_, tensor), source in zip(outs, sources, strict=True):
            if ref := self._ref_in(frame, source):
                frame.bind(tensor, ref)

    def _step(
        self,
        frame: _CallFrame,
        kind: str,
        called: str,
        arguments: list[tuple[str, torch.Tensor]],
        outs: list[tuple[str, torch.Tensor]],
    ) -> None:
        refs = {name: ref for name, tensor in arguments if (ref := self._ref_in(frame, tensor))}
        _bind_step(frame, frame.add(kind, called, refs), outs)


def record_flow(model: nn.Module, inputs: Mapping[str, Any]) -> RecordedFlow:
    """Run a model on inputs and return what was recorded.

    Raises:
        Exception: whatever the model's code raises.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
        >>> flow = record_flow(model, {"input": torch.ones(2, 3)})
        >>> [step.called for step in flow.modules[""][0].steps]
        ['self.0', 'self.1']
    """
    recorder = FlowRecorder(model.eval())
    with recorder.running():
        model(**inputs)
    return recorder.flow


def _bind_inputs(frame: _CallFrame, arguments: list[tuple[str, torch.Tensor]]) -> None:
    for name, tensor in arguments:
        if id(tensor) not in frame.refs:
            frame.bind(tensor, Ref(name))


def _bind_step(frame: _CallFrame, number: int, outs: list[tuple[str, torch.Tensor]]) -> None:
    for part, tensor in outs:
        frame.bind(tensor, Ref(number, part if len(outs) > 1 else ""))


def _only_moved(
    frame: _CallFrame, arguments: list[tuple[str, torch.Tensor]], returned: tuple[Ref, ...]
) -> list[torch.Tensor]:
    """Return the inputs that are what a frame returns; empty if it does more than move them."""
    if frame.calculates:
        return []
    sources = [_input_of(ref, arguments) for ref in returned]
    known = [source for source in sources if source is not None]
    return known if len(known) == len(sources) else []


def _input_of(ref: Ref, arguments: list[tuple[str, torch.Tensor]]) -> torch.Tensor | None:
    for name, tensor in arguments:
        if ref == Ref(name):
            return tensor
    return None


def _arguments(function: Any, args: Any, kwargs: Any) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors that a call is given, by the names of the parameters."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind_partial(*args, **kwargs).arguments
        kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    except (TypeError, ValueError):
        bound, kinds = {f"x{at}": value for at, value in enumerate(args)} | dict(kwargs), {}
    named = []
    for name, value in bound.items():
        if kinds.get(name) is inspect.Parameter.VAR_KEYWORD:
            named += list(_tensors(value))
        else:
            named += list(_tensors(value, name))
    return named


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in nested containers, with the path of each."""
    if isinstance(value, torch.Tensor):
        yield name, value
        return
    if isinstance(value, types.MappingProxyType | dict):
        items: Any = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
        if hasattr(value, "_fields"):
            items = zip(value._fields, value, strict=True)
    else:
        return
    for key, item in items:
        yield from _tensors(item, f"{name}.{key}" if name else str(key))


def _plain_name(called: str) -> str:
    """Return the plain name of a function of torch.

    Example:
        >>> [_plain_name(called) for called in ("__radd__", "mul_", "__getitem__", "softmax")]
        ['radd', 'mul', 'index', 'softmax']
    """
    name = called.strip("_")
    return _NAMES.get(name, name)


def _is_in_place(called: str) -> bool:
    if called.startswith("__"):
        return called in ("__setitem__", "__iadd__", "__imul__", "__isub__", "__itruediv__")
    return called.endswith("_")


def _below(above: str, path: str) -> str:
    """Return how code names a module: by its path below the one that calls it, or by all of it."""
    begin = f"{above}." if above else ""
    if path.startswith(begin):
        return SELF + path[len(begin) :]
    return ROOT + path


def _helpers(model: nn.Module) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the functions that the model's code calls by a global name, with their holder."""
    for holder in _holders(model):
        for key, value in list(vars(holder).items()):
            is_own = isinstance(value, types.FunctionType)
            if is_own and not value.__module__.startswith("torch."):
                yield holder, key, value


def _holders(model: nn.Module) -> Iterator[Any]:
    """Yield the modules of Python that hold the model's code."""
    for name in sorted({type(module).__module__ for module in model.modules()}):
        if name in sys.modules and not name.startswith("torch."):
            yield sys.modules[name]


class _SortedSet(set[Any]):
    """A set whose order does not differ from one process to the next."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__(), key=str))
