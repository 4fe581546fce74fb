"""Conditions for existence: questions that the reference code asked, and a few more."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.rewrite import NULL, field_names, joined, leaves, replaced, simplified
from weighbridge.derive.generalize.choosing import condition_of, cost
from weighbridge.derive.generalize.places import list_above, value_at
from weighbridge.derive.probing.symbolic import node_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.places import Flags, Level, Observation

    Priced = Iterator[tuple[Tree, float]]
    Counts = Mapping[str, Tree | None]

TRUE: Tree = ("value", True)
FALSE: Tree = ("value", False)

# Numbers that code may plausibly compare an index with. Larger ones fit by chance.
FIRST_INDICES = range(3)
LOWEST_BOUND = 2  # index < 1 is index == 0
PERIODS = (2, 3, 4)


class _Options(NamedTuple):
    """The conditions that distinguish places of a level, cheapest first, and where each holds."""

    trees: list[Tree]
    costs: list[float]
    table: Flags


class Questions:
    """The conditions that the reference code asked, or could have asked, at any place."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._observations = observations
        self._options: dict[str, _Options] = {}
        self._answers: dict[tuple[str, bytes, bytes], Tree | None] = {}

    def condition(self, level: Level, wanted: Flags, mask: Flags, counts: Counts) -> Tree | None:
        """Return a condition that is true where wanted, and false elsewhere under the mask.

        ``counts`` gives the number of modules in each list.
        """
        key = level.path, wanted.tobytes(), mask.tobytes()
        if key not in self._answers:
            self._answers[key] = self._search(level, wanted[mask], mask, counts)
        return self._answers[key]

    def _search(self, level: Level, wanted: Flags, mask: Flags, counts: Counts) -> Tree | None:
        if wanted.all():
            return TRUE
        if not wanted.any():
            return FALSE
        if level.path not in self._options:
            self._options[level.path] = self._options_of(level, counts)
        trees, costs, table = self._options[level.path]
        return condition_of(trees, costs, table[:, mask], wanted)

    def _options_of(self, level: Level, counts: Counts) -> _Options:
        """Return the conditions for a level; the cheapest of those that agree everywhere."""
        cheapest: dict[bytes, tuple[float, Tree, Flags]] = {}
        for tree, price in self._questions_about(level, counts):
            truth = self._truth(level, tree)
            if truth is None:
                continue
            condition, flags = truth
            total = price
            if condition is not tree:
                total += cost("guard")
            key = min(flags.tobytes(), (~flags).tobytes())  # a condition and its opposite
            if key not in cheapest or total < cheapest[key][0]:
                cheapest[key] = (total, condition, flags)
        ordered = sorted(cheapest.values(), key=lambda option: (option[0], repr(option[1])))
        table = np.array([flags for _, _, flags in ordered], dtype=bool)
        return _Options(
            [tree for _, tree, _ in ordered],
            [price for price, _, _ in ordered],
            table.reshape(len(ordered), len(level.places)),
        )

    def _questions_about(self, level: Level, counts: Counts) -> Priced:
        """Yield the questions for the places of a level; its indices stand for loop counters."""
        index_questions = _index_questions(level, self._varied_fields, counts)
        for question, price in itertools.chain(self.asked.items(), index_questions):
            for tree in resolutions(question, level.depth):
                yield tree, price

    @cached_property
    def asked(self) -> dict[Tree, float]:
        """Each condition that was asked, or could have been, with its cost."""
        costs: dict[Tree, float] = {}
        for observation in self._observations:
            for tree in observation.trace.asked:
                question = simplified(tree)
                if question[0] != "value":
                    costs.setdefault(question, cost("asked") + cost("node") * node_count(question))
        for name, values in self._varied_fields.items():
            for question, price in _field_questions(name, values):
                costs.setdefault(question, price)
        return costs

    @cached_property
    def _varied_fields(self) -> dict[str, list[Any]]:
        """The values in all observations of each field that has more than one."""
        varied: dict[str, list[Any]] = {}
        every_name = itertools.chain.from_iterable(seen.fields for seen in self._observations)
        for name in dict.fromkeys(every_name):
            values = [observation.fields.get(name) for observation in self._observations]
            if len(set(map(repr, values))) > 1:
                varied[name] = values
        return varied

    def _truth(self, level: Level, tree: Tree) -> tuple[Tree, Flags] | None:
        """Return a condition, guarded against nulls where it fails on them, and where it holds."""
        has_index = any(leaf[0] == "index" for leaf in leaves(tree))
        environments: list[Mapping[str, Any]] = [seen.fields for seen in self._observations]
        if has_index:
            environments = [*level.environments]
        answers = [value_at(tree, environment) for environment in environments]
        if None in answers:
            tree, answers = _guarded(tree, answers, environments)
        if None in answers:
            return None
        flags = np.array([bool(answer) for answer in answers], dtype=bool)
        if flags.all() or not flags.any():
            return None
        if has_index:
            return tree, flags
        return tree, flags[level.observation_of]


