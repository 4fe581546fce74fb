"""The families to attack, most used first, and the configs to start from."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attacking import reference, sources
from attacking.trees import replace, sub_configs
from weighbridge import data
from weighbridge.blueprint import schema
from weighbridge.models import catalogue

if TYPE_CHECKING:
    from attacking.sources import SourceFacts
    from attacking.trees import Config

ROOT = Path(__file__).resolve().parents[2]
REAL = (ROOT / "tests" / "data" / "real", ROOT / "tests" / "data" / "configs")
SHARED = ROOT.parent / "shared" / "data" / "configs"  # more of them, where a machine has it
MOST_USED = 100

_NOT_FIELDS = ("together", "pinned", "beyond")  # keys of facts/starts.toml
_NOT_OF_SHAPES = ("quantization_config", "auto_map", "transformers_version", "_name_or_path")


class Start(NamedTuple):
    """A config that is to be changed, and the same with a value for every field."""

    origin: str
    config: Config
    full: Config


class Family(NamedTuple):
    """A family to attack."""

    name: str
    classes: tuple[str, ...]
    starts: tuple[Start, ...]
    facts: SourceFacts


def families() -> list[str]:
    """Return the families with a blueprint, most used first.

    A family is used as often as the catalogue and the test data have releases of it; then as often
    as transformers' tables of tasks list it.
    """
    releases = {name: len(models) for name, models in catalogue.releases_by_family().items()}
    for config in _real_configs():
        model_type = config.get("model_type", "")
        releases[model_type] = releases.get(model_type, 0) + 1
    tables = reference.task_tables()
    known = [name for name in schema.families() if reference.is_known(name)]
    return sorted(known, key=lambda name: (-releases.get(name, 0), -tables.get(name, 0), name))


def family(name: str, classes: tuple[str, ...]) -> Family:
    """Return a family with its configs to start from, and what its code says.

    Raises:
        RefusedByReferenceError: transformers does not build its default config.
    """
    minimal = default_config(name)
    starts = [Start("defaults", minimal, reference.written(minimal, in_full=True))]
    for config in _real_configs():
        if config.get("model_type") == name:
            starts += _readable(config)
    full = starts[0].full
    types = [name, *(_type_at(full, path) for path in sub_configs(full))]
    known = [model_type for model_type in types if reference.is_known(model_type)]
    folders = sorted({reference.source_folder(model_type) for model_type in known})
    return Family(name, classes, tuple(starts), sources.facts_of(folders))


def default_config(name: str) -> Config:
    """Return the shortest config of a family that transformers builds."""
    config: Config = {"model_type": name}
    for path, value in data.read_toml("facts/starts.toml").get(name, {}).items():
        if path not in _NOT_FIELDS:
            replace(config, tuple(path.split(".")), value)
    return config


def _readable(config: Config) -> list[Start]:
    try:
        return [Start("a real config", config, reference.written(config, in_full=True))]
    except reference.RefusedByReferenceError:
        return []


def _type_at(config: Config, path: tuple[str, ...]) -> str:
    for name in path:
        config = config[name]
    return str(config["model_type"])


@cache
def _real_configs() -> tuple[Config, ...]:
    """Return the real configs of the tests and, where they are, of the shared data."""
    configs: dict[str, Config] = {}
    for folder in (*REAL, SHARED):
        for file in sorted(folder.glob("*.json")):
            config = json.loads(file.read_text(encoding="utf-8"))
            kept = {name: value for name, value in config.items() if name not in _NOT_OF_SHAPES}
            configs.setdefault(file.name, kept)
    return tuple(configs.values())
