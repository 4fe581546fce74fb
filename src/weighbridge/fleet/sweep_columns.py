"""What a sweep computes at each point: a formula for each column, and the rules on the points.

The model is bound at the corners of its grid. What is the same at all of them is a constant, what
follows from an axis is a letter with its expression, and everything else is refused.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import units
from weighbridge.algebra.expr import evaluate, names_in
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.answers.weigh import weigh
from weighbridge.blueprint.schema import MOST_LAYERS
from weighbridge.errors import UsageError, WeighbridgeError, either, nearest
from weighbridge.fleet.axes import Axis, corners
from weighbridge.fleet.sweep_runs import (
    MEMORY,
    RUN_COLUMNS,
    RunAtPoint,
    SweptRun,
    computed_in_runs,
    fields_of_run,
    formula_of_runs,
    run_at,
)
from weighbridge.ledger.family_formula import family_formula

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.answers.weigh import Weighing
    from weighbridge.fleet.axes import Point
    from weighbridge.ledger.family_formula import Cases

_DRAWN, _SEED = 256, 20261125
"""The points that are tried if no corner of a grid is a config."""
COLUMNS = ("parameters", "active", "weight_bytes", *RUN_COLUMNS)
"""The columns of a sweep."""


class Asked(NamedTuple):
    """What is swept: the arguments of `weigh`, and the columns that are wanted."""

    model: Any
    class_name: str | None
    fields: Mapping[str, Any]
    dtype: str | None
    columns: tuple[str, ...]
    run: SweptRun = SweptRun()

    def weigh(self, point: Mapping[str, Any]) -> Weighing:
        """Weigh the model at a point.

        Raises:
            WeighbridgeError: it is no config, or a config that is refused.
        """
        fields = {**self.fields, **point}
        return weigh(self.model, self.class_name, fields=fields, dtype=self.dtype)

    def values_at(self, point: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Return the value of each column at a point, by weighing it; None if it is refused."""
        try:
            weighing = self.weigh(point)
        except WeighbridgeError:
            return None
        return tuple(self._value(column, point, weighing) for column in self.columns)

    def _value(self, column: str, point: Mapping[str, Any], weighing: Weighing) -> int:
        if column in RUN_COLUMNS:
            return self.run_at(column, point, weighing.class_name).figures[column]
        value: int = _VALUES[column](weighing)
        return value

    def run_at(self, column: str, point: Mapping[str, Any], class_name: str) -> RunAtPoint:
        """Return the run of a config, for a column about runs.

        Raises:
            UsageError: `cost` or `cache` refuses it.
        """
        fields = {**self.fields, **point}
        return run_at(self.model, class_name, fields, self.dtype, self.run, column)


def _weight_bytes(weighing: Weighing) -> int:
    return units.stored_bytes(weighing.parameters, weighing.ledger.dtype)


_VALUES = {
    "parameters": lambda weighing: weighing.parameters,
    "active": lambda weighing: weighing.ledger.active,
    "weight_bytes": _weight_bytes,
}


class Corner(NamedTuple):
    """A point at which the model is bound: the values of its fields, and what was computed."""

    point: Point
    weighing: Weighing
    values: dict[str, Any]
    computed: dict[str, Tree]


