"""A model as the steps of its forward pass: its modules in the order in which they run."""

from __future__ import annotations

import textwrap
from collections import Counter
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import evaluate
from weighbridge.answers.answer import Answer
from weighbridge.blueprint.flows import (
    CALL,
    FUNCTION,
    MODULE,
    SELF,
    FlowLoop,
    holds,
    load_flow,
    module_path,
)
from weighbridge.blueprint.paths import joined_path
from weighbridge.errors import ExpressionError, ModelError, UsageError
from weighbridge.ledger.ledger import bind
from weighbridge.render.document import Document, Lines, Notes, Title
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.answers.weigh import Weighing
    from weighbridge.blueprint.flows import FamilyFlow, FlowItem, FlowStep
    from weighbridge.ledger.places import Places
    from weighbridge.ledger.rows import Entry

    Names = dict[str, Any]

RESIDUAL, SUM, JOIN = "residual", "sum", "join"
"""What an operation is, if values come together in it."""
_JOINS = ("cat", "stack")
_WIDTH = 80
_INDENT = "  "
_BY_FIELD = "= "  # a module without tensors whose class a field names


class FlowTensor(NamedTuple):
    """A tensor that a module holds itself."""

    name: str
    shape: tuple[int, ...]


class FlowRow(NamedTuple):
    """A step that runs; if it calls a module, with the module and the steps inside it.

    ``path`` is the path of the module in the base class, with ``{i}`` for the index of a layer.
    ``when`` is a condition that the config does not decide; mostly there is none.
    """

    step: FlowStep
    path: str = ""
    class_name: str = ""
    tensors: tuple[FlowTensor, ...] = ()
    meets: str = ""
    when: str = ""
    rows: tuple[FlowRow | FlowRun, ...] = ()


class FlowRun(NamedTuple):
    """Steps that are repeated, the same in every turn: layers, or without a letter, over time."""

    letter: str
    turns: tuple[int, ...]
    rows: tuple[FlowRow | FlowRun, ...]


