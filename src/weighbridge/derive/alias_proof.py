"""Checks the other names of fields: a config with one must give what the reference builds."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from weighbridge.blueprint.schema import Blueprint
from weighbridge.derive.probing.alias_times import unlike_values
from weighbridge.derive.prove import prove_class
from weighbridge.derive.toml_text import blueprint_text
from weighbridge.errors import WeighbridgeError
from weighbridge.models import find as models

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.derive.passes import CandidateBlueprint
    from weighbridge.derive.probing.subject import Subject


def refuse_wrong_aliases(candidate: CandidateBlueprint, subject: Subject) -> CandidateBlueprint:
    """Return a blueprint that refuses each alias under which it gives other tensors."""
    blueprint = Blueprint(tomllib.loads(blueprint_text(candidate.raw, "")))
    usual = subject.fields(subject.config(subject.start))
    wrong: list[str] = []
    for alias, name in blueprint.aliases.items():
        configs = [{alias: value} for value in unlike_values(usual.get(name))]
        if any(_is_wrong(blueprint, subject, changes) for changes in configs):
            wrong.append(alias)
    for changes in replacing_configs(blueprint, subject):
        if _is_wrong(blueprint, subject, changes):
            wrong += changes.keys() & blueprint.replacing.keys()
    return candidate.with_raw(_without_aliases(candidate.raw, wrong))


def replacing_configs(blueprint: Blueprint, subject: Subject) -> Iterator[dict[str, Any]]:
    """Yield configs with an object in place of a sub-config: with one field each, and with both."""
    usual = subject.fields(subject.config(subject.start))
    for alias, place in blueprint.replacing.items():
        yield {**subject.start, alias: {}}
        for path in sorted(blueprint.fields):
            holder, _, name = path.rpartition(".")
            values = unlike_values(usual.get(path))
            if holder == place and values:
                yield {**subject.start, alias: {name: values[0]}}
                yield {**subject.start, alias: {}, path: values[0]}


def _is_wrong(blueprint: Blueprint, subject: Subject, changes: Mapping[str, Any]) -> bool:
    """Whether a config with an alias is counted, and not as the reference builds it."""
    changes = {**subject.start, **changes}
    try:
        models.bound({"model_type": subject.family, **subject.nested(changes)}, blueprint, "")
    except WeighbridgeError:
        return False
    result = prove_class(blueprint, subject, blueprint.base_class, [changes], most=1)
    return any(mismatch.part == "tensors" for mismatch in result.mismatches)


def _without_aliases(raw: dict[str, Any], wrong: Iterable[str]) -> dict[str, Any]:
    """Return a blueprint that refuses these aliases."""
    refused = set(wrong)
    if not refused:
        return raw
    kept = {alias: name for alias, name in raw["aliases"].items() if alias not in refused}
    lists = {key: [name for name in raw.get(key, ()) if name in kept] for key in ("late", "flat")}
    beyond = sorted({*raw.get("beyond", ()), *refused})
    return {**raw, **lists, "aliases": kept, "beyond": beyond}
