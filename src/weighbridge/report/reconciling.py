"""A reconciliation: the ways of counting that give a published number, told in sentences; and tables of numbers."""

from __future__ import annotations

import csv as csv_files
import io
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, readers, units
from weighbridge.conventions import table as conventions
from weighbridge.errors import ConfigError, UsageError, WeighbridgeError, printable, shorten
from weighbridge.models import find, released
from weighbridge.reconciliation import (
    Near,
    Number,
    Reconciliation,
    Step,
    TableFit,
    TableRow,
    Way,
    fit,
    number,
    reconcile_checkpoint,
)
from weighbridge.reconciliation import reconcile as _search
from weighbridge.report.table import Table, text, wrap
from weighbridge.report.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.models import Model
    from weighbridge.readers import Found

MOST_SHOWN = 8
"""How many ways a text tells."""
_LONGEST_TABLE = 2 * 2**20  # bytes
_MOST_ROWS = 2_000


def reconcile(
    model: str | os.PathLike[str] | Mapping[str, Any] | None,
    stated: str | int,
    *,
    fields: Mapping[str, Any] | None = None,
    blueprint: str | os.PathLike[str] | None = None,
) -> Reconciled:
    """Tell under which ways of counting a model gives a published number, or rounds to it; without a model, which do.

    Args:
        model: as for `weigh`; a checkpoint, as for `inspect`, to count what it holds; None to search the catalogue.
        stated: the number, as people write it: 108808704, ``"110M"``, ``"1.1亿"``, ``"418MiB"``.
        fields: config fields to replace.
        blueprint: as for `weigh`.

    Raises:
        UsageError: it is no number.
        ModelError: there is no such model, family or file.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> found = reconcile("bert-base-uncased", "108,808,704")
        >>> print(found.text().splitlines()[3].strip())
        BertModel, without the 72 biases of linear layers (-82,944) and without the
        >>> found.status, reconcile("bert-base-uncased", 109_418_952).status
        (0, 1)
    """
    wanted = number(stated)
    if model is None:
        return Reconciled(wanted, tuple(_of_catalogue(wanted)), None)
    if readers.is_checkpoint(model):
        held = readers.read(model)
        return Reconciled(wanted, (Told(held.path, reconcile_checkpoint(held, wanted)),), held)
    described: Any = model  # and no module; `find` refuses what is nothing that it knows
    found = find(described, fields, blueprint=blueprint)
    return Reconciled(wanted, (Told(found.where, _search(found, wanted)),), found)


class Told(NamedTuple):
    """What is found of one model."""

    where: str
    found: Reconciliation


def _of_catalogue(wanted: Number) -> Iterator[Told]:
    """Yield the released models that give a number, those of one shape once, under the first's name."""
    seen = set[object]()
    for name in released():
        model = find(name)
        shape = (model.blueprint.family, model.named_class, tuple(sorted(map(str, model.fields.items()))))
        if shape not in seen:
            seen.add(shape)
            classes = tuple(dict.fromkeys((model.named_class, model.blueprint.base_class)))
            found = _search(model, wanted, classes)
            simple = tuple(way for way in found.matches if len(way.steps) <= _SIMPLE)
            if simple:
                yield Told(name, found._replace(matches=simple))


_SIMPLE = 2  # conventions of a way that is told of a model that nobody named


