"""The evidence of a few configs: observations, repeated lists, and the questions of the code."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from weighbridge.derive.generalize.conditions import Questions
from weighbridge.derive.generalize.lost_values import LostValues
from weighbridge.derive.generalize.places import Level, environment, templated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.places import Environment, Flags, Observation, Place


class Evidence:
    """Observations, with what is known so far about their lists."""

    def __init__(self, observations: Sequence[Observation], *, guess: bool) -> None:
        self.observations = observations
        self.repeats: dict[str, Tree | None] = {}
        """The number of modules in each list; None if no expression gives it."""
        self.levels: dict[str, Level] = {
            "": Level("", [(row, ()) for row in range(len(observations))], observations, {})
        }
        self.lost_values = LostValues([seen.trace for seen in observations], guess=guess)
        self._questions = Questions(observations)

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

    def environment(self, place: Place) -> Environment:
        """Return the values that an expression can name at a place."""
        return environment(self.observations, place)

    def environments(self, places: Iterable[Place]) -> list[Mapping[str, Any]]:
        """Return the values that an expression can name at each of these places."""
        return [environment(self.observations, place) for place in places]

    def condition(self, level: Level, wanted: Flags, mask: Flags) -> Tree | None:
        """Return a condition that is true where wanted, and false elsewhere under the mask."""
        return self._questions.condition(level, wanted, mask, self.repeats)

    def condition_between(
        self, level: Level, wanted: Iterable[Place], others: Iterable[Place]
    ) -> Tree | None:
        """Return a condition that is true at the wanted places, and false at the others."""
        flags = level.flags(wanted)
        return self.condition(level, flags, flags | level.flags(others))
