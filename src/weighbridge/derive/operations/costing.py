"""Derives the operations of a family, in format 2: what its main class does when it runs.

The class runs with the kernels of several profiles, on the CPU and on the meta device, with and
without checkpointing, and with a cache. What is found is proved on runs of other configs and sizes.
"""

from __future__ import annotations

import itertools
import random
import tomllib
from collections import Counter
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

import torch

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.blueprint.operations import (
    ALL_KINDS,
    COMPUTE,
    NULL,
    PRODUCTS,
    ROTATED,
    RUN_NAMES,
    Operations,
)
from weighbridge.blueprint.paths import indices_in
from weighbridge.costs.profiles import PROFILES
from weighbridge.derive.generalize.config_defaults import fill
from weighbridge.derive.operations.drafting import Drafting, is_dropout
from weighbridge.derive.operations.draws import Draws, RunDraw
from weighbridge.derive.operations.operate import difference_from
from weighbridge.derive.operations.profiles import recorded_dtypes
from weighbridge.derive.operations.reading import LENGTHS, PROFILE_OF_PRODUCTS
from weighbridge.derive.operations.runs import (
    CACHE,
    CHECKPOINT,
    TRAIN,
    RunMode,
    SameAs,
    recorded_run,
)
from weighbridge.derive.operations.settling import names_in_text, settle_held
from weighbridge.derive.operations.workload import fixed_fields, images_in
from weighbridge.derive.probing.candidates import texts_compared_in
from weighbridge.derive.toml_text import operations_text
from weighbridge.derive.write import expression
from weighbridge.errors import ModelError, WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.blueprint.operations import Operation
    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.operations.drafting import Texts
    from weighbridge.derive.operations.runs import RecordedByKind
    from weighbridge.derive.probing.subject import Subject

_FORMAT = 2
RUNS = 12
"""Runs of each profile that operations are checked against."""
_TRIES = 10  # times as many are tried, because code refuses some configs
_MOST_LAYERS = 7
_SHARE_FAR_FROM_WINDOWS = 0.5  # of runs
_DRAWS_COMPARED = 4
_SHARE_UNALIGNED = 0.75  # of runs, whose lengths are any
_SHARE_WITHOUT = 0.3  # of runs without a window
_SHARE_EQUAL = 0.2  # of runs where two sizes are equal, or one is null
_MAIN = (
    *("ForConditionalGeneration", "ForMaskedLM", "ForCausalLM", "LMHeadModel"),
    "ForImageClassification",
)
_NEVER_HELD = (
    "_token_id",
    "problem_type",
    "use_cache",
    "return_dict",
    "initializer_range",
)
_IN_PLACE_OF_NULL = (0.5, 2, True)
_SEQUENCE_MODES = (TRAIN, TRAIN, CHECKPOINT, CACHE)
_IN_A_RUN = ", in a run with "
_ACTIVATIONS = ("gelu", "gelu_pytorch_tanh")  # torch has one kernel for both
Totals = Counter[tuple[str, str, str]]
"""FLOPs or elements by kind, module and dtype."""


def main_class(blueprint: Blueprint) -> str:
    """Return the class whose operations are derived: one that generates, else one that classifies.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> main_class(load("llama")), main_class(load("vit"))
        ('LlamaForCausalLM', 'ViTForImageClassification')
    """
    stated: str | None = data.read_toml("facts/running.toml")["classes"].get(blueprint.family)
    if stated:
        return stated
    for ending in _MAIN:
        for name in blueprint.class_names:
            if name.endswith(ending):
                return name
    return blueprint.base_class


def recorded_classes(blueprint: Blueprint, classes: Iterable[str] | None = None) -> list[str]:
    """Return the classes whose operations are derived.

    It is the main one; the base class, too, where releases name it; or every class of a family.
    ``classes`` are those besides the first, where there are several.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> recorded_classes(load("gpt2")), recorded_classes(load("vit"))
        (['GPT2LMHeadModel'], ['ViTModel', 'ViTForImageClassification'])
        >>> len(recorded_classes(load("bert")))
        9
    """
    facts, main = data.read_toml("facts/running.toml"), main_class(blueprint)
    if blueprint.family in facts["every_class"]:
        others = blueprint.class_names[1:]
    elif blueprint.family in facts["base_class_too"]:
        others = (main,)
    else:
        return [main]
    return [blueprint.base_class, *(name for name in others if classes is None or name in classes)]


