"""Finds the parts of a family that may be models of another family, and tries such models."""

from __future__ import annotations

import itertools
import tomllib
from itertools import islice
from typing import TYPE_CHECKING, Any

from weighbridge.blueprint.composition import AUTO_MODEL
from weighbridge.blueprint.paths import joined_path
from weighbridge.blueprint.schema import Blueprint, is_family, load
from weighbridge.derive.prove import draws
from weighbridge.derive.toml_text import blueprint_text
from weighbridge.ledger.ledger import bind
from weighbridge.models import find as models

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.derive.passes import CandidateBlueprint
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Subject
    from weighbridge.ledger.ledger import Ledger

_TRIED = {  # a field of the family that a part is proved with, and the families to try instead
    "vocab_size": ("qwen2", "gpt2", "gemma2", "mixtral", "opt", "bert", "t5"),
    "num_channels": ("clip_vision_model", "siglip_vision_model", "dinov2", "vit", "swin"),
    "depths": ("resnet", "swin", "convnext"),
    "": ("whisper", "wav2vec2", "qwen2_audio_encoder"),
}
_OTHER_KINDS = ("t5", "resnet")  # code asks another auto class for such models
_BACKBONES = ("resnet", "swin", "convnext", "dinov2")
_MOST_TRIED = 2  # families for each part
_MOST_RANDOM = 3  # random configs for each of them
_MOST_TRIES = 12  # to draw those
_TIE = "tie_word_embeddings"


def with_parts(candidate: CandidateBlueprint, subject: Subject) -> CandidateBlueprint:
    """Return a blueprint with its parts, each tried with other families.

    A part is left out if no other family could be tried, or one gives other tensors than predicted.
    """
    raw = _with_tables(candidate.raw, subject)
    tried: list[str] = []
    holes: list[str] = []
    for place in dict.fromkeys(_places(raw)):
        agreed, difference = _trials(raw, subject, place)
        if difference:
            holes.append(f"{place} of another model type is not covered: {difference}")
        if difference or not agreed:
            raw = _without_place(raw, place)
        else:
            tried.append(f"{place}: {', '.join(agreed)}")
    if tried:
        raw = {**raw, "proof": {**raw["proof"], "parts": tried}}
    return candidate.with_raw(raw, *holes)


def _with_tables(raw: dict[str, Any], subject: Subject) -> dict[str, Any]:
    """Return a blueprint with the table `[parts]` of each class."""
    base = _asked_parts(subject, raw["class"])
    classes = {}
    for name, section in raw["classes"].items():
        inherited: dict[str, str] = {}
        if section.get("base", True):
            prefix = section.get("prefix", "")
            inherited = {joined_path(prefix, path): text for path, text in base.items()}
        asked = _asked_parts(subject, name)
        parts = {path: text for path, text in asked.items() if inherited.get(path) != text}
        classes[name] = section
        if parts:
            classes[name] = {**section, "parts": parts}
    raw = {**raw, "classes": classes}
    if base:
        raw["parts"] = base
    return raw


def _asked_parts(subject: Subject, class_name: str) -> dict[str, str]:
    """Return the parts of a class, as the table has them."""
    auto_classes: dict[str, dict[str, None]] = {}
    places: dict[str, str] = {}
    for values in _configs(subject):
        try:
            parts = subject.parts(class_name, values)
        except Exception:  # noqa: S112  # whatever the code raises is its way to refuse
            continue
        for path, (place, auto_class) in parts.items():
            places[path] = place
            auto_classes.setdefault(path, {})[auto_class] = None
    return {
        path: " ".join([place, *_without_usual(auto_classes[path])])
        for path, place in places.items()
    }


def _without_usual(auto_classes: Iterable[str]) -> list[str]:
    asked = list(auto_classes)
    return [] if asked == [AUTO_MODEL] else asked


