"""The operations of one class as texts, found from its runs.

The class runs in every setting: with the kernels of each profile, in each dtype, with and without
each dropout, and at the edges, where a size of the run is 1 or reaches a window. An operation that
exists only in some settings, or in some layers, gets the condition that separates these from the
others. What cannot be expressed is an error of its class, never a guess.
"""

from __future__ import annotations

import itertools
from collections import ChainMap, Counter
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weighbridge.algebra.expr import evaluate, parse
from weighbridge.algebra.rewrite import joined, negated
from weighbridge.blueprint.operations import PRODUCTS, TENSORS, split_condition
from weighbridge.blueprint.paths import indices_in
from weighbridge.costs.profiles import PROFILES
from weighbridge.derive.operations.draws import ROWS
from weighbridge.derive.operations.profiles import recorded_dtypes
from weighbridge.derive.operations.questions import (
    COST_OF_SETTING,
    RunQuestions,
    cheapest,
    of_padded_rows,
)
from weighbridge.derive.operations.reading import (
    PROFILE_OF_PRODUCTS,
    WIDE,
    Found,
    Memory,
    Reading,
    labelled,
)
from weighbridge.derive.operations.runs import (
    CACHE,
    CHECKPOINT,
    TRAIN,
    RunMode,
    RunNeeds,
    SameAs,
    asking_for_values,
    built_on,
    recorded_run,
)
from weighbridge.derive.operations.workload import sizes_of
from weighbridge.derive.write import expression
from weighbridge.errors import ModelError, WeighbridgeError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torch import nn

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.operations.draws import Draws, RunDraw
    from weighbridge.derive.operations.questions import Question
    from weighbridge.derive.operations.runs import RecordedByKind

Texts = dict[str, dict[str, list[str]]]
"""The operations of a class as the texts of a file, by kind and by path."""

_ON, _OFF = 0.1, 0.0  # values of a dropout
_DRAWS = 3  # from which numbers are expressed
_DRAWS_TO_RECOGNISE = 2  # are enough for a number that is known at its path
_MOST_RECENT = 16  # runs that are kept
_MOST_MODULES = 128  # that are kept: as many as the settings and draws of an edge
_LONGEST_REASON = 200  # characters of the reason why code did not run

Place = tuple[RunMode, tuple[int, ...]]
"""Where an operation may happen: in a setting, in the layers with these indices."""
Counts = dict[RunMode, Found]
Edge = tuple[tuple[str, int], ...]
"""Sizes of a run that differ from the usual ones; none if it is empty."""
Changes = tuple[tuple[str, Any], ...]
"""The values of some fields in a run."""


