"""Derives the operations of a family's classes: runs them, and expresses the operations in sizes.

The result is checked against runs on configs and sizes not seen before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from weighbridge.algebra.expr import names_in, parse
from weighbridge.blueprint.operations import CACHE_START, KINDS, NULL, RUN_NAMES, Operations
from weighbridge.blueprint.paths import indices_in
from weighbridge.derive.operations.class_operations import ClassOperations
from weighbridge.derive.operations.holding import deciding_fields, held_out
from weighbridge.derive.operations.region import Region
from weighbridge.derive.toml_text import operations_text
from weighbridge.derive.write import expression
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.probing.subject import Subject

_FORMAT = 1

Texts = dict[str, dict[str, list[str]]]
"""The operations of a class as the texts of a file, by kind and by path."""


class Operated(NamedTuple):
    """The data of a file of operations, whether it is proved, and its holes."""

    raw: dict[str, Any]
    exact: bool
    holes: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text of the file."""
        return operations_text(self.raw)


def operate(
    subject: Subject, blueprint: Blueprint, classes: Iterable[str] | None = None, seed: int = 0
) -> Operated:
    """Derive the operations of a family's base class, and of its other classes.

    Args:
        subject: the code to run.
        blueprint: the blueprint of the family.
        classes: the classes besides the base class; all of them when left out.
        seed: the seed of the random configs and sizes.

    Raises:
        ModelError: the operations of the base class cannot be expressed.
    """
    region = Region(subject, blueprint, seed)
    base_class = blueprint.base_class
    texts = {base_class: ClassOperations(region, base_class).texts}
    holes = []
    for class_name in blueprint.class_names[1:]:
        if classes is not None and class_name not in classes:
            continue
        try:
            subject.check_class(class_name)
            texts[class_name] = ClassOperations(region, class_name).texts
        except WeighbridgeError as error:
            holes.append(f"{class_name}: {error.what}")
    return _proved(region, texts, holes)


def _proved(region: Region, texts: Mapping[str, Texts], holes: list[str]) -> Operated:
    """Return the data of a file with its proof and with the fields that must keep their values."""
    raw = _raw(region, texts)
    held = deciding_fields(region, Operations(raw))
    raw["held"] = {name: value for name, value in held if name not in raw["fields"]}
    operations = Operations(raw)
    wrong, runs = [], 0
    for class_name in texts:
        runs_of_class, difference = held_out(region, operations, class_name)
        if not runs or runs_of_class < runs:
            runs = runs_of_class
        if difference:
            wrong.append(f"{class_name}: {difference}")
    raw["proof"] = {
        "by": f"{region.subject.command} --operations",
        "against": region.subject.reference,
        "runs": runs,
        "holes": [*holes, *wrong],
    }
    return Operated(raw, not wrong, (*holes, *wrong))


def _raw(region: Region, texts: Mapping[str, Texts]) -> dict[str, Any]:
    """Return the data of a file: the base class, and how the other classes differ from it."""
    blueprint, (base_class, *other_classes) = region.blueprint, texts
    base = texts[base_class]
    letters: set[str] = set()
    used: set[str] = set()
    for texts_by_kind in texts.values():
        for kind in KINDS:
            letters.update(*map(indices_in, texts_by_kind[kind]))
            used |= _names_in(kind, texts_by_kind[kind])
    repeat = {letter: expression(blueprint.repeat[letter]) for letter in sorted(letters)}
    for count in repeat.values():
        used.update(names_in(parse(count)))
    fields = sorted(used.difference(letters, RUN_NAMES))
    return {
        "format": _FORMAT,
        "family": blueprint.family,
        "source": region.subject.source,
        "kernels": f"torch {torch.__version__.partition('+')[0]}, cpu",
        "class": base_class,
        "proof": {},
        "fields": {name: _stated(region.usual[name]) for name in fields},
        "held": {},
        "repeat": repeat,
        **base,
        "classes": {
            name: difference_from(base, texts[name], blueprint.prefix(name))
            for name in other_classes
        },
    }


def _stated(value: Any) -> Any:
    return NULL if value is None else value


def _names_in(kind: str, texts_by_path: Mapping[str, list[str]]) -> set[str]:
    """Return the names in all expressions of a kind."""
    names: set[str] = set()
    for texts in texts_by_path.values():
        for text in texts:
            for source in _expressions_in(kind, text):
                names.update(names_in(parse(source)))
    return names


def _expressions_in(kind: str, text: str) -> Iterator[str]:
    dims, _, condition = text.partition(" if ")
    words = dims.split()
    if kind == "saved":
        del words[0]  # the dtype
    yield from words
    if condition:
        yield condition


def difference_from(
    base: Texts, texts: Texts, prefix: str, kinds: Iterable[str] = KINDS
) -> dict[str, Any]:
    """Return how a class differs from the base class that it holds under a prefix.

    The paths of a cache are in no module, and have no prefix.
    """
    section: dict[str, Any] = {}
    if prefix:
        section["prefix"] = prefix[:-1]
    for kind in kinds:
        inherited = {}
        for path, texts_at_path in base[kind].items():
            below = path if path.startswith(CACHE_START) else f"{prefix}{path}".removesuffix(".")
            inherited[below] = texts_at_path
        own = texts[kind].items()
        changes = {path: entries for path, entries in own if inherited.get(path) != entries}
        changes |= {path: [] for path in inherited if path not in texts[kind]}
        if changes:
            section[kind] = changes
    return section
