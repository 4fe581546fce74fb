"""Which classes have tensors of such names: the blueprints are searched as text, and only the likely ones are loaded.

Names are matched as `comparison` matches them: by their current names, without or with the base
class's prefix.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from weighbridge import data
from weighbridge.blueprint import schema as blueprints
from weighbridge.blueprint.paths import above
from weighbridge.blueprint.schema import MOST_LAYERS
from weighbridge.matching.pairing import match, names_of, renamed, shift

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from weighbridge.blueprint.schema import Blueprint, Template
    from weighbridge.readers import Found

    Place = tuple[int, ...]
    Held = list[tuple[Place, tuple[int, ...]]]

MOST_FAMILIES = 240
"""How many families are looked at closely."""
MOST_CLASSES = 24
"""How many of their classes are solved."""
MOST_PATTERNS = 1_500
"""How many names, numbers aside, families are chosen by: those that most tensors have."""


# The names in a checkpoint


class Names:
    """The tensors of a checkpoint by the pattern of their names: what is alike but for numbers is one."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.patterns: dict[str, list[tuple[Place, tuple[int, ...]]]] = {}
        self.first: dict[str, str] = {}
        """A name of each pattern."""
        for row in found.rows:
            pattern, numbers = patterned(row.name)
            self.patterns.setdefault(pattern, []).append((numbers, row.shape))
            self.first.setdefault(pattern, row.name)
        most = sorted(self.patterns, key=lambda pattern: -len(self.patterns[pattern]))
        self.others = sum(len(self.patterns.pop(pattern)) for pattern in most[MOST_PATTERNS:])
        """How many tensors have names of no pattern that is looked at: no model has so many."""
        self.most = min(len(found.rows), MOST_LAYERS)
        """What an index is below: layers that are there have a tensor each."""


_NUMBER = re.compile(r"\d+")
_PLACE = re.compile(r"\{(\w+)\}|(\d+)")
_MOST_DIGITS = 6


def patterned(name: str) -> tuple[str, Place]:
    """Return a name with a star in place of each number, and the numbers.

    Example:
        >>> patterned("encoder.layer.11.lstm.weight_ih_l0")
        ('encoder.layer.*.lstm.weight_ih_l*', (11, 0))
    """
    numbers = _NUMBER.findall(name)
    if any(len(number) > _MOST_DIGITS for number in numbers):
        return name, ()
    return (_NUMBER.sub("*", name), tuple(map(int, numbers))) if numbers else (name, ())


def _template_pattern(name: str) -> tuple[str, tuple[str, ...]]:
    """Return a template's name with stars, and what stands in their places: an index, or a number."""
    return _PLACE.sub("*", name), tuple(index or number for index, number in _PLACE.findall(name))


# Which families come into question


_KEY = re.compile(
    r'^"((?:[^"\n]*[}\d])?([^"\n{}\d]*))" = ["\']', re.MULTILINE
)  # a name, and what follows its last index
_STORED = re.compile(r'(?:\[|^    )"([\w.{}]+)(?:: [^"\n]+)?"(?=[,\]])', re.MULTILINE)
_BATCH = 48  # families; the next ones are looked at where none of these fits exactly
_NEEDLES = 12  # names that are searched for in all files
_SHARE = 0.8  # of the most tensors that a family's file has the names of
_ABOVE = 3  # pieces of a name that may be the base's prefix in a class


def _likely(names: Names) -> list[str]:
    """Return the families whose files have the most of the names, by their text alone: none of them is loaded."""
    ends = _Ends()
    for pattern in names.patterns:
        ends.add(patterned(renamed(names.first[pattern], {})[0])[0], pattern)
    scores = {family: _score(family, ends, names) for family in _at_a_glance(ends)}
    found = sorted(
        (-had, lacking, len(family), family) for family, (had, lacking) in scores.items() if had
    )
    return [family for had, _, _, family in found if had <= _SHARE * found[0][0]]


