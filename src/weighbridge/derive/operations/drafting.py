"""The operations of one class as texts, found from its runs.

The class runs in every setting: with the kernels of each profile, in each dtype, with and without
each dropout, and at the edges, where a size of the run is 1 or reaches a window. An operation that
exists only in some settings, or in some layers, gets the condition that separates these from the
others. What cannot be expressed is an error of its class, never a guess.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.blueprint.operations import COMPUTE, PRODUCTS, TENSORS
from weighbridge.blueprint.paths import indices_in
from weighbridge.derive.generalize.choosing import condition_of
from weighbridge.derive.operations.draws import sums_in
from weighbridge.derive.operations.module_paths import ModulePaths
from weighbridge.derive.operations.numbers import Numbers
from weighbridge.derive.operations.profiles import PROFILES
from weighbridge.derive.operations.runs import CACHE, CHECKPOINT, TRAIN, Setting, run
from weighbridge.derive.operations.workload import sizes_of
from weighbridge.derive.write import dim, expression
from weighbridge.errors import ModelError, WeighbridgeError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.operations.draws import Draw, Draws
    from weighbridge.derive.operations.runs import Recorded, RecordedByKind

Texts = dict[str, dict[str, list[str]]]
"""The operations of a class as the texts of a file, by kind and by path."""

_ON, _OFF = 0.1, 0.0  # values of a dropout
_DRAWS = 3  # from which numbers are expressed
_DRAWS_TO_RECOGNISE = 2  # are enough for a number that is known at its path
_PADDED = 32  # memory-efficient attention keeps statistics for a multiple of so many positions
_PARTS_OF_A_HEAD = (2, 4, 8)
_MOST_REPEATS = 6  # an operation that occurs more often is in a loop
_LONGEST_REASON = 200  # characters of the reason why code did not run
_WIDE = "F32"  # a dtype in which a tensor that follows the model cannot be told from one that is F32
PROFILE_OF_PRODUCTS = "cuda-eager"  # other kernels hide products, and some compute them twice

# The cost of a question in a condition: the most natural condition is the cheapest.
_COST_OF_SETTING = 1
_COST_OF_TRAINING = 2
_COST_OF_DROPOUT_OR_ANOTHER = 3
_COST_OF_KNOWN = 2  # of layers: the blueprint asks it
_COST_OF_LAYER = 4
_COST_OF_EDGE = 3
_COST_OF_ONE = 5


class Text(NamedTuple):
    """A product or a tensor as an expression for all draws; products have no dtype."""

    dtype: str
    dims: tuple[Tree, ...]
    times: Tree = ("value", 1)

    @property
    def text(self) -> str:
        """The text of a file: how often, the dtype, and the dims."""
        words = [self.dtype, *map(dim, self.dims)]
        if self.times != ("value", 1):
            words.insert(0, f"{dim(self.times)} x")
        return " ".join(filter(None, words))


Place = tuple[Setting, tuple[int, ...]]
"""Where an operation may happen: in a setting, in the layers with these indices."""
Found = Counter[tuple[str, str, tuple[int, ...]]]
"""How often a text occurs in a run, by kind and path, and by the indices of the path."""
Counts = dict[Setting, Found]


class Drafting:
    """Finds the operations of one class."""

    def __init__(self, draws: Draws, class_name: str, dice: Any) -> None:
        self.family, self.class_name = draws, class_name
        self.draws = draws.alike(dice, _DRAWS)
        self.subject, self.blueprint = draws.subject, draws.blueprint
        self.paths = ModulePaths(self.blueprint, class_name)
        self._reason = ""
        names = sorted(PROFILES, key=PROFILE_OF_PRODUCTS.__eq__)  # the last one gives the reason
        self.profiles = [name for name in names if self._has(name)]
        if PROFILE_OF_PRODUCTS not in self.profiles:
            raise ModelError(self._reason)
        self.holes: list[str] = []
        self.known: dict[tuple[str, str], list[tuple[Tree, ...]]] = {}
        """The dims that occurred at a path of a kind."""
        self.dims_of_text: dict[str, tuple[Tree, ...]] = {}

    def _has(self, profile: str) -> bool:
        setting = Setting(TRAIN, profile, "BF16")
        try:
            run(self.subject, self.class_name, self.draws[0], setting)
        except Exception as error:  # the class has no such attention, or does not run
            self._reason = _reason(error)
            return False
        return True

    # Settings

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
        return [name for name in self.windows if self._runs_without(name)]

    def _runs_without(self, window: str) -> bool:
        setting = Setting(TRAIN, PROFILE_OF_PRODUCTS, "BF16", dropouts=((window, None),))
        try:
            run(self.subject, self.class_name, self.draws[0], setting)
        except Exception:  # whatever the code raises is its way to refuse
            return False
        return True

    @property
    def dropouts(self) -> dict[str, float | None]:
        """The dropouts of the family's config, with their usual values."""
        return {
            name: value
            for name, value in self.family.usual.items()
            if is_dropout(name, value)
        }

    def settings(self, profile: str) -> Iterator[Setting]:
        """Yield the ways to run draws with the kernels of a profile, without edges."""
        on, off = self._all_at(_ON), self._all_at(_OFF)
        ways = [(True, off), (True, on), (False, on)]
        for start in (off, on):
            ways += [(True, tuple(turned.items())) for turned in self._turned(dict(start))]
        without = tuple((name, None) for name in self.nullable)
        if without:
            ways.append((True, (*off, *without)))
        for dtype in reversed(PROFILES[profile].dtypes):  # BF16 first, which shows what stays F32
            for training, dropouts in dict.fromkeys(ways):
                yield Setting(TRAIN, profile, dtype, training, dropouts)
            if profile in (PROFILE_OF_PRODUCTS, "cpu", "cuda-flash"):
                yield Setting(CHECKPOINT, profile, dtype, True, off)
                yield Setting(CHECKPOINT, profile, dtype, True, on)
            if profile == PROFILE_OF_PRODUCTS:
                yield Setting(CACHE, profile, dtype, False, off)
                if without:
                    yield Setting(CACHE, profile, dtype, False, (*off, *without))

    def _all_at(self, value: float) -> tuple[tuple[str, float | None], ...]:
        dropouts = self.dropouts.items()
        return tuple((name, None if usual is None else value) for name, usual in dropouts)

    def _turned(self, start: dict[str, float | None]) -> Iterator[dict[str, float | None]]:
        """Yield these values of dropouts with one dropout changed at a time."""
        for name, usual in self.dropouts.items():
            if usual is None:
                yield {**start, name: None}
            yield {**start, name: _ON}
            yield {**start, name: _OFF}

    def edges(self) -> list[dict[str, int]]:
        """Return the sizes of a run at which operations may change, other than the usual ones."""
        sizes, (draw, *_) = self.draws[0].run, self.draws
        short = sizes["short"]
        edges: list[dict[str, int]] = [{"sequence": short, "past": short}]
        for name in self.windows:
            window = draw.fields[name]
            edges += [{"sequence": window + more, "past": window + more} for more in (-2, -1, 0, 1)]
            edges += [{"sequence": 2 * window}]
        if self.family.chunk:
            chunk = self.family.chunk
            edges += [{"sequence": 2 * chunk + 3}, {"sequence": 2 * chunk}, {"sequence": chunk}]
        # A sequence of 1 has nothing to predict, and is not recorded.
        edges += [{"batch": 1}, {"past": 1}, {"batch": 1, "past": 1}]
        return edges

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
        for mode in (TRAIN, CHECKPOINT, CACHE):
            of_mode = [setting for setting in plain if setting.mode == mode]
            for edge in self._edges_of(mode):
                if not of_mode:
                    continue
                is_different = self._is_different(edge, of_mode[0], counts)
                for setting in of_mode:
                    at_edge = setting._replace(edge=edge)
                    counts[at_edge] = counts[setting]
                    if is_different:
                        counts[at_edge] = self._texts_of(at_edge, counts)
        return counts

    def _edges_of(self, mode: str) -> Iterable[tuple[tuple[str, int], ...]]:
        """Return the edges of the sizes that a run of this mode has."""
        beyond = ("sequence", "choices") if mode == CACHE else ("past",)
        edges: dict[tuple[tuple[str, int], ...], None] = {}
        for edge in self.edges():
            sizes = tuple((name, size) for name, size in edge.items() if name not in beyond)
            if sizes:
                edges[sizes] = None
        return edges

    def _is_different(
        self, edge: tuple[tuple[str, int], ...], setting: Setting, counts: Counts
    ) -> bool:
        """Whether operations at an edge differ from those that the usual texts predict."""
        try:
            found = self._texts_of(setting._replace(edge=edge), counts, learns=False)
        except ModelError:
            return True
        return found != counts[setting]

    def _teaches(self, setting: Setting) -> bool:
        """Whether numbers of a run can be expressed: none of its sizes may be taken for another."""
        sizes = self.draws[0].run
        return all(size in (1, sizes["short"]) for _, size in setting.edge)

    def _texts_of(self, setting: Setting, counts: Counts, *, learns: bool = True) -> Found:
        """Run draws in a setting, and return the texts that occur.

        At an edge the first draw is enough, elsewhere two, if every operation is known. ``counts`` are those of
        earlier settings: the same without the edge, and the same in BF16.

        Raises:
            ModelError: the code does not run, or an operation cannot be expressed.
        """
        runs: list[RecordedByKind] = []
        found = None
        usual = _nearest(setting, counts)
        learns = learns and self._teaches(setting)
        for draw in self.draws:
            try:
                runs.append(run(self.subject, self.class_name, draw, setting))
            except ModelError:
                raise
            except Exception as error:  # whatever the code raises
                raise ModelError(_reason(error)) from None
            is_last = len(runs) == len(self.draws)
            if not setting.edge and len(runs) < _DRAWS_TO_RECOGNISE:
                continue
            reading = Reading(self, setting, runs, usual, learns=learns and is_last)
            found = reading.found()
            if found is not None:
                break
        if found is None:
            where = ", ".join(f"{name} = {size}" for name, size in setting.edge)
            raise ModelError(f"operations at {where} are not those below or above")
        if setting.dtype != _WIDE:
            return found
        return _labelled(found, counts.get(setting._replace(dtype="BF16")))

    def template(self, kind: str, path: str) -> tuple[str, tuple[int, ...]]:
        """Return a path with letters for indices, and the indices."""
        if kind not in ("prefilled", "stepped"):
            return self.paths.template(path)
        start, number, *rest = path.split(".")
        letter = self._letter_of_layers()
        return ".".join([start, f"{{{letter}}}", *rest]), (int(number),)

    def _letter_of_layers(self) -> str:
        """Return the letter that counts the layers of the cache."""
        layers = len(next(iter(self.draws[0].changes[name] for name in self.family.layer_types), ()))
        layers = layers or max(self.draws[0].changes[name] for name in self.family.layer_counts)
        fields = self.draws[0].fields
        for letter, count in self.blueprint.repeat.items():
            try:
                if evaluate(count, fields) == layers:
                    return letter
            except WeighbridgeError:  # it depends on the index of an outer list
                continue
        raise ModelError("no index counts the layers of the cache")

    def atoms(self, setting: Setting) -> list[Tree]:
        """Return the factors that dims may be products of."""
        run_names = ["batch", "past" if setting.mode == CACHE else "sequence"]
        run_names += [name for name in sizes_of(self.class_name) if name not in run_names]
        length = ("name", run_names[1])
        atoms: list[Tree] = [("name", name) for name in run_names]
        atoms += [("name", name) for name in self.family.rules]
        padded = ("ceil", ("/", length, ("value", _PADDED)))
        atoms.append(("*", ("value", _PADDED), padded))
        for more in (-1, 1):
            atoms.append(("+" if more > 0 else "-", length, ("value", 1)))
        for name in self.windows:
            window = ("name", name)
            if "chunk" not in name:
                atoms.append(("-", window, ("value", 1)))
                continue
            atoms.append(("+", window, ("value", 1)))
            atoms.append(("ceil", ("/", length, window)))
            atoms.append(("+", ("ceil", ("/", length, window)), ("value", 1)))
        if self.family.chunk:
            atoms.append(("ceil", ("/", length, ("value", self.family.chunk))))
        factors: dict[Tree, None] = {}
        for tree in self.blueprint.dims.values():
            factors.update(dict.fromkeys(sums_in(tree)))
        atoms += factors
        for name in self.family.rules:
            if "conv" in name:
                kernel = ("name", name)
                atoms.append(("+", length, ("-", kernel, ("value", 1))))
                atoms.append(("-", kernel, ("value", 1)))
        heads: list[Tree] = [("name", name) for name in self.family.rules if "head_dim" in name]
        for one, other in itertools.permutations(_heads(self.family.rules), 2):
            heads.append(("//", ("name", one), ("name", other)))
        atoms += heads
        # rotary embeddings turn a part of a head, and keep the angles of its half
        atoms += [("//", head, ("value", part)) for head in heads for part in _PARTS_OF_A_HEAD]
        return atoms

    # Conditions

    def texts(self) -> Texts:
        """Return the operations of the class as the texts of a file.

        Raises:
            ModelError: an operation, or the condition under which it exists, was not found.
        """
        by_profile: dict[str, dict[str, list[str]]] = {}
        for profile in sorted(self.profiles, key=PROFILE_OF_PRODUCTS.__ne__):
            try:
                by_profile[profile] = self._conditioned(self.counted(profile))
            except ModelError as error:
                if profile == PROFILE_OF_PRODUCTS:
                    raise
                self.holes.append(f"{profile}: {error.what}")
        self.profiles = list(by_profile)
        texts: Texts = {kind: {} for kind in (*PRODUCTS, *TENSORS)}
        places: dict[tuple[str, str], list[set[str]]] = {}
        for profile, conditioned in by_profile.items():
            for place, of_place in conditioned.items():
                for text, count in Counter(of_place).items():
                    sets = places.setdefault((place, text), [])
                    sets += [set() for _ in range(count - len(sets))]
                    for number in range(count):
                        sets[number].add(profile)
        for (place, text), sets in places.items():
            kind, _, path = place.partition(" ")
            for profiles in sets:
                shown = text
                recorded_in = self._profiles_of(kind)
                if profiles != recorded_in:
                    shown = _joined(text, self._of_profiles(profiles, recorded_in))
                texts[kind].setdefault(path, []).append(shown)
        return texts

    def _profiles_of(self, kind: str) -> set[str]:
        if kind in (*PRODUCTS, "prefilled", "stepped"):
            return {PROFILE_OF_PRODUCTS}
        if kind == "checkpointed":
            return {*self.profiles} & {PROFILE_OF_PRODUCTS, "cpu", "cuda-flash"}
        return set(self.profiles)

    def _of_profiles(self, profiles: set[str], recorded_in: set[str]) -> Tree:
        """Return the condition on the device and the attention that selects profiles."""
        names = sorted(recorded_in)
        environments = [PROFILES[name].names for name in names]
        questions: list[Tree] = []
        for name in ("attention", "device"):
            for value in dict.fromkeys(names_of[name] for names_of in environments):
                questions.append(("==", ("name", name), ("value", value)))
        wanted = np.array([name in profiles for name in names])
        condition = _chosen([(tree, _COST_OF_SETTING) for tree in questions], environments, wanted)
        if condition is None:
            raise ModelError(f"no condition selects {', '.join(sorted(profiles))}")
        return condition

    def _conditioned(self, counts: Counts) -> dict[str, list[str]]:
        """Return the texts by kind and path, each with the condition under which it exists."""
        order: dict[str, dict[str, None]] = {}
        for counted in counts.values():
            for path, text, _ in counted:
                order.setdefault(path, {})[text] = None
        texts: dict[str, list[str]] = {}
        for path, texts_at_path in order.items():
            kind = path.partition(" ")[0]
            settings = [setting for setting in counts if _records(setting, kind)]
            places = list(itertools.product(settings, self._all_indices(path)))
            for text in texts_at_path:
                times = np.array([counts[setting][path, text, at] for setting, at in places])
                for least in range(1, int(times.max()) + 1):
                    condition = self._condition(path, text, places, times >= least)
                    texts.setdefault(path, []).append(text + condition)
        return texts

    def _all_indices(self, path: str) -> list[tuple[int, ...]]:
        repeat, fields = self.blueprint.repeat, self.draws[0].fields
        letters = indices_in(path)
        indices: list[tuple[int, ...]] = [()]
        for letter in letters:
            longer = []
            for at in indices:
                known = {**fields, **dict(zip(letters, at, strict=False))}
                longer += [(*at, index) for index in range(evaluate(repeat[letter], known))]
            indices = longer
        return indices

    def _condition(self, path: str, text: str, places: Sequence[Place], wanted: Any) -> str:
        """Return the condition under which an operation exists, as the end of its text.

        Raises:
            ModelError: no condition was found.
        """
        if wanted.all():
            return ""
        letters, names = indices_in(path), self.draws[0].names
        environments = [
            {
                **names,
                **setting.names,
                **dict(setting.edge),
                **dict(zip(letters, indices, strict=True)),
            }
            for setting, indices in places
        ]
        kind = path.partition(" ")[0]
        edges = dict.fromkeys(pair for (setting, _) in places for pair in setting.edge)
        questions = list(self._questions(kind, letters, {name for name, _ in edges}))
        condition = _chosen(questions, environments, wanted)
        if condition is None:
            share = f"which occurs in {wanted.sum()} of {len(wanted)} places"
            if os.environ.get("WBDEBUG"):
                for (st, ix), w in zip(places, wanted): print(bool(w), ix, st)
            raise ModelError(f"no condition was found for {path}: {text}, {share}")
        return f" if {expression(condition)}"

    def _questions(
        self, kind: str, letters: Iterable[str], edges: set[str]
    ) -> Iterator[tuple[Tree, float]]:
        """Yield the questions that conditions are made of, each with its cost."""
        yield ("==", ("name", "dtype"), ("value", "F32")), _COST_OF_SETTING
        yield ("name", "training"), _COST_OF_TRAINING
        with_value = [name for name, value in self.dropouts.items() if value is not None]
        for name in with_value:
            yield _dropped(("name", name)), _COST_OF_SETTING
        for name in self.dropouts.keys() - with_value:
            for other in with_value:
                is_null = ("==", ("name", name), ("value", None))
                either = ("if", is_null, ("name", other), ("name", name))
                yield _dropped(either), _COST_OF_DROPOUT_OR_ANOTHER
        yield from self._questions_of_layers(letters)
        length = ("name", "past" if kind in ("step", "prefilled", "stepped") else "sequence")
        for name in sorted(edges):
            yield (">", ("name", name), ("value", 1)), _COST_OF_ONE
        if length[1] in edges:
            for name in self.windows:
                for tree, cost in _questions_of_window(length, ("name", name)):
                    if name in self.nullable:
                        tree = ("and", ("!=", ("name", name), ("value", None)), tree)
                    yield tree, cost
            if self.family.chunk:
                yield from _questions_of_window(length, ("value", self.family.chunk))
        for name in self.nullable:
            yield ("!=", ("name", name), ("value", None)), _COST_OF_EDGE

    def _questions_of_layers(self, letters: Iterable[str]) -> Iterator[tuple[Tree, float]]:
        known = dict.fromkeys(letters)
        for name, types in self.family.layer_types.items():
            for letter, kind in itertools.product(known, types):
                item = ("[]", ("name", name), ("name", letter))
                yield ("==", item, ("value", kind)), _COST_OF_KNOWN
            for letter in known:
                earlier = ("for", "earlier", ("name", letter), ("[]", ("name", name), ("name", "earlier")))
                item = ("[]", ("name", name), ("name", letter))
                yield ("not in", item, earlier), _COST_OF_LAYER  # the first one of its type
        for tree in dict.fromkeys(_conditions_of(self.blueprint)):
            for part in _parts(tree):
                used = set(names_in(part)) & set(self.blueprint.repeat)
                if used and used <= set(known):
                    yield part, _COST_OF_KNOWN
        for letter in known:
            last = ("-", self.blueprint.repeat[letter], ("value", 1))
            yield ("==", ("name", letter), ("value", 0)), _COST_OF_LAYER
            yield ("==", ("name", letter), last), _COST_OF_LAYER


