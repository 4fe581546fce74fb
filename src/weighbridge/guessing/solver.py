"""Equations over fields that are not known: what must be so, what may be so, and what nothing tells.

First what follows from the equations is worked out, then cells of which one value alone fits. Where
nothing follows any more, values are tried, the usual ones first, and what was chosen so is told
apart from what had to be.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.guessing.unknowns import (
    GIVEN,
    HOLDS,
    LENGTH,
    Impossible,
    cells_in,
    implied,
    is_open,
    partly,
    same,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.guessing.unknowns import Cell

MOST_TRIED = 40  # values of one cell
MOST_STEPS = 20_000  # equations looked at for one problem
MOST_FIRST = (
    3  # cells that are chosen first in turn, where no value of those before them leads anywhere
)
_COMPARED, _FEW = (
    12,
    4,
)  # cells that are compared by how many values fit, and how many of these are no longer few


class Equation(NamedTuple):
    """An expression, the values of the indices in it, what it came to, and how many tensors say so."""

    tree: Tree
    indices: tuple[tuple[str, int], ...]
    target: Any
    weight: int = 1


class Found(NamedTuple):
    """What is known of a cell: its value, and the others that were tried and fit as well.

    ``after`` is the cell on whose value it depends that was chosen and not found; itself where it
    was chosen, and nothing where the equations tell it.
    """

    value: Any
    others: tuple[Any, ...] = ()
    after: Cell | None = None


# What fits all equations


class Problem(NamedTuple):
    """Equations, and what is known of cells besides.

    ``fits`` tells whether a cell may have a value at all, ``usual`` the values that it usually has
    where others are known, the most usual first; ``defaults`` are those of all cells together, and
    ``rank`` says which are tried first.
    """

    equations: Sequence[Equation]
    given: Mapping[Cell, Any]
    fits: Callable[[Cell, Any], bool]
    usual: Callable[[Cell, Mapping[Cell, Any]], Iterable[Any]]
    defaults: Mapping[Cell, Any]
    rank: Callable[[Cell], Any]


class Solution(NamedTuple):
    """What was found of each cell, the equations that no values fulfil together with the others, and the work done."""

    cells: dict[Cell, Found]
    broken: tuple[Equation, ...]
    steps: int

    @property
    def values(self) -> dict[Cell, Any]:
        """The value of each cell."""
        return {cell: found.value for cell, found in self.cells.items()}


def solve(problem: Problem) -> Solution:
    """Return values that fit the equations: first what follows, then what alone fits, then the most usual.

    An equation that contradicts those before it, which more tensors speak for, is left out and
    told. The work is bounded by ``MOST_STEPS``.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> sizes = {"heads*(width//heads)": 96, "width": 96}
        >>> equations = [Equation(parse(text), (), size) for text, size in sizes.items()]
        >>> problem = Problem(equations, {}, lambda cell, value: value > 0, lambda cell, known: [12], {}, str)
        >>> solve(problem).cells[("heads",)]
        Found(value=12, others=(16, 8, 24, 6, 32, 4, 48, 3, 2, 96, 1), after=('heads',))
    """
    solver = _Solver(problem)
    state = solver.begin()
    return solver.told(
        solver.settled(state) if state.broken else solver.choose(solver.force(state))
    )


class _State:
    """What is known at one point of the search, and what is still open there."""

    def __init__(self) -> None:
        self.known: dict[Cell, Any] = {}
        self.cells: dict[Cell, Found] = {}
        self.open: dict[int, Any] = {}
        self.broken: set[int] = set()
        self.cause: Cell | None = None

    def copy(self, cause: Cell | None) -> _State:
        other = _State()
        other.known, other.cells, other.open = (
            self.known.copy(),
            self.cells.copy(),
            self.open.copy(),
        )
        other.broken, other.cause = self.broken.copy(), cause
        return other


class _Solver:
    def __init__(self, problem: Problem) -> None:
        self.problem, self.equations, self.steps = problem, problem.equations, 0
        self.watching: dict[Cell, set[int]] = {}

    def begin(self) -> _State:
        """Return what follows from the equations alone; those that contradict the ones before them are broken."""
        state = _State()
        for cell, value in self.problem.given.items():
            state.known[cell], state.cells[cell] = value, Found(value)
        self.settle(
            state,
            sorted(range(len(self.equations)), key=lambda at: -self.equations[at].weight),
            strict=False,
        )
        return state

    def settle(self, state: _State, waiting: Iterable[int], *, strict: bool = True) -> None:
        """Work out what follows, until nothing more does.

        Raises:
            Impossible: an equation does not hold, and it is ``strict``.
        """
        queue = dict.fromkeys(waiting)
        while queue:
            at = next(iter(queue))
            del queue[at]
            try:
                queue |= dict.fromkeys(self.follow(state, at))
            except Impossible:
                if strict:
                    raise
                state.open.pop(at, None)
                state.broken.add(at)

    def follow(self, state: _State, at: int) -> set[int]:
        """Set what follows from one equation, and return the equations that wait for it."""
        self.steps += 1
        equation = self.equations[at]
        value = partly(equation.tree, dict(equation.indices), state.known)
        if not is_open(value):
            state.open.pop(at, None)
            if not same(value, equation.target):
                raise Impossible
            return set()
        state.open[at] = value
        for cell in cells_in(value):
            self.watching.setdefault(cell, set()).add(at)
        touched = set[int]()
        for cell, found, sure in implied(value, equation.target):
            if sure:
                touched |= self.fix(state, cell, found, Found(found, after=state.cause))
        return touched

    def fix(self, state: _State, cell: Cell, value: Any, found: Found) -> set[int]:
        """Set a cell, and return the equations that wait for it."""
        if cell in state.known:
            if not same(state.known[cell], value):
                raise Impossible
            return set()
        if not self.problem.fits(cell, value) or not _agrees(state.known, cell, value):
            raise Impossible
        state.known[cell], state.cells[cell] = value, found
        if len(cell) > 1:
            state.known[cell[0], GIVEN] = True
        return self.watching.get(cell, set()) | self.watching.get(cell[:1], set())

    def waiting(self, state: _State, among: frozenset[int] | None = None) -> list[Cell]:
        """Return the cells that are open, or open in some equations; those that one has nothing besides first."""
        alone, others = dict[Any, None](), dict[Any, None]()
        for at, value in state.open.items():
            if among is not None and at not in among:
                continue
            cells = dict.fromkeys(cells_in(value))
            (alone if len(cells) == 1 else others).update(cells)
        return sorted(alone, key=self.problem.rank) + sorted(
            others.keys() - alone.keys(), key=self.problem.rank
        )

    def tried(self, state: _State, cell: Cell) -> list[Any]:
        """Return the values to try of a cell: the usual ones, then what would fit an equation, the nearest first."""
        usual = list(self.problem.usual(cell, state.known))
        hints = list[Any]()
        near: Any = None
        for at in sorted(self.watching.get(cell, ())):
            if at in state.open:
                near = near or self.scaled(self.equations[at], usual[0] if usual else None)
                hints += self.hints(state, at, cell)
        first = usual[0] if usual else None
        if near and hints:
            usual, hints = [], [*usual, *hints]
        elif not hints and type(first) is int:
            hints, near = _numbers_around(first), first
        nearest = sorted(hints, key=lambda value: _distance(value, near or first))
        tried = list[Any]()
        for value in [*usual, *nearest]:
            if self.problem.fits(cell, value) and not any(same(value, other) for other in tried):
                tried.append(value)
        return tried[:MOST_TRIED]

    def hints(self, state: _State, at: int, cell: Cell) -> list[Any]:
        """Return the values of a cell that an equation alone suggests."""
        try:
            turned = list(implied(state.open[at], self.equations[at].target))
        except Impossible:
            return []
        return [value for other, value, _ in turned if other == cell]

    def scaled(self, equation: Equation, usual: Any) -> Any:
        """Return a usual value, larger or smaller as an equation's size is than at the defaults.

        So a narrower model has fewer heads and not thinner ones, as models of one family do more
        often.
        """
        try:
            size = partly(equation.tree, dict(equation.indices), self.problem.defaults)
        except Impossible:
            return None
        numbers = (size, usual, equation.target)
        if any(type(number) not in (int, float) or number <= 0 for number in numbers):
            return None
        return usual * equation.target / size

    def survivors(
        self, state: _State, cell: Cell, most: int = MOST_TRIED
    ) -> tuple[list[tuple[Any, _State]], bool]:
        """Return the values of a cell that contradict nothing, with what follows, and whether several were tried."""
        tried, fitting = self.tried(state, cell), list[tuple[Any, _State]]()
        for value in tried:
            if len(fitting) == most:
                break
            trial = state.copy(cell)
            try:
                self.settle(trial, self.fix(trial, cell, value, Found(value, after=cell)))
            except Impossible:
                continue
            fitting.append((value, trial))
        return fitting, len(tried) > 1

    def force(self, state: _State) -> _State:
        """Set the cells of which a single value fits, where several were tried."""
        again = True
        while again and self.steps < MOST_STEPS:
            again = False
            for cell in self.waiting(state):
                if cell not in state.known and self.steps < MOST_STEPS:
                    fitting, several = self.survivors(state, cell, 2)
                    if several and len(fitting) == 1:
                        state, again = self.forced(state, cell, fitting[0][0]), True
        return state

    def forced(self, state: _State, cell: Cell, value: Any) -> _State:
        trial = state.copy(state.cause)
        self.settle(trial, self.fix(trial, cell, value, Found(value, after=state.cause)))
        return trial

    def choose(self, state: _State) -> _State:
        """Choose a value of each cell that is still open: of those together that equations have in common."""
        while waiting := self.waiting(state):
            chosen = self.search(state, self.connected(state, waiting[0]))
            if chosen is None:
                return self.settled(state)
            state = chosen
        return state

    def connected(self, state: _State, cell: Cell) -> frozenset[int]:
        """Return the open equations that a cell is in, and those that share cells with these."""
        left = {at: set(cells_in(value)) for at, value in state.open.items()}
        cells, found = {cell}, set[int]()
        while near := [at for at, of in left.items() if not of.isdisjoint(cells)]:
            found.update(near)
            cells.update(*(left.pop(at) for at in near))
        return frozenset(found)

    def search(self, state: _State, among: frozenset[int]) -> _State | None:
        """Choose a value of each cell of some equations; go back where a choice leads nowhere."""
        path: list[Iterator[_State]] = [iter([state])]
        while path and self.steps < MOST_STEPS:
            here = next(path[-1], None)
            if here is None:
                path.pop()
                continue
            waiting = self.waiting(here, among)
            if not waiting:
                return here
            path.append(self.branches(here, self.narrowest(here, waiting)))
        return None

    def narrowest(self, state: _State, waiting: Sequence[Cell]) -> list[Cell]:
        """Return the cells to choose first: those that fewest values fit, so that what cannot be shows early."""
        fitting = {
            cell: len(self.survivors(state, cell, _FEW)[0]) or _FEW for cell in waiting[:_COMPARED]
        }
        return sorted(fitting, key=lambda cell: fitting[cell])[:MOST_FIRST]

    def branches(self, state: _State, cells: Sequence[Cell]) -> Iterator[_State]:
        for cell in cells:
            yield from self.choices(state, cell)

    def choices(self, state: _State, cell: Cell) -> list[_State]:
        """Return what follows from each value of a cell that fits, the most usual first."""
        fitting, several = self.survivors(state, cell)
        if several and len(fitting) == 1:
            return [self.forced(state, cell, fitting[0][0])]
        values = [value for value, _ in fitting]
        for value, trial in fitting:
            others = tuple(other for other in values if not same(other, value))
            trial.cells[cell] = Found(value, others, cell)
        return [trial for _, trial in fitting]

    def settled(self, state: _State) -> _State:
        """Choose the most usual values, and leave out the equations that they contradict: nothing fits them all."""
        while waiting := self.waiting(state):
            cell = waiting[0]
            tried = self.tried(state, cell)
            if not tried or cell in state.known:
                for at in [at for at, value in state.open.items() if cell in cells_in(value)]:
                    del state.open[at]
                    state.broken.add(at)
                continue
            value = next((value for value, _ in self.survivors(state, cell)[0]), tried[0])
            state = state.copy(cell)
            try:
                touched = self.fix(state, cell, value, Found(value, after=cell))
            except Impossible:
                touched = set(self.watching.get(cell, ()))
                state.known[cell], state.cells[cell] = value, Found(value, after=cell)
            self.settle(state, touched, strict=False)
        return state

    def told(self, state: _State) -> Solution:
        return Solution(
            state.cells, tuple(self.equations[at] for at in sorted(state.broken)), self.steps
        )


def _agrees(known: Mapping[Cell, Any], cell: Cell, value: Any) -> bool:
    """Whether a whole list has the items that are known of it."""
    if len(cell) > 1 or (cell[0], GIVEN) not in known:
        return True
    items = {
        other[1:]: held
        for other, held in known.items()
        if other[0] == cell[0] and other[1:] != (GIVEN,)
    }
    return value is not None and all(_at(value, path, held) for path, held in items.items())


def _at(value: Any, path: Cell, held: Any) -> bool:
    if not path:
        return same(value, held)
    if not isinstance(value, list | tuple):
        return False
    if path[0] == LENGTH:
        return bool(len(value) == held)
    if path[0] == HOLDS:
        return bool((path[1] in value) is held)
    return -len(value) <= path[0] < len(value) and _at(value[path[0]], path[1:], held)


def _numbers_around(usual: int) -> list[int]:
    """Return the numbers to try where no equation suggests any: small ones, those around the usual, multiples of it."""
    return [
        *range(1, 9),
        *range(usual - 8, usual + 9),
        *(usual * times for times in (2, 3, 4, 8)),
        usual // 2,
        usual // 4,
    ]


def _distance(value: Any, usual: Any) -> tuple[float, float]:
    """Return how far a number is from the usual one: by how often the one goes into the other, before or behind it."""
    if any(type(number) not in (int, float) or number <= 0 for number in (value, usual)):
        return math.inf, 0.0
    return abs(math.log(value / usual)), -value


def majority(
    votes: Mapping[tuple[Tree, tuple[tuple[str, int], ...]], Counter[Any]],
) -> list[Equation]:
    """Return an equation for each expression: what most tensors say that it came to."""
    return [
        Equation(tree, indices, *count.most_common(1)[0])
        for (tree, indices), count in votes.items()
    ]
