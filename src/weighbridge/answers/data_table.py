"""A table of plain values with typed columns, the source of CSV, pandas and Arrow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import UsageError
from weighbridge.render.table import csv

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT, INTEGER, TRUTH, NUMBER = "string", "int64", "bool", "float64"
"""The types of values, named as in Arrow."""


class Column(NamedTuple):
    """A column: its name and the type of its values; truth values may not be missing.

    If ``joined_by`` is not empty, a value is a list of that type. CSV has no lists and joins the
    items with this.
    """

    name: str
    type_name: str = TEXT
    joined_by: str = ""

    @property
    def is_list(self) -> bool:
        """Whether a value is a list."""
        return bool(self.joined_by)

    @property
    def pandas_dtype(self) -> str | None:
        """The dtype of the column in pandas, which infers it for text and has none for lists."""
        if self.is_list:
            return "object"
        if self.type_name == TEXT:
            return None
        return self.type_name


class DataTable(NamedTuple):
    r"""Rows of plain values, one value for each column.

    Example:
        >>> columns = (Column("tensor"), Column("shape", INTEGER, joined_by="x"))
        >>> table = DataTable(columns, [("pooler.dense.weight", [768, 768])])
        >>> table.records()
        [{'tensor': 'pooler.dense.weight', 'shape': [768, 768]}]
        >>> table.csv()
        'tensor,shape\r\npooler.dense.weight,768x768\r\n'
    """

    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a dict."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def csv(self) -> str:
        """Write it as CSV, with the names of the columns in the first line."""
        header = [column.name for column in self.columns]
        return csv([header, *(list(map(_cell, self.columns, row)) for row in self.rows)])

    def to_pandas(self) -> Any:
        """Return it as a ``pandas.DataFrame``."""
        pandas = _package("pandas")
        frame = {}
        for column, values in self._values():
            dtype = column.pandas_dtype
            if dtype == INTEGER and None in values:
                dtype = "Int64"  # pandas' integers that may be missing
            frame[column.name] = pandas.Series(values, dtype=dtype)
        return pandas.DataFrame(frame)

    def to_arrow(self) -> Any:
        """Return it as a ``pyarrow.Table``."""
        pyarrow = _package("pyarrow")
        arrays = {}
        for column, values in self._values():
            arrow_type = pyarrow.type_for_alias(column.type_name)
            if column.is_list:
                arrow_type = pyarrow.list_(arrow_type)
            arrays[column.name] = pyarrow.array(values, type=arrow_type)
        return pyarrow.table(arrays)

    def _values(self) -> Iterator[tuple[Column, list[Any]]]:
        """Yield each column with its values."""
        for place, column in enumerate(self.columns):
            yield column, [row[place] for row in self.rows]


def _cell(column: Column, value: Any) -> object:
    """Return a value as a cell of CSV."""
    if column.is_list and value is not None:
        return column.joined_by.join(map(str, value))
    return value


def _package(name: str) -> Any:
    """Import and return an optional package.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(
            f"this table needs {name}, which is not installed", hint=f"run pip install {name}"
        ) from None
