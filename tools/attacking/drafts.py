"""A config that is being changed: its fields, their values and kinds, and its layers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from attacking import reference
from attacking.trees import ABSENT, copied, leaves, replace, value_at

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from attacking.starts import Family, Start
    from attacking.trees import Config, Path

MOST_LAYERS = 4
MOST_EXPERTS = 8

_LAYERS_NAME = re.compile(r"(^|_)(layers?|blocks?|depth)$|^layers_|_layers_|^n_layer$")
_NOT_LAYERS = re.compile(r"kv_shared|output_|select|feature|skip|sliding|every|first|last|drop|idx")
_EXPERTS_NAME = re.compile(r"experts$")
_HEADS_NAME = re.compile(r"heads?(_|$)|^n_head|head_num")
_NOT_SIZES = re.compile(r"(_id|_ids|_index|_token|seed|_prob|dropout|eps|version)$")


class Draft(NamedTuple):
    """A config that is being changed, with what is known of the family and the defaults."""

    family: Family
    start: Start
    config: Config
    rng: random.Random

    def aliases(self, place: Path) -> dict[str, str]:
        """Return the other names of fields that the class of a config or sub-config reads."""
        model_type = value_at(self.start.full, (*place, "model_type"))
        if isinstance(model_type, str) and reference.is_known(model_type):
            return dict(sorted(reference.config_class(model_type).attribute_map.items()))
        return {}

    def spelling(self, path: Path) -> Path:
        """Return the path of a field under the name that the config has for it."""
        for alias, name in self.aliases(path[:-1]).items():
            other = (*path[:-1], alias)
            if name == path[-1] and value_at(self.config, other) is not ABSENT:
                return other
        return path

    def value(self, path: Path) -> Any:
        """Return the value of a field: that of the config, else that of the start in full."""
        value = value_at(self.config, self.spelling(path))
        if value is ABSENT:
            value = value_at(self.start.full, path)
        return value

    def set(self, path: Path, value: Any) -> None:
        """Set a field. A sub-config that is new gets its model type, as saved configs have it."""
        path = self.spelling(path)
        parent = path[:-1]
        if parent and value_at(self.config, parent) is ABSENT and value is not ABSENT:
            model_type = value_at(self.start.full, (*parent, "model_type"))
            if isinstance(model_type, str) and self.rng.random() < 0.8:
                replace(self.config, (*parent, "model_type"), model_type)
        replace(self.config, path, value)

    def fields(self) -> dict[Path, Any]:
        """Return all fields with their values."""
        return {**dict(leaves(self.start.full)), **dict(leaves(self.config))}

    def paths(self, kind: Callable[[str, Any], bool]) -> list[Path]:
        """Return the fields of a kind; mostly those that the model's code reads."""
        paths = [path for path, value in self.fields().items() if kind(path[-1], value)]
        read = [path for path in paths if path[-1] in self.family.facts.reads]
        if read and self.rng.random() < 0.9:
            return read
        return paths

    def any_of(self, kind: Callable[[str, Any], bool]) -> Path | None:
        """Return a random field of a kind."""
        paths = self.paths(kind)
        if paths:
            return self.rng.choice(paths)
        return None

    def any_of_sub_config(self, parent: Path, kind: Callable[[str, Any], bool]) -> Path | None:
        """Return a random field of a kind in a sub-config."""
        paths = [path for path in self.paths(kind) if path[:-1] == parent]
        if paths:
            return self.rng.choice(paths)
        return None

    def beside(self, path: Path, kind: Callable[[str, Any], bool]) -> list[Path]:
        """Return the fields of a kind in the same config or sub-config."""
        return [other for other in self.paths(kind) if other[:-1] == path[:-1]]


def drafted(family: Family, rng: random.Random, *, shrink: float = 0.85) -> Draft:
    """Return a draft of one of the family's starts, mostly with few layers."""
    start = family.starts[0]
    if rng.random() < 0.4:
        start = rng.choice(family.starts)
    config = copied(start.config)
    if rng.random() < 0.25:
        config = copied(start.full)
    draft = Draft(family, start, config, rng)
    if rng.random() < shrink:
        _shrink(draft)
    return draft


def _shrink(draft: Draft) -> None:
    """Use few layers, with lists of layers to match, as people do to try a model."""
    counts: dict[int, int] = {}
    for path, value in list(leaves(draft.start.full)):
        if is_layer_count(path[-1], value) and value > MOST_LAYERS:
            counts.setdefault(value, draft.rng.randint(1, MOST_LAYERS))
            draft.set(path, counts[value])
        elif is_expert_count(path[-1], value) and value > MOST_EXPERTS:
            draft.set(path, MOST_EXPERTS)
    for path, value in list(leaves(draft.start.full)):
        is_present = value_at(draft.config, path) is not ABSENT
        if isinstance(value, list) and len(value) in counts and is_present:
            draft.set(path, value[: counts[len(value)]])


# Kinds of fields


def is_flag(_name: str, value: Any) -> bool:
    """Whether a field is a boolean."""
    return isinstance(value, bool)


def is_integer(_name: str, value: Any) -> bool:
    """Whether a field is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def may_be_size(name: str) -> bool:
    """Whether a name may be that of a size: not a token or an index."""
    return not _NOT_SIZES.search(name)


def is_size(name: str, value: Any) -> bool:
    """Whether a field is a positive size or number of something."""
    return is_integer(name, value) and value > 0 and may_be_size(name)


def is_layer_count(name: str, value: Any) -> bool:
    """Whether a field is a number of layers."""
    is_named_so = bool(_LAYERS_NAME.search(name)) and not _NOT_LAYERS.search(name)
    return is_named_so and is_size(name, value)


def is_expert_count(name: str, value: Any) -> bool:
    """Whether a field is a number of experts."""
    return bool(_EXPERTS_NAME.search(name)) and is_size(name, value)


def is_head_count(name: str, value: Any) -> bool:
    """Whether a field is a number of heads."""
    return bool(_HEADS_NAME.search(name)) and is_size(name, value)
