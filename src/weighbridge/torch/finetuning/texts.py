"""From files to labelled texts: read, without duplicates or conflicting labels, and split."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import UsageError, shorten
from weighbridge.torch.tables.columns import find_columns, header_test
from weighbridge.torch.tables.encodings import UTF8
from weighbridge.torch.tables.table import BrokenError, read_table, refused
from weighbridge.torch.tables.values import checked_value, notes_on_form

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weighbridge.torch.tables.table import TableForm


class Example(NamedTuple):
    """A text, its label, and the line where it begins."""

    text: str
    label: str
    line: int


class Read(NamedTuple):
    """The content of a file: examples, their columns, the number of broken records, and its form.

    ``by_content`` says that a column was found by its content, not by its name.
    """

    path: str
    examples: list[Example]
    columns: tuple[str, str]
    broken: int
    encoding: str = UTF8
    has_header: bool = True
    by_content: bool = False
    sha256: str = ""


# Reading


class Choices(NamedTuple):
    """How a user wants files to be read: columns, encoding, header, broken records."""

    text: str | None = None
    label: str | None = None
    encoding: str | None = None
    no_header: bool = False
    skip_broken: bool = False


def read_examples(path: str, choices: Choices = Choices()) -> Read:  # noqa: B008  # immutable
    """Read a CSV, TSV or JSON lines file.

    Raises:
        UsageError: there is no such file or column, or a record is broken.
    """
    is_header = header_test(choices.text, choices.label, header=not choices.no_header)
    table = read_table(path, is_header, choices.encoding)
    if not table.records:
        raise _without_texts(path, 0)
    found = find_columns(table, {"text": choices.text, "label": choices.label})
    columns = found["text"].name, found["label"].name
    examples, left_out = [], 0
    for line, record in table.records:
        try:
            examples.append(_example(record, columns, line, table.form))
        except BrokenError as broken:
            if not choices.skip_broken:
                raise refused(path, line, broken) from None
            left_out += 1
    if not examples:
        raise _without_texts(path, left_out)
    by_content = found["text"].by_content or found["label"].by_content
    return Read(
        path,
        examples,
        columns,
        left_out,
        table.form.encoding,
        table.has_header,
        by_content,
        table.sha256,
    )


def _without_texts(path: str, broken: int) -> UsageError:
    return UsageError(
        "contains no texts",
        where=path,
        values={"broken": broken},
        hint="give a file with examples",
    )


def _example(
    record: dict[str, Any] | BrokenError, columns: tuple[str, str], line: int, form: TableForm
) -> Example:
    if isinstance(record, BrokenError):
        raise record
    text = checked_value(record, columns[0], "text", form.encoding)
    return Example(text, checked_value(record, columns[1], "label", form.encoding), line)


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
    """Texts to train on, held-out texts, the sorted labels, and notes for the user.

    ``sources`` describes the files, ready for JSON: the texts to train on, then the held-out ones
    if they have a file of their own.
    """

    training: list[Example]
    held_out: list[Example]
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    sources: tuple[dict[str, Any], ...] = ()


def split_examples(data: Read, test: Read | None, held_out: float, seed: int) -> Split:
    """Return the texts to train on and the held-out ones: a share of the file, or another file.

    Raises:
        UsageError: there are fewer than two classes, one is too small to be split, or the test file
            has a class that the training texts lack.
    """
    ours = once(data.examples)
    notes, sources = [*_notes_on(data, ours)], [_described(data, ours)]
    _check_classes(data.path, ours.examples)
    if test is None:
        training, held = _share(data.path, ours.examples, held_out, seed)
    else:
        theirs = once(test.examples)
        notes += _notes_on(test, theirs)
        sources.append(_described(test, theirs))
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
    return Split(training, held, labels, tuple(notes), tuple(sources))


def _described(data: Read, found: Once) -> dict[str, Any]:
    """Return the description of a file, ready for JSON."""
    return {
        "path": data.path,
        "sha256": data.sha256,
        "encoding": data.encoding,
        "text_column": data.columns[0],
        "label_column": data.columns[1],
        "records": len(data.examples) + data.broken,
        "broken": data.broken,
        "duplicates": found.doubles,
        "conflicting": len(data.examples) - found.doubles - len(found.examples),
    }


def _notes_on(data: Read, found: Once) -> Iterator[str]:
    """Yield notes on the columns used, and on records left out."""
    text_column, label_column = map(shorten, data.columns)
    columns = f"{data.path}: texts from column {text_column}, labels from {label_column}"
    if data.by_content:
        columns += ", found by their content"
    yield columns
    yield from notes_on_form(data.path, data.encoding, has_header=data.has_header)
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
