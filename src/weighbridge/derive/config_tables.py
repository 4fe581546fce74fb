"""The tables of a blueprint that describe the config of its family."""

from __future__ import annotations

from ast import literal_eval
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.rewrite import NULL, field_names
from weighbridge.blueprint.classify import kind_name
from weighbridge.blueprint.paths import above
from weighbridge.derive.generalize.config_defaults import respelled
from weighbridge.derive.probing.alias_times import flat_aliases, late_aliases
from weighbridge.derive.probing.candidates import STAGES_ANNOTATION
from weighbridge.derive.write import expression

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.config_defaults import FieldOrigins
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.state import FieldFindings
    from weighbridge.derive.probing.subject import Knob, Subject

_SEPARATORS = ("|", ",", ";", "+", " ", "-")  # texts that often separate the items of a list


def config_tables(
    subject: Subject, filled: FieldOrigins, probes: Sequence[Probe], findings: FieldFindings
) -> dict[str, Any]:
    """Return the tables of a blueprint that describe the config.

    Args:
        subject: the code that the blueprint is derived from.
        filled: where each field that affects the model comes from.
        probes: the configs that were learned from.
        findings: what exploration found about the fields.
    """
    fields = {**filled.defaults, **filled.computed}
    optional: dict[str, Any] = {place: {} for place in subject.optional}
    all_knobs = subject.knobs({**subject.start, **optional})
    knobs = [knob.path for knob in all_knobs]
    stages = {name: words for name, words in _numbered_stages(all_knobs).items() if name in fields}
    beyond = [path for path in subject.taken if path not in fields and path not in findings.turned]
    never_null = {name for name, tree in filled.computed.items() if tree != NULL}
    declared = _as_declared(filled.defaults, knobs)
    texts_by_field = _texts_by_field(fields, probes)
    aliases = _aliases(subject, {*fields, *knobs, *subject.sub_configs}.difference(beyond))
    aliases |= {_indices_of(name): name for name in stages}
    return {
        "inert": sorted(set(knobs) - fields.keys() - set(beyond)),
        "nullable": sorted(set(filled.nullable) - never_null),
        "zero": sorted(_fields_seen_at_zero(probes) & fields.keys()),
        "beyond": sorted(beyond),
        "late": late_aliases(subject, aliases),
        "flat": flat_aliases(subject, aliases, subject.sub_configs),
        "values": texts_by_field,
        "tried": _tried(subject, all_knobs, findings),
        "spelled": {**_spellings(subject, fields, probes), **stages},
        "separators": item_separators(subject, texts_by_field),
        "defaults": {name: filled.defaults[name] for name in declared},
        "given": filled.given,
        "configs": {**subject.sub_configs, **_plain_dicts(subject, fields)},
        "aliases": aliases,
        "computed": _after_what_they_need(filled.computed),
    }


def _tried(
    subject: Subject, knobs: Iterable[Knob], findings: FieldFindings
) -> dict[str, list[str]]:
    """Return the kinds of values that each field of a stranger's code was tried with.

    The code may do something else with another kind: ``if isinstance(heads, dict)``. Configs of
    transformers hold values of other kinds that say how a model is loaded. A field that is left out
    was tried with its parameter's default, which may be null.
    """
    if not subject.is_explored_for_equals:
        return {}
    kinds = {}
    for knob in knobs:
        values = (knob.value, *findings.accepted(knob.path))
        kinds[knob.path] = {*map(kind_name, (*values, subject.stated.get(knob.path, knob.value)))}
    return {path: sorted(kinds[path]) for path in sorted(kinds)}


def _numbered_stages(knobs: Iterable[Knob]) -> dict[str, dict[str, str]]:
    """Return the names of stages by their numbers, for each field that chooses stages by name."""
    numbered: dict[str, dict[str, str]] = {}
    for knob in knobs:
        if knob.annotation.startswith(STAGES_ANNOTATION):
            names = literal_eval(knob.annotation.removeprefix(STAGES_ANNOTATION))
            numbered[knob.path] = {str(number): name for number, name in enumerate(names)}
    return numbered


def _indices_of(path: str) -> str:
    """Return the path of the field that chooses stages by number.

    Example:
        >>> _indices_of("backbone_config.out_features")
        'backbone_config.out_indices'
    """
    return path.removesuffix("features") + "indices"


def _spellings(
    subject: Subject, fields: Container[str], probes: Sequence[Probe]
) -> dict[str, dict[str, str]]:
    """Return the other spellings of the texts of each field."""
    spellings: dict[str, dict[str, str]] = {}
    for words in (subject.words, respelled(subject, probes)):
        for name, meanings in words.items():
            spellings.setdefault(name, {}).update(meanings)
    of_fields = {name: spellings[name] for name in sorted(spellings) if name in fields}
    return {**of_fields, **subject.older_types}


def item_separators(subject: Subject, texts_by_field: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the text between the items, where the config class reads a text as a list of texts."""
    separators: dict[str, str] = {}
    for path, texts in texts_by_field.items():
        items = [texts[0], texts[-1]]
        for separator in _SEPARATORS:
            with suppress(Exception):  # the config class refuses this text
                config = subject.config({**subject.start, path: separator.join(items)})
                if subject.fields(config).get(path) == items:
                    separators[path] = separator
    return separators


def _plain_dicts(subject: Subject, fields: Iterable[str]) -> dict[str, str]:
    """Return the paths of the dicts that hold these fields and are not sub-configs."""
    places: set[str] = set()
    for name in fields:
        places |= {place for place in above(name) if place != name}
    return dict.fromkeys(sorted(places - subject.sub_configs.keys()), "")


def _aliases(subject: Subject, known: Collection[str]) -> dict[str, str]:
    """Return every other name under which a config may hold one of these fields."""
    aliases = subject.aliases(sorted(known)).items()
    return {alias: name for alias, name in aliases if name in known and alias not in known}


def _fields_seen_at_zero(probes: Iterable[Probe]) -> set[str]:
    """Return the fields that were 0, or a list with a 0, in some config."""
    zero: set[str] = set()
    for probe in probes:
        zero |= {name for name, value in probe.fields.items() if _holds_zero(value)}
    return zero


def _holds_zero(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_holds_zero, value))
    return type(value) is int and value == 0


def _as_declared(fields: Iterable[str], knobs: Sequence[str]) -> list[str]:
    """Return fields in the order in which the config class declares them, others last."""
    rank = {name: index for index, name in enumerate(knobs)}
    return sorted(fields, key=lambda name: (rank.get(name, len(rank)), name))


def _texts_by_field(fields: Iterable[str], probes: Sequence[Probe]) -> dict[str, list[Any]]:
    """Return the texts that each text field was seen with."""
    texts_by_field: dict[str, set[str]] = {}
    for probe in probes:
        for name in fields:
            if texts := _texts_in(probe.fields.get(name)):
                texts_by_field.setdefault(name, set()).update(texts)
    return {name: sorted(texts) for name, texts in sorted(texts_by_field.items())}


def _texts_in(value: Any) -> list[str]:
    """Return a text, or the items of a list of texts; an empty list for other values."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    return []


def _after_what_they_need(computed: Mapping[str, Tree]) -> dict[str, str]:
    """Return the expressions of computed fields, each after the fields that it needs."""
    ordered: dict[str, str] = {}
    waiting = dict(computed)
    while waiting:
        ready = [
            name for name in waiting if not field_names(waiting[name]) & waiting.keys() - {name}
        ]
        for name in ready or list(waiting):
            ordered[name] = expression(waiting.pop(name))
    return ordered
