"""Where conditions hold, guarded against nulls; a draft keeps what the one before it found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.rewrite import LEAVES, NULL, TRUE, field_names, joined, leaves
from weighbridge.derive.generalize.places import values_at
from weighbridge.derive.generalize.stages import is_stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.places import Flags, Level, Observation, Place


class _Truth(NamedTuple):
    """A condition with its guards in front, and where it holds; null if it cannot be answered."""

    condition: Tree
    guards: tuple[Tree, ...]
    flags: Flags | None


# A tree, and the types of its values: a tree with true equals the same tree with 1.
_Key = tuple["Tree", tuple[type, ...]]


class _KnownAt(NamedTuple):
    """What is known at the places of a level."""

    places: list[Place]
    truths: dict[_Key, _Truth]


class Truths:
    """Where conditions hold.

    Most drafts follow another one, and have a few more observations: a condition is then only
    evaluated at the places of these.
    """

    def __init__(self) -> None:
        self._observations: Sequence[Observation] = []
        self._roots: list[Place] = []
        self._known: dict[str, _KnownAt] = {}

    def begin(self, observations: Sequence[Observation]) -> None:
        """Take observations; forget all answers unless these follow the earlier observations."""
        earlier = [observation.fields for observation in self._observations]
        now = [observation.fields for observation in observations[: len(earlier)]]
        if len(now) < len(earlier) or any(map(_is_other, earlier, now)):
            self._known.clear()
        self._observations = observations
        self._roots = [(row, ()) for row in range(len(observations))]

    def of(self, level: Level, tree: Tree) -> tuple[Tree, Flags] | None:
        """Return a condition, guarded where it fails on nulls, and the places where it holds.

        None stands for a condition that has no answer somewhere, or the same answer everywhere.
        """
        names = [leaf for leaf in leaves(tree) if leaf[0] == "index" or is_stage(leaf)]
        environments = level.environments if names else [seen.fields for seen in self._observations]
        truth = self._truth_of(tree, names, level, environments)
        if truth.flags is None or truth.flags.all() or not truth.flags.any():
            return None
        if names:
            return truth.condition, truth.flags
        return truth.condition, truth.flags[level.observation_of]

    def _truth_of(
        self,
        tree: Tree,
        names: list[Tree],
        level: Level,
        environments: Sequence[Mapping[str, Any]],
    ) -> _Truth:
        """Return what is known of a tree, after asking at the places that are new."""
        if any(map(is_stage, names)):
            return _new_truth(tree, environments)
        key = tree, tuple(type(leaf[1]) for leaf in leaves(tree) if leaf[0] == "value")
        truths = self._truths_at(level if names else None)
        truth = _extended(truths[key], tree, environments) if key in truths else None
        truths[key] = truth or _new_truth(tree, environments)
        return truths[key]

    def _truths_at(self, level: Level | None) -> dict[_Key, _Truth]:
        """Return what is known at a level; None stands for the observations themselves."""
        path, places = ("", self._roots) if level is None else (level.path, level.places)
        known = self._known.get(path)
        if known is None or known.places is not places:
            follow = known is not None and places[: len(known.places)] == known.places
            known = _KnownAt(places, known.truths if known and follow else {})
            self._known[path] = known
        return known.truths


def _is_other(one: object, other: object) -> bool:
    return one is not other


def _new_truth(tree: Tree, environments: Sequence[Mapping[str, Any]]) -> _Truth:
    answers = values_at(tree, environments)
    if None not in answers:
        return _Truth(tree, (), _flags(answers))
    guards = _guards_against(tree, answers, environments)
    if tree[0] == "name" and guards:
        return _Truth(("==", tree, TRUE), (), _flags([answer is True for answer in answers]))
    condition = joined("and", [*guards, tree])
    answers = values_at(condition, environments)
    return _Truth(condition, tuple(guards), None if None in answers else _flags(answers))


def _extended(
    truth: _Truth, tree: Tree, environments: Sequence[Mapping[str, Any]]
) -> _Truth | None:
    """Return a truth at more places, or None if it needs other guards there.

    What had no answer at the earlier places has none: only guards that are false there help.
    """
    if truth.flags is None or len(truth.flags) == len(environments):
        return truth
    added = environments[len(truth.flags) :]
    answers = values_at(tree, added)
    if None in answers or truth.guards:
        needed = _guards_against(tree, answers, added)
        if tree[0] != "name" and not set(needed) <= set(truth.guards):
            return None
    if truth.condition != tree:
        answers = values_at(truth.condition, added)
    if None in answers:
        return None
    return truth._replace(flags=np.concatenate([truth.flags, _flags(answers)]))


def _flags(answers: Sequence[Any]) -> Flags:
    return np.array([bool(answer) for answer in answers], dtype=bool)


def _guards_against(
    tree: Tree, answers: Sequence[Any], environments: Sequence[Mapping[str, Any]]
) -> list[Tree]:
    """Return the guards of a condition that has no answer, None, in some environments."""
    failing = [seen for seen, answer in zip(environments, answers, strict=True) if answer is None]
    nulls: set[str] = set()
    for environment in failing:
        nulls |= {name for name in field_names(tree) if environment.get(name) is None}
    guards: list[Tree] = [("!=", ("name", name), NULL) for name in sorted(nulls)]
    return guards + [guard for guard in _guards(tree) if _is_false_somewhere(guard, environments)]


def _is_false_somewhere(tree: Tree, environments: Sequence[Mapping[str, Any]]) -> bool:
    return any(value is False for value in values_at(tree, environments))


def _guards(tree: Tree) -> Iterator[Tree]:
    """Yield the conditions for a tree to have a value: divisors are not 0, indices are in range."""
    kind, *operands = tree
    if kind in ("//", "%", "/"):
        yield ("!=", operands[1], ("value", 0))
    elif kind == "[]":
        yield ("<", operands[1], ("len", operands[0]))
    if kind not in LEAVES:
        for operand in operands:
            yield from _guards(operand)
