"""Reads the settings of a LoRA adapter from the `adapter_config.json` that peft saves with it."""

from __future__ import annotations

from weighbridge import data
from weighbridge.costs.lora_settings import ALL_LINEAR, METHODS, PATTERN, lora_settings
from weighbridge.errors import ConfigError, ModelError, UsageError, shorten
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from weighbridge.costs.lora_settings import LoraSettings

_INSPECT = "`weighbridge inspect` counts the adapter's file"


def settings_in(config: Mapping[str, Any], where: str) -> LoraSettings:
    """Return the settings of an adapter from its config, of which ``where`` is the place.

    Raises:
        ModelError: it is no adapter of LoRA, or has a setting whose tensors are not known.
        ConfigError: a setting has a value that peft does not take.

    Example:
        >>> config = {"peft_type": "LORA", "r": 16, "target_modules": ["q_proj"], "use_dora": True}
        >>> settings_in(config, "adapter_config.json").method
        'dora'
    """
    facts = data.read_toml("facts/lora.toml")["config"]
    if config.get("peft_type") != facts["type"]:
        what = f"an adapter of the type {shorten(config.get('peft_type'), str)} is not counted"
        raise ModelError(what, where=where, hint=_INSPECT)
    known = {*facts["read"], *facts["neutral"]}
    for name, value in config.items():
        if name not in known and value not in (None, False, 0, "", [], {}):
            what = "the tensors that this setting of an adapter makes are not known"
            raise ModelError(what, where=where, values={name: value}, hint=_INSPECT)
    given = {name: config[name] for name in facts["read"] if config.get(name) is not None}
    try:
        return lora_settings(
            r=given.get("r", 0),
            targets=_targets(given.get("target_modules")),
            method=METHODS[bool(given.get("use_dora"))],
            rank_pattern=given.get("rank_pattern"),
            layers=given.get("layers_to_transform"),
            bias=given.get("bias", "none"),
            save=given.get("modules_to_save", ()),
            parameters=given.get("target_parameters", ()),
            exclude=_targets(given.get("exclude_modules", ())),
            task_type=given.get("task_type"),
            ties=bool(given.get("ensure_weight_tying")),
        )
    except UsageError as error:
        hint = "mend the adapter's config, or download it again"
        raise ConfigError(error.what, where=where, values=error.values, hint=hint) from None


def _targets(given: Any) -> Any:
    """Return names of modules; a text other than `ALL_LINEAR` is a regular expression to peft."""
    if isinstance(given, str) and given.lower() != ALL_LINEAR:
        return f"{PATTERN}{given}"
    return given


def class_adapted(config: Mapping[str, Any], names: Iterable[str], usual: str) -> str:
    """Return the class that peft put an adapter on: by the config, or else by its task.

    Args:
        config: the adapter's config.
        names: the classes of the base model's family.
        usual: the class of the base model if the adapter's config says nothing.

    Example:
        >>> names = ("BertModel", "BertForMaskedLM", "BertForSequenceClassification")
        >>> class_adapted({"task_type": "SEQ_CLS"}, names, "BertForMaskedLM")
        'BertForSequenceClassification'
    """
    names = list(names)
    mapping = config.get("auto_mapping")
    stated = mapping.get("base_model_class") if isinstance(mapping, dict) else None
    if stated in names:
        return str(stated)
    endings = data.read_toml("facts/lora.toml")["task_classes"].get(
        str(config.get("task_type")), ()
    )
    if usual.endswith(tuple(endings)):
        return usual
    fitting = [name for name in names if name.endswith(tuple(endings))] if endings else []
    return fitting[0] if len(fitting) == 1 else usual
