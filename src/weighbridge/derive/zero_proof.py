"""Allows counts of zero where the reference builds such a model: one without shared experts.

Random configs hold no zeros, since most sizes of zero are mistakes. So each count is tried at zero
on its own, near random configs, after the blueprint is proved.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from weighbridge.blueprint.schema import Blueprint
from weighbridge.derive.probing.chance import unseen
from weighbridge.derive.probing.state import LAYER_COUNT
from weighbridge.derive.prove import prove_class
from weighbridge.derive.toml_text import blueprint_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weighbridge.derive.learning import Learned
    from weighbridge.derive.passes import CandidateBlueprint
    from weighbridge.derive.probing.subject import Subject

_UNSEEN = 8  # random configs of the base class on which a zero must be right
_LEAST = 3  # of them that the reference and the blueprint must both accept
# Counts of what a model may lack, and counts without which no model works.
_COUNTS = re.compile(r"^(n|num)_|experts$|type_vocab_size$")
_NEVER_ZERO = re.compile(r"head|channel|group")


def allow_zeros(
    candidate: CandidateBlueprint, subject: Subject, learned: Sequence[Learned]
) -> CandidateBlueprint:
    """Return a blueprint that accepts zero for the counts of which the reference accepts it."""
    raw = candidate.raw
    for path in _counts(_read_back(raw)):
        wider = {**raw, "zero": sorted({*raw.get("zero", ()), path})}
        if _is_right_at_zero(_read_back(wider), subject, learned, path):
            raw = wider
    return candidate.with_raw(raw)


def _read_back(raw: dict[str, Any]) -> Blueprint:
    return Blueprint(tomllib.loads(blueprint_text(raw, "")))


def _counts(blueprint: Blueprint) -> Iterator[str]:
    """Yield the counts that must be positive so far."""
    for path in sorted(blueprint.sizes - blueprint.zero):
        name = path.rpartition(".")[2]
        is_of_layers = LAYER_COUNT.search(name)
        if _COUNTS.search(name) and not _NEVER_ZERO.search(name) and not is_of_layers:
            yield path


def _is_right_at_zero(
    blueprint: Blueprint, subject: Subject, learned: Sequence[Learned], path: str
) -> bool:
    """Whether all classes are as the reference builds them on configs in which a count is zero."""
    for one_class in learned:
        if one_class.class_name not in blueprint.class_names:
            continue
        least, configs = 0, [dict(one_class.exploration.findings.base)]
        if one_class is learned[0]:
            least = _LEAST
            configs += unseen(one_class.exploration, _UNSEEN)
        at_zero = [{**changes, path: 0} for changes in configs]
        result = prove_class(blueprint, subject, one_class.class_name, at_zero, _UNSEEN)
        if result.mismatches or result.configs < least:
            return False
    return True
