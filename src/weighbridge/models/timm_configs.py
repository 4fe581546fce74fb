"""Configs of timm: the class that an architecture stands for, and what timm gives it.

A ``config.json`` of timm names an architecture, such as ``vit_base_patch16_224``: a function that
calls a class with arguments of its own. ``facts/timm.toml`` has the class and the arguments of each
architecture, as `tools/timm_models.py` found them. What else timm gives a class follows from the
config (``_parse_model_cfg`` and ``_update_default_model_kwargs`` of timm 1.0.31).
"""

from __future__ import annotations

import os

from weighbridge import data
from weighbridge.errors import ConfigError, ModelError, either, nearest, shorten
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Config = Mapping[str, Any]

LIBRARY = "timm"
NAME = "architecture"
"""The field by which a config of timm is known."""

PRETRAINED = "pretrained_cfg"
"""The field with what the weights of a config of timm were made for."""
ARGUMENTS = "model_args"
"""The field with the arguments that a config of timm gives the class."""

_AS_SIZE = "timm writes three numbers there: channels, height and width"
_AS_ARGUMENTS = "timm writes arguments of the class there"
_NAMING = frozenset((NAME, PRETRAINED, "model_type", "architectures"))
"""Fields that say which model a config is of, and are no arguments."""
_NUM_CLASSES, _INPUT_SIZE = 1000, (3, 224, 224)  # those of a config that states none


def is_of_timm(config: Config) -> bool:
    """Whether a config is one that timm writes.

    Example:
        >>> is_of_timm({"architecture": "resnet50", "pretrained_cfg": {}})
        True
        >>> is_of_timm({"architecture": "resnet50", "model_type": "timm_wrapper"})
        False
    """
    is_named = isinstance(config.get(NAME), str) and "model_type" not in config
    return is_named and isinstance(config.get(PRETRAINED), dict)


def architecture_class(config: Config) -> str | None:
    """Return the class of the architecture that a config of timm names; None for other configs.

    Example:
        >>> architecture_class({"architecture": "vit_base_patch16_224", "pretrained_cfg": {}})
        'VisionTransformer'
    """
    about = architectures().get(config[NAME]) if is_of_timm(config) else None
    return None if about is None else about["class"]


def config_named(name: str) -> dict[str, Any] | None:
    """Return the config of a model by its name in timm; None if there is no such model.

    Without the tag of its weights, it is the model with those that timm chooses.

    Raises:
        ModelError: the name begins with "timm/", or names an architecture, but not a known model.

    Example:
        >>> config_named("timm/vit_tiny_patch16_224.augreg_in21k")["pretrained_cfg"]["num_classes"]
        21843
        >>> config_named("convnext_atto")
        {'architecture': 'convnext_atto', 'pretrained_cfg': {'tag': 'd2_in1k'}}
        >>> config_named("bert_base") is None
        True
    """
    is_of_timm = name.startswith(f"{LIBRARY}/")
    if "_" not in name and not is_of_timm:
        return None
    architecture, _, tag = name.removeprefix(f"{LIBRARY}/").partition(".")
    weights = data.read_toml("facts/timm.toml")["weights"].get(architecture)
    if weights is None:
        if is_of_timm:
            raise _unknown(architecture, name)
        return None
    tag = tag or next(iter(weights))
    if tag not in weights:
        near = nearest(weights, tag) or list(weights)
        raise ModelError(
            f"timm has no such weights of {architecture}",
            where=name,
            hint=f"name one of its tags, such as {either(near)}",
        )
    return {NAME: architecture, PRETRAINED: {"tag": tag, **weights[tag]}}


