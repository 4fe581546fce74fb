"""Reads ``per_layer_config``: the form in which transformers saves other sizes of some layers.

A config class that takes two sizes, one for the layers of full attention, saves them only there.
The table `per_layer` of the facts names the fields that these sizes are in a blueprint.
"""

from __future__ import annotations

from weighbridge import data
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from weighbridge.blueprint.schema import Blueprint

    Config = Mapping[str, Any]

OVERRIDES = "per_layer_config"
_FULL = "full_attention"


def without_overrides(given: Config, blueprint: Blueprint) -> dict[str, Any]:
    """Return a flattened config with fields in place of the overrides that mean the same.

    Overrides of other layers, or of other sizes, stay; they are refused.
    """
    translated: dict[str, Any] = {}
    for name, value in given.items():
        parent, _, last = name.rpartition(".")
        fields = None
        if last == OVERRIDES and hasattr(value, "keys"):
            fields = _as_fields(value, f"{parent}." * bool(parent), given, blueprint)
        if fields is None:
            translated[name] = value
        else:
            translated.update(fields)
    return translated


def _as_fields(
    overrides: Config, prefix: str, given: Config, blueprint: Blueprint
) -> dict[str, Any] | None:
    """Return the fields that overrides stand for; None if they mean something else."""
    facts = data.read_toml("facts/fields.toml")
    layers = list(overrides.values())
    if not all(hasattr(layer, "keys") for layer in layers):
        return None
    if blueprint.fields.isdisjoint(_fields_of(prefix, facts)):
        layer_types = given.get(f"{prefix}layer_types")
        are_alike = isinstance(layer_types, list) and set(layer_types) <= {_FULL}
        are_harmless = [bool(layer) and layer.keys() <= facts["any"].keys() for layer in layers]
        if all(are_harmless) and (layers or are_alike):
            return {}
        return None
    if not layers or not all(dict(layer) == dict(layers[0]) for layer in layers):
        return None
    if not layers[0].keys() <= facts["per_layer"].keys():
        return None
    if not _are_global(overrides, prefix, given):
        return None
    return _global_fields(layers[0], prefix, given, blueprint)


def _global_fields(
    sizes: Config, prefix: str, given: Config, blueprint: Blueprint
) -> dict[str, Any] | None:
    """Return the fields for the sizes of the layers of full attention."""
    fields: dict[str, Any] = {}
    for size, name in data.read_toml("facts/fields.toml")["per_layer"].items():
        field = f"{prefix}{name}"
        if field in given or field not in blueprint.fields:
            return None
        if size in sizes:
            fields[field] = sizes[size]
        elif blueprint.at_defaults[field] is not None:  # null stands for the size of all layers
            fields[field] = given.get(f"{prefix}{size}")
    return fields


def _fields_of(prefix: str, facts: Config) -> list[str]:
    return [f"{prefix}{name}" for name in facts["per_layer"].values()]


def _are_global(overrides: Config, prefix: str, given: Config) -> bool:
    """Whether these are the layers of full attention, as the config lists the layers."""
    layer_types = given.get(f"{prefix}layer_types")
    if not isinstance(layer_types, list) or not all(name.isdecimal() for name in overrides):
        return False
    is_gated_off = given.get(f"{prefix}attention_k_eq_v") is False
    if is_gated_off and "num_key_value_heads" in next(iter(overrides.values())):
        return False
    expected = {layer for layer, kind in enumerate(layer_types) if kind == _FULL}
    return {int(name) for name in overrides} == expected