class Reading:
    """What was recorded in the runs of a setting, as texts."""

    def __init__(
        self,
        drafting: Drafting,
        setting: Setting,
        runs: Sequence[RecordedByKind],
        usual: Found | None,
        *,
        learns: bool,
    ) -> None:
        self._drafting, self._setting, self._runs, self._learns = drafting, setting, runs, learns
        self._usual: dict[tuple[str, tuple[int, ...]], list[tuple[Tree, ...]]] = {}
        for (path, text, indices), count in (usual or {}).items():
            dims = [drafting.dims_of_text[text]] * count
            self._usual.setdefault((path, indices), []).extend(dims)
        edge = dict(setting.edge)
        self._names = [{**draw.names, **edge} for draw in drafting.draws[: len(runs)]]
        self._numbers = Numbers(drafting.atoms(setting), self._names)

    def found(self) -> Found | None:
        """Return how often each text occurs; None if more draws are needed to express them.

        Raises:
            ModelError: an operation cannot be expressed.
        """
        found: Found = Counter()
        for kind in self._runs[0]:
            if kind in PRODUCTS and self._setting.profile != PROFILE_OF_PRODUCTS:
                continue
            by_path: dict[str, list[Text]] = {}
            for same in self._aligned(kind):
                text = self._text(kind, same)
                if text is None:
                    return None
                by_path.setdefault(same[0].path, []).append(text)
            for path, texts in by_path.items():
                template, indices = self._drafting.template(kind, path)
                for text in self._with_loops(texts):
                    self._drafting.dims_of_text[text.text] = text.dims
                    self._drafting.dims_of_text[_as_compute(text.text)] = text.dims
                    found[f"{kind} {template}", text.text, indices] += 1
        return found

    def _aligned(self, kind: str) -> Iterator[tuple[Recorded, ...]]:
        """Yield the operations of a kind, each as it was in all runs."""
        lists = [recorded[kind] for recorded in self._runs]
        outlines = [[(item.path, item.dtype) for item in items] for items in lists]
        if any(outline != outlines[0] for outline in outlines):
            raise ModelError(f"the operations ({kind}) differ between sizes")
        yield from zip(*lists, strict=True)

    def _text(self, kind: str, same: Sequence[Recorded]) -> Text | None:
        """Return an operation as a text: with dims that are known at its path, if they fit."""
        dtype = COMPUTE if same[0].dtype == self._setting.dtype != _WIDE else same[0].dtype
        template, indices = self._drafting.template(kind, same[0].path)
        amounts = [recorded.numbers for recorded in same]
        usual = self._usual.get((f"{kind} {template}", indices), [])
        known = self._drafting.known.setdefault((kind, template), [])
        for dims in (*usual, *known):
            if [_evaluated(dims, names) for names in self._names] == amounts:
                if dims in usual:
                    usual.remove(dims)
                return Text(dtype, dims)
        if not self._learns:
            if os.environ.get("WBDEBUG"): print("UNKNOWN", kind, same, self._setting, known)
            return None
        values_of_dims = zip(*(recorded.numbers for recorded in same), strict=True)
        try:
            dims = tuple(map(self._numbers.expressed, values_of_dims))
        except ModelError as error:
            raise ModelError(f"{kind} {same[0].path}: {error.what}") from None
        known.append(dims)
        return Text(dtype, dims)

    def _with_loops(self, texts: Sequence[Text]) -> Iterator[Text]:
        """Yield texts; one that occurs often is in a loop, and has its rounds as a factor."""
        for text, count in Counter(texts).items():
            if count <= _MOST_REPEATS:
                yield from [text] * count
            else:
                times = self._numbers.expressed((count,) * len(self._runs))
                yield text._replace(times=times)


