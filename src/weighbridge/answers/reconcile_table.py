"""Tables of published numbers: one way of counting for all rows or most, and likely slips."""

from __future__ import annotations

import csv
import io
import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from weighbridge import units
from weighbridge.answers.answer import Answer
from weighbridge.answers.reconcile import ReconcileWords
from weighbridge.blueprint.schema import load
from weighbridge.counting.conventions import table as conventions
from weighbridge.counting.reconciliation import (
    TableFit,
    TableRow,
    Way,
    fit,
    read_number,
    reconcile_model,
)
from weighbridge.errors import ConfigError, UsageError, WeighbridgeError, printable, shorten
from weighbridge.ledger.symbols import letters_of
from weighbridge.models.find import find
from weighbridge.render.document import Document, Notes
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.models.find import Model

_LONGEST_TABLE = 2 * 2**20  # bytes
_MOST_ROWS = 2_000
_NAMES = ("model", "name", "config", "型号", "模型")
_NUMBERS = ("parameters", "params", "total", "number", "n_params", "size", "参数量", "参数")
_CHECKED = ("d_head", "head_dim", "head_size")
"""Columns that follow from others, checked against them if the family lacks the field."""


def reconcile_table(path: str | os.PathLike[str], family: str | None = None) -> TableReconciled:
    """Find the way of counting that fits most rows of a table of configs with published totals.

    The number of a row is in the column ``parameters``. A row names a model in a column ``model``,
    or has config fields in columns with their names. Other columns are ignored.

    Args:
        path: a CSV file; its first line names the columns.
        family: the family of all rows, if there is no column ``family`` or ``model_type``.

    Raises:
        UsageError: the file cannot be read, is empty, or has no column of numbers.
    """
    where = os.fspath(path)
    header, lines = _rows(where)
    numbers = next((name for name in _NUMBERS if name in header), None)
    if numbers is None:
        raise UsageError(
            "has no column with published numbers",
            where=where,
            values={"columns": header},
            hint=f"name it {_NUMBERS[0]}",
        )
    rows = []
    for line_number, cells in lines:
        named_cells = dict(zip(header, cells, strict=False))
        rows.append(_table_row(line_number, named_cells, numbers, family, where))
    return TableReconciled(where, fit(rows))


