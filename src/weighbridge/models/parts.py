"""Finds the sub-configs of a config that name another model type than a blueprint's own."""

from __future__ import annotations

from weighbridge.blueprint.schema import is_family, load, sections
from weighbridge.errors import ModelError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.blueprint.schema import Blueprint

    Config = Mapping[str, Any]


def with_other_parts(blueprint: Blueprint, config: Config, where: str) -> Blueprint:
    """Return a blueprint with those of other families for sub-configs of their model types.

    Raises:
        ModelError: a family has no blueprint, or does not fit as this part.
    """
    families = tuple(_other_families(blueprint, config))
    if not families:
        return blueprint
    from weighbridge.blueprint.composition import composed  # noqa: PLC0415  # most have none

    try:
        return composed(blueprint, families)
    except ModelError as error:
        raise ModelError(error.what, where=where, hint=error.hint) from None


def model_type_in(blueprint: Blueprint, path: str, stated: object) -> object:
    """Return the model type that the reference takes a stated one for."""
    spellings = blueprint.spelled.get(f"{path}.model_type", {})
    if isinstance(stated, str):
        return spellings.get(stated, stated)
    return stated


def _other_families(blueprint: Blueprint, config: Config) -> Iterator[tuple[str, str]]:
    """Yield the path and model type of each such sub-config, also inside another one."""
    outside = "\0"
    for path in sorted(_sub_configs_of_parts(blueprint)):
        sub_config = _config_at(config, path)
        if sub_config is None or path.startswith(outside):
            continue
        family = model_type_in(blueprint, path, sub_config.get("model_type"))
        if isinstance(family, str) and family != blueprint.configs[path]:
            outside = f"{path}."
            yield path, family
            yield from _inside(path, family, sub_config)


def _inside(path: str, family: str, config: Config) -> Iterator[tuple[str, str]]:
    """Yield the same for a sub-config of this family."""
    if is_family(family):
        for below, other in _other_families(load(family), config):
            yield f"{path}.{below}", other


def _sub_configs_of_parts(blueprint: Blueprint) -> set[str]:
    """Return the sub-configs whose model type decides which model a part is."""
    paths: set[str] = set()
    for section in sections(blueprint.raw).values():
        paths.update(text.split()[0] for text in section.get("parts", {}).values())
    return paths


def _config_at(config: Any, path: str) -> Config | None:
    for name in path.split("."):
        config = config.get(name)
        if not hasattr(config, "keys"):
            return None
    return config  # type: ignore[no-any-return]