class Reconciled:
    """What `reconcile` returns."""

    def __init__(self, wanted: Number, told: tuple[Told, ...], model: Model | Found | None) -> None:
        self.number, self.model = wanted, model
        self.told = tuple(sorted(told, key=lambda each: len(each.found.matches[0].steps))) if model is None else told
        self.matches: tuple[Way, ...] = tuple(way for each in self.told for way in each.found.matches)
        """The ways that give the number, simplest first."""

    def __repr__(self) -> str:
        return self.text()

    @property
    def of_model(self) -> Model | None:
        """The model, where one is named, and not a checkpoint."""
        return None if self.model is None or isinstance(self.model, readers.Found) else self.model

    @property
    def status(self) -> int:
        """0 if some way gives the number, 1 if none does: the exit status of the command."""
        return int(not self.matches)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "number": self.number.text,
            "value": float(self.number.value) if self.number.value.denominator > 1 else int(self.number.value),
            "is_bytes": self.number.is_bytes,
            "model": self.told[0].where if self.model else None,
            "status": self.status,
            "matches": [{"model": each.where, **_way_to_dict(way)} for each in self.told for way in each.found.matches],
            "nearest": [_near_to_dict(near) for each in self.told for near in each.found.nearest],
        }

    def text(self, lang: str = "en") -> str:
        """Write it for a terminal: what fits, or what is nearest."""
        said = _Said(lang)
        if self.model is None:
            return self._anywhere(said)
        (told,) = self.told
        names = {"number": printable(self.number.text), "model": told.where, "count": units.count(len(self.matches))}
        if not self.matches:
            lines = [wrap(said["none"].format(**names)), "", said["nearest"]]
            return "\n".join([*lines, *(said.wrapped(said.near(near)) for near in told.found.nearest)])
        key = "found_many" if len(self.matches) > 1 else "found"
        lines = [wrap(said[key].format(**names)), ""]
        lines += [said.wrapped(said.way(way)) for way in self.matches[:MOST_SHOWN]]
        if len(self.matches) > MOST_SHOWN:
            lines.append(said["more"].format(count=len(self.matches) - MOST_SHOWN))
        first = self.matches[0]
        if first.steps and first.steps[0].tensors and first.bytes is None:
            lines += ["", wrap(said.sum(first))]
        return "\n".join(lines)

    def _anywhere(self, said: _Said) -> str:
        names = {"number": printable(self.number.text)}
        if not self.told:
            return wrap(said["none_somewhere"].format(**names))
        lines = [wrap(said["found_somewhere"].format(**names)), ""]
        for each in self.told[:MOST_SHOWN]:
            lines.append(wrap(each.where))
            lines += [said.wrapped(said.way(way)) for way in each.found.matches[:2]]
        if len(self.told) > MOST_SHOWN:
            lines.append(said["more"].format(count=len(self.told) - MOST_SHOWN))
        return "\n".join(lines)


def _way_to_dict(way: Way) -> dict[str, Any]:
    return {
        "class": way.class_name,
        "total": way.total,
        "parameters": way.parameters,
        "steps": [
            {"convention": step.convention, **dict(step.values), "tensors": step.tensors, "change": step.change}
            for step in way.steps
        ],
        "rounded_to_zeros": bool(way.rounding),
        **({"bytes": way.bytes, "dtype": way.dtype, "unit_bytes": way.scale} if way.bytes is not None else {}),
    }


def _near_to_dict(near: Near) -> dict[str, Any]:
    return {**_way_to_dict(near.way), "gap": near.gap, "gap_is": [{"what": what, **of} for what, of in near.gap_is]}


class _Said(dict[str, str]):
    """The words of a reconciliation in one language."""

    def __init__(self, lang: str) -> None:
        super().__init__({**words(lang), **data.read_toml(f"report/words/reconcile.{lang}.toml")})
        self.lang = lang

    def wrapped(self, sentence: str) -> str:
        return "\n".join(f"  {line}" for line in wrap(sentence, 78).split("\n"))

    def way(self, way: Way) -> str:
        """Say a way in one sentence."""
        if way.steps and not way.steps[0].tensors:
            return self["instead"].format(says=self.says(way.steps[0]), parameters=units.count(way.parameters))
        steps = self["and"].join(self.step(step) for step in way.steps)
        if not steps:
            sentence = self["all"].format(**{"class": way.class_name, "total": units.count(way.total)})
        else:
            sentence = self["way"].format(**{"class": way.class_name, "steps": steps})
        notes = [self["rounded"]] if way.rounding else []
        if way.bytes is not None:
            written = {
                "parameters": units.count(way.parameters),
                "dtype": way.dtype,
                "bytes": units.count(way.bytes),
                "size": units.fixed(way.bytes / way.scale, 4),
                "scale": units.count(way.scale),
            }
            notes.append(self["bytes"].format(**written))
        return self["between"].join((sentence, *notes))

    def step(self, step: Step) -> str:
        """Say one convention with what it changes."""
        return self["step"].format(says=self.says(step), change=_signed(step.change))

    def says(self, step: Step) -> str:
        """Say one convention."""
        entry, values = conventions()[step.convention], dict(step.values)
        if "targets" in values:
            values["targets"] = entry["targets"][values["targets"]][self.lang]
        shown = {name: units.count(value) if name == "padded" else value for name, value in values.items()}
        said: str = entry["says"][self.lang].format(tensors=units.count(step.tensors), **shown)
        return said

    def sum(self, way: Way) -> str:
        """Write how a way comes to its number."""
        terms = "".join(f" {'-' if step.change < 0 else '+'} {units.count(abs(step.change))}" for step in way.steps)
        total, parameters = units.count(way.total), units.count(way.parameters)
        return self["total"].format(
            **{"class": way.class_name, "total": total, "sum": f"{total}{terms}", "parameters": parameters}
        )

    def near(self, near: Near) -> str:
        """Say of a way that does not fit how far off it is, and what that is equal to."""
        way, gap = near.way, _signed(near.gap)
        if way.bytes is not None:
            taken = units.count(way.bytes)
            values = {"class": way.class_name, "dtype": way.dtype, "bytes": taken, "gap": gap}
            return self["near_bytes"].format(**values)
        of_way = self.way(way)
        said = self["near"].format(count=len(way.steps), way=of_way, parameters=units.count(way.parameters), gap=gap)
        reasons = [self.reason(what, of) for what, of in near.gap_is[:3]]
        return f"{said}{self['comma']}{self['gap']} {self['between'].join(reasons)}" if reasons else said

    def reason(self, what: str, of: Mapping[str, Any]) -> str:
        """Say what a gap is equal to."""
        times = {1: self["once"], 2: self["twice"]}.get(of.get("times", 0), "")
        return self[what].format(**{**of, "times": times})


