"""What a page of the explorer holds of one class under one config: the contract, one JSON.

The page computes with the blueprint's own expressions, so it holds each once as a tree, and refers
to it by number. It also holds totals that Python computed at other settings, and checks itself.
"""

from __future__ import annotations

import json
import shlex
from random import Random

from weighbridge import data
from weighbridge.algebra.expr import parse
from weighbridge.blueprint.roles import component_of
from weighbridge.blueprint.schema import LARGEST_SIZE, MOST_LAYERS
from weighbridge.data import LANGUAGES
from weighbridge.errors import WeighbridgeError
from weighbridge.explorer.flow_contract import flow_contract
from weighbridge.explorer.running import run_of_page
from weighbridge.explorer.settings import Bench, fields_without_dial, following_fields
from weighbridge.explorer.trees import TreeTable, value_json
from weighbridge.explorer.why import derivation
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.ledger.lettering import Lettering
from weighbridge.ledger.symbols import letters_of, meaning_of, size_symbols
from weighbridge.models import libraries
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.answers.weigh import Weighing
    from weighbridge.blueprint.schema import Blueprint, Template
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.models.find import Model

FORMAT = 1
CHECKS = 20
"""The settings at which a page compares its totals with those of Python."""
_MOST_TRIES = 6 * CHECKS  # some settings cannot be built


def contract(weighing: Weighing) -> dict[str, Any]:
    """Return the contract of a weighing; nothing in it depends on a machine or a day.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> made = contract(weigh("bert-base-chinese"))
        >>> made["class"], made["held"]["parameters"], len(made["checks"])
        ('BertModel', '102267648', 20)
    """
    ledger, model = weighing.ledger, weighing.model
    blueprint, class_name = ledger.blueprint, weighing.class_name
    table, bench = TreeTable(), Bench(weighing)
    made = {
        "format": FORMAT,
        "model": model.where,
        "argument": _argument(model),
        "set": _set_by_hand(model),
        "family": blueprint.family,
        "class": class_name,
        "prefix": blueprint.prefix(class_name),
        "source": blueprint.source,
        "dtype": ledger.dtype,
        "bits": DTYPE_BITS[ledger.dtype],
        **_config(bench),
        **_about_fields(weighing, table),
        "repeat": {name: table.number(tree) for name, tree in _repeats(ledger).items()},
        "tensors": [_as_tensor(template, ledger, table) for template in _all_templates(ledger)],
        "modules": _modules_of_rows(ledger),
        **_words_of_components(ledger),
        **_about_formulas(ledger, table),
        "why": derivation(weighing, letters_of(blueprint), table),
        **run_of_page(weighing, bench, table),
        "held": {
            "parameters": str(weighing.parameters),
            "active": str(ledger.active),
            "components": {group.name: str(group.parameters) for group in ledger.by("component")},
        },
        "checks": list(_checked_settings(bench)),
        "flow": flow_contract(weighing, table),
    }
    return {**made, "trees": table.trees}


def _config(bench: Bench) -> dict[str, Any]:
    """Return the config that the page saves; ``inside`` is the field of it with all others."""
    config, inside = libraries.as_its_library_writes(bench.config)
    return {"config": config, "inside": inside} if inside else {"config": config}


def _argument(model: Model) -> str:
    """Return the model of a command line that gives the same numbers."""
    if model.origin in ("catalogue", "defaults", "file", "timm"):
        return shlex.quote(model.where)
    return "config.json"


def _set_by_hand(model: Model) -> dict[str, str]:
    """Return the fields that the user replaced, as a command line has their values."""
    return {
        name: shlex.quote(json.dumps(model.given[name], ensure_ascii=False))
        for name in model.set_by_hand
        if name in model.given
    }


def _all_templates(ledger: Ledger) -> tuple[Template, ...]:
    return ledger.blueprint.templates(ledger.class_name)


def _repeats(ledger: Ledger) -> dict[str, Any]:
    used = {index for template in _all_templates(ledger) for index in template.repeat}
    return {index: tree for index, tree in ledger.blueprint.repeat.items() if index in used}