def _guarded(
    tree: Tree, answers: list[Any], environments: list[Mapping[str, Any]]
) -> tuple[Tree, list[Any]]:
    """Return a condition that fails somewhere with guards in front, and its answers."""
    pairs = zip(environments, answers, strict=True)
    nulls = _nulls(
        field_names(tree), [environment for environment, answer in pairs if answer is None]
    )
    if nulls and tree[0] == "name":
        tree, answers = ("==", tree, TRUE), [answer is True for answer in answers]
    if None not in answers:
        return tree, answers
    guards: list[Tree] = [("!=", ("name", name), NULL) for name in sorted(nulls)]
    guards += [guard for guard in _guards(tree) if _is_false_somewhere(guard, environments)]
    guarded = joined("and", [*guards, tree])
    return guarded, [value_at(guarded, environment) for environment in environments]


def _nulls(fields: set[str], environments: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the fields that are null or absent in some environment."""
    nulls: set[str] = set()
    for environment in environments:
        nulls |= {name for name in fields if environment.get(name) is None}
    return nulls


def _is_false_somewhere(tree: Tree, environments: Sequence[Mapping[str, Any]]) -> bool:
    return any(value_at(tree, environment) is False for environment in environments)


def _guards(tree: Tree) -> Iterator[Tree]:
    """Yield the conditions for a tree to have a value: divisors are not 0, indices are in range."""
    kind, *operands = tree
    if kind in ("//", "%", "/"):
        yield ("!=", operands[1], ("value", 0))
    elif kind == "[]":
        yield ("<", operands[1], ("len", operands[0]))
    if kind not in ("name", "value", "index", "loop"):
        for operand in operands:
            yield from _guards(operand)


def _field_questions(name: str, values: list[Any]) -> Priced:
    """Yield conditions on a field that code can check without leaving a trace."""
    kinds = {type(value) for value in values}
    field: Tree = ("name", name)
    if kinds == {bool}:
        yield field, cost("is true")
    elif kinds == {bool, type(None)}:
        yield ("==", field, TRUE), cost("is true")
    if type(None) in kinds:
        yield ("==", field, NULL), cost("is null")
    for text in sorted({value for value in values if type(value) is str}):
        yield ("==", field, ("value", text)), cost("equals text")
    if kinds & {int, float}:
        yield (">", field, ("value", 0)), cost("is over 0")
        yield (">", field, ("value", 1)), cost("is over 1")
    if list in kinds:
        yield ("!=", ("len", field), ("value", 0)), cost("is not empty")


def _index_questions(level: Level, fields: Mapping[str, list[Any]], counts: Counts) -> Priced:
    """Yield conditions on an index that code can check without leaving a trace."""
    lists = [level.path]
    while list_above(lists[-1]):
        lists.append(list_above(lists[-1]))
    for depth in range(level.depth):
        index: Tree = ("index", depth)
        for number in FIRST_INDICES:
            bound = number + LOWEST_BOUND
            yield ("==", index, ("value", number)), cost("is number") + number
            yield ("<", index, ("value", bound)), cost("below number") + number
        count = counts.get(lists[level.depth - 1 - depth])
        if count is not None:
            yield ("==", index, ("-", count, ("value", 1))), cost("is last")
        for period in PERIODS:
            remainder = ("%", index, ("value", period))
            yield ("==", remainder, ("value", 0)), cost("is multiple")
            yield ("==", remainder, ("value", 1)), cost("is 1 over multiple")
        for name, values in fields.items():
            yield from _comparisons_with(index, name, values)


def _comparisons_with(index: Tree, name: str, values: list[Any]) -> Priced:
    """Yield conditions that compare an index with a field."""
    field: Tree = ("name", name)
    lists = [value for value in values if isinstance(value, list)]
    if {type(value) for value in values} in ({int}, {int, type(None)}):
        yield ("<", index, field), cost("below field")
    elif any(map(_has_only_integers, lists)):
        yield ("in", index, field), cost("in list")
    items = itertools.chain.from_iterable(lists)
    for text in sorted({item for item in items if isinstance(item, str)}):
        around: Tree = ("%", index, ("len", field))
        yield ("==", ("[]", field, index), ("value", text)), cost("text at index")
        yield ("==", ("[]", field, around), ("value", text)), cost("text at index, cyclic")


def _has_only_integers(items: list[Any]) -> bool:
    return bool(items) and all(type(item) is int for item in items)


def resolutions(tree: Tree, depth: int) -> Iterator[Tree]:
    """Yield a tree with each way to read its loop counters as indices."""
    loops = list(dict.fromkeys(leaf[1] for leaf in leaves(tree) if leaf[0] == "loop"))
    if not loops:
        yield tree
        return
    for indices in itertools.permutations(range(depth), len(loops)):
        index_of = dict(zip(loops, indices, strict=True))
        yield _with_indices(tree, index_of)


def _with_indices(tree: Tree, index_of: Mapping[str, int]) -> Tree:
    def resolve(leaf: Tree) -> Tree:
        if leaf[0] == "loop":
            return ("index", index_of[leaf[1]])
        return leaf

    return replaced(tree, resolve)