def _configs(subject: Subject) -> Iterator[dict[str, Any]]:
    """Yield the usual config, and one of each sub-config with another kind of model."""
    yield subject.nested(subject.start)
    for place, proved in subject.sub_configs.items():
        if proved and "." not in place:
            for family in _OTHER_KINDS:
                yield _with_family(subject, place, family)


def _families_to_try(proved: str) -> tuple[str, ...]:
    if not is_family(proved):
        return _BACKBONES
    fields = {name.rpartition(".")[2] for name in load(proved).fields}
    return next(families for field, families in _TRIED.items() if not field or field in fields)


def _with_family(subject: Subject, place: str, family: str) -> dict[str, Any]:
    """Return the values of a JSON file with another family in a sub-config."""
    start = {
        path: value for path, value in subject.start.items() if not path.startswith(f"{place}.")
    }
    return {**subject.nested(start), place: {"model_type": family}}


def _places(raw: Mapping[str, Any]) -> Iterator[str]:
    for section in (raw, *raw["classes"].values()):
        yield from (text.split()[0] for text in section.get("parts", {}).values())


def _trials(raw: dict[str, Any], subject: Subject, place: str) -> tuple[list[str], str]:
    """Return the families that agreed as a part, and how the first other one differed."""
    blueprint = Blueprint(tomllib.loads(blueprint_text(raw, "")))
    proved = raw["configs"][place]
    agreed: list[str] = []
    for family in _families_to_try(proved):
        if family == proved or len(agreed) == _MOST_TRIED:
            continue
        difference = _trial(blueprint, subject, place, family)
        if difference:
            return agreed, f"with {family}, {difference}"
        if difference is not None:
            agreed.append(family)
    return agreed, ""


def _trial(blueprint: Blueprint, subject: Subject, place: str, family: str) -> str | None:
    """Return how a part of another family differs: empty if not at all.

    None if the reference or the blueprint refuses every config.
    """
    if "." in place or not is_family(family):
        return None
    is_tried = False
    for values in _with_random_parts(subject, place, family):
        for class_name in blueprint.class_names:
            try:
                model = models.bound({"model_type": blueprint.family, **values}, blueprint, "")
                ledger = bind(model.blueprint, class_name, model.fields)
                probe = subject.probe_values(class_name, values)
            except Exception:  # noqa: S112  # one of the two refuses this config
                continue
            is_tried = True
            if difference := _first_other_tensor(ledger, probe):
                return difference
    return "" if is_tried else None


def _with_random_parts(subject: Subject, place: str, family: str) -> Iterator[dict[str, Any]]:
    """Yield the values of JSON files with another family in a sub-config, of random sizes."""
    usual = _with_family(subject, place, family)
    ties = itertools.cycle(({}, {_TIE: True}))
    for changes in islice(draws(load(family), "as a part", _MOST_TRIES), _MOST_RANDOM):
        tie = next(ties)
        values = {path: value for path, value in changes.items() if "." not in path}
        yield {**usual, **tie, place: {**usual[place], **values, **tie}}


def _first_other_tensor(ledger: Ledger, probe: Probe) -> str:
    expected = {row.name: (row.shape, row.tied_to) for row in ledger.rows}
    built = {name: (tensor.shape, tensor.tied_to) for name, tensor in probe.tensors.items()}
    for name in {**expected, **built}:
        if expected.get(name) != built.get(name):
            return f"{name} is {built.get(name)}, not {expected.get(name)}"
    return ""


def _without_place(raw: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a blueprint without the parts of one sub-config."""

    def remaining(section: Mapping[str, Any]) -> dict[str, Any]:
        parts = {
            path: text
            for path, text in section.get("parts", {}).items()
            if text.split()[0] != place
        }
        rest = {key: value for key, value in section.items() if key != "parts"}
        return {**rest, "parts": parts} if parts else rest

    classes = {name: remaining(section) for name, section in raw["classes"].items()}
    return {**remaining(raw), "classes": classes}
