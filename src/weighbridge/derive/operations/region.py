"""The configs and settings with which a family is run to record its operations."""

from __future__ import annotations

import itertools
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import names_in
from weighbridge.derive.operations.recording import record
from weighbridge.derive.operations.workload import (
    ATTENTIONS,
    RECORDED_DTYPES,
    Workload,
    built,
    check_inputs,
    fixed_fields,
    inputs,
    sizes_of,
)
from weighbridge.derive.write import DTYPES as DTYPE_NAMES
from weighbridge.errors import WeighbridgeError
from weighbridge.models import find as models

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.operations.recording import Recording
    from weighbridge.derive.probing.subject import Subject

Dropouts = dict[str, float | None]

RUN_SIZES = ("batch", "sequence", "choices")
_LAYERS = 3  # layers of every draw: a first, a middle and a last one
_DROPOUT = re.compile(r"drop")
_ON, _OFF = 0.1, 0.0  # values of a dropout
# Ranges of random sizes. They overlap little, so two sizes are rarely equal.
_DIVISORS = (2, 9)
_SIZES = (20, 70)
_RATIOS_OF_DIVISORS = (2, 5)
_RATIOS = (6, 19)
_BATCHES = _CHOICES = (2, 9)
_SEQUENCES = (8, 23)


class Draw(NamedTuple):
    """A config as changes by dotted path, its fields, and the sizes of a run."""

    changes: Mapping[str, Any]
    fields: Mapping[str, Any]
    batch: int
    sequence: int
    choices: int

    @property
    def run_sizes(self) -> dict[str, int]:
        """The sizes of the run alone."""
        return {name: getattr(self, name) for name in RUN_SIZES}

    def at_one(self, edge: Iterable[str]) -> Draw:
        """Return the draw with these sizes of the run set to 1."""
        ones: dict[str, Any] = dict.fromkeys(edge, 1)
        return self._replace(**ones)

    @property
    def sizes(self) -> dict[str, Any]:
        """The values that expressions of dims may name."""
        return {**self.fields, **self.run_sizes}


class Situation(NamedTuple):
    """How a draw is run: the attention, the dtype, training or not, the values of dropouts."""

    attention: str
    dtype: str
    training: bool
    dropouts: tuple[tuple[str, float | None], ...]

    @property
    def settings(self) -> dict[str, Any]:
        """The values that conditions may name besides dropouts."""
        return {"attention": self.attention, "dtype": self.dtype, "training": self.training}

    @property
    def names(self) -> dict[str, Any]:
        """The values that conditions may name."""
        return {**self.settings, **dict(self.dropouts)}


class Recorded(NamedTuple):
    """One product or saved tensor of one run: its module, and its dtype and numbers."""

    path: str
    dtype: str
    numbers: tuple[int, ...]


RecordedByKind = dict[str, list[Recorded]]


