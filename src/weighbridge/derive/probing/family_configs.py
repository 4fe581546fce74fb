"""The configs of transformers: their fields by dotted path, and fields whose values remember."""

from __future__ import annotations

import contextlib
import dataclasses
from functools import cache
from typing import TYPE_CHECKING, Any

from huggingface_hub import dataclasses as config_classes
from transformers.backbone_utils import BackboneConfigMixin
from transformers.configuration_utils import PreTrainedConfig
from transformers.models.auto import AutoConfig

from weighbridge.derive.probing.candidates import STAGES_ANNOTATION
from weighbridge.derive.probing.subject import Knob
from weighbridge.derive.probing.symbolic import lift, plain_value

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

# Fields that every config has: they decide no tensor.
GENERIC_FIELDS = frozenset(field.name for field in dataclasses.fields(PreTrainedConfig))
_LABEL_TABLES = ("id2label", "label2id")  # only their length matters, and num_labels gives it
_PRIVATE_FIELD = "_sliding_window_pattern"  # private, but config files have it
_PER_LAYER = "_heterogeneity_spec"  # the attribute of a config whose layers differ in a field
_STAGES = "_out_features"  # private, but config files have it as `out_features`
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
        elif field.name == _STAGES:
            yield from _stages(config, above)
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
        elif name == _STAGES:
            for path, stages in _stages(config, above):
                yield Knob(path, stages, f"{STAGES_ANNOTATION}{config.stage_names}")
        elif _is_field(config, name) and name not in GENERIC_FIELDS:
            if not isinstance(value, tuple):
                value = plain_value(value)
            yield Knob(above + name, value, str(field.type))


def plain_fields(config: PreTrainedConfig, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of a config that are data, with plain values."""
    for name, value in vars(config).items():
        if not _is_field(config, name):
            continue
        if isinstance(value, PreTrainedConfig):
            yield from plain_fields(value, f"{above}{name}.")
        elif name in _LABEL_TABLES:
            yield above + name, {str(key): item for key, item in (value or {}).items()}
        elif isinstance(value, dict):
            yield from _plain_items(value, f"{above}{name}.")
        elif _is_data(value):
            yield above + name, plain_value(value)
    yield from _stages(config, above)
    with contextlib.suppress(Exception):
        yield above + "num_labels", int(config.num_labels)  # type: ignore[arg-type]


def _is_field(config: PreTrainedConfig, name: str) -> bool:
    """Whether files have this attribute of a config: it is public, or a flag that is declared."""
    if not name.startswith("_") or name == _PRIVATE_FIELD:
        return True
    declared = {field.name for field in dataclasses.fields(type(config))}
    return name in declared and isinstance(vars(config).get(name), bool)


def _stages(config: Any, above: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the names of the stages whose output a backbone returns."""
    if isinstance(config, BackboneConfigMixin) and vars(config).get(_STAGES):
        yield above + "out_features", [str(plain_value(stage)) for stage in config.out_features]


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
    for path, stages in _stages(config, above):
        vars(config)[_STAGES] = lift(stages, ("name", path))
    for name, value in vars(config).items():
        if not _is_field(config, name) or name in _LABEL_TABLES or name.endswith("dtype"):
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


@cache
def prepare_configs() -> None:
    """Let ``config.num_labels``, a property, remember its field, and configs be read faster.

    This is done once and for all: after a change of a class, Python looks up all its attributes
    and those of its subclasses anew.
    """
    original: Any = PreTrainedConfig.num_labels
    read_attribute: Any = PreTrainedConfig.__getattribute__

    def num_labels(self: PreTrainedConfig) -> Any:
        number = original.fget(self)
        if _PATH not in vars(self):
            return number
        return lift(number, ("name", f"{vars(self)[_PATH]}num_labels"))

    def set_num_labels(self: PreTrainedConfig, number: Any) -> None:
        original.fset(self, number)
        vars(self).pop(_PATH, None)  # a number that the code sets is not the field

    def quick_read(self: PreTrainedConfig, name: str) -> Any:
        if _PER_LAYER in object.__getattribute__(self, "__dict__"):
            return read_attribute(self, name)
        field_of = object.__getattribute__(self, "attribute_map")
        return object.__getattribute__(self, field_of.get(name, name))

    config_class: Any = PreTrainedConfig
    config_class.num_labels = property(num_labels, set_num_labels)
    config_class.__getattribute__ = quick_read


@contextlib.contextmanager
def values_of_any_type() -> Iterator[None]:
    """Let configs accept values that remember where their class requires Python's own types."""
    module: Any = config_classes
    usual = module.type_validator
    module.type_validator = _accept
    try:
        yield
    finally:
        module.type_validator = usual


def _accept(*_: object) -> None:
    pass