class SweptModel:
    """A model with letters for some sizes: its columns as cases, and the rules on its points.

    Args:
        asked: the model, and the columns.
        axes: the sizes that vary.

    Raises:
        UsageError: an axis is no size of the model, or changes more than sizes.
        WeighbridgeError: no corner of the grid is a config.
    """

    def __init__(self, asked: Asked, axes: Sequence[Axis]) -> None:
        self.asked, self.axes = asked, axes
        corners_found = _bound_corners(asked, axes)
        self.bound = [weighing for _, weighing in corners_found]
        reference = self.bound[0]
        self.blueprint, self.class_name = reference.model.blueprint, reference.class_name
        self.columns = asked.columns or _usual_columns(self.bound)
        self.asked = asked._replace(columns=self.columns)
        self.runs = {
            column: [asked.run_at(column, point, self.class_name) for point, _ in corners_found]
            for column in RUN_COLUMNS
            if column in self.columns
        }
        """The run at each corner, for each column about runs."""
        self._corners = list(self._with_values(corners_found))
        self.names = {axis.field: self._field_of(axis.field) for axis in axes}
        """The field of each axis, which may be typed under another name."""
        self.following = self._following()
        """The expressions of the fields that follow from an axis, in order."""
        self.values: dict[str, Any] = self._corners[0].values
        moving = {*self.names.values(), *self.following}
        self.constants = {name: v for name, v in self.values.items() if name not in moving}
        self._check_constants()
        self.cases = {column: self._cases_of(column) for column in self.columns}
        of_parameters = family_formula(self.blueprint, self.class_name, self.constants)
        self.rules = (*of_parameters.rules, *self._rules_on_sizes())

    def _with_values(self, found: Sequence[tuple[Point, Weighing]]) -> Iterator[Corner]:
        """Yield the corners with the values of all fields, those that only runs read included."""
        for place, (point, weighing) in enumerate(found):
            values, computed = dict(weighing.ledger.fields), dict(weighing.model.computed)
            for runs in self.runs.values():
                run = runs[place]
                values |= fields_of_run(run)
                computed |= computed_in_runs(runs)
            yield Corner(point, weighing, values, computed)

    def _field_of(self, name: str) -> str:
        blueprint, values = self.blueprint, self._corners[0].values
        field = blueprint.aliases.get(name, name)
        if field not in values:
            near = nearest(blueprint.sizes, name) or sorted(blueprint.sizes)
            raise UsageError(
                f"{name} decides nothing in {blueprint.family}",
                hint=f"sweep {either(near)}",
            )
        if type(values[field]) is not int:
            raise UsageError(f"{name} is no integer", hint="give it with --set instead")
        return field

    def _following(self) -> dict[str, Tree]:
        """Return the fields that every corner computes, and that depend on an axis."""
        moving = set(self.names.values())
        following: dict[str, Tree] = {}
        for name, tree in self._corners[0].computed.items():
            if name not in moving and not moving.isdisjoint(names_in(tree)):
                following[name] = tree
                moving.add(name)
        for corner in self._corners[1:]:
            for name in following.keys() - corner.computed.keys():
                self._refuse(name, corner)
        return following

    def _check_constants(self) -> None:
        """Refuse a field that changes with an axis, although no expression says so."""
        for corner in self._corners:
            fields = corner.values
            for name, value in self.constants.items():
                if fields.get(name) != value:
                    self._refuse(name, corner)
            for name, tree in self.following.items():
                if not _is_equal(evaluate(tree, fields), fields[name]):
                    self._refuse(name, corner)

    def _refuse(self, name: str, corner: Corner) -> None:
        values = {axis: corner.values[field] for axis, field in self.names.items()}
        raise UsageError(
            f"{name} changes with the axes, but no expression says how",
            values=values,
            hint=f"fix it with --set {name}=…, or sweep a smaller range",
        )

    def _cases_of(self, column: str) -> Cases:
        if column in RUN_COLUMNS:
            of_run: Cases = {(): formula_of_runs(self.runs[column], column)}
            if column == MEMORY:
                for conditions, count in self._cases_of("weight_bytes").items():
                    of_run[conditions] = of_run.get(conditions, Polynomial({})) + count
            return of_run
        cases = family_formula(
            self.blueprint, self.class_name, self.constants, active=column == "active"
        ).cases
        if column == "weight_bytes":
            width = units.stored_bytes(1, self.bound[0].ledger.dtype)
            return {conditions: count * width for conditions, count in cases.items()}
        return cases

    def _rules_on_sizes(self) -> Iterator[Tree]:
        """Yield the rules that the sizes which move are at least 1, or 0, and not too large."""
        blueprint = self.blueprint
        for name in (*self.names.values(), *self.following):
            if name not in blueprint.sizes:
                continue
            yield (">=", ("name", name), ("value", int(name not in blueprint.zero)))
            if name in blueprint.counts:
                yield ("<=", ("name", name), ("value", MOST_LAYERS))

    def fields_at(self, values: Mapping[str, int]) -> dict[str, Any]:
        """Return every field at some values of the axes, given by their fields."""
        fields = {**self.values, **values}
        for name, tree in self.following.items():
            fields[name] = evaluate(tree, fields)
        return fields

    def sources(self, tree: Tree) -> frozenset[str]:
        """Return the fields of the axes on which an expression depends, directly or not."""
        found, pending = set[str](), [*names_in(tree)]
        while pending:
            name = pending.pop()
            if name in self.following:
                pending += names_in(self.following[name])
            elif name in self.names.values():
                found.add(name)
        return frozenset(found)


def _bound_corners(asked: Asked, axes: Sequence[Axis]) -> list[tuple[Point, Weighing]]:
    """Return the model at each corner that is a config, or else at points that are.

    Raises:
        WeighbridgeError: none was found.
    """
    refused: WeighbridgeError | None = None
    for points in (corners(axes), _points_inside(axes)):
        bound = []
        for point in points:
            try:
                bound.append((point, asked.weigh(point)))
            except WeighbridgeError as error:
                refused = refused or error
        if bound:
            return bound
    assert refused is not None  # noqa: S101  # there is at least one point
    raise refused


def _points_inside(axes: Sequence[Axis]) -> Iterator[Point]:
    """Yield points inside a grid, the same each time."""
    drawn = random.Random(_SEED)  # noqa: S311
    for _ in range(_DRAWN):
        yield {axis.field: drawn.choice(axis.values) for axis in axes}


def _usual_columns(bound: Sequence[Weighing]) -> tuple[str, ...]:
    if any(weighing.ledger.has_experts for weighing in bound):
        return ("parameters", "active", "weight_bytes")
    return ("parameters", "weight_bytes")


def _is_equal(left: Any, right: Any) -> bool:
    if isinstance(right, tuple):
        return list(left) == list(right)
    return type(left) is type(right) and bool(left == right)