def with_arguments(config: Config, where: str) -> dict[str, Any]:
    """Return a config of timm as its architecture and the arguments that its class is given.

    Example:
        >>> config = {"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {"num_classes": 7}}
        >>> whole = with_arguments(config, "config.json")
        >>> whole["embed_dim"], whole["num_classes"]
        (192, 7)

    Raises:
        ModelError: no blueprint has the architecture.
        ConfigError: a part of the config has not the form that timm writes.
    """
    about = architectures().get(config[NAME])
    if about is None:
        raise _unknown(config[NAME], where)
    pretrained, stated = (_object_in(config, name, where) for name in (PRETRAINED, ARGUMENTS))
    for name in _NAMING.intersection(stated):
        raise _misformed(f"model_args.{name}", stated[name], _AS_ARGUMENTS, where)
    given = {**about["arguments"], **dict.fromkeys(about.get("null", ())), **stated}
    for name, value in _of_the_weights(config, pretrained, stated, where):
        given.setdefault(name, value)
    if "img_size" in given:
        given["img_size"] = _side(given["img_size"])
    return {NAME: config[NAME], PRETRAINED: {}, **given}


def as_timm_writes(config: Config) -> dict[str, Any]:
    """Return a config with arguments, such as `with_arguments` gives, in the form of timm's own.

    An argument of the architecture that it leaves out is null there.

    Example:
        >>> flat = {"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {}, "depth": 3}
        >>> as_timm_writes(flat)["model_args"]
        {'patch_size': None, 'embed_dim': None, 'depth': 3, 'num_heads': None}
    """
    named = {name: value for name, value in config.items() if name in _NAMING}
    of_the_architecture = architectures()[config[NAME]]["arguments"]
    given = {name: value for name, value in config.items() if name not in _NAMING}
    return {**named, ARGUMENTS: {**dict.fromkeys(of_the_architecture), **given}}


def _of_the_weights(
    config: Config, pretrained: Config, stated: Config, where: str
) -> Iterator[tuple[str, Any]]:
    """Yield the arguments that follow from what the weights were made for."""
    classes = config.get("num_classes", pretrained.get("num_classes", _NUM_CLASSES))
    if type(classes) is not int:
        raise _misformed("num_classes", classes, "timm writes a number there", where)
    if classes >= 0:
        yield "num_classes", classes
    size = pretrained.get("input_size", _INPUT_SIZE)
    is_size = isinstance(size, list | tuple) and [type(number) for number in size] == [int] * 3
    if not is_size:
        raise _misformed("pretrained_cfg.input_size", size, _AS_SIZE, where)
    channels, height, width = size
    yield "in_chans", channels
    if pretrained.get("fixed_input_size", False) and not _may_be_any_size(stated):
        yield "img_size", [height, width]


def _side(size: Any) -> Any:
    """Return the size of an image as its side, if it is a square: timm takes both."""
    is_square = isinstance(size, list | tuple) and len(size) == 2 and size[0] == size[1]
    return size[0] if is_square else size


def _may_be_any_size(stated: Config) -> bool:
    """Whether the stated arguments let images have any size, whatever that of the weights was."""
    is_dynamic = stated.get("dynamic_img_size") or stated.get("use_naflex")
    return bool(is_dynamic) or stated.get("strict_img_size") is False


def _unknown(architecture: str, where: str) -> ModelError:
    listed = architectures()
    nearby = ""
    if near := nearest(listed, architecture):
        nearby = f", such as {either(near)}"
    path = "CHECKPOINT"
    if where.startswith(f"{LIBRARY}/"):
        path = f"hf://{where}"
    elif where.endswith(".json"):
        path = os.path.dirname(where) or "."
    return ModelError(
        f"there is no blueprint for the timm architecture {shorten(architecture, str)}",
        where=where,
        hint=f"{len(listed)} architectures of timm have one{nearby}; "
        f"`weighbridge inspect {path}` counts what is in its files",
    )


def _object_in(config: Config, name: str, where: str) -> dict[str, Any]:
    table = config.get(name, {})
    if not isinstance(table, dict):
        raise _misformed(name, table, "timm writes an object there", where)
    return table


def _misformed(name: str, value: object, hint: str, where: str) -> ConfigError:
    return ConfigError("timm takes no such value", where=where, values={name: value}, hint=hint)


def architectures() -> dict[str, dict[str, Any]]:
    """Return the class and the arguments of each architecture."""
    listed: dict[str, dict[str, Any]] = data.read_toml("facts/timm.toml")["architectures"]
    return listed