def cost_operations(
    subject: Subject, blueprint: Blueprint, seed: int = 0, classes: Iterable[str] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Derive the operations of a family's main class, or of several.

    Returns:
        The data of a file, and what differs between it and runs that it was not derived from. A
        profile that differs is left out of the proof, and is a hole; products must not differ.
        Heads are ``single`` there if runs with one agree, with every profile.

    Raises:
        ModelError: an operation of the first class cannot be expressed.
    """
    drafts: dict[str, ClassDraft] = {}
    holes: list[str] = []
    for class_name in recorded_classes(blueprint, classes):
        try:
            drafts[class_name] = _drafted(subject, blueprint, class_name, seed)
        except ModelError as error:
            if not drafts:
                raise
            holes.append(f"{class_name}: {error.what}")
    raw = _raw(drafts)
    unstated: dict[str, Any] = {}
    tied: dict[str, str] = {}
    for class_name, draft in drafts.items():
        proof = Proof(draft.draws, class_name, raw)
        raw["held"].update(proof.held())
        unstated |= proof.unstated(raw["held"])
        tied |= proof.tied()
    types = {
        name: of
        for draft in drafts.values()
        for name, of in draft.draws.layer_types.items()
        if name not in raw["held"]
    }
    tables = (("types", types), ("unstated", unstated), ("tied", tied))
    raw |= {name: table for name, table in tables if table}
    settle_held(raw)
    raw["proof"] = {"by": f"{subject.command} --operations"}
    proved, single, differences = _proved(drafts, raw)
    raw["proof"] |= {
        "against": subject.reference,
        "runs": RUNS,
        "profiles": proved,
        **({"single": single} if single else {}),
        "holes": [*holes, *_holes_of(drafts), *map(_in_short, differences)],
    }
    return raw, differences if PROFILE_OF_PRODUCTS not in proved else []


class ClassDraft(NamedTuple):
    """The operations of one class, with the draws that they were found from."""

    draws: Draws
    drafting: Drafting
    texts: Texts


def _drafted(subject: Subject, blueprint: Blueprint, class_name: str, seed: int) -> ClassDraft:
    """Draft the operations of a class; from other draws if numbers of the first hide some.

    Raises:
        ModelError: an operation cannot be expressed from either.
    """
    draws = Draws(subject, blueprint, fixed_fields(class_name), images_in(class_name))
    if class_name != blueprint.base_class:
        subject.check_class(class_name)
    errors: list[ModelError] = []
    for again in ("", " again"):
        dice = random.Random(f"{class_name} {seed}{again}")  # noqa: S311
        drafting = Drafting(draws, class_name, dice)
        try:
            return ClassDraft(draws, drafting, drafting.texts())
        except ModelError as error:
            errors.append(error)
    raise errors[0]


def _holes_of(drafts: Mapping[str, ClassDraft]) -> list[str]:
    """Return the profiles that a class was not recorded with, each with the reason."""
    holes: list[str] = []
    for class_name, draft in drafts.items():
        owner = f"{class_name}: " if len(drafts) > 1 else ""
        holes += [f"{owner}{hole}" for hole in draft.drafting.holes]
    return holes


def _proved(
    drafts: Mapping[str, ClassDraft], raw: Mapping[str, Any]
) -> tuple[list[str], list[str], list[str]]:
    """Return the profiles with which every class agrees with fresh runs, and the differences.

    Between them are the heads of which runs with one agree, too. What is proved is the file as
    it will be read.
    """
    written = tomllib.loads(operations_text(raw))
    unproved: dict[str, None] = {}
    differences = []
    single = _tried_alone(drafts.values())
    for class_name, (draws, drafting, _) in drafts.items():
        proof = Proof(draws, class_name, written)
        owner = f"{class_name}: " if len(drafts) > 1 else ""
        unproved |= dict.fromkeys(set(PROFILES) - set(drafting.profiles))
        for profile in drafting.profiles:
            difference = proof.of_profile(profile, drafting.nullable)
            if difference is not None:
                unproved[profile] = None
                differences.append(f"{owner}{profile}: {difference}")
                continue
            for name, difference in proof.with_ones(profile, drafting.nullable):
                single.pop(name, None)
                differences.append(f"{owner}{profile}, {name} = 1: {difference}")
    (first, *_) = drafts.values()
    proved = [name for name in first.drafting.profiles if name not in unproved]
    return proved, [*single], differences


def _in_short(difference: str) -> str:
    """Return how runs differ without the one that shows it, which is long.

    Example:
        >>> _in_short("cpu: 2 recorded, 3 predicted, in a run with {'num_hidden_layers': 7}")
        'cpu: 2 recorded, 3 predicted'
    """
    return difference.partition(_IN_A_RUN)[0]


def _tried_alone(drafts: Iterable[ClassDraft]) -> dict[str, None]:
    """Return the heads that are tried alone; none if some texts were found without such runs."""
    tried: dict[str, None] = {}
    for draws, drafting, _ in drafts:
        if not drafting.knows_one_head:
            return {}
        tried |= dict.fromkeys(draws.lone_heads)
    return tried


def _raw(drafts: Mapping[str, ClassDraft]) -> dict[str, Any]:
    (class_name, *others), (first, *_) = drafts, drafts.values()
    draws, texts = first.draws, first.texts
    blueprint, subject = draws.blueprint, draws.subject
    entries = [entry for draft in drafts.values() for entry in _entries(draft.texts)]
    letters: set[str] = set()
    used: set[str] = set()
    for path, text in entries:
        letters.update(indices_in(path))
        used |= names_in_text(text)
    repeat = {letter: expression(blueprint.repeat[letter]) for letter in sorted(letters)}
    for count in repeat.values():
        used |= set(names_in(parse(count)))
    more = _more_tables(draws, repeat.values())
    for text in itertools.chain.from_iterable(map(dict.values, more.values())):
        used |= set(names_in(parse(text)))
    used = used.difference(letters, RUN_NAMES)
    fields, computed = _origins(draws, used)
    raw = {
        "format": _FORMAT,
        "family": blueprint.family,
        "source": subject.source,
        "kernels": f"torch {torch.__version__.partition('+')[0]}",
        "class": class_name,
        "proof": {},
        "fields": fields,
        "held": {},
        "repeat": repeat,
    }
    if computed:
        raw["computed"] = computed
    raw |= more
    raw |= {kind: texts[kind] for kind in ALL_KINDS if texts[kind] or kind in _ALWAYS}
    if others:
        raw["classes"] = {
            name: difference_from(texts, drafts[name].texts, blueprint.prefix(name), ALL_KINDS)
            for name in others
        }
    return raw


def _more_tables(draws: Draws, counts: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the tables of lists whose lengths are counts of layers, and of images."""
    counts = [*counts]
    tables = {
        "listed": {name: of for name, of in draws.listed.items() if f"len({name})" in counts},
        "images": {name: draws.images[name] for name in _OF_IMAGES if name in draws.images},
    }
    return {
        table: {name: expression(tree) for name, tree in trees.items()}
        for table, trees in tables.items()
        if trees
    }


def _entries(texts: Texts) -> Iterator[tuple[str, str]]:
    """Yield each text with its path."""
    for by_path in texts.values():
        for path, of_path in by_path.items():
            yield from ((path, text) for text in of_path)


_OF_IMAGES = ("tokens", "patch", "merged")
_ALWAYS = ("forward", "backward", "saved")


def _origins(draws: Draws, used: set[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the defaults of fields, and how others follow from fields that are given.

    The blueprint binds the fields that it knows; the others are learned from configs.
    """
    known = {**draws.blueprint.at_defaults, **draws.unturned}
    unknown = sorted(used - set(known))
    learned = fill(draws.subject, unknown, list(_probes(draws)), {}) if unknown else None
    defaults = {**dict.fromkeys(unknown), **(learned.defaults if learned else {}), **known}
    rules = learned.computed if learned else {}
    followed = {name: tree for name, tree in rules.items() if name not in known}
    used = used.union(*map(names_in, followed.values()))
    computed = {name: expression(tree) for name, tree in followed.items()}
    fields = {
        name: "null" if defaults[name] is None else defaults[name]
        for name in sorted(defaults)
        if name not in computed and (name in used or name not in known)
    }
    return fields, computed


def _probes(draws: Draws) -> Iterator[Any]:
    """Yield configs that show how the fields of runs follow from others."""
    subject, variants = draws.subject, _variants(draws)
    for layers in (3, 4, 5, 7, 9, 11, 13):
        counts = dict.fromkeys(draws.layer_counts, layers)
        for variant in variants:
            try:
                yield subject.probe(subject.base_class, {**counts, **variant})
            except Exception:  # noqa: S112  # whatever the code raises is its way to refuse
                continue


def _variants(draws: Draws) -> list[dict[str, Any]]:
    """Return changes of windows, of the steps of lists of layers, and of heads of scans."""
    steps = [
        name
        for name, value in draws.usual.items()
        if type(value) is int
        and any(part in name for part in ("pattern", "interval", "every_n", "max_window"))
    ]
    flags = dict.fromkeys(
        (
            name
            for name, value in draws.usual.items()
            if name.endswith("sliding_window") and isinstance(value, bool)
        ),
        True,
    )
    heads = [name for name in draws.rules if name.endswith("n_heads")]
    return [
        *({}, dict.fromkeys(steps, 2), dict.fromkeys(steps, 3)),
        *({name: draws.usual[name] // 2} for name in heads),
        *(flags, {**dict.fromkeys(steps, 2), **flags}),
    ]


class Proof:
    """Checks operations against runs that they were not derived from."""

    def __init__(self, draws: Draws, class_name: str, raw: Mapping[str, Any]) -> None:
        self._draws, self._class_name = draws, class_name
        proof = {"single": [*draws.lone_heads]}
        self._operations = Operations({**raw, "proof": proof}, takes_any_width=True)
        self.dice = random.Random(f"proof {class_name}")  # noqa: S311

    def of_profile(
        self, profile: str, nullable: Iterable[str] = (), runs: int = RUNS
    ) -> str | None:
        """Run a profile often enough; return how a run differs, or None if all agree."""
        return self._agreed(self._settings(profile, nullable, runs * _TRIES), runs)

    def with_ones(
        self, profile: str, nullable: Iterable[str] = (), runs: int = RUNS
    ) -> Iterator[tuple[str, str]]:
        """Run a profile with one key head, in every third run for one query head, or one of both.

        Four of eight runs have one sequence, where the repetition of the head may be a view. Yields
        the fields of heads with which a run differs, and how.
        """
        for name, heads in self._draws.lone_heads.items():
            settings = self._settings(profile, nullable, runs * _TRIES)
            difference = self._agreed(_with_one(name, heads, settings), runs)
            if difference is not None:
                yield name, difference

    def _agreed(self, settings: Iterable[tuple[RunMode, RunDraw]], runs: int) -> str | None:
        agreed = 0
        for setting, draw in settings:
            difference = self.difference(draw, setting)
            if difference:
                return difference
            agreed += difference is not None
            if agreed == runs:
                return None
        return f"only {agreed} of {runs} runs succeeded"

    def _settings(
        self, profile: str, nullable: Iterable[str], tries: int
    ) -> Iterator[tuple[RunMode, RunDraw]]:
        dropouts = [
            name
            for name, value in self._draws.usual.items()
            if is_dropout(name, value) and value is not None
        ]
        special: list[tuple[str, Any]] = [
            *((name, SameAs(other)) for name, other in self._draws.equal.items()),
            *((name, None) for name in self._draws.nullable),
            *self._draws.turned.items(),
        ]
        drawn = self._draws.unlike(self.dice, _MOST_LAYERS)
        for number in range(tries):
            draw = self._aligned(self._near_a_window(next(drawn)))
            mode = _SEQUENCE_MODES[number % len(_SEQUENCE_MODES)]
            values = (
                *((name, self.dice.choice([0.0, 0.1])) for name in dropouts),
                *self._some([(name, None) for name in nullable], _SHARE_WITHOUT),
                *self._some(special, _SHARE_EQUAL),
            )
            dtype = self.dice.choice(recorded_dtypes(PROFILES[profile]))
            training = mode != CACHE and (mode == CHECKPOINT or self.dice.random() < 0.8)
            yield RunMode(mode, profile, dtype, training, values), draw

    def _some(self, changes: list[tuple[str, Any]], share: float) -> list[tuple[str, Any]]:
        return [change for change in changes if self.dice.random() < share]

    def _near_a_window(self, draw: RunDraw) -> RunDraw:
        """Return a draw of which every second sequence is about as long as a window."""
        windows = [draw.fields.get(name) for name in self._draws.windows]
        sizes = [size for size in windows if type(size) is int]
        sizes += [evaluate(half, draw.fields) for half in self._draws.halved]
        for chunk in self._draws.chunks:
            piece = evaluate(chunk, draw.fields)
            sizes += [piece, 2 * piece, 3 * piece]
        if not sizes or self.dice.random() < _SHARE_FAR_FROM_WINDOWS:
            return draw
        length = max(2, self.dice.choice(sizes) + self.dice.choice((-2, -1, 0, 1)))
        return draw._replace(run={**draw.run, "sequence": length, "past": length})

    def _aligned(self, draw: RunDraw) -> RunDraw:
        """Return a draw of which every fourth has lengths that kernels need not pad."""
        if self.dice.random() < _SHARE_UNALIGNED:
            return draw
        aligned = {name: -(-draw.run[name] // 8) * 8 for name in LENGTHS if name in draw.run}
        return draw._replace(run={**draw.run, **aligned})

    def difference(self, draw: RunDraw, setting: RunMode) -> str | None:
        """Return how a run differs from what is predicted; None if the code refuses it, or `cost`.

        Flash attention leaves wide heads to another kernel, and `cost` then takes another profile.
        """
        names = self._operations.names(draw.fields, **draw.run, **setting.names(draw))
        if PROFILES[setting.profile].attention == "flash" and self._has_wide_heads(names):
            return None
        try:
            recorded = recorded_run(self._draws.subject, self._class_name, draw, setting)
        except Exception:  # whatever the code raises is its way to refuse
            return None
        for kind in recorded:
            found = _totals(kind, recorded)
            try:
                expected = _predicted(
                    kind, self._operations.bind(self._class_name, kind, names), setting.dtype
                )
            except WeighbridgeError as error:
                return f"{kind}: {error}"
            for key in (found - expected) + (expected - found):
                return (
                    f"{kind} of {key[0] or 'the class'} {key[1]}: {found[key]} recorded, "
                    f"{expected[key]} predicted{_IN_A_RUN}{_shown(draw, setting)}"
                )
        return ""

    def _has_wide_heads(self, names: Mapping[str, Any]) -> bool:
        rules = self._operations.flash_rules(self._class_name)
        return not all(evaluate(rule, names) for rule in rules if rule[0] == "<=")

    def held(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields that must keep their values: others change operations, or do not run."""
        yield from self._held_apart()
        deciding = self._draws.blueprint.at_defaults.keys() - self._draws.blueprint.inert
        for name, value in self._undrawn():
            if (
                (isinstance(value, str) and name in deciding)
                or not self._is_free(name, value)
                or self._differs_at(name, None)
            ):
                yield name, self._with_alike(name, value)
        yield from self._held_null()

    def _held_null(self) -> Iterator[tuple[str, str | list[str]]]:
        """Yield the fields that are null by default, if another value has other operations.

        A value that the code refuses says nothing. A text that released configs have is one with
        which all runs were recorded. Other texts may be alike, such as one for images only.
        """
        released = {name: of for name, of in self._draws.released.items() if isinstance(of, str)}
        for name in self._null_by_default(set(released)):
            texts = sorted(texts_compared_in(self._draws.subject.code, name))
            if any(self._differs_at(name, other) for other in (*_IN_PLACE_OF_NULL, *texts)):
                alike = [text for text in texts if self._is_alike_at(name, text)]
                taken = [released[name]] if name in released else alike
                yield name, [*taken, NULL] if taken else NULL

    def _null_by_default(self, released: set[str]) -> Iterator[str]:
        """Yield the fields that are null by default, unless something else decides them."""
        decided = {*self._draws.rules, *self._draws.constants, *self._draws.turned, *self.tied()}
        decided |= {*self._draws.blueprint.computed, *self._operations.computed}
        for name, value in self._draws.usual.items():
            if value is None and name not in decided - released and not name.endswith(_NEVER_HELD):
                yield name

    def _undrawn(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields that have one value in all runs, with it."""
        drawn = {*self._draws.rules, *self._draws.layer_counts, *self._operations.computed}
        apart = {*self._draws.turned, *self._draws.fixed, *self.tied(), ROTATED}
        constants = self._draws.constants
        for name, usual in {**self._draws.usual, **self._draws.made}.items():
            value = constants.get(name, usual)
            if name in apart or (name in drawn and name not in constants):
                continue
            if name.endswith(_NEVER_HELD) or is_dropout(name, value):
                continue
            if isinstance(value, bool | int | float | str):
                yield name, value

    def unstated(self, held: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a config means that leaves a held field out, where that is another value."""
        usual = self._draws.usual
        return {
            name: usual[name]
            for name, value in held.items()
            if usual.get(name) is not None
            and usual[name] not in (value if isinstance(value, list) else [value])
        }

    def tied(self) -> dict[str, str]:
        """Return the fields that a config may state only as they follow from others.

        These are lists of types whose last one the config class replaces, and the width of a head
        if runs kept it so, since the code reads it where a config states it.
        """
        last = {
            name: f'[{name}[i] if i < len({name}) - 1 else "{kind}" for i in range(len({name}))]'
            for name, kind in self._draws.last_types.items()
        }
        return {**last, **self._tied_width()}

    def _tied_width(self) -> dict[str, str]:
        name, width = "head_dim", ("//", ("name", "hidden_size"), ("name", "num_attention_heads"))
        if name in self._draws.rules or not self._draws.rules.keys() >= {*names_in(width)}:
            return {}
        draw = next(self._draws.unlike(random.Random(name), _MOST_LAYERS))  # noqa: S311
        same = evaluate(width, draw.fields)
        if self._is_free_at(draw, {name: 2 * same}) or not self._is_free_at(draw, {name: same}):
            return {}
        return {name: expression(width)}

    def _held_apart(self) -> Iterator[tuple[str, Any]]:
        """Yield the held fields that are no knobs: shares of heads, lists, and what is not named.

        A turned text has one of two values, or one with which runs are like the first. Some classes
        have the parameters of rotary embeddings, and no such embeddings.
        """
        config = self._draws.subject.config({})
        places = {"": config, **{f"{name}.": below for name, below in vars(config).items()}}
        for place, of in places.items() if self._has_rotary_embeddings() else ():
            rope = getattr(of, "rope_parameters", None)
            if isinstance(rope, dict):
                usual = float(rope.get(ROTATED, 1))
                turned = self._draws.turned.get(f"{place}{ROTATED}")
                yield f"{place}{ROTATED}", usual if turned is None else [usual, turned]
        for name, value in self._draws.released.items():
            if isinstance(value, list):
                yield name, [value]
        yield from self._draws.read.items()
        for name, value in self._draws.turned.items():
            if not isinstance(value, bool | float):
                alike = self._with_alike(name, self._draws.unturned[name])
                yield name, [*(alike if isinstance(alike, list) else [alike]), value]

    def _has_rotary_embeddings(self) -> bool:
        subject = self._draws.subject
        config = subject.config(self._draw_for(ROTATED).changes)
        with torch.device("meta"):
            module = subject.build(self._class_name, config)
        return any("rotary" in name for name, _ in module.named_modules())

    def _with_alike(self, name: str, value: Any) -> Any:
        """Return a held value, in a list if there are others with which a class runs alike.

        These are some activations, what follows from a turned field, and null where released
        configs leave a field out.
        """
        others = [other for other in _ACTIVATIONS if value in _ACTIVATIONS and other != value]
        alike = [other for other in others if self._is_free(name, value, {other})]
        if name in self._draws.made:
            alike += self._draws.made_if_turned(name)
        if self._draws.usual.get(name, value) is None and self._is_free(name, value, {None}):
            alike.append(NULL)
        return [value, *alike] if alike else value

    def _is_free(self, name: str, value: Any, others: Iterable[Any] = ()) -> bool:
        """Whether a class has the same operations if a field has another value, or any of some."""
        draw = self._draw_for(name)
        if name in self._operations.fields and type(value) is int:
            return self._is_followed(draw, name, value)
        others = others or _allowed(type(self._draws.subject.config({})), name) - {value}
        return all(
            self._is_free_at(draw, {name: other, **self._with_flag(name, other)})
            for other in others or _others(value)
        )

    def _is_followed(self, draw: RunDraw, name: str, value: int) -> bool:
        """Whether operations that name a field follow it, at values near it that the code takes."""
        modes = [RunMode(mode, "cuda-eager", "BF16", mode == TRAIN) for mode in (TRAIN, CACHE)]
        differences = []
        for other in {2 * value, value + 1, max(0, value - 1)} - {value}:
            changed = {name: other}
            turned = RunDraw({**draw.changes, **changed}, {**draw.fields, **changed}, draw.run)
            differences += [self.difference(turned, mode) for mode in modes]
        taken = [difference for difference in differences if difference is not None]
        return bool(taken) and not any(taken)

    def _with_flag(self, flag: str, value: Any) -> dict[str, Any]:
        """Return what else a config has with a flag that lets the code use another field.

        ``use_sliding_window`` does nothing where ``sliding_window`` is null, nor where a config
        states the types of its layers: so these are left to the code, too.
        """
        name = flag.removeprefix("use_")
        if name == flag or name not in self._draws.usual:
            return {}
        types = dict.fromkeys(self._operations.computed.keys() & self._draws.layer_types)
        if value is True and self._draws.usual[name] is None:
            return {name: _IN_PLACE_OF_NULL[1], **types}
        return types

    def _differs_at(self, name: str, value: Any) -> bool:
        """Whether a run with a value of a field has other operations; not if it does not run."""
        return any(self._differences_at(name, value))

    def _is_alike_at(self, name: str, value: Any) -> bool:
        """Whether runs with a value of a field have the same operations; not if none runs."""
        return all(difference == "" for difference in self._differences_at(name, value))

    def _differences_at(self, name: str, value: Any) -> Iterator[str | None]:
        draw = self._draw_for(name)
        turned = draw._replace(
            changes={**draw.changes, name: value}, fields={**draw.fields, name: value}
        )
        modes = (RunMode(mode, "cuda-eager", "BF16", mode == TRAIN) for mode in (TRAIN, CACHE))
        return map(partial(self.difference, turned), modes)

    def _draw_for(self, name: str) -> RunDraw:
        """Return the draw with which other values of a field are tried.

        It has images, if any. Of a few draws it has the most layers: some have a type of their own.
        Its sequences are longer than its windows, which may depend on the field.
        """
        drawn = self._draws.unlike(random.Random(name), _MOST_LAYERS)  # noqa: S311
        with_images = (draw for draw in drawn if draw.run.get("images") != 0)
        few = itertools.islice(with_images, _DRAWS_COMPARED)
        draw = max(few, key=lambda draw: sum(draw.fields[of] for of in self._draws.layer_counts))
        windows = [draw.fields.get(window) for window in self._draws.windows]
        widest = max((window for window in windows if type(window) is int), default=0)
        longer = {of: max(draw.run[of], 2 * widest + 1) for of in LENGTHS if of in draw.run}
        return draw._replace(run={**draw.run, **longer})

    def _is_free_at(self, draw: RunDraw, other: dict[str, Any]) -> bool:
        stated = {name: value for name, value in other.items() if value is not None}
        kept = {name: value for name, value in draw.changes.items() if name not in other}
        turned = RunDraw({**kept, **stated}, {**draw.fields, **other}, draw.run)
        # A dropout keeps what it is given, which may hide that an activation keeps it, too.
        on = {
            name for name, value in self._draws.usual.items() if value and is_dropout(name, value)
        }
        without = tuple((name, 0.0) for name in sorted(on))
        for mode, changes in dict.fromkeys([(TRAIN, ()), (TRAIN, without), (CACHE, ())]):
            setting = RunMode(mode, "cuda-eager", "BF16", mode == TRAIN, changes)
            if (
                self.difference(turned, setting) is None
                and self.difference(draw, setting) is not None
            ):
                return False
            if self.difference(turned, setting):
                return False
        return True


def _with_one(
    name: str, heads: str, settings: Iterable[tuple[RunMode, RunDraw]]
) -> Iterator[tuple[RunMode, RunDraw]]:
    for number, (setting, draw) in enumerate(settings):
        ones = {name: 1, heads: 1} if number % 3 == 0 else {name: 1}
        changes = {**dict(setting.changes), **ones}
        is_alone = number // len(_SEQUENCE_MODES) % 2 == 0
        run = {**draw.run, "batch": 1} if is_alone else draw.run
        yield setting._replace(changes=tuple(changes.items())), draw._replace(run=run)


def _totals(kind: str, recorded: RecordedByKind) -> Counter[tuple[str, str]]:
    """Return FLOPs, or bytes, by module and dtype."""
    totals: Counter[tuple[str, str]] = Counter()
    for item in recorded[kind]:
        amount = prod(item.numbers)
        totals[item.path, item.dtype] += 2 * amount if kind in PRODUCTS else amount
    return totals


def _predicted(kind: str, operations: Iterable[Operation], dtype: str) -> Counter[tuple[str, str]]:
    totals: Counter[tuple[str, str]] = Counter()
    for operation in operations:
        amount = prod(operation.shape) * operation.times * (2 if kind in PRODUCTS else 1)
        for path in operation.paths:
            totals[path, dtype if operation.dtype == COMPUTE else operation.dtype] += amount
    return totals


def _allowed(config: type, name: str) -> set[Any]:
    """Return the values that a class of configs lists for a field; none if any value may do.

    Example:
        >>> from typing import Literal
        >>> config = type("Config", (), {"__annotations__": {"pooling": Literal["cls", "mean"]}})
        >>> sorted(_allowed(config, "pooling")), _allowed(config, "width")
        (['cls', 'mean'], set())
    """
    hint = getattr(config, "__annotations__", {}).get(name)
    return {*get_args(hint)} if get_origin(hint) is Literal else set()


def _others(value: Any) -> set[Any]:
    """Return other values of a field, such that a run differs with one if it depends on the field.

    A share may be 0, and what it is a share of is then left out.
    """
    if isinstance(value, bool):
        return {not value}
    if isinstance(value, str):
        return {"gelu" if value == "relu" else "relu"}
    return {value * 2, 0.0} if value and isinstance(value, float) else {value * 2 or 1}


def _shown(draw: RunDraw, setting: RunMode) -> str:
    return f"{dict(draw.changes)}, {dict(draw.run)}, {setting}"