def _questions_of_window(length: Tree, window: Tree) -> Iterator[tuple[Tree, float]]:
    yield (">", length, window), _COST_OF_EDGE
    yield (">=", length, window), _COST_OF_EDGE
    for more in (1, 2):
        yield (">=", ("+", length, ("value", more)), window), _COST_OF_EDGE + 1
    yield (">", ("%", length, window), ("value", 0)), _COST_OF_EDGE + 1


def _nearest(setting: Setting, counts: Counts) -> Found | None:
    """Return what a run found that has one edge less, or none."""
    for number in range(len(setting.edge)):
        edge = setting.edge[:number] + setting.edge[number + 1 :]
        if setting._replace(edge=edge) in counts:
            return counts[setting._replace(edge=edge)]
    return counts.get(setting._replace(edge=()))


def _labelled(found: Found, twin: Found | None) -> Found:
    """Tell tensors that have the dtype of the model from those that are F32 in any model.

    They are the ones that have another dtype in the same run of a BF16 model.
    """
    labelled: Found = Counter()
    for (path, text, indices), count in found.items():
        as_compute = _as_compute(text)
        fixed = 0
        if twin is not None:
            following = min(count, twin[path, as_compute, indices])
            fixed = min(count - following, twin[path, text, indices])
        labelled[path, text, indices] += fixed
        labelled[path, as_compute, indices] += count - fixed
    return +labelled


