"""Chooses the configs that teach: each field turned alone, every question answered both ways, pairs, mixtures."""

from __future__ import annotations

import itertools
import random
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.rewrite import (
    NULL,
    ZERO,
    compiled,
    joined,
    leaves,
    names,
    negated,
    simplified,
)
from weighbridge.derive.probing.symbolic import counted, plain

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Knob, Subject
    from weighbridge.derive.probing.unreached import Line

Changes = dict[str, Any]
FEW_LAYERS = (4, 3, 5)
TAKEN = "int | list[int] | None"  # how a name is annotated that is taken on the side, and is null by default
MOST_TRIED = 700  # configs of one class
_MORE = 80  # that are tried after a field is pinned
_BIG = 1200  # tensors of a model that is not worth building again and again


class Turn(NamedTuple):
    """How a field can be turned: its value by default, others that the code took, whether any integer will do."""

    value: Any
    values: list[Any]
    free: bool


class Explorer:
    """The configs of one class: tries them, keeps those that show something new, and draws more at random.

    It tries so many configs at most, so that it comes to the same end on a slow machine and on a
    fast one.
    """

    def __init__(
        self, subject: Subject, class_name: str, seed: int = 0, pinned: Iterable[str] = ()
    ) -> None:
        self.subject, self.class_name = subject, class_name
        self.random = random.Random(f"{subject.family} {class_name} {seed}")  # noqa: S311
        self.probes: list[Probe] = []
        self.turns: dict[str, Turn] = {}
        self.active: set[str] = set()
        self.groups: list[Changes] = []
        self.together: list[Changes] = []
        self.alphabets: dict[str, list[Any]] = {}
        self.tried = self.refused = 0
        self.is_cheap = False
        self.start: Changes = {}
        self.knobs: dict[str, Knob] = {}
        self.error = ""
        fields = subject.fields(subject.config(subject.start)) if pinned else {}
        self.pinned = {path: fields[path] for path in pinned}
        self.most_tried = MOST_TRIED
        self.base: Changes = {}
        self._seen: set[str] = set()

    @property
    def left(self) -> float:
        """The part that is left of the configs to try."""
        return 1 - self.tried / self.most_tried

    def try_out(self, changes: Mapping[str, Any], *, labels: bool = True) -> Probe | None:
        """Return the probe of these changes, or None where the reference code refuses them."""
        self.tried += 1
        try:
            probe = self.subject.probe(self.class_name, changes, labels=labels)
            if all(probe.fields.get(path) == self.pinned[path] for path in self.pinned):
                return probe
            self.error = ""
        except Exception as error:  # whatever a model's own code raises is its way to refuse
            self.error = f"{type(error).__name__}: {error}"
        self.refused += 1
        return None

    def keep(self, probe: Probe) -> None:
        """Learn from a probe."""
        self.probes.append(probe)
        self._seen.add(repr(probe.outline))

    def is_new(self, probe: Probe) -> bool:
        """Whether no kept probe has the same tensors."""
        return repr(probe.outline) not in self._seen

    # Fields that are held at their defaults

    @property
    def pinnable(self) -> list[str]:
        """The fields that decide what there is and could be held at their defaults: what loops run up to goes first."""
        fields, given = (
            self.subject.fields(self.subject.config(self.base)),
            self.subject.fields_of_given(),
        )
        bounds, asked = (
            {
                name
                for probe in self.probes
                for tree in getattr(probe.trace, kind)
                for name in names(tree)
            }
            for kind in ("bounds", "asked")
        )
        found = [
            path
            for path in sorted(self.active & self.knobs.keys() & (bounds | asked))
            if (path not in self.base or path in self.start)
            and plain(self.knobs[path].value)
            == fields.get(path)
            == plain(given.get(path, fields.get(path)))
        ]
        return sorted(
            found, key=lambda path: (path not in bounds, not isinstance(fields[path], list))
        )

    @property
    def shrunk(self) -> list[str]:
        """The fields that were made less for a small model, but whose names do not say that they count layers."""
        return [path for path in self.base if path not in self.start and not _DEPTH.search(path)]

    def without(self, path: str) -> list[Probe]:
        """Return the probes of configs that have a field at its default."""
        usual = self.probes[0].fields[path]
        return [probe for probe in self.probes if probe.fields[path] == usual]

    def pin(self, path: str) -> None:
        """Hold a field at its default: what it decides is not told, and configs that have it otherwise are refused."""
        self.pinned[path] = self.probes[0].fields[path]
        self.probes = self.without(path)
        self.most_tried = max(self.most_tried, self.tried + _MORE)
        self.active.discard(path)
        self.turns.pop(path, None)
        self.alphabets.pop(path, None)
        self.groups = [group for group in self.groups if path not in group]
        self.together = [group for group in self.together if path not in group]

    # The walk

    def explore(self, start: Mapping[str, Any], like: Explorer | None = None) -> None:
        """Look at every field, then at pairs; after another class of the same config, at what is new in this one."""
        self.start = dict(start)
        self.knobs = {knob.path: knob for knob in self.subject.knobs(self.start)}
        if like:
            self._follow(like)
        else:
            self._shrink()
        self.knobs = {knob.path: knob for knob in self.subject.knobs(self.base)}
        if not like:
            self._turn_together()
        for path in self._in_order() if not like else self._unseen(like):
            if self.left < 0.4:
                break
            self._turn(self.knobs[path])
        self._answer_both_ways()
        if not like:
            self._letters()
            self._lengths()
        self._pairs(self.active - like.active if like else self.active)
        for _ in range(8 if not like else 3):
            probe = self.sample()
            if probe:
                self.keep(probe)

    def _turn_together(self) -> None:
        """Turn the fields that are known to be taken together only."""
        for group in self.subject.together:
            probe = self.try_out({**self.base, **group})
            if probe is not None:
                self.groups.append(dict(group))
                self.active |= group.keys()
                if self.is_new(probe):
                    self.keep(probe)

    @property
    def turned(self) -> set[str]:
        """The fields of which the reference code took another value."""
        return {
            *self.turns,
            *[path for group in (*self.groups, *self.together) for path in group],
            *self.alphabets,
        }

    @property
    def fixed(self) -> dict[str, Any]:
        """The fields, with their values, that are pinned, or of which the reference code took no other value."""
        turned = self.turned
        stated, given = self.subject.stated, self.subject.fields_of_given()
        return self.pinned | {
            path: knob.value
            for path, knob in self.knobs.items()
            if path not in turned
            and stated.get(path) == knob.value == given.get(path, knob.value)
            and all(probe.fields.get(path, knob.value) == knob.value for probe in self.probes)
            and isinstance(knob.value, bool | int | str)
        }

    def _follow(self, like: Explorer) -> None:
        """Begin with what was learned of another class."""
        self.base, self.is_cheap = dict(like.base), like.is_cheap
        self.turns, self.active, self.groups = dict(like.turns), set(like.active), list(like.groups)
        self.together, self.alphabets = list(like.together), dict(like.alphabets)
        self.pinned = dict(like.pinned)
        self.keep(self.subject.probe(self.class_name, self.base))
        for known in like.probes[1:]:
            probe = self.try_out(known.changes)
            if probe is not None and self.is_new(probe):
                self.keep(probe)

    def _unseen(self, like: Explorer) -> list[str]:
        """Return the fields that this class uses and the other did not."""
        used = {name for probe in self.probes for name in _used(probe)}
        return [path for path in self.knobs if path in used and path not in like.active]

    def _shrink(self) -> None:
        self.base = dict(self.start)
        for place in self.subject.optional:
            if self.try_out({**self.base, place: {}}) is not None:
                self.base[place] = {}
        default = self.subject.probe(self.class_name, dict(self.base))
        self.is_cheap = len(default.tensors) < _BIG
        best = default
        for name in self._depths(default):
            value = default.fields.get(name)
            worked_out = isinstance(value, list) and self.subject.stated.get(name) is None
            if worked_out or name in {*self.base, *self.pinned}:
                continue  # a list that is worked out follows from what it is worked out of
            for fewer in _fewer(value):
                probe = self.try_out({**self.base, name: fewer})
                if probe is not None and len(probe.tensors) < len(best.tensors):
                    self.base[name], best = fewer, probe
                    break
        self.keep(best)
        if best is not default and self.is_cheap:
            self.keep(default)

    def _depths(self, probe: Probe) -> list[str]:
        """Return the fields that loops run up to, or that count modules."""
        knobs = {knob.path for knob in self.subject.knobs(self.start)}
        bounds = {name for tree in probe.trace.bounds for name in names(tree)}
        bounds |= {
            leaf[1]
            for tree in probe.trace.asked
            for leaf in leaves(tree)
            if leaf[0] == "name" and _DEPTH.search(leaf[1])
        }
        bounds |= {path for path in knobs if _DEPTH.search(path)}
        return sorted(bounds & knobs)

    def _in_order(self) -> list[str]:
        """Return fields: those that the code was seen to use, then the others."""
        used = {name for probe in self.probes for name in _used(probe)}
        return sorted(self.knobs, key=lambda path: path not in used)

    def _turn(self, knob: Knob) -> None:
        value = self.base.get(knob.path, knob.value)
        default = self.probes[0]
        taken = [
            candidate
            for candidate in self._specials(knob, value)
            if self._shows(knob.path, candidate)
        ]
        free = False
        moved = 0
        for at, candidate in enumerate(self._candidates(knob, value)):
            if moved >= 3 or len(taken) >= 6 or (at >= 2 and taken and not moved):
                break
            probe = self.try_out({**self.base, knob.path: candidate})
            if probe is None:
                continue
            taken.append(candidate)
            free |= at == 0 and type(value) is int and value >= 16
            if probe.outline != default.outline:
                self.active.add(knob.path)
                moved += 1
                if moved == 1 or (self.is_new(probe) and type(candidate) is not int):
                    self.keep(probe)
            elif _reveals(probe, self.probes):
                self.keep(probe)
        if taken:
            self.turns[knob.path] = Turn(value, taken, free)
        elif isinstance(value, bool | str) or value is None:
            self._turn_with_another(knob, value)

    def _specials(self, knob: Knob, value: Any) -> Iterator[Any]:
        """Yield the values that often mean "none of it"."""
        if "None" in knob.annotation and value is not None and not _DEPTH.search(knob.path):
            yield None
        if type(value) is int and value != 0 and not _DEPTH.search(knob.path):
            yield 0

    def _shows(self, path: str, value: Any) -> bool:
        """Whether a value is taken and gives other tensors, which are then kept; not merely others of size 0."""
        probe = self.try_out({**self.base, path: value})
        if probe is None or probe.outline == self.probes[0].outline:
            return False
        if any(0 in tensor.shape for tensor in (*probe.tensors.values(), *probe.buffers.values())):
            return False
        self.active.add(path)
        self.keep(probe)
        return True

    def _turn_with_another(self, knob: Knob, value: Any) -> None:
        """Turn a field that is refused alone together with a flag that the refusal may be about."""
        error = self.error
        flags = [
            other
            for other in self.knobs.values()
            if isinstance(other.value, bool) and other.path != knob.path
        ]
        flags.sort(key=lambda other: other.path.rpartition(".")[2] not in error)
        for candidate in itertools.islice(self._candidates(knob, value), 2):
            for other in flags[:8]:
                both = {knob.path: candidate, other.path: not other.value}
                probe = self.try_out({**self.base, **both})
                if probe is not None:
                    self.together.append(both)
                    self.keep(probe)
                    alone = self.try_out({**self.base, other.path: not other.value})
                    if alone is not None:
                        self.keep(alone)
                    return

    def _candidates(self, knob: Knob, value: Any) -> Iterator[Any]:
        """Yield values to try in place of one."""
        seen = [value]
        for candidate in self._proposed(knob, value):
            if not any(type(candidate) is type(other) and candidate == other for other in seen):
                seen.append(candidate)
                yield candidate

    def _proposed(self, knob: Knob, value: Any) -> Iterator[Any]:
        annotation = knob.annotation
        if isinstance(value, bool):
            yield not value
        elif isinstance(value, int):
            yield from _integers(value)
        elif isinstance(value, float):
            yield from (value * 2, value / 2, value + 1)
        elif isinstance(value, str):
            yield from self._texts(knob)
            yield from (value.removeprefix("gated-"), f"gated-{value}", "relu")
        elif value is None:
            yield from self._instead_of_null(annotation, knob)
        elif isinstance(value, list | tuple) and not isinstance(value, dict):
            yield from _lists(type(value), list(value))

    def _instead_of_null(self, annotation: str, knob: Knob) -> Iterator[Any]:
        if "bool" in annotation:
            yield from (True, False)
        if annotation == TAKEN:
            yield from (
                2,
                1,
            )  # a name taken on the side may well count layers, of which there are few here
        if "int" in annotation and "list" not in annotation.partition("int")[0]:
            yield from (16, 8, 4, 2, 1, 24, 64)
        if "str" in annotation:
            yield from self._texts(knob)
        if "float" in annotation:
            yield from (2.0, 0.5)
        if "list[int]" in annotation or "list" in annotation:
            yield from ([0], [1, 2], [8, 8])

    def _texts(self, knob: Knob) -> list[str]:
        """Return the texts that the code compares a field with."""
        name = knob.path.rpartition(".")[2]
        found = {
            tree[2][1]
            for probe in self.probes
            for tree in probe.trace.asked
            if tree[0] == "==" and tree[1] == ("name", knob.path) and tree[2][0] == "value"
        }
        if "Literal" in knob.annotation:
            found |= set(re.findall(r"['\"]([\w\-]+)['\"]", knob.annotation))
        for match in re.finditer(
            rf"\b{re.escape(name)}\b[^\n]{{0,20}}?(?:==|!=| in )\s*([^\n]{{0,120}})", self._code()
        ):
            found |= set(re.findall(r"['\"]([\w\-]+)['\"]", match[1]))
        return sorted(found)[:8]

    def _code(self) -> str:
        if not hasattr(self, "_source"):
            self._source = self.subject.code
        return self._source

    def _answer_both_ways(self) -> None:
        """Try to turn round every answer that was always the same: `x == "a"`, `x > 2`, `x in …`."""
        for tree in list(
            dict.fromkeys(tree for probe in self.probes for tree in probe.trace.asked)
        ):
            if self.left < 0.35:
                return
            fields = sorted(names(tree))
            if len(fields) == 2 and tree[0] in ("==", "!="):
                self._make_equal(*fields)
            if len(fields) != 1 or fields[0] not in self.knobs or fields[0] in self.active:
                continue
            for value in _values_about(tree):
                knob = self.knobs[fields[0]]
                if value == knob.value or type(knob.value) not in (type(value), type(None)):
                    continue
                probe = self.try_out({**self.base, knob.path: value})
                if probe is not None and self.is_new(probe):
                    self._add(knob.path, value)
                    self.active.add(knob.path)
                    self.keep(probe)

    def _make_equal(self, one: str, other: str) -> None:
        """Try two fields that the code compares at the same value."""
        usual = self.probes[0].fields
        for name, value in ((one, usual.get(other)), (other, usual.get(one))):
            if name not in self.knobs or type(value) is not int or usual.get(name) == value:
                continue
            probe = self.try_out({**self.base, name: value})
            if probe is not None and repr(probe.changes) not in {
                repr(known.changes) for known in self.probes
            }:
                self._add(name, value)
                self.keep(probe)

    def _add(self, path: str, value: Any) -> None:
        turn = self.turns.get(path) or Turn(
            self.base.get(path, self.knobs[path].value), [], free=False
        )
        turn.values.append(value)
        self.turns[path] = turn

    def _letters(self) -> None:
        """Find what the items of lists of texts may be."""
        fields = self.subject.fields(self.subject.config(self.base))
        for path, value in fields.items():
            texts = (
                isinstance(value, list)
                and 1 <= len(value) <= 64
                and all(isinstance(item, str) for item in value)
            )
            if path not in self.knobs or not texts:
                continue
            letters = set(value)
            for letter in self._compared_items(path, letters):
                for at in dict.fromkeys((0, len(value) - 1)):
                    changed = [*value[:at], letter, *value[at + 1 :]]
                    probe = self.try_out({**self.base, path: changed})
                    if probe is not None:
                        letters.add(letter)
                        if self.is_new(probe):
                            self.keep(probe)
                            self.active.add(path)
                        break
            self.alphabets[path] = sorted(letters)

    def _compared_items(self, path: str, letters: Container[str]) -> list[str]:
        asked = {
            tree[2][1]
            for probe in self.probes
            for tree in probe.trace.asked
            if tree[0] in ("==", "!=")
            and tree[2][0] == "value"
            and isinstance(tree[2][1], str)
            and path in names(tree[1])
        }
        known = {
            "full_attention",
            "sliding_attention",
            "linear_attention",
            "chunked_attention",
            "attention",
            "mamba",
            "conv",
            "moe",
            "mlp",
            "dense",
            "sparse",
            "recurrent",
            "hybrid",
        }
        allowed = {
            *getattr(
                sys.modules.get("transformers.configuration_utils"), "ALLOWED_LAYER_TYPES", ()
            ),
            *known,
        }
        found = asked | {text for text in allowed if re.search(rf"['\"]{text}['\"]", self._code())}
        return sorted(
            found | {old for old, new in self.subject.older_words.items() if new in letters}
        )

    def _lengths(self) -> None:
        """Lengthen and shorten lists that belong together: one item a stage."""
        groups: dict[tuple[str, int], list[tuple[str, Any]]] = {}
        for path, knob in self.knobs.items():
            value = self.base.get(path, knob.value)
            if isinstance(value, list | tuple) and 2 <= len(value) <= 8:
                groups.setdefault((path.rpartition(".")[0], len(value)), []).append((path, value))
        for (above, length), members in groups.items():
            counts = [
                path
                for path, knob in self.knobs.items()
                if type(knob.value) is int
                and knob.value == length
                and path.rpartition(".")[0] == above
                and re.search("num_|stage|level|n_", path)
            ]
            for step, counting in itertools.product((-1, 1), (counts, []) if counts else ([],)):
                changes: Changes = {
                    path: value[:-1] if step < 0 else type(value)([*value, value[-1]])
                    for path, value in members
                }
                changes |= dict.fromkeys(counting, length + step)
                probe = self.try_out({**self.base, **changes})
                if probe is not None:
                    self.groups.append(changes)
                    if self.is_new(probe):
                        self.keep(probe)
                    break

    def _pairs(self, shown: set[str]) -> None:
        """Turn every two choices together, one of which is among those that were shown to matter."""
        choices = [
            (path, value)
            for path, turn in self.turns.items()
            for value in turn.values
            if isinstance(value, bool | str) or value is None or turn.value is None
        ]
        tries = 0
        for (one, first), (other, second) in itertools.combinations(choices, 2):
            if one == other or not {one, other} & shown or tries > 120 or self.left < 0.35:
                continue
            tries += 1
            probe = self.try_out({**self.base, one: first, other: second})
            if probe is not None and self.is_new(probe):
                self.keep(probe)
                self.active |= {one, other}

    def aim(self, lines: Iterable[Line]) -> list[Changes]:
        """Try to make the conditions that lines stand under all hold; return what was taken."""
        taken = []
        for tests, near in {line.tests: line.near for line in lines}.items():
            for changes in itertools.islice(self._aimed(" and ".join(tests)), 24):
                probe = self.try_out({**self.base, **near, **changes})
                if probe is None and "NoneType" in self.error:
                    changes = {**self._filled(changes), **changes}  # noqa: PLW2901
                    probe = self.try_out({**self.base, **near, **changes})
                if probe is None:
                    continue
                taken.append(dict(probe.changes))
                if self.is_new(probe):
                    for path, value in changes.items():
                        self._add(path, value)
                        self.active.add(path)
                    self.keep(probe)
        return taken

    def _filled(self, changes: Changes) -> Changes:
        """Return numbers for the fields beside these that have none by default."""
        places = {path.rpartition(".")[0] for path in changes}
        return {
            path: 8
            for path, knob in self.knobs.items()
            if knob.value is None
            and knob.annotation.startswith("int")
            and path.rpartition(".")[0] in places
        }

    def _aimed(self, test: str) -> Iterator[Changes]:
        """Yield values of the fields that a condition names, one field alone first, then all together."""
        words = set(re.findall(r"\w+", test))
        texts = re.findall(r"['\"]([^'\"]+)['\"]", test)
        numbers = [int(number) for number in re.findall(r"\b\d+\b", test)]
        options = {
            path: list(_aimed(self.base.get(path, knob.value), texts, numbers))
            for path, knob in self.knobs.items()
            if path.rpartition(".")[2] in words
        }
        options = {path: values for path, values in options.items() if values}
        for path, values in options.items():
            yield from ({path: value} for value in values)
        if len(options) > 1:
            yield from (
                dict(zip(options, values, strict=True))
                for values in itertools.product(*options.values())
            )

    # What the code asks for

    def requirements(self, fields: Container[str]) -> list[Tree]:
        """Return what every config must satisfy: questions always answered alike, and refused when they are not."""
        return [*self._refused_questions(), *self._refused_alone(fields)]

    def _refused_questions(self) -> Iterator[Tree]:
        seen: set[Tree] = set()
        asked = dict.fromkeys(
            simplified(tree) for probe in self.probes for tree in probe.trace.asked
        )
        for tree in list(dict.fromkeys([*asked, *self._asked_below_zero(asked)])):
            if (
                len(names(tree)) != 2
                or not names(tree) <= self.knobs.keys()
                or any(leaf[0] == "loop" for leaf in leaves(tree))
            ):
                continue
            answers = [_answer(tree, probe.fields) for probe in self.probes]
            known = {answer for answer in answers if answer is not None}
            if len(known) != 1:
                continue
            rule = simplified(tree if known == {True} else negated(tree))
            if rule not in seen and self._is_enforced(rule):
                seen.add(rule)
                nulls = sorted(
                    name
                    for name in names(rule)
                    if any(probe.fields.get(name) is None for probe in self.probes)
                )
                yield joined("or", [*[("==", ("name", name), NULL) for name in nulls], rule])

    def _asked_below_zero(self, asked: Iterable[Tree]) -> Iterator[Tree]:
        """Yield what is asked where a field that the code compares with 0 is less."""
        compared = {
            tree[1][1]
            for tree in asked
            if tree[0] in ("<", ">") and tree[1][0] == "name" and tree[2] == ZERO
        }
        for name in sorted(compared & self.knobs.keys()):
            if type(self.knobs[name].value) is int:
                probe = self.try_out({**self.base, name: -1})
                yield from (simplified(tree) for tree in probe.trace.asked) if probe else ()

    def _is_enforced(self, rule: Tree) -> bool:
        """Whether configs that break a rule are refused."""
        broken = 0
        fields = self.subject.fields(self.subject.config(self.base))
        for name in sorted(names(rule) & self.knobs.keys()):
            value = fields.get(name)
            if type(value) is not int:
                continue
            for other in _breaking(rule, name, fields):
                if other < 0 and self.try_out({**self.base, name: -1}, labels=False) is None:
                    continue  # no negative number is taken, whatever the rule
                broken += 1
                if self.try_out({**self.base, name: other}, labels=False) is not None:
                    return False
        return broken > 0

    def _refused_alone(self, fields: Container[str]) -> Iterator[Tree]:
        """Yield the rules of flags that are taken together with another only."""
        for both in self.together:
            (one, value), (other, needed) = both.items()
            if isinstance(value, bool) and isinstance(needed, bool) and one in fields:
                yield (
                    "or",
                    *[
                        ("name", path) if want else ("not", ("name", path))
                        for path, want in ((other, needed), (one, not value))
                    ],
                )

    # Chance

    def sample(self) -> Probe | None:
        """Return the probe of a random config that the reference code takes."""
        for chance in (0.5, 0.5, 0.3, 0.3, 0.2, 0.2, 0.12, 0.12, 0.06, 0.06):
            probe = self.try_out(self.draw(chance))
            if probe is not None:
                return probe
        return None

    def unseen(self, count: int) -> list[Changes]:
        """Return random configs that were not tried before, some of which the reference code may refuse."""
        known = {repr(sorted(probe.changes.items(), key=str)) for probe in self.probes}
        drawn = [self.draw(chance) for _ in range(2 * count) for chance in (0.5, 0.3, 0.12)]
        return [changes for changes in drawn if repr(sorted(changes.items(), key=str)) not in known]

    def draw(self, chance: float) -> Changes:
        """Return random changes, a field that matters with this chance."""
        full_size = self.is_cheap and self.random.random() < 0.1
        changes = dict(self.start if full_size else self.base)
        if self.together and self.random.random() < 0.3:
            changes.update(self.random.choice(self.together))
        group: Changes = {}
        if self.groups and self.random.random() < 0.3:
            group = self.random.choice(self.groups)
            changes.update(group)
        of_choices = self.random.choice((0.15, 0.3, 0.5))
        for path, turn in self.turns.items():
            if path in group or (full_size and path in self.base and path not in self.start):
                continue
            odds = chance if path in self.active else 0.08
            if path in self.active and (isinstance(turn.value, bool | str) or turn.value is None):
                odds = min(1.0, of_choices * chance / 0.4)
            if self.random.random() < odds:
                changes[path] = self._value(turn)
        drawn = self._with_letters(changes)
        return {
            path: value
            for path, value in drawn.items()
            if path not in self.pinned or path in self.start
        }

    def _value(self, turn: Turn) -> Any:
        if turn.free and self.random.random() < 0.8:
            return self.random.randint(max(4, turn.value // 2), turn.value * 2)
        value = self.random.choice(turn.values)
        if (
            isinstance(value, list)
            and all(type(item) is int for item in value)
            and self.random.random() < 0.3
        ):
            value = self.random.sample(value, len(value))
        return value

    def _with_letters(self, changes: Changes) -> Changes:
        """Shuffle the items of lists of texts and flags, as long as the other changes make them."""
        if self.random.random() > 0.4 or not self.alphabets:
            return changes
        try:
            fields = self.subject.fields(self.subject.config(changes))
        except Exception:  # a config that is refused is drawn again
            return changes
        for path, letters in self.alphabets.items():
            value = fields.get(path)
            if path not in changes and isinstance(value, list) and len(letters) > 1:
                changes = {**changes, path: [self.random.choice(letters) for _ in value]}
        return changes


_DEPTH = re.compile(r"(layers?|depth|blocks?|n_layer|layer_num|stages|repeats)$")


def _aimed(value: Any, texts: list[str], numbers: list[int]) -> Iterator[Any]:
    """Yield values of a field that may answer a question with these constants otherwise."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, list | tuple):
        yield from ([*value, text] for text in texts)
        yield texts or numbers
    elif isinstance(value, str):
        yield from (text for text in texts if text != value)
    else:
        for number in numbers:
            yield from (number, number + 1, number - 1)
        if type(value) is int and value > 1:
            yield from (value * 2, value // 2)
        if value is None:
            yield from texts
            yield from ([text] for text in texts)
            if len(texts) > 1:
                yield texts
            yield from (True, 1) if not texts and not numbers else ()


def _fewer(value: Any) -> Iterator[Any]:
    if type(value) is int and value > 4:
        yield from FEW_LAYERS
    elif (
        isinstance(value, list)
        and value
        and all(type(item) is int for item in value)
        and max(value) > 3
    ):
        yield [min(item, 2 + at % 2) for at, item in enumerate(value)]


def _integers(value: int) -> Iterator[int]:
    if value >= 16:
        yield from (value + 13, value * 2, value * 3, value // 2, value + 8, value + 16, value + 64)
    else:
        yield from (value + 1, value * 2, value + 3, 1, 2, 3, 4, value + 7)


def _lists(kind: type, items: list[Any]) -> Iterator[Any]:
    if not items:
        yield from ([0], [1], [0, 2])
    elif all(type(item) is int for item in items):
        yield from (
            kind(item * 2 for item in items),
            kind(item + 1 for item in items),
            kind([items[0], *[item + 8 for item in items[1:]]]),
            kind(items[:-1]),
            kind([*items, items[-1]]),
            kind(item + 13 for item in items),
        )
    elif all(type(item) is bool for item in items):
        yield from (kind(not item for item in items), kind([not items[0], *items[1:]]))


def _values_about(tree: Any) -> Iterable[Any]:
    """Return values around the constants of a question."""
    constants = [leaf[1] for leaf in leaves(tree) if leaf[0] == "value"]
    for constant in constants:
        if isinstance(constant, bool | str):
            yield constant
        elif isinstance(constant, int):
            yield from (constant, constant + 1, constant - 1)
    if tree[0] == "name":
        yield from (True, False)


def _answer(tree: Tree, fields: Mapping[str, Any]) -> bool | None:
    try:
        return bool(compiled(tree)(fields))
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
        return None


def _breaking(rule: Tree, name: str, fields: Mapping[str, Any]) -> list[int]:
    """Return a few values of a field, others as they are, that break a rule."""
    value = fields[name]
    sizes = [other for path in names(rule) for other in (fields.get(path),) if type(other) is int]
    tries = [value + 1, *[other + step for other in sizes for step in (0, 1)], 16 * value]
    tries += [*[16 * other + 1 for other in sizes], *[-other - 1 for other in sizes]]
    return [
        other for other in dict.fromkeys(tries) if _answer(rule, {**fields, name: other}) is False
    ][:3]


def _used(probe: Probe) -> set[str]:
    trees = [tree for tensor in probe.tensors.values() for tree in tensor.dims]
    return {
        name for tree in {*trees, *probe.trace.asked, *probe.trace.bounds} for name in names(tree)
    }


def _reveals(probe: Probe, known: list[Probe]) -> bool:
    """Whether a probe asks what no other did."""
    return not {counted(tree) for tree in probe.trace.asked} <= {
        tree for other in known for tree in other.trace.asked
    }
