"""Flat lists: lists that hold the modules of several stages, one stage after another.

Code builds such a list with two loops, over the stages and over the blocks of each stage, so a
module's index is not a counter of either loop. Meanwhile, the stage and the block of an index are
names of their own; `Stages.written` puts expressions over the index in their place.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from weighbridge.algebra.rewrite import NULL, leaves, replaced
from weighbridge.derive.generalize.places import value_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.places import Observation, Place

_PREFIX = "@stage of "  # of the names of stages and blocks; no field begins with @
FEWEST_STAGES = 2  # a list with one stage has an index that is a loop counter
_ONE: Tree = ("value", 1)
_STAGE: Tree = ("name", "stage")  # counters of the loops in expressions
_EARLIER: Tree = ("name", "earlier")


class Stages:
    """The stages of a flat list.

    Attributes:
        number: the number of stages.
        size: the number of modules in a stage, with a loop counter for the stage.
        starts: for each observation, the index of the first module of each stage, and the total.
        stage: the name of the stage of a module.
        block: the name of the position of a module in its stage.
    """

    def __init__(
        self, list_path: str, number: Tree, size: Tree, starts: Sequence[Sequence[int]]
    ) -> None:
        self.list_path, self.number, self.size, self.starts = list_path, number, size, starts
        self.stage: Tree = ("name", f"{_PREFIX}{list_path}")
        self.block: Tree = ("name", f"{_PREFIX}{list_path} block")

    @property
    def total(self) -> Tree:
        """The number of modules in all stages."""
        return self._modules_in(self.number)

    def values(self, place: Place) -> Mapping[str, int]:
        """Return the stage and the block at a place, by name."""
        row, indices = place
        starts = self.starts[row]
        if not indices or indices[0] >= starts[-1]:
            return {}
        stage = bisect_right(starts, indices[0]) - 1
        return {self.stage[1]: stage, self.block[1]: indices[0] - starts[stage]}

    def written(self, tree: Tree) -> Tree:
        """Return a tree with expressions over the index in place of stages and blocks."""
        index: Tree = ("index", 0)
        is_over = ("<=", self._modules_in(("+", _STAGE, _ONE)), index)
        stage: Tree = ("count", "stage", self.number, is_over)
        block: Tree = ("-", index, self._modules_in(stage))
        trees = {self.stage: stage, self.block: block}
        return replaced(tree, lambda leaf: trees.get(leaf, leaf))

    def _modules_in(self, stages: Tree) -> Tree:
        """Return the number of modules in the first stages."""
        if self.size[0] == "[]" and self.size[2][0] == "loop":
            field = self.size[1]
            is_all = stages == ("len", field)
            return ("sum", field if is_all else ("[:]", field, NULL, stages))
        return ("sum", ("for", "earlier", stages, replaced(self.size, _with_counter)))


def _with_counter(leaf: Tree) -> Tree:
    return _EARLIER if leaf[0] == "loop" else leaf


def is_stage(leaf: Tree) -> bool:
    """Whether a leaf is the stage of an index, or the block."""
    return leaf[0] == "name" and str(leaf[1]).startswith(_PREFIX)


def find_stages(
    list_path: str,
    lengths: Mapping[Place, int],
    bounds: Iterable[Tree],
    observations: Sequence[Observation],
) -> Stages | None:
    """Return the stages of a list with these lengths, if bounds of loops add up to them."""
    if "{" in list_path:
        return None
    length_of = {row: length for (row, _), length in lengths.items()}
    for number, size in _pairs_of_loops([*bounds]):
        starts = [_starts(number, size, observation) for observation in observations]
        if _add_up(starts, length_of):
            return Stages(list_path, number, size, starts)
    return None


def _pairs_of_loops(bounds: Sequence[Tree]) -> Iterator[tuple[Tree, Tree]]:
    """Yield bounds that two loops, over the stages and over the blocks of a stage, may have."""
    lengths_of_lists = [bound for bound in bounds if bound[0] == "len"]
    for size in bounds:
        for field in _lists_walked(size):
            for number in dict.fromkeys([("len", field), *lengths_of_lists]):
                yield number, size


def _add_up(starts: Sequence[Sequence[int]], length_of: Mapping[int, int]) -> bool:
    """Whether stages with these starts fill the list in each observation, with several in one."""
    if any(starts[row][-1] != length for row, length in length_of.items()):
        return False
    return any(len(starts[row]) > FEWEST_STAGES for row in length_of)


def _lists_walked(tree: Tree) -> Iterator[Tree]:
    """Yield the list whose items a tree walks, if it has no other loop counter."""
    sites = {leaf for leaf in leaves(tree) if leaf[0] == "loop"}
    if len(sites) == 1:
        yield from dict.fromkeys(_subscripted(tree))


def _subscripted(tree: Tree) -> Iterator[Tree]:
    kind, *operands = tree
    if kind == "[]" and operands[0][0] == "name" and operands[1][0] == "loop":
        yield operands[0]
    elif kind not in ("name", "value", "loop", "index"):
        for operand in operands:
            yield from _subscripted(operand)


def _starts(number: Tree, size: Tree, observation: Observation) -> list[int]:
    """Return the index of the first module of each stage, then the number of all modules."""
    stages = value_at(number, observation.fields)
    if type(stages) is not int:
        return [0]
    sizes = [value_at(_at_stage(size, stage), observation.fields) for stage in range(stages)]
    if not all(type(number) is int and number >= 0 for number in sizes):
        return [0]
    return [0, *accumulate(sizes)]


def _at_stage(size: Tree, stage: int) -> Tree:
    return replaced(size, lambda leaf: ("value", stage) if leaf[0] == "loop" else leaf)