def _signed(change: int) -> str:
    return f"{'+' if change > 0 else '-' if change < 0 else ''}{units.count(abs(change))}"


def verdict(found: Reconciled, lang: str = "en") -> str:
    """Say in one sentence what a number counts: the simplest way that gives it, or that none does.

    Example:
        >>> verdict(reconcile("bert-base-uncased", "108,891,648"))
        'BertModel, without the pooler (-590,592)'
        >>> verdict(reconcile("bert-base-uncased", 109_418_952))
        'no way of counting'
    """
    said = _Said(lang)
    return said.way(found.matches[0]) if found.matches else said["nothing"]


# The conventions themselves


def rules(lang: str = "en") -> str:
    """Return the conventions as text: what each says, an example that is computed here, its source.

    Example:
        >>> print(rules().splitlines()[2])
        pooler  leaves out
    """
    said, lines = _Said(lang), []
    for name, entry in conventions().items():
        example = entry["example"]
        if not isinstance(example, str):
            model, class_name, value = example
            example = said["example_of"].format(**{"model": model, "class": class_name, "number": units.count(value)})
        blank = dict.fromkeys(("tensors", "multiple", "padded", "rank", "targets"), said["any"])
        lines += [
            f"{name}  {said['kind_' + entry['kind']]}",
            said.wrapped(entry["says"][lang].format(**blank)),
            said.wrapped(f"{said['example']}: {example}"),
            said.wrapped(f"{said['source']}: {entry['source']}"),
        ]
    return "\n".join([wrap(said["rules"]), "", *lines])


# Tables

_NAMES = ("model", "name", "config", "型号", "模型")
_NUMBERS = ("parameters", "params", "total", "number", "n_params", "size", "参数量", "参数")
_CHECKED = ("d_head", "head_dim", "head_size")
"""Columns that say what follows from others, where the family has no such field."""


