"""From a file to its records: CSV, TSV or JSON lines, whichever way they are written."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import UsageError
from weighbridge.readers.rules import is_too_deep
from weighbridge.torch.tables.encodings import UTF8, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Row = list[str]
    IsHeader = Callable[[Sequence[str], Sequence[Sequence[str]]], bool]

_DELIMITERS = (",", ";", "\t", "|")  # of equally good ones, the first is taken
_SAMPLE = 200  # records that show the delimiter and the header
_SEPARATOR = re.compile(r"sep=(.)(?:\r\n|\n|\r)", re.IGNORECASE)  # a first line for Excel alone


class BrokenError(Exception):
    """A record that cannot be used: the broken rule, what to do, and the values."""

    def __init__(self, rule: str, hint: str = "correct it", **values: object) -> None:
        super().__init__(rule)
        self.rule, self.hint, self.values = rule, hint, values


class Record(NamedTuple):
    """The fields of a record by column, or what is broken; and the line where it begins."""

    line: int
    fields: dict[str, Any] | BrokenError


class TableForm(NamedTuple):
    """How a table is written. JSON lines have no delimiter."""

    encoding: str = UTF8
    has_mark: bool = False
    delimiter: str = ""
    is_quoted: bool = True
    newline: str = "\n"


class TableFile(NamedTuple):
    """The content of a file.

    Without a header, ``columns`` are the numbers from 1.
    """

    path: str
    columns: tuple[str, ...]
    records: list[Record]
    form: TableForm
    has_header: bool = True
    sha256: str = ""


def read_table(path: str, is_header: IsHeader, encoding: str | None = None) -> TableFile:
    """Read a file; its suffix decides between records with delimiters and JSON lines.

    A broken record is part of the result, so that the caller can refuse or skip it. Blank lines,
    and lines of delimiters alone as spreadsheets write them, are no records.

    Args:
        path: the file.
        is_header: decides whether the first record is a header, by it and some records after it.
        encoding: as for `decode`.

    Raises:
        UsageError: the file cannot be read, its type is unknown, or its header is broken.
    """
    read = FORMS.get(os.path.splitext(path)[1].lower())
    if read is None:
        raise UsageError(
            "has an unknown file type",
            where=path,
            hint=f"give a file that ends in {', '.join(FORMS)}",
        )
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=path, hint="give a text file"
        ) from None
    decoded = decode(raw, encoding, path)
    form = TableForm(decoded.encoding, decoded.has_mark)
    try:
        table = read(path, decoded.text, form, is_header)
    except BrokenError as broken:  # of the header
        raise refused(path, 1, broken) from None
    return table._replace(sha256=hashlib.sha256(raw).hexdigest())


def refused(path: str, line: int, broken: BrokenError) -> UsageError:
    """Return the error for a broken record."""
    hint = f"{broken.hint}, or skip such records with --skip-broken"
    return UsageError(f"line {line}: {broken.rule}", where=path, values=broken.values, hint=hint)


# Delimiters


def _delimited(path: str, text: str, form: TableForm, is_header: IsHeader) -> TableFile:
    """Read CSV (RFC 4180) with any usual delimiter."""
    stated = _SEPARATOR.match(text)
    skipped = 0
    if stated:
        text, skipped = text[stated.end() :], 1
    delimiter = stated[1] if stated else _delimiter_of(text)
    is_quoted = delimiter != "\t" or _is_strict(text)
    newline = "\r\n" if "\r\n" in text[:10_000] else "\n"
    form = form._replace(delimiter=delimiter, is_quoted=is_quoted, newline=newline)
    return _with_columns(path, _parsed_rows(text, form, skipped), form, is_header)


def _tabbed(path: str, text: str, form: TableForm, is_header: IsHeader) -> TableFile:
    """Read TSV, where a quotation mark is an ordinary character."""
    newline = "\r\n" if "\r\n" in text[:10_000] else "\n"
    form = form._replace(delimiter="\t", is_quoted=False, newline=newline)
    return _with_columns(path, _parsed_rows(text, form), form, is_header)


def _with_columns(
    path: str, rows: Iterator[tuple[int, Row | BrokenError]], form: TableForm, is_header: IsHeader
) -> TableFile:
    """Return the records of rows, by the columns of the header if the first row is one."""
    all_rows = list(rows)
    if not all_rows:
        return TableFile(path, (), [], form)
    first = all_rows[0][1]
    if isinstance(first, BrokenError):
        raise first
    names = [name.strip() for name in first]
    others = [row for _, row in all_rows[1 : 1 + _SAMPLE] if isinstance(row, list)]
    has_header = is_header(names, others)
    if has_header:
        while names and not names[-1]:  # a spreadsheet adds columns without a name
            names.pop()
        _check_names(path, names)
        del all_rows[0]
    else:
        names = [str(number) for number in range(1, len(names) + 1)]
    records = [Record(line, _by_column(row, names)) for line, row in all_rows]
    return TableFile(path, tuple(names), records, form, has_header)


def _by_column(row: Row | BrokenError, names: Sequence[str]) -> dict[str, Any] | BrokenError:
    if isinstance(row, BrokenError):
        return row
    count = len(names)
    if len(row) < count or any(row[count:]):
        few = "few" if len(row) < count else "many"
        return BrokenError(f"too {few} columns", expected=count, found=len(row))
    return dict(zip(names, row, strict=False))


def _check_names(path: str, names: Sequence[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise UsageError(
            "two columns have the same name",
            where=path,
            values={"column": twice[0]},
            hint="rename one",
        )


def _parsed_rows(
    text: str, form: TableForm, skipped: int = 0
) -> Iterator[tuple[int, Row | BrokenError]]:
    """Yield the rows of a text, each with the line where it begins."""
    quoting: Any = csv.QUOTE_MINIMAL if form.is_quoted else csv.QUOTE_NONE
    lines = io.StringIO(text, newline="")
    rows = csv.reader(lines, delimiter=form.delimiter, quoting=quoting, strict=True)
    while True:
        line = rows.line_num + 1 + skipped
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, BrokenError(f"is not CSV: {error}")
            continue
        if any(row):
            yield line, row


def _delimiter_of(text: str) -> str:
    r"""Return the delimiter that gives the most rows as many fields as the first row.

    Example:
        >>> _delimiter_of("text;label\nwell, well;1\nno;0\n")
        ';'
    """
    shares = {delimiter: _share_as_wide(text, delimiter) for delimiter in _DELIMITERS}
    return max(_DELIMITERS, key=shares.__getitem__)


def _share_as_wide(text: str, delimiter: str) -> float:
    """Return the share of the first rows that have as many fields as the first one, if several."""
    rows = islice(_parsed_rows(text, TableForm(delimiter=delimiter)), _SAMPLE)
    widths = [len(row) if isinstance(row, list) else 0 for _, row in rows]
    if not widths or widths[0] < 2:
        return 0
    return widths.count(widths[0]) / len(widths)


def _is_strict(text: str) -> bool:
    """Whether a text with tabs keeps to the rules for quotation marks, so that they quote."""
    widths = {
        len(row) if isinstance(row, list) else 0
        for _, row in _parsed_rows(text, TableForm(delimiter="\t"))
    }
    return len(widths) == 1 and 0 not in widths


# JSON lines


def _json_lines(path: str, text: str, form: TableForm, _: IsHeader) -> TableFile:
    """Read one JSON object per line; the first one defines the columns."""
    records = []
    for number, line in enumerate(io.StringIO(text), 1):
        if line.strip():
            records.append(Record(number, _object(line)))
    first = next((of.fields for of in records if isinstance(of.fields, dict)), None)
    if first is None and records and isinstance(records[0].fields, BrokenError):
        raise records[0].fields
    return TableFile(path, tuple(first or ()), records, form)


def _object(text: str) -> dict[str, Any] | BrokenError:
    if is_too_deep(text.encode(errors="replace")):
        return BrokenError("is nested too deeply", found=text.strip())
    try:
        record = json.loads(text)
    except ValueError as error:
        return BrokenError("is not JSON", reason=str(error), found=text.strip())
    if not isinstance(record, dict):
        return BrokenError("is not a JSON object", found=record)
    return record


FORMS: dict[str, Callable[[str, str, TableForm, IsHeader], TableFile]] = {
    ".csv": _delimited,
    ".txt": _delimited,
    ".tsv": _tabbed,
    ".tab": _tabbed,
    ".jsonl": _json_lines,
    ".json": _json_lines,
    ".ndjson": _json_lines,
}
"""The readers of files, by suffix."""
