"""Finds the classes whose tensor names are closest to those of a checkpoint.

Blueprints are first searched as text, and only the likely ones are loaded. Names are compared as in
`pairing`: by their current names, without or with the base class's prefix.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from weighbridge import data
from weighbridge.blueprint import schema as blueprints
from weighbridge.blueprint.paths import above
from weighbridge.blueprint.schema import MOST_LAYERS
from weighbridge.matching.pairing import match, names_of, renamed, shift
from weighbridge.models.catalogue import releases_by_family

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from weighbridge.blueprint.schema import Blueprint, Template
    from weighbridge.readers import StoredCheckpoint

    Place = tuple[int, ...]
    Held = list[tuple[Place, tuple[int, ...]]]

MOST_FAMILIES = 240
"""How many families are loaded at most."""
MOST_CLASSES = 24
"""How many classes of a batch of families are solved at most."""
MOST_USED_CLASSES = 4
"""How many more classes, of the most used families, are solved at most."""
MOST_PATTERNS = 1_500
"""How many patterns of names are compared at most, the most frequent ones; no model has more."""


# The names in a checkpoint


class Names:
    """The tensors of a checkpoint by the patterns of their names, which differ in numbers alone."""

    def __init__(self, found: StoredCheckpoint) -> None:
        self.found = found
        self.patterns: dict[str, list[tuple[Place, tuple[int, ...]]]] = {}
        self.first: dict[str, str] = {}
        """The first name of each pattern."""
        for row in found.rows:
            pattern, numbers = patterned(row.name)
            self.patterns.setdefault(pattern, []).append((numbers, row.shape))
            self.first.setdefault(pattern, row.name)
        most = sorted(self.patterns, key=lambda pattern: -len(self.patterns[pattern]))
        self.others = sum(len(self.patterns.pop(pattern)) for pattern in most[MOST_PATTERNS:])
        """The number of tensors whose names have other patterns than those compared."""
        self.index_limit = min(len(found.rows), MOST_LAYERS)
        """The number that all indices are below: each layer has at least one tensor."""


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
    return _NUMBER.sub("*", name), tuple(map(int, numbers))


def _template_pattern(name: str) -> tuple[str, tuple[str, ...]]:
    """Return a template's name with stars, and the index or number for each star."""
    return _PLACE.sub("*", name), tuple(index or number for index, number in _PLACE.findall(name))


# Families, by the text of their files


# A tensor's name in a blueprint, and the part of it after its last index.
_KEY = re.compile(r'^"((?:[^"\n]*[}\d])?([^"\n{}\d]*))" = ["\']', re.MULTILINE)
# A name, or the path above several, in a blueprint's list of tensors that files store differently.
_STORED = re.compile(r'(?:\[|^    )"([\w.{}]+)(?:: [^"\n]+)?"(?=[,\]])', re.MULTILINE)
_BATCH = 48  # families; the next ones are compared if none of these fits exactly
_NEEDLES = 12  # parts of names that are searched for in all files
_SHARE = 0.8  # of the highest score; families with a lower score are too different
_MOST_PREFIX_PIECES = 3  # pieces at the start of a name that may be a prefix, less one


def _likely(names: Names) -> list[str]:
    """Return the families whose files contain the most names, the likeliest first."""
    ends = _Ends()
    for pattern in names.patterns:
        ends.add(patterned(renamed(names.first[pattern], {})[0])[0], pattern)
    scores = {family: _score(family, ends, names) for family in _at_a_glance(ends)}
    scored = sorted(
        (-tensors, lacking, len(family), family)
        for family, (tensors, lacking) in scores.items()
        if tensors
    )
    return [family for negated, _, _, family in scored if negated <= _SHARE * scored[0][0]]


def _at_a_glance(ends: _Ends) -> list[str]:
    """Return the families whose files contain many of the longest parts of names.

    Searching a file for a few texts is faster than parsing it.
    """
    needles = sorted(ends.needles, key=len, reverse=True)[:_NEEDLES]
    hits: dict[str, int] = {}
    for family in blueprints.families():
        text = data.read_text(f"blueprints/{family}.toml")
        hits[family] = sum(needle in text for needle in needles)
    most = max(hits.values(), default=0)
    return [family for family, count in hits.items() if count and 2 * count >= most]


