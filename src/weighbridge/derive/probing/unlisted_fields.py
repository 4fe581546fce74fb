"""Fields that reference code reads and no config class declares: `getattr(config, "name", 4)`.

A config may have such a field at the top or in a sub-config. The code that reads it in a sub-config
is that of the sub-config's own model type.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from weighbridge.derive.probing.family_configs import config_at
from weighbridge.derive.probing.family_keywords import literal_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from transformers.configuration_utils import PreTrainedConfig

_ASKED = re.compile(r"getattr\((?:self\.)?config, ['\"](\w+)['\"], ([^()]*)")
# getattr(config.decoder, "name", … and getattr(self.decoder.config, "name", …
_ASKED_BELOW = re.compile(
    r"getattr\((?:self\.)?(?:config\.)?(\w+)(?:\.config)?, ['\"](\w+)['\"], None\)"
)


def read_unlisted(code: str, config: PreTrainedConfig) -> dict[str, bool | float | str | None]:
    """Return the fields that code reads in a config and its class does not have.

    The value is the one that the code uses if the field is absent; None if that is not always the
    same constant.
    """
    known = {*dir(type(config)), *vars(config), *type(config).attribute_map}
    defaults: dict[str, set[str]] = {}
    for name, value in _ASKED.findall(code):
        if name not in known and not name.startswith("_"):
            defaults.setdefault(name, set()).add(value)
    return {name: literal_in(" or ".join(values)) for name, values in defaults.items()}


def read_below(
    code: str, config: PreTrainedConfig, sub_configs: Mapping[str, str]
) -> Iterator[str]:
    """Yield the fields of sub-configs of any type that code reads and their classes do not have."""
    for place, name in _ASKED_BELOW.findall(code):
        if sub_configs.get(place) and not hasattr(config_at(config, place), name):
            yield f"{place}.{name}"


@cache
def model_code(config_module: str) -> str:
    """Return the model code beside a module of configs; empty if there is none."""
    found = importlib.util.find_spec(config_module.replace(".configuration_", ".modeling_"))
    if found is None or found.origin is None:  # its config is used without a model of its own
        return ""
    return Path(found.origin).read_text(encoding="utf-8")
