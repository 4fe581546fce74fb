"""The passes over an assembled blueprint: each removes what is unlawful, unproved or unused.

A pass takes a candidate and returns another; it changes nothing in place.
"""

from __future__ import annotations

import copy
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import names_in, parse
from weighbridge.blueprint import law
from weighbridge.derive.saved.saved_sections import forget_saved
from weighbridge.errors import BlueprintError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from weighbridge.derive.prove import Mismatch

_TABLES_BY_FIELD = {"defaults", "computed", "values", "spelled", "separators", "given"}
_LISTS_OF_FIELDS = {"nullable", "zero"}


class CandidateBlueprint(NamedTuple):
    """A blueprint on its way to its file.

    ``raw`` is the blueprint as its file holds it, ``holes`` lists what it lacks, and ``mismatches``
    lists by class where it differs from the reference. ``agreed`` has the configs that it was not
    learned from on which its base class does not differ.
    """

    raw: dict[str, Any]
    holes: tuple[str, ...] = ()
    mismatches: Mapping[str, Sequence[Mismatch]] = {}
    agreed: Sequence[Mapping[str, Any]] = ()

    def with_raw(self, raw: dict[str, Any], *holes: str) -> CandidateBlueprint:
        """Return the candidate with another blueprint and with these additional holes."""
        return self._replace(raw=raw, holes=(*self.holes, *holes))


def run_passes(
    candidate: CandidateBlueprint,
    passes: Iterable[Callable[[CandidateBlueprint], CandidateBlueprint]],
) -> CandidateBlueprint:
    """Apply the passes to a candidate, one after another."""
    for apply in passes:
        candidate = apply(candidate)
    return candidate


def drop_unused_fields(candidate: CandidateBlueprint) -> CandidateBlueprint:
    """Move the fields that no expression names to the inert fields: they change nothing."""
    return candidate.with_raw(without_unused_fields(candidate.raw))


def drop_unlawful_parts(candidate: CandidateBlueprint) -> CandidateBlueprint:
    """Drop the classes, or the tables on files, that break the law of blueprints.

    A breach that nothing else causes belongs to the base class, and becomes a hole of the proof.
    """
    while breach := _breach(candidate.raw):
        raw = candidate.raw
        culprit = next((name for name in raw["classes"] if name in breach), None)
        culprit = culprit or _unlawful_class(raw)
        if culprit is not None:
            raw = without_unused_fields(without_classes(raw, [culprit]))
            candidate = candidate.with_raw(raw, f"{culprit} was left out: {breach}")
            continue
        lawful_files = without_files(raw)
        if lawful_files == raw:
            proof = {**raw["proof"], "holes": [*raw["proof"]["holes"], breach]}
            return candidate.with_raw({**raw, "proof": proof})
        candidate = candidate.with_raw(lawful_files, breach)
    return candidate


def drop_mismatched_files(candidate: CandidateBlueprint) -> CandidateBlueprint:
    """Drop the tables on files if they are wrong for some class."""
    texts = [mismatch.text for mismatch in _mismatches_of(candidate, "files")]
    if not texts:
        return candidate
    hole = f"the contents of files were not derived: {texts[0]}"
    return candidate.with_raw(without_files(candidate.raw), hole)


def drop_mismatched_buffers(candidate: CandidateBlueprint) -> CandidateBlueprint:
    """Drop the buffers that are wrong for some class."""
    text_by_name: dict[str, str] = {}
    for mismatch in _mismatches_of(candidate, "buffers"):
        for name in mismatch.names:
            text_by_name[name] = mismatch.text
    if not text_by_name:
        return candidate
    first_text = next(iter(text_by_name.values()))
    return candidate.with_raw(without_buffers(candidate.raw, text_by_name), first_text)


def drop_mismatched_classes(candidate: CandidateBlueprint) -> CandidateBlueprint:
    """Drop the task classes whose tensors are wrong."""
    holes: dict[str, str] = {}
    for class_name, mismatches in candidate.mismatches.items():
        wrong_tensors = [mismatch for mismatch in mismatches if mismatch.part == "tensors"]
        if wrong_tensors and class_name in candidate.raw["classes"]:
            holes[class_name] = f"{class_name} was left out: {wrong_tensors[0].text}"
    return candidate.with_raw(without_classes(candidate.raw, holes), *holes.values())