def reconcile_table(path: str | os.PathLike[str], family: str | None = None) -> TableReconciled:
    """Find one way of counting that fits all rows of a table of configs with published totals, or the most.

    A row names a model (``model``) or gives fields of a family's config, each in a column of its name, and its number
    (``parameters``). Columns of other names are passed over, and named.

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
            "has no column of published numbers", where=where, values={"columns": header}, hint=f"name it {_NUMBERS[0]}"
        )
    rows = [_row(at, dict(zip(header, line, strict=False)), numbers, family, where) for at, line in lines]
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
        lines = list(csv_files.reader(io.StringIO(raw.decode("utf-8-sig")), strict=True))
    except UnicodeDecodeError:
        raise UsageError("is not UTF-8 text", where=where, hint=hint) from None
    except csv_files.Error as error:
        raise UsageError(f"is no CSV: {error}", where=where, hint=hint) from None
    told = [(at, line) for at, line in enumerate(lines, start=1) if any(cell.strip() for cell in line)]
    if len(told) < 2 or len(told) > _MOST_ROWS:
        raise UsageError(
            f"has no rows, or more than {_MOST_ROWS:,}", where=where, values={"lines": len(told)}, hint=hint
        )
    header = [cell.strip() for cell in told[0][1]]
    for at, line in told[1:]:
        if len(line) != len(header):
            values = {"line": at, "cells": len(line), "columns": len(header)}
            raise UsageError("has a line of another length than its first", where=where, values=values, hint=hint)
    return header, told[1:]


def _row(at: int, cells: dict[str, str], numbers: str, family: str | None, where: str) -> TableRow:
    try:
        wanted = number(cells[numbers])
    except UsageError as error:
        raise UsageError(
            error.what, where=f"{where}, line {at}", values={numbers: cells[numbers]}, hint=error.hint
        ) from None
    named = next((cells[name].strip() for name in _NAMES if cells.get(name, "").strip()), "")
    kind = cells.get("family") or cells.get("model_type") or family
    given = {
        name: _value(cell) for name, cell in cells.items() if cell.strip() and name not in (*_NAMES, numbers, "family")
    }
    try:
        if kind is None and not named:
            raise ConfigError("names no model and no family", hint="add a column family, or say --family")
        model = find({"model_type": kind, **_fields(kind, given)}) if kind else find(named)
        problem = _inconsistent(model, given)
    except WeighbridgeError as error:
        return TableRow(named or f"line {at}", wanted, (), shorten(str(error), str, 200))
    exact = wanted._replace(loose=wanted.half)  # the other rows show to which digit a table is rounded
    ways = () if problem else _search(model, exact).matches
    return TableRow(named or f"line {at}", wanted, ways, problem)


def _value(cell: str) -> Any:
    plain = cell.strip().replace(",", "").replace("_", "")
    return int(plain) if plain.isdecimal() and len(plain) < 20 else cell.strip()


def _fields(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are fields of a family."""
    from weighbridge.blueprint import load  # noqa: PLC0415  # raises for a family that is none

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
    from weighbridge.report.words import letters_of  # noqa: PLC0415

    return {letter: model.fields.get(field) for field, letter in letters_of(model.blueprint).items()}


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
            "way": [{"convention": step.convention, **dict(step.values)} for step in way.steps] if way else None,
            "class": way.class_name if way else None,
            "fitting": [row.name for row in self.found.fitting],
            "slips": [
                {"row": row.name, "stated": row.number.text, "problem": row.problem, "other_ways": len(row.ways)}
                for row in self.found.slips
            ],
        }

    def text(self, lang: str = "en") -> str:
        """Write it for a terminal: the way, and every row."""
        said, found = _Said(lang), self.found
        names = {"path": printable(self.path), "count": len(found.rows), "fitting": len(found.fitting)}
        if found.way is None:
            heading = said["table_none"].format(**names)
        else:
            key = "table_most" if found.slips else "table_fits"
            heading = said[key].format(way=_general(found.way, said), **names)
        rows = tuple((row.name, row.number.text, self._verdict(row, said)) for row in found.rows)
        table = Table((said["table_row"], said["table_stated"], said["table_verdict"]), rows, "<><")
        return "\n\n".join((wrap(heading), text(table)))

    def _verdict(self, row: TableRow, said: _Said) -> str:
        if row in self.found.fitting:
            return said["fits"]
        if row.problem:
            return said["slip"].format(what=row.problem)
        what = said["slip_near"].format(way=_general(row.ways[0], said)) if row.ways else said["slip_none"]
        return said["slip"].format(what=what)


def _general(way: Way, said: _Said) -> str:
    """Say a way of counting without what it changes, which is another number in each row."""
    steps = []
    for step in way.steps:
        entry, values = conventions()[step.convention], dict(step.values)
        if "targets" in values:
            values["targets"] = entry["targets"][values["targets"]][said.lang]
        blank = {"tensors": "", "padded": said["any"]}
        steps.append(" ".join(entry["says"][said.lang].format(**{**blank, **values}).split()))
    return said["comma"].join((way.class_name, *steps))
