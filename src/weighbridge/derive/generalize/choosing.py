"""Chooses conditions by cost: which of them, alone or combined, distinguish places.

Many conditions fit a few observations by chance. The cheapest is believed, so a cost says how
unlikely it is that code really asks such a question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weighbridge.algebra.rewrite import FALSE, TRUE, joined, negated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.places import Flags

    Costs = NDArray[np.float64]


class Cost(NamedTuple):
    """The cost of believing an expression, and the reason for it."""

    cost: float
    reason: str


COSTS: dict[str, Cost] = {
    # conditions
    "asked": Cost(1, "the code was seen to ask it"),
    "node": Cost(0.1, "the shorter of two questions is less likely to fit by chance"),
    "is null": Cost(1.2, "code often asks `is None`, which leaves no trace"),
    "is true": Cost(2.5, "flags are meant to be asked, but a question on a flag leaves a trace"),
    "equals text": Cost(3, "code looks a text up in a dict, which leaves no trace"),
    "is not empty": Cost(4, "rarer than a question about the contents of the list"),
    "is over 0": Cost(4, "a comparison of a number nearly always leaves a trace"),
    "is over 1": Cost(5, "as over 0, and 1 is a rarer bound"),
    "guard": Cost(0.3, "a test for null in front: the question without it is simpler"),
    "negation": Cost(0.2, "the form in which a question was asked reads better than its opposite"),
    # conditions on an index: code asks them of a plain counter, which leaves no trace
    "ordinal": Cost(5, "the code counted layers of one kind with a plain number"),
    "later start": Cost(3, "the first items of the list come from elsewhere"),
    "text at index": Cost(4, "layer_types[i] == ... is how configs state the kind of each layer"),
    "text at index, cyclic": Cost(4.5, "the same for a repeating pattern, which is rarer"),
    "item from the end": Cost(4, "a loop over a reversed list; its items forget the round"),
    "unasked text at index": Cost(7, "the same, but code was never seen to read this list"),
    "is last": Cost(5, "the last layer is often built differently"),
    "is number": Cost(5, "so is the first; each later index costs 1 more"),
    "before last round": Cost(9, "the last modules are built differently, several in a round"),
    "in list": Cost(5, "lists of layer numbers are meant to be asked this way"),
    "below number": Cost(6, "an unnamed bound is rarer than an exception at one index"),
    "below field": Cost(6, "a comparison with a field nearly always leaves a trace"),
    "is multiple": Cost(6, "every second to fourth layer, without a field for it"),
    "is 1 over multiple": Cost(6.2, "the same counted from 1, which is rarer"),
    "is last of a round": Cost(7, "such as the activation, the last of a few modules"),
    # combinations of conditions
    "several": Cost(3, "three or four conditions fit by chance more easily than two"),
    # numbers whose expression was lost
    "field": Cost(1, "most sizes are fields"),
    "index": Cost(1, "an index is as likely as a field"),
    "index before": Cost(3.6, "the first of a list has none before it, and takes its own"),
    "stage": Cost(1.2, "as likely as the index, but only in a list of several stages"),
    "bound": Cost(1.5, "the bound of a loop was computed, but perhaps for something else"),
    "length": Cost(2, "the length of a list is less likely than a field"),
    "item at index": Cost(3, "lists of sizes have one item for each stage"),
    "last item": Cost(3, "the width after the last stage"),
    "first item": Cost(3, "the width before the first stage"),
    "sum of items": Cost(3.2, "the number of layers in all stages"),
    "item beside index": Cost(3.5, "the stage before or after, rarer than the stage itself"),
    "second item": Cost(4, "only the first and last stages are usually looked up"),
    "power of 2": Cost(4, "widths that double with each stage"),
}


def cost_of(kind: str) -> float:
    """Return the cost of one kind of expression."""
    return COSTS[kind].cost


MOST_COMBINED = 4  # conditions in one `and` or `or`; more would fit nearly anything
DEAREST_ASKED = 2.5  # only cheaper conditions may be combined at will: others fit by chance
MOST_TESTS = 80  # conditions that may decide between two others
MOST_IN_A_PART = 300  # conditions that are tried in pairs in each of those
MOST_PAIRED = 1200  # conditions that are tried in pairs; the pairs grow with the square
COST_WEIGHT = 0.15  # how much a unit of cost lowers a condition's gain: ties go to the cheaper


def condition_of(
    trees: Sequence[Tree], costs: Sequence[float], table: Flags, wanted: Flags
) -> Tree | None:
    """Return a condition made of these trees that is true where wanted and nowhere else.

    Args:
        trees: conditions, cheap ones first.
        costs: the cost of each condition.
        table: a row for each condition: the places where it is true.
        wanted: the places where the result must be true.
    """
    return _alone(trees, table, wanted) or _several(trees, costs, table, wanted)


def _alone(trees: Sequence[Tree], table: Flags, wanted: Flags) -> Tree | None:
    agrees, contradicts = (table == wanted).all(axis=1), (table != wanted).all(axis=1)
    for row, tree in enumerate(trees):
        if agrees[row]:
            return tree
        if contradicts[row]:
            return negated(tree)
    return None


def _several(
    trees: Sequence[Tree], costs: Sequence[float], table: Flags, wanted: Flags
) -> Tree | None:
    """Return the cheapest `and` or `or` of a few conditions, or one that depends on another."""
    both = np.concatenate([table, ~table])
    all_trees = [*trees, *[negated(tree) for tree in trees]]
    all_costs = np.array([*costs, *[price + cost_of("negation") for price in costs]])
    best: tuple[float, list[int], str] | None = None
    # not (a or b) is (not a) and (not b): an `or` is found as an `and` of opposites
    for kind, rows, goal in (("and", both, wanted), ("or", ~both, ~wanted)):
        combined = _conjunction(rows, goal, all_costs)
        if combined is not None and (best is None or combined[0] < best[0]):
            best = (*combined, kind)
    if best is None:
        asked = np.where(all_costs <= DEAREST_ASKED)[0]
        asked_trees = [all_trees[row] for row in asked]
        return (
            _by_test(all_trees, all_costs, both, wanted)
            or _alternatives(asked_trees, all_costs[asked], both[asked], wanted)
            or _alternatives(all_trees, all_costs, both, wanted)
        )
    _, chosen, kind = best
    return joined(kind, [all_trees[row] for row in chosen])


def _conjunction(rows: Flags, wanted: Flags, costs: Costs) -> tuple[float, list[int]] | None:
    """Return two or a few rows that are all true exactly where wanted, with their price."""
    holding = np.where(rows[:, wanted].all(axis=1))[0]
    holding = holding[np.argsort(costs[holding], kind="stable")][:MOST_PAIRED]
    if not len(holding):
        return None
    outside = rows[holding][:, ~wanted]
    if outside.all(axis=0).any():
        return None  # no row is false there
    pairs = _exclusive_pairs(outside)
    if len(pairs):
        prices = costs[holding[pairs]].sum(axis=1)
        return float(prices.min()), [int(row) for row in holding[pairs[int(np.argmin(prices))]]]
    chosen = _cover(outside, costs[holding])
    if not chosen:
        return None
    price = float(sum(costs[holding[row]] for row in chosen)) + cost_of("several")
    return price, [int(holding[row]) for row in chosen]


def _exclusive_pairs(rows: Flags) -> NDArray[np.int64]:
    """Return the pairs of rows that are true at no common column, in their order.

    One row of each pair is false at the column where the fewest rows are.
    """
    false_there = np.arange(len(rows))
    if rows.size:
        false_there = np.flatnonzero(~rows[:, int(np.argmax(rows.sum(axis=0)))])
    numbers = rows.astype(np.float32)
    times_both_true = numbers[false_there] @ numbers.T
    pairs = np.argwhere(times_both_true == 0)
    pairs[:, 0] = false_there[pairs[:, 0]]
    pairs.sort(axis=1)
    return np.unique(pairs, axis=0)


def _cover(rows: Flags, costs: Costs) -> list[int]:
    """Pick a few cheap rows so that each column has a false one; empty if there are none."""
    open_columns = np.ones(rows.shape[1], dtype=bool)
    chosen: list[int] = []
    while open_columns.any() and len(chosen) < MOST_COMBINED:
        gain = (~rows[:, open_columns]).sum(axis=1) / (1 + COST_WEIGHT * costs)
        best = int(np.argmax(gain))
        if gain[best] == 0:
            return []
        chosen.append(best)
        open_columns &= rows[best]
    if open_columns.any():
        return []
    return chosen


def _by_test(trees: list[Tree], costs: Costs, table: Flags, wanted: Flags) -> Tree | None:
    """Return the cheapest condition of the form `b if a else c`, written as an `or` of `and`s."""
    likely = np.argsort(costs, kind="stable")
    best: tuple[float, Tree] | None = None
    for test in likely[:MOST_TESTS]:
        flags = table[test]
        there = _at_places(trees, costs, table[:, flags], wanted[flags])
        if there is None:
            continue
        elsewhere = _at_places(trees, costs, table[:, ~flags], wanted[~flags])
        if elsewhere is None:
            continue
        price = float(costs[test]) + there.price + elsewhere.price
        if best is None or price < best[0]:
            best = price, decided_by(trees[test], there.condition, elsewhere.condition)
    return best[1] if best else None


class _Part(NamedTuple):
    """A condition that is right at some of the places, and its price."""

    condition: Tree
    price: float


def _at_places(trees: list[Tree], costs: Costs, table: Flags, wanted: Flags) -> _Part | None:
    """Return a constant, one condition or two of them that are right at these places."""
    if wanted.all() or not wanted.any():
        return _Part(("value", bool(wanted.all())), 0)
    right = np.where((table == wanted).all(axis=1))[0]
    if len(right):
        cheapest = int(right[np.argmin(costs[right])])
        return _Part(trees[cheapest], float(costs[cheapest]))
    pair = _pair(table, wanted, costs)
    if pair is None:
        return None
    price, chosen = pair
    return _Part(joined("and", [trees[row] for row in chosen]), price)


def _pair(table: Flags, wanted: Flags, costs: Costs) -> tuple[float, list[int]] | None:
    """Return two of the cheapest rows that are both true exactly where wanted."""
    likely = np.argsort(costs, kind="stable")[:MOST_IN_A_PART]
    found = _conjunction(table[likely], wanted, costs[likely])
    if found is None or len(found[1]) > 2:
        return None
    return found[0], [int(likely[row]) for row in found[1]]


def decided_by(test: Tree, there: Tree, elsewhere: Tree) -> Tree:
    """Return `there if test else elsewhere` as an `or` of `and`s without needless parts."""
    alternatives = [
        [condition, *(_conjuncts(part) if part != TRUE else ())]
        for condition, part in ((test, there), (negated(test), elsewhere))
        if part != FALSE
    ]
    if len(alternatives) == 1:
        return joined("and", alternatives[0])
    first, second = alternatives
    if set(first[1:]) <= set(second[1:]):
        second.remove(negated(test))
    elif set(second[1:]) <= set(first[1:]):
        first.remove(test)
    return _factored(alternatives)


def _conjuncts(tree: Tree) -> list[Tree]:
    if tree[0] == "and":
        return [*_conjuncts(tree[1]), *_conjuncts(tree[2])]
    return [tree]


def _alternatives(trees: list[Tree], costs: Costs, table: Flags, wanted: Flags) -> Tree | None:
    """Return an `or` of a few `and`s, each grown around a wanted place not yet covered."""
    uncovered = wanted.copy()
    alternatives: list[list[Tree]] = []
    while uncovered.any() and len(alternatives) < MOST_COMBINED:
        rows = _grown(costs, table, wanted, uncovered)
        if not rows:
            return None
        alternatives.append([trees[row] for row in rows])
        uncovered &= ~table[rows].all(axis=0)
    if uncovered.any():
        return None
    return _factored(alternatives)


def _grown(costs: Costs, table: Flags, wanted: Flags, uncovered: Flags) -> list[int]:
    """Return a few rows that are all true at the first uncovered place, and only where wanted."""
    options = np.where(table[:, int(np.argmax(uncovered))])[0]
    if not len(options):
        return []
    inside = np.ones(table.shape[1], dtype=bool)
    chosen: list[int] = []
    while (inside & ~wanted).any() and len(chosen) < MOST_COMBINED:
        cut_off = (~table[options] & inside & ~wanted).sum(axis=1)
        kept = (table[options] & inside & uncovered).sum(axis=1)
        gain = cut_off * kept / (1 + COST_WEIGHT * costs[options])
        best = int(np.argmax(gain))
        if gain[best] == 0:
            return []
        chosen.append(int(options[best]))
        inside &= table[options[best]]
    if (inside & ~wanted).any():
        return []
    return chosen


def _factored(alternatives: list[list[Tree]]) -> Tree:
    """Return an `or` of `and`s with their common conditions factored out: a and (b or c)."""
    shared = list(alternatives[0])
    for alternative in alternatives:
        shared = [tree for tree in shared if tree in alternative]
    options: list[Tree] = []
    for alternative in alternatives:
        rest = [tree for tree in alternative if tree not in shared]
        if not rest:
            return joined("and", shared)
        options.append(joined("and", rest))
    return joined("and", [*shared, joined("or", options)])
