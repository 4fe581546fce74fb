"""Reads sizes from tables, which have models in rows, models in columns, or a size in each row."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.sizes.model_names import ModelName, bare_name, model_names_in
from weighbridge.articles.sizes.words import (
    NAME_WEIGHT,
    SizeCandidate,
    WholeNumber,
    ambiguous_names,
    is_plausible,
    lowered,
    size_words,
    whole_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.articles.text.lines import ArticleLine

_LONGEST_CELL = 48  # characters of a cell that names a size
_LEAST_CELLS = 2
_FIRST_CELL = 4  # columns in which the first cell begins
_SEPARATOR = re.compile(r"\s*\|\s*|\t+| {3,}")
_UNIT = re.compile(r"\s*(?:个|层|头|维|tokens)?\s*")
_LONGEST_FORMULA = 24  # characters; a longer cell is a remark
_FORMULA = re.compile(r"[·×*%²^]|\w\s?[+/]\s?\w")
_IDENTIFIER = re.compile(r"[a-z0-9]{2,}(?:_[a-z0-9]+)+")
_REMARK = re.compile(r"[(（].*?[)）]|[#\"'`*_\s]")


class _Cell(NamedTuple):
    text: str
    start: int
    field: str
    model: ModelName | None
    number: WholeNumber | None


class _Row(NamedTuple):
    line: int
    cells: tuple[_Cell, ...]


def table_sizes(
    lines: Sequence[ArticleLine], letters: Mapping[str, str]
) -> Iterator[SizeCandidate]:
    """Yield the sizes in the tables of an article.

    Example:
        >>> from weighbridge.articles.text.lines import ArticleLine
        >>> rows = ["| Model | Layers | Hidden |", "| BERT-Base | 12 | 768 |"]
        >>> lines = [ArticleLine(number, row) for number, row in enumerate(rows, start=1)]
        >>> [(size.model.text, size.field, size.number.value) for size in table_sizes(lines, {})]
        [('BERT-Base', 'num_hidden_layers', 12), ('BERT-Base', 'hidden_size', 768)]
    """
    for size in _cells_with_sizes(lines, letters):
        if is_plausible(size.field, size.number.value):
            yield size


def _cells_with_sizes(
    lines: Sequence[ArticleLine], letters: Mapping[str, str]
) -> Iterator[SizeCandidate]:
    """Yield each number in a table that stands for a field."""
    for rows in _tables(lines, letters):
        header = rows[0].cells
        fields = {column: cell.field for column, cell in enumerate(header) if cell.field}
        models = {column: cell.model for column, cell in enumerate(header) if cell.model}
        if len(fields) >= _LEAST_CELLS:
            yield from _models_in_rows(rows[1:], fields)
        elif models and not fields:
            yield from _fields_in_rows(rows[1:], models)
        else:
            yield from _fields_in_rows(rows, {})


def _models_in_rows(rows: Iterable[_Row], fields: Mapping[int, str]) -> Iterator[SizeCandidate]:
    """Yield the sizes of rows whose columns are fields."""
    for row in rows:
        model = next((cell.model for cell in row.cells if cell.model), None)
        for column, cell in enumerate(row.cells):
            field = fields.get(column)
            if field and cell.number:
                yield SizeCandidate(field, cell.number, NAME_WEIGHT, "", row.line, model)


def _fields_in_rows(
    rows: Iterable[_Row], models: Mapping[int, ModelName]
) -> Iterator[SizeCandidate]:
    """Yield the sizes of rows that each have a field, and a number for each model."""
    for row in rows:
        named = _fields_named(row)
        numbers = {column: cell.number for column, cell in enumerate(row.cells) if cell.number}
        if len(named) == 1 and (models or (len(numbers) == 1 and not _has_formula(row))):
            (field,) = named
            for column, number in numbers.items():
                yield SizeCandidate(field, number, NAME_WEIGHT, "", row.line, models.get(column))


def _has_formula(row: _Row) -> bool:
    """Return whether a row has a formula or a share, and so a count of parameters."""
    texts = [cell.text for cell in row.cells if not cell.field]
    return any(len(text) <= _LONGEST_FORMULA and _FORMULA.search(text) for text in texts)


def _is_other_field(cell: _Cell) -> bool:
    """Return whether a cell is a field of a config that is no size: first_k_dense_replace."""
    text = cell.text.strip()
    return not (cell.field or text in ambiguous_names()) and _IDENTIFIER.fullmatch(text) is not None


def _fields_named(row: _Row) -> set[str]:
    """Return the fields that a row names; an identifier such as embedding_size decides."""
    if any(_is_other_field(cell) for cell in row.cells):
        return set()
    identifiers = {cell.field for cell in row.cells if "_" in cell.text and cell.field}
    if len(identifiers) == 1:
        return identifiers
    return {cell.field for cell in row.cells if cell.field}


def stacked_sizes(
    lines: Sequence[ArticleLine], letters: Mapping[str, str]
) -> Iterator[SizeCandidate]:
    """Yield each number that is alone on a line below the name of a size, as in lists of facts.

    Example:
        >>> from weighbridge.articles.text.lines import ArticleLine
        >>> lines = [ArticleLine(1, "注意力头数"), ArticleLine(2, ""), ArticleLine(3, "128个")]
        >>> [(size.field, size.number.value) for size in stacked_sizes(lines, {})]
        [('num_attention_heads', 128)]
    """
    written = [line for line in lines if line.text.strip()]
    for name, value in pairwise(written):
        number = whole_numbers(value.text).get(len(value.text) - len(value.text.lstrip()))
        if number is None or _UNIT.fullmatch(value.text, number.end) is None:
            continue
        field = _field_of(name.text.strip(), 0, letters)
        if field and is_plausible(field, number.value):
            yield SizeCandidate(field, number, NAME_WEIGHT, "", value.number)


def _tables(lines: Sequence[ArticleLine], letters: Mapping[str, str]) -> Iterator[list[_Row]]:
    """Yield the rows of each table; one empty line between rows is that of a rule."""
    rows: list[_Row] = []
    last_row = 0
    for position, line in enumerate(lines):
        cells = tuple(_cells_of_row(line.text, letters))
        if len(cells) >= _LEAST_CELLS:
            if rows and position - last_row > _LEAST_CELLS:
                yield rows
                rows = []
            rows.append(_Row(line.number, cells))
            last_row = position
        elif line.text.strip(" |-:") and rows:
            yield rows
            rows = []
    if rows:
        yield rows


def _cells_of_row(text: str, letters: Mapping[str, str]) -> Iterator[_Cell]:
    """Yield the cells of a row of a table; none for a line of prose."""
    line = text.strip()
    if _SEPARATOR.search(line) is None:
        return
    start = text.index(line)
    position = 0
    for match in [*_SEPARATOR.finditer(line), None]:
        end = len(line)
        if match:
            end = match.start()
        if position < end or position:
            yield _cell(line[position:end], start + position, letters)
        if match:
            position = match.end()
            if position >= len(line):
                return


def _cell(text: str, start: int, letters: Mapping[str, str]) -> _Cell:
    number = _number_in(text, start)
    if number:
        return _Cell(text, start, "", bare_name(text), number)
    names = model_names_in(text)
    if len(names) == 1:
        return _Cell(text, start, "", names[0], None)
    return _Cell(text, start, _field_of(text, start, letters), bare_name(text), None)


def _number_in(text: str, start: int) -> WholeNumber | None:
    """Return the number that a cell begins with, in the columns of the line."""
    numbers = whole_numbers(text)
    first = len(text) - len(text.lstrip(" *`"))
    if first not in numbers:
        return None
    number = numbers[first]
    return WholeNumber(number.value, start + number.start, start + number.end)


def _field_of(text: str, start: int, letters: Mapping[str, str]) -> str:
    """Return the field that a cell names; "" if it names none, or is a sentence or a formula.

    A symbol alone must be the first cell: in a table of tensors it is a shape.
    """
    if len(text) > _LONGEST_CELL or _FORMULA.search(text):
        return ""
    words = size_words(lowered(text))
    bare = _REMARK.sub("", text)
    if words and words[0].kind != "symbols":
        named = words[0].end - words[0].start
        if 2 * named >= len(bare):
            return words[0].field
        return ""
    if start > _FIRST_CELL:
        return ""
    if words and words[0].end - words[0].start == len(bare):
        return words[0].field
    return letters.get(bare, "")
