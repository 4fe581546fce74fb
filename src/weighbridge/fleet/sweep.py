"""A sweep: the size of a model at every point of a grid of configs, by SQL in DuckDB."""

from __future__ import annotations

import os
import random
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.algebra.expr import names_in, parse, source
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.data_table import INTEGER, TEXT, Column, DataTable
from weighbridge.errors import ExpressionError, UsageError, either, nearest
from weighbridge.fleet.axes import MOST_CORNERS, axes_of, corners, points_in, variants
from weighbridge.fleet.sweep_columns import COLUMNS, Asked, SweptModel
from weighbridge.fleet.sweep_query import DIALECTS, SweepQuery
from weighbridge.fleet.sweep_runs import SweptRun
from weighbridge.render.document import Aside, Document, Notes, Title, Together, WideTable
from weighbridge.render.table import COLUMNS as COLUMNS_OF_TEXT
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.fleet.axes import Axis, Point
    from weighbridge.models.find import Described
    from weighbridge.render.document import Block

HELD = 256
"""The points that are weighed one by one, before anything is shown; the corners are among them."""
MOST_VARIANTS = 64
_SEED = 20261125
ROWS_LISTED = 10
_MOST_IN_TEXT = 10_000  # rows of tables that a query contains when it is printed
_FORMATS = {".parquet": "FORMAT parquet, COMPRESSION zstd", ".csv": "FORMAT csv, HEADER"}


def sweep(  # noqa: PLR0913  # each is a word of its own for the user
    model: Described,
    grid: Mapping[str, Iterable[Any]] | Iterable[str],
    class_name: str | None = None,
    *,
    columns: Sequence[str] = (),
    where: str | None = None,
    order: str | None = None,
    limit: int = ROWS_LISTED,
    batch: int = 1,
    sequence: int = 128,
    context: int = 128,
    fields: Mapping[str, Any] | None = None,
    dtype: str | None = None,
) -> Sweep:
    """Compute the size of a model at every point of a grid of configs.

    Before anything is returned, 256 points are weighed one by one, the corners of the grid among
    them. A difference refuses the sweep.

    Args:
        model: as for `weigh`.
        grid: the values that each field takes: a mapping from fields to ranges or lists, or texts
            such as ``"hidden_size=1024..8192:128"``. Flags, texts and null make variants.
        class_name: as for `weigh`.
        columns: what to compute: ``"parameters"``, ``"active"`` and ``"weight_bytes"``, by default
            those that the model has; ``"forward_matmul_flops"``, ``"cache_bytes"``, and
            ``"memory_bytes"``, which is weights and cache, where operations are recorded.
        where: a condition on fields and columns, such as ``"parameters < 8000000000"``.
        order: a column or field by which rows are listed, with ``:desc`` for the largest first.
        limit: how many rows `records` and `text` list.
        batch: the sequences in a batch, for the columns about a run.
        sequence: the tokens of each, for ``"forward_matmul_flops"``.
        context: the tokens in the cache of each, for ``"cache_bytes"`` and ``"memory_bytes"``.
        fields: config fields to replace at all points.
        dtype: the dtype of ``weight_bytes``; by default the config's.

    Raises:
        UsageError: an axis, a column or the condition is unknown, or an axis changes more than
            formulas cover; or DuckDB is not installed.
        ModelError: there is no such model.
        ConfigError: no point of the grid is a config.

    Example:
        >>> swept = sweep("llama", {"hidden_size": range(1024, 8193, 1024)})
        >>> swept.points, swept.configs
        (8, 8)
        >>> swept.records()[0]
        {'hidden_size': 1024, 'parameters': 1249182720, 'weight_bytes': 4996730880}
    """
    axes = axes_of(grid)
    sizes = [axis for axis in axes if axis.is_size]
    others = [axis for axis in axes if not axis.is_size]
    if points_in(others) > MOST_VARIANTS:
        raise UsageError(
            f"a sweep has at most {MOST_VARIANTS} variants",
            values={axis.field: str(axis) for axis in others},
            hint="take fewer flags, texts and nulls",
        )
    for column in columns:
        if column not in COLUMNS:
            near = nearest(COLUMNS, column) or COLUMNS
            raise UsageError(f"there is no column {column}", hint=f"use {either(near)}")
    run = SweptRun(batch, sequence, context)
    asked = Asked(model, class_name, dict(fields or {}), dtype, tuple(columns), run)
    if limit < 1:
        raise UsageError("a sweep lists at least one row", values={"limit": limit}, hint="give 1")
    swept = Sweep(asked, sizes, others, limit)
    swept.check()
    swept.choose(where, order)
    return swept


