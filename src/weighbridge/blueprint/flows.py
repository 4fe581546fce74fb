"""Flows: in which order the modules of a class run, and what flows between them.

A flow is recorded while the reference code runs, and kept in a file of its own that weighing a
model never reads. For each module it holds the steps of its forward pass as lines of text, such as
``v2 = hidden_states + v1``. This module reads such files, checks them against their law and selects
what holds for a config. ``docs/reference/flows.md`` describes the format.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import chain

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse, parse_at
from weighbridge.blueprint.paths import indices_in
from weighbridge.errors import ModelError, shorten
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeAlias

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Raw

    FlowItem: TypeAlias = "FlowStep | FlowLoop"

FORMAT = 1
MODULE, FUNCTION, OPERATION, RETURN = "module", "function", "operation", "return"
"""The kinds of steps. A loop is no step: it has steps."""
CALL = "call"
"""The name of the number of a call, from 0, where one module is called several times."""
NULL = "null"  # stands for null, which TOML lacks
SYMBOLS = ("+", "-", "*", "/", "@")
SELF, ROOT = "self.", "root."
_INDENT = "  "
_WORDS_OF_SUM = 3  # two values with a symbol between them
_MOST_LEVELS = 3  # of loops inside loops
_LOOP = re.compile(r"for \{(\w+)\}:|loop:")
_STEP = re.compile(r"(v\d+) = (.+)")
_CALL = re.compile(r"([\w.{}-]+)\((.*)\)")
_VALUE = re.compile(r"v\d+")
_ARGUMENT = re.compile(r"[\w*.{}-]*(\|v\d+[\w*.]*)?")


class FlowStep(NamedTuple):
    """A step: the value that it gives, its kind, what is called, its arguments, its condition.

    A step of kind ``return`` has no value and nothing that is called. Arguments are as in the text:
    ``v1``, ``v1.0``, ``hidden_states``, ``self.weight``, or ``v0|v3`` for v3 as soon as it has a
    value and v0 before.
    """

    value: str
    kind: str
    called: str
    arguments: tuple[str, ...]
    when: str = ""

    @property
    def text(self) -> str:
        """The step as a line, without its condition."""
        if self.kind == RETURN:
            return f"return {', '.join(self.arguments)}"
        if self.called in SYMBOLS:
            return f"{self.value} = {f' {self.called} '.join(self.arguments)}"
        begin = SELF if self.kind == MODULE and not self.called.startswith(ROOT) else ""
        return f"{self.value} = {begin}{self.called}({', '.join(self.arguments)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the step, ready for JSON."""
        return {**self._asdict(), "arguments": list(self.arguments)}