def _about_fields(weighing: Weighing, table: TreeTable) -> dict[str, Any]:
    """Return the fields, what they may be, and what the family requires of them."""
    model, blueprint = weighing.model, weighing.model.blueprint
    following = following_fields(model)
    stated = {name: value for name, value in model.fields.items() if name not in following}
    guards = {**blueprint.guards, **blueprint.class_guards(weighing.class_name)}
    rules = {**blueprint.require, **{rule: parse(rule) for rule in guards}}
    sizes = _limits(blueprint)
    kinds = {name: kind for name, kind in blueprint.kinds.items() if name not in sizes}
    return {
        "fields": {name: value_json(value) for name, value in stated.items()},
        "spelled": [name for name in following if model.given.get(name) is not None],
        "computed": {name: table.number(tree) for name, tree in blueprint.computed.items()},
        "fixed": fields_without_dial(model),
        "sizes": sizes,
        "kinds": {name: kind.__name__ for name, kind in kinds.items()},
        "nullable": sorted(blueprint.nullable),
        "values": {name: list(texts) for name, texts in blueprint.values.items()},
        "require": [[text, table.number(tree)] for text, tree in rules.items()],
        **_words_of_fields(model),
    }


def _limits(blueprint: Blueprint) -> dict[str, list[int]]:
    """Return the least and the largest value of each size."""
    limits = {}
    for name in sorted(blueprint.sizes):
        most = MOST_LAYERS if name in blueprint.counts else LARGEST_SIZE
        limits[name] = [0 if name in blueprint.zero else 1, most]
    return limits


def _words_of_fields(model: Model) -> dict[str, Any]:
    letters, symbols = letters_of(model.blueprint), size_symbols()
    known = [name for name in model.fields if name.rpartition(".")[2] in symbols]
    return {
        "letters": {name: letters[name] for name in letters if name in model.fields},
        "meanings": {lang: {name: meaning_of(name, lang) for name in known} for lang in LANGUAGES},
    }


def _as_tensor(template: Template, ledger: Ledger, table: TreeTable) -> dict[str, Any]:
    """Return a tensor: its name, role and dims, and where, when and as what else it exists."""
    dims = ledger.blueprint.dims
    tensor: dict[str, Any] = {
        "name": template.name,
        "role": template.role,
        "dims": [table.number(dims[dim]) for dim in template.dims],
    }
    if template.repeat:
        tensor["repeat"] = list(template.repeat)
    if template.varies:
        tensor["varies"] = sorted(template.varies)
    if template.when:
        tensor["when"] = [table.number(condition) for condition in template.when]
    if template.tie:
        when, at = template.tie.when, template.tie.at
        tensor["tie"] = [template.tie.to, when and table.number(when), at and table.number(at)]
    if template.active:
        tensor["active"] = [table.number(template.active.number), template.active.over]
    return tensor


def _modules_of_rows(ledger: Ledger) -> dict[str, str]:
    """Return the class of each module that a row of the map may be: a layer, or below the base."""
    below = ledger.blueprint.prefix(ledger.class_name)
    return {
        path: kind
        for path, kind in ledger.blueprint.modules(ledger.class_name).items()
        if path.endswith("}") or "." not in path.removeprefix(below)
    }


def _words_of_components(ledger: Ledger) -> dict[str, Any]:
    roles = dict.fromkeys(template.role for template in _all_templates(ledger))
    components = {role: component_of(role) for role in roles}
    known = data.read_toml("facts/roles.toml")["components"]
    return {
        "components": components,
        "names": {
            name: known.get(name, dict.fromkeys(LANGUAGES, name))
            for name in dict.fromkeys(components.values())
        },
    }


def _about_formulas(ledger: Ledger, table: TreeTable) -> dict[str, Any]:
    """Return the formula of each component in fields, and the names that stand in them."""
    lettering = Lettering(ledger)
    formulas = {
        group.name: table.number(lettering.tree(ledger.formula_of([group]), letters=False))
        for group in ledger.by("component")
    }
    parts = {name: table.number(tree) for name, tree in lettering.parts.items()}
    meanings = {
        lang: {name: lettering.part_meaning(name, lang) for name in parts} for lang in LANGUAGES
    }
    return {"formulas": formulas, "parts": parts, "partMeanings": meanings}


def _checked_settings(bench: Bench) -> Iterator[list[Any]]:
    """Yield settings with their totals and active parameters, the same on every machine."""
    random = Random(f"{bench.model.blueprint.family} {bench.class_name}")  # noqa: S311
    yield [{}, *_totals_at(bench, {})]
    found = 1
    for _ in range(_MOST_TRIES):
        if found == CHECKS:
            return
        changes = bench.random_changes(random)
        try:
            totals = _totals_at(bench, changes)
        except WeighbridgeError:
            continue
        found += 1
        yield [{name: value_json(value) for name, value in changes.items()}, *totals]


def _totals_at(bench: Bench, changes: Mapping[str, Any]) -> tuple[str, str]:
    weighing = bench.weigh(changes)
    return str(weighing.parameters), str(weighing.ledger.active)
