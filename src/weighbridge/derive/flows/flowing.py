"""Derives the flow of a family: records it on many configs and proves it on unseen ones."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import names_in, parse
from weighbridge.blueprint.flows import (
    FORMAT,
    MODULE,
    NULL,
    FamilyFlow,
    FlowLoop,
    all_steps,
    check_flow,
    module_path,
    read_steps,
    runs,
)
from weighbridge.derive.flows.flow_draws import FlowDraws
from weighbridge.derive.flows.learning_flows import FlowLearner, ProgramChoice, names_at
from weighbridge.derive.flows.observing import Observer
from weighbridge.derive.flows.recording import NEW
from weighbridge.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.blueprint.flows import FlowItem
    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.flows.observing import FlowObservation, Lines
    from weighbridge.derive.probing.subject import Subject

    Names = dict[str, Any]
    TurnsOfStep = tuple[str, frozenset[int]]

PROVED_ON = 4  # unseen configs
_LEARNED_FROM = 5  # random configs besides those with one flag turned
_MOST_ROUNDS = 4  # a config on which the flow is wrong is learned from in the next round
_TRIES = 6  # random configs for each that must run
_LONGEST_FUNCTION = 40  # lines of a function that are kept


class Flowed(NamedTuple):
    """The data of a file of a flow, and where it differs from the code."""

    raw: dict[str, Any]
    wrong: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether the flow is proved."""
        return not self.wrong


