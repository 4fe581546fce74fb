"""The flow of a family as a part of the contract: the steps of each module, once, without a config.

A step is ``[value, kind, called, arguments]`` or ``[value, kind, called, arguments, condition]``, a
loop ``["for", index, steps]``. Lists of steps stand once in ``programs``, conditions as text and
number of a tree once in ``conditions``, so that the page selects what runs as its dials turn.
"""

from __future__ import annotations

from weighbridge.algebra.expr import names_in, parse
from weighbridge.answers.flow_tree import config_by_path
from weighbridge.blueprint.flows import CALL, flow_families, load_flow
from weighbridge.explorer.trees import value_json
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from weighbridge.answers.weigh import Weighing
    from weighbridge.blueprint.flows import FamilyFlow
    from weighbridge.explorer.trees import TreeTable

_BY_FIELD = "= "  # a module without tensors whose class a field names
_ALWAYS = -1  # the condition that always holds
_MOST_ABSENT = 3  # modules of the base class that a task class may lack, such as a pooler


def flow_contract(weighing: Weighing, table: TreeTable) -> dict[str, Any] | None:
    """Return what a page needs to draw the flow of a class, or None if the family has no flow.

    A flow is that of the base class. Of a task class that has all its modules, or nearly all, it is
    drawn too, with what the class adds; ``other`` says that a class has too many others.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> from weighbridge.explorer.trees import TreeTable
        >>> made = flow_contract(weigh("llama"), TreeTable())
        >>> made["programs"][made["modules"]["layers.{i}"][0][1]][2]
        ['v2', 'o', '+', 'hidden_states,v1']
    """
    family = weighing.model.blueprint.family
    if family not in flow_families():
        return None
    return _FlowWriter(load_flow(family), weighing, table).contract()


class _FlowWriter:
    """Writes a flow, each list of steps and each condition once."""

    def __init__(self, flow: FamilyFlow, weighing: Weighing, table: TreeTable) -> None:
        self.flow, self.weighing, self.table = flow, weighing, table
        self.programs: list[list[Any]] = []
        self.conditions: dict[str, int] = {}
        self.indices: set[str] = set()
        self.prefix, self.absent = _inside_class(flow.class_name, weighing)

    def contract(self) -> dict[str, Any]:
        described = self.flow.to_dict()
        if len(self.absent) > _MOST_ABSENT:
            return {"class": self.flow.class_name, "other": True}
        modules = {
            path: [
                [self._condition(variant["when"]), self._program(variant["steps"])]
                for variant in variants
            ]
            for path, variants in described["modules"].items()
        }
        functions = {name: self._program(steps) for name, steps in described["functions"].items()}
        repeat = self.weighing.model.blueprint.repeat
        return {
            "class": self.flow.class_name,
            "prefix": self.prefix,
            "absent": self.absent,
            "added": self._added(),
            "against": self.flow.proof["against"],
            "configs": self.flow.proof["configs"],
            "held": {name: value_json(value) for name, value in self.flow.held.items()},
            "fields": self._other_fields(),
            "modules": modules,
            "functions": functions,
            "programs": self.programs,
            "conditions": [[text, self.table.number(parse(text))] for text in self.conditions],
            "repeat": {
                index: self.table.number(repeat[index])
                for index in sorted(self.indices.intersection(repeat))
            },
            "classes": self._classes(),
            "unused": self.flow.unused,
        }

    def _program(self, steps: Sequence[dict[str, Any]]) -> int:
        program = [*self._steps(steps)]
        if program not in self.programs:
            self.programs.append(program)
        return self.programs.index(program)

    def _steps(self, steps: Iterable[dict[str, Any]]) -> Iterator[list[Any]]:
        for step in steps:
            if step["kind"] == "loop":
                self.indices.add(step["index"])
                yield ["for", step["index"], [*self._steps(step["steps"])]]
                continue
            arguments = ",".join(step["arguments"])
            written = [step["value"], step["kind"][0], step["called"], arguments]
            if step["when"]:
                written.append(self._condition(step["when"]))
            yield written

    def _condition(self, text: str) -> int:
        return self.conditions.setdefault(text, len(self.conditions)) if text else _ALWAYS

    def _classes(self) -> dict[str, str]:
        """Return the class of each module of the flow, or the field that names it."""
        flow = self.flow
        return {**self.weighing.model.blueprint.modules(flow.class_name), **flow.bare}

    def _added(self) -> dict[str, str]:
        """Return the class of each module that the class has besides its base class."""
        weighing, prefix = self.weighing, self.prefix
        classes = weighing.model.blueprint.modules(weighing.class_name)
        paths = _modules_of(weighing, weighing.class_name)
        return {path: classes.get(path, "") for path in paths if not f"{path}.".startswith(prefix)}

    def _other_fields(self) -> dict[str, Any]:
        """Return the values of names in conditions and classes that are no fields of the page."""
        model = self.weighing.model
        config = config_by_path(self.weighing)
        known = {**config, **self.flow.names(model.fields, config)}
        wanted = {name for text in self.conditions for name in names_in(parse(text))} - {CALL}
        wanted |= {
            kind.removeprefix(_BY_FIELD)
            for kind in self.flow.bare.values()
            if kind.startswith(_BY_FIELD)
        }
        wanted |= set(self.flow.held)
        return {
            name: value_json(known[name])
            for name in sorted(wanted)
            if name in known and name not in model.fields
        }


def _modules_of(weighing: Weighing, class_name: str) -> list[str]:
    """Return the paths of the modules of a class that hold tensors, in checkpoint order."""
    templates = weighing.model.blueprint.templates(class_name)
    return list(dict.fromkeys(template.name.rpartition(".")[0] for template in templates))


def _inside_class(base: str, weighing: Weighing) -> tuple[str, list[str]]:
    """Return under which prefix a class has its base class, and what of that it lacks.

    The prefix of a family is not that of every class: ``CamembertForMaskedLM`` has its base class
    under ``roberta``. The prefix under which least is missing is taken.
    """
    wanted, there = _modules_of(weighing, base), _modules_of(weighing, weighing.class_name)
    prefixes = [weighing.model.blueprint.prefix(weighing.class_name)]
    prefixes += [path.removesuffix(wanted[0]) for path in there if path.endswith(wanted[0])]
    missing = {
        prefix: [path for path in wanted if f"{prefix}{path}".rstrip(".") not in there]
        for prefix in prefixes
    }
    prefix = min(missing, key=lambda one: len(missing[one]))
    return prefix, missing[prefix]
