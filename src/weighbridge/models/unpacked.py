"""Reads objects in a config whose values the config class takes as fields of its own.

The table `facts/unpacked.toml` names them. So the code of Kimi Linear has a width of its linear
heads, which released configs give in an object, beside the lists of the layers that have them.
"""

from __future__ import annotations

from weighbridge import data
from weighbridge.errors import ConfigError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from weighbridge.blueprint.schema import Blueprint

    Config = Mapping[str, Any]

_COUNT = "num_hidden_layers"


def unpacked(given: Config, blueprint: Blueprint, where: str) -> dict[str, Any]:
    """Return a flattened config with fields in place of the objects that hold them.

    Raises:
        ConfigError: an object has a key that is no field, or does not say of each layer once which
            type it has.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> unpacked({"linear_attn_config": {"num_heads": 8}}, load("kimi_linear"), "config.json")
        {'linear_num_heads': 8}
    """
    fields = dict(given)
    for name, facts in data.read_toml("facts/unpacked.toml").get(blueprint.family, {}).items():
        packed: Any = given.get(name)
        if hasattr(packed, "keys"):
            del fields[name]
            fields.update(_renamed(packed, facts, name, where))
            fields.update(_layers(packed, facts["layers"], name, given, blueprint, where))
    return fields


def _renamed(packed: Config, facts: Config, name: str, where: str) -> dict[str, Any]:
    """Return the fields that an object names otherwise."""
    renamed = facts["fields"]
    known = {*renamed}.union(*facts["layers"].values())
    for key, value in packed.items():
        if key not in known:
            what, hint = f"{name} has a key that is no field", "correct it, or remove it"
            raise ConfigError(what, where=where, values={key: value}, hint=hint)
    return {renamed[key]: value for key, value in packed.items() if key in renamed}


def _layers(
    packed: Config, facts: Config, name: str, given: Config, blueprint: Blueprint, where: str
) -> dict[str, list[str]]:
    """Return the lists of types that an object gives by the layers of each type."""
    count = given.get(_COUNT, blueprint.at_defaults[_COUNT])
    fields = {}
    for field, types in facts.items():
        if given.get(field) is None and types.keys() <= packed.keys():
            by_key = {f"{name}.{key}": packed[key] for key in types}
            fields[field] = _types_in_order(by_key, [*types.values()], count, where)
    return fields


def _types_in_order(layers: Config, types: list[str], count: Any, where: str) -> list[str]:
    """Return the type of each layer, from the layers of each type, counted from 1."""
    by_layer: dict[Any, str] = {}
    for (key, numbers), kind in zip(layers.items(), types, strict=True):
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            what, hint = f"{key} must list layers, counted from 1", "correct it, or remove it"
            raise ConfigError(what, where=where, values={key: numbers}, hint=hint)
        by_layer.update(dict.fromkeys(numbers, kind))
    stated = sum(map(len, layers.values()))
    if type(count) is not int or sorted(by_layer) != [*range(1, stated + 1)] or stated != count:
        raise ConfigError(
            f"{' and '.join(layers)} must list each layer once, from 1 to {_COUNT}",
            where=where,
            values={_COUNT: count, **layers},
            hint="correct these lists, or remove both",
        )
    return [by_layer[layer + 1] for layer in range(stated)]
