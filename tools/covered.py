"""Prints what the shipped blueprints cover, by kind of model, as a Markdown table for the docs.

python tools/covered.py
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import weighbridge
from weighbridge.answers.families import Covered, coverage
from weighbridge.errors import WeighbridgeError
from weighbridge.models.catalogue import released

if TYPE_CHECKING:
    from collections.abc import Iterator

# A family's kind is the first one that a class of the family matches by name.
KINDS = {
    "encoder-decoder or multimodal": (
        r"ForConditionalGeneration$|ForImageTextToText$|ForVision2Seq$"
    ),
    "causal language model": r"ForCausalLM$|LMHeadModel$",
    "text encoder": (
        r"ForMaskedLM$|ForSequenceClassification$|ForQuestionAnswering$|ForTokenClassification$"
    ),
    "audio": r"ForCTC$|ForAudio|ForSpeech|ForTextToWaveform$|ForXVector$",
    "vision": (
        r"ForImage|ForObject|ForSemantic|ForInstance|ForUniversal|ForDepth|ForMasked"
        r"|Backbone$|Vision|ForVideo"
    ),
    "other": r"",
}

HOLE = "the blueprint has a hole"  # how a note about a hole begins


def kind_of(family: Covered) -> str:
    """Return the kind of a family, judging by the names of its classes."""
    return next(
        kind
        for kind, pattern in KINDS.items()
        if any(re.search(pattern, name) for name in family.classes)
    )


def table() -> str:
    """Return the table."""
    by_kind: dict[str, list[Covered]] = {kind: [] for kind in KINDS}
    for family in coverage():
        by_kind[kind_of(family)].append(family)
    lines = [
        "| kind | families | classes | with holes | that concern a release | unseen configs |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [_line(kind, found) for kind, found in by_kind.items() if found]
    return "\n".join([*lines, _line("all", coverage())])


def _line(kind: str, found: list[Covered]) -> str:
    classes, configs = sum(len(one.classes) for one in found), sum(one.configs for one in found)
    holes = sum(bool(one.holes) for one in found)
    concerned = sum(concerns_release(one) for one in found)
    return f"| {kind} | {len(found)} | {classes} | {holes} | {concerned} | {configs:,} |"


def concerns_release(family: Covered) -> bool:
    """Whether a hole of a family concerns its defaults or a released model of the catalogue.

    Such a model is refused, or weighed with a note that names the hole.
    """
    return bool(family.holes) and any(map(_has_hole, _models_of(family.family)))


def _models_of(family: str) -> Iterator[str]:
    """Yield names under which a family's defaults and its released models are weighed."""
    yield family
    for name, entry in released().items():
        if entry["family"] == family:
            yield name


def _has_hole(name: str) -> bool:
    try:
        notes = weighbridge.weigh(name).notes
    except WeighbridgeError:
        return True
    return any(HOLE in note for note in notes)


if __name__ == "__main__":
    print(table())
