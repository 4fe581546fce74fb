"""Finds expressions by value, for numbers whose own expression was lost on the way."""

from __future__ import annotations

import itertools
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.rewrite import simplified
from weighbridge.derive.generalize.choosing import cost_of
from weighbridge.derive.generalize.conditions import resolutions
from weighbridge.derive.generalize.doubling import powers_of_2
from weighbridge.derive.generalize.places import depth_of, value_at, values_at
from weighbridge.derive.generalize.stages import is_stage
from weighbridge.derive.probing.symbolic import node_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.probing.symbolic import SymbolicTrace

    Numbers = NDArray[np.int64]
    Environments = Sequence[Mapping[str, Any]]

MOST_NOTED = 3000  # expressions of one kind to try, shortest first; the rest would fit by chance
LARGEST_NUMBER = 2**40  # the product of a few sizes must still fit 64 bits
LARGEST_OFFSET = 64  # code adds small constants: special tokens, position offsets
LARGEST_FACTOR = 256  # and multiplies by small constants, or by the number of patches
CHEAPEST_PAIRED = 70  # candidates that are multiplied and divided in pairs
MOST_SEARCHES = 16  # sets of environments whose terms are kept: a few megabytes each
CHECKSUM_BASE = 0x5851F42D4C957F2D  # odd and without a pattern, so that few checksums coincide
MOST_TERMS = 1500  # terms made from two candidates, to which a third is added
FACTORS = (1, 2, 3, 4)  # factors of the first term of a sum: 3 for q, k and v; 2 or 4 for gates


class Term(NamedTuple):
    """An expression and its value in each environment."""

    tree: Tree
    numbers: Numbers


class LostValues:
    """Finds expressions by value, among those that the code computed and simple ones."""

    def __init__(self, traces: Sequence[SymbolicTrace], *, guess: bool) -> None:
        """Look in these traces; ``guess`` allows sums and products of fields too."""
        self._traces, self._guess = traces, guess
        self._rounds_apart = any(trace.rounds_apart for trace in traces)
        self._searches: dict[tuple[int, ...], tuple[Environments, _SearchedTerms]] = {}

    @cached_property
    def bounds(self) -> list[Tree]:
        """The bounds of loops."""
        return _shortest(trace.shorter_bounds for trace in self._traces)

    @cached_property
    def computed(self) -> list[Tree]:
        """The integers that the reference code computed."""
        return _shortest(trace.shorter_computed for trace in self._traces)

    def expression(
        self, wanted: Sequence[int], environments: Environments, first: Sequence[Tree] = ()
    ) -> Tree | None:
        """Return an expression with these values; those in ``first`` take precedence."""
        bound = next(_agreeing(first, wanted, environments, at_least_0=True), None)
        if bound is not None:
            return bound
        if len(set(wanted)) == 1:
            return ("value", wanted[0])
        goal = np.array(wanted)
        search = self._search(environments)
        simple = search.simple.with_values(goal)
        if simple is not None:
            return simple.tree
        computed = next(_agreeing(self.computed, wanted, environments), None)
        if computed or not self._guess:
            return computed
        return (
            _affine(search.simple.like(goal), goal)
            or _affine([*_resolved(first, environments)], goal)
            or _combined(search.pairs, goal)
            or (_doubled(goal, environments) if self._rounds_apart else None)
        )

    def count_of_rounds(self, wanted: Sequence[int], environments: Environments) -> Tree | None:
        """Return a multiple of the bound of a loop, plus a number, with these values.

        A loop may build several modules in each round, beside others before and after it.
        """
        if len(set(wanted)) == 1:
            return ("value", wanted[0])
        return _affine([*_resolved(self.bounds, environments)], np.array(wanted))

    def _search(self, environments: Environments) -> _SearchedTerms:
        """Return the expressions to search; they are found once for the same environments."""
        key = tuple(map(id, environments))
        if key not in self._searches:
            if len(self._searches) >= MOST_SEARCHES:
                self._searches.clear()
            self._searches[key] = environments, _SearchedTerms(environments)
        return self._searches[key][1]


class _SearchedTerms:
    """The expressions that are searched for values in the same environments."""

    def __init__(self, environments: Environments) -> None:
        self.simple = _TermTable(simple_terms(environments))

    @cached_property
    def pairs(self) -> _TermTable:
        """The cheapest candidates, their products and their quotients."""
        terms = _products_and_quotients(self.simple.terms[:CHEAPEST_PAIRED])
        return _TermTable(terms.values())


