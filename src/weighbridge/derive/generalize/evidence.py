"""The evidence of a few configs: observations, repeated lists, and the questions of the code."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from weighbridge.derive.generalize.conditions import Questions
from weighbridge.derive.generalize.lost_values import LostValues
from weighbridge.derive.generalize.places import Level, environment, templated, value_at
from weighbridge.derive.generalize.truths import Truths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.places import Environment, Flags, Observation, Place
    from weighbridge.derive.generalize.stages import Stages

MOST_ANSWERS = 2  # flags on which the modules that a loop adds in each round may depend
MOST_QUESTIONS = 8  # by which places are split for each


class Evidence:
    """Observations, with what is known so far about their lists."""

    def __init__(
        self, observations: Sequence[Observation], *, guess: bool, truths: Truths | None = None
    ) -> None:
        self.observations = observations
        self.repeats: dict[str, Tree | None] = {}
        """The number of modules in each list; None if no expression gives it."""
        self.stages: dict[str, Stages] = {}
        """The stages of each flat list."""
        roots: list[Place] = [(row, ()) for row in range(len(observations))]
        self.levels: dict[str, Level] = {"": Level("", roots, observations, {}, self.stages)}
        self.rounds_apart = any(seen.trace.rounds_apart for seen in observations)
        """Whether plain numbers may stand for the rounds of a loop."""
        self.lost_values = LostValues([seen.trace for seen in observations], guess=guess)
        self._questions = Questions(observations, truths or Truths(), in_parts=not guess)
        self._environments: dict[Place, Environment] = {}

    @cached_property
    def float_fields(self) -> frozenset[str]:
        """The fields that have floats as values."""
        floats: set[str] = set()
        for observation in self.observations:
            fields = observation.fields.items()
            floats |= {name for name, value in fields if isinstance(value, float)}
        return frozenset(floats)

    def template(self, path: str) -> tuple[str, tuple[int, ...]]:
        """Return a path with ``{0}``, ``{1}`` for its indices into repeated lists, and these."""
        return templated(path, self.repeats.__contains__)

    def add_stages(self, template: str, stages: Stages) -> None:
        """Note the stages of a flat list; expressions can name them from now on."""
        self.stages[template] = stages
        self._environments.clear()

    def environment(self, place: Place) -> Environment:
        """Return the values that an expression can name at a place."""
        known = self._environments.get(place)
        if known is None:
            known = environment(self.observations, place, self.stages)
            self._environments[place] = known
        return known

    def environments(self, places: Iterable[Place]) -> list[Mapping[str, Any]]:
        """Return the values that an expression can name at each of these places."""
        return [self.environment(place) for place in places]

    def written(self, tree: Tree) -> Tree:
        """Return a tree with expressions in place of the stages of flat lists."""
        for stages in self.stages.values():
            tree = stages.written(tree)
        return tree

    def splits(self, places: Iterable[Place]) -> Iterator[tuple[Tree, list[Place], list[Place]]]:
        """Yield the likeliest questions about fields that split places: those with yes, and no."""
        for question in self._questions.about_fields[:MOST_QUESTIONS]:
            parts: dict[bool, list[Place]] = {True: [], False: []}
            for place in places:
                parts[bool(value_at(question, self.environment(place)))].append(place)
            if parts[True] and parts[False]:
                yield question, parts[True], parts[False]

    def condition(self, level: Level, wanted: Flags, mask: Flags) -> Tree | None:
        """Return a condition that is true where wanted, and false elsewhere under the mask."""
        return self._questions.condition(level, wanted, mask, self.repeats)

    def condition_between(
        self, level: Level, wanted: Iterable[Place], others: Iterable[Place]
    ) -> Tree | None:
        """Return a condition that is true at the wanted places, and false at the others."""
        flags = level.flags(wanted)
        return self.condition(level, flags, flags | level.flags(others))