class FlowTree(Answer):
    """What ``tree(…).flow()`` returns: the steps of the base class, in order.

    Consecutive layers that do the same steps with tensors of the same shapes are one run.

    Example:
        >>> from weighbridge.answers.tree import tree
        >>> flow = tree("llama").flow()
        >>> [row.path for row in flow.rows[:-1] if isinstance(row, FlowRow)]
        ['embed_tokens', '', 'rotary_emb', 'norm']
    """

    def __init__(self, weighing: Weighing) -> None:
        self.weighing = weighing
        blueprint = weighing.model.blueprint
        self.flow: FamilyFlow = load_flow(blueprint.family)
        _refuse_other(self.flow, weighing)
        self.rows: tuple[FlowRow | FlowRun, ...] = _Expander(self.flow, weighing).module("", {})
        """The steps of the base class."""

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read."""
        return self.weighing.notes

    def to_dict(self, depth: int | None = None) -> dict[str, Any]:
        """Return the steps, ready for JSON; those ``depth`` levels down have no ``steps``."""
        _check_depth(depth)
        return {
            "model": self.weighing.model.where,
            "family": self.flow.family,
            "class": self.flow.class_name,
            "source": self.flow.source,
            "proof": self.flow.proof,
            "steps": [_to_dict(row, depth) for row in self.rows],
            "notes": self.weighing.model.notes,
        }

    def document(self, lang: str = "en", depth: int | None = None) -> Document:
        """Return the steps as a document, ``depth`` levels of modules below the model itself.

        Raises:
            UsageError: the depth is negative, or the language is unknown.
        """
        _check_depth(depth)
        texts = {**words(lang), **data.read_toml(f"words/flow_tree.{lang}.toml")}
        lines = [self.flow.class_name, *_StepLines(texts, depth, set()).lines(self.rows, 1)]
        notes = [texts["reading"], texts["once"], texts["proved"].format(**self.flow.proof)]
        if any(_is_open(row) for row in self.rows):
            notes.insert(0, texts["open"])
        if self.weighing.class_name != self.flow.class_name:
            of_task = {"task": self.weighing.class_name, "base": self.flow.class_name}
            notes.insert(0, texts["base"].format(**of_task))
        title = Title(self.weighing.model.where, wraps=False)
        return Document((title, Lines("\n".join(lines)), Notes(tuple(notes))), lang)


def _check_depth(depth: int | None) -> None:
    if depth is not None and (type(depth) is not int or depth < 0):
        raise UsageError(
            "the depth must be 0 or more",
            values={"depth": depth},
            hint="leave it out to show all levels",
        )


def _refuse_other(flow: FamilyFlow, weighing: Weighing) -> None:
    """Refuse a config with a value of a field under which the class was not recorded."""
    unheld = flow.unheld(config_by_path(weighing))
    if unheld:
        raise ModelError(
            f"the flow of {flow.family} is not recorded for this value",
            where=weighing.model.where,
            values=unheld,
            hint="leave out --flow to see the modules without their order",
        )


def config_by_path(weighing: Weighing) -> dict[str, Any]:
    """Return the fields of the config as it was given, with those of sub-configs by their paths."""
    return {**dict(_by_path(weighing.model.given, "")), **weighing.model.fields}


def _by_path(config: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        here = joined_path(path, name)
        yield here, value
        if hasattr(value, "keys"):
            yield from _by_path(value, here)


# From the flow and the config to steps that run


class _Expander:
    """Selects the steps that a config does, module by module."""

    def __init__(self, flow: FamilyFlow, weighing: Weighing) -> None:
        model, base = weighing.model, flow.class_name
        self.flow, self.blueprint = flow, model.blueprint
        self.config = config_by_path(weighing)
        self.names = {**self.config, **flow.names(model.fields, self.config)}
        self.classes = model.blueprint.modules(base)
        self.tensors: dict[str, list[Entry]] = {}
        for entry in bind(model.blueprint, base, model.fields).entries:
            module = entry.template.name.rpartition(".")[0]
            self.tensors.setdefault(module, []).append(entry)
        self.calls: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def module(self, path: str, at: Mapping[str, int]) -> tuple[FlowRow | FlowRun, ...]:
        """Return the steps of a module, given the indices of its path."""
        place = (path, tuple(at.values()))
        names = {**self.names, **at, CALL: self.calls[place]}
        self.calls[place] += 1
        rows: list[FlowRow | FlowRun] = []
        for variant in self.flow.variants.get(path, ()):
            when = _undecided(variant.when, names)
            if when is not None:
                chosen = self._rows(variant.steps, path, at, names)
                rows += [_only_if(when, row) for row in chosen]
            if when == "":
                break
        return tuple(rows)

    def _rows(
        self, items: Sequence[FlowItem], path: str, at: Mapping[str, int], names: Names
    ) -> Iterator[FlowRow | FlowRun]:
        made_of: dict[str, frozenset[str]] = {}
        for item in items:
            if isinstance(item, FlowLoop):
                yield from self._turns(item, path, at, names)
                continue
            when = _undecided(item.when, names)
            if when is None:
                continue
            row = self._row(item, path, at)
            yield row._replace(meets=_meeting(item, made_of, items), when=when)
            before = frozenset().union(*(made_of.get(_root(one), ()) for one in item.arguments))
            made_of[item.value] = before | set(map(_root, item.arguments))

    def _turns(
        self, loop: FlowLoop, path: str, at: Mapping[str, int], names: Names
    ) -> Iterator[FlowRun]:
        """Yield the runs of turns of a loop that do the same."""
        if loop.letter not in self.blueprint.repeat:
            yield FlowRun("", (), tuple(self._rows(loop.steps, path, at, names)))
            return
        turns = []
        for turn in range(int(evaluate(self.blueprint.repeat[loop.letter], names))):
            here = {loop.letter: turn}
            rows = tuple(self._rows(loop.steps, path, {**at, **here}, {**names, **here}))
            if rows:
                turns.append((rows, turn))
        for _, alike in groupby(turns, key=itemgetter(0)):
            same = [*alike]
            yield FlowRun(loop.letter, tuple(turn for _, turn in same), same[0][0])

    def _row(self, step: FlowStep, path: str, at: Mapping[str, int]) -> FlowRow:
        if step.kind == FUNCTION:
            items = self.flow.functions.get(step.called, ())
            return FlowRow(step, rows=tuple(self._rows(items, path, at, {**self.names, **at})))
        if step.kind != MODULE:
            return FlowRow(step)
        called = module_path(path, step.called)
        return FlowRow(
            step,
            path=called,
            class_name=self._class_of(called),
            tensors=tuple(self._tensors_of(called, at)),
            rows=self.module(called, at),
        )

    def _class_of(self, path: str) -> str:
        bare = self.flow.bare.get(path, "")
        if bare.startswith(_BY_FIELD):
            field = bare.removeprefix(_BY_FIELD)
            return str(self.config.get(field, field))
        return bare or self.classes.get(path, "")

    def _tensors_of(self, path: str, at: Mapping[str, int]) -> Iterator[FlowTensor]:
        for entry in self.tensors.get(path, ()):
            place = [at[letter] for letter in entry.template.repeat if letter in at]
            if len(place) == len(entry.template.repeat) and _holds(entry.indices, place):
                yield FlowTensor(entry.template.name.rpartition(".")[2], entry.shape)


def _holds(places: Places, place: Sequence[int]) -> bool:
    """Whether a tensor exists in a place, without going through all its places."""
    if not place:
        return len(places) > 0
    first, *rest = place
    return any(first in values and _holds(inside, rest) for values, inside in places.blocks)


def _undecided(when: str, names: Names) -> str | None:
    """Return a condition that the config leaves open; else nothing if it holds, None if not."""
    try:
        return "" if holds(when, names) else None
    except ExpressionError:
        return when


def _only_if(when: str, row: FlowRow | FlowRun) -> FlowRow | FlowRun:
    """Return a step under a condition that the config leaves open, if there is one."""
    if not when:
        return row
    if isinstance(row, FlowRun):
        return row._replace(rows=tuple(_only_if(when, inside) for inside in row.rows))
    both = " and ".join(filter(None, [when, row.when]))
    return row._replace(when=both)


def _meeting(
    step: FlowStep, made_of: Mapping[str, frozenset[str]], items: Sequence[FlowItem]
) -> str:
    """Return which kind of meeting of values a step is, or nothing.

    A sum is a residual if one side is made of the other, or if an input of the module is added to
    what a module in it gave.
    """
    if step.called in _JOINS:
        return JOIN
    if step.called != "+":
        return ""
    one, other = map(_root, step.arguments)
    if one in made_of.get(other, ()) or other in made_of.get(one, ()):
        return RESIDUAL
    given = {item.value for item in items if not isinstance(item, FlowLoop) and item.kind == MODULE}
    for result, earlier in ((one, other), (other, one)):
        if result in given and earlier not in made_of and not earlier.startswith(SELF):
            return RESIDUAL
    return SUM


def _root(argument: str) -> str:
    """Return the value that an argument is, or is a part of."""
    if argument.startswith(SELF):
        return argument
    return argument.partition("|")[0].partition(".")[0].rstrip("*")


# From steps to dicts and lines


def _to_dict(row: FlowRow | FlowRun, depth: int | None) -> dict[str, Any]:
    if isinstance(row, FlowRun):
        inside = [_to_dict(one, depth) for one in row.rows]
        return {"kind": "loop", "index": row.letter, "turns": list(row.turns), "steps": inside}
    step = row.step
    described: dict[str, Any] = {
        "kind": step.kind,
        "value": step.value,
        "called": step.called,
        "arguments": list(step.arguments),
    }
    if row.when:
        described["when"] = row.when
    if row.meets:
        described["meets"] = row.meets
    if step.kind == MODULE:
        described |= {"path": row.path, "class": row.class_name}
        described["tensors"] = [
            {"name": tensor.name, "shape": list(tensor.shape)} for tensor in row.tensors
        ]
    if row.rows and depth != 0:
        below = None if depth is None else depth - 1
        described["steps"] = [_to_dict(one, below) for one in row.rows]
    return described


class _StepLines(NamedTuple):
    """Writes steps as lines, given the words and the most levels of modules.

    ``written`` has what was written already: the steps of norms and functions are written once.
    """

    texts: Mapping[str, str]
    depth: int | None
    written: set[object]

    def lines(
        self, rows: Iterable[FlowRow | FlowRun], indent: int, level: int = 0
    ) -> Iterator[str]:
        """Yield the lines of steps, and of the steps inside them."""
        for row in rows:
            if isinstance(row, FlowRun):
                yield from _wrapped(self.head(row), indent)
                yield from self.lines(row.rows, indent + 1, level)
                continue
            yield from _wrapped(self.line(row), indent)
            if self.shows(row, level):
                yield from self.lines(row.rows, indent + 1, level + 1)

    def shows(self, row: FlowRow, level: int) -> bool:
        """Whether the steps inside a module or function are written, and not written before."""
        if self.depth is not None and level >= self.depth:
            return False
        if any(_has_module(inside) for inside in row.rows):
            return True
        known = (row.class_name or row.step.called, row.rows)
        is_new = known not in self.written
        self.written.add(known)
        return is_new

    def head(self, run: FlowRun) -> str:
        """Return the line before steps that are repeated."""
        if not run.turns:
            return self.texts["repeated"]
        return self.texts["for_each"].format(index=run.letter, turns=_turns_text(run.turns))

    def line(self, row: FlowRow) -> str:
        """Return a step, with the class and the shapes of a module, or what a sum is."""
        parts = [row.step.text]
        if row.step.kind == MODULE:
            parts = [row.step.text.replace(f"= {SELF}", "= ", 1)]
        if row.when:
            parts.append(f"if {row.when}")
        if row.meets:
            parts.append(f"# {self.texts[row.meets]}")
        if row.class_name or row.tensors:
            shapes = [f"{tensor.name} {list(tensor.shape)}" for tensor in row.tensors]
            described = " ".join(filter(None, [row.class_name, ", ".join(shapes)]))
            parts.append(f"# {described}")
        return "  ".join(parts)


def _is_open(row: FlowRow | FlowRun) -> bool:
    if isinstance(row, FlowRow) and row.when:
        return True
    return any(map(_is_open, row.rows))


def _has_module(row: FlowRow | FlowRun) -> bool:
    if isinstance(row, FlowRun):
        return any(map(_has_module, row.rows))
    return row.step.kind == MODULE


def _turns_text(turns: Sequence[int]) -> str:
    """Return indices as text, such as ``0-11`` or ``3``."""
    if len(turns) == 1:
        return str(turns[0])
    if turns[-1] - turns[0] == len(turns) - 1:
        return f"{turns[0]}-{turns[-1]}"
    return ", ".join(map(str, turns))


def _wrapped(line: str, indent: int) -> list[str]:
    """Return a line, indented; what does not fit goes on below, further to the right."""
    first = _INDENT * indent
    return textwrap.wrap(
        line,
        max(_WIDTH, len(first) + _WIDTH // 2),
        initial_indent=first,
        subsequent_indent=first + _INDENT * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )
