"""Derives the operations of a family's classes: they are run, what they do is recorded, and put into expressions.

Sizes are drawn at random, so that a recorded number tells which of them it is made of: it is the
same product of fields at every draw. Each draw runs in every situation, that is with every
attention and dtype, with and without each dropout, and what is there in some situations only gets
the condition that tells these from the others. What cannot be told is an error of its class, never
a guess; and what was told is held against runs on configs and sizes not seen before.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.blueprint.operations import COMPUTE, KINDS, NULL, RUN_NAMES, Operations
from weighbridge.blueprint.paths import indices_in
from weighbridge.derive.generalize.generalize import condition_of
from weighbridge.derive.operations.recording import record
from weighbridge.derive.operations.workload import (
    ATTENTIONS,
    DTYPES,
    Run,
    built,
    check_inputs,
    fixed,
    inputs,
    sizes_of,
)
from weighbridge.derive.toml_text import operations_text
from weighbridge.derive.write import DTYPES as DTYPE_NAMES
from weighbridge.derive.write import dim as written_dim
from weighbridge.derive.write import expression
from weighbridge.errors import ModelError, WeighbridgeError, shorten
from weighbridge.models import find as models

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.operations.recording import Recording
    from weighbridge.derive.probing.subject import Subject

DRAWS = 3  # configs that expressions are found on
HELD_OUT = 12  # runs of each class that they are held against
_MOST_REFUSED = 40  # draws that the code may not build or run
_LAYERS = 3  # of every draw, so that layers can be told from each other
_TRIES = 4000
_MOST_FACTORS = 4  # of a dim
_MOST_TIMES = 8  # that a dim may be of a product of sizes
_DROPOUT = re.compile(r"drop")
_RUN_SIZES = ("batch", "sequence", "choices")


class Draw(NamedTuple):
    """A config as changes by dotted path, its fields, and the sizes of a run."""

    changes: Mapping[str, Any]
    fields: Mapping[str, Any]
    batch: int
    sequence: int
    choices: int

    @property
    def sizes(self) -> dict[str, Any]:
        """What the expressions of dims may name."""
        return {**self.fields, **{name: getattr(self, name) for name in _RUN_SIZES}}


class Situation(NamedTuple):
    """How draws are run: the attention, the dtype, in training or not, and the values of dropouts."""

    attention: str
    dtype: str
    training: bool
    dropouts: tuple[tuple[str, float | None], ...]

    @property
    def names(self) -> dict[str, Any]:
        """What conditions may name."""
        return {
            "attention": self.attention,
            "dtype": self.dtype,
            "training": self.training,
            **dict(self.dropouts),
        }


class Seen(NamedTuple):
    """One product or saved tensor of one run: its module and the kind, dtype and numbers of it."""

    path: str
    dtype: str
    numbers: tuple[int, ...]


class Told(NamedTuple):
    """What all draws of a product or a saved tensor have in common: the template of its path, and its text."""

    path: str
    text: str


Lists = dict[str, list[Seen]]


class Operated(NamedTuple):
    """What came of it: the data of a file of operations."""

    raw: dict[str, Any]
    exact: bool
    holes: tuple[str, ...]

    @property
    def text(self) -> str:
        """The file."""
        return operations_text(self.raw)


def operate(
    subject: Subject, blueprint: Blueprint, classes: Iterable[str] | None = None, seed: int = 0
) -> Operated:
    """Derive the operations of a family's base class, and of its other classes or of those that are named.

    Raises:
        ModelError: those of the base class cannot be told.
    """
    wanted = [name for name in blueprint.class_names[1:] if classes is None or name in classes]
    region = Region(subject, blueprint, seed)
    base = OfClass(region, blueprint.base_class)
    found, holes = {blueprint.base_class: base.told}, []
    for name in wanted:
        try:
            subject.check_class(name)
            found[name] = OfClass(region, name).told
        except WeighbridgeError as error:
            holes.append(f"{name}: {error.what}")
    return _proved(region, found, holes)


class Region:
    """The configs that are run: sizes at random, dropouts on and off, all else at its default."""

    def __init__(self, subject: Subject, blueprint: Blueprint, seed: int) -> None:
        self.subject, self.blueprint, self.seed = subject, blueprint, seed
        usual = {knob.path: knob.value for knob in subject.knobs({})}
        self.dropouts = {
            name: value
            for name, value in usual.items()
            if _DROPOUT.search(name) and type(value) in (float, type(None))
        }
        self.usual = {**usual, **self.blueprint.at_defaults}
        self.ratios = dict(self._ratios())
        self.counts = sorted(blueprint.counts)
        whole = [*blueprint.sizes, *self.ratios, *self.ratios.values()]
        self.sizes = sorted(
            {name for name in whole if name not in self.counts and name not in blueprint.zero}
        )

    def _ratios(self) -> Iterator[tuple[str, str]]:
        """Yield the fields that must be a multiple of another one, with that."""
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
        """Return a random config and sizes of a run of a class; None where there is no such model."""
        changes: dict[str, Any] = {name: dice.randint(*layers) for name in self.counts}
        for name in self.sizes:
            changes[name] = (
                dice.randint(2, 9) if name in self.ratios.values() else dice.randint(20, 70)
            )
        for _ in self.ratios:  # one may be the divisor of the next
            for name, divisor in self.ratios.items():
                changes[name] = changes[divisor] * dice.randint(
                    *((2, 5) if name in self.ratios.values() else (6, 19))
                )
        changes |= fixed(class_name)
        config = {"model_type": self.blueprint.family, **self.subject.nested(changes)}
        try:
            fields = models.bound(config, self.blueprint, "a random config").fields
        except WeighbridgeError:
            return None
        draw = Draw(changes, fields, dice.randint(2, 9), dice.randint(8, 23), dice.randint(2, 9))
        values = self.values(class_name, draw)
        return (
            draw if len({*values}) == len(values) else None
        )  # what is equal cannot be told from each other

    def values(self, class_name: str, draw: Draw) -> list[int]:
        """Return the sizes of a draw that were drawn for a class, and how often those that are divisors go."""
        free = [
            name for name in (*sizes_of(class_name), *self.sizes) if name not in fixed(class_name)
        ]
        ratios = [draw.sizes[name] // draw.sizes[divisor] for name, divisor in self.ratios.items()]
        return [*[draw.sizes[name] for name in free], *ratios]

    @cached_property
    def choosing(self) -> set[str]:
        """The fields that choose how attention is computed."""
        found = []
        for attention in ATTENTIONS:
            try:
                found.append(
                    self.subject.fields(self.subject.attend(self.subject.config({}), attention))
                )
            except WeighbridgeError:
                return set()
        return {name for name, value in found[0].items() if value != found[1].get(name)}

    def situations(self) -> list[Situation]:
        """Return the ways to run a draw; dropouts are turned one at a time, from all on and from all off."""
        states = {
            name: (0.1, 0.0) if value is not None else (None, 0.1, 0.0)
            for name, value in self.dropouts.items()
        }
        on = {name: values[0] for name, values in states.items()}
        off = {name: None if values[0] is None else 0.0 for name, values in states.items()}
        turned = [
            {**base, name: value} for base in (on, off) for name in states for value in states[name]
        ]
        settings = [tuple(setting.items()) for setting in (on, off, *turned)]
        ways = [(True, setting) for setting in dict.fromkeys(settings)] + [
            (False, tuple(on.items()))
        ]
        return [
            Situation(*pair, *way) for pair in itertools.product(ATTENTIONS, DTYPES) for way in ways
        ]

    def seen(self, class_name: str, draw: Draw, situation: Situation) -> Lists:
        """Run a draw and return what was recorded, by kind; products only of eager attention, which hides none.

        Raises:
            Exception: whatever the code raises.
        """
        changes = {
            **draw.changes,
            **{name: value for name, value in situation.dropouts if value != self.usual[name]},
        }
        run = Run(class_name, changes, draw.batch, draw.sequence, draw.choices, *situation[:3])
        module = built(self.subject, run)
        given = inputs(run, draw.fields, seed=self.seed)
        check_inputs(module, given, class_name)
        return seen(record(module, given), products=situation.attention == "eager")

    def atoms(self, class_name: str) -> list[Tree]:
        """Return what dims may be products of: sizes of the run, fields, and factors that the blueprint has."""
        names = [*sizes_of(class_name), *self.sizes]
        factors = {factor for tree in self.blueprint.dims.values() for factor in _factors(tree)}
        factors |= {
            ("//", ("name", name), ("name", divisor)) for name, divisor in self.ratios.items()
        }
        made = sorted(
            (factor for factor in factors if factor[0] not in ("name", "value")), key=repr
        )
        beside = [
            (kind, ("name", "sequence"), ("value", 1)) for kind in "+-"
        ]  # labels are shifted by a place
        return [*[("name", name) for name in names], *made, *beside]


def seen(recording: Recording, *, products: bool) -> Lists:
    """Return what was recorded, by kind.

    Raises:
        ModelError: an operator that is no matrix product does work that counts.
    """
    if products and recording.others:
        raise ModelError(f"{recording.others[0]} counts as work and is no matrix product")
    named = {"forward": recording.forward, "backward": recording.backward}
    found = {
        kind: [Seen(each.path, "", tuple(each[1:])) for each in every]
        for kind, every in named.items()
    }
    saved = [Seen(each.path, DTYPE_NAMES[each.dtype], each.dims) for each in recording.saved]
    return {**(found if products else {}), "saved": saved}


def _factors(tree: Tree) -> Iterator[Tree]:
    if tree[0] == "*":
        yield from (factor for operand in tree[1:] for factor in _factors(operand))
    else:
        yield tree


class OfClass:
    """The operations of one class, told from its runs."""

    def __init__(self, region: Region, class_name: str) -> None:
        self.region, self.class_name = region, class_name
        self.dice = random.Random(f"{class_name} {region.seed}")  # noqa: S311
        self.draws = self._draws()
        self.situations = [
            each for each in region.situations() if each.attention in self.attentions
        ]
        self._texts: dict[tuple[int, ...], str] = {}

    def _draws(self) -> list[Draw]:
        found: list[Draw] = []
        self.attentions: list[str] = []
        reason = ModelError("no config of it could be drawn")
        refused = 0
        for _ in range(_TRIES):
            draw = self.region.draw(self.class_name, self.dice)
            if draw is None or any(self._alike(draw, other) for other in found):
                continue
            try:
                self.region.seen(self.class_name, draw, self.region.situations()[0])
            except Exception as error:  # whatever the code raises is its way to refuse
                reason, refused = ModelError(_why(error)), refused + 1
                if refused == _MOST_REFUSED:
                    break
                continue
            found.append(draw)
            if len(found) == DRAWS:
                self.attentions = [name for name in ATTENTIONS if self._has(name, draw)]
                return found
        raise reason

    def _alike(self, draw: Draw, other: Draw) -> bool:
        """Whether a size is the same at two draws, so that it could be taken for a constant."""
        pairs = zip(
            *[self.region.values(self.class_name, each) for each in (draw, other)], strict=True
        )
        return any(one == two for one, two in pairs)

    def _has(self, attention: str, draw: Draw) -> bool:
        try:
            self.region.seen(
                self.class_name, draw, self.region.situations()[0]._replace(attention=attention)
            )
        except Exception:  # there is none such
            return False
        return True

    @cached_property
    def told(self) -> dict[str, dict[str, list[str]]]:
        """What the class does, by kind and by path: the texts of a file.

        Raises:
            ModelError: something of it cannot be told.
        """
        ways = {situation: self._told_in(situation) for situation in self.situations}
        for situation, lists in ways.items():
            _label(lists, ways.get(situation._replace(dtype="F32")), situation.dtype)
        return {kind: self._conditioned(kind, ways) for kind in KINDS}

    def _told_in(self, situation: Situation) -> dict[str, list[tuple[str, str, str]]]:
        """Return path, dtype and dims as text of what is done in a situation, the same at every draw."""
        try:
            runs = [self.region.seen(self.class_name, draw, situation) for draw in self.draws]
        except ModelError:
            raise
        except Exception as error:  # whatever the code raises
            raise ModelError(_why(error)) from None
        return {kind: self._common(kind, [run[kind] for run in runs]) for kind in runs[0]}

    def _common(self, kind: str, runs: Sequence[list[Seen]]) -> list[tuple[str, str, str]]:
        if (
            len({tuple((each.path, each.dtype, len(each.numbers)) for each in run) for run in runs})
            > 1
        ):
            raise ModelError(f"what is done {kind} is not the same at every size")
        return [
            (
                first.path,
                first.dtype,
                " ".join(self._text(numbers) for numbers in zip(*all_numbers, strict=True)) or "1",
            )
            for first, all_numbers in (
                (alike[0], [each.numbers for each in alike]) for alike in zip(*runs, strict=True)
            )
        ]

    def _text(self, numbers: tuple[int, ...]) -> str:
        """Return the simplest product of sizes that has these values at the draws.

        Raises:
            ModelError: there is none.
        """
        if numbers not in self._texts:
            found = (
                [(0, ("value", numbers[0]))] if len(set(numbers)) == 1 else self._products(numbers)
            )
            if not found:
                raise ModelError(
                    f"a size of {', '.join(map(str, numbers))} at {len(numbers)} draws is no product of sizes"
                )
            self._texts[numbers] = written_dim(min(found, key=lambda each: each[0])[1])
        return self._texts[numbers]

    def _products(self, numbers: tuple[int, ...]) -> list[tuple[int, Tree]]:
        found = []
        for times in range(1, _MOST_TIMES + 1):
            if all(number % times == 0 for number in numbers):
                known = self._known.get(tuple(number // times for number in numbers))
                if known is not None:
                    rank, tree = known
                    found.append(
                        (rank + times, tree if times == 1 else ("*", ("value", times), tree))
                    )
        return found

    @cached_property
    def _known(self) -> dict[tuple[int, ...], tuple[int, Tree]]:
        """The simplest product of atoms for each of the values that they come to at the draws."""
        columns = []
        for tree in self.region.atoms(self.class_name):
            values = [_whole(tree, draw.sizes) for draw in self.draws]
            if None not in values and len(set(values)) > 1:
                columns.append((tree, values))
        found: dict[tuple[int, ...], tuple[int, Tree]] = {}
        for many in range(1, _MOST_FACTORS + 1):
            for factors in itertools.combinations_with_replacement(columns, many):
                key = tuple(
                    prod(values) for values in zip(*[values for _, values in factors], strict=True)
                )
                if key not in found:
                    found[key] = (100 * many, _product([tree for tree, _ in factors]))
        return found

    def _conditioned(
        self, kind: str, ways: Mapping[Situation, Mapping[str, list[tuple[str, str, str]]]]
    ) -> dict[str, list[str]]:
        """Return the texts of a kind by path, each with the condition on which it is there."""
        lists = {situation: lists[kind] for situation, lists in ways.items() if kind in lists}
        paths = Paths(self.region.blueprint, self.class_name)
        counted = {
            situation: Counter(paths.told(each) for each in told)
            for situation, told in lists.items()
        }
        order = _ordered([[paths.told(each)[0] for each in told] for told in lists.values()])
        found: dict[str, list[str]] = {}
        for told in order:
            places = [
                (situation, place)
                for situation in lists
                for place in itertools.product(*map(self._layers, indices_in(told.path)))
            ]
            times = np.array([counted[situation][told, place] for situation, place in places])
            for least in range(1, int(times.max()) + 1):
                condition = self._condition(told.path, places, times >= least)
                found.setdefault(told.path, []).append(told.text + condition)
        return found

    def _layers(self, letter: str) -> range:
        return range(evaluate(self.region.blueprint.repeat[letter], self.draws[0].fields))

    def _condition(
        self, path: str, places: Sequence[tuple[Situation, tuple[int, ...]]], wanted: Any
    ) -> str:
        """Return the condition on which something is there, as the end of its text; nothing where it always is.

        Raises:
            ModelError: none was found.
        """
        if wanted.all():
            return ""
        letters, fields = indices_in(path), self.draws[0].fields
        envs = [
            {**fields, **situation.names, **dict(zip(letters, place, strict=True))}
            for situation, place in places
        ]
        asked = list(self._questions(letters))
        table = np.array(
            [[bool(evaluate(tree, env)) for env in envs] for tree, _ in asked], dtype=bool
        )
        varied = [at for at, row in enumerate(table) if row.any() and not row.all()]
        tree = condition_of(
            [asked[at][0] for at in varied], [asked[at][1] for at in varied], table[varied], wanted
        )
        if tree is None:
            what = f"no condition tells when {path or 'the class'} does it, in {wanted.sum()} of {len(wanted)} places"
            raise ModelError(what)
        return f" if {expression(tree)}"

    def _questions(self, letters: Iterable[str]) -> Iterator[tuple[Tree, float]]:
        """Yield what conditions are made of, with what it costs to use it."""
        yield ("name", "training"), 2
        for name in ("attention", "dtype"):
            values = dict.fromkeys(getattr(situation, name) for situation in self.situations)
            yield from ((("==", ("name", name), ("value", value)), 1) for value in values)
        dropouts = self.region.dropouts
        for name, value in dropouts.items():
            if value is not None:
                yield _dropped(("name", name)), 1
        for name in (name for name, value in dropouts.items() if value is None):
            for other in (other for other, value in dropouts.items() if value is not None):
                null = ("==", ("name", name), ("value", None))
                yield _dropped(("if", null, ("name", other), ("name", name))), 3
        for letter in letters:
            yield ("==", ("name", letter), ("value", 0)), 4
            yield (
                ("==", ("name", letter), ("-", self.region.blueprint.repeat[letter], ("value", 1))),
                4,
            )


def _dropped(probability: Tree) -> Tree:
    return ("and", ("name", "training"), (">", probability, ("value", 0)))


def _product(trees: Sequence[Tree]) -> Tree:
    made = trees[0]
    for tree in trees[1:]:
        made = ("*", made, tree)
    return made


def _whole(tree: Tree, names: Mapping[str, Any]) -> int | None:
    try:
        value = evaluate(tree, names)
    except WeighbridgeError:
        return None
    return value if type(value) is int and value > 0 else None


def _why(error: Exception) -> str:
    if isinstance(error, WeighbridgeError):
        return error.what
    return shorten(
        " ".join(f"running it raised {type(error).__name__}: {error}".split()), str, 200
    ).rstrip(".")


def _ordered(lists: Iterable[list[Told]]) -> list[Told]:
    """Return what is in any of the lists once, those of one path together, in the order in which they come."""
    found: dict[str, dict[Told, None]] = {}
    for each in lists:
        for told in each:
            found.setdefault(told.path, {}).setdefault(told)
    return [told for of_path in found.values() for told in of_path]


def _label(lists: dict[str, list[tuple[str, str, str]]], wide: Any, dtype: str) -> None:
    """Say of what is saved in a model's own dtype that it follows it: it does if it is another one in another's run."""
    saved = lists["saved"]
    if dtype == "F32":
        return
    alike = wide is not None and [each[::2] for each in wide["saved"]] == [
        each[::2] for each in saved
    ]
    fixed = {at for at, each in enumerate(saved) if alike and each[1] == "F32"}
    for told, own in ((saved, dtype), *([(wide["saved"], "F32")] if wide is not None else [])):
        told[:] = [
            (path, COMPUTE if kind == own and at not in fixed else kind, dims)
            for at, (path, kind, dims) in enumerate(told)
        ]


class Paths:
    """The paths of a class's modules, with letters in place of the indices that its blueprint repeats."""

    def __init__(self, blueprint: Blueprint, class_name: str) -> None:
        above = (path.split(".") for path in blueprint.modules(class_name))
        self._known = {".".join(pieces[: at + 1]) for pieces in above for at in range(len(pieces))}

    def told(self, each: tuple[str, str, str]) -> tuple[Told, tuple[int, ...]]:
        """Return what is done with the template of its path, and the indices that stand in it."""
        path, dtype, dims = each
        template, place = self.template(path)
        return Told(template, f"{dtype} {dims}".strip()), place

    def template(self, path: str) -> tuple[str, tuple[int, ...]]:
        """Return a path with letters for indices, and the indices."""
        done, place = "", list[int]()
        for piece in path.split("."):
            plain = f"{done}.{piece}".strip(".")
            letter = (
                next((name for name in self._known if _is_item(name, done)), None)
                if piece.isdecimal()
                else None
            )
            if letter is not None and plain not in self._known:
                place.append(int(piece))
                done = letter
            else:
                done = plain
        return done, tuple(place)