def _as_compute(text: str) -> str:
    return text.replace(f"{_WIDE} ", f"{COMPUTE} ", 1)


def _records(setting: Setting, kind: str) -> bool:
    """Whether a run in this setting records operations of a kind."""
    if kind in PRODUCTS and setting.profile != PROFILE_OF_PRODUCTS:
        return False
    kinds = {
        TRAIN: ("forward", "backward", "saved"),
        CHECKPOINT: ("recomputed", "checkpointed"),
        CACHE: ("step", "prefilled", "stepped"),
    }
    return kind in kinds[setting.mode]


def _chosen(
    questions: Iterable[tuple[Tree, float]], environments: Sequence[Mapping[str, Any]], wanted: Any
) -> Tree | None:
    """Return the cheapest condition that holds in the wanted environments only."""
    trees, costs, answers = [], [], []
    for tree, cost in questions:
        try:
            row = [bool(evaluate(tree, environment)) for environment in environments]
        except WeighbridgeError:
            continue
        if any(row) and not all(row):
            trees.append(tree)
            costs.append(cost)
            answers.append(row)
    table = np.array(answers, dtype=bool).reshape(len(answers), len(environments))
    return condition_of(trees, costs, table, wanted)


def _evaluated(dims: Sequence[Tree], names: Mapping[str, Any]) -> tuple[int, ...] | None:
    try:
        return tuple(evaluate(tree, names) for tree in dims)
    except WeighbridgeError:
        return None


