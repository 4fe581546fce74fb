"""Finds under which conditions a module has which program, in the blueprint's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weighbridge.algebra.expr import evaluate, names_in, source
from weighbridge.derive.flows.observing import CALL
from weighbridge.derive.generalize.choosing import condition_of
from weighbridge.derive.operations.draws import asked_by
from weighbridge.errors import ModelError, WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.flows.flow_draws import FlowDraws
    from weighbridge.derive.flows.observing import FlowObservation, Lines
    from weighbridge.derive.flows.program_text import Line

    Names = dict[str, Any]

# The cost of a question: the most natural condition is the cheapest.
_COST_OF_KNOWN = 1.0  # the blueprint asks it
_COST_OF_FLAG = 2.0
_COST_OF_TYPE = 2.0
_COST_OF_CALL = 2.5
_COST_OF_PRESENCE = 3.0
_COST_OF_EDGE = 4.0
_COST_OF_BOUND = 5.0
_COST_OF_MULTIPLE = 6.0
_MOST_OF_PERIOD = 5


class FlowLearner:
    """Learns conditions from observations."""

    def __init__(self, draws: FlowDraws, blueprint: Blueprint) -> None:
        self._draws, self._blueprint = draws, blueprint
        self._layer_types = draws.layer_types

    def condition(self, names: Sequence[Names], wanted: Sequence[bool], letters: set[str]) -> str:
        """Return a condition that holds exactly where wanted; empty if it always does.

        Raises:
            ModelError: there is none.
        """
        if all(wanted):
            return ""
        trees, costs, table = [], [], []
        for tree, cost in sorted(self._questions(letters), key=lambda question: question[1]):
            try:
                row = [bool(evaluate(tree, here)) for here in names]
            except WeighbridgeError:
                continue
            if any(row) and not all(row):
                trees.append(tree)
                costs.append(cost)
                table.append(row)
        shape = (len(table), len(names))
        flags = np.array(table, dtype=bool).reshape(shape)
        found = condition_of(trees, costs, flags, np.array(wanted, dtype=bool))
        if found is None:
            raise ModelError("no condition tells apart where it is so")
        return source(found)

    def _questions(self, letters: set[str]) -> Iterator[tuple[Tree, float]]:
        for tree in asked_by(self._blueprint):
            indices = set(names_in(tree)) & self._blueprint.repeat.keys()
            if indices <= letters:
                yield tree, _COST_OF_KNOWN
        yield from self._of_flags()
        if CALL in letters:
            for number in range(_MOST_OF_PERIOD):
                yield ("==", ("name", CALL), ("value", number)), _COST_OF_CALL
        for path in self._draws.structure:
            for number in range(2):
                yield (">", ("name", path), ("value", number)), _COST_OF_BOUND
        for field, types in self._layer_types.items():
            for kind in types:
                yield ("in", ("value", kind), ("name", field)), _COST_OF_PRESENCE
        yield from self._of_indices(letters & self._blueprint.repeat.keys())

    def _of_flags(self) -> Iterator[tuple[Tree, float]]:
        for path, values in self._draws.flags.items():
            name: Tree = ("name", path)
            for value in values:
                tree = name if isinstance(value, bool) else ("==", name, ("value", value))
                yield tree, _COST_OF_FLAG

    def _of_indices(self, letters: Iterable[str]) -> Iterator[tuple[Tree, float]]:
        for letter in sorted(letters):
            index: Tree = ("name", letter)
            for field, types in self._layer_types.items():
                for kind in types:
                    item = ("[]", ("name", field), index)
                    yield ("==", item, ("value", kind)), _COST_OF_TYPE
            last = ("-", self._blueprint.repeat[letter], ("value", 1))
            yield ("==", index, ("value", 0)), _COST_OF_EDGE
            yield ("==", index, last), _COST_OF_EDGE
            yield ("==", index, ("value", 1)), _COST_OF_EDGE + 1
            for path in self._draws.structure:
                yield ("<", index, ("name", path)), _COST_OF_BOUND
                yield ("==", ("%", index, ("name", path)), ("value", 0)), _COST_OF_MULTIPLE
            for period in range(2, _MOST_OF_PERIOD):
                rest = ("%", index, ("value", period))
                yield ("==", rest, ("value", 0)), _COST_OF_MULTIPLE


class ProgramChoice:
    """The programs of one template, with the conditions under which each is the program."""

    def __init__(
        self, learner: FlowLearner, template: str, seen: list[tuple[Names, Lines]]
    ) -> None:
        self.template = template
        groups: dict[tuple[str, ...], list[tuple[Names, Lines]]] = {}
        for names, lines in seen:
            slots = tuple(dict.fromkeys(line.slot for line in lines))
            groups.setdefault(slots, []).append((names, lines))
        environments = [names for names, _ in seen]
        letters = {*self._letters(environments)}
        self.variants: list[tuple[str, list[str]]] = []
        """The condition and the lines of each variant, the most frequent first."""
        for slots, members in sorted(groups.items(), key=lambda group: -len(group[1])):
            wanted = [
                tuple(dict.fromkeys(line.slot for line in lines)) == slots for _, lines in seen
            ]
            when = learner.condition(environments, wanted, letters)
            self.variants.append((when, [*_text(learner, members, letters)]))

    def _letters(self, environments: Iterable[Names]) -> Iterator[str]:
        for piece in self.template.split("{")[1:]:
            yield piece.partition("}")[0]
        if any(CALL in names for names in environments):
            yield CALL


def _text(
    learner: FlowLearner, members: Sequence[tuple[Names, Lines]], letters: set[str]
) -> Iterator[str]:
    """Yield the lines that programs with the same steps have in common, with their conditions."""
    by_slot: dict[str, dict[str, None]] = {}
    for _, lines in members:
        for line in lines:
            by_slot.setdefault(line.slot, {})[line.text] = None
    for slot, texts in by_slot.items():
        for text in texts:
            yield text + _condition_of_line(learner, members, slot, text, letters)


def _condition_of_line(
    learner: FlowLearner,
    members: Sequence[tuple[Names, Lines]],
    slot: str,
    text: str,
    letters: set[str],
) -> str:
    environments: list[Names] = []
    wanted: list[bool] = []
    letter = ""
    for names, lines in members:
        of_slot = [line for line in lines if line.slot == slot]
        letter = letter or of_slot[0].letter
        if not of_slot[0].letter:
            environments.append(names)
            wanted.append(any(line.text == text for line in of_slot))
            continue
        places = frozenset[int]().union(*[line.places for line in of_slot if line.text == text])
        for turn in sorted(of_slot[0].turns):
            environments.append({**names, letter: turn})
            wanted.append(turn in places)
    condition = learner.condition(environments, wanted, letters | ({letter} if letter else set()))
    return f" if {condition}" if condition else ""


def shown(lines: Iterable[Line]) -> str:
    """Return the text of lines, for messages."""
    return "\n".join(line.text for line in lines)


def names_at(observation: FlowObservation, here: Mapping[str, int]) -> Names:
    """Return the values that a condition at a place may name."""
    return {CALL: 0, **observation.fields, **here}
