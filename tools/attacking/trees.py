"""Configs as trees: read, replace and remove a field by its path."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Config = dict[str, Any]
Path = tuple[str, ...]
ABSENT = object()


def copied(config: Config) -> Config:
    """Return a copy as it comes back from a JSON file."""
    copy: Config = json.loads(json.dumps(config))
    return copy


def leaves(config: Config, parent: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of each field that is not a sub-config."""
    for name, value in config.items():
        path = (*parent, name)
        if isinstance(value, dict) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def value_at(config: Config, path: Path) -> Any:
    """Return the value of a field, `ABSENT` if there is none."""
    value: Any = config
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return value


def replace(config: Config, path: Path, value: Any) -> None:
    """Set a field, or remove it if the value is `ABSENT`. Sub-configs are made where needed."""
    *parents, last = path
    holder = config
    for name in parents:
        if not isinstance(holder.get(name), dict):
            if value is ABSENT:
                return
            holder[name] = {}
        holder = holder[name]
    if value is ABSENT:
        holder.pop(last, None)
    else:
        holder[last] = value


def without(config: Config, paths: set[Path]) -> Config:
    """Return a copy without some fields, and without sub-configs that are empty then."""
    copy: Config = {}
    for name, value in config.items():
        inner = {path[1:] for path in paths if path[0] == name}
        if () in inner:
            continue
        if isinstance(value, dict) and value and inner:
            smaller = without(value, inner)
            if smaller:
                copy[name] = smaller
        else:
            copy[name] = value
    return copy


def sub_configs(config: Config, parent: Path = ()) -> Iterator[Path]:
    """Yield the paths of the sub-configs: the dictionaries that have a model type."""
    for name, value in config.items():
        if isinstance(value, dict) and isinstance(value.get("model_type"), str):
            yield (*parent, name)
            yield from sub_configs(value, (*parent, name))
