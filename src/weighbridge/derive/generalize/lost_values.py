"""Finds expressions by value, for numbers whose own expression was lost on the way."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.rewrite import simplified
from weighbridge.derive.generalize.choosing import cost
from weighbridge.derive.generalize.conditions import resolutions
from weighbridge.derive.generalize.places import depth_of, value_at
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

    @cached_property
    def bounds(self) -> list[Tree]:
        """The bounds of loops."""
        return _shortest(trace.bounds for trace in self._traces)

    @cached_property
    def computed(self) -> list[Tree]:
        """The integers that the reference code computed."""
        return _shortest(trace.computed for trace in self._traces)

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
        simple = simple_terms(environments)
        for candidate in simple:
            if (candidate.numbers == goal).all():
                return candidate.tree
        computed = next(_agreeing(self.computed, wanted, environments), None)
        if computed or not self._guess:
            return computed
        return (
            _affine(simple, goal)
            or _affine(_resolved(first, environments), goal)
            or _combined(simple, goal)
        )


def simple_terms(environments: Environments, bounds: Sequence[Tree] = ()) -> list[Term]:
    """Return the simplest expressions over the fields and these bounds, one for each value."""
    depth = depth_of(environments[0])
    priced: list[tuple[float, Tree]] = []
    for bound in bounds:
        priced.extend((cost("bound"), tree) for tree in resolutions(bound, depth))
    cheapest: dict[bytes, tuple[float, Term]] = {}
    for price, tree in itertools.chain(priced, _atoms(environments)):
        values = [value_at(tree, environment) for environment in environments]
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
    distinct = dict.fromkeys(map(simplified, itertools.chain.from_iterable(noted)))
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
        for resolved in resolutions(tree, depth):
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
        for tree in resolutions(bound, depth):
            values = [value_at(tree, environment) for environment in environments]
            if all(type(value) is int for value in values):
                yield Term(tree, np.array(values))


def _atoms(environments: Environments) -> Iterator[tuple[float, Tree]]:
    """Yield the simplest expressions, each with its cost."""
    shared = set.intersection(*[set(environment) for environment in environments])
    indices: list[Tree] = [("index", depth) for depth in range(depth_of(shared))]
    for index in indices:
        yield cost("index"), index
        yield cost("power of 2"), ("**", ("value", 2), index)
    for name in sorted(name for name in shared if not name.startswith("@")):
        kinds = {type(environment[name]) for environment in environments}
        if kinds == {int}:
            yield cost("field"), ("name", name)
        elif kinds == {list}:
            yield from _of_list(("name", name), indices)


def _of_list(field: Tree, indices: list[Tree]) -> Iterator[tuple[float, Tree]]:
    one: Tree = ("value", 1)
    yield cost("length"), ("len", field)
    for index in indices:
        yield cost("item at index"), ("[]", field, index)
        yield cost("item beside index"), ("[]", field, ("-", index, one))
        yield cost("item beside index"), ("[]", field, ("+", index, one))
    yield cost("last item"), ("[]", field, ("neg", one))
    yield cost("first item"), ("[]", field, ("value", 0))
    yield cost("sum of items"), ("sum", field)
    yield cost("second item"), ("[]", field, one)


def _affine(terms: Iterable[Term], goal: Numbers) -> Tree | None:
    """Return ``a + c``, else ``k*a`` or ``k*a + c``, of one term."""
    known = list(terms)
    for tree, numbers in known:
        offset = int(goal[0]) - int(numbers[0])
        if abs(offset) <= LARGEST_OFFSET and (goal - numbers == offset).all():
            return plus(tree, offset)
    for tree, numbers in known:
        scale = _scale(numbers, goal)
        if scale is not None:
            factor, offset = scale
            return simplified(("+", ("*", ("value", factor), tree), ("value", offset)))
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


def _combined(simple: list[Term], goal: Numbers) -> Tree | None:
    """Return a product or quotient of two candidates, or a sum of such terms."""
    terms = _products_and_quotients(simple[:CHEAPEST_PAIRED])
    exact = terms.get(goal.tobytes())
    if exact is not None:
        return exact.tree
    affine = _affine([*terms.values()], goal)
    if affine is not None:
        return affine
    shortest = [*terms.values()][:MOST_TERMS]
    for factor in FACTORS:
        for tree, numbers in shortest:
            rest = goal - factor * numbers
            for kind, other in (("+", rest), ("-", -rest)):
                term = terms.get(other.tobytes())
                if term is not None:
                    return (kind, simplified(("*", ("value", factor), tree)), term.tree)
    return None


def _products_and_quotients(simple: list[Term]) -> dict[bytes, Term]:
    """Return candidates, their products and their quotients, by value."""
    terms = {candidate.numbers.tobytes(): candidate for candidate in simple}
    for left, right in itertools.combinations_with_replacement(simple, 2):
        product = left.numbers * right.numbers
        terms.setdefault(product.tobytes(), Term(("*", left.tree, right.tree), product))
    for left, right in itertools.permutations(simple, 2):
        if (right.numbers > 0).all():
            quotient = left.numbers // right.numbers
            terms.setdefault(quotient.tobytes(), Term(("//", left.tree, right.tree), quotient))
    return terms
