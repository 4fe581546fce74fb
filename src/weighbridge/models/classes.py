"""Finds the class that a config or a user names, if its name is not one of the blueprint's.

transformers chooses a class by the ``model_type`` and the task, and never by the text in
``architectures``. So released configs name classes that transformers spells differently, or does
not have.
"""

from __future__ import annotations

from weighbridge import data
from weighbridge.blueprint import schema as blueprints
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from weighbridge.blueprint.schema import Blueprint

    Config = Mapping[str, Any]

_TEXT_MODEL = "text_config"
"""The sub-config that transformers passes to a class which takes only this part."""


_OF_THE_WHOLE = ("dtype", "torch_dtype")
"""Fields that hold for all parts, if the sub-config does not have them."""


class TextModel(NamedTuple):
    """The config and the blueprint of the text model inside a model of several parts."""

    config: Config
    blueprint: Blueprint


def same_class(name: str, blueprint: Blueprint) -> str | None:
    """Return the class with this name, whatever its capital letters and underscores.

    Example:
        >>> same_class("PhiMoEForCausalLM", blueprints.load("phimoe"))
        'PhimoeForCausalLM'
    """
    plain_name = _bare(name)
    for known in blueprint.class_names:
        if _bare(known) == plain_name:
            return known
    return None


def class_for(name: str, blueprint: Blueprint, endings: Sequence[str]) -> str | None:
    """Return the class that transformers builds for a config that names this class.

    It is the one with the same name, or the only one that generates, if the name is of such a class
    of this family and transformers is without it.

    Example:
        >>> class_for("Step3p7FlashForCausalLM", blueprints.load("step3p7"), ("ForCausalLM",))
        >>> endings = ("ForCausalLM", "ForConditionalGeneration")
        >>> class_for("Step3p7FlashForCausalLM", blueprints.load("step3p7"), endings)
        'Step3p7ForConditionalGeneration'
    """
    same = same_class(name, blueprint)
    if same is not None or not name.endswith(tuple(endings)) or _is_missing(name, blueprint):
        return same
    generative = [known for known in blueprint.class_names if known.endswith(tuple(endings))]
    if len(generative) == 1 and name.startswith(_stem(generative[0], endings)):
        return generative[0]
    return None


def _stem(name: str, endings: Sequence[str]) -> str:
    """Return the name of a class without its ending: the part that names the family."""
    return min((name.removesuffix(ending) for ending in endings), key=len)


def _bare(name: str) -> str:
    return name.replace("_", "").lower()


def _is_missing(name: str, blueprint: Blueprint) -> bool:
    """Whether transformers has the class, but it could not be derived."""
    return any(hole.startswith(f"{name} ") for hole in blueprint.proof.get("holes", ()))


def text_model(name: str, config: Config, blueprint: Blueprint) -> TextModel | None:
    """Return the text model of a config, if it has a class that the whole model is without.

    transformers builds such a class with the sub-config alone.

    Example:
        >>> text_model("Qwen3_5ForCausalLM", {}, blueprints.load("qwen3_5")).blueprint.family
        'qwen3_5_text'
        >>> text_model("Qwen3_5Model", {}, blueprints.load("qwen3_5"))
    """
    if _TEXT_MODEL not in blueprint.configs or same_class(name, blueprint):
        return None
    inside = config.get(_TEXT_MODEL)
    if inside is None:
        inside = _defaults_inside(blueprint)
    family = text_family(config, blueprint)
    if not hasattr(inside, "keys") or family is None:
        return None
    own = blueprints.load(family)
    if name not in own.class_names:
        return None
    whole = {field: config[field] for field in _OF_THE_WHOLE if field in config}
    return TextModel({**whole, **inside, "architectures": [name], "model_type": family}, own)


def text_family(config: Config, blueprint: Blueprint) -> str | None:
    """Return the family of the text model in a config; None if there is none with a blueprint.

    Example:
        >>> text_family({}, blueprints.load("gemma3")), text_family({}, blueprints.load("llava"))
        ('gemma3_text', 'llama')
        >>> text_family({}, blueprints.load("bert"))
    """
    if _TEXT_MODEL not in blueprint.configs:
        return None
    inside: Any = config.get(_TEXT_MODEL)
    stated = inside.get("model_type") if hasattr(inside, "keys") else None
    family = stated or blueprint.configs[_TEXT_MODEL]
    family = family or f"{blueprint.family}_text"  # the usual name where the class is fixed
    return family if isinstance(family, str) and blueprints.is_family(family) else None


def _defaults_inside(blueprint: Blueprint) -> dict[str, Any]:
    """Return the text model's values in a config that does not have the sub-config."""
    prefix = f"{_TEXT_MODEL}."
    defaults: dict[str, Any] = {}
    for name, value in blueprint.defaults.items():
        if name.startswith(prefix):
            defaults[name.removeprefix(prefix)] = value
    return defaults


def generative_endings() -> tuple[str, ...]:
    """Return the endings of the names of classes that generate."""
    return tuple(data.read_toml("facts/fields.toml")["architectures"]["generative"])
