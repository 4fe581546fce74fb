"""Conditions for existence: questions that the reference code asked, and a few more."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.rewrite import (
    FALSE,
    LEAVES,
    NULL,
    TRUE,
    leaves,
    replaced,
    simplified,
)
from weighbridge.derive.generalize.choosing import condition_of, cost_of, decided_by
from weighbridge.derive.generalize.doubling import with_powers_of_2
from weighbridge.derive.generalize.ordinals import with_ordinals
from weighbridge.derive.generalize.places import list_above, values_at
from weighbridge.derive.generalize.reversed_lists import with_items_from_end
from weighbridge.derive.probing.symbolic import node_count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.places import Flags, Level, Observation
    from weighbridge.derive.generalize.stages import Stages
    from weighbridge.derive.generalize.truths import Truths

    Priced = Iterator[tuple[Tree, float]]
    Counts = Mapping[str, Tree | None]


# Numbers that code may plausibly compare an index with. Larger ones fit by chance.
FIRST_INDICES = range(3)
LOWEST_BOUND = 2  # index < 1 is index == 0
IN_LAST_ROUND = (2, 3)  # modules that a loop adds, the last ones of a list
PERIODS = (2, 3, 4)
STARTS = (1, 2, 3)  # of the second part of a list


class _Options(NamedTuple):
    """The conditions that distinguish places of a level, cheapest first, and where each holds."""

    trees: list[Tree]
    costs: list[float]
    table: Flags


class Questions:
    """The conditions that the reference code asked, or could have asked, at any place."""

    def __init__(
        self, observations: Sequence[Observation], truths: Truths, *, in_parts: bool = False
    ) -> None:
        """Take questions from these observations; ``truths`` may hold answers of earlier ones.

        Lists of a config may be built ``in_parts``: then a loop counts from a later index.
        """
        self._observations, self._truths, self._in_parts = observations, truths, in_parts
        truths.begin(observations)
        self._options: dict[str, _Options] = {}
        self._answers: dict[tuple[str, bytes, bytes], Tree | None] = {}

    def condition(self, level: Level, wanted: Flags, mask: Flags, counts: Counts) -> Tree | None:
        """Return a condition that is true where wanted, and false elsewhere under the mask.

        ``counts`` gives the number of modules in each list.
        """
        key = level.path, wanted.tobytes(), mask.tobytes()
        if key not in self._answers:
            found = self._search(level, wanted, mask, counts)
            tests = [] if found else [*_tests_in(counts.get(level.path))]
            self._answers[key] = found or self._by_answers(level, wanted, mask, counts, tests)
        return self._answers[key]

    def _by_answers(
        self, level: Level, wanted: Flags, mask: Flags, counts: Counts, tests: Sequence[Tree]
    ) -> Tree | None:
        """Return a condition for each answer to the tests on which the length of a list depends."""
        truth = self._truths.of(level, tests[0]) if tests else None
        if truth is None:
            return None
        parts = []
        for answers in (truth[1], ~truth[1]):
            part = self._search(level, wanted, mask & answers, counts)
            part = part or self._by_answers(level, wanted, mask & answers, counts, tests[1:])
            if part is None:
                return None
            parts.append(part)
        return decided_by(tests[0], *parts)

    def _search(self, level: Level, wanted: Flags, mask: Flags, counts: Counts) -> Tree | None:
        wanted = wanted[mask]
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
            truth = self._truths.of(level, tree)
            if truth is None:
                continue
            condition, flags = truth
            total = price
            if condition != tree:
                total += cost_of("guard")
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
        index_questions = _index_questions(level, self._varied_fields, self._asked_fields, counts)
        in_loops = [depth for depth in range(level.depth) if _is_of_loop(level, depth, counts)]
        for question, price in itertools.chain(
            self.asked.items(), self._in_terms_of_rounds(level), index_questions
        ):
            for tree in resolutions(question, in_loops, level.stages):
                yield tree, price
                if self._in_parts and tree is not question:
                    for start in STARTS:
                        yield _from_later(tree, start), price + cost_of("later start")

    def _in_terms_of_rounds(self, level: Level) -> Priced:
        """Yield questions in which an index takes the place of a number that forgot its round."""
        indices: list[Tree] = [("index", depth) for depth in range(level.depth)]
        all_fields = [observation.fields for observation in self._observations]
        for question in with_ordinals(self.asked, all_fields, level.depth):
            yield question, cost_of("ordinal")
        if not any(seen.trace.rounds_apart for seen in self._observations):
            return
        for question in with_powers_of_2(self._as_asked, indices):
            yield simplified(question), cost_of("power of 2")
        for question in with_items_from_end(self.asked, indices):
            yield question, cost_of("item from the end")

    @cached_property
    def asked(self) -> dict[Tree, float]:
        """Each condition that was asked, or could have been, with its cost."""
        costs: dict[Tree, float] = {}
        for observation in self._observations:
            for question in observation.trace.questions:
                if question[0] != "value":
                    costs.setdefault(
                        question, cost_of("asked") + cost_of("node") * node_count(question)
                    )
        for name, values in self._varied_fields.items():
            for question, price in _field_questions(name, values):
                costs.setdefault(question, price)
        return costs

    @cached_property
    def _as_asked(self) -> dict[Tree, None]:
        """Each condition that was asked, as it was asked: ``size // 1`` is not yet ``size``."""
        return dict.fromkeys(
            itertools.chain.from_iterable(seen.trace.asked for seen in self._observations)
        )

    @cached_property
    def about_fields(self) -> list[Tree]:
        """The conditions that name fields alone and have both answers, the cheapest first."""
        environments = [observation.fields for observation in self._observations]
        answered: list[Tree] = []
        for tree in sorted(self.asked, key=lambda tree: (self.asked[tree], repr(tree))):
            is_of_loop = any(leaf[0] in ("loop", "index") for leaf in leaves(tree))
            if not is_of_loop and {True, False} <= {*values_at(tree, environments)}:
                answered.append(tree)
        return answered

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

    @cached_property
    def _asked_fields(self) -> set[str]:
        """The fields that the code was seen to ask about."""
        names: set[str] = set()
        for observation in self._observations:
            names |= observation.trace.fields_asked
        return names