class FixedModel(NamedTuple):
    """A model with fixed flags and texts, and the query of its sizes."""

    fixed: Point
    query: SweepQuery


class Extremes(NamedTuple):
    """The least and the greatest value of a column."""

    least: int
    most: int


class Sweep(TabularAnswer):
    """What `sweep` returns: `points` of a grid, of which `configs` are configs of the family.

    ``records()``, ``to_pandas()`` and ``csv()`` list the first rows, as `text` does; `write` has
    all of them, and `sql` the query.
    """

    groupings = ("row",)

    def __init__(
        self, asked: Asked, sizes: Sequence[Axis], others: Sequence[Axis], limit: int
    ) -> None:
        self.axes = [*sizes, *others]
        self._sizes, self._others, self._asked = list(sizes), list(others), asked
        self._duckdb = _duckdb()
        self.variants = list(self._variants("duckdb", wide=False))
        if any(max(_at_corners(variant), default=0) > 2**60 for variant in self.variants):
            self.variants = list(self._variants("duckdb", wide=True))
        first = self.variants[0].query.swept
        self.where, self.class_name = first.bound[0].model.where, first.class_name
        self.family = first.blueprint.family
        self.evidence = first.bound[0].evidence
        self.columns = first.columns
        self._condition, self._order, self._limit = "", "", limit
        for variant in self.variants:
            for name, columns, rows in variant.query.tables():
                self._add_table(name, columns, rows)
        self._written = ""
        self.held = self.refused = 0
        """The points that were weighed: those that agreed, and those that both refused."""

    def _variants(self, dialect: str, *, wide: bool) -> Iterator[FixedModel]:
        for number, fixed in enumerate(variants(self._others), 1):
            asked = self._asked._replace(fields={**self._asked.fields, **fixed})
            swept = SweptModel(asked, self._sizes)
            query = SweepQuery(swept, dialect, wide=wide, prefix=f"variant_{number}_by_axes")
            yield FixedModel(fixed, query)

    def _add_table(self, name: str, columns: list[str], rows: list[tuple[int | None, ...]]) -> None:
        """Make a table of what SQL cannot compute."""
        pyarrow = _package("pyarrow")
        values = {
            column: pyarrow.array([row[place] for row in rows], pyarrow.int64())
            for place, column in enumerate(columns)
        }
        self._duckdb.register("made", pyarrow.table(values))
        self._duckdb.execute(f"CREATE TABLE {name} AS SELECT * FROM made")
        self._duckdb.unregister("made")

    # Before anything is shown

    def check(self) -> None:
        """Hold corners and drawn points against `weigh`, or every point of a small grid.

        Raises:
            UsageError: a point differs.
        """
        drawn = random.Random(_SEED)  # noqa: S311  # the same points each time
        each = max(HELD // len(self.variants), 1)
        for variant in self.variants:
            points = list(islice(variants(self._sizes), each + 1))
            if len(points) > each:
                points = list(islice(corners(self._sizes), min(MOST_CORNERS, each)))
                while len(points) < each:
                    points.append({axis.field: drawn.choice(axis.values) for axis in self._sizes})
            self.hold(variant, points)

    def hold(self, variant: FixedModel, points: list[Point]) -> None:
        """Weigh points one by one, and compare each with its row.

        Raises:
            UsageError: one differs.
        """
        query = variant.query
        fields = [query.own_name(axis.field) for axis in self._sizes]
        rows = [
            f"({', '.join([*(str(point[axis.field]) for axis in self._sizes), str(number)])})"
            for number, point in enumerate(points)
        ]
        kept = ", ".join(f"CAST({field} AS {query.integer}) AS {field}" for field in fields)
        drawn = f"(VALUES {', '.join(rows)}) AS drawn({', '.join([*fields, 'point'])})"
        text = query.text(points=f"SELECT {kept}, point FROM {drawn}", keep=["point"])
        found = {row[0]: row[1 + len(fields) :] for row in self._duckdb.execute(text).fetchall()}
        for number, point in enumerate(points):
            expected = query.swept.asked.values_at(point)
            if found.get(number) != expected:
                raise UsageError(
                    "the formulas of this sweep differ from what `weighbridge weigh` gives, so it "
                    "is refused",
                    values={**variant.fixed, **point},
                    hint="sweep fewer fields, and please report it",
                )
            self.held += expected is not None
            self.refused += expected is None

    # What is chosen

    def choose(self, where: str | None, order: str | None) -> None:
        """Keep only rows for which a condition holds, and list them in an order.

        Raises:
            UsageError: the condition cannot be read, or has a name that is no column.
        """
        if where:
            self._condition = self._written_condition(where)
        if order:
            name, _, direction = order.partition(":")
            if direction not in ("", "asc", "desc"):
                hint = "use parameters, or parameters:desc for the largest first"
                raise UsageError("unknown order", values={"order": order}, hint=hint)
            self._order = f"{self._named(name)} {direction or 'asc'}, "

    def _written_condition(self, where: str) -> str:
        try:
            tree = parse(where)
        except ExpressionError as error:
            raise UsageError(
                "the condition cannot be read",
                values={"where": where},
                hint='write it as in Python: --where "parameters < 8000000000"',
            ) from error
        for name in names_in(tree):
            self._named(name)
        return self.variants[0].query.condition(tree, self._named)

    def _named(self, name: str) -> str:
        """Return the name of a column in the query."""
        own = {axis.field: self.variants[0].query.own_name(axis.field) for axis in self._sizes}
        own |= {axis.field: _variant_column(axis.field) for axis in self._others}
        own |= {column: column for column in self.columns}
        if name not in own:
            raise UsageError(
                f"the sweep has no column {name}",
                hint=f"use {either(nearest(own, name) or list(own))}",
            )
        return own[name]

    # The query and its results

    def sql(self, dialect: str = "duckdb") -> str:
        """Return the whole sweep as one query, which needs no tables of its own.

        Args:
            dialect: ``"duckdb"`` or ``"spark"``.

        Raises:
            UsageError: the dialect is unknown, or the tables are too long to be written.
        """
        if dialect not in DIALECTS:
            known = ", ".join(DIALECTS)
            raise UsageError("unknown dialect", values={"dialect": dialect}, hint=f"use {known}")
        wide = self.variants[0].query.is_wide
        written = list(self._variants(dialect, wide=wide))
        tables = [table for variant in written for table in variant.query.tables()]
        if sum(len(rows) for _, _, rows in tables) > _MOST_IN_TEXT:
            raise UsageError(
                f"the query needs tables of more than {_MOST_IN_TEXT:,} rows",
                hint="write the rows with -o sweep.parquet",
            )
        made = [_written_table(*table) for table in tables]
        query = self._query(written)
        if made:
            return f"WITH {', '.join(made)}\nSELECT * FROM (\n{query}\n) AS swept;"
        return f"{query};"

    def _query(self, chosen: Sequence[FixedModel] = ()) -> str:
        """Return the query of all variants, with the condition."""
        texts = []
        for variant in chosen or self.variants:
            inner = variant.query.text()
            fixed = "".join(
                f", {_sql_text(value)} AS {_variant_column(field)}"
                for field, value in variant.fixed.items()
            )
            texts.append(f"SELECT *{fixed} FROM (\n{inner}\n) AS swept" if fixed else inner)
        union = "\nUNION ALL\n".join(texts)
        if not self._condition:
            return union
        return f"SELECT * FROM (\n{union}\n) AS swept WHERE {self._condition}"

    @property
    def points(self) -> int:
        """The number of points in the grid."""
        return points_in(self.axes)

    @property
    def configs(self) -> int:
        """The number of points that are configs, and for which the condition holds."""
        return self._summary[0]

    @property
    def extremes(self) -> dict[str, Extremes]:
        """The least and the greatest value of each column."""
        return self._summary[1]

    @cached_property
    def _summary(self) -> tuple[int, dict[str, Extremes]]:
        """Fold all rows: their number, and the extremes of each column."""
        asked = ", ".join(f"min({name}), max({name})" for name in self.columns)
        row = self._run(f"SELECT count(*), {asked} FROM (\n{self._query()}\n) AS swept").fetchone()
        if not row[0]:
            return 0, {}
        extremes = {}
        for place, name in enumerate(self.columns):
            extremes[name] = Extremes(int(row[1 + 2 * place]), int(row[2 + 2 * place]))
        return row[0], extremes

    def _run(self, query: str) -> Any:
        try:
            return self._duckdb.execute(query)
        except _package("duckdb").OutOfRangeException as error:
            raise UsageError(
                "a total does not fit into its column",
                values={axis.field: str(axis) for axis in self.axes},
                hint="use smaller sizes",
            ) from error

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:
        axes = ", ".join(self._named(axis.field) for axis in self.axes)
        listed = f"ORDER BY {self._order}{axes} LIMIT {self._limit}"
        return list(self._run(f"SELECT * FROM (\n{self._query()}\n) AS swept {listed}").fetchall())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write all rows to a Parquet or a CSV file, whole or not at all.

        Raises:
            UsageError: the file has another suffix, or cannot be written.
        """
        target = Path(path)
        if target.suffix not in _FORMATS:
            hint = f"name a file that ends in {' or '.join(_FORMATS)}"
            raise UsageError("unknown file format", where=str(target), hint=hint)
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        order = f" ORDER BY {self._order.rstrip(', ')}" if self._order else ""
        quoted = str(part).replace("'", "''")
        query = f"SELECT * FROM (\n{self._query()}\n) AS swept{order}"
        try:
            self._run(f"COPY ({query}) TO '{quoted}' ({_FORMATS[target.suffix]})")
            part.replace(target)
            self._written = str(target)
        except (OSError, _package("duckdb").IOException) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(
                f"cannot be written: {reason}", where=str(target), hint="name another file with -o"
            ) from None
        finally:
            part.unlink(missing_ok=True)

    # What is shown

    @property
    def status(self) -> int:
        """The exit status: 1 if no point of the grid is left."""
        return int(not self.configs)

    def _data_table(self, by: str) -> DataTable:  # noqa: ARG002  # a row is a point
        columns = [Column(axis.field, INTEGER) for axis in self._sizes]
        columns += [Column(name, INTEGER) for name in self.columns]
        columns += [Column(axis.field, TEXT) for axis in self._others]
        return DataTable(tuple(columns), self._rows)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "model": self.where,
            "family": self.family,
            "class": self.class_name,
            "axes": {axis.field: str(axis) for axis in self.axes},
            "points": self.points,
            "configs": self.configs,
            "columns": {name: found._asdict() for name, found in self.extremes.items()},
            "held": {"equal": self.held, "refused_by_both": self.refused},
            "rules": self.rules,
            "rows": self.records(),
        }

    @property
    def rules(self) -> list[str]:
        """The rules of the family about the axes, as a blueprint has them."""
        swept = self.variants[0].query.swept
        rules = {source(rule) for rule in swept.rules if _is_news(rule)}
        return sorted(rules)

    def document(self, lang: str = "en") -> Document:
        """Return the axes, the extremes of each column, and the first rows."""
        texts = {**words(lang), **data.read_toml(f"words/sweep.{lang}.toml")}
        heading = texts["heading"].format(model=self.where, class_name=self.class_name)
        axes = tuple((axis.field, str(axis), units.count(len(axis.values))) for axis in self.axes)
        blocks: list[Block] = [
            Title(heading, wraps=False),
            Table(tuple(texts["axes"]), axes, "<<>"),
        ]
        if self.configs:
            extremes = tuple(
                (name, units.count(found.least), units.count(found.most))
                for name, found in self.extremes.items()
            )
            blocks.append(Table(tuple(texts["extremes"]), extremes, "<>>"))
            shown = self._listed()
            title = texts["first_rows"].format(count=units.count(len(self._rows)))
            blocks.append(Together((Notes((title,)), shown)))
        return Document((*blocks, Notes(tuple(self._sentences(texts)))), lang)

    def _listed(self) -> Table | WideTable:
        """Return the first rows; where they do not fit on a line, as several tables."""
        header = tuple(column.name for column in self._data_table("row").columns)
        rows = tuple(tuple(map(_cell, header, row)) for row in self._rows)
        table = Table(header, rows, ">" * len(header))
        widths = [max(map(len, cells)) for cells in zip(header, *rows, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) > COLUMNS_OF_TEXT:
            return WideTable(table)
        return table

    def _sentences(self, texts: Mapping[str, Any]) -> Iterator[str]:
        yield texts["counted"].format(
            points=units.count(self.points), configs=units.count(self.configs)
        )
        if self.rules:
            yield texts["rules"].format(rules=texts["comma"].join(self.rules))
        yield texts["held"].format(
            held=units.count(self.held + self.refused), refused=units.count(self.refused)
        )
        if self._written:
            yield Aside(texts["written"].format(path=self._written))
        else:
            yield Aside(texts["more"])


def _is_news(rule: Tree) -> bool:
    """Whether a rule says more than that a size is in its range."""
    return not (rule[0] in (">=", "<=") and rule[1][0] == "name" and rule[2][0] == "value")


def _at_corners(variant: FixedModel) -> Iterator[int]:
    """Yield the largest values of the columns at the corners."""
    swept = variant.query.swept
    for weighing in swept.bound:
        yield weighing.parameters * units.stored_bytes(1, weighing.ledger.dtype)
    for runs in swept.runs.values():
        for run in runs:
            yield from run.figures.values()


def _variant_column(field: str) -> str:
    return field.replace(".", "_")


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if name.endswith("_bytes"):
        return units.size(int(value))
    return units.count(int(value))


def _sql_text(value: Any) -> str:
    """Write a value as a text in SQL."""
    import json  # noqa: PLC0415

    text = value if isinstance(value, str) else json.dumps(value)
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


def _written_table(name: str, columns: list[str], rows: list[tuple[int | None, ...]]) -> str:
    """Write a table into a query."""
    values = ", ".join(
        f"({', '.join('NULL' if value is None else str(value) for value in row)})" for row in rows
    )
    named = ", ".join(f"CAST({column} AS BIGINT) AS {column}" for column in columns)
    return f"{name} AS (SELECT {named} FROM (VALUES {values}) AS made({', '.join(columns)}))"


def _duckdb() -> Any:
    connection = _package("duckdb").connect()
    connection.execute("SET enable_progress_bar = false")  # it would be on stdout
    return connection


def _package(name: str) -> Any:
    """Import and return a package of the extra ``fleet``.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(
            f"a sweep needs {name}, which is not installed",
            hint="run pip install 'weighbridge[fleet]'",
        ) from error
