"""Have a classifier label the texts of a table, and write the table with the labels."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import units
from weighbridge.answers.label import Labelled
from weighbridge.errors import UsageError, printable, shorten
from weighbridge.files import write_whole
from weighbridge.torch.loading import load_checkpoint
from weighbridge.torch.running import check_classifier, classify
from weighbridge.torch.tables.columns import find_columns, header_test
from weighbridge.torch.tables.table import FORMS, BrokenError, read_table, refused
from weighbridge.torch.tables.values import checked_value, notes_on_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weighbridge.torch.running import Classified, Watch
    from weighbridge.torch.tables.table import Record, TableFile, TableForm

_ADDED = ("label", "score")
_DECIMALS = 6  # of a score


class LabelRequest(NamedTuple):
    """The table to label, the file to write, and how to read the table."""

    checkpoint: str
    table: str
    output: str
    class_name: str | None = None
    text: str | None = None
    encoding: str | None = None
    no_header: bool = False
    skip_broken: bool = False


class _TextRow(NamedTuple):
    """A record to write, and its text; None if it is empty."""

    fields: dict[str, Any]
    text: str | None


def label_table(request: LabelRequest, watch: Watch | None = None) -> Labelled:
    """Label each text of a table, and write the table with two more columns: label and score.

    The written table has the encoding, the delimiter and the order of the one that was read. The
    score is the probability of the label. A row without a text gets neither.

    Args:
        request: what to label.
        watch: called with the number of texts that are done, and the number of all texts.

    Raises:
        WeighbridgeError: the table or the checkpoint cannot be read, the model is no classifier, or
            the file cannot be written.
    """
    _check_output(request)
    table = _table(request)
    column = find_columns(table, {"text": request.text})["text"].name
    rows, skipped = _text_rows(table, column, skip_broken=request.skip_broken)
    texts = [row.text for row in rows if row.text is not None]
    if not texts:
        raise _without_texts(table.path)
    loaded = load_checkpoint(request.checkpoint, request.class_name)
    check_classifier(loaded)
    _check_labels(loaded.labels, table)
    found = classify(loaded, texts, watch)
    added = _names_of_added(table.columns)
    write_whole(Path(request.output), _table_bytes(table, rows, found, added))
    notes = [
        f"{table.path}: texts from column {shorten(column)}",
        *notes_on_form(table.path, table.form.encoding, has_header=table.has_header),
        *_count_notes(table.path, skipped, "broken records were skipped"),
        *_count_notes(table.path, len(rows) - len(texts), "rows have no text, and get no label"),
        *_count_notes(
            table.path, found.cut, "texts are longer than the model takes and are cut off"
        ),
        *loaded.notes,
    ]
    counts = Counter(found.labels)
    return Labelled(
        {
            "checkpoint": loaded.where,
            "table": table.path,
            "output": request.output,
            "column": column,
            "added": list(added),
            "rows": len(rows),
            "texts": len(texts),
            "labels": {label: counts[label] for label in loaded.labels},
            "mean_scores": _means(found, loaded.labels),
        },
        notes,
    )


def _check_output(request: LabelRequest) -> None:
    """Refuse a file that would replace the table, or whose name says that it is something else."""
    table, output = request.table, request.output
    if os.path.realpath(table) == os.path.realpath(output):
        hint = "give another file with --output"
        raise UsageError("the table would be overwritten", where=output, hint=hint)
    suffix = os.path.splitext(table)[1].lower()
    if FORMS.get(suffix) is FORMS[".jsonl"]:
        names = ", ".join(name for name, form in FORMS.items() if form is not FORMS[".jsonl"])
        hint = f"give a file that ends in {names}"
        raise UsageError("is not a table with columns", where=table, hint=hint)
    if suffix in FORMS and os.path.splitext(output)[1].lower() != suffix:
        hint = f"give a file that ends in {suffix}"
        raise UsageError("is named as another type than the table", where=output, hint=hint)


def _table(request: LabelRequest) -> TableFile:
    is_header = header_test(request.text, header=not request.no_header)
    table = read_table(request.table, is_header, request.encoding)
    if not table.records:
        raise _without_texts(table.path)
    return table


def _without_texts(path: str) -> UsageError:
    return UsageError(
        "contains no texts",
        where=path,
        hint="give a file with texts, or add --no-header if its first line is a text",
    )


def _text_rows(table: TableFile, column: str, *, skip_broken: bool) -> tuple[list[_TextRow], int]:
    """Return the records to write, and the number of broken ones."""
    rows, skipped = [], 0
    for record in table.records:
        try:
            rows.append(_row(record, column, table.form))
        except BrokenError as broken:
            if not skip_broken:
                raise refused(table.path, record.line, broken) from None
            skipped += 1
    return rows, skipped


def _row(record: Record, column: str, form: TableForm) -> _TextRow:
    if isinstance(record.fields, BrokenError):
        raise record.fields
    if not record.fields[column].strip():
        return _TextRow(record.fields, None)
    return _TextRow(record.fields, checked_value(record.fields, column, "text", form.encoding))


def _check_labels(labels: Sequence[str], table: TableFile) -> None:
    """Refuse labels that the encoding of the table cannot hold."""
    encoding = table.form.encoding
    for label in labels:
        try:
            label.encode(encoding)
        except UnicodeEncodeError:
            raise UsageError(
                "the encoding of the table has no such letters",
                where=table.path,
                values={"encoding": encoding, "label": label},
                hint="save the table as UTF-8",
            ) from None


def _names_of_added(columns: Sequence[str]) -> tuple[str, ...]:
    """Return names for the added columns that the table does not have.

    Example:
        >>> _names_of_added(["text"]), _names_of_added(["text", "label"])
        (('label', 'score'), ('predicted_label', 'predicted_score'))
    """
    names: tuple[str, ...] = _ADDED
    prefix = ""
    while set(names) & set(columns):
        prefix += "predicted_"
        names = tuple(prefix + name for name in _ADDED)
    return names


def _table_bytes(
    table: TableFile, rows: Sequence[_TextRow], found: Classified, added: tuple[str, ...]
) -> bytes:
    """Return the table with its added columns, as it was written."""
    form, out = table.form, io.StringIO()
    quoting: Any = csv.QUOTE_MINIMAL if form.is_quoted else csv.QUOTE_NONE
    writer = csv.writer(
        out,
        delimiter=form.delimiter,
        quoting=quoting,
        quotechar='"' if form.is_quoted else None,
        lineterminator=form.newline,
    )
    if table.has_header:
        writer.writerow((*table.columns, *added))
    pairs = zip(found.labels, found.scores, strict=True)
    for row in rows:
        label, score = "", ""
        if row.text is not None:
            name, probability = next(pairs)
            label, score = _safe(name), units.fixed(probability, _DECIMALS)
        writer.writerow((*row.fields.values(), label, score))
    mark = "\ufeff" if form.has_mark else ""
    return (mark + out.getvalue()).encode(form.encoding, "surrogateescape")


def _safe(label: str) -> str:
    r"""Return a label of a checkpoint on one line, and not as a formula of a spreadsheet.

    Example:
        >>> _safe("good"), _safe("-1"), _safe("=1+1"), _safe("a\tb")
        ('good', '-1', "'=1+1", 'a b')
    """
    label = printable(" ".join(label.split()))
    if label.startswith(("=", "+", "-", "@")) and not label[1:].isdigit():
        return f"'{label}"
    return label


def _count_notes(path: str, count: int, what: str) -> list[str]:
    if not count:
        return []
    return [f"{path}: {count:,} {what}"]


def _means(found: Classified, labels: Sequence[str]) -> dict[str, float]:
    """Return the mean score of the texts with each label, without labels that no text has."""
    sums = dict.fromkeys(labels, 0.0)
    for label, score in zip(found.labels, found.scores, strict=True):
        sums[label] += score
    counts = Counter(found.labels)
    return {label: sums[label] / counts[label] for label in labels if counts[label]}
