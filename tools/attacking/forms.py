"""The forms in which people write a config: in full, as a difference, with old key names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attacking import reference
from attacking.trees import copied

if TYPE_CHECKING:
    import random

    from attacking.trees import Config

FORMS = ("as written", "as written", "in full", "difference", "old names")


def formed(config: Config, form: str, rng: random.Random) -> Config:
    """Return a config in one of `FORMS`; unchanged if transformers does not build it."""
    if form == "old names":
        return old_names(config, rng)
    if form in {"in full", "difference"}:
        try:
            return reference.written(config, in_full=form == "in full")
        except reference.RefusedByReferenceError:
            return config
    return config


def old_names(config: Config, rng: random.Random) -> Config:
    """Return a config with the other spellings that transformers reads."""
    renamed = copied(config)
    model_type = renamed.get("model_type")
    if isinstance(model_type, str) and reference.is_known(model_type):
        for alias, name in sorted(reference.config_class(model_type).attribute_map.items()):
            if name in renamed and alias not in renamed and rng.random() < 0.7:
                renamed[alias] = renamed.pop(name)
    if "dtype" in renamed:
        renamed["torch_dtype"] = renamed.pop("dtype")
    _write_rope_apart(renamed)
    for name, value in renamed.items():
        if isinstance(value, dict) and "model_type" in value:
            renamed[name] = old_names(value, rng)
    return renamed


def _write_rope_apart(config: Config) -> None:
    """Write the parameters of rotary embeddings as versions before 5 did."""
    parameters = config.get("rope_parameters")
    if not isinstance(parameters, dict) or "rope_theta" not in parameters:
        return
    del config["rope_parameters"]
    config["rope_theta"] = parameters.pop("rope_theta")
    kind = parameters.pop("rope_type", "default")
    if kind != "default":
        config["rope_scaling"] = {"type": kind, **parameters}