class Drafting:
    """Finds the operations of one class."""

    def __init__(self, draws: Draws, class_name: str, dice: Any) -> None:
        self.family, self.class_name = draws, class_name
        self.draws = draws.alike(dice, _DRAWS)
        self.subject, self.blueprint = draws.subject, draws.blueprint
        self._reason = ""
        names = sorted(PROFILES, key=PROFILE_OF_PRODUCTS.__eq__)  # the last one gives the reason
        self.holes = [f"{name}: not recorded" for name in names if name in draws.left_out]
        names = [name for name in names if name not in draws.left_out]
        self.profiles = [name for name in names if self._has(name)]
        if PROFILE_OF_PRODUCTS not in self.profiles:
            raise ModelError(self._reason)
        self.knows_one_head = True
        """Whether runs with a single head of keys are among those that texts are found from."""
        self._memory = Memory(draws, class_name, self.draws, self.windows)
        self._recent: dict[tuple[int, RunMode], RecordedByKind] = {}
        self._modules: dict[tuple[int, RunMode], nn.Module] = {}

    def _has(self, profile: str) -> bool:
        setting = RunMode(TRAIN, profile, "BF16")
        try:
            recorded_run(self.subject, self.class_name, self.draws[0], setting)
        except Exception as error:  # the class has no such attention, or does not run
            self._reason = _reason(error)
            return False
        return True

    # Settings

    @cached_property
    def _questions(self) -> RunQuestions:
        return RunQuestions(self.family, self.dropouts, self.windows, self.nullable)

    @cached_property
    def windows(self) -> list[str]:
        """The windows and chunks of the draws."""
        fields = self.draws[0].fields
        return [name for name in self.family.windows if type(fields.get(name)) is int]

    @cached_property
    def nullable(self) -> list[str]:
        """The windows without which the code runs too, if no list says which layers have one."""
        if self.family.layer_types:
            return []
        return [name for name in self.windows if self._runs_with(((name, None),))]

    @cached_property
    def others(self) -> list[Changes]:
        """Other ways to run the draws.

        They are without windows, with a first layer of another type, and with some sizes equal,
        1 or null.
        """
        without = tuple((name, None) for name in self.nullable)
        types: tuple[tuple[str, tuple[Any, ...]], ...] = tuple(
            (name, _rotated(self.draws[0].changes[name])) for name in self.family.layer_types
        )
        types += tuple((name, self._other_layers(name)) for name in self.family.index_lists)
        equal: list[Changes] = [((name, SameAs(to)),) for name, to in self.family.equal.items()]
        equal += [((name, 1),) for name in self.family.key_heads]
        null = [((name, None),) for name in self.family.nullable]
        turned: list[Changes] = [(one,) for one in self.family.turned.items()]
        ways = (
            without,
            types,
            *turned,
            *equal,
            *null,
            *(without + same for same in equal if without),
        )
        return [changes for changes in ways if changes and self._runs_with(changes)]

    def _other_layers(self, name: str) -> tuple[int, ...]:
        """Return the indices of the layers that a list does not have."""
        draw = self.draws[0]
        layers = min(draw.changes[count] for count in self.family.layer_counts)
        return tuple(at for at in range(layers) if at not in draw.changes[name])

    @cached_property
    def is_checkpointable(self) -> bool:
        """Whether the class can recompute its layers."""
        return self._runs_with((), CHECKPOINT)

    def _runs_with(self, changes: Changes, mode: str = TRAIN) -> bool:
        setting = RunMode(mode, PROFILE_OF_PRODUCTS, "BF16", changes=changes)
        try:
            recorded_run(self.subject, self.class_name, self.draws[0], setting)
        except Exception:  # whatever the code raises is its way to refuse
            return False
        return True

    @property
    def dropouts(self) -> dict[str, float | None]:
        """The dropouts of the family's config, with their usual values."""
        return {name: value for name, value in self.family.usual.items() if is_dropout(name, value)}

    def settings(self, profile: str) -> Iterator[RunMode]:
        """Yield the ways to run draws with the kernels of a profile, without edges."""
        off, on, *apart = self._ways
        nearly_on, nearly_off = self._turned(on), self._turned(off)
        ways = [off, on, *nearly_off, *nearly_on, *apart]
        for dtype in reversed(
            recorded_dtypes(PROFILES[profile])
        ):  # BF16 first, which shows what stays F32
            for changes in dict.fromkeys(ways):
                yield RunMode(TRAIN, profile, dtype, changes=changes)
            yield RunMode(TRAIN, profile, dtype, training=False, changes=on)
            if self.is_checkpointable:
                for changes in dict.fromkeys([off, on, *nearly_on, *apart]):
                    yield RunMode(CHECKPOINT, profile, dtype, changes=changes)
            if profile == PROFILE_OF_PRODUCTS:
                for others in ((), *self.others):
                    changes = (*off, *others)
                    yield RunMode(CACHE, profile, dtype, training=False, changes=changes)

    @cached_property
    def _ways(self) -> list[Changes]:
        """Without dropouts, with all of them, and each other way to run the draws, so and so.

        Where each query head has keys of its own, or a field is turned, each dropout is also alone.
        What is saved may then be a view of more, or the output of an activation, which one dropout
        decides and no other.
        """
        off, on = self._all_at(_OFF), self._all_at(_ON)
        ways = [off, on]
        for others in self.others:
            alone = self._turned(off) if self._needs_each_dropout(others) else []
            ways += [(*start, *others) for start in (off, on, *alone)]
        return [*dict.fromkeys(ways)]

    def _needs_each_dropout(self, others: Changes) -> bool:
        alike = {name for name, value in others if isinstance(value, SameAs)}
        turned = {*others}.intersection(self.family.turned.items())
        return bool(turned) or not self.family.key_heads.keys().isdisjoint(alike)

    def _all_at(self, value: float) -> Changes:
        dropouts = self.dropouts.items()
        return tuple((name, None if usual is None else value) for name, usual in dropouts)

    def _turned(self, start: Changes) -> list[Changes]:
        """Return these values of dropouts with one dropout changed at a time."""
        values = [
            (name, value)
            for name, usual in self.dropouts.items()
            for value in ((_ON, _OFF) if usual is not None else (None, _ON, _OFF))
        ]
        return [tuple({**dict(start), name: value}.items()) for name, value in values]

    def edges(self) -> list[dict[str, int]]:
        """Return the sizes of a run at which operations may change, other than the usual ones."""
        sizes, (draw, *_) = self.draws[0].run, self.draws
        short = sizes["short"]
        edges: list[dict[str, int]] = [{"sequence": short, "past": short}, {"target": short}]
        chunks = self._chunks
        widths = [draw.fields[name] for name in self.windows]
        for window in (*widths, *(evaluate(half, draw.fields) for half in self.family.halved)):
            if window not in chunks:
                below = [window + more for more in (-2, -1, 0, 1)]
                edges += [{"sequence": size, "past": size} for size in below]
                edges += [{"sequence": 2 * window}]
        around = list(self._whole)
        for chunk in chunks:
            around += [chunk - 1, chunk, chunk + 1, 2 * chunk, 2 * chunk + 1]
        edges += [{"sequence": size, "past": size} for size in around]
        edges += self._even_edges(("sequence", "past"), ("target",))
        # A sequence of 1 has nothing to predict, and is not recorded.
        edges += [{"batch": 1}, {"past": 1}, {"batch": 1, "past": 1}]
        if chunks:
            alone = (short, *around)
            edges += [{"batch": 1, "sequence": size, "past": size} for size in alone]
        edges += [{"target": 1}, {"batch": 1, "target": 1}]
        return edges

    def _even_edges(self, *together: tuple[str, ...]) -> Iterator[dict[str, int]]:
        """Yield the lengths next to the draws' that memory-efficient attention need not pad."""
        for names in together:
            lengths = {name: self.draws[0].run[name] for name in names}
            yield {name: -(-length // ROWS) * ROWS for name, length in lengths.items()}

    @cached_property
    def _chunks(self) -> list[int]:
        """The lengths of the pieces into which code cuts a sequence."""
        return [evaluate(chunk, self.draws[0].fields) for chunk in self.family.chunks]

    @cached_property
    def _whole(self) -> list[int]:
        """The sequences of whole pieces, as many as of the draws': code need not fill up the last.

        What is there a multiple of the sequence may be one of the pieces, too: both are the same.
        """
        sequence = self.draws[0].run["sequence"]
        return [-(-sequence // chunk) * chunk for chunk in self._chunks]

    def _edges_with_images(self) -> list[dict[str, int]]:
        """Return the edges of a run with images, which have no room in a short sequence."""
        short = self.draws[0].run["short"]
        edges = [{"images": 0}, {"images": 1}, {"images": 0, "sequence": short, "past": short}]
        edges += [{"batch": 1}, {"images": 0, "batch": 1}, {"images": 1, "batch": 1}]
        return [*edges, {"images": 0, "past": 1}, {"images": 0, "past": 1, "batch": 1}]

    # Runs

    def counted(self, profile: str) -> Counts:
        """Return how often each text occurs in each setting of a profile.

        Raises:
            ModelError: the code does not run, or an operation cannot be expressed.
        """
        counts: Counts = {}
        plain = list(self.settings(profile))
        for setting in plain:
            counts[setting] = self._texts_of(setting, counts)
        for mode in dict.fromkeys(setting.mode for setting in plain):
            self._count_at_edges([setting for setting in plain if setting.mode == mode], counts)
        return counts

    def _count_at_edges(self, settings: Sequence[RunMode], counts: Counts) -> None:
        """Add the texts at each edge to those of settings of one mode."""
        known: list[Edge] = [()]
        for edge in self._edges_of(settings[0].mode):
            alike = self._alike(edge, known, self._telling(settings), counts)
            for setting in settings:
                at = setting._replace(edge=edge)
                if alike is None:
                    counts[at] = self._texts_of(at, counts)
                else:
                    counts[at] = counts[setting._replace(edge=alike)]
            known += [edge] if alike is None else []

    def _edges_of(self, mode: str) -> Iterable[Edge]:
        """Return the edges of the sizes that a run of this mode has."""
        known = sizes_of(self.class_name, "prefill" if mode == CACHE else "tasks")
        edges: dict[Edge, None] = {}
        for edge in self._edges_with_images() if self.family.image_tokens else self.edges():
            sizes = tuple((name, size) for name, size in edge.items() if name in known)
            if sizes:
                edges[sizes] = None
        return edges

    def _telling(self, settings: Sequence[RunMode]) -> list[RunMode]:
        """Return the settings that show whether an edge matters.

        They have every dropout or none, and each other way to run the draws; one has another dtype.
        """
        alike = {settings[0]._replace(changes=changes) for changes in self._ways}
        others = [setting for setting in settings if setting.dtype != settings[0].dtype]
        return [setting for setting in settings if setting in alike] + others[:1]

    def _alike(
        self, edge: Edge, known: Iterable[Edge], settings: Iterable[RunMode], counts: Counts
    ) -> Edge | None:
        """Return an edge that has the same operations, such as none; None if all have others."""
        candidates = list(known)
        at_edge: Counts = {}  # in which F32 finds the same run in BF16, which comes first
        for setting in settings:
            here = setting._replace(edge=edge)
            try:
                at_edge[here] = self._texts_of(here, ChainMap(at_edge, counts), learns=False)
            except ModelError:
                return None
            candidates = [
                at for at in candidates if counts[setting._replace(edge=at)] == at_edge[here]
            ]
        return candidates[0] if candidates else None

    def _teaches(self, setting: RunMode) -> bool:
        """Whether numbers of a run can be expressed: none of its sizes may be taken for another."""
        teaching = (0, 1, self.draws[0].run["short"], *self._whole)
        return all(size in teaching for _, size in setting.edge)

    def _texts_of(
        self, setting: RunMode, counts: Mapping[RunMode, Found], *, learns: bool = True
    ) -> Found:
        """Run draws in a setting, and return the texts that occur.

        Two draws are enough if every operation is known: in one, two products of sizes may be
        equal by chance. One is enough to see whether an edge is as usual. ``counts`` are those of
        earlier settings: the same without the edge, and the same in BF16.

        Raises:
            ModelError: the code does not run, or an operation cannot be expressed.
        """
        runs: list[RecordedByKind] = []
        found = None
        usual = self._nearest(setting, counts)
        least = _DRAWS_TO_RECOGNISE if learns else 1
        learns = learns and self._teaches(setting)
        for draw in self.draws:
            try:
                runs.append(self._run(draw, setting))
            except ModelError:
                raise
            except Exception as error:  # whatever the code raises
                raise ModelError(_reason(error)) from None
            is_last = len(runs) == len(self.draws)
            if len(runs) < least:
                continue
            reading = Reading(self._memory, setting, runs, usual, learns=learns and is_last)
            found = reading.found()
            if found is not None:
                break
        if found is None:
            where = ", ".join(f"{name} = {size}" for name, size in setting.edge)
            raise ModelError(f"operations at {where} are not those below or above")
        if setting.dtype != WIDE:
            return found
        return labelled(found, counts.get(setting._replace(dtype="BF16")))

    def _nearest(self, setting: RunMode, counts: Mapping[RunMode, Found]) -> Found | None:
        """Return what a run found that has one edge less, or no other changes than dropouts."""
        for number in range(len(setting.edge)):
            edge = setting.edge[:number] + setting.edge[number + 1 :]
            if setting._replace(edge=edge) in counts:
                return counts[setting._replace(edge=edge)]
        if setting.edge:
            return counts.get(setting._replace(edge=()))
        return counts.get(setting._replace(changes=setting.changes[: len(self.dropouts)]))

    def _run(self, draw: RunDraw, setting: RunMode) -> RecordedByKind:
        """Run a draw, unless it ran lately: what shows that an edge matters is then read again."""
        number = self.draws.index(draw)
        key = (number, setting)
        if key not in self._recent:
            _make_room(self._recent, _MOST_RECENT)
            built = partial(self._built, (number, setting._replace(edge=())))
            needs = RunNeeds(values=False, products=setting.profile == PROFILE_OF_PRODUCTS)
            self._recent[key] = recorded_run(
                self.subject, self.class_name, draw, setting, needs=needs, built=built
            )
        return self._recent[key]

    def _built(self, key: tuple[int, RunMode], *of_run: Any) -> nn.Module:
        """Return the module of a run: that of a run whose sizes alone differ, if there is one.

        Code that asks for the values of tensors gets a new one, since old values are forgotten.
        """
        if self.subject.family in asking_for_values():
            return built_on(*of_run)
        if key not in self._modules:
            _make_room(self._modules, _MOST_MODULES)
            self._modules[key] = built_on(*of_run)
        module = self._modules[key]
        module.zero_grad()
        return module

    # Conditions

    def texts(self) -> Texts:
        """Return the operations of the class as the texts of a file.

        Raises:
            ModelError: an operation, or the condition under which it exists, was not found.
        """
        by_profile: dict[str, dict[str, list[str]]] = {}
        for profile in sorted(self.profiles, key=PROFILE_OF_PRODUCTS.__ne__):
            try:
                by_profile[profile] = self._of_profile(profile)
            except ModelError as error:
                if profile == PROFILE_OF_PRODUCTS:
                    raise
                self.holes.append(f"{profile}: {error.what}")
        self.profiles = list(by_profile)
        texts: Texts = {kind: {} for kind in (*PRODUCTS, *TENSORS)}
        for (place, text), profiles in _profiles_by_text(by_profile):
            kind, _, path = place.partition(" ")
            shown = text
            if profiles != self._profiles_of(kind):
                shown = _joined(text, self._of_profiles(profiles, self._profiles_of(kind)))
            texts[kind].setdefault(path, []).append(shown)
        return texts

    def _of_profile(self, profile: str) -> dict[str, list[str]]:
        """Return the texts of a profile with their conditions, by kind and path.

        With a single head of keys, what is kept may depend on more than conditions can say. Then
        such runs are left out, and no file says that texts hold for them.

        Raises:
            ModelError: an operation, or the condition under which it exists, was not found.
        """
        counts = self.counted(profile)
        try:
            return self._conditioned(counts)
        except ModelError as error:
            several = {at: found for at, found in counts.items() if not self._has_one_head(at)}
            if len(several) == len(counts):
                raise
            conditioned = self._conditioned(several)
            self.knows_one_head = False
            self.holes.append(f"{profile}, with one head of keys: {error.what}")
            return conditioned

    def _has_one_head(self, setting: RunMode) -> bool:
        return any((name, 1) in setting.changes for name in self.family.key_heads)

    def _profiles_of(self, kind: str) -> set[str]:
        if kind in (*PRODUCTS, "prefilled", "stepped"):
            return {PROFILE_OF_PRODUCTS}
        return set(self.profiles)

    def _of_profiles(self, profiles: set[str], recorded_in: set[str]) -> Tree:
        """Return the condition on the device and the attention that selects profiles."""
        names = sorted(recorded_in)
        environments = [PROFILES[name].names for name in names]
        questions: list[Tree] = []
        for name in ("device", "attention"):
            values = dict.fromkeys(names_of[name] for names_of in environments)
            questions.extend(("==", ("name", name), ("value", value)) for value in values)
        wanted = np.array([name in profiles for name in names])
        condition = cheapest([(tree, COST_OF_SETTING) for tree in questions], environments, wanted)
        if condition is None:
            raise ModelError(f"no condition selects {', '.join(sorted(profiles))}")
        return condition

    def _conditioned(self, counts: Counts) -> dict[str, list[str]]:
        """Return the texts by kind and path, each with the condition under which it exists."""
        order: dict[str, dict[str, None]] = {}
        for counted in counts.values():
            for path, text, _ in counted:
                order.setdefault(path, {})[text] = None
        return {
            path: list(self._with_conditions(path, texts_at_path, counts))
            for path, texts_at_path in order.items()
        }

    def _with_conditions(self, path: str, texts: Iterable[str], counts: Counts) -> Iterator[str]:
        """Yield the texts at a path with their conditions, each as often as it may occur."""
        settings = [setting for setting in counts if _records(setting, path.partition(" ")[0])]
        places = list(itertools.product(settings, self._all_indices(path)))
        times = {
            text: np.array([counts[setting][path, text, at] for setting, at in places])
            for text in texts
        }
        somewhere = np.array(list(times.values())).any(axis=0)
        for text, number in times.items():
            for least in range(1, int(number.max()) + 1):
                yield text + self._condition(path, text, places, number >= least, somewhere)

    def _all_indices(self, path: str) -> list[tuple[int, ...]]:
        """Return the indices of every module at a path."""
        repeat, fields = self.blueprint.repeat, self.draws[0].fields
        letters = indices_in(path)
        indices: list[tuple[int, ...]] = [()]
        for letter in letters:
            longer: list[tuple[int, ...]] = []
            for at in indices:
                known = {**fields, **dict(zip(letters, at, strict=False))}
                numbers = range(evaluate(repeat[letter], known))
                longer += itertools.product(*([number] for number in at), numbers)
            indices = longer
        return indices

    def _condition(
        self, path: str, text: str, places: Sequence[Place], wanted: Any, somewhere: Any
    ) -> str:
        """Return the condition under which an operation exists, as the end of its text.

        It is sought at all places; then at those where ``somewhere`` says that the module has some
        operation, with the condition of the module before it.

        Raises:
            ModelError: no condition was found.
        """
        if wanted.all():
            return ""
        questions, environments = self._asked_at(path, places)
        questions += of_padded_rows(text)
        condition = cheapest(questions, environments, wanted)
        if condition is None and not somewhere.all():
            of_module = cheapest(questions, environments, somewhere)
            there = [environments[at] for at in np.flatnonzero(somewhere)]
            inside = _by_dtype(questions, there, wanted[somewhere])
            if of_module is not None and inside is not None:
                condition = ("and", of_module, inside)
        if condition is None:
            share = f"which occurs in {wanted.sum()} of {len(wanted)} places"
            raise ModelError(f"no condition was found for {path}: {text}, {share}")
        return f" if {expression(condition)}"

    def _asked_at(
        self, path: str, places: Sequence[Place]
    ) -> tuple[list[Question], list[dict[str, Any]]]:
        """Return the questions about an operation, and the names that they ask of at each place."""
        letters, names = indices_in(path), self.draws[0].names
        environments = [
            {
                **names,
                **setting.names(self.draws[0]),
                **dict(setting.edge),
                **dict(zip(letters, indices, strict=True)),
            }
            for setting, indices in places
        ]
        edges = dict.fromkeys(name for (setting, _) in places for name, _ in setting.edge)
        questions = self._questions.asked(path.partition(" ")[0], letters, edges)
        return list(questions), environments


def _make_room(kept: dict[Any, Any], most: int) -> None:
    """Drop what was kept first, if there is no room for more."""
    if len(kept) == most:
        del kept[next(iter(kept))]


def _by_dtype(
    questions: Sequence[Question], environments: Sequence[dict[str, Any]], wanted: Any
) -> Tree | None:
    """Return the cheapest condition; if there is none, one of F32 and one of other dtypes."""
    condition = cheapest(questions, environments, wanted)
    is_wide = np.array([names.get("dtype") == WIDE for names in environments])
    if condition is not None or is_wide.all() or not is_wide.any():
        return condition
    wide: Tree = ("==", ("name", "dtype"), ("value", WIDE))
    parts: list[Tree] = []
    for flags, test in ((is_wide, wide), (~is_wide, negated(wide))):
        if wanted[flags].all():
            parts.append(test)
        elif wanted[flags].any():
            there = [names for names, is_there in zip(environments, flags, strict=True) if is_there]
            part = cheapest(questions, there, wanted[flags])
            if part is None:
                return None
            parts.append(("and", test, part))
    return joined("or", parts)


def _profiles_by_text(
    by_profile: Mapping[str, Mapping[str, Sequence[str]]],
) -> Iterator[tuple[tuple[str, str], set[str]]]:
    """Yield each text of each place with the profiles that have it.

    A text that occurs twice at a place is yielded twice.
    """
    places: dict[tuple[tuple[str, str], int], set[str]] = {}
    for profile, conditioned in by_profile.items():
        for place, texts in conditioned.items():
            seen: Counter[str] = Counter()
            for text in texts:
                seen[text] += 1
                places.setdefault(((place, text), seen[text]), set()).add(profile)
    for (key, _), profiles in places.items():
        yield key, profiles


def _rotated(types: Sequence[str]) -> tuple[str, ...]:
    """Return types of layers, begun with another type.

    Example:
        >>> _rotated(["full", "full", "sliding", "full"])
        ('sliding', 'full', 'full', 'full')
    """
    other = next((at for at, name in enumerate(types) if name != types[0]), 0)
    return (*types[other:], *types[:other])


def _records(setting: RunMode, kind: str) -> bool:
    """Whether a run in this setting records operations of a kind."""
    if kind in PRODUCTS and setting.profile != PROFILE_OF_PRODUCTS:
        return False
    kinds = {
        TRAIN: ("forward", "backward", "saved"),
        CHECKPOINT: ("recomputed", "checkpointed"),
        CACHE: ("step", "prefilled", "stepped"),
    }
    return kind in kinds[setting.mode]


def _joined(text: str, condition: Tree) -> str:
    """Return a text with one more condition."""
    dims, own = split_condition(text)
    tree = condition if not own else ("and", condition, parse(own))
    return f"{dims} if {expression(tree)}"


def is_dropout(name: str, value: Any) -> bool:
    """Whether a field is a dropout of elements; others drop whole layers at random."""
    is_of_layers = name.endswith(("layerdrop", "drop_path_rate"))
    return "drop" in name and not is_of_layers and type(value) in (float, type(None))


def _reason(error: Exception) -> str:
    if isinstance(error, WeighbridgeError):
        return error.what
    raised = " ".join(f"running it raised {type(error).__name__}: {error}".split())
    return shorten(raised, str, _LONGEST_REASON).rstrip(".")