class Region:
    """The configs to run: random sizes, dropouts on and off, everything else at its default."""

    def __init__(self, subject: Subject, blueprint: Blueprint, seed: int) -> None:
        self.subject, self.blueprint, self.seed = subject, blueprint, seed
        usual = {knob.path: knob.value for knob in subject.knobs({})}
        self.dropouts: Dropouts = {}
        for name, value in usual.items():
            if _DROPOUT.search(name) and type(value) in (float, type(None)):
                self.dropouts[name] = value
        self.usual = {**usual, **self.blueprint.at_defaults}
        self.ratios = dict(self._ratios())
        self.counts = sorted(blueprint.counts)
        whole = {*blueprint.sizes, *self.ratios, *self.ratios.values()}
        in_dims = {name for tree in blueprint.dims.values() for name in names_in(tree)}
        no_sizes = set(blueprint.zero) - in_dims  # the number of a token
        self.sizes = sorted(whole.difference(self.counts, no_sizes))

    def _ratios(self) -> Iterator[tuple[str, str]]:
        """Yield each field that must be a multiple of another field, with that field."""
        for tree in self.blueprint.dims.values():
            for factor in _factors(tree):
                if factor[0] == "//" and factor[1][0] == factor[2][0] == "name":
                    yield factor[1][1], factor[2][1]
        for tree in self.blueprint.require.values():
            if tree[0] == "==" and tree[1][0] == "%" and tree[1][1][0] == tree[1][2][0] == "name":
                yield tree[1][1][1], tree[1][2][1]

    def draw(
        self, class_name: str, dice: random.Random, layers: tuple[int, int] = (_LAYERS, _LAYERS)
    ) -> Draw | None:
        """Return a random config and run sizes for a class; None if this draw is not usable."""
        changes = self._random_changes(dice, layers) | fixed_fields(class_name)
        config = {"model_type": self.blueprint.family, **self.subject.nested(changes)}
        try:
            fields = models.bound(config, self.blueprint, "a random config").fields
        except WeighbridgeError:
            return None
        batch, sequence = dice.randint(*_BATCHES), dice.randint(*_SEQUENCES)
        draw = Draw(changes, fields, batch, sequence, dice.randint(*_CHOICES))
        values = self.values(class_name, draw)
        if len({*values}) < len(values):
            return None  # equal sizes could be mistaken for each other
        return draw

    def _random_changes(self, dice: random.Random, layers: tuple[int, int]) -> dict[str, Any]:
        changes: dict[str, Any] = {name: dice.randint(*layers) for name in self.counts}
        divisors = set(self.ratios.values())
        for name in self.sizes:
            sizes = _DIVISORS if name in divisors else _SIZES
            changes[name] = dice.randint(*sizes)
        for _ in self.ratios:  # one may be the divisor of the next
            for name, divisor in self.ratios.items():
                ratios = _RATIOS_OF_DIVISORS if name in divisors else _RATIOS
                changes[name] = changes[divisor] * dice.randint(*ratios)
        return changes

    def edges(self, class_name: str) -> list[tuple[str, ...]]:
        """Return the sizes of a run to set to 1: each alone, and batch and sequence together.

        A tensor of size 1 in a dim may share its storage where others are copied.
        """
        return [*[(name,) for name in sizes_of(class_name)], ("batch", "sequence")]

    def values(self, class_name: str, draw: Draw) -> list[int]:
        """Return the sizes that were drawn for a class, and the ratios between them."""
        fixed = fixed_fields(class_name)
        names = [name for name in (*sizes_of(class_name), *self.sizes) if name not in fixed]
        ratios = [draw.sizes[name] // draw.sizes[divisor] for name, divisor in self.ratios.items()]
        return [*[draw.sizes[name] for name in names], *ratios]

    @cached_property
    def choosing(self) -> set[str]:
        """The fields that select the implementation of attention."""
        fields_by_attention = []
        for attention in ATTENTIONS:
            try:
                config = self.subject.attend(self.subject.config({}), attention)
                fields_by_attention.append(self.subject.fields(config))
            except WeighbridgeError:
                return set()
        fields, other_fields = fields_by_attention
        return {name for name, value in fields.items() if value != other_fields.get(name)}

    def situations(self) -> list[Situation]:
        """Return the ways to run a draw.

        Dropouts are switched one at a time, starting from all on and from all off.
        """
        on = {name: _ON if usual is not None else None for name, usual in self.dropouts.items()}
        off = {name: _OFF if usual is not None else None for name, usual in self.dropouts.items()}
        settings = [on, off, *self._turned(on), *self._turned(off)]
        distinct = dict.fromkeys(tuple(setting.items()) for setting in settings)
        ways = [(True, setting) for setting in distinct]
        ways.append((False, tuple(on.items())))
        situations = []
        for attention, dtype in itertools.product(ATTENTIONS, RECORDED_DTYPES):
            situations += [Situation(attention, dtype, *way) for way in ways]
        return situations

    def _turned(self, start: Dropouts) -> Iterator[Dropouts]:
        """Yield these values of dropouts with one dropout changed at a time."""
        for name, usual in self.dropouts.items():
            if usual is None:
                yield {**start, name: None}
            yield {**start, name: _ON}
            yield {**start, name: _OFF}

    def operations(self, class_name: str, draw: Draw, situation: Situation) -> RecordedByKind:
        """Run a draw and return what was recorded, by kind.

        Products are recorded only with eager attention, which hides none.

        Raises:
            Exception: whatever the code raises.
        """
        unusual = {name: value for name, value in situation.dropouts if value != self.usual[name]}
        changes = {**draw.changes, **unusual}
        workload = Workload(
            class_name, changes, draw.batch, draw.sequence, draw.choices, *situation[:3]
        )
        module = built(self.subject, workload)
        given = inputs(workload, draw.fields, seed=self.seed)
        check_inputs(module, given, class_name)
        return operations_in(record(module, given), products=situation.attention == "eager")

    def atoms(self, class_name: str) -> list[Tree]:
        """Return the factors that dims may be products of.

        These are the sizes of the run, the fields, and the factors in the blueprint's dims.
        """
        factors: set[Tree] = set()
        for tree in self.blueprint.dims.values():
            factors.update(_factors(tree))
        for name, divisor in self.ratios.items():
            factors.add(("//", ("name", name), ("name", divisor)))
        names: list[Tree] = [("name", name) for name in (*sizes_of(class_name), *self.sizes)]
        composed = [factor for factor in factors if factor[0] not in ("name", "value")]
        # labels are shifted by one position
        shifted = [(kind, ("name", "sequence"), ("value", 1)) for kind in "+-"]
        return [*names, *sorted(composed, key=repr), *shifted]


def operations_in(recording: Recording, *, products: bool) -> RecordedByKind:
    """Return what was recorded, by kind."""
    saved = [
        Recorded(tensor.path, DTYPE_NAMES[tensor.dtype], tensor.dims) for tensor in recording.saved
    ]
    if not products:
        return {"saved": saved}
    forward = [Recorded(matmul.path, "", tuple(matmul[1:])) for matmul in recording.forward]
    backward = [Recorded(matmul.path, "", tuple(matmul[1:])) for matmul in recording.backward]
    return {"forward": forward, "backward": backward, "saved": saved}


def _factors(tree: Tree) -> Iterator[Tree]:
    if tree[0] == "*":
        for operand in tree[1:]:
            yield from _factors(operand)
    else:
        yield tree