TO_BE_LAWFUL = (
    drop_unused_fields,  # first, since the law forbids a field that decides nothing
    drop_unlawful_parts,  # so that the rest can be read back and proved
)
"""Run on an assembled blueprint, before it is checked against the reference."""

TO_BE_PROVED = (
    drop_mismatched_files,  # the tensors are still right
    drop_mismatched_buffers,  # here too
    drop_mismatched_classes,  # the other classes remain proved
    drop_unused_fields,  # a dropped part may have been the last to name a field
)
"""Run on the last blueprint that was checked against the reference, with its mismatches."""


# The parts of the passes: functions from a blueprint to a blueprint


def without_unused_fields(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a blueprint with the fields that no expression names moved to the inert fields."""
    while unused := _unused_fields(raw):
        inert = sorted({*raw.get("inert", ()), *unused})
        raw = {**raw, **_tables_without_fields(raw, unused), "inert": inert}
    return raw


def _tables_without_fields(raw: dict[str, Any], unused: Collection[str]) -> dict[str, Any]:
    remaining: dict[str, Any] = {}
    for key in raw.keys() & _TABLES_BY_FIELD:
        table = raw[key].items()
        remaining[key] = {name: value for name, value in table if name not in unused}
    for key in raw.keys() & _LISTS_OF_FIELDS:
        remaining[key] = [name for name in raw[key] if name not in unused]
    return remaining


def without_classes(raw: dict[str, Any], class_names: Iterable[str]) -> dict[str, Any]:
    """Return a blueprint without these task classes."""
    dropped = set(class_names)
    kept = {name: part for name, part in raw["classes"].items() if name not in dropped}
    return {**raw, "classes": kept}


def without_files(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a blueprint without its tables on files."""
    remaining = copy.deepcopy(raw)
    forget_saved(remaining)
    return remaining


def without_buffers(raw: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a blueprint without the buffers that have these names in some class."""
    wrong = list(names)
    classes = {name: _part_without_buffers(part, wrong) for name, part in raw["classes"].items()}
    return {**_part_without_buffers(raw, wrong), "classes": classes}


def _part_without_buffers(part: dict[str, Any], wrong: Sequence[str]) -> dict[str, Any]:
    """Return the part of one class without these buffers and without unneeded conditions."""
    dropped = [path for path in part.get("buffers", ()) if _is_any(path, wrong)]
    if not dropped:
        return part
    remaining = dict(part)
    for key in ("buffers", "stored"):
        if key in part:
            table = part[key].items()
            remaining[key] = {path: entry for path, entry in table if path not in dropped}
    if "when" in part:
        conditioned = [*part.get("tensors", ()), *remaining["buffers"]]
        remaining["when"] = {
            place: condition
            for place, condition in part["when"].items()
            if _is_above_any(place, conditioned) or not _is_above_any(place, dropped)
        }
    return remaining


def _is_any(path: str, names: Iterable[str]) -> bool:
    """Whether one of these names is a tensor at this path, with any indices and prefix."""
    pattern = r"\d+".join(map(re.escape, re.split(r"\{\w\}", path)))
    return any(re.fullmatch(rf"(.*\.)?{pattern}", name) for name in names)


def _is_above_any(place: str, paths: Iterable[str]) -> bool:
    return any(f"{path}.".startswith(f"{place}.") for path in paths)


def _unused_fields(raw: dict[str, Any]) -> list[str]:
    used: set[str] = set()
    for _, text, _ in law.all_expressions(raw):
        used.update(names_in(parse(text)))
    return [name for name in (*raw["defaults"], *raw.get("computed", {})) if name not in used]


def _breach(raw: dict[str, Any]) -> str | None:
    """Return how a blueprint breaks the law; None if it does not."""
    try:
        law.check(raw)
    except BlueprintError as error:
        return str(error)
    return None


def _unlawful_class(raw: dict[str, Any]) -> str | None:
    """Return a class without which the blueprint is lawful, if there is one."""
    for name in raw["classes"]:
        if _is_lawful_without(raw, name):
            return str(name)
    return None


def _is_lawful_without(raw: dict[str, Any], class_name: str) -> bool:
    try:
        law.check(without_unused_fields(without_classes(raw, [class_name])))
    except BlueprintError:  # parsing an expression may show the breach before the law does
        return False
    return True


def _mismatches_of(candidate: CandidateBlueprint, part: str) -> list[Mismatch]:
    mismatches = chain.from_iterable(candidate.mismatches.values())
    return [mismatch for mismatch in mismatches if mismatch.part == part]