def _at_a_glance(ends: _Ends) -> list[str]:
    """Return the families in whose files most of a few telling names stand: searching is quicker than reading."""
    needles = sorted(ends.needles, key=len, reverse=True)[:_NEEDLES]
    hits = {
        family: sum(needle in text for needle in needles)
        for family in blueprints.families()
        for text in (data.read_text(f"blueprints/{family}.toml"),)
    }
    most = max(hits.values(), default=0)
    return [family for family, many in hits.items() if many and 2 * many >= most]


class _Ends:
    """The patterns of a checkpoint by what they may be called in a blueprint: their ends, and the paths above those."""

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self.paths: dict[str, set[str]] = {}
        self.tails: set[str] = set()
        self.needles: set[str] = set()

    def add(self, current: str, pattern: str) -> None:
        pieces = current.split(".")
        self.needles.add(_needle(current))
        for left_out in range(min(_ABOVE, len(pieces))):
            below = ".".join(pieces[left_out:])
            self.names.setdefault(below, set()).add(pattern)
            self.tails.add(below.rpartition("*")[2])
            for path in above(below):
                self.paths.setdefault(path, set()).add(pattern)


def _needle(current: str) -> str:
    """Return the most telling run of a pattern: two pieces behind a number, or one before, as a prefix may stand there.

    Example:
        >>> _needle("bert.encoder.layer.*.attention.self.query.weight")
        'self.query'
        >>> _needle("bert.pooler.dense.weight")
        'dense'
    """
    first, *others = current.rpartition(".")[0].split("*")
    runs = [first.strip(".").split(".")[-1:], *(run.strip(".").split(".")[-2:] for run in others)]
    return max((".".join(run) for run in runs), key=len) or current


def _score(family: str, ends: _Ends, names: Names) -> tuple[int, int]:
    """Return how many tensors have a name that stands in a family's file, and how many names there they lack."""
    text = data.read_text(f"blueprints/{family}.toml")
    keys = _KEY.findall(text)
    had = {_PLACE.sub("*", key) for key, tail in keys if tail in ends.tails} & ends.names.keys()
    stored = (
        {_PLACE.sub("*", path) for path in _STORED.findall(text)} if "stored]" in text else set()
    )
    covered = set().union(
        *(ends.names[key] for key in had),
        *(ends.paths[path] for path in stored & ends.paths.keys()),
    )
    return sum(len(names.patterns[pattern]) for pattern in covered), len(keys) - len(had)


# How well the names of a class fit


class Fit(NamedTuple):
    """The tensors of a checkpoint that a class has, by the template of each, and how many others there are.

    ``lacking`` counts the templates of the class without a condition that have none, ``spare``
    those with one.
    """

    blueprint: Blueprint
    class_name: str
    held: dict[Template, Held]
    templates: tuple[Template, ...]
    unknown: int
    lacking: int
    spare: int


class _Sketch(NamedTuple):
    """The same of patterns alone, the numbers in the names not looked at: what differs is at least this much."""

    blueprint: Blueprint
    class_name: str
    templates: tuple[Template, ...]
    named: dict[str, list[tuple[Template, tuple[str, ...]]]]
    current: dict[str, tuple[str, Place]]
    unknown: int
    lacking: int
    spare: int


def _sketches(blueprint: Blueprint, names: Names) -> Iterator[_Sketch]:
    for class_name in blueprint.class_names:
        forms = [False, True] if blueprint.is_stored_otherwise(class_name) else [False]
        yield min(
            (_sketch(blueprint, class_name, names, stored=stored) for stored in forms), key=_misfit
        )


def _misfit(of: Fit | _Sketch) -> tuple[int, int, int]:
    return of.unknown, of.lacking, of.spare


