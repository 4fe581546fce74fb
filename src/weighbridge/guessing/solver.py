"""Solves equations over unknown fields, and marks what they determine and what they leave open.

The solver first sets the cells that the equations imply, then those that a single value fits. For
the rest it tries values, the usual ones first. A cell that was chosen is marked as such, and so is
what follows from the choice.
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

MOST_TRIED = 40
"""How many values of one cell are tried."""
MOST_STEPS = 20_000
"""How many equations are evaluated for one problem; a search that needs more takes too long."""
MOST_FIRST = 3
"""How many cells may be chosen first; the second if no value of the first leads to a solution."""
_MOST_COMPARED = 12  # cells whose fitting values are counted, to choose the cell with the fewest
_FEW = 4  # fitting values are counted at most; more do not make a cell a worse choice


class Constraint(NamedTuple):
    """An expression, the values of its indices, its result, and how many tensors support it."""

    tree: Tree
    indices: tuple[tuple[str, int], ...]
    target: Any
    weight: int = 1


class CellValue(NamedTuple):
    """The value of a cell, and the other values that were tried and fit equally well.

    ``after`` is the chosen cell on which the value depends: the cell itself if it was chosen, or
    None if the equations determine it.
    """

    value: Any
    others: tuple[Any, ...] = ()
    after: Cell | None = None


# Solutions of all equations


class Problem(NamedTuple):
    """Equations to solve, and what is known about their cells.

    ``fits`` returns whether a cell may have a value. ``usual`` returns the usual values of a cell,
    given the known values of others, with the most usual one first. ``defaults`` are the default
    values of all cells, and cells with a low ``rank`` are tried first.
    """

    equations: Sequence[Constraint]
    given: Mapping[Cell, Any]
    fits: Callable[[Cell, Any], bool]
    usual: Callable[[Cell, Mapping[Cell, Any]], Iterable[Any]]
    defaults: Mapping[Cell, Any]
    rank: Callable[[Cell], Any]


class Solution(NamedTuple):
    """The value of each cell, the equations that contradict the others, and the work done."""

    cells: dict[Cell, CellValue]
    broken: tuple[Constraint, ...]
    steps: int

    @property
    def values(self) -> dict[Cell, Any]:
        """The value of each cell."""
        return {cell: cell_value.value for cell, cell_value in self.cells.items()}


def solve(problem: Problem) -> Solution:
    """Return values that fulfil the equations: implied ones first, then the most usual that fit.

    An equation that contradicts others, which more tensors support, is left out and listed as
    broken. The work is bounded by ``MOST_STEPS``.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> sizes = {"heads*(width//heads)": 96, "width": 96}
        >>> equations = [Constraint(parse(text), (), size) for text, size in sizes.items()]
        >>> fits, usual = lambda cell, value: value > 0, lambda cell, known: [12]
        >>> problem = Problem(equations, {}, fits, usual, {}, str)
        >>> solve(problem).cells[("heads",)]
        CellValue(value=12, others=(16, 8, 24, 6, 32, 4, 48, 3, 2, 96, 1), after=('heads',))
    """
    solver = _Solver(problem)
    state = solver.begin()
    if state.broken:
        return solver.solution(solver.settled(state))
    return solver.solution(solver.choose(solver.force(state)))


class _State:
    """What is known at one point of the search, and what is still open.

    ``open`` holds the equations that are not fulfilled yet, by position. ``cause`` is the cell
    whose chosen value is being followed.
    """

    def __init__(self) -> None:
        self.known: dict[Cell, Any] = {}
        self.cells: dict[Cell, CellValue] = {}
        self.open: dict[int, Any] = {}
        self.broken: set[int] = set()
        self.cause: Cell | None = None

    def copy(self, cause: Cell | None) -> _State:
        other = _State()
        other.known = self.known.copy()
        other.cells = self.cells.copy()
        other.open = self.open.copy()
        other.broken = self.broken.copy()
        other.cause = cause
        return other


class _Solver:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.equations = problem.equations
        self.steps = 0
        self.watching: dict[Cell, set[int]] = {}

    def begin(self) -> _State:
        """Return what the equations alone imply, those with the most support first."""
        state = _State()
        for cell, value in self.problem.given.items():
            state.known[cell] = value
            state.cells[cell] = CellValue(value)
        by_weight = sorted(range(len(self.equations)), key=lambda at: -self.equations[at].weight)
        self.settle(state, by_weight, strict=False)
        return state

    def settle(self, state: _State, waiting: Iterable[int], *, strict: bool = True) -> None:
        """Set what the waiting equations imply, until nothing more follows.

        An equation that does not hold becomes broken, unless the call is ``strict``.

        Raises:
            Impossible: an equation does not hold, and the call is strict.
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
        """Set what one equation implies, and return the equations that wait for it."""
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
        for cell, cell_value, sure in implied(value, equation.target):
            if sure:
                touched |= self.fix(state, cell, CellValue(cell_value, after=state.cause))
        return touched

    def fix(self, state: _State, cell: Cell, cell_value: CellValue) -> set[int]:
        """Set a cell, and return the equations that wait for it.

        Raises:
            Impossible: the cell has another value, or may not have this one.
        """
        value = cell_value.value
        if cell in state.known:
            if not same(state.known[cell], value):
                raise Impossible
            return set()
        if not self.problem.fits(cell, value) or not _agrees(state.known, cell, value):
            raise Impossible
        state.known[cell] = value
        state.cells[cell] = cell_value
        if len(cell) > 1:
            state.known[cell[0], GIVEN] = True
        return self.watching.get(cell, set()) | self.watching.get(cell[:1], set())

    def waiting(self, state: _State, among: frozenset[int] | None = None) -> list[Cell]:
        """Return the open cells, of all equations or ``among`` some.

        Cells that are the only open one of an equation come first.
        """
        alone, others = dict[Any, None](), dict[Any, None]()
        for at, value in state.open.items():
            if among is not None and at not in among:
                continue
            cells = dict.fromkeys(cells_in(value))
            if len(cells) == 1:
                alone.update(cells)
            else:
                others.update(cells)
        rank = self.problem.rank
        return sorted(alone, key=rank) + sorted(others.keys() - alone.keys(), key=rank)

    def tried(self, state: _State, cell: Cell) -> list[Any]:
        """Return the values of a cell to try: the usual ones, then what equations suggest.

        Suggested values are sorted by their distance from the most usual value. If the size in an
        equation suggests that the usual value is scaled too, all values are sorted by their
        distance from the scaled one.
        """
        usual = list(self.problem.usual(cell, state.known))
        most_usual = next(iter(usual), None)
        suggested = list[Any]()
        scaled: Any = None
        for at in sorted(self.watching.get(cell, ())):
            if at in state.open:
                scaled = scaled or self.scaled(self.equations[at], most_usual)
                suggested += self.suggested(state, at, cell)
        if scaled and suggested:
            usual, suggested = [], [*usual, *suggested]
        elif not suggested and type(most_usual) is int:
            suggested, scaled = _numbers_around(most_usual), most_usual
        nearest = sorted(suggested, key=lambda value: _distance(value, scaled or most_usual))
        tried = list[Any]()
        for value in [*usual, *nearest]:
            if self.problem.fits(cell, value) and not any(same(value, other) for other in tried):
                tried.append(value)
        return tried[:MOST_TRIED]

    def suggested(self, state: _State, at: int, cell: Cell) -> list[Any]:
        """Return the values of a cell that one equation suggests."""
        try:
            consequences = list(implied(state.open[at], self.equations[at].target))
        except Impossible:
            return []
        return [value for other, value, _ in consequences if other == cell]

    def scaled(self, equation: Constraint, usual: Any) -> Any:
        """Return a usual value, scaled like the result of an equation relative to the defaults.

        A narrower model then has fewer heads rather than narrower ones, which is more common.
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
        """Return the values of a cell that fit, each with what follows from it.

        The second result is whether several values were tried. At most ``most`` values are found.
        """
        tried = self.tried(state, cell)
        fitting = list[tuple[Any, _State]]()
        for value in tried:
            if len(fitting) == most:
                break
            trial = state.copy(cell)
            try:
                self.settle(trial, self.fix(trial, cell, CellValue(value, after=cell)))
            except Impossible:
                continue
            fitting.append((value, trial))
        return fitting, len(tried) > 1

    def force(self, state: _State) -> _State:
        """Set the cells that a single value fits, where several were tried."""
        has_changed = True
        while has_changed and self.steps < MOST_STEPS:
            has_changed = False
            for cell in self.waiting(state):
                if cell in state.known or self.steps >= MOST_STEPS:
                    continue
                fitting, several = self.survivors(state, cell, 2)
                if several and len(fitting) == 1:
                    state = self.forced(state, cell, fitting[0][0])
                    has_changed = True
        return state

    def forced(self, state: _State, cell: Cell, value: Any) -> _State:
        trial = state.copy(state.cause)
        self.settle(trial, self.fix(trial, cell, CellValue(value, after=state.cause)))
        return trial

    def choose(self, state: _State) -> _State:
        """Choose a value for each open cell; cells that share equations are chosen together."""
        while waiting := self.waiting(state):
            chosen = self.search(state, self.connected(state, waiting[0]))
            if chosen is None:
                return self.settled(state)
            state = chosen
        return state

    def connected(self, state: _State, cell: Cell) -> frozenset[int]:
        """Return the open equations of a cell, and those that share cells with them."""
        cells_by_equation = {at: set(cells_in(value)) for at, value in state.open.items()}
        connected_cells = {cell}
        connected_equations = set[int]()
        while near := [
            at for at, cells in cells_by_equation.items() if not cells.isdisjoint(connected_cells)
        ]:
            connected_equations.update(near)
            for at in near:
                connected_cells |= cells_by_equation.pop(at)
        return frozenset(connected_equations)

    def search(self, state: _State, among: frozenset[int]) -> _State | None:
        """Choose a value for each cell of some equations, and backtrack if a choice fails."""
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
        """Return the cells to choose first: those that the fewest values fit.

        A contradiction then shows early.
        """
        fitting: dict[Cell, int] = {}
        for cell in waiting[:_MOST_COMPARED]:
            survivors, _ = self.survivors(state, cell, _FEW)
            fitting[cell] = len(survivors) or _FEW
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
            trial.cells[cell] = CellValue(value, others, cell)
        return [trial for _, trial in fitting]

    def settled(self, state: _State) -> _State:
        """Choose the most usual values of all cells, because no values fulfil all equations.

        The equations that these values contradict become broken.
        """
        while waiting := self.waiting(state):
            cell = waiting[0]
            tried = self.tried(state, cell)
            if not tried or cell in state.known:
                self.give_up(state, cell)
                continue
            fitting, _ = self.survivors(state, cell)
            value = next((value for value, _ in fitting), tried[0])
            cell_value = CellValue(value, after=cell)
            state = state.copy(cell)
            try:
                touched = self.fix(state, cell, cell_value)
            except Impossible:
                touched = set(self.watching.get(cell, ()))
                state.known[cell] = value
                state.cells[cell] = cell_value
            self.settle(state, touched, strict=False)
        return state

    def give_up(self, state: _State, cell: Cell) -> None:
        """Mark the open equations of a cell as broken, because there is no value to try."""
        for at in [at for at, value in state.open.items() if cell in cells_in(value)]:
            del state.open[at]
            state.broken.add(at)

    def solution(self, state: _State) -> Solution:
        return Solution(
            state.cells, tuple(self.equations[at] for at in sorted(state.broken)), self.steps
        )


def _agrees(known: Mapping[Cell, Any], cell: Cell, value: Any) -> bool:
    """Return whether a whole list agrees with its known items."""
    if len(cell) > 1 or (cell[0], GIVEN) not in known:
        return True
    items = {
        other[1:]: item
        for other, item in known.items()
        if other[0] == cell[0] and other[1:] != (GIVEN,)
    }
    return value is not None and all(_has(value, path, item) for path, item in items.items())


def _has(value: Any, path: Cell, item: Any) -> bool:
    """Return whether a list has an item, a length or a member at a path."""
    if not path:
        return same(value, item)
    if not isinstance(value, list | tuple):
        return False
    if path[0] == LENGTH:
        return bool(len(value) == item)
    if path[0] == HOLDS:
        return bool((path[1] in value) is item)
    return -len(value) <= path[0] < len(value) and _has(value[path[0]], path[1:], item)


def _numbers_around(usual: int) -> list[int]:
    """Return the numbers to try if no equation suggests any.

    These are small numbers, those around the usual one, and its multiples and fractions.
    """
    return [
        *range(1, 9),
        *range(usual - 8, usual + 9),
        *(usual * times for times in (2, 3, 4, 8)),
        usual // 2,
        usual // 4,
    ]


def _distance(value: Any, usual: Any) -> tuple[float, float]:
    """Return a sort key: how far a number is from the usual one; of two, the larger comes first."""
    if any(type(number) not in (int, float) or number <= 0 for number in (value, usual)):
        return math.inf, 0.0
    return abs(math.log(value / usual)), -value


def majority(
    votes: Mapping[tuple[Tree, tuple[tuple[str, int], ...]], Counter[Any]],
) -> list[Constraint]:
    """Return an equation for each expression, with the result that the most tensors support."""
    return [
        Constraint(tree, indices, *results.most_common(1)[0])
        for (tree, indices), results in votes.items()
    ]
