"""The operations of one class, as expressions found from its runs.

Sizes are drawn at random, so a recorded number shows which sizes it is made of: it is the same
product of fields at every draw. Each draw runs in every situation: with every attention and dtype,
with and without each dropout. An operation that exists only in some situations gets the condition
that separates these from the others. An operation that cannot be expressed is an error of its
class, never a guess.
"""

from __future__ import annotations

import itertools
import operator
import random
from collections import Counter
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.expr import evaluate, parse
from weighbridge.blueprint.operations import COMPUTE, KINDS
from weighbridge.blueprint.paths import indices_in
from weighbridge.derive.generalize.choosing import condition_of
from weighbridge.derive.operations.module_paths import ModulePaths
from weighbridge.derive.operations.workload import ATTENTIONS
from weighbridge.derive.write import dim, expression
from weighbridge.errors import ModelError, WeighbridgeError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.operations.region import Draw, Recorded, Region, Situation

DRAWS = 3  # configs from which expressions are found
MOST_REFUSED = 40  # draws that the code may refuse to build or run
_TRIES = 4000  # draws to try; most are not usable or too similar to another one
_MOST_FACTORS = 4  # factors of a dim
_MOST_TIMES = 8  # the largest constant factor of a dim
_RANK_OF_FACTOR = 100  # makes fewer factors rank before a smaller constant
_LONGEST_REASON = 200  # characters of the reason why code did not run
_WIDE = "F32"  # the dtype whose runs show which tensors have the dtype of the model

# The cost of a question in a condition: the most natural condition is the cheapest.
_COST_OF_SETTING = 1
_COST_OF_TRAINING = 2
_COST_OF_DROPOUT_OR_ANOTHER = 3
_COST_OF_LAYER = 4
_COST_OF_ONE = 5  # whether a size is 1

_SITUATIONS_OF_AN_EDGE = 4  # about this many situations show whether sizes of 1 matter


class Expressed(NamedTuple):
    """A product or a saved tensor as an expression for all draws: path, dtype and dims."""

    path: str
    dtype: str
    dims: str

    @property
    def text(self) -> str:
        """The dtype, if there is one, and the dims."""
        return f"{self.dtype} {self.dims}".strip()


class RunSetting(NamedTuple):
    """How draws are run: the situation, and the sizes that are 1."""

    situation: Situation
    edge: tuple[str, ...] = ()


ExpressedByKind = dict[str, list[Expressed]]
Place = tuple[RunSetting, tuple[int, ...]]
"""Where an operation may happen: in a setting, in the layers with these indices."""