def _tests_in(count: Tree | None) -> Iterator[Tree]:
    """Yield the conditions on which a number of modules depends, each once."""
    if count is not None and count[0] == "if":
        parts = (*_tests_in(count[2]), *_tests_in(count[3]))
        yield from dict.fromkeys((count[1], *parts))


def _field_questions(name: str, values: list[Any]) -> Priced:
    """Yield conditions on a field that code can check without leaving a trace."""
    kinds = {type(value) for value in values}
    field: Tree = ("name", name)
    if kinds == {bool}:
        yield field, cost_of("is true")
    elif kinds == {bool, type(None)}:
        yield ("==", field, TRUE), cost_of("is true")
    if type(None) in kinds:
        yield ("==", field, NULL), cost_of("is null")
    for text in sorted({value for value in values if type(value) is str}):
        yield ("==", field, ("value", text)), cost_of("equals text")
    if kinds & {int, float}:
        yield (">", field, ("value", 0)), cost_of("is over 0")
        yield (">", field, ("value", 1)), cost_of("is over 1")
    if list in kinds:
        yield from _list_questions(field, [value for value in values if type(value) is list])


def _list_questions(field: Tree, lists: list[list[Any]]) -> Priced:
    """Yield conditions on a field that is a list in some configs."""
    yield ("!=", ("len", field), ("value", 0)), cost_of("is not empty")
    for text in _item_texts(lists):
        yield ("in", ("value", text), field), cost_of("in list")


def _item_texts(lists: list[list[Any]]) -> list[str]:
    """Return the texts that are items of some list."""
    items = itertools.chain.from_iterable(lists)
    return sorted({item for item in items if isinstance(item, str)})


def _index_questions(
    level: Level, fields: Mapping[str, list[Any]], asked: Collection[str], counts: Counts
) -> Priced:
    """Yield conditions on an index that code can check without leaving a trace."""
    for depth in range(level.depth):
        index: Tree = ("index", depth)
        yield from _counter_questions(index, counts.get(_list_at(level, depth)))
        for name, values in fields.items():
            yield from _comparisons_with(index, name, values, is_asked=name in asked)
    for flat_list in level.stages:
        yield ("==", flat_list.block, ("value", 0)), cost_of("is number")
        for number in FIRST_INDICES:
            yield ("==", flat_list.stage, ("value", number)), cost_of("is number") + number
        last = ("-", flat_list.number, ("value", 1))
        yield ("==", flat_list.stage, last), cost_of("is last")
        for name, values in fields.items():
            yield from _comparisons_with(flat_list.stage, name, values, is_asked=name in asked)


