"""The configs on which a flow is recorded: small ones, with the flags of a family turned.

A flow does not depend on how wide a model is. So all sizes are divided by one number, which keeps
the ratios between them, and the flags, the kinds of layers and the numbers of layers are drawn.
"""

from __future__ import annotations

import contextlib
import itertools
from functools import cached_property
from typing import TYPE_CHECKING, Any

from transformers.activations import ACT2FN

from weighbridge.algebra.expr import names_in
from weighbridge.derive.operations.draws import Draws, asked_by
from weighbridge.errors import ModelError
from weighbridge.ledger.ledger import bind
from weighbridge.models import find as models

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping

    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.probing.subject import Subject

    Changes = dict[str, Any]

FACTORS = (16, 8, 32, 4, 2)
"""What sizes are divided by; the first that gives a config of the family is the usual one."""
LAYERS = (2, 5)
_USUAL_LAYERS = 4
_TURNS = 4  # of layers that share their weights
_FEW_LAYERS = 2  # of each stage, where a field lists them
_LEAST = 32  # smaller numbers are no widths, and stay
_MOST_PARAMETERS = 60_000_000
_MOST_HEADS = 128  # that stay as they are
_LARGE_PICTURE = 256
_KEPT = (
    "patch_size",
    "num_channels",
    "image_size",
    "kernel",
    "stride",
    "window",
    "_bins",
    "_buckets",
    "groups",
)
_NEVER = ("output_", "use_cache", "return_dict", "tie_", "torchscript", "use_return_dict")
_LEAST_EXPERTS = 16  # so that each group has several
_STRUCTURE = 3  # a small number that decides which layers exist is drawn from 0 to this


