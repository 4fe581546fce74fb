"""Tables of published numbers: one way of counting that fits all rows, or the most, and the likely slips."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING, Any

from weighbridge import units
from weighbridge.answers.reconcile import Said
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
from weighbridge.render.table import Table, text, wrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.models.find import Model

_LONGEST_TABLE = 2 * 2**20  # bytes
_MOST_ROWS = 2_000
_NAMES = ("model", "name", "config", "型号", "模型")
_NUMBERS = ("parameters", "params", "total", "number", "n_params", "size", "参数量", "参数")
_CHECKED = ("d_head", "head_dim", "head_size")
"""Columns that say what follows from others, where the family has no such field."""


def reconcile_table(path: str | os.PathLike[str], family: str | None = None) -> TableReconciled:
    """Find one way of counting that fits all rows of a table of configs with published totals, or the most.

    A row names a model (``model``) or gives fields of a family's config, each in a column of its
    name, and its number (``parameters``). Columns of other names are passed over, and named.

    Args:
        path: a CSV file; its first line names the columns.
        family: the family of all rows, where no column ``family`` or ``model_type`` says it.

    Raises:
        UsageError: it cannot be read, is empty, or has no column of numbers.
    """
    where = os.fspath(path)
    header, lines = _rows(where)
    numbers = next((name for name in _NUMBERS if name in header), None)
    if numbers is None:
        raise UsageError(
            "has no column of published numbers",
            where=where,
            values={"columns": header},
            hint=f"name it {_NUMBERS[0]}",
        )
    rows = [
        _row(at, dict(zip(header, line, strict=False)), numbers, family, where)
        for at, line in lines
    ]
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
        raise UsageError(f"is no CSV: {error}", where=where, hint=hint) from None
    told = [
        (at, line) for at, line in enumerate(lines, start=1) if any(cell.strip() for cell in line)
    ]
    if len(told) < 2 or len(told) > _MOST_ROWS:
        raise UsageError(
            f"has no rows, or more than {_MOST_ROWS:,}",
            where=where,
            values={"lines": len(told)},
            hint=hint,
        )
    header = [cell.strip() for cell in told[0][1]]
    for at, line in told[1:]:
        if len(line) != len(header):
            values = {"line": at, "cells": len(line), "columns": len(header)}
            raise UsageError(
                "has a line of another length than its first", where=where, values=values, hint=hint
            )
    return header, told[1:]


def _row(at: int, cells: dict[str, str], numbers: str, family: str | None, where: str) -> TableRow:
    try:
        wanted = read_number(cells[numbers])
    except UsageError as error:
        raise UsageError(
            error.what,
            where=f"{where}, line {at}",
            values={numbers: cells[numbers]},
            hint=error.hint,
        ) from None
    named = next((cells[name].strip() for name in _NAMES if cells.get(name, "").strip()), "")
    kind = cells.get("family") or cells.get("model_type") or family
    given = {
        name: _value(cell)
        for name, cell in cells.items()
        if cell.strip() and name not in (*_NAMES, numbers, "family")
    }
    try:
        if kind is None and not named:
            raise ConfigError(
                "names no model and no family", hint="add a column family, or say --family"
            )
        model = find({"model_type": kind, **_fields(kind, given)}) if kind else find(named)
        problem = _inconsistent(model, given)
    except WeighbridgeError as error:
        return TableRow(named or f"line {at}", wanted, (), shorten(str(error), str, 200))
    exact = wanted._replace(
        loose=wanted.half
    )  # the other rows show to which digit a table is rounded
    ways = () if problem else reconcile_model(model, exact).matches
    return TableRow(named or f"line {at}", wanted, ways, problem)


def _value(cell: str) -> Any:
    plain = cell.strip().replace(",", "").replace("_", "")
    return int(plain) if plain.isdecimal() and len(plain) < 20 else cell.strip()


def _fields(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are fields of a family."""
    blueprint = load(family)
    known = {*blueprint.fields, *blueprint.aliases, *blueprint.inert}
    return {name: value for name, value in given.items() if name in known}


def _inconsistent(model: Model, given: Mapping[str, Any]) -> str:
    """Return what a row says of itself that cannot be: heads of a size that do not make up the layer."""
    sizes = {letter: value for letter, value in _letters(model).items() if isinstance(value, int)}
    stated = next((given[name] for name in _CHECKED if isinstance(given.get(name), int)), None)
    if stated and {"H", "A"} <= sizes.keys() and stated * sizes["A"] != sizes["H"]:
        wide, layer = units.count(stated * sizes["A"]), units.count(sizes["H"])
        return f"{sizes['A']} heads of {stated} are {wide} wide, and not {layer}"
    return ""


def _letters(model: Model) -> dict[str, Any]:
    return {
        letter: model.fields.get(field) for field, letter in letters_of(model.blueprint).items()
    }


class TableReconciled:
    """What `reconcile_table` returns."""

    def __init__(self, path: str, found: TableFit) -> None:
        self.path, self.found = path, found

    def __repr__(self) -> str:
        return self.text()

    @property
    def status(self) -> int:
        """0 if one way fits every row, 1 if it does not."""
        return int(bool(self.found.slips))

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        way = self.found.way
        return {
            "table": self.path,
            "status": self.status,
            "way": [{"convention": step.convention, **dict(step.values)} for step in way.steps]
            if way
            else None,
            "class": way.class_name if way else None,
            "fitting": [row.name for row in self.found.fitting],
            "slips": [
                {
                    "row": row.name,
                    "stated": row.number.text,
                    "problem": row.problem,
                    "other_ways": len(row.ways),
                }
                for row in self.found.slips
            ],
        }

    def text(self, lang: str = "en") -> str:
        """Write it for a terminal: the way, and every row."""
        said, found = Said(lang), self.found
        names = {
            "path": printable(self.path),
            "count": len(found.rows),
            "fitting": len(found.fitting),
        }
        if found.way is None:
            heading = said["table_none"].format(**names)
        else:
            key = "table_most" if found.slips else "table_fits"
            heading = said[key].format(way=_general(found.way, said), **names)
        rows = tuple((row.name, row.number.text, self._verdict(row, said)) for row in found.rows)
        table = Table((said["table_row"], said["table_stated"], said["table_verdict"]), rows, "<><")
        return "\n\n".join((wrap(heading), text(table)))

    def _verdict(self, row: TableRow, said: Said) -> str:
        if row in self.found.fitting:
            return said["fits"]
        if row.problem:
            return said["slip"].format(what=row.problem)
        what = (
            said["slip_near"].format(way=_general(row.ways[0], said))
            if row.ways
            else said["slip_none"]
        )
        return said["slip"].format(what=what)


def _general(way: Way, said: Said) -> str:
    """Say a way of counting without what it changes, which is another number in each row."""
    steps = []
    for step in way.steps:
        entry, values = conventions()[step.convention], dict(step.values)
        if "targets" in values:
            values["targets"] = entry["targets"][values["targets"]][said.lang]
        blank = {"tensors": "", "padded": said["any"]}
        steps.append(" ".join(entry["says"][said.lang].format(**{**blank, **values}).split()))
    return said["comma"].join((way.class_name, *steps))
