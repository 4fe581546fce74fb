"""What is known so far about one class of reference code, and how many configs it may still try.

An `Exploration` tries configs and keeps the probes that show something new. What it learns about
the config's fields is in its `FieldFindings`, to which the strategies in this folder add.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.derive.probing.earlier_probes import probe_once
from weighbridge.derive.probing.symbolic import fields_in_any, plain_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Knob, Subject

Changes = dict[str, Any]
# Configs of one class, counted rather than timed: a slow machine and a fast one derive the same
# blueprint. Most classes need fewer than half of these.
MOST_TRIED = 700
MOST_TRIED_AFTER_PIN = 80  # a pinned field leaves less to learn, so a few more configs are enough
# A draft that is complete and wrong is nearly right, and each correction is worth more configs.
MOST_TRIED_AFTER_NARROWING = 200
MOST_NARROWED = 60
# Names of fields that count layers. A small number is safe; null or 0 gives no model.
LAYER_COUNT = re.compile(r"(layers?|depth|blocks?|n_layer|layer_num|stages|repeats)$")


class Turn(NamedTuple):
    """How a field can be turned: its default, the values the code accepted, whether any will do."""

    value: Any
    values: list[Any]
    free: bool


@dataclass
class Budget:
    """How many configs of a class may be tried, have been tried, and were refused."""

    most_tried: int = MOST_TRIED
    tried: int = 0
    refused: int = 0
    narrowed: int = 0

    def extend(self, count: int) -> None:
        """Allow this many more configs, unless more are left."""
        self.most_tried = max(self.most_tried, self.tried + count)

    def extend_after_narrowing(self) -> None:
        """Allow more configs after a wrong one was narrowed, the first so many times."""
        self.narrowed += 1
        if self.narrowed <= MOST_NARROWED:
            self.extend(MOST_TRIED_AFTER_NARROWING)

    @property
    def share_left(self) -> float:
        """The share of the configs that may still be tried."""
        return 1 - self.tried / self.most_tried


@dataclass
class FieldFindings:
    """What is known about a config's fields, which are named by dotted path.

    Attributes:
        base: the changes that make the model small; other changes come on top of them.
        is_cheap: whether the full-size model is small enough to be built often.
        turns: the fields that can be turned alone.
        active: the fields that change a tensor.
        groups: changes of fields that belong together, such as lists of equal length.
        together: changes of a field that is refused alone, with the flag that it needs.
        alphabets: the texts that the items of a list may be.
        pinned: the fields that keep their defaults, with these.
        quiet: accepted values that changed nothing in the base, by field; null and 0 first.
        flipped: the questions that were tried to get another answer to.
    """

    base: Changes = field(default_factory=dict)
    is_cheap: bool = False
    turns: dict[str, Turn] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    groups: list[Changes] = field(default_factory=list)
    together: list[Changes] = field(default_factory=list)
    alphabets: dict[str, list[Any]] = field(default_factory=dict)
    pinned: Changes = field(default_factory=dict)
    quiet: dict[str, list[Any]] = field(default_factory=dict)
    flipped: set[Tree] = field(default_factory=set)

    def copied(self) -> FieldFindings:
        """Return a copy that can be changed.

        The values of a `Turn` stay shared: a value that one class accepts is drawn for all classes
        with this config.
        """
        return replace(
            self,
            base=dict(self.base),
            turns=dict(self.turns),
            active=set(self.active),
            groups=list(self.groups),
            together=list(self.together),
            alphabets=dict(self.alphabets),
            pinned=dict(self.pinned),
            quiet={path: list(values) for path, values in self.quiet.items()},
            flipped=set(self.flipped),
        )

    @property
    def turned(self) -> set[str]:
        """The fields for which the reference code accepted another value."""
        turned = {*self.turns, *self.alphabets}
        for changes in (*self.groups, *self.together):
            turned |= changes.keys()
        return turned

    def accepted(self, path: str) -> Iterator[Any]:
        """Yield the values that the reference code accepted for a field, beside its default."""
        if path in self.turns:
            yield from self.turns[path].values
        if path in self.alphabets:
            yield self.alphabets[path]
        for changes in (*self.groups, *self.together):
            if path in changes:
                yield changes[path]

    def add_value(self, path: str, value: Any, default: Any) -> None:
        """Note that a field can be turned to this value."""
        turn = self.turns.setdefault(path, Turn(default, [], free=False))
        turn.values.append(value)

    def forget(self, path: str) -> None:
        """Remove every way in which a field can be turned."""
        self.active.discard(path)
        self.turns.pop(path, None)
        self.quiet.pop(path, None)
        self.alphabets.pop(path, None)
        self.groups = [changes for changes in self.groups if path not in changes]
        self.together = [changes for changes in self.together if path not in changes]


@dataclass
class Exploration:
    """The exploration of one class: its probes, its findings, and its budget.

    Attributes:
        subject: the code to explore.
        class_name: the class to explore.
        random: the random generator.
        start: the changes without which the class cannot be built.
        findings: what is known about the fields.
        budget: how many configs may be tried.
        knobs: the fields that can be turned, by path.
        probes: the kept probes, that of the base first.
        error: why the last config was refused.
    """

    subject: Subject
    class_name: str
    random: random.Random
    start: Changes
    findings: FieldFindings
    budget: Budget = field(default_factory=Budget)
    knobs: dict[str, Knob] = field(default_factory=dict)
    probes: list[Probe] = field(default_factory=list)
    error: str = ""
    _outlines: set[str] = field(default_factory=set)
    _compared: tuple[int, list[tuple[str, str | int]]] | None = None

    def try_out(self, changes: Mapping[str, Any], *, labels: bool = True) -> Probe | None:
        """Return the probe of these changes, or None if the reference code refuses them."""
        self.budget.tried += 1
        pinned = self.findings.pinned
        if any(changes.get(path) not in (None, pinned[path]) for path in pinned):
            self.budget.refused += 1
            self.error = ""
            return None
        try:
            probe = probe_once(self.subject, self.class_name, changes, labels=labels)
            if all(probe.fields.get(path) == pinned[path] for path in pinned):
                return probe
            self.error = ""
        except Exception as error:  # whatever a model's own code raises is its way to refuse
            self.error = f"{type(error).__name__}: {error}"
        self.budget.refused += 1
        return None

    def try_change(self, path: str, value: Any) -> Probe | None:
        """Return the probe of the base with one field changed, or None if it is refused."""
        return self.try_out({**self.findings.base, path: value})

    def keep(self, probe: Probe) -> None:
        """Learn from a probe."""
        self.probes.append(probe)
        self._outlines.add(_tensors_and_routers(probe))

    def is_new(self, probe: Probe) -> bool:
        """Whether no kept probe has the same tensors and routers as this one."""
        return _tensors_and_routers(probe) not in self._outlines

    def asked(self) -> Iterator[Tree]:
        """Yield the questions that the code asked, probe by probe."""
        for probe in self.probes:
            yield from probe.trace.asked

    def compared_with(self) -> list[tuple[str, str | int]]:
        """Return the integer fields that the code compares, with the other field or constant."""
        if self._compared is None or self._compared[0] != len(self.probes):
            compared: dict[tuple[str, str | int], None] = {}
            for tree in {*self.asked()}:
                compared |= dict.fromkeys(_comparisons(tree))
            known = [
                (path, other)
                for path, other in compared
                if self._is_integer(path) and (type(other) is int or self._is_integer(other))
            ]
            self._compared = len(self.probes), sorted(known, key=str)
        return self._compared[1]

    def _is_integer(self, path: Any) -> bool:
        """Whether a field can be turned and has an integer, or null, in some probe."""
        values = [probe.fields.get(path) for probe in self.probes]
        return path in self.knobs and any(type(value) is int for value in values)

    def value_in_base(self, knob: Knob) -> Any:
        """Return the value that a field has in the base."""
        return self.findings.base.get(knob.path, knob.value)

    def add_value(self, path: str, value: Any) -> None:
        """Note that a field can be turned to this value."""
        self.findings.add_value(path, value, self.value_in_base(self.knobs[path]))

    @property
    def fixed(self) -> dict[str, Any]:
        """The fields that are pinned, or for which the reference code accepted no other value.

        Of a stranger's code these may have any value, such as null: an argument may want a dict,
        which is not drawn. Of transformers' configs such fields say how a model is loaded.
        """
        turned = self.findings.turned
        stated, given = self.subject.stated, self.subject.fields_of_given()
        return self.findings.pinned | {
            path: knob.value
            for path, knob in self.knobs.items()
            if path not in turned
            and stated.get(path) == knob.value == given.get(path, knob.value)
            and all(probe.fields.get(path, knob.value) == knob.value for probe in self.probes)
            and (self.subject.is_explored_for_equals or isinstance(knob.value, bool | int | str))
        }

    # Pinned fields

    @property
    def pinnable(self) -> list[str]:
        """The fields at their defaults that decide which tensors exist; bounds of loops first."""
        findings = self.findings
        base_fields = self.subject.fields(self.subject.config(findings.base))
        given_fields = self.subject.fields_of_given()
        bounds: set[str] = set()
        asked: set[str] = set()
        for probe in self.probes:
            bounds |= probe.trace.fields_in_bounds
            asked |= probe.trace.fields_asked
        deciding = findings.active & self.knobs.keys() & (bounds | asked)
        at_default = []
        for path in sorted(deciding):
            is_shrunk = path in findings.base and path not in self.start
            value = base_fields.get(path)
            default = plain_value(self.knobs[path].value)
            if not is_shrunk and default == value == plain_value(given_fields.get(path, value)):
                at_default.append(path)
        return sorted(
            at_default,
            key=lambda path: (path not in bounds, not isinstance(base_fields[path], list)),
        )

    @property
    def shrunk(self) -> list[str]:
        """The fields that the base makes smaller, except those that count layers by their names."""
        base = self.findings.base
        return [path for path in base if path not in self.start and not LAYER_COUNT.search(path)]

    def without(self, path: str) -> list[Probe]:
        """Return the probes that have a field at its default."""
        return self.without_all([path])

    def without_all(self, paths: Iterable[str]) -> list[Probe]:
        """Return the probes that have all these fields at their defaults."""
        usual = {path: self.probes[0].fields[path] for path in paths}
        return [
            probe
            for probe in self.probes
            if all(probe.fields.get(path, value) == value for path, value in usual.items())
        ]

    def pin(self, path: str) -> None:
        """Pin a field to its default, and refuse configs with another value.

        This is done when no expression was found for what the field decides.
        """
        self.pin_all([path])

    def pin_all(self, paths: Iterable[str]) -> None:
        """Pin several fields to their defaults."""
        pinned = list(paths)
        for path in pinned:
            self.findings.pinned[path] = self.probes[0].fields[path]
            self.findings.forget(path)
        self.probes = self.without_all(pinned)
        is_of_stranger = self.subject.is_explored_for_equals
        self.budget.extend(MOST_TRIED_AFTER_NARROWING if is_of_stranger else MOST_TRIED_AFTER_PIN)


def begin(
    subject: Subject, class_name: str, seed: int = 0, pinned: Iterable[str] = ()
) -> Exploration:
    """Return a new exploration, without findings.

    Args:
        subject: the code to explore.
        class_name: the class to explore.
        seed: the seed of its random generator.
        pinned: the fields that are pinned to their defaults from the start.
    """
    defaults = subject.fields(subject.config(subject.start)) if pinned else {}
    return Exploration(
        subject=subject,
        class_name=class_name,
        random=random.Random(f"{subject.family} {class_name} {seed}"),  # noqa: S311
        start=dict(subject.start),
        findings=FieldFindings(pinned={path: defaults[path] for path in pinned}),
    )


def _tensors_and_routers(probe: Probe) -> str:
    return repr((probe.outline, sorted(probe.chosen)))


def fields_used(probe: Probe) -> set[str]:
    """Return the fields that the code used: in a dim, in a question, or in a loop's bound."""
    dims = {dim for tensor in probe.tensors.values() for dim in tensor.dims}
    return {*probe.trace.fields_asked, *probe.trace.fields_in_bounds, *fields_in_any(dims)}


def _comparisons(tree: Tree) -> Iterator[tuple[str, str | int]]:
    """Yield the fields that a question asks to be equal to another field, or to a constant."""
    if tree[0] in ("==", "!="):
        one, other = tree[1], tree[2]
        if one[0] == other[0] == "name":
            yield one[1], other[1]
            yield other[1], one[1]
        elif one[0] == "name" and other[0] == "value" and type(other[1]) is int:
            yield one[1], other[1]
    for part in tree[1:]:
        if isinstance(part, tuple) and part:
            yield from _comparisons(part)