class _Ends:
    """The patterns of a checkpoint by their possible names in a blueprint, and the paths above.

    A blueprint may lack the first pieces of a name: a prefix.
    """

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self.paths: dict[str, set[str]] = {}
        self.tails: set[str] = set()
        self.needles: set[str] = set()

    def add(self, current: str, pattern: str) -> None:
        pieces = current.split(".")
        self.needles.add(_needle(current))
        for dropped in range(min(_MOST_PREFIX_PIECES, len(pieces))):
            below = ".".join(pieces[dropped:])
            self.names.setdefault(below, set()).add(pattern)
            self.tails.add(below.rpartition("*")[2])
            for path in above(below):
                self.paths.setdefault(path, set()).add(pattern)


def _needle(current: str) -> str:
    """Return the longest part of a pattern that a blueprint with this tensor must contain.

    This is two pieces after an index, or one before it, as the rest may be a prefix.

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
    """Return the number of tensors named in a family's file, and of names without a tensor."""
    text = data.read_text(f"blueprints/{family}.toml")
    keys = _KEY.findall(text)
    shared = {_PLACE.sub("*", key) for key, tail in keys if tail in ends.tails} & ends.names.keys()
    stored_paths = set[str]()
    if "stored]" in text:
        stored_paths = {_PLACE.sub("*", path) for path in _STORED.findall(text)}
    covered = set[str]()
    for key in shared:
        covered |= ends.names[key]
    for path in stored_paths & ends.paths.keys():
        covered |= ends.paths[path]
    return sum(len(names.patterns[pattern]) for pattern in covered), len(keys) - len(shared)


# Classes, by the names of their tensors


class Fit(NamedTuple):
    """The tensors of a checkpoint by the templates of a class; ``unknown`` counts the others.

    ``lacking`` counts the templates without a tensor that have no condition, ``spare`` those that
    have one.
    """

    blueprint: Blueprint
    class_name: str
    held: dict[Template, Held]
    templates: tuple[Template, ...]
    unknown: int
    lacking: int
    spare: int


class _Sketch(NamedTuple):
    """A fit by patterns alone, which ignore numbers: its counts are lower bounds.

    ``named`` holds the templates by pattern, and ``current`` the current name of each stored
    pattern, as a pattern and numbers.
    """

    blueprint: Blueprint
    class_name: str
    templates: tuple[Template, ...]
    named: dict[str, list[tuple[Template, tuple[str, ...]]]]
    current: dict[str, tuple[str, Place]]
    unknown: int
    lacking: int
    spare: int


def _sketches(blueprint: Blueprint, names: Names) -> Iterator[_Sketch]:
    """Yield a sketch of each class, in memory or as files store it, whichever fits better."""
    for class_name in blueprint.class_names:
        sketch = _sketch(blueprint, class_name, names, stored=False)
        if blueprint.is_stored_otherwise(class_name):
            stored_sketch = _sketch(blueprint, class_name, names, stored=True)
            sketch = min(sketch, stored_sketch, key=_misfit)
        yield sketch


def _misfit(fit: Fit | _Sketch) -> tuple[int, int, int]:
    return fit.unknown, fit.lacking, fit.spare


def _sketch(blueprint: Blueprint, class_name: str, names: Names, *, stored: bool) -> _Sketch:
    templates = blueprint.templates(class_name, stored=stored)
    named: dict[str, list[tuple[Template, tuple[str, ...]]]] = {}
    for template in (*templates, *blueprint.buffers(class_name, stored=stored)):
        pattern, places = _template_pattern(template.name)
        named.setdefault(pattern, []).append((template, places))
    paths, known = blueprint.renamed(class_name), _Patterns(named)
    first = {pattern: names.first[pattern] for pattern in names.patterns}
    shifted_by = shift(names_of(blueprint, class_name), known, first.values(), anywhere=False)
    current: dict[str, tuple[str, Place]] = {}
    unknown = names.others
    held: set[Template] = set()
    for pattern, name in first.items():
        current[pattern] = patterned(match(name, known, paths, shifted_by).name)
        current_pattern, _ = current[pattern]
        if current_pattern in named:
            held.update(template for template, _ in named[current_pattern])
        else:
            unknown += len(names.patterns[pattern])
    lacking, spare = _without_tensor(templates, held)
    return _Sketch(blueprint, class_name, templates, named, current, unknown, lacking, spare)


