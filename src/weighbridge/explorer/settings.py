"""Other settings of a model: what a page's dials do, by the package's own reading of a config."""

from __future__ import annotations

from weighbridge.algebra.expr import evaluate, is_number
from weighbridge.answers.weigh import Weighing
from weighbridge.errors import WeighbridgeError
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.models import libraries
from weighbridge.models.find import find, thawed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from random import Random
    from typing import Any

    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.models.find import Model

_KEPT = ("architectures", "dtype", "torch_dtype", "quantization_config")
"""The fields besides those of a blueprint that a config keeps: its class and its bytes."""


def following_fields(model: Model) -> list[str]:
    """Return the fields that follow from other fields here.

    A list that a config spells out, and that would be the same if it did not, follows too: else
    no dial could change the number of layers of a config with ``layer_types``.

    Example:
        >>> from weighbridge.models.find import find
        >>> following_fields(find("gpt2"))
        ['n_inner', 'num_labels']
    """
    following = dict.fromkeys(model.computed)
    for name, tree in model.blueprint.computed.items():
        value = model.fields[name]
        if isinstance(value, tuple) and name not in following:
            try:
                computed = evaluate(tree, model.fields)
            except WeighbridgeError:
                continue
            if isinstance(computed, list | tuple) and [*computed] == [*value]:
                following[name] = None
    return list(following)


def explicit_config(model: Model, more: Iterable[str] = ()) -> dict[str, Any]:
    """Return a config that gives every field of a model, and leaves out those that follow.

    ``more`` are fields that no blueprint has, which it keeps if they are given.

    A config without a sub-config has other defaults in it than one with an empty sub-config. This
    one has every sub-config, so changing a field in it changes no other.
    """
    blueprint, following = model.blueprint, frozenset(following_fields(model))
    config = libraries.naming_fields(model.config, blueprint)
    config |= {name: model.config[name] for name in _KEPT if name in model.config}
    absent = absent_configs(model)
    for path, family in blueprint.configs.items():
        stated = model.given.get(f"{path}.model_type") or family
        if stated and not _is_inside(path, absent):
            _set_field(config, f"{path}.model_type", stated)
    for name, value in model.values.items():
        is_left_out = value is None and not _is_null(name, blueprint)
        parent = name.rpartition(".")[0]
        if not (name in following or is_left_out or _is_inside(parent, absent)):
            _set_field(config, name, thawed(value))
    for name in more:
        if name in model.given:
            _set_field(config, name, thawed(model.given[name]))
    return config


def absent_configs(model: Model) -> list[str]:
    """Return the paths of the sub-configs that a model lacks."""
    return [path for path in model.blueprint.configs if model.fields.get(path, path) is None]


def fields_without_dial(model: Model) -> list[str]:
    """Return the fields without a dial: sub-configs, and what would be in one that is absent."""
    absent, configs = absent_configs(model), model.blueprint.configs
    parents = {name: name.rpartition(".")[0] for name in model.fields}
    return [name for name in parents if name in configs or _is_inside(parents[name], absent)]


def _is_inside(path: str, absent: Iterable[str]) -> bool:
    """Whether a path is that of a sub-config that a model lacks, or inside one."""
    return any(f"{path}.".startswith(f"{sub_config}.") for sub_config in absent)


def _is_null(name: str, blueprint: Blueprint) -> bool:
    """Whether null is a value of a field, and does not leave it to follow from others."""
    return name in blueprint.nullable and name not in blueprint.computed


def _set_field(config: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for parent in parents:
        config = config.setdefault(parent, {})
    config[last] = value


class Bench:
    """A model of which fields are changed again and again, in the way that `weigh` changes them."""

    def __init__(self, weighing: Weighing) -> None:
        self.model, self.class_name = weighing.model, weighing.class_name
        self.config = explicit_config(self.model)
        self._dtype = weighing.ledger.dtype

    def weigh(self, changes: Mapping[str, Any]) -> Weighing:
        """Weigh the class with some fields changed.

        Raises:
            WeighbridgeError: such a model cannot be built.
        """
        own = self.model.blueprint
        reading = None

        def own_blueprint(_config: Mapping[str, Any], _where: str) -> Blueprint:
            return own

        if own.where or not own.is_of_transformers:
            reading = own_blueprint
        found = find(self.config, changes, blueprint=reading, class_name=self.class_name)
        return Weighing(found, self.class_name, self._dtype)

    def random_changes(self, random: Random) -> dict[str, Any]:
        """Return other values for one to four fields, of which some cannot be built."""
        names = sorted(set(self.model.fields).difference(fields_without_dial(self.model)))
        chosen = random.sample(names, min(len(names), random.randint(1, 4)))
        changes = {}
        for name in chosen:
            values = list(_other_values(name, self.model, random))
            if values:
                changes[name] = random.choice(values)
        return changes


def _other_values(name: str, model: Model, random: Random) -> Iterator[Any]:
    """Yield other values of a field."""
    blueprint, value = model.blueprint, model.fields[name]
    if name in blueprint.nullable:
        yield None
    if name in blueprint.values and isinstance(value, str):
        yield from blueprint.values[name]
    elif isinstance(value, bool):
        yield not value
    elif is_number(value):
        yield from _other_numbers(name, value, blueprint, random)
    elif isinstance(value, tuple) and value and name not in blueprint.computed:
        yield [item * 2 if type(item) is int else item for item in value]
    elif name == "id2label":
        yield {str(label): f"LABEL_{label}" for label in range(random.randint(1, 9))}


def _other_numbers(
    name: str, value: float, blueprint: Blueprint, random: Random
) -> Iterator[float]:
    if isinstance(value, float):
        yield from (value * 0.5, value * 1.25, value * 1.5, value * 2)
    elif name in blueprint.counts:
        yield from (random.randint(0, 2 * abs(value) + 2) for _ in range(4))
    else:
        yield from (value * 2, value * 3, value * 4, max(1, value // 2))
        yield from (random.randint(0, 3 * abs(value) + 3), value + 1)
