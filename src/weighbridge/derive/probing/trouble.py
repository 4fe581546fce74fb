"""Looks for trouble: configs near the known ones on which a field decides after all.

A field turned alone in the base shows nothing if another field keeps its branch closed. So
questions are flipped near the config that asked them, and the values that changed nothing in the
base are tried again near other configs, all at once.
"""

from __future__ import annotations

from itertools import filterfalse
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.rewrite import field_names
from weighbridge.derive.probing.questions import answer_to, flipping, names_a_round

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.state import Exploration

    Setting = tuple[str, Any]

LEFT_FOR_DRAFTS = 0.3  # share of the budget that flips and quiet values leave to random configs
MOST_FLIPS = 60  # flips of a class; each new probe may ask new questions
MOST_TRIES_OF_ONE = 3  # configs that ask a question and are changed until it is flipped
MOST_PLACES = 16  # configs near which the quiet values are tried
MOST_PLACES_AFTER = 4  # the same for a class explored after another
MOST_ROUSED = 6  # values that are found near one config
MOST_SEARCHED = 90  # configs that are spent on quiet values


# Every question answered both ways, where it is asked


def flip_answers(exploration: Exploration) -> None:
    """Change configs at the questions that they always answer alike, until no question is new."""
    budget, flipped = exploration.budget, exploration.findings.flipped
    most_tried = budget.tried + MOST_FLIPS
    looked_at = 0
    while looked_at < len(exploration.probes):
        looked_at = len(exploration.probes)
        for tree, probes in _answered_alike(exploration):
            if budget.tried >= most_tried or budget.share_left < LEFT_FOR_DRAFTS:
                return
            if tree not in flipped:
                flipped.add(tree)
                _flip(exploration, tree, probes)


def _answered_alike(exploration: Exploration) -> Iterator[tuple[Tree, list[Probe]]]:
    """Yield the questions with one answer so far, each with the probes in which it was asked.

    Of a stranger's code, an answer that takes a size of 0 is none: little is built there.
    """
    answers: dict[Tree, set[bool | None]] = {}
    asking: dict[Tree, list[Probe]] = {}
    for probe in exploration.probes:
        zeros = _sizes_of_zero(exploration, probe)
        for tree in filterfalse(names_a_round, probe.trace.asked):
            asking.setdefault(tree, []).append(probe)
            known = answers.setdefault(tree, set())
            if not zeros or zeros.isdisjoint(field_names(tree)):
                known.add(answer_to(tree, probe.fields))
    for tree, given in answers.items():
        if len(given - {None}) == 1:
            yield tree, asking[tree][:MOST_TRIES_OF_ONE]


def _sizes_of_zero(exploration: Exploration, probe: Probe) -> set[str]:
    """Return the fields of a stranger's config that are 0 and not so by default."""
    if not exploration.subject.is_explored_for_equals:
        return set()
    return {
        path
        for path, knob in exploration.knobs.items()
        if type(knob.value) is int and knob.value and probe.fields.get(path) == 0
    }


def _flip(exploration: Exploration, tree: Tree, probes: Sequence[Probe]) -> None:
    """Keep the configs that give the other answer to a question and are accepted."""
    settable = exploration.knobs.keys() - exploration.findings.pinned.keys()
    for probe in probes:
        taken = False
        for path, value in flipping(tree, probe.fields, settable):
            near = exploration.try_out({**probe.changes, path: value})
            if near is not None:
                taken = True
                _learn_from(exploration, near, [(path, value)], probe)
        if taken:
            return


def _learn_from(
    exploration: Exploration, probe: Probe, settings: Sequence[Setting], before: Probe
) -> None:
    """Keep a probe if its settings change tensors, or if it asks what no probe has asked.

    The tensors may be those of a third probe: another field has the same effect elsewhere.
    """
    if probe.outline != before.outline:
        for path, value in settings:
            exploration.add_value(path, value)
            exploration.findings.active.add(path)
        exploration.keep(probe)
    elif not probe.trace.asked.keys() <= set(exploration.asked()):
        exploration.keep(probe)


# Values that change nothing in the base, near other configs


def rouse_quiet(exploration: Exploration, most_places: int = MOST_PLACES) -> None:
    """Try the values that changed nothing in the base near the other probes, all at once."""
    budget = exploration.budget
    most_tried = budget.tried + MOST_SEARCHED
    settings = [(path, values[-1]) for path, values in exploration.findings.quiet.items() if values]
    nulls = [
        (path, values[0]) for path, values in exploration.findings.quiet.items() if len(values) > 1
    ]
    for probe in _places(exploration)[:most_places]:
        for batch in (settings, nulls, _restated(exploration)):
            if budget.tried >= most_tried or budget.share_left < LEFT_FOR_DRAFTS:
                return
            _Rousing(exploration, probe).rouse(batch)


def _restated(exploration: Exploration) -> list[Setting]:
    """Return the flags that the config class turns by default, as it turns them.

    Stated in a config, such a flag may stay on where the class would have turned it off.
    """
    stated = exploration.subject.stated
    return [
        (path, knob.value)
        for path, knob in exploration.knobs.items()
        if isinstance(knob.value, bool) and stated.get(path, knob.value) != knob.value
    ]


def _places(exploration: Exploration) -> list[Probe]:
    """Return probes of different kinds: the last ones, drawn at random, come first."""
    questions: set[frozenset[Tree]] = set()
    places: list[Probe] = []
    for probe in reversed(exploration.probes):
        asked = frozenset(probe.trace.asked)
        if asked not in questions:
            questions.add(asked)
            places.append(probe)
    return places


class _Rousing:
    """The search for the values that change the tensors of one probe."""

    def __init__(self, exploration: Exploration, place: Probe) -> None:
        self.exploration, self.place = exploration, place

    def rouse(self, settings: list[Setting]) -> None:
        """Find the settings that change something near the place; remove those refused there."""
        waiting = [setting for setting in settings if setting[0] not in self.place.changes]
        for _ in range(MOST_ROUSED):
            if self._is_silent(waiting):
                return
            count = self._shortest_loud(waiting, ())
            culprit = waiting[count - 1]
            if self._is_silent([culprit]):
                partners = waiting[: count - 1]
                needed = self._shortest_loud(partners, (culprit,))
                self._keep([culprit, partners[needed - 1]])
            elif not self._keep([culprit]):
                settings.remove(culprit)
            waiting.remove(culprit)

    def _keep(self, settings: Sequence[Setting]) -> bool:
        """Learn from settings that change something; whether they are accepted."""
        probe = self.exploration.try_out({**self.place.changes, **dict(settings)})
        if probe is None:
            return False
        _learn_from(self.exploration, probe, settings, self.place)
        return True

    def _is_silent(self, settings: Sequence[Setting]) -> bool:
        """Whether settings are accepted near the place and change nothing."""
        if not settings:
            return True
        changes = {**self.place.changes, **dict(settings)}
        probe = self.exploration.try_out(changes, labels=False)
        return probe is not None and probe.outline == self.place.outline

    def _shortest_loud(self, settings: Sequence[Setting], always: Sequence[Setting]) -> int:
        """Return the length of the shortest prefix that changes something or is refused."""
        silent, loud = 0, len(settings)
        while loud - silent > 1:
            middle = (silent + loud) // 2
            if self._is_silent([*settings[:middle], *always]):
                silent = middle
            else:
                loud = middle
        return loud