class ClassOperations:
    """The operations of one class, expressed from its runs."""

    def __init__(self, region: Region, class_name: str) -> None:
        self.region, self.class_name = region, class_name
        self.dice = random.Random(f"{class_name} {region.seed}")  # noqa: S311
        self.draws = self._runnable_draws()
        attentions = [name for name in ATTENTIONS if self._has_attention(name)]
        self.situations = [
            situation for situation in region.situations() if situation.attention in attentions
        ]
        self._dim_texts: dict[tuple[int, ...], str] = {}

    def _runnable_draws(self) -> list[Draw]:
        """Return draws that the code runs and that have no size in common.

        Raises:
            ModelError: there are too few such draws.
        """
        draws: list[Draw] = []
        reason = ModelError("no usable config could be drawn")
        refused = 0
        for _ in range(_TRIES):
            draw = self.region.draw(self.class_name, self.dice)
            if draw is None or any(self._share_a_size(draw, other) for other in draws):
                continue
            try:
                self.region.operations(self.class_name, draw, self.region.situations()[0])
            except Exception as error:  # whatever the code raises is its way to refuse
                reason, refused = ModelError(_reason(error)), refused + 1
                if refused == MOST_REFUSED:
                    break
                continue
            draws.append(draw)
            if len(draws) == DRAWS:
                return draws
        raise reason

    def _share_a_size(self, draw: Draw, other: Draw) -> bool:
        """Whether a size is the same in two draws, and could be mistaken for a constant."""
        values = self.region.values(self.class_name, draw)
        other_values = self.region.values(self.class_name, other)
        return any(map(operator.eq, values, other_values))

    def _has_attention(self, attention: str) -> bool:
        situation = self.region.situations()[0]._replace(attention=attention)
        try:
            self.region.operations(self.class_name, self.draws[-1], situation)
        except Exception:  # the class has no such attention
            return False
        return True

    @cached_property
    def texts(self) -> dict[str, dict[str, list[str]]]:
        """The operations of the class as the texts of a file, by kind and by path.

        Raises:
            ModelError: an operation cannot be expressed.
        """
        by_setting = {
            RunSetting(situation): self._expressed_in(RunSetting(situation), {})
            for situation in self.situations
        }
        by_setting |= self._expressed_at_edges(by_setting)
        for (situation, edge), expressed in by_setting.items():
            if situation.dtype != _WIDE:
                wide = by_setting.get(RunSetting(situation._replace(dtype=_WIDE), edge))
                _label_dtypes(expressed, wide, situation.dtype)
        return {kind: self._conditioned(kind, by_setting) for kind in KINDS}

    def _expressed_at_edges(
        self, by_setting: Mapping[RunSetting, ExpressedByKind]
    ) -> dict[RunSetting, ExpressedByKind]:
        """Return the operations where sizes are 1, if any size of 1 makes a difference."""
        edges = [edge for edge in self.region.edges(self.class_name) if self._is_runnable(edge)]
        differing = [edge for edge in edges if self._is_different_at(edge, by_setting)]
        names = set(itertools.chain.from_iterable(differing))
        return {
            RunSetting(situation, edge): self._expressed_in(
                RunSetting(situation, edge), by_setting[RunSetting(situation)]
            )
            for edge in edges
            if names.intersection(edge)
            for situation in self.situations
        }

    def _is_runnable(self, edge: tuple[str, ...]) -> bool:
        """Whether the code runs with these sizes set to 1."""
        try:
            self._run(self.draws[0], RunSetting(self.situations[0], edge))
        except Exception:  # whatever the code raises is its way to refuse
            return False
        return True

    def _is_different_at(
        self, edge: tuple[str, ...], by_setting: Mapping[RunSetting, ExpressedByKind]
    ) -> bool:
        """Whether operations differ from the expressed ones where these sizes are 1."""
        situations = [situation for situation in self.situations if situation.dtype == _WIDE]
        step = max(1, len(situations) // _SITUATIONS_OF_AN_EDGE)
        for situation in situations[::step]:
            run = self._run(self.draws[0], RunSetting(situation, edge))
            for kind, usual in by_setting[RunSetting(situation)].items():
                expected = Counter(
                    (expressed.path, expressed.dtype, self._amounts(kind, expressed, edge)[0])
                    for expressed in usual
                )
                found = Counter(
                    (recorded.path, recorded.dtype, _amount(kind, recorded.numbers))
                    for recorded in run[kind]
                )
                if expected != found:
                    return True
        return False

    def _run(self, draw: Draw, setting: RunSetting) -> dict[str, list[Recorded]]:
        """Run a draw in a setting."""
        draw = draw.at_one(setting.edge)
        return self.region.operations(self.class_name, draw, setting.situation)

    def _expressed_in(self, setting: RunSetting, usual: ExpressedByKind) -> ExpressedByKind:
        """Return the operations in a setting, expressed for all draws, as ``usual`` if possible."""
        try:
            runs = [self._run(draw, setting) for draw in self.draws]
        except ModelError:
            raise
        except Exception as error:  # whatever the code raises
            raise ModelError(_reason(error)) from None
        return {
            kind: self._in_common(kind, [run[kind] for run in runs], usual.get(kind, []), setting)
            for kind in runs[0]
        }

    def _in_common(
        self,
        kind: str,
        runs: Sequence[list[Recorded]],
        usual: Sequence[Expressed],
        setting: RunSetting,
    ) -> list[Expressed]:
        first, *others = ([_outline(recorded) for recorded in run] for run in runs)
        if any(outlines != first for outlines in others):
            raise ModelError(f"the operations ({kind}) differ between sizes")
        known: dict[tuple[Any, ...], list[Expressed]] = {}
        for expressed in usual:
            amounts = self._amounts(kind, expressed, setting.edge)
            known.setdefault((expressed.path, expressed.dtype, amounts), []).append(expressed)
        in_common = []
        for same in zip(*runs, strict=True):
            amounts = tuple(_amount(kind, recorded.numbers) for recorded in same)
            fitting = known.get((same[0].path, same[0].dtype, amounts))
            if fitting:
                in_common.append(fitting.pop(0))
                continue
            values_of_dims = zip(*(recorded.numbers for recorded in same), strict=True)
            dims = " ".join(map(self._dim_text, values_of_dims)) or "1"
            in_common.append(Expressed(same[0].path, same[0].dtype, dims))
        return in_common

    def _amounts(
        self, kind: str, expressed: Expressed, edge: tuple[str, ...]
    ) -> tuple[tuple[int, ...], ...]:
        """Return what an operation amounts to in each draw where the sizes of an edge are 1."""
        trees = [parse(word) for word in expressed.dims.split()]
        amounts = []
        for draw in self.draws:
            sizes = draw.at_one(edge).sizes
            numbers = tuple(evaluate(tree, sizes) for tree in trees)
            amounts.append(_amount(kind, numbers))
        return tuple(amounts)

    def _dim_text(self, values: tuple[int, ...]) -> str:
        """Return the simplest product of sizes that has these values in the draws.

        Raises:
            ModelError: there is no such product.
        """
        if values not in self._dim_texts:
            if len(set(values)) == 1:
                tree: Tree | None = ("value", values[0])
            else:
                tree = self._simplest_product(values)
            if tree is None:
                shown = ", ".join(map(str, values))
                raise ModelError(f"no product of sizes gives {shown} in {len(values)} draws")
            self._dim_texts[values] = dim(tree)
        return self._dim_texts[values]

    def _simplest_product(self, values: tuple[int, ...]) -> Tree | None:
        """Return a product of atoms, possibly with a constant factor, that has these values."""
        products: list[tuple[int, Tree]] = []
        for times in range(1, _MOST_TIMES + 1):
            if any(value % times for value in values):
                continue
            known = self._products.get(tuple(value // times for value in values))
            if known is None:
                continue
            rank, tree = known
            if times > 1:
                tree = ("*", ("value", times), tree)
            products.append((rank + times, tree))
        if not products:
            return None
        return min(products, key=lambda product: product[0])[1]

    @cached_property
    def _products(self) -> dict[tuple[int, ...], tuple[int, Tree]]:
        """The simplest products of atoms, with their ranks, by their values in the draws."""
        columns = []
        for tree in self.region.atoms(self.class_name):
            values = [_whole_value(tree, draw.sizes) for draw in self.draws]
            if None not in values and len(set(values)) > 1:
                columns.append((tree, values))
        products: dict[tuple[int, ...], tuple[int, Tree]] = {}
        for count in range(1, _MOST_FACTORS + 1):
            for factors in itertools.combinations_with_replacement(columns, count):
                trees, columns_of_factors = zip(*factors, strict=True)
                key = tuple(map(prod, zip(*columns_of_factors, strict=True)))
                if key not in products:
                    products[key] = (_RANK_OF_FACTOR * count, _product(trees))
        return products

    def _conditioned(
        self, kind: str, by_setting: Mapping[RunSetting, ExpressedByKind]
    ) -> dict[str, list[str]]:
        """Return the texts of a kind by path, each with the condition under which it exists."""
        paths = ModulePaths(self.region.blueprint, self.class_name)
        counted: dict[RunSetting, Counter[tuple[str, str, tuple[int, ...]]]] = {}
        order: dict[str, dict[str, None]] = {}
        for setting, expressed in by_setting.items():
            if kind not in expressed:
                continue
            counted[setting] = Counter()
            for operation in expressed[kind]:
                path, indices = paths.template(operation.path)
                counted[setting][path, operation.text, indices] += 1
                order.setdefault(path, {})[operation.text] = None
        texts: dict[str, list[str]] = {}
        for path, texts_at_path in order.items():
            places = list(itertools.product(counted, self._all_indices(path)))
            for text in texts_at_path:
                times = np.array([counted[setting][path, text, at] for setting, at in places])
                for least in range(1, int(times.max()) + 1):
                    condition = self._condition(path, places, times >= least)
                    texts.setdefault(path, []).append(text + condition)
        return texts

    def _all_indices(self, path: str) -> list[tuple[int, ...]]:
        """Return the indices of every module at a path."""
        repeat, fields = self.region.blueprint.repeat, self.draws[0].fields
        counts = [evaluate(repeat[letter], fields) for letter in indices_in(path)]
        return list(itertools.product(*map(range, counts)))

    def _condition(self, path: str, places: Sequence[Place], wanted: Any) -> str:
        """Return the condition under which an operation exists, as the end of its text.

        It is empty if the operation always exists.

        Raises:
            ModelError: no condition was found.
        """
        if wanted.all():
            return ""
        letters, sizes = indices_in(path), self.draws[0].sizes
        environments = [
            {
                **sizes,
                **dict.fromkeys(edge, 1),
                **situation.names,
                **dict(zip(letters, indices, strict=True)),
            }
            for (situation, edge), indices in places
        ]
        questions, costs, answers = [], [], []
        ones = dict.fromkeys(name for (_, edge), _ in places for name in edge)
        for tree, cost in self._questions(letters, ones):
            row = [bool(evaluate(tree, environment)) for environment in environments]
            if any(row) and not all(row):
                questions.append(tree)
                costs.append(cost)
                answers.append(row)
        table = np.array(answers, dtype=bool).reshape(len(answers), len(places))
        condition = condition_of(questions, costs, table, wanted)
        if condition is None:
            module = path or self.class_name
            share = f"which occurs in {wanted.sum()} of {len(wanted)} places"
            raise ModelError(f"no condition was found for an operation of {module}, {share}")
        return f" if {expression(condition)}"

    def _questions(
        self, letters: Iterable[str], ones: Iterable[str]
    ) -> Iterator[tuple[Tree, float]]:
        """Yield the questions that conditions are made of, each with its cost."""
        yield ("name", "training"), _COST_OF_TRAINING
        for name in ("attention", "dtype"):
            for value in dict.fromkeys(getattr(situation, name) for situation in self.situations):
                yield ("==", ("name", name), ("value", value)), _COST_OF_SETTING
        usual = self.region.dropouts.items()
        with_value = [name for name, value in usual if value is not None]
        for name in with_value:
            yield _dropped(("name", name)), _COST_OF_SETTING
        for name in (name for name, value in usual if value is None):
            for other in with_value:
                is_null = ("==", ("name", name), ("value", None))
                either = ("if", is_null, ("name", other), ("name", name))
                yield _dropped(either), _COST_OF_DROPOUT_OR_ANOTHER
        for letter in letters:
            last = ("-", self.region.blueprint.repeat[letter], ("value", 1))
            yield ("==", ("name", letter), ("value", 0)), _COST_OF_LAYER
            yield ("==", ("name", letter), last), _COST_OF_LAYER
        for name in ones:
            yield (">", ("name", name), ("value", 1)), _COST_OF_ONE


def _amount(kind: str, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of a product, or the number of elements of a tensor.

    Where a dim is 1, the same elements may have other dims.
    """
    return (prod(numbers),) if kind == "saved" else numbers


def _outline(recorded: Recorded) -> tuple[str, str, int]:
    return recorded.path, recorded.dtype, len(recorded.numbers)


def _dropped(probability: Tree) -> Tree:
    return ("and", ("name", "training"), (">", probability, ("value", 0)))


def _product(trees: Sequence[Tree]) -> Tree:
    product = trees[0]
    for tree in trees[1:]:
        product = ("*", product, tree)
    return product


def _whole_value(tree: Tree, sizes: Mapping[str, Any]) -> int | None:
    try:
        value = evaluate(tree, sizes)
    except WeighbridgeError:
        return None
    return value if type(value) is int and value > 0 else None


def _reason(error: Exception) -> str:
    if isinstance(error, WeighbridgeError):
        return error.what
    raised = " ".join(f"running it raised {type(error).__name__}: {error}".split())
    return shorten(raised, str, _LONGEST_REASON).rstrip(".")


def _label_dtypes(expressed: ExpressedByKind, wide: ExpressedByKind | None, dtype: str) -> None:
    """Mark the saved tensors whose dtype follows that of the model.

    They are those that have another dtype in the same run of a wide model.
    """
    saved = expressed["saved"]
    fixed: set[int] = set()
    if wide is None:
        expressed["saved"] = _labelled(saved, dtype, fixed)
        return
    if [_place(tensor) for tensor in saved] == [_place(tensor) for tensor in wide["saved"]]:
        fixed = {index for index, tensor in enumerate(saved) if tensor.dtype == _WIDE}
    expressed["saved"] = _labelled(saved, dtype, fixed)
    wide["saved"] = _labelled(wide["saved"], _WIDE, fixed)


def _place(tensor: Expressed) -> tuple[str, str]:
    return tensor.path, tensor.dims


def _labelled(saved: Iterable[Expressed], dtype: str, fixed: set[int]) -> list[Expressed]:
    labelled = []
    for index, tensor in enumerate(saved):
        follows = tensor.dtype == dtype and index not in fixed
        labelled.append(tensor._replace(dtype=COMPUTE) if follows else tensor)
    return labelled