def _without_tensor(templates: Sequence[Template], held: Container[Template]) -> tuple[int, int]:
    """Return the numbers of templates without a tensor: those without a condition and with one."""
    missing = [template for template in templates if template not in held]
    lacking = sum(not template.when and not template.tie for template in missing)
    return lacking, len(missing) - lacking


def _fit(sketch: _Sketch, names: Names) -> Fit:
    """Return the tensors of each template, including the numbers in their names."""
    held: dict[Template, Held] = {}
    unknown = sketch.unknown
    for pattern, rows in names.patterns.items():
        current_pattern, current_numbers = sketch.current[pattern]
        if current_pattern not in sketch.named:
            continue
        templates = sketch.named[current_pattern]
        _, stored_numbers = patterned(names.first[pattern])
        added, dropped = _prefix_numbers(current_numbers, stored_numbers)
        for numbers, shape in rows:
            template, place = _template_at(
                templates, (*added, *numbers[dropped:]), names.index_limit
            )
            if template is None:
                unknown += 1
            else:
                held.setdefault(template, []).append((place, shape))
    lacking, spare = _without_tensor(sketch.templates, held)
    return Fit(sketch.blueprint, sketch.class_name, held, sketch.templates, unknown, lacking, spare)


def _prefix_numbers(current: Place, stored: Place) -> tuple[Place, int]:
    """Return the numbers in a missing prefix, and how many an additional prefix has."""
    return current[: max(len(current) - len(stored), 0)], max(len(stored) - len(current), 0)


def _template_at(
    templates: Iterable[tuple[Template, Sequence[str]]], numbers: Place, index_limit: int
) -> tuple[Template | None, Place]:
    """Return the template that has a tensor with these numbers, and the values of its indices."""
    for template, places in templates:
        place = _place(template, places, numbers, index_limit)
        if place is not None:
            return template, place
    return None, ()


class _Patterns:
    """The set of all names that have one of the given patterns."""

    def __init__(self, patterns: Mapping[str, Any]) -> None:
        self.patterns = patterns

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and patterned(name)[0] in self.patterns


def _place(
    template: Template, places: Sequence[str], numbers: Place, index_limit: int
) -> Place | None:
    """Return the indices of a template at these numbers; None if a name cannot have them."""
    bound: dict[str, int] = {}
    for place, number in zip(places, numbers, strict=True):
        if place.isdigit():
            if int(place) != number:
                return None
        elif number >= index_limit or bound.setdefault(place, number) != number:
            return None
    return tuple(bound[index] for index in template.repeat)


def closest(found: StoredCheckpoint) -> Iterator[list[Fit]]:
    """Yield the classes closest to a checkpoint, one batch of families after the other."""
    names = Names(found)
    families = _likely(names)[:MOST_FAMILIES]
    for start in range(0, len(families), _BATCH):
        sketches: list[_Sketch] = []
        for family in families[start : start + _BATCH]:
            sketches += _sketches(blueprints.load(family), names)
        yield _best([_fit(sketch, names) for sketch in _best(sketches)])


_AnyFit = TypeVar("_AnyFit", Fit, _Sketch)


def _best(fits: Sequence[_AnyFit]) -> list[_AnyFit]:
    """Return the classes with the fewest unknown tensors, those with the fewest missing first.

    Many families share all names with a popular one, which may then be beyond the limit. If they
    have all names, some classes of the most used families beyond it are therefore put first.
    """
    ordered = sorted(fits, key=_misfit)
    best = [fit for fit in ordered if fit.unknown == ordered[0].unknown]
    late = [fit for fit in best[MOST_CLASSES:] if not fit.unknown and not fit.lacking]
    late.sort(key=lambda fit: -len(releases_by_family().get(fit.blueprint.family, ())))
    return late[:MOST_USED_CLASSES] + best[:MOST_CLASSES]
