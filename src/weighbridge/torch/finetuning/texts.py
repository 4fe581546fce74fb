"""From files to labelled texts: read, without duplicates or conflicting labels, and split."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import UsageError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

TEXT_NAMES = (
    "text",
    "sentence",
    "review",
    "content",
    "comment",
    "document",
    "tweet",
    "文本",
    "句子",
    "评论",
    "内容",
)
LABEL_NAMES = (
    "label",
    "labels",
    "class",
    "category",
    "sentiment",
    "target",
    "标签",
    "类别",
    "分类",
    "情感",
)
"""The column names to look for; the first one that a file has is used."""


class Example(NamedTuple):
    """A text, its label, and the line where it begins."""

    text: str
    label: str
    line: int


class Read(NamedTuple):
    """The content of a file: examples, their columns, and the number of broken records."""

    path: str
    examples: list[Example]
    columns: tuple[str, str]
    broken: int


class _BrokenError(Exception):
    """A record that is not an example: the broken rule, and the values."""

    def __init__(self, rule: str, **values: object) -> None:
        super().__init__(rule)
        self.rule, self.values = rule, values


# Reading


def read_examples(
    path: str, text: str | None = None, label: str | None = None, *, skip_broken: bool = False
) -> Read:
    """Read a CSV, TSV or JSON lines file.

    Args:
        path: the file; its suffix gives its type.
        text: the column of texts; by default one of `TEXT_NAMES`.
        label: the column of labels; by default one of `LABEL_NAMES`.
        skip_broken: skip broken records, and count them.

    Raises:
        UsageError: there is no such file or column, or a record is broken.
    """
    form = _FORMS.get(os.path.splitext(path)[1].lower())
    if form is None:
        raise UsageError(
            "has an unknown file type",
            where=path,
            hint=f"give a file that ends in {', '.join(_FORMS)}",
        )
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            return _examples_in(path, form(file), (text, label), skip_broken=skip_broken)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=path, hint="give a text file"
        ) from None


def _examples_in(
    path: str, records: _Records, named: tuple[str | None, str | None], *, skip_broken: bool
) -> Read:
    try:
        header = records.header()
    except _BrokenError as broken:
        raise _error(path, 1, broken) from None
    columns = (
        _column(path, header, named[0], TEXT_NAMES, "text"),
        _column(path, header, named[1], LABEL_NAMES, "label"),
    )
    if columns[0] == columns[1]:
        raise UsageError(
            "text and label are the same column",
            where=path,
            values={"column": columns[0]},
            hint="choose two columns with --text and --label",
        )
    examples, left_out = [], 0
    for line, record in records:
        try:
            if isinstance(record, _BrokenError):
                raise record
            examples.append(
                Example(
                    _checked_value(record, columns[0], "text"),
                    _checked_value(record, columns[1], "label"),
                    line,
                )
            )
        except _BrokenError as broken:
            if not skip_broken:
                raise _error(path, line, broken) from None
            left_out += 1
    if not examples:
        raise UsageError(
            "contains no texts",
            where=path,
            values={"broken": left_out},
            hint="give a file with examples",
        )
    return Read(path, examples, columns, left_out)


def _error(path: str, line: int, broken: _BrokenError) -> UsageError:
    hint = "correct it, or skip such records with --skip-broken"
    return UsageError(f"line {line}: {broken.rule}", where=path, values=broken.values, hint=hint)


def _column(
    path: str, header: Sequence[str], named: str | None, known: Sequence[str], role: str
) -> str:
    """Return the column for a role: texts or labels."""
    twice = [name for name, times in Counter(header).items() if times > 1]
    if twice:
        raise UsageError(
            "two columns have the same name",
            where=path,
            values={"column": twice[0]},
            hint="rename one",
        )
    values = {"columns": ", ".join(header)}
    hint = f"name it with --{role}"
    if named:
        if named not in header:
            values[role] = named
            raise UsageError("there is no such column", where=path, values=values, hint=hint)
        return named
    lower = {name.strip().lower(): name for name in header}
    for name in known:
        if name in lower:
            return lower[name]
    what = f"it is unclear which column holds the {role}"
    raise UsageError(what, where=path, values=values, hint=hint)


def _checked_value(record: dict[str, Any], column: str, of: str) -> str:
    """Return a value of a record, checked to be usable."""
    if column not in record:
        raise _BrokenError("a field is missing", field=column)
    value = record[column]
    if of == "label" and isinstance(value, bool | int):
        value = json.dumps(value)
    if not isinstance(value, str):
        raise _BrokenError(f"the {of} is not text", found=value)
    if "\0" in value:
        raise _BrokenError(f"the {of} contains a NUL", found=ascii(value))
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _BrokenError(f"the {of} is not UTF-8", found=ascii(value))
    if not value.strip():
        raise _BrokenError(f"the {of} is empty")
    if of == "label":
        return value.strip()
    return value


class _Records:
    """The records of a file, each with the line where it begins; some may be errors."""

    def header(self) -> list[str]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any] | _BrokenError]]:
        raise NotImplementedError


class _Delimited(_Records):
    """Lines of CSV (RFC 4180), or of TSV, where a quotation mark is an ordinary character."""

    def __init__(
        self, file: TextIO, delimiter: str = ",", quoting: Any = csv.QUOTE_MINIMAL
    ) -> None:
        self.rows = csv.reader(file, delimiter=delimiter, quoting=quoting, strict=True)
        self.names: list[str] = []

    def header(self) -> list[str]:
        try:
            self.names = [name.strip() for name in next(self.rows, [])]
        except csv.Error as error:
            raise _BrokenError(f"is not CSV: {error}") from None
        return self.names

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any] | _BrokenError]]:
        while True:
            line = self.rows.line_num + 1
            try:
                row = next(self.rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield line, _BrokenError(f"is not CSV: {error}")
                continue
            if row:  # a blank line is not a record
                yield line, self._record(row)

    def _record(self, row: list[str]) -> dict[str, Any] | _BrokenError:
        if len(row) != len(self.names):
            few = "few" if len(row) < len(self.names) else "many"
            return _BrokenError(f"too {few} columns", expected=len(self.names), found=len(row))
        return dict(zip(self.names, row, strict=True))


def _tabbed(file: TextIO) -> _Records:
    return _Delimited(file, "\t", csv.QUOTE_NONE)


class _JsonLines(_Records):
    """One JSON object per line; the first one defines the fields."""

    def __init__(self, file: TextIO) -> None:
        self.records = [(line, _object(text)) for line, text in enumerate(file, 1) if text.strip()]

    def header(self) -> list[str]:
        first = next((record for _, record in self.records if isinstance(record, dict)), None)
        if first is None and self.records:
            _, broken = self.records[0]
            raise (
                broken if isinstance(broken, _BrokenError) else _BrokenError("is not a JSON object")
            )
        return list(first or {})

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any] | _BrokenError]]:
        return iter(self.records)


def _object(text: str) -> dict[str, Any] | _BrokenError:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _BrokenError("is not JSON", reason=str(error), found=text.strip())
    if not isinstance(record, dict):
        return _BrokenError("is not a JSON object", found=record)
    return record


_FORMS = {
    ".csv": _Delimited,
    ".tsv": _tabbed,
    ".tab": _tabbed,
    ".jsonl": _JsonLines,
    ".json": _JsonLines,
    ".ndjson": _JsonLines,
}


# Removing duplicates


class Once(NamedTuple):
    """Texts without duplicates: ``doubles`` and ``torn`` texts, with two labels, were removed."""

    examples: list[Example]
    doubles: int
    torn: int


def once(examples: Iterable[Example]) -> Once:
    """Keep the first of texts that differ only in white space; drop texts with two labels.

    Example:
        >>> rows = [("good", "1"), ("so so", "1"), ("good ", "1"), ("so  so", "0"), ("bad", "0")]
        >>> kept = once(Example(text, label, 1) for text, label in rows)
        >>> [example.text for example in kept.examples], kept.doubles, kept.torn
        (['good', 'bad'], 1, 1)
    """
    groups: dict[str, list[Example]] = {}
    for example in examples:
        groups.setdefault(normalized(example.text), []).append(example)
    kept, doubles = [], 0
    for group in groups.values():
        labels = {example.label for example in group}
        if len(labels) == 1:
            kept.append(group[0])
            doubles += len(group) - 1
    return Once(kept, doubles, torn=len(groups) - len(kept))


def normalized(text: str) -> str:
    """Return a text with single spaces, so that texts that differ only in white space are equal."""
    return " ".join(text.split())


# Splitting


class Split(NamedTuple):
    """Texts to train on, held-out texts, the sorted labels, and notes for the user."""

    training: list[Example]
    held_out: list[Example]
    labels: tuple[str, ...]
    notes: tuple[str, ...]


def split_examples(data: Read, test: Read | None, held_out: float, seed: int) -> Split:
    """Return the texts to train on and the held-out ones: a share of the file, or another file.

    Raises:
        UsageError: there are fewer than two classes, one is too small to be split, or the test file
            has a class that the training texts lack.
    """
    ours = once(data.examples)
    notes = [*_notes_on(data, ours)]
    _check_classes(data.path, ours.examples)
    if test is None:
        training, held = _share(data.path, ours.examples, held_out, seed)
    else:
        theirs = once(test.examples)
        notes += _notes_on(test, theirs)
        known = {normalized(example.text) for example in test.examples}
        training = [example for example in ours.examples if normalized(example.text) not in known]
        held = theirs.examples
        if len(training) < len(ours.examples):
            taken = len(ours.examples) - len(training)
            notes.append(
                f"{data.path}: {taken:,} texts are also in {test.path}, "
                "and were left out of training"
            )
        _check_classes(data.path, training)
        _check_known(test.path, held, training)
    labels = _sorted_labels({example.label for example in training})
    unseen = set(labels) - {example.label for example in held}
    if unseen:
        notes.append(
            f"labels without a held-out text: "
            f"{', '.join(shorten(name, str) for name in sorted(unseen))}"
        )
    return Split(training, held, labels, tuple(notes))


def _notes_on(data: Read, found: Once) -> Iterator[str]:
    """Yield notes on the columns used, and on records left out."""
    text_column, label_column = map(shorten, data.columns)
    yield f"{data.path}: texts from column {text_column}, labels from {label_column}"
    if data.broken:
        yield f"{data.path}: {data.broken:,} broken records were skipped"
    if found.doubles:
        yield f"{data.path}: {found.doubles:,} duplicate texts were left out"
    if found.torn:
        yield f"{data.path}: {found.torn:,} texts with two different labels were left out"


def _check_classes(path: str, examples: Sequence[Example]) -> None:
    labels = {example.label for example in examples}
    if len(labels) < 2:
        values = {"texts": len(examples), "label": next(iter(labels), None)}
        raise UsageError(
            "there are fewer than two classes",
            where=path,
            values=values,
            hint="give texts with at least two labels",
        )


def _check_known(path: str, held: Sequence[Example], training: Sequence[Example]) -> None:
    known = {example.label for example in training}
    for example in held:
        if example.label not in known:
            what = f"line {example.line}: no training text has this label"
            hint = "correct it, or add training texts with this label"
            raise UsageError(what, where=path, values={"label": example.label}, hint=hint)
    if not held:
        raise UsageError(
            "contains no text with a single label", where=path, hint="give a file with test texts"
        )


def _share(
    path: str, examples: list[Example], held_out: float, seed: int
) -> tuple[list[Example], list[Example]]:
    """Split each class with scikit-learn, and keep the order of the file."""
    # not needed with a test file
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    labels = [example.label for example in examples]
    sizes = Counter(labels)
    least = min(sizes, key=sizes.__getitem__)
    if sizes[least] < 2:
        hint = "give at least two texts per class, or a --test file"
        raise UsageError(
            "a class is too small to be split",
            where=path,
            values={"label": least, "texts": 1},
            hint=hint,
        )
    held = max(-(-int(held_out * len(examples) * 1_000_000) // 1_000_000), len(sizes))
    if len(examples) - held < len(sizes):
        values = {"texts": len(examples), "held out": held, "classes": len(sizes)}
        raise UsageError(
            "too few texts are left to train on", where=path, values=values, hint="give more texts"
        )
    places = list(range(len(examples)))
    training, others = train_test_split(places, test_size=held, stratify=labels, random_state=seed)
    return [examples[place] for place in sorted(training)], [
        examples[place] for place in sorted(others)
    ]


def _sorted_labels(labels: set[str]) -> tuple[str, ...]:
    """Return sorted labels: numbers by value, words alphabetically."""
    try:
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    except ValueError:
        return tuple(sorted(labels))