def _sketch(blueprint: Blueprint, class_name: str, names: Names, *, stored: bool) -> _Sketch:
    templates = blueprint.templates(class_name, stored=stored)
    named: dict[str, list[tuple[Template, tuple[str, ...]]]] = {}
    for template in (*templates, *blueprint.buffers(class_name, stored=stored)):
        pattern, places = _template_pattern(template.name)
        named.setdefault(pattern, []).append((template, places))
    paths, known = blueprint.renamed(class_name), _Patterns(named)
    first = {pattern: names.first[pattern] for pattern in names.patterns}
    by = shift(names_of(blueprint, class_name), known, first.values(), anywhere=False)
    current = {
        pattern: patterned(match(name, known, paths, by).name) for pattern, name in first.items()
    }
    there = {now for now, _ in current.values() if now in named}
    unknown = sum(
        len(rows) for pattern, rows in names.patterns.items() if current[pattern][0] not in named
    )
    held = {template for pattern in there for template, _ in named[pattern]}
    return _Sketch(
        blueprint,
        class_name,
        templates,
        named,
        current,
        names.others + unknown,
        *_left(templates, held),
    )


def _left(templates: Sequence[Template], held: Container[Template]) -> tuple[int, int]:
    """Return how many templates have no tensor: of those without a condition, and of those with one."""
    left = [template for template in templates if template not in held]
    lacking = sum(not template.when and not template.tie for template in left)
    return lacking, len(left) - lacking


def _fit(sketch: _Sketch, names: Names) -> Fit:
    held: dict[Template, Held] = {}
    unknown = sketch.unknown
    for pattern, rows in names.patterns.items():
        now, numbers_now = sketch.current[pattern]
        if now in sketch.named:
            added, dropped = _difference(numbers_now, patterned(names.first[pattern])[1])
            for numbers, shape in rows:
                for template, places in sketch.named[now]:
                    place = _place(template, places, (*added, *numbers[dropped:]), names.most)
                    if place is not None:
                        held.setdefault(template, []).append((place, shape))
                        break
                else:
                    unknown += 1
    left = _left(sketch.templates, held)
    return Fit(sketch.blueprint, sketch.class_name, held, sketch.templates, unknown, *left)


def _difference(now: Place, stored: Place) -> tuple[Place, int]:
    """Return the numbers that a prefix adds to a name, and how many one that is taken off takes away."""
    return now[: max(len(now) - len(stored), 0)], max(len(stored) - len(now), 0)


class _Patterns:
    """The names whose pattern is a class's."""

    def __init__(self, patterns: Mapping[str, Any]) -> None:
        self.patterns = patterns

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and patterned(name)[0] in self.patterns


def _place(template: Template, places: Sequence[str], numbers: Place, most: int) -> Place | None:
    """Return the values of a template's indices in a name with these numbers; None, if it is not the template's."""
    bound: dict[str, int] = {}
    for place, number in zip(places, numbers, strict=True):
        if place.isdigit():
            if int(place) != number:
                return None
        elif number >= most or bound.setdefault(place, number) != number:
            return None
    return tuple(bound[index] for index in template.repeat)


def closest(found: Found) -> Iterator[list[Fit]]:
    """Yield the classes worth solving, batch by batch: those with the fewest tensors that are not theirs or lacking."""
    names = Names(found)
    families = _likely(names)[:MOST_FAMILIES]
    for start in range(0, len(families), _BATCH):
        batch = families[start : start + _BATCH]
        sketches = [
            sketch for family in batch for sketch in _sketches(blueprints.load(family), names)
        ]
        yield _best([_fit(sketch, names) for sketch in _best(sketches)])


_Of = TypeVar("_Of", Fit, _Sketch)


def _best(found: Sequence[_Of]) -> list[_Of]:
    """Return those with the fewest tensors that are not theirs, those that lack least first."""
    ordered = sorted(found, key=_misfit)
    return [of for of in ordered if of.unknown == ordered[0].unknown][:MOST_CLASSES]