def _rows(where: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    hint = "give a CSV file whose first line names the columns: model,parameters"
    try:
        with open(where, "rb") as file:
            raw = file.read(_LONGEST_TABLE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot be read: {reason}", where=where, hint=hint) from None
    if len(raw) > _LONGEST_TABLE:
        raise UsageError(f"is longer than {_LONGEST_TABLE:,} bytes", where=where, hint=hint)
    try:
        lines = list(csv.reader(io.StringIO(raw.decode("utf-8-sig")), strict=True))
    except UnicodeDecodeError:
        raise UsageError("is not UTF-8 text", where=where, hint=hint) from None
    except csv.Error as error:
        raise UsageError(f"is not CSV: {error}", where=where, hint=hint) from None
    filled = []
    for line_number, line in enumerate(lines, start=1):
        if "".join(line).strip():
            filled.append((line_number, line))
    if len(filled) < 2 or len(filled) > _MOST_ROWS:
        raise UsageError(
            f"has no rows, or more than {_MOST_ROWS:,}",
            where=where,
            values={"lines": len(filled)},
            hint=hint,
        )
    header = [cell.strip() for cell in filled[0][1]]
    for line_number, line in filled[1:]:
        if len(line) != len(header):
            values = {"line": line_number, "cells": len(line), "columns": len(header)}
            raise UsageError(
                "has a line whose length differs from the first line's",
                where=where,
                values=values,
                hint=hint,
            )
    return header, filled[1:]


def _table_row(
    line: int, cells: dict[str, str], numbers: str, family: str | None, where: str
) -> TableRow:
    try:
        wanted = read_number(cells[numbers])
    except UsageError as error:
        raise UsageError(
            error.what,
            where=f"{where}, line {line}",
            values={numbers: cells[numbers]},
            hint=error.hint,
        ) from None
    named = next((cells[name].strip() for name in _NAMES if cells.get(name, "").strip()), "")
    kind = cells.get("family") or cells.get("model_type") or family
    fields = {}
    for name, cell in cells.items():
        if cell.strip() and name not in (*_NAMES, numbers, "family"):
            fields[name] = _cell_value(cell)
    try:
        if kind is None and not named:
            raise ConfigError(
                "names neither a model nor a family",
                hint="add a column named family, or use --family",
            )
        described: str | dict[str, Any] = named
        if kind:
            described = {"model_type": kind, **_known_fields(kind, fields)}
        model = find(described)
        problem = _inconsistent(model, fields)
    except WeighbridgeError as error:
        return TableRow(named or f"line {line}", wanted, (), shorten(str(error), str, 200))
    ways: tuple[Way, ...] = ()
    if not problem:
        # The other rows show to which digit a table is rounded.
        precise = wanted._replace(loose=wanted.half, cut=Fraction(0))
        ways = reconcile_model(model, precise).matches
    return TableRow(named or f"line {line}", wanted, ways, problem)


_MOST_DIGITS = 19  # of a number that counts something


def _cell_value(cell: str) -> Any:
    digits = cell.strip().replace(",", "").replace("_", "")
    if digits.isdecimal() and len(digits) <= _MOST_DIGITS:
        return int(digits)
    return cell.strip()


def _known_fields(family: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are fields of a family."""
    blueprint = load(family)
    known = {*blueprint.fields, *blueprint.aliases, *blueprint.inert}
    return {name: value for name, value in fields.items() if name in known}


def _inconsistent(model: Model, fields: Mapping[str, Any]) -> str:
    """Return the contradiction in a row: heads whose sizes do not add up to the layer's."""
    sizes = {}
    for field, letter in letters_of(model.blueprint).items():
        if isinstance(model.fields.get(field), int):
            sizes[letter] = model.fields[field]
    stated = next((fields[name] for name in _CHECKED if isinstance(fields.get(name), int)), None)
    if stated and {"H", "A"} <= sizes.keys() and stated * sizes["A"] != sizes["H"]:
        wide, layer = units.count(stated * sizes["A"]), units.count(sizes["H"])
        return f"{sizes['A']} heads of {stated} are {wide} wide, and not {layer}"
    return ""


class TableReconciled(Answer):
    """What `reconcile_table` returns."""

    def __init__(self, path: str, table_fit: TableFit) -> None:
        self.path, self.fit = path, table_fit

    @property
    def status(self) -> int:
        """0 if one way fits every row, 1 if it does not."""
        return int(bool(self.fit.slips))

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        way, steps, class_name, slips = self.fit.way, None, None, []
        if way:
            steps = [{"convention": step.convention, **dict(step.values)} for step in way.steps]
            class_name = way.class_name
        for row in self.fit.slips:
            stated = {"row": row.name, "stated": row.number.text}
            slips.append({**stated, "problem": row.problem, "other_ways": len(row.ways)})
        return {
            "table": self.path,
            "status": self.status,
            "way": steps,
            "class": class_name,
            "fitting": [row.name for row in self.fit.fitting],
            "slips": slips,
        }

    def document(self, lang: str = "en") -> Document:
        """Return the way, and a verdict on every row."""
        texts, table_fit = ReconcileWords(lang), self.fit
        names = {
            "path": printable(self.path),
            "count": len(table_fit.rows),
            "fitting": len(table_fit.fitting),
        }
        if table_fit.way is None:
            heading = texts["table_none"].format(**names)
        else:
            key = "table_fits"
            if table_fit.slips:
                key = "table_most"
            heading = texts[key].format(way=_in_general(table_fit.way, texts), **names)
        rows = [(row.name, row.number.text, self._verdict(row, texts)) for row in table_fit.rows]
        header = (texts["table_row"], texts["table_stated"], texts["table_verdict"])
        return Document((Notes((heading,)), Table(header, tuple(rows), "<><")), lang)

    def _verdict(self, row: TableRow, texts: ReconcileWords) -> str:
        if row in self.fit.fitting:
            return texts["fits"]
        if row.problem:
            what = row.problem
        elif row.ways:
            what = texts["slip_near"].format(way=_in_general(row.ways[0], texts))
        else:
            what = texts["slip_none"]
        return texts["slip"].format(what=what)


def _in_general(way: Way, texts: ReconcileWords) -> str:
    """Describe a way of counting without its changes, which differ from row to row."""
    steps = []
    for step in way.steps:
        entry, values = conventions()[step.convention], dict(step.values)
        if "targets" in values:
            values["targets"] = entry["targets"][values["targets"]][texts.lang]
        filled_in = {"tensors": "", "padded": texts["any"], **values}
        steps.append(" ".join(entry["says"][texts.lang].format(**filled_in).split()))
    return texts["comma"].join((way.class_name, *steps))