class FlowDeriver:
    """Derives the flow of the base class of a family."""

    def __init__(self, subject: Subject, blueprint: Blueprint, seed: int = 0) -> None:
        self.subject, self.blueprint = subject, blueprint
        self.draws = FlowDraws(subject, blueprint)
        self.observer = Observer(subject, blueprint)
        self._learner = FlowLearner(self.draws, blueprint)
        self._dice = random.Random(f"flow {blueprint.family} {seed}")  # noqa: S311
        self.flags: dict[str, list[Any]] = {}
        self.held: dict[str, Any] = {}

    def derived(self) -> Flowed:
        """Record, learn and prove.

        Raises:
            ModelError: the class does not run, or its programs cannot be told apart.
        """
        observations = [self._first()]
        observations += self._turned()
        observations += self._random(_LEARNED_FROM)
        wrong = ""
        for _ in range(_MOST_ROUNDS):
            raw = self._raw(observations)
            flow = FamilyFlow(raw)
            unseen = self._random(PROVED_ON)
            differing = [one for one in unseen if difference(flow, one)]
            if not differing:
                raw["proof"] = self._proof(len(unseen))
                check_flow(raw, self.blueprint.family)
                wrong = "" if len(unseen) == PROVED_ON else f"only {len(unseen)} configs ran"
                return Flowed(raw, tuple(filter(None, [wrong])))
            wrong = difference(flow, differing[0])
            observations += unseen
        return Flowed(raw, (wrong,))

    def _first(self) -> FlowObservation:
        """Run the config to begin with: the first that runs."""
        error: ModelError | None = None
        for changes in self.draws.starts():
            try:
                return self.observed(changes)
            except ModelError as refusal:
                error = error or refusal
        raise error or ModelError("no small config could be drawn")

    def observed(self, changes: Mapping[str, Any]) -> FlowObservation:
        """Run a config.

        Raises:
            ModelError: it does not run.
        """
        try:
            return self.observer.observe(changes, self.draws.checked(changes))
        except Exception as error:  # whatever the code raises
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ModelError(f"does not run: {reason[:200]}") from error

    def _turned(self) -> Iterator[FlowObservation]:
        """Yield runs with one flag turned; a flag without which nothing runs is held."""
        for path, changes in self.draws.turned():
            try:
                observation = self.observed(changes)
            except ModelError:
                if path in self.draws.flags:
                    self.held[path] = self.draws.flags[path][0]
                continue
            known = self.flags.setdefault(path, [self.draws.values(path)[0]])
            known.append(changes[path])
            yield observation

    def _random(self, count: int) -> list[FlowObservation]:
        """Return runs of random configs."""
        observations = []
        drawn = self.draws.random(self._dice, self.flags)
        for _ in range(count * _TRIES):
            try:
                observations.append(self.observed(next(drawn)))
            except (ModelError, StopIteration):
                continue
            if len(observations) == count:
                break
        return observations

    # The data

    def _raw(self, observations: Sequence[FlowObservation]) -> dict[str, Any]:
        flow, variants = self._programs(observations)
        functions, opaque = _functions(observations)
        raw: dict[str, Any] = {
            "format": FORMAT,
            "family": self.blueprint.family,
            "source": self.subject.source,
            "class": self.blueprint.base_class,
            "opaque": opaque,
            "proof": self._proof(0),
            "fields": {},
            "held": {name: _in_toml(value) for name, value in self.held.items()},
            "flow": flow,
            "variant": variants,
            "functions": functions,
            "bare": {},
            "unused": self._unused(observations),
        }
        raw["fields"] = self._fields(raw)
        raw["bare"] = self._bare(raw, observations)
        return raw

    def _bare(
        self, raw: Mapping[str, Any], observations: Sequence[FlowObservation]
    ) -> dict[str, str]:
        """Return the modules without tensors that are called, with their classes.

        An activation that a field names has that field, after ``=``, in place of its class.
        """
        called = {
            module_path(path, step.called)
            for path, lines in _lines_of(raw)
            for step in all_steps(read_steps(lines))
            if step.kind == MODULE
        }
        classes: dict[str, set[str]] = {}
        for observation in observations:
            for template, names in observation.bare.items():
                if template in called:
                    classes.setdefault(template, set()).update(names)
        bare = {}
        for template, names in classes.items():
            bare[template] = " | ".join(sorted(names))
            if field := self.draws.activation(names):
                bare[template] = f"= {field}"
        return bare

    def _proof(self, configs: int) -> dict[str, Any]:
        return {
            "by": f"{self.subject.command} --flow",
            "against": self.subject.reference,
            "configs": configs,
            "varied": sorted(self.flags),
            "holes": [],
        }

    def _programs(
        self, observations: Sequence[FlowObservation]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the programs of modules that have one, and the variants of the others."""
        flow: dict[str, Any] = {}
        variants: list[dict[str, Any]] = []
        first: dict[tuple[str, ...], str] = {}
        for template in _in_order(observations):
            seen = [
                (names_at(observation, here.names), here.lines)
                for observation in observations
                for here in observation.programs.get(template, ())
            ]
            try:
                choice = ProgramChoice(self._learner, template, seen)
            except ModelError as error:
                raise ModelError(error.what, where=f"{self.blueprint.family} {template}") from None
            if len(choice.variants) > 1:
                variants += [
                    {"of": template, "when": when, "steps": lines}
                    for when, lines in choice.variants
                ]
                continue
            lines = choice.variants[0][1]
            same = first.setdefault(tuple(lines), template)
            flow[template] = lines if same == template else same
        return flow, variants

    def _unused(self, observations: Sequence[FlowObservation]) -> dict[str, str]:
        templates = dict.fromkeys(
            template for observation in observations for template in observation.unused
        )
        unused = {}
        for template in templates:
            names: list[Names] = []
            wanted: list[bool] = []
            for observation in observations:
                for places, is_unused in ((observation.unused, True), (observation.ran, False)):
                    for here in places.get(template, ()):
                        names.append(names_at(observation, here))
                        wanted.append(is_unused)
            letters = {piece.partition("}")[0] for piece in template.split("{")[1:]}
            unused[template] = self._learner.condition(names, wanted, letters)
        return unused

    def _fields(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields in conditions that the blueprint does not know, with defaults."""
        conditions = [variant["when"] for variant in raw["variant"]]
        conditions += raw["unused"].values()
        for _, lines in _lines_of(raw):
            conditions += [line.partition(" if ")[2] for line in lines]
        used: set[str] = set()
        for condition in filter(None, conditions):
            used.update(names_in(parse(condition)))
        known = self.blueprint.defaults.keys() | self.blueprint.computed.keys()
        own = (used & self.draws.flags.keys()) - known
        return {name: _in_toml(self.draws.flags[name][0]) for name in sorted(own)}


def _lines_of(raw: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for path, lines in raw["flow"].items():
        yield path, raw["flow"][lines] if isinstance(lines, str) else lines
    for variant in raw["variant"]:
        yield variant["of"], variant["steps"]


def _in_order(observations: Iterable[FlowObservation]) -> list[str]:
    """Return the templates from the whole model inwards, and in the order in which they run."""
    templates = dict.fromkeys(
        template for observation in observations for template in observation.programs
    )
    return sorted(templates, key=lambda template: template.count(".") if template else -1)


def _functions(observations: Iterable[FlowObservation]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the functions that do the same whenever they are called, and the names of others."""
    programs: dict[str, set[tuple[str, ...]]] = {}
    for name, program in _programs_of_functions(observations):
        programs.setdefault(name, set()).add(tuple(line.text for line in program))
    functions, opaque = {}, []
    for name, texts in sorted(programs.items()):
        lines = next(iter(texts))
        does = [text for text in lines if " = " in text and not text.endswith(f" = {NEW}()")]
        if len(texts) == 1 and does and len(lines) <= _LONGEST_FUNCTION:
            functions[name] = list(lines)
        else:
            opaque.append(name)
    return functions, opaque


def _programs_of_functions(
    observations: Iterable[FlowObservation],
) -> Iterator[tuple[str, Lines]]:
    for observation in observations:
        for name, of_function in observation.functions.items():
            yield from ((name, lines) for lines in of_function)


def _in_toml(value: Any) -> Any:
    return NULL if value is None else value


# The proof


def difference(flow: FamilyFlow, observation: FlowObservation) -> str:
    """Return how a run differs from a flow; empty if it does not."""
    for template, places in observation.programs.items():
        for here in places:
            names = names_at(observation, here.names)
            if found := _difference_of_program(flow, template, names, here.lines):
                return f"{template} at {dict(here.names)}: {found}"
    return _difference_in_use(flow, observation)


def _difference_of_program(flow: FamilyFlow, template: str, names: Names, lines: Lines) -> str:
    items = flow.steps(template, names)
    if items is None:
        return "there are no steps"
    turns: dict[str, frozenset[int]] = {}
    for line in lines:
        if line.letter:
            turns[line.letter] = turns.get(line.letter, frozenset()) | line.turns
    expected = [*_at_turns(items, names, turns)]
    found = [(line.text.strip(), line.places) for line in lines]
    found = [(text, places) for text, places in found if not _is_head(text)]
    return _difference_in_turns(expected, found)


def _difference_in_turns(expected: Sequence[TurnsOfStep], found: Sequence[TurnsOfStep]) -> str:
    """Return how the steps of a turn differ; in what order steps of other turns stand is no matter.

    A run shows each step of a loop once, where its first turn is, and a flow does so in an order of
    its own. What is done is the same if every turn does the same steps in the same order.
    """
    turns: set[int | None] = {None}
    for _, places in (*expected, *found):
        turns |= places
    for turn in sorted(turns, key=_none_first):
        steps, done = _in_turn(expected, turn), _in_turn(found, turn)
        if steps != done:
            where = "" if turn is None else f" in turn {turn}"
            return f"{_first(steps, done)}{where}"
    return ""


def _none_first(turn: int | None) -> int:
    return -1 if turn is None else turn


def _in_turn(steps: Iterable[TurnsOfStep], turn: int | None) -> list[str]:
    """Return the steps of a turn of the loops, with those outside of loops; None is no turn."""
    return [text for text, places in steps if not places or turn in places]


def _difference_in_use(flow: FamilyFlow, observation: FlowObservation) -> str:
    """Return which module runs or does not run against what a flow says; empty if none does."""
    for places_by_template, is_unused in ((observation.ran, False), (observation.unused, True)):
        for template, places in places_by_template.items():
            for here in places:
                if flow.is_unused(template, names_at(observation, here)) != is_unused:
                    verb = "does not run" if is_unused else "runs"
                    return f"{template} {verb} at {dict(here)}"
    return ""


def _is_head(text: str) -> bool:
    return text.startswith(("for {", "loop:"))


def _first(expected: Sequence[object], found: Sequence[object]) -> str:
    for one, other in zip(expected, found, strict=False):
        if one != other:
            return f"{other} instead of {one}"
    return f"{len(found)} steps instead of {len(expected)}"


def _at_turns(
    items: Iterable[FlowItem],
    names: Names,
    turns: Mapping[str, frozenset[int]],
    letter: str = "",
) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield the steps that are expected, as a run shows them: in a loop with the turns of each."""
    for item in items:
        if isinstance(item, FlowLoop):
            yield from _at_turns(item.steps, names, turns, item.letter or letter)
            continue
        places = frozenset(
            turn for turn in turns.get(letter, ()) if runs(item, {**names, letter: turn})
        )
        if places or (not letter and runs(item, names)):
            yield item.text, places