class _TermTable:
    """Terms with distinct values, which are compared with a goal all at once.

    Their values are compared by one linear checksum for each term: a term that has the values of
    the goal, or a multiple of them plus a constant, has the checksum that follows from that. The
    opposite can be wrong, so whoever asks compares the values of the few terms that remain.
    """

    def __init__(self, terms: Iterable[Term]) -> None:
        self.terms = list(terms)
        self._by_values = {term.numbers.tobytes(): term for term in self.terms}

    def with_values(self, numbers: Numbers) -> Term | None:
        """Return the term with these values."""
        return self._by_values.get(numbers.tobytes())

    def like(self, goal: Numbers) -> list[Term]:
        """Return the terms that may differ from a goal by a constant, or by a factor and one."""
        if not self.terms or goal.dtype != np.int64:
            return self.terms
        sums, goal_sum, ones_sum = self._sums, _checksum(goal), _checksum(np.ones_like(goal))
        offsets = goal[0] - self._firsts
        is_like = sums + offsets * ones_sum == goal_sum
        factors = (goal[self._others] - goal[0]) // self._runs
        offsets = goal[0] - factors * self._firsts
        is_like |= factors * sums + offsets * ones_sum == goal_sum
        return [self.terms[row] for row in np.flatnonzero(is_like)]

    def completed(self, goal: Numbers, factor: int) -> list[Term]:
        """Return the first terms of which a multiple and another term may add up to a goal."""
        if goal.dtype != np.int64:
            return self.terms[:MOST_TERMS]
        rests = _checksum(goal) - factor * self._sums[:MOST_TERMS]
        is_completed = np.isin(rests, self._sums) | np.isin(-rests, self._sums)
        return [self.terms[row] for row in np.flatnonzero(is_completed)]

    @cached_property
    def _sums(self) -> Numbers:
        return np.array([_checksum(term.numbers) for term in self.terms], dtype=np.int64)

    @cached_property
    def _firsts(self) -> Numbers:
        return np.array([term.numbers[0] for term in self.terms], dtype=np.int64)

    @cached_property
    def _others(self) -> Numbers:
        """The first place of each term where its value is not that of the first place."""
        others = [int(np.argmax(term.numbers != term.numbers[0])) for term in self.terms]
        return np.array(others, dtype=np.int64)

    @cached_property
    def _runs(self) -> Numbers:
        """How much the value of each term is larger at that place; 1 if all are the same."""
        runs = []
        for term, other in zip(self.terms, self._others, strict=True):
            runs.append(int(term.numbers[other] - term.numbers[0]) or 1)
        return np.array(runs, dtype=np.int64)


def _checksum(numbers: Numbers) -> np.int64:
    """Return a sum of numbers with fixed weights, modulo 2**64."""
    return np.int64((numbers * _weights(len(numbers))).sum())


@cache
def _weights(count: int) -> Numbers:
    return np.cumprod(np.full(count, CHECKSUM_BASE, dtype=np.int64))


def simple_terms(environments: Environments, bounds: Sequence[Tree] = ()) -> list[Term]:
    """Return the simplest expressions over the fields and these bounds, one for each value."""
    depth = depth_of(environments[0])
    priced: list[tuple[float, Tree]] = []
    for bound in bounds:
        priced.extend((cost_of("bound"), tree) for tree in resolutions(bound, range(depth)))
    cheapest: dict[bytes, tuple[float, Term]] = {}
    for price, tree in itertools.chain(priced, _atoms(environments)):
        values = values_at(tree, environments)
        if not all(map(_is_countable, values)) or len(set(values)) == 1:
            continue
        candidate = Term(tree, np.array(values, dtype=np.int64))
        key = candidate.numbers.tobytes()
        if key not in cheapest or price < cheapest[key][0]:
            cheapest[key] = (price, candidate)
    ordered = sorted(cheapest.values(), key=lambda item: (item[0], repr(item[1].tree)))
    return [candidate for _, candidate in ordered]


def _is_countable(value: Any) -> bool:
    return type(value) is int and abs(value) < LARGEST_NUMBER


def _shortest(noted: Iterable[Iterable[Tree]]) -> list[Tree]:
    distinct = dict.fromkeys(itertools.chain.from_iterable(noted))
    open_trees = [tree for tree in distinct if tree[0] != "value"]
    # `min` comes first: it bounds a loop over a slice
    open_trees.sort(key=lambda tree: (tree[0] != "min", node_count(tree), repr(tree)))
    return open_trees[:MOST_NOTED]


def _agreeing(
    trees: Sequence[Tree],
    wanted: Sequence[int],
    environments: Environments,
    *,
    at_least_0: bool = False,
) -> Iterator[Tree]:
    """Yield the trees with these values; with ``at_least_0``, negative values may count as 0."""
    depth = depth_of(environments[0])
    for tree in trees:
        for resolved in resolutions(tree, range(depth)):
            if _agrees(resolved, wanted, environments):
                yield resolved
            elif at_least_0:
                not_below_0 = ("max", resolved, ("value", 0))
                if _agrees(not_below_0, wanted, environments):
                    yield not_below_0


def _agrees(tree: Tree, wanted: Sequence[int], environments: Environments) -> bool:
    pairs = zip(environments, wanted, strict=True)
    return all(value_at(tree, environment) == number for environment, number in pairs)


def _resolved(bounds: Sequence[Tree], environments: Environments) -> Iterator[Term]:
    """Yield loop bounds as candidates: a loop can build several modules in each round."""
    depth = depth_of(environments[0])
    for bound in bounds:
        for tree in resolutions(bound, range(depth)):
            values = [value_at(tree, environment) for environment in environments]
            if all(type(value) is int for value in values):
                yield Term(tree, np.array(values))


