"""A sweep as SQL: the grid, what follows from it, what is allowed, and a formula for each column.

SQL has numbers only. What it cannot write, such as a count over a list of layers, becomes a column
of a small table: its value at each combination of the axes that it depends on, computed by the
package's own evaluator. The grid is built from these tables, so nothing is joined to all of it.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.codegen import SQL_WORDS, identifiers, is_portable, meaning_in
from weighbridge.algebra.expr import (
    MOST_ROUNDS,
    SOURCE,
    Shown,
    evaluate,
    infix,
    is_number,
    names_in,
    show,
    source,
    written_as_call,
)
from weighbridge.algebra.settle import settled
from weighbridge.errors import ExpressionError, LongLoopError, UsageError, WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.fleet.axes import Axis
    from weighbridge.fleet.sweep_columns import SweptModel
    from weighbridge.ledger.family_formula import Conditions

MOST_TABLE_ROWS = 1_000_000
"""The points of a table of what SQL cannot write; each takes some microseconds of Python."""
_MOST_ROUNDS = 1_000_000
"""The rounds of the loops of an expression at one point of a small table: a second or less."""
_ROUNDS_OF_TABLE = 30_000_000
"""The rounds that all points of a larger table may have together."""
_TRUE: Tree = ("value", True)


class Dialect(NamedTuple):
    """What DuckDB and Spark write differently."""

    quotient: str
    numbers: str
    listed: str
    wide: str


DIALECTS = {
    "duckdb": Dialect(
        quotient="//",
        numbers="SELECT CAST(unnest(range({first}, {beyond}, {step})) AS {type}) AS {name}",
        listed="SELECT CAST(unnest([{values}]) AS {type}) AS {name}",
        wide="HUGEINT",
    ),
    "spark": Dialect(
        quotient="div",
        numbers="SELECT CAST(value AS {type}) AS {name} "
        "FROM (SELECT explode(sequence({first}, {last}, {step})) AS value)",
        listed="SELECT CAST(value AS {type}) AS {name} "
        "FROM (SELECT explode(array({values})) AS value)",
        wide="DECIMAL(38, 0)",
    ),
}
"""The dialects of a sweep. Everything else in a query means the same in both."""


class Lookup(NamedTuple):
    """A table of values by axes: the fields of these axes, and the expressions of its columns."""

    keys: tuple[str, ...]
    trees: list[Tree]


class SweepQuery:
    """The query of a model's sweep.

    Example:
        >>> from weighbridge.fleet.axes import axes_of
        >>> from weighbridge.fleet.sweep_columns import Asked, SweptModel
        >>> axes = axes_of({"num_hidden_layers": [1, 24]})
        >>> asked = Asked("bert", None, {}, None, ("parameters",))
        >>> print(SweepQuery(SweptModel(asked, axes)).text())
        WITH grid AS (
          SELECT * FROM (SELECT CAST(unnest([1, 24]) AS BIGINT) AS num_hidden_layers) AS axis_1
        ), points AS (
          SELECT num_hidden_layers,
            24427776 + 7087872 * num_hidden_layers AS parameters
          FROM grid
          WHERE (num_hidden_layers >= 1) AND (num_hidden_layers <= 10000)
        )
        SELECT * FROM points WHERE parameters IS NOT NULL
    """

    def __init__(
        self,
        swept: SweptModel,
        dialect: str = "duckdb",
        *,
        wide: bool = False,
        prefix: str = "by_axes",
    ) -> None:
        self.swept, self.dialect = swept, DIALECTS[dialect]
        self._prefix, self.is_wide = prefix, wide
        self.integer = self.dialect.wide if wide else "BIGINT"
        self._columns: dict[str, Any] = {}
        """The fields that are columns of numbers, with their values at a corner."""
        self._lookups: dict[tuple[str, ...], Lookup] = {}
        self._names: dict[Tree, str] = {}
        """The name of each expression that is a column of a table."""
        for field in swept.names.values():
            self._columns[field] = swept.values[field]
        self._following = dict(self._numeric_following())
        self._own = identifiers(self._columns, {*SQL_WORDS, *swept.columns})
        self._axis_of = {field: axis for axis, field in swept.names.items()}
        self._rules = list(self._written_rules())
        self._formulas = {name: self._formula(name) for name in swept.columns}

    def own_name(self, axis: str) -> str:
        """Return the name of an axis in the query."""
        return self._own[self.swept.names[axis]]

    def condition(self, tree: Tree, name: Callable[[str], str]) -> str:
        """Write a condition on the columns of the result.

        Raises:
            UsageError: SQL has no words for it.
        """
        try:
            return show(tree, name, self._meaning, _literal)
        except KeyError as error:
            raise UsageError(
                "the condition has an operator that SQL lacks",
                values={"where": source(tree), "operator": error.args[0]},
                hint="use comparisons, + - * // %, and, or, not",
            ) from None

    def _numeric_following(self) -> Iterator[tuple[str, Tree]]:
        """Yield the numbers that follow from the axes by an expression that SQL can write."""
        for name, tree in self.swept.following.items():
            plain = settled(tree, self.swept.constants)
            if is_number(self.swept.values[name]) and self._is_portable(plain):
                self._columns[name] = self.swept.values[name]
                yield name, plain

    def _is_portable(self, tree: Tree) -> bool:
        names = set(names_in(tree))
        return names <= self._columns.keys() and is_portable(tree, self._columns)

    # Expressions

    def _shown(self, tree: Tree) -> str:
        """Write an expression, of which only columns of numbers are left."""
        return show(tree, lambda name: self._own.get(name, name), self._meaning, _literal)

    @property
    def _meaning(self) -> Mapping[str, Callable[..., Any]]:
        divided = infix("//", f"{{}} {self.dialect.quotient} {{}}")
        return {
            **meaning_in("sql"),
            "//": lambda left, right: divided(left, self._divisor(right)),
            "%": lambda left, right: SOURCE["%"](left, self._divisor(right)),
            "/": lambda left, right: SOURCE["/"](_as_double(left), self._divisor(right)),
            "min": written_as_call("LEAST({})"),
            "max": written_as_call("GREATEST({})"),
        }

    def _divisor(self, shown: Shown) -> Shown:
        """Return a divisor; where an axis has 0, one that gives NULL instead of an error."""
        has_zero = any(axis.has_zero for axis in self.swept.axes)
        if has_zero and not shown.isdecimal():
            return Shown(f"NULLIF({shown}, 0)")
        return shown

    def _factor(self, tree: Tree) -> str | int:
        """Return a factor of a formula: as it is, a number, or a column of a table."""
        plain = settled(tree, self.swept.constants)
        if plain[0] == "value" and is_number(plain[1]):
            return plain[1] if type(plain[1]) is int else repr(plain[1])
        if self._is_portable(plain):
            return show(plain, str, SOURCE)
        return self._looked_up(plain)

    def _looked_up(self, tree: Tree) -> str:
        """Return the name of the column of a table that holds an expression."""
        if tree not in self._names:
            keys = tuple(sorted(self.swept.sources(tree)))
            lookup = self._lookups.setdefault(keys, Lookup(keys, []))
            lookup.trees.append(tree)
            self._names[tree] = f"n_{len(self._names) + 1}"
        return self._names[tree]

    def _condition(self, tree: Tree) -> str:
        """Write a condition; one that SQL cannot write is a column of 0 and 1."""
        plain = settled(tree, self.swept.constants)
        if plain[0] == "value":
            return "1 = 1" if plain[1] else "1 = 0"
        if self._is_portable(plain):
            return f"({self._shown(plain)})"
        return f"{self._looked_up(plain)} = 1"

    def _written_rules(self) -> Iterator[str]:
        for rule in self.swept.rules:
            if settled(rule, self.swept.constants) != _TRUE:
                yield self._condition(rule)

    def _formula(self, column: str) -> str:
        """Write the formula of a column: the sum of its cases."""
        terms = []
        for conditions, count in self.swept.cases[column].items():
            shown = self._count(count)
            if conditions:
                shown = f"CASE WHEN {self._all(conditions)} THEN {shown} ELSE 0 END"
            terms.append(shown)
        return " + ".join(terms) or "0"

    def _all(self, conditions: Conditions) -> str:
        return " AND ".join(map(self._condition, conditions))

    def _count(self, count: Polynomial) -> str:
        plain = count.rewritten(self._factor)
        outside = sorted({*self.swept.blueprint.repeats, *self._names.values()})
        return self._shown(plain.tree(outside))

    # The query

    def text(self, *, points: str = "", keep: Sequence[str] = (), where: str = "") -> str:
        """Return the query.

        Args:
            points: a query of points to use instead of the grid.
            keep: columns of these points to keep in front.
            where: a condition on the columns.
        """
        grid = points or self._grid()
        joined = self._joins() if points else ""
        written = [f"WITH grid AS (\n  {grid}\n)"]
        last = f"grid{joined}"
        for name, tree in self._following.items():
            own = self._own[name]
            shown = self._shown(tree)
            written.append(f"with_{own} AS (\n  SELECT *, {shown} AS {own} FROM {last}\n)")
            last = f"with_{own}"
        kept = [*keep, *(self._own[field] for field in self.swept.names.values())]
        results = [f"{formula} AS {name}" for name, formula in self._formulas.items()]
        rules = f"\n  WHERE {' AND '.join(self._rules)}" if self._rules else ""
        columns = ",\n    ".join([", ".join(kept), *results])
        written.append(f"points AS (\n  SELECT {columns}\n  FROM {last}{rules}\n)")
        conditions = [f"{name} IS NOT NULL" for name in self._formulas]
        if where:
            conditions.append(f"({where})")
        return ", ".join(written) + f"\nSELECT * FROM points WHERE {' AND '.join(conditions)}"

    def _grid(self) -> str:
        """Write the grid: the tables, and the axes on which no table depends."""
        source, placed = "", set[str]()
        for table, lookup in enumerate(self._lookups.values()):
            shared = [self._own[key] for key in lookup.keys if key in placed]
            name = self._table_name(table)
            if shared:
                source += f" JOIN {name} USING ({', '.join(shared)})"
            else:
                source += f"{' CROSS JOIN ' if source else ''}{name}"
            placed.update(lookup.keys)
        for number, axis in enumerate(self.swept.axes, 1):
            field = self.swept.names[axis.field]
            if field not in placed:
                values = self._axis(axis, self._own[field])
                source += f"{' CROSS JOIN ' if source else ''}({values}) AS axis_{number}"
        return f"SELECT * FROM {source}"

    def _axis(self, axis: Axis, name: str) -> str:
        values, dialect = axis.values, self.dialect
        if isinstance(values, range):
            return dialect.numbers.format(
                first=values.start,
                last=values[-1],
                beyond=values.stop,
                step=values.step,
                type=self.integer,
                name=name,
            )
        return dialect.listed.format(
            values=", ".join(map(str, values)), type=self.integer, name=name
        )

    def _joins(self) -> str:
        joins = ""
        for table, lookup in enumerate(self._lookups.values()):
            keys = ", ".join(self._own[key] for key in lookup.keys)
            name = self._table_name(table)
            joins += f" JOIN {name} USING ({keys})" if keys else f" CROSS JOIN {name}"
        return joins

    # The tables

    def tables(self) -> Iterator[tuple[str, list[str], list[tuple[int | None, ...]]]]:
        """Yield the name, the columns and the rows of each table.

        Raises:
            UsageError: a table would have more than `MOST_TABLE_ROWS` rows.
        """
        for table, lookup in enumerate(self._lookups.values()):
            columns = [self._own[key] for key in lookup.keys]
            columns += [self._names[tree] for tree in lookup.trees]
            yield self._table_name(table), columns, list(self._rows(lookup))

    def _table_name(self, number: int) -> str:
        return f"{self._prefix}_{number + 1}"

    def _rows(self, lookup: Lookup) -> Iterator[tuple[int | None, ...]]:
        axes = {self.swept.names[axis.field]: axis for axis in self.swept.axes}
        values = [axes[key].values for key in lookup.keys]
        points = prod(map(len, values))
        if points > MOST_TABLE_ROWS:
            raise UsageError(
                "what depends on the layers must be computed for each combination of these axes, "
                f"and they have more than {MOST_TABLE_ROWS:,}",
                values={axes[key].field: str(axes[key]) for key in lookup.keys},
                hint="take fewer values of them",
            )
        most = max(MOST_ROUNDS, min(_MOST_ROUNDS, _ROUNDS_OF_TABLE // points))
        for point in product(*values):
            at_keys = dict(zip(lookup.keys, point, strict=True))
            yield (*point, *self._values_at(at_keys, lookup, most))

    def _values_at(
        self, point: Mapping[str, int], lookup: Lookup, most: int
    ) -> Iterator[int | None]:
        """Yield the value of each expression at a point; NULL where it has none.

        Raises:
            UsageError: loops have more than ``most`` rounds.
        """
        try:
            fields = self.swept.fields_at(point)
        except WeighbridgeError:
            yield from [None] * len(lookup.trees)
            return
        for tree in lookup.trees:
            try:
                yield int(evaluate(tree, fields, most=most))
            except LongLoopError as error:
                raise UsageError(
                    "what depends on the layers takes too long to compute for these axes",
                    values=point,
                    hint="sweep fewer layers, or other fields",
                ) from error
            except (ExpressionError, TypeError, ValueError):
                yield None


def _as_double(shown: Shown) -> Shown:
    return Shown(f"CAST({shown} AS DOUBLE)")


def _literal(value: Any) -> str:
    """Write a number; a fraction with an exponent, which makes it a double in both dialects.

    Raises:
        KeyError: it is not a number.
    """
    if not is_number(value):
        raise KeyError(value)
    text = repr(value)
    if isinstance(value, float) and "e" not in text:
        text += "e0"
    return text
