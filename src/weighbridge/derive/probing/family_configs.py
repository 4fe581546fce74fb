"""The configs of transformers: their fields by dotted path, and fields whose values remember."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any
from unittest import mock

from transformers.configuration_utils import PreTrainedConfig
from transformers.models.auto import AutoConfig

from weighbridge.derive.probing.subject import Knob
from weighbridge.derive.probing.symbolic import lift, plain_value

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

# Fields that every config has: they decide no tensor.
GENERIC_FIELDS = frozenset(field.name for field in dataclasses.fields(PreTrainedConfig))
_LABEL_TABLES = ("id2label", "label2id")  # only their length matters, and num_labels gives it
_PRIVATE_FIELD = "_sliding_window_pattern"  # private, but config files have it
_PATH = "_weighbridge_path"  # the attribute in which a sub-config keeps its dotted path


# Fields by dotted path


def config_at(config: Any, place: str) -> PreTrainedConfig | None:
    """Return the sub-config at a dotted path; None if there is none."""
    for name in filter(None, place.split(".")):
        config = vars(config).get(name)
        if not isinstance(config, PreTrainedConfig):
            return None
    return config  # type: ignore[no-any-return]


def _sub_configs(config: PreTrainedConfig) -> Iterator[tuple[str, PreTrainedConfig]]:
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig) and not name.startswith("_"):
            yield name, value


def sub_config_types(config: PreTrainedConfig, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each sub-config with its model type; ``""`` if its class is fixed."""
    for name, sub_config in _sub_configs(config):
        spec = config.sub_configs_defaults.get(name)
        model_type = ""
        if spec is None or spec.config_class is AutoConfig:
            model_type = sub_config.model_type or ""
        yield above + name, model_type
        yield from sub_config_types(sub_config, f"{above}{name}.")


def other_spellings(config: PreTrainedConfig, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the other names that config classes list for fields, with the fields."""
    for alias, name in type(config).attribute_map.items():
        yield above + alias, above + name
    for name, sub_config in _sub_configs(config):
        yield from other_spellings(sub_config, f"{above}{name}.")


def stated_defaults(config: PreTrainedConfig, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields whose default the class states, with these defaults."""
    for field in dataclasses.fields(type(config)):
        value = vars(config).get(field.name)
        path = above + type(config).attribute_map.get(field.name, field.name)
        if isinstance(value, PreTrainedConfig):
            yield from stated_defaults(value, f"{above}{field.name}.")
        elif field.default is not dataclasses.MISSING:
            yield path, field.default
        elif field.default_factory is not dataclasses.MISSING:
            yield path, field.default_factory()


def held_values(config: PreTrainedConfig, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield everything that a config holds, unconverted."""
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            yield from held_values(value, f"{above}{name}.")
        else:
            yield above + name, value


def config_knobs(config: PreTrainedConfig, above: str = "") -> Iterator[Knob]:
    """Yield the fields that a config's class declares, with their values in this config."""
    for field in dataclasses.fields(type(config)):
        name = type(config).attribute_map.get(field.name, field.name)
        value = vars(config).get(name)
        if isinstance(value, PreTrainedConfig):
            yield from config_knobs(value, f"{above}{name}.")
        elif not name.startswith("_") and name not in GENERIC_FIELDS:
            if not isinstance(value, tuple):
                value = plain_value(value)
            yield Knob(above + name, value, str(field.type))


def plain_fields(config: PreTrainedConfig, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of a config that are data, with plain values."""
    for name, value in vars(config).items():
        if name.startswith("_") and name != _PRIVATE_FIELD:
            continue
        if isinstance(value, PreTrainedConfig):
            yield from plain_fields(value, f"{above}{name}.")
        elif name in _LABEL_TABLES:
            yield above + name, {str(key): item for key, item in (value or {}).items()}
        elif isinstance(value, dict):
            yield from _plain_items(value, f"{above}{name}.")
        elif _is_data(value):
            yield above + name, plain_value(value)
    with contextlib.suppress(Exception):
        yield above + "num_labels", int(config.num_labels)  # type: ignore[arg-type]


def _plain_items(values: Mapping[Any, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if not isinstance(name, str):
            continue
        if isinstance(value, dict):
            yield from _plain_items(value, f"{above}{name}.")
        elif _is_data(value):
            yield above + name, plain_value(value)


def _is_data(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | tuple)


# Fields whose values remember


def remember_fields(config: PreTrainedConfig, above: str, by_identity: Container[str]) -> None:
    """Let every value of a config remember its field, except flags that are compared by identity.

    Args:
        config: the config, changed in place.
        above: the dotted path of the config, with a final dot.
        by_identity: the names of these flags.
    """
    vars(config)[_PATH] = above
    for name, value in vars(config).items():
        if name.startswith("_") or name in _LABEL_TABLES or name.endswith("dtype"):
            continue
        if isinstance(value, PreTrainedConfig):
            remember_fields(value, f"{above}{name}.", by_identity)
        elif isinstance(value, bool) and name in by_identity:
            continue
        elif isinstance(value, dict):
            vars(config)[name] = _remembering_items(value, f"{above}{name}.")
        else:
            vars(config)[name] = lift(value, ("name", above + name))


def _remembering_items(values: Mapping[Any, Any], above: str) -> dict[Any, Any]:
    remembering: dict[Any, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            remembering[name] = _remembering_items(value, f"{above}{name}.")
        elif isinstance(name, str) and name.isidentifier():
            remembering[name] = lift(value, ("name", f"{above}{name}"))
        else:
            remembering[name] = value
    return remembering


@contextlib.contextmanager
def remembered_labels() -> Iterator[None]:
    """Let ``config.num_labels``, a property, remember its field."""
    original: Any = PreTrainedConfig.num_labels

    def num_labels(self: PreTrainedConfig) -> Any:
        number = original.fget(self)
        if _PATH not in vars(self):
            return number
        return lift(number, ("name", f"{vars(self)[_PATH]}num_labels"))

    labels = property(num_labels, original.fset)
    with mock.patch.object(PreTrainedConfig, "num_labels", labels), values_of_any_type():
        yield


def values_of_any_type() -> contextlib.AbstractContextManager[Any]:
    """Let configs accept values that remember where their class requires Python's own types."""
    return mock.patch("huggingface_hub.dataclasses.type_validator", new=_accept)


def _accept(*_: object) -> None:
    pass