def _is_item(name: str, above: str) -> bool:
    """Whether a name is that of the modules of a list, by their index."""
    place, _, last = name.rpartition(".")
    return place == above and re.fullmatch(r"\{\w+\}", last) is not None


# What is held, and the proof


def _proved(
    region: Region, found: Mapping[str, Mapping[str, dict[str, list[str]]]], holes: list[str]
) -> Operated:
    """Return the data with its proof, and the fields that must stay as they are."""
    raw = _raw(region, found)
    raw["held"] = held = dict(_held(region, Operations(raw)))
    for name in held.keys() & raw["fields"].keys():
        del held[name]
    wrong, runs = [], 0
    for class_name in found:
        made, difference = held_out(region, Operations(raw), class_name)
        runs = made if not runs else min(runs, made)
        wrong += [f"{class_name}: {difference}"] if difference else []
    command = f"{region.subject.command} --operations"
    raw["proof"] = {
        "by": command,
        "against": region.subject.reference,
        "runs": runs,
        "holes": [*holes, *wrong],
    }
    return Operated(raw, not wrong, (*holes, *wrong))


def _held(region: Region, operations: Operations) -> Iterator[tuple[str, Any]]:
    """Yield the fields whose other values change what is done, or were not tried, with the value that they had."""
    for knob in region.subject.knobs({}):
        name, value = knob.path, region.usual.get(knob.path, knob.value)
        if name in (
            *region.sizes,
            *region.counts,
            *region.dropouts,
            *region.choosing,
        ) or not isinstance(value, bool | int | float | str):
            continue
        if not all(
            _is_free(region, operations, class_name, name, value)
            for class_name in operations.class_names
        ):
            yield name, value