def _joined(text: str, condition: Tree) -> str:
    """Return a text with one more condition."""
    dims, _, own = text.partition(" if ")
    tree = condition if not own else ("and", condition, parse(own))
    return f"{dims} if {expression(tree)}"


def _dropped(probability: Tree) -> Tree:
    return ("and", ("name", "training"), (">", probability, ("value", 0)))


def is_dropout(name: str, value: Any) -> bool:
    """Whether a field is a dropout of elements; others drop whole layers at random."""
    is_of_layers = name.endswith(("layerdrop", "drop_path_rate"))
    return "drop" in name and not is_of_layers and type(value) in (float, type(None))


def _parts(tree: Tree) -> Iterator[Tree]:
    """Yield a condition and the conditions that it is made of."""
    yield tree
    if tree[0] in ("and", "or", "not"):
        for operand in tree[1:]:
            yield from _parts(operand)


def _heads(names: Iterable[str]) -> list[str]:
    return [name for name in names if "head" in name or name.endswith(("hidden_size", "_embd"))]


def _reason(error: Exception) -> str:
    if isinstance(error, WeighbridgeError):
        return error.what
    raised = " ".join(f"running it raised {type(error).__name__}: {error}".split())
    return shorten(raised, str, _LONGEST_REASON).rstrip(".")


def _conditions_of(blueprint: Any) -> list[Tree]:
    """Return the conditions under which tensors exist."""
    return [parse(text) for text in blueprint._raw.get("when", {}).values()]