def _atoms(environments: Environments) -> Iterator[tuple[float, Tree]]:
    """Yield the simplest expressions, each with its cost."""
    shared = set.intersection(*[set(environment) for environment in environments])
    indices: list[Tree] = [("index", depth) for depth in range(depth_of(shared))]
    names: list[Tree] = [("name", name) for name in sorted(shared)]
    stages = [name for name in names if is_stage(name)]
    for stage in stages:
        yield cost_of("stage"), stage
    for index in indices:
        yield cost_of("index"), index
        yield cost_of("index before"), ("max", ("-", index, ("value", 1)), ("value", 0))
        yield cost_of("power of 2"), powers_of_2(index)[0]
    for name in sorted(name for name in shared if not name.startswith("@")):
        kinds = {type(environment[name]) for environment in environments}
        if kinds == {int}:
            yield cost_of("field"), ("name", name)
        elif kinds == {list}:
            yield from _of_list(("name", name), [*indices, *stages])


def _of_list(field: Tree, indices: list[Tree]) -> Iterator[tuple[float, Tree]]:
    one: Tree = ("value", 1)
    yield cost_of("length"), ("len", field)
    for index in indices:
        yield cost_of("item at index"), ("[]", field, index)
        yield cost_of("item beside index"), ("[]", field, ("-", index, one))
        yield cost_of("item beside index"), ("[]", field, ("+", index, one))
    yield cost_of("last item"), ("[]", field, ("neg", one))
    yield cost_of("first item"), ("[]", field, ("value", 0))
    yield cost_of("sum of items"), ("sum", field)
    yield cost_of("second item"), ("[]", field, one)


def _affine(terms: Sequence[Term], goal: Numbers) -> Tree | None:
    """Return ``a + c``, else ``k*a`` or ``k*a + c``, of one term."""
    for tree, numbers in terms:
        offset = int(goal[0]) - int(numbers[0])
        if abs(offset) <= LARGEST_OFFSET and (goal - numbers == offset).all():
            return plus(tree, offset)
    for tree, numbers in terms:
        scale = _scale(numbers, goal)
        if scale is not None:
            factor, offset = scale
            return plus(("*", ("value", factor), tree), offset)
    return None


def plus(tree: Tree, offset: int) -> Tree:
    """Return a tree plus a number; a negative number is subtracted."""
    if offset < 0:
        return simplified(("-", tree, ("value", -offset)))
    return simplified(("+", tree, ("value", offset)))


def _scale(numbers: Numbers, goal: Numbers) -> tuple[int, int] | None:
    """Return the factor and offset that turn these numbers into the goal."""
    other = int(np.argmax(numbers != numbers[0]))
    if numbers[other] == numbers[0]:
        return None
    rise, run = int(goal[other] - goal[0]), int(numbers[other] - numbers[0])
    factor, remainder = divmod(rise, run)
    offset = int(goal[0]) - factor * int(numbers[0])
    if remainder or not 2 <= factor <= LARGEST_FACTOR or abs(offset) > LARGEST_OFFSET:
        return None
    if not (factor * numbers + offset == goal).all():
        return None
    return factor, offset


def _combined(pairs: _TermTable, goal: Numbers) -> Tree | None:
    """Return a product or quotient of two candidates, or a sum of such terms."""
    exact = pairs.with_values(goal)
    if exact is not None:
        return exact.tree
    affine = _affine(pairs.like(goal), goal)
    if affine is not None:
        return affine
    for factor in FACTORS:
        for tree, numbers in pairs.completed(goal, factor):
            rest = goal - factor * numbers
            for kind, other in (("+", rest), ("-", -rest)):
                term = pairs.with_values(other)
                if term is not None:
                    return (kind, simplified(("*", ("value", factor), tree)), term.tree)
    return None


def _doubled(goal: Numbers, environments: Environments) -> Tree | None:
    """Return the power of 2 that a goal is, if a loop doubles it from its second round on."""
    for depth in range(depth_of(environments[0])):
        power = powers_of_2(("index", depth))[1]
        if values_at(power, environments) == goal.tolist():
            return power
    return None


def _products_and_quotients(simple: list[Term]) -> dict[bytes, Term]:
    """Return candidates, their products and their quotients, by value."""
    terms = {candidate.numbers.tobytes(): candidate for candidate in simple}
    for left, right in itertools.combinations_with_replacement(simple, 2):
        product = left.numbers * right.numbers
        terms.setdefault(product.tobytes(), Term(("*", left.tree, right.tree), product))
    divisors = {id(candidate) for candidate in simple if (candidate.numbers > 0).all()}
    for left, right in itertools.permutations(simple, 2):
        if left.tree[0] != "**" and id(right) in divisors:  # code divides sizes, not powers
            quotient = left.numbers // right.numbers
            terms.setdefault(quotient.tobytes(), Term(("//", left.tree, right.tree), quotient))
    return terms