def _is_free(
    region: Region, operations: Operations, class_name: str, name: str, value: Any
) -> bool:
    """Whether a class does the same where a field has another value."""
    dice = random.Random(f"{class_name} {name} {region.seed}")  # noqa: S311
    draw = region.draw(class_name, dice)
    while draw is None:
        draw = region.draw(class_name, dice)
    turned = draw._replace(changes={**draw.changes, name: _other(value)})
    try:
        runs = [(way, region.seen(class_name, turned, way)) for way in _ways(region)]
    except Exception:  # whatever the code raises is its way to refuse
        return False
    return all(_difference(operations, class_name, turned, way, done) is None for way, done in runs)


def _ways(region: Region) -> list[Situation]:
    return [each for each in region.situations() if each.dtype == "F32"][
        :: max(1, len(region.situations()) // 4)
    ]


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return "relu"
    return value * 2 if value else 1


def held_out(
    region: Region, operations: Operations, class_name: str, most: int = HELD_OUT
) -> tuple[int, str | None]:
    """Hold a class against runs on configs and sizes that were not seen; return how many, and what differed first."""
    dice, runs, tried = random.Random(f"held out {class_name} {region.seed}"), 0, 0  # noqa: S311
    ways = list(itertools.product(ATTENTIONS, DTYPES))
    while runs < most and tried < most * _MOST_REFUSED:
        draw = region.draw(class_name, dice, (1, 5))
        if draw is None:
            continue
        attention, dtype = ways[tried % len(ways)]
        situation = dice.choice(region.situations())._replace(attention=attention, dtype=dtype)
        tried += 1
        try:
            done = region.seen(class_name, draw, situation)
        except Exception:  # noqa: S112  # a config that is refused still runs lines
            continue
        if difference := _difference(operations, class_name, draw, situation, done):
            return runs, difference
        runs += 1
    return runs, None if runs == most else f"only {runs} of {most} runs could be made"


def _difference(
    operations: Operations, class_name: str, draw: Draw, situation: Situation, done: Lists
) -> str | None:
    """Return how what was done differs from what the operations say; None where it does not."""
    names = operations.names(
        {**draw.fields, **dict(situation.dropouts)}, **_run_names(draw, situation)
    )
    for kind, found in done.items():
        said = Counter(
            Seen(path, situation.dtype if each.dtype == COMPUTE else each.dtype, each.shape)
            for each in operations.bind(class_name, kind, names)
            for path in each.paths
        )
        if left := (Counter(found) - said) + (said - Counter(found)):
            path, dtype, numbers = next(iter(left))
            return f"{kind} {path} {dtype} {numbers} is not as it is done, where {names}"
    return None


def _run_names(draw: Draw, situation: Situation) -> dict[str, Any]:
    sizes = {name: getattr(draw, name) for name in _RUN_SIZES}
    return {
        **sizes,
        **{name: value for name, value in situation.names.items() if name in RUN_NAMES},
    }


# The file


def _raw(region: Region, found: Mapping[str, Mapping[str, dict[str, list[str]]]]) -> dict[str, Any]:
    """Return the data of a file: the base class whole, of the others what is not as in the base class."""
    blueprint, (base, *others) = region.blueprint, found
    raw: dict[str, Any] = {
        "format": 1,
        "family": blueprint.family,
        "source": region.subject.source,
        "kernels": _kernels(),
        "class": base,
        "proof": {},
        "fields": {},
        "held": {},
        "repeat": {},
        **found[base],
        "classes": {name: _of_class(blueprint, name, found[base], found[name]) for name in others},
    }
    texts = [
        text for told in found.values() for kind in KINDS for text in _texts_of(kind, told[kind])
    ]
    letters = {
        letter
        for told in found.values()
        for kind in KINDS
        for path in told[kind]
        for letter in indices_in(path)
    }
    raw["repeat"] = {letter: expression(blueprint.repeat[letter]) for letter in sorted(letters)}
    used = {
        name for text in [*texts, *raw["repeat"].values()] for name in names_in(parse(text))
    } - letters
    raw["fields"] = {
        name: _stated(region.usual[name]) for name in sorted(used.difference(RUN_NAMES))
    }
    return raw


def _kernels() -> str:
    import torch  # noqa: PLC0415

    return f"torch {torch.__version__.partition('+')[0]}, cpu"


def _stated(value: Any) -> Any:
    return NULL if value is None else value


def _texts_of(kind: str, told: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield every expression of a kind."""
    for text in (text for texts in told.values() for text in texts):
        dims, _, condition = text.partition(" if ")
        yield from dims.split()[kind == "saved" :]
        yield from [condition] if condition else ()


def _of_class(
    blueprint: Blueprint,
    name: str,
    base: Mapping[str, dict[str, list[str]]],
    own: Mapping[str, dict[str, list[str]]],
) -> dict[str, Any]:
    prefix = blueprint.prefix(name)
    section: dict[str, Any] = {"prefix": prefix[:-1]} if prefix else {}
    for kind in KINDS:
        above = {
            (prefix + path if path else prefix[:-1]): texts for path, texts in base[kind].items()
        }
        changed = {path: texts for path, texts in own[kind].items() if above.get(path) != texts}
        section[kind] = {**changed, **{path: [] for path in above if path not in own[kind]}}
    return {key: value for key, value in section.items() if value}