class FlowDraws:
    """The draws of a family."""

    def __init__(self, subject: Subject, blueprint: Blueprint) -> None:
        self.subject, self.blueprint = subject, blueprint
        self._draws = Draws(subject, blueprint)
        self._factor: int | None = None
        self._knobs = {knob.path: knob.value for knob in subject.knobs(subject.start)}

    @cached_property
    def flags(self) -> dict[str, list[Any]]:
        """The fields to turn, each with its values, the default first."""
        flags: dict[str, list[Any]] = {}
        for path, value in self._knobs.items():
            values = [value, *self._other_values(path, value)]
            is_never = path.rpartition(".")[2].startswith(_NEVER) or path in self._set
            if len(values) > 1 and not is_never:
                flags[path] = values
        return flags

    def _other_values(self, path: str, value: Any) -> Iterator[Any]:
        if isinstance(value, bool):
            yield not value
        elif isinstance(value, str):
            yield from (text for text in self.blueprint.values.get(path, ()) if text != value)
        if path in self.blueprint.nullable and value is not None:
            yield None

    @property
    def layer_types(self) -> dict[str, list[str]]:
        """The fields that give each layer a type, with the types they may have."""
        return self._draws.layer_types

    def activation(self, class_names: set[str]) -> str:
        """Return the field that names an activation of these classes; empty if none does."""
        for path, value in self._knobs.items():
            if isinstance(value, str) and value in ACT2FN:
                with contextlib.suppress(Exception):  # an activation that needs a package
                    if {type(ACT2FN[value]).__name__} == class_names:
                        return path
        return ""

    @cached_property
    def structure(self) -> list[str]:
        """The small numbers on which it depends which modules exist."""
        asked = {name for tree in asked_by(self.blueprint) for name in names_in(tree)}
        in_dims = {name for tree in self.blueprint.dims.values() for name in names_in(tree)}
        return [
            path
            for path, value in self._knobs.items()
            if path in asked
            and path not in in_dims | self.blueprint.counts
            and type(value) is int
            and 0 <= value < _LEAST
        ]

    def values(self, path: str) -> list[Any]:
        """Return the values that a flag or a small number is given, the default first."""
        if path in self.flags:
            return self.flags[path]
        return [self._knobs[path], *[n for n in range(_STRUCTURE + 1) if n != self._knobs[path]]]

    @cached_property
    def factors(self) -> list[int]:
        """The numbers to divide sizes by that give configs of the family.

        Raises:
            ModelError: there are none.
        """
        error: Exception | None = None
        fitting = []
        for factor in FACTORS:
            try:
                self.checked(self.shrunk(factor, _USUAL_LAYERS))
            except Exception as refusal:  # whatever a config class raises
                error = error or refusal
                continue
            fitting.append(factor)
        if not fitting:
            raise ModelError(f"no small config could be drawn: {' '.join(str(error).split())}")
        return fitting

    def shrunk(self, factor: int, layers: int) -> Changes:
        """Return the default config with its sizes divided and with so many layers."""
        changes = dict(self.subject.start)
        tokens = itertools.count(1)
        for path, value in self._knobs.items():
            if path in self.blueprint.counts:
                changes[path] = layers
                if "expert" in path:
                    changes[path] = _experts(value, factor)
            elif type(value) is int:
                changes[path] = self._number(path, value, factor, tokens)
            elif _is_numbers(value):
                changes[path] = self._list(path, value, factor)
        for name, types in self._draws.layer_types.items():
            changes[name] = [types[at % len(types)] for at in range(layers)]
        changes |= dict.fromkeys(self._draws.loops, layers * _TURNS)
        return changes | self._set

    @cached_property
    def _set(self) -> Changes:
        """The flags that must be set so that a config may have every type of layer."""
        rules = self._draws.rules.items()
        return {
            path: tree[1]
            for path, tree in rules
            if tree[0] == "value" and isinstance(tree[1], bool)
        }

    def _number(self, path: str, value: int, factor: int, tokens: Iterator[int]) -> int:
        name = path.rpartition(".")[2]
        if name.endswith(("_token_id", "_token_index")):
            return next(tokens)
        if name == "image_size" and value > _LARGE_PICTURE:
            return value // (value // _LARGE_PICTURE + 1)
        if "experts" in name and value > _LEAST_EXPERTS:
            return int(_experts(value, factor))
        if "head" in name and "dim" not in name and value <= _MOST_HEADS:
            return value
        is_bound = path not in self.blueprint.sizes and "max_" in name
        is_width = value >= _LEAST and not is_bound
        if is_width and not any(part in name for part in _KEPT):
            return max(value // factor, 1)
        return value

    def _list(self, path: str, value: Any, factor: int) -> list[int]:
        counted = {name for tree in self.blueprint.repeat.values() for name in names_in(tree)}
        if path in counted and max(value) < _LEAST:
            return [min(number, _FEW_LAYERS) for number in value]
        if min(value) >= _LEAST and not any(part in path for part in _KEPT):
            return [number // factor for number in value]
        return list(value)

    def checked(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a config.

        Raises:
            ModelError: the model is too large.
            Exception: whatever a config class raises.
        """
        config = {"model_type": self.blueprint.family, **self.subject.nested(changes)}
        fields = models.bound(config, self.blueprint, "a small config").fields
        parameters = bind(self.blueprint, self.blueprint.base_class, fields).parameters
        if parameters > _MOST_PARAMETERS:
            raise ModelError(f"a small config has {parameters:,} parameters")
        return {**self.subject.fields(self.subject.config(changes)), **fields}

    def starts(self) -> Iterator[Changes]:
        """Yield configs to begin with, one for each factor; the one in use comes last."""
        for factor in list(self.factors):
            self._factor = factor
            yield self.usual()

    def usual(self) -> Changes:
        """Return the config to begin with."""
        return self.shrunk(self._factor or self.factors[0], _USUAL_LAYERS)

    def turned(self) -> Iterator[tuple[str, Changes]]:
        """Yield the config to begin with, with one flag turned at a time, and that flag."""
        for path, values in self.flags.items():
            for value in values[1:]:
                yield path, {**self.usual(), path: value}
        for path in self.structure:
            for value in {0, 1, 2} - {self._knobs[path]}:
                yield path, {**self.usual(), path: value}

    def random(self, dice: random.Random, flags: Mapping[str, list[Any]]) -> Iterator[Changes]:
        """Yield random configs in which these flags are turned at random."""
        while True:
            layers = dice.randint(*LAYERS)
            changes = self.shrunk(dice.choice(self.factors), layers)
            for name, types in self._draws.layer_types.items():
                changes[name] = [dice.choice(types) for _ in range(layers)]
            for path, values in flags.items():
                changes[path] = dice.choice(values)
            try:
                self.checked(changes)
            except Exception:  # noqa: S112  # whatever a config class raises is its way to refuse
                continue
            yield changes


def _experts(value: Any, factor: int) -> Any:
    if type(value) is not int or value <= _LEAST_EXPERTS:
        return value
    return max(value // factor, _LEAST_EXPERTS)


def _is_numbers(value: Any) -> bool:
    is_list = isinstance(value, list | tuple) and bool(value)
    return is_list and all(type(number) is int for number in value)
