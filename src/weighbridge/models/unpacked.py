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


def unpacked(
    given: Config, blueprint: Blueprint, where: str, set_by_hand: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return a flattened config with fields in place of the objects that hold them.

    An object has priority over fields of the config, but not over those set by hand, nor its lists
    of layers over a stated list of types. A key that does nothing stays, as ``object.key``.

    Raises:
        ConfigError: an object does not say of each layer once which type it has.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> packed = {"linear_attn_config": {"num_heads": 8, "gate": 1}}
        >>> unpacked(packed, load("kimi_linear"), "config.json")
        {'linear_num_heads': 8, 'linear_attn_config.gate': 1}
    """
    fields = dict(given)
    for name, facts in data.read_toml("facts/unpacked.toml")[blueprint.family].items():
        packed: Any = given.get(name)
        if hasattr(packed, "keys"):
            del fields[name]
            count = given.get(_COUNT, blueprint.at_defaults[_COUNT])
            taken = _taken_from(packed, facts, name, given, count, where).items()
            fields |= {field: of for field, of in taken if field not in set_by_hand}
    return fields


def _taken_from(
    packed: Config, facts: Config, name: str, given: Config, count: Any, where: str
) -> dict[str, Any]:
    """Return the fields that an object stands for; ``count`` is the number of layers."""
    rest, lists = dict(packed), {}
    for field, types in facts["layers"].items():
        if types.keys() <= rest.keys():
            layers = {f"{name}.{key}": rest.pop(key) for key in types}
            if given.get(field) is None:
                lists[field] = _types_in_order(layers, [*types.values()], count, where)
    renamed = {facts["fields"].get(key, f"{name}.{key}"): value for key, value in rest.items()}
    return lists | renamed


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
