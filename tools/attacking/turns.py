"""A turn of a family: the configs that are made of it at once, in a process of its own."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from attacking import mutations, reference, shrinking, starts, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attacking.trees import Config
    from attacking.verdicts import Scale, Verdict

MUTATED_PER_TURN = 6
TIED_PER_TURN = 2
MOST_SHRUNK_PER_TURN = 3
CHANGED, TIES, LABELS = "changed", "ties", "twelve labels"
UNBUILT, STOPPED = "no default config is built", "stopped"  # turns without a config to count


class Turn(NamedTuple):
    """Which family, and how often it had its turn before."""

    family: str
    number: int


class Case(NamedTuple):
    """A config with the verdict on each class. ``finding`` is the command of what is wrong.

    A case of the kind `UNBUILT` or `STOPPED` has no config; ``finding`` is the reason.
    """

    family: str
    kind: str
    mutations: list[str]
    config: Config
    verdicts: list[Verdict]
    finding: str = ""


def played(turn: Turn, seed: str, scale: Scale) -> Iterator[Case]:
    """Yield the cases of a turn; the same for the same turn and seed."""
    try:
        with reference.quiet():
            classes = scale.classes(turn.family)
            family = starts.family(turn.family, classes)
    except reference.RefusedByReferenceError as error:
        yield Case(turn.family, UNBUILT, [], {}, [], str(error))
        return
    shrunk = 0
    for kind, config, names in _configs(family, turn, seed):
        tried = classes
        if kind == LABELS:
            tried = tuple(verdicts.task_classes(classes))
        judged = [scale.judged(config, class_name) for class_name in tried]
        wrong = [verdict for verdict in judged if verdict.outcome == verdicts.WRONG]
        finding = ""
        if wrong and shrunk < MOST_SHRUNK_PER_TURN:
            shrunk += 1
            finding = _finding(config, wrong[0], scale)
        yield Case(turn.family, kind, names, config, judged, finding)


def _configs(
    family: starts.Family, turn: Turn, seed: str
) -> Iterator[tuple[str, Config, list[str]]]:
    def rng(part: object) -> random.Random:
        return random.Random(f"{seed} {turn.family} {turn.number} {part}")  # noqa: S311

    makers = [(CHANGED, mutations.mutated)] * MUTATED_PER_TURN
    if mutations.has_tie(family):
        makers += [(TIES, mutations.tied)] * TIED_PER_TURN
    if verdicts.task_classes(family.classes):
        makers += [(LABELS, mutations.labelled)]
    for part, (kind, make) in enumerate(makers):
        try:
            with reference.quiet():
                config, names = make(family, rng(part))
        except reference.RefusedByReferenceError:  # a mutation asks transformers for defaults
            continue
        yield kind, config, names


def _finding(config: Config, wrong: Verdict, scale: Scale) -> str:
    smallest = shrinking.shrunk(config, shrinking.differs(wrong.class_name, scale))
    again = scale.judged(smallest, wrong.class_name)
    counts = f"{_number(again.reference)} → {_number(again.ours)}"
    reason = f"  ({again.reason})" if again.reason else ""
    return f"{scale.command(smallest, wrong.class_name)}  # {counts}{reason}"


def _number(count: int | None) -> str:
    return "refused" if count is None else f"{count:,}"
