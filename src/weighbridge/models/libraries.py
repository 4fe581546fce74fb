"""Models of libraries whose configs name a class, not a family: those of diffusers and timm."""

from __future__ import annotations

from weighbridge import data
from weighbridge.blueprint import schema
from weighbridge.errors import ConfigError
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.models import timm_configs
from weighbridge.models.fields import bind_fields, flattened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.blueprint.schema import Blueprint

    Config = Mapping[str, Any]

LIBRARIES = {"_class_name": "diffusers"}
"""The library of a config by the field that names the class."""

_OF_A_VARIANT = "-"
"""What separates the name of a class from the rest of the name of one of its blueprints."""


def class_of(config: Config) -> tuple[str, str] | None:
    """Return the library and the class that a config names; None if it names none.

    An old name of a class is replaced, as the library does.

    Example:
        >>> class_of({"_class_name": "Transformer2DModel", "norm_type": "ada_norm_zero"})
        ('diffusers', 'DiTTransformer2DModel')
    """
    for field, library in LIBRARIES.items():
        stated = config.get(field)
        if isinstance(stated, str):
            renamed = data.read_toml(f"facts/{library}.toml")["renamed"].get(stated, {})
            for other_field, names in renamed.items():
                value = config.get(other_field)
                stated = names.get(value, stated) if isinstance(value, str) else stated
            return library, stated
    class_of_timm = timm_configs.architecture_class(config)
    return None if class_of_timm is None else (timm_configs.LIBRARY, class_of_timm)


def naming_fields(config: Config, blueprint: Blueprint) -> dict[str, Any]:
    """Return the fields by which a config says which family, or class of a library, it is of.

    Example:
        >>> config = {"_class_name": "AutoencoderKL", "in_channels": 3}
        >>> naming_fields(config, schema.load_of("diffusers", "AutoencoderKL"))
        {'_class_name': 'AutoencoderKL'}
        >>> naming_fields({}, schema.load("bert"))
        {'model_type': 'bert'}
    """
    if blueprint.is_of_transformers or blueprint.where:
        return {"model_type": blueprint.family}
    names = (*LIBRARIES, timm_configs.NAME, timm_configs.PRETRAINED)
    return {name: config[name] for name in names if name in config}


def as_its_library_writes(config: Config) -> tuple[dict[str, Any], str]:
    """Return a config that states every field in the form of its library's own.

    The text is the field of it that has all others; it is empty if they are not in one.

    Example:
        >>> as_its_library_writes({"architecture": "mixer_b16_224", "pretrained_cfg": {}})[1]
        'model_args'
    """
    if timm_configs.is_of_timm(config):
        return timm_configs.as_timm_writes(config), timm_configs.ARGUMENTS
    return dict(config), ""


def blueprint_for(config: Config, where: str) -> Blueprint | None:
    """Return the blueprint of the class that a config names; None if there is none.

    Of several blueprints of a class it is the first that covers the config.

    Example:
        >>> blueprint_for({"_class_name": "FluxTransformer2DModel"}, "config.json").base_class
        'FluxTransformer2DModel'

    Raises:
        ConfigError: the class has several blueprints, and none covers the config.
    """
    named = class_of(config)
    blueprints = [] if named is None else list(_blueprints_of(*named))
    if len(blueprints) < 2:  # one that does not cover the config says why
        return blueprints[0] if blueprints else None
    reasons: dict[str, Mapping[str, object]] = {}
    for blueprint in blueprints:
        try:
            bind_fields(dict(flattened(config, blueprint, where)), blueprint, where, frozenset())
        except ConfigError as error:
            reasons[error.what] = error.values
        else:
            return blueprint
    first = blueprints[0]
    what = f"no blueprint of {first.base_class} covers this config: {'; '.join(reasons)}"
    values = {name: value for some in reasons.values() for name, value in some.items()}
    raise ConfigError(what, where=where, values=values, hint=first.instead)


def _blueprints_of(library: str, class_name: str) -> Iterator[Blueprint]:
    for name in schema.library_names(library):
        if name.partition(_OF_A_VARIANT)[0] == class_name:
            yield schema.load_of(library, name)