class FlowLoop(NamedTuple):
    """Steps that are repeated: for each value of an index, or, without a letter, over time."""

    letter: str
    steps: tuple[FlowStep | FlowLoop, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the loop, ready for JSON."""
        steps = [one.to_dict() for one in self.steps]
        return {"kind": "loop", "index": self.letter, "steps": steps}


class FlowVariant(NamedTuple):
    """The steps of a module under a condition; the empty condition always holds."""

    when: str
    steps: tuple[FlowItem, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the variant, ready for JSON."""
        return {"when": self.when, "steps": [one.to_dict() for one in self.steps]}


class FamilyFlow:
    """The flow of a family's class, not yet bound to a config.

    Example:
        >>> layer = load_flow("llama").variants["layers.{i}"][0]
        >>> layer.steps[2].called, layer.steps[2].arguments
        ('+', ('hidden_states', 'v1'))
    """

    def __init__(self, raw: Raw) -> None:
        self.family: str = raw["family"]
        self.source: str = raw["source"]
        self.class_name: str = raw["class"]
        self.proof: Raw = raw["proof"]
        self.fields: dict[str, Any] = {
            name: _known_value(value) for name, value in raw.get("fields", {}).items()
        }
        """The fields in conditions that the blueprint does not have, with their defaults."""
        self.held: dict[str, Any] = {
            name: _known_value(value) for name, value in raw.get("held", {}).items()
        }
        """The fields whose other values change the flow or do not run: they had this one value."""
        self.bare: dict[str, str] = raw.get("bare", {})
        """The modules that run and hold no tensors, with their classes."""
        self.unused: dict[str, str] = raw.get("unused", {})
        """The modules that do not run, each with its condition; the empty one always holds."""
        known = frozenset(raw.get("functions", {})) | frozenset(raw.get("opaque", ()))
        self.functions: dict[str, tuple[FlowItem, ...]] = {
            name: read_steps(lines, known) for name, lines in raw.get("functions", {}).items()
        }
        """The functions of the model's code that are steps, with their own steps."""
        self.opaque: tuple[str, ...] = tuple(raw.get("opaque", ()))
        """The functions whose own steps are not recorded."""
        self.variants: dict[str, tuple[FlowVariant, ...]] = {}
        """The steps of each module, by its path with ``{i}``."""
        for path, lines in raw["flow"].items():
            own = raw["flow"][lines] if isinstance(lines, str) else lines
            self.variants[path] = (FlowVariant("", read_steps(own, known)),)
        for variant in raw.get("variant", ()):
            steps = read_steps(variant["steps"], known)
            one = FlowVariant(variant["when"], steps)
            self.variants[variant["of"]] = (*self.variants.get(variant["of"], ()), one)

    def steps(self, path: str, names: Mapping[str, Any]) -> tuple[FlowItem, ...] | None:
        """Return the steps of a module, given a value for every name; None if it has none.

        ``names`` holds the fields of a config, as `names` returns them, and the indices of the
        path. Steps of a loop keep their conditions.

        Raises:
            ExpressionError: a name in a condition has no value.
        """
        for variant in self.variants.get(path, ()):
            if holds(variant.when, names):
                return variant.steps
        return None

    def is_unused(self, path: str, names: Mapping[str, Any]) -> bool:
        """Whether a module with tensors does not run, given a value for every name."""
        condition = self.unused.get(path)
        if condition is None:
            return False
        return not condition or bool(evaluate(_condition_tree(condition), names))

    def names(self, fields: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the names in conditions: a blueprint's fields, and other ones.

        ``config`` is the config as a user gave it, in which fields may be left out.
        """
        own = {name: config.get(name, default) for name, default in self.fields.items()}
        return {**own, **fields}

    def unheld(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a config that differ from the values that were recorded."""
        return {
            name: config[name]
            for name, value in self.held.items()
            if name in config and config[name] != value
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the flow, ready for JSON, with every condition as text."""
        modules = {}
        for path, variants in self.variants.items():
            modules[path] = [variant.to_dict() for variant in variants]
        return {
            "family": self.family,
            "class": self.class_name,
            "source": self.source,
            "proof": self.proof,
            "fields": self.fields,
            "held": self.held,
            "modules": modules,
            "functions": {
                name: [step.to_dict() for step in steps] for name, steps in self.functions.items()
            },
            "opaque": list(self.opaque),
            "bare": self.bare,
            "unused": self.unused,
        }


def runs(step: FlowStep, names: Mapping[str, Any]) -> bool:
    """Whether a step is done, given a value for every name in its condition."""
    return holds(step.when, names)


def holds(when: str, names: Mapping[str, Any]) -> bool:
    """Whether a condition holds, given a value for every name in it; an empty one always does."""
    return not when or bool(evaluate(_condition_tree(when), {CALL: 0, **names}))


@cache
def _condition_tree(text: str) -> Tree:
    return parse(text)


def _known_value(value: Any) -> Any:
    return None if value == NULL else value


def flow_families() -> tuple[str, ...]:
    """Return the families whose flow is recorded.

    Example:
        >>> "bert" in flow_families()
        True
    """
    return data.names("flows", ".toml")


@cache
def load_flow(family: str) -> FamilyFlow:
    """Return a flow that is shipped with this package; the tests check each against the law.

    Raises:
        ModelError: there is none for this family.
    """
    if family not in flow_families():
        known = ", ".join(flow_families())
        hint = f"these families have one: {known}"
        raise ModelError(f"there is no flow for the family {shorten(family, str)}", hint=hint)
    return FamilyFlow(data.read_toml(f"flows/{family}.toml"))


# Lines of text


def read_steps(lines: Iterable[str], functions: Iterable[str] = ()) -> tuple[FlowItem, ...]:
    """Return the steps that lines of text stand for.

    ``functions`` are the names of functions of the model's code.

    Raises:
        ValueError: a line is no step, or is indented wrongly.

    Example:
        >>> read_steps(["for {i}:", "  v0 = self.layers.{i}(x|v0)", "return v0"])[0].steps
        (FlowStep(value='v0', kind='module', called='layers.{i}', arguments=('x|v0',), when=''),)
    """
    return _read_items([*lines], frozenset(functions), 0)


def _read_items(lines: list[str], functions: frozenset[str], level: int) -> tuple[FlowItem, ...]:
    items: list[FlowItem] = []
    at = 0
    while at < len(lines):
        text = lines[at].removeprefix(_INDENT * level)
        loop = _LOOP.fullmatch(text)
        indent = len(lines[at]) - len(lines[at].lstrip())
        if indent != len(_INDENT) * level or level > _MOST_LEVELS:
            raise ValueError(f"{lines[at]!r} is indented wrongly")
        at += 1
        if not loop:
            items.append(_step(text, functions))
            continue
        begin = at
        while at < len(lines) and lines[at].startswith(_INDENT * (level + 1)):
            at += 1
        if begin == at:
            raise ValueError(f"{text!r} has no steps")
        items.append(FlowLoop(loop[1] or "", _read_items(lines[begin:at], functions, level + 1)))
    return tuple(items)


def _step(text: str, functions: frozenset[str]) -> FlowStep:
    if text.startswith("return "):
        return FlowStep("", RETURN, "", _arguments(text.removeprefix("return ")))
    matched = _STEP.fullmatch(text)
    if not matched:
        raise ValueError(f"{text!r} is no step")
    value, rest = matched.groups()
    rest, _, when = rest.partition(" if ")
    words = rest.split(" ")
    if len(words) == _WORDS_OF_SUM and words[1] in SYMBOLS:
        arguments = (*_arguments(words[0]), *_arguments(words[2]))
        return FlowStep(value, OPERATION, words[1], arguments, when)
    call = _CALL.fullmatch(rest)
    if not call:
        raise ValueError(f"{text!r} is no step")
    called, given = call.groups()
    arguments = _arguments(given) if given else ()
    if called.startswith(SELF):
        return FlowStep(value, MODULE, called.removeprefix(SELF), arguments, when)
    if called.startswith(ROOT):
        return FlowStep(value, MODULE, called, arguments, when)
    kind = FUNCTION if called in functions else OPERATION
    return FlowStep(value, kind, called, arguments, when)


def _arguments(text: str) -> tuple[str, ...]:
    arguments = tuple(text.split(", "))
    for argument in arguments:
        if not argument or not _ARGUMENT.fullmatch(argument):
            raise ValueError(f"{argument!r} is no argument")
    return arguments


def all_steps(items: Iterable[FlowItem]) -> Iterator[FlowStep]:
    """Yield every step, those of loops too."""
    for item in items:
        if isinstance(item, FlowLoop):
            yield from all_steps(item.steps)
        else:
            yield item


def module_path(path: str, called: str) -> str:
    """Return the path of a module that another one calls.

    Example:
        >>> module_path("layers.{i}", "mlp"), module_path("encoder", "root.shared")
        ('layers.{i}.mlp', 'shared')
    """
    if called.startswith(ROOT):
        return called.removeprefix(ROOT)
    return f"{path}.{called}" if path else called


# The law


def check_flow(raw: Raw, where: str = "") -> None:
    """Check a file of a flow, as read, against the law.

    Raises:
        BlueprintError: a rule is broken; the message begins with the rule's name.

    Example:
        >>> check_flow({**data.read_toml("flows/bert.toml"), "format": 0})
        Traceback (most recent call last):
        weighbridge.errors.BlueprintError: format: this version reads format 1, not 0.
    """
    from weighbridge.blueprint import law  # noqa: PLC0415  # what is shipped is checked already

    law.hold(raw, LAW, where)


_TEXTS = ("family", "source", "class")
_TABLES = ("proof", "fields", "held", "flow", "functions", "bare", "unused")
_REQUIRED = {"format", *_TEXTS, "proof", "flow"}
_KNOWN = {*_REQUIRED, *_TABLES, "variant", "opaque"}
_PROOF = {"by", "against", "configs", "varied", "holes"}
_VARIANT = {"of", "when", "steps"}


def _flow_keys(raw: Raw) -> Iterator[str]:
    """Every required key is present, and no key is unknown."""
    yield from (f"{key} is missing" for key in sorted(_REQUIRED - set(raw)))
    yield from (f"{key} is unknown" for key in sorted(set(raw) - _KNOWN))
    if set(raw["proof"]) != _PROOF:
        yield f"proof must have {', '.join(sorted(_PROOF))}"
    for variant in raw.get("variant", ()):
        if set(variant) != _VARIANT:
            yield f"a variant must have {', '.join(sorted(_VARIANT))}"


def _format(raw: Raw) -> Iterator[str]:
    """The format is one that this version reads."""
    if raw["format"] != FORMAT:
        yield f"this version reads format {FORMAT}, not {raw['format']}"


def _types(raw: Raw) -> Iterator[str]:
    """Texts and tables have the right types; a module has a list of lines, or the path of one."""
    yield from (f"{key} must be text" for key in _TEXTS if not isinstance(raw[key], str))
    yield from (
        f"{key} must be a table" for key in _TABLES if not isinstance(raw.get(key, {}), dict)
    )
    for path, lines in raw["flow"].items():
        if isinstance(lines, str):
            if not isinstance(raw["flow"].get(lines), list):
                yield f"flow.{path}: there are no steps of {lines}"
        elif not _is_texts(lines):
            yield f"flow.{path} must be a list of texts"
    for name, lines in raw.get("functions", {}).items():
        if not _is_texts(lines):
            yield f"functions.{name} must be a list of texts"


def _is_texts(lines: Any) -> bool:
    return isinstance(lines, list) and all(isinstance(line, str) for line in lines)


def _programs(raw: Raw) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of every module, variant and function, with their place."""
    for path, lines in raw["flow"].items():
        if not isinstance(lines, str):
            yield f"flow.{path}", lines
    for variant in raw.get("variant", ()):
        yield f"variant.{variant['of']}", variant["steps"]
    for name, lines in raw.get("functions", {}).items():
        yield f"functions.{name}", lines


def _flow_lines(raw: Raw) -> Iterator[str]:
    """Every line is a step, a loop or the last line, which says what is returned."""
    for place, lines in _programs(raw):
        try:
            items = read_steps(lines)
        except ValueError as error:
            yield f"{place}: {error}"
            continue
        for item in items[:-1]:
            if isinstance(item, FlowStep) and item.kind == RETURN:
                yield f"{place}: a line after what is returned"


def _values(raw: Raw) -> Iterator[str]:
    """A value is used after the step that gives it, or in the loop that gives it."""
    for place, lines in _programs(raw):
        known: set[str] = set()
        yield from (f"{place}: {what}" for what in _unknown_values(read_steps(lines), known))


def _unknown_values(items: Iterable[FlowItem], known: set[str]) -> Iterator[str]:
    for item in items:
        if isinstance(item, FlowLoop):
            yield from _unknown_values(item.steps, known)
            yield from _unknown_carried(item)
            continue
        for argument in item.arguments:
            name = _name_of(argument.partition("|")[0])
            if _VALUE.fullmatch(name) and name not in known:
                yield f"{argument} is used before it is given"
        known.add(item.value)


def _unknown_carried(loop: FlowLoop) -> Iterator[str]:
    """Yield what a turn of a loop takes from the one before, if no step of the loop gives it."""
    steps = [*all_steps(loop.steps)]
    inside = {step.value for step in steps}
    for step in steps:
        for argument in step.arguments:
            carried = argument.partition("|")[2]
            if carried and _name_of(carried) not in inside:
                yield f"{argument} is given by no step of the loop"


def _name_of(argument: str) -> str:
    return argument.partition(".")[0].rstrip("*")


def _flow_conditions(raw: Raw) -> Iterator[str]:
    """Every condition is an expression, and the indices in it are in the path or the loop."""
    for path, condition in raw.get("unused", {}).items():
        yield from _broken(condition, {*indices_in(path)}, f"unused.{path}")
    for variant in raw.get("variant", ()):
        where = f"variant.{variant['of']}"
        yield from _broken(variant["when"], {*indices_in(variant["of"])}, where)
    for place, lines in _programs(raw):
        indices = {*indices_in(place), *chain.from_iterable(map(indices_in, lines))}
        for step in all_steps(read_steps(lines)):
            yield from _broken(step.when, indices, place)


def _broken(condition: str, indices: set[str], where: str) -> Iterator[str]:
    if not condition:
        return
    for name in names_in(parse_at(where, condition)):
        if len(name) == 1 and name.islower() and name not in indices:
            yield f"{where}: {{{name}}} is no index of it"


LAW: dict[str, Callable[[Raw], Iterator[str]]] = {
    "keys": _flow_keys,
    "format": _format,
    "types": _types,
    "lines": _flow_lines,
    "values": _values,
    "conditions": _flow_conditions,
}
"""The rules of a flow by name; each relies on those before it."""