def _counter_questions(index: Tree, count: Tree | None) -> Priced:
    """Yield conditions on an index with small numbers, or with the length of its list."""
    for number in FIRST_INDICES:
        bound = number + LOWEST_BOUND
        yield ("==", index, ("value", number)), cost_of("is number") + number
        yield ("<", index, ("value", bound)), cost_of("below number") + number
    if count is not None:
        yield ("==", index, ("-", count, ("value", 1))), cost_of("is last")
        for number in IN_LAST_ROUND:
            yield ("<", index, ("-", count, ("value", number))), cost_of("before last round")
    for period in PERIODS:
        remainder = ("%", index, ("value", period))
        yield ("==", remainder, ("value", 0)), cost_of("is multiple")
        yield ("==", remainder, ("value", 1)), cost_of("is 1 over multiple")
        if period > 2:
            yield ("==", remainder, ("value", period - 1)), cost_of("is last of a round")


def _comparisons_with(index: Tree, name: str, values: list[Any], *, is_asked: bool) -> Priced:
    """Yield conditions that compare an index with a field."""
    field: Tree = ("name", name)
    lists = [value for value in values if isinstance(value, list)]
    if {type(value) for value in values} in ({int}, {int, type(None)}):
        yield ("<", index, field), cost_of("below field")
    elif any(map(_has_only_integers, lists)):
        yield ("in", index, field), cost_of("in list")
    at_index = cyclic = cost_of("unasked text at index")
    if is_asked:
        at_index, cyclic = cost_of("text at index"), cost_of("text at index, cyclic")
    for text in _item_texts(lists):
        around: Tree = ("%", index, ("len", field))
        yield ("==", ("[]", field, index), ("value", text)), at_index
        yield ("==", ("[]", field, around), ("value", text)), cyclic


def _from_later(tree: Tree, start: int) -> Tree:
    """Return a question for a loop that begins at a later index."""

    def shifted(leaf: Tree) -> Tree:
        return ("-", leaf, ("value", start)) if leaf[0] == "index" else leaf

    return replaced(tree, shifted)


def _has_only_integers(items: list[Any]) -> bool:
    return bool(items) and all(type(item) is int for item in items)


def resolutions(tree: Tree, depths: Iterable[int], stages: Iterable[Stages] = ()) -> Iterator[Tree]:
    """Yield a tree with each way to read its loop counters as indices, stages and blocks.

    ``depths`` are those of the indices that may be loop counters.
    """
    loops = list(dict.fromkeys(leaf[1] for leaf in leaves(tree) if leaf[0] == "loop"))
    if not loops:
        yield tree
        return
    counters: list[Tree] = [("index", depth) for depth in depths]
    for flat_list in stages:
        counters += (flat_list.stage, flat_list.block)
    if len(loops) > 1 and _has_items(tree):  # the item before may be in a list of its own
        counters += [("-", counter, ("value", 1)) for counter in counters]
    for chosen in itertools.permutations(counters, len(loops)):
        yield _with_indices(tree, dict(zip(loops, chosen, strict=True)))


def _is_of_loop(level: Level, depth: int, counts: Counts) -> bool:
    """Whether a loop may have counted an index: the parts of a module are not counted.

    The number of such parts is a constant, or one of two.
    """
    count = counts.get(_list_at(level, depth))
    return count is None or not _is_constant(count)


def _list_at(level: Level, depth: int) -> str:
    """Return the list that an index counts in; depth 0 is the outermost one."""
    path = level.path
    for _ in range(level.depth - 1 - depth):
        path = list_above(path)
    return path


def _is_constant(tree: Tree) -> bool:
    kind, *operands = tree
    if kind == "if":
        return _is_constant(operands[1]) and _is_constant(operands[2])
    return bool(kind == "value")


def _has_items(tree: Tree) -> bool:
    """Whether a tree has items of lists."""
    kind, *operands = tree
    return kind == "[]" or (kind not in LEAVES and any(map(_has_items, operands)))


def _with_indices(tree: Tree, counter_of: Mapping[str, Tree]) -> Tree:
    def resolve(leaf: Tree) -> Tree:
        if leaf[0] == "loop":
            return counter_of[leaf[1]]
        return leaf

    return replaced(tree, resolve)
