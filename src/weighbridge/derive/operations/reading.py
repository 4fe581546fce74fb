"""Reads the runs of one setting as texts: every number as a product of sizes."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import evaluate, names_in, substitute
from weighbridge.blueprint.operations import COMPUTE, PRODUCTS, TENSORS
from weighbridge.derive.operations.draws import PADDED, sums_in
from weighbridge.derive.operations.growing import Same, added_up, below_the_diagonal
from weighbridge.derive.operations.module_paths import ModulePaths
from weighbridge.derive.operations.numbers import Numbers
from weighbridge.derive.operations.runs import CACHE
from weighbridge.derive.operations.workload import sizes_of
from weighbridge.derive.write import dim
from weighbridge.errors import ModelError, WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.operations.draws import Draws, RunDraw
    from weighbridge.derive.operations.runs import RecordedByKind, RunMode

Found = Counter[tuple[str, str, tuple[int, ...]]]
"""How often a text occurs in a run, by kind and path, and by the indices of the path."""

WIDE = "F32"
"""A dtype in which a tensor that follows the model cannot be told from one that is F32."""
PROFILE_OF_PRODUCTS = "cuda-eager"  # other kernels hide products, and some compute them twice
LENGTHS = ("sequence", "target", "past")
"""The sizes of a run that are lengths."""
IMAGES = "images"
"""The size of a run that counts the images of a sequence, which code may go through one by one."""
_PARTS_OF_A_HEAD = (2, 4, 8)
_WIDTHS_OF_HEADS = ("hidden_size", "embed_dim", "_embd", "d_model")  # of all heads together
_ONCE: Tree = ("value", 1)
_MOST_REPEATS = 6  # an operation that occurs more often is in a loop


class Phrase(NamedTuple):
    """A product or a tensor as an expression for all draws; products have no dtype."""

    dtype: str
    dims: tuple[Tree, ...]
    times: Tree = _ONCE

    @property
    def text(self) -> str:
        """The text of a file: how often, the dtype, and the dims."""
        words = [self.dtype, *map(dim, self.dims)]
        if self.times != _ONCE:
            words.insert(0, f"{dim(self.times)} x")
        return " ".join(filter(None, words))


class Memory:
    """What the runs of a class have shown so far, with which the next ones are read.

    Args:
        family: the draws of the family.
        class_name: the class.
        draws: those that it runs on.
        windows: the windows and chunks that these draws have.
    """

    def __init__(
        self, family: Draws, class_name: str, draws: Sequence[RunDraw], windows: Sequence[str]
    ) -> None:
        self._family, self._class_name, self._windows = family, class_name, windows
        self._paths = ModulePaths(family.blueprint, class_name)
        self.draws = draws
        self.known: dict[tuple[str, str], list[tuple[Tree, ...]]] = {}
        """The dims that occurred at a path of a kind."""
        self.dims_of_text: dict[str, tuple[Tree, ...]] = {}
        self.looped: dict[tuple[str, str], list[Phrase]] = {}
        """The texts in loops over the pieces of a sequence, or over images, at a path of a kind."""
        self.repeated: Counter[tuple[tuple[str, str], Phrase]] = Counter()
        """How often texts occur at a path of a kind that occur often, and are in no loop."""

    @property
    def key_heads(self) -> dict[str, str]:
        """The heads of keys, with those of queries."""
        return self._family.key_heads

    @property
    def chunks(self) -> list[Tree]:
        """The lengths of the pieces into which code cuts a sequence."""
        return self._family.chunks

    def loops_first(self, usual: Found) -> list[tuple[tuple[str, str, tuple[int, ...]], int]]:
        """Return texts of a run with their numbers, those in loops first where one is repeated.

        With a single piece, a tensor of a round is as large as one of all pieces. Which of them is
        missing then must not depend on which was found first.
        """
        places = {" ".join(place) for place, _ in self.repeated}
        return sorted(usual.items(), key=lambda item: item[0][0] in places and _is_once(item[0][1]))

    def pieces(self, mode: str) -> list[Tree]:
        """Return the numbers of pieces into which a sequence is cut."""
        length: Tree = ("name", "past" if mode == CACHE else "sequence")
        return [pieces_of(length, chunk) for chunk in self._family.chunks]

    @property
    def counts(self) -> list[Tree]:
        """The numbers of layers, as often as shared ones may run; the last one may differ."""
        counts: list[Tree] = [("name", name) for name in self._family.layer_counts]
        return counts + [("-", ("name", name), ("value", 1)) for name in self.loops]

    @property
    def loops(self) -> list[str]:
        """The fields that say how often shared layers run."""
        return self._family.loops

    def factors(self, mode: str) -> list[Tree]:
        """Return the factors that the dims of a kind of run may be products of."""
        is_cached = mode == CACHE
        return _factors(self._family, self._class_name, self._windows, is_cached=is_cached)

    def template(self, kind: str, path: str) -> tuple[str, tuple[int, ...]]:
        """Return a path with letters for indices, and the indices."""
        if kind not in ("prefilled", "stepped"):
            return self._paths.template(path)
        start, number, *rest = path.split(".")
        letter = self._letter_of_layers()
        return ".".join([start, f"{{{letter}}}", *rest]), (int(number),)

    def _letter_of_layers(self) -> str:
        """Return the letter that counts the layers of the cache."""
        layers = len(
            next(iter(self.draws[0].changes[name] for name in self._family.layer_types), ())
        )
        layers = layers or max(self.draws[0].changes[name] for name in self._family.layer_counts)
        fields = self.draws[0].fields
        for letter, count in self._family.blueprint.repeat.items():
            try:
                if evaluate(count, fields) == layers:
                    return letter
            except WeighbridgeError:  # it depends on the index of an outer list
                continue
        raise ModelError("no index counts the layers of the cache")


class Reading:
    """What was recorded in the runs of a setting, as texts."""

    def __init__(
        self,
        memory: Memory,
        setting: RunMode,
        runs: Sequence[RecordedByKind],
        usual: Found | None,
        *,
        learns: bool,
    ) -> None:
        self._memory, self._setting, self._runs, self._learns = memory, setting, runs, learns
        self._usual: dict[tuple[str, tuple[int, ...]], list[tuple[Tree, ...]]] = {}
        for (path, text, indices), count in memory.loops_first(usual or Counter()):
            dims = [memory.dims_of_text[text]] * count
            self._usual.setdefault((path, indices), []).extend(dims)
        edge = dict(setting.edge)
        draws = memory.draws[: len(runs)]
        self._names = [{**draw.names, **setting.fields(draw), **edge} for draw in draws]
        factors = memory.factors(setting.mode)
        self._numbers = Numbers(factors, self._names)
        lengths_first = sorted(factors, key=lambda tree: not _is_of_length(tree))
        self._rounds = Numbers([*lengths_first, *memory.counts], self._names)

    def found(self) -> Found | None:
        """Return how often each text occurs; None if more draws are needed to express them.

        Raises:
            ModelError: an operation cannot be expressed.
        """
        found: Found = Counter()
        for kind in self._runs[0]:
            if kind in PRODUCTS and self._setting.profile != PROFILE_OF_PRODUCTS:
                continue
            by_path: dict[str, list[Phrase]] = {}
            for same in self._aligned(kind):
                text = self._text(kind, same)
                if text is None:
                    return None
                by_path.setdefault(same.path, []).append(text)
            for path, texts in by_path.items():
                template, indices = self._memory.template(kind, path)
                for text in self._with_loops((kind, template), texts):
                    self._memory.dims_of_text[text.text] = text.dims
                    self._memory.dims_of_text[_as_compute(text.text)] = text.dims
                    found[f"{kind} {template}", text.text, indices] += 1
        return found

    def _aligned(self, kind: str) -> Iterable[Same]:
        """Return the operations of a kind, each as it was in all runs."""
        lists = [recorded[kind] for recorded in self._runs]
        outlines = [[(item.path, item.dtype) for item in items] for items in lists]
        if any(outline != outlines[0] for outline in outlines):
            raise ModelError(f"the operations ({kind}) differ between sizes")
        aligned: Iterable[Same] = [
            Same(items[0].path, items[0].dtype, tuple(item.numbers for item in items))
            for items in zip(*lists, strict=True)
        ]
        for chunk in self._memory.chunks if kind in TENSORS else ():
            aligned = added_up(aligned, chunk, evaluate(chunk, self._names[0]))
        return aligned

    def _text(self, kind: str, same: Same) -> Phrase | None:
        """Return an operation as a text: with dims that are known at its path, if they fit."""
        dtype = COMPUTE if same.dtype == self._setting.dtype != WIDE else same.dtype
        template, indices = self._memory.template(kind, same.path)
        usual = self._usual.get((f"{kind} {template}", indices), [])
        known = self._memory.known.setdefault((kind, template), [])
        for dims in (*usual, *self._of_one_head(known), *known):
            if self._fits(dims, same):
                if dims in usual:
                    usual.remove(dims)
                return Phrase(dtype, dims)
        if not self._learns:
            return None
        values_of_dims = zip(*same.numbers, strict=True)
        try:
            dims = (*map(self._numbers.expressed, values_of_dims), *same.rounds)
        except ModelError as error:
            raise ModelError(f"{kind} {same.path}: {error.what}") from None
        known.append(dims)
        return Phrase(dtype, dims)

    def _fits(self, dims: tuple[Tree, ...], same: Same) -> bool:
        """Whether dims are those of an operation in all runs, and of as many rounds if it grows."""
        count = len(dims) - len(same.rounds)
        if dims[count:] != same.rounds:
            return False
        return tuple(_evaluated(dims[:count], names) for names in self._names) == same.numbers

    def _of_one_head(self, known: Iterable[tuple[Tree, ...]]) -> Iterator[tuple[Tree, ...]]:
        """Yield known dims of all query heads as those of the key head, in runs with only one.

        Where a single head is repeated as a view, it stands in the place of a copy for each head.
        """
        changes = dict(self._setting.changes)
        ones = {
            heads: keys for keys, heads in self._memory.key_heads.items() if changes.get(keys) == 1
        }

        def of_one(name: str) -> Tree:
            return ("name", ones.get(name, name))

        for dims in known:
            if any(not ones.keys().isdisjoint(names_in(tree)) for tree in dims):
                yield tuple(substitute(tree, of_one) for tree in dims)

    def _with_loops(self, place: tuple[str, str], texts: Sequence[Phrase]) -> Iterator[Phrase]:
        """Yield texts; one that occurs often is in a loop, and has its rounds as a factor."""
        counted = Counter(texts)
        looped = self._memory.looped.setdefault(place, [])
        for text in looped:
            rounds, once = evaluate(text.times, self._names[0]), text._replace(times=_ONCE)
            if 0 < rounds <= counted[once]:
                counted[once] -= rounds
                yield text
        for text, count in (+counted).items():
            rest = count
            for name in self._memory.loops:  # of shared layers, each of which may do it twice
                loops, rest = divmod(rest, self._names[0][name])
                yield from [text._replace(times=("name", name))] * loops
            yield from self._rest_with_loops(place, text, rest)

    def _rest_with_loops(self, place: tuple[str, str], text: Phrase, count: int) -> list[Phrase]:
        """Return a text that is in no known loop: as often as it occurs, or in new loops."""
        if count <= max(_MOST_REPEATS, self._memory.repeated[place, text]):
            return [text] * count
        if pieces := self._in_pieces(count):
            loops = [text._replace(times=times) for times in pieces]
            self._memory.looped[place] += loops
            return loops
        times, apart = self._rounds_of(count)
        if times is None:
            self._memory.repeated[place, text] = apart
            return [text] * apart
        loop = text._replace(times=times)
        if IMAGES in names_in(times):
            self._memory.looped[place].append(loop)
        return [text] * apart + [loop]

    def _rounds_of(self, count: int) -> tuple[Tree | None, int]:
        """Return the rounds of a loop, and how often a text that occurs so often is outside it.

        Where a batch is 1, a tensor of a loop over a sequence may be as large as some others. The
        rounds are a length, images or a number of layers; None if none of them is there so often.
        """
        for apart in range(_MOST_REPEATS + 1):
            times = self._rounds.expressed((count - apart,) * len(self._runs))
            if _is_of_length(times) or IMAGES in names_in(times):
                return times, apart
        times = self._rounds.expressed((count,) * len(self._runs))
        counts = set(itertools.chain.from_iterable(map(names_in, self._memory.counts)))
        return (None, count) if counts.isdisjoint(names_in(times)) else (times, 0)

    def _in_pieces(self, count: int) -> list[Tree]:
        """Return the loops over the pieces of a sequence in which a text occurs so often.

        The first or last round may lack it: with 11 pieces, 21 times are 11 and 10.
        """
        for tree in self._memory.pieces(self._setting.mode):
            pieces = evaluate(tree, self._names[0])
            loops = -(-count // pieces)
            lacking = loops * pieces - count
            if self._learns and lacking <= loops:
                fewer: Tree = ("-", tree, ("value", 1))
                return [fewer] * lacking + [tree] * (loops - lacking)
        return []


def labelled(found: Found, twin: Found | None) -> Found:
    """Tell tensors that have the dtype of the model from those that are F32 in any model.

    They are the ones that have another dtype in the same run of a BF16 model.
    """
    told: Found = Counter()
    for (path, text, indices), count in found.items():
        as_compute = _as_compute(text)
        fixed = 0
        if twin is not None:
            following = min(count, twin[path, as_compute, indices])
            fixed = min(count - following, twin[path, text, indices])
        told[path, text, indices] += fixed
        told[path, as_compute, indices] += count - fixed
    return +told


def _factors(
    draws: Draws, class_name: str, windows: Sequence[str], *, is_cached: bool
) -> list[Tree]:
    """Return the factors that the dims of a class may be products of."""
    names = sizes_of(class_name, "prefill" if is_cached else "tasks")
    atoms: list[Tree] = [("name", name) for name in (*names, *draws.rules, *draws.counts_in_dims)]
    for name in names:
        if name in LENGTHS:
            atoms += _of_length(("name", name), draws, windows)
    if draws.patches_of_token and draws.image_tokens:
        atoms.append(draws.image_tokens)
    atoms += draws.factors
    dims = draws.blueprint.dims.values()
    atoms += dict.fromkeys(itertools.chain.from_iterable(map(sums_in, dims)))
    kernels = [("name", name) for name in draws.rules if "conv" in name]
    atoms += [("-", kernel, ("value", 1)) for kernel in kernels]
    return atoms + _of_heads(draws.rules)


def _of_length(length: Tree, draws: Draws, windows: Iterable[str]) -> list[Tree]:
    """Return the sizes that follow from the length of a sequence."""
    atoms: list[Tree] = [(sign, length, ("value", 1)) for sign in "-+"]
    plain = (name for name in windows if ("name", name) not in draws.chunks)
    atoms += [("-", ("name", name), ("value", 1)) for name in plain]
    for chunk in draws.chunks:
        atoms += [chunk] if chunk[0] == "value" else []
        pieces = pieces_of(length, chunk)
        atoms += [("+", chunk, ("value", 1)), pieces, ("+", pieces, ("value", 1))]
        atoms.append(below_the_diagonal(chunk))
    for multiple in PADDED:
        atoms.append(("*", ("value", multiple), pieces_of(length, ("value", multiple))))
    kernels = [("name", name) for name in draws.rules if "conv" in name]
    return atoms + [("+", length, ("-", kernel, ("value", 1))) for kernel in kernels]


def _of_heads(names: Iterable[str]) -> list[Tree]:
    """Return the sizes of a head; rotary embeddings turn a part, and keep angles of its half."""
    pairs = itertools.permutations(_names_of_heads(names), 2)
    heads: list[Tree] = [("name", name) for name in names if "head_dim" in name]
    heads += [("//", ("name", one), ("name", other)) for one, other in pairs]
    return heads + [("//", head, ("value", part)) for head in heads for part in _PARTS_OF_A_HEAD]


def pieces_of(length: Tree, chunk: Tree) -> Tree:
    """Return the number of pieces into which code cuts a sequence."""
    return ("ceil", ("/", length, chunk))


def _is_of_length(tree: Tree) -> bool:
    return not {*LENGTHS}.isdisjoint(names_in(tree))


def _is_once(text: str) -> bool:
    return " x " not in text


def _as_compute(text: str) -> str:
    return text.replace(f"{WIDE} ", f"{COMPUTE} ", 1)


def _evaluated(dims: Sequence[Tree], names: Mapping[str, Any]) -> tuple[int, ...] | None:
    try:
        return tuple(evaluate(tree, names) for tree in dims)
    except WeighbridgeError:
        return None


def _names_of_heads(names: Iterable[str]) -> list[str]:
    return [
        name for name in names if "head" in name or name.endswith(_WIDTHS_OF_HEADS) or name == "dim"
    ]
