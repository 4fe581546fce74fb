"""Where the configs of a family are: the dotted paths of each config class."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weighbridge.derive.probing.subject import Subject

# Packages whose code is no part of a model's config class, except for the models of transformers.
_NOT_REFERENCE = (
    "builtins.",
    "huggingface_hub.",
    "pydantic.",
    "torch.",
    "transformers.",
    "weighbridge.",
)
_REFERENCE = "transformers.models."


def places_by_type(subject: Subject) -> dict[type, list[str]]:
    """Return the dotted paths of the configs of each class, each with a final dot."""
    places: dict[type, list[str]] = {}

    def add(config: Any, above: str) -> None:
        places.setdefault(type(config), []).append(above)
        for path in subject.sub_configs:
            holder, _, name = path.rpartition(".")
            if f"{holder}.".removeprefix(".") == above:
                sub_config = getattr(config, name, None)
                if sub_config is not None and not isinstance(sub_config, dict):
                    add(sub_config, f"{path}.")

    optional: dict[str, Any] = {place: {} for place in subject.optional}
    config = subject.config({**subject.start, **optional})
    if not isinstance(config, dict):
        add(config, "")
    return places


def config_files(subject: Subject) -> set[str]:
    """Return the source files of the config classes of a subject, and of their bases."""
    files: set[str] = set()
    for kind in places_by_type(subject):
        for base in kind.__mro__:
            name = f"{base.__module__}."
            file = getattr(sys.modules.get(base.__module__), "__file__", None)
            if file and (name.startswith(_REFERENCE) or not name.startswith(_NOT_REFERENCE)):
                files.add(file)
    return files
