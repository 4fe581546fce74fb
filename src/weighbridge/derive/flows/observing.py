"""Observes a family: runs its base class on a config and returns the programs of all modules."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from weighbridge.blueprint.paths import indices_in
from weighbridge.derive.flows.folding import Folder
from weighbridge.derive.flows.program_text import Line, program_lines
from weighbridge.derive.flows.recording import record_flow
from weighbridge.derive.flows.stimuli import stimuli
from weighbridge.derive.operations.module_paths import ModulePaths
from weighbridge.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.flows.recording import Program, RecordedFlow
    from weighbridge.derive.probing.subject import Subject

Lines = tuple[Line, ...]
CALL = "call"


class ObservedProgram(NamedTuple):
    """The program of one module at one place: the values of its indices and of its call."""

    names: Mapping[str, int]
    lines: Lines


class FlowObservation(NamedTuple):
    """One run: its config, and by template the programs, the classes and what did not run."""

    changes: Mapping[str, Any]
    fields: Mapping[str, Any]
    programs: dict[str, list[ObservedProgram]]
    functions: dict[str, set[Lines]]
    bare: dict[str, set[str]]
    ran: dict[str, list[Mapping[str, int]]]
    unused: dict[str, list[Mapping[str, int]]]


class Observer:
    """Runs the base class of a family."""

    def __init__(self, subject: Subject, blueprint: Blueprint) -> None:
        self._subject, self._blueprint = subject, blueprint
        self._folder = Folder(ModulePaths(blueprint, blueprint.base_class))
        self._way: int | None = None

    def observe(self, changes: Mapping[str, Any], fields: Mapping[str, Any]) -> FlowObservation:
        """Run a config and return what was recorded.

        Raises:
            Exception: whatever the model's code raises.
        """
        config = self._subject.config(changes)
        _without_cache(config)
        config = self._subject.attend(config, "eager")
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = self._subject.build(self._blueprint.base_class, config).eval()
            flow = self._recorded(model, config)
        functions = {
            name: {self._lines(program, "") for program in of_function}
            for name, of_function in flow.functions.items()
        }
        bare: dict[str, set[str]] = {}
        for path, module in flow.ran.items():
            if path and next(module.parameters(), None) is None:
                bare.setdefault(self._place(path)[0], set()).add(type(module).__name__)
        ran, unused = self._places(flow.ran), self._places(_unused(model, flow))
        return FlowObservation(changes, fields, self._programs(flow), functions, bare, ran, unused)

    def _programs(self, flow: RecordedFlow) -> dict[str, list[ObservedProgram]]:
        """Return the programs of modules; those of several calls only where they differ."""
        programs: dict[str, list[ObservedProgram]] = {}
        for path, of_module in flow.modules.items():
            template, names = self._place(path)
            calls = [self._lines(program, path) for program in of_module]
            if len(set(calls)) == 1:
                observed = [ObservedProgram(names, calls[0])]
            else:
                observed = [
                    ObservedProgram({**names, CALL: call}, lines)
                    for call, lines in enumerate(calls)
                ]
            programs.setdefault(template, []).extend(observed)
        return programs

    def _places(self, paths: Iterable[str]) -> dict[str, list[Mapping[str, int]]]:
        places: dict[str, list[Mapping[str, int]]] = {}
        for path in paths:
            template, names = self._place(path)
            places.setdefault(template, []).append(names)
        return places

    def _recorded(self, model: nn.Module, config: Any) -> RecordedFlow:
        error: Exception | None = None
        for way, inputs in enumerate(stimuli(model, config)):
            if self._way is not None and way != self._way:
                continue
            try:
                flow = record_flow(model, inputs)
            except Exception as refusal:  # whatever the code raises: it needs other inputs
                error = error or refusal
                continue
            self._way = way
            return flow
        raise error or ModelError("takes none of the inputs that are known")

    def _place(self, path: str) -> tuple[str, dict[str, int]]:
        template, indices = self._folder.template(path)
        return template, dict(zip(indices_in(template), indices, strict=True))

    def _lines(self, program: Program, path: str) -> Lines:
        return tuple(program_lines(self._folder.folded(program, path)))


def _without_cache(config: Any) -> None:
    """Let a model keep no cache: a flow is that of one pass over a whole text."""
    for holder in (config, *vars(config).values()):
        if hasattr(holder, "use_cache") and hasattr(holder, "to_dict"):
            holder.use_cache = False


def _unused(model: nn.Module, flow: RecordedFlow) -> Iterator[str]:
    """Yield the modules with parameters of their own that do not run and that no code reads."""
    inside = [
        f"{path}."
        for path, module in flow.ran.items()
        if type(module).__module__.startswith("torch.nn.modules")
        and not isinstance(module, nn.Sequential)
    ]
    ran = {id(module) for module in flow.ran.values()}
    for path, module in model.named_modules():
        own = [
            f"{path}.{name}" if path else name for name, _ in module.named_parameters(recurse=False)
        ]
        if not own or id(module) in ran or path.startswith(tuple(inside)):
            continue
        if not flow.read.intersection(own):
            yield path
