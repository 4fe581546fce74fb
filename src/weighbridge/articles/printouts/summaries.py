"""Reads summaries of models: the tables of torchinfo, torchsummary and Keras."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from weighbridge.articles.printouts.lines import (
    LONGEST_LINE,
    MOST_LINES,
    SUMMARY,
    PrintedModule,
    Printout,
    integers,
    layers_among,
    printout_words,
)
from weighbridge.articles.tables.cells import numbers_within
from weighbridge.articles.text.lines import Stretch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weighbridge.articles.tables.cells import CellNumber
    from weighbridge.articles.text.lines import ArticleLine

_LEAST_INDENT = 4  # columns by which the rest of a row stands farther in
_MOST_BLANK = 2  # lines without text inside a summary
_TITLES = (
    "Input Shape",
    "Output Shape",
    "Kernel Shape",
    "Param #",
    "Param %",
    "Mult-Adds",
    "Trainable",
    "Connected to",
)
_COUNT_TITLE, _SHAPE_TITLE = "Param #", "Output Shape"
_BARS = "│┃"
_BAR = re.compile("[│┃|]")
_MARKS = "│├└─|+-` \t"
_LABEL = re.compile(
    r"(?P<kind>[A-Za-z_][\w./]*)(?:\s*\((?P<name>[^()]*)\)?)?"
    r"(?:-(?P<place>\d+)|:\s*(?P<depth>\d+)-(?P<number>\d+))?(?=\s|$)"
)
_WRAPPED_CLASS = re.compile(r"\s*[│|]\s*\((?P<kind>\w+)(?:…|\))")
"""The class of a module of Keras, below its name."""
_CONTINUED = re.compile(r"\s*(?:\w+\)\s*$|\S+\[\d+\]\[\d+\])")
"""The rest of a name or of an input, on a line of its own."""
_NO_LABEL = re.compile("")
_VALUE = re.compile(r"\[?[\[(][^\])]*[\])]+(?:,\s*[\[(][^\])]*[\])]+)*\]?|\S+")
_COUNT = re.compile(r"\d{1,3}(?:,\d{3})+|\d+")
_PATTERNS = {"Mult-Adds": _COUNT, "Param %": re.compile(r"\d+(?:\.\d+)?%")}
"""What the numbers of some columns look like."""
_RULE_LINE = re.compile(r"[\s=_─━┏┓┗┛┳┻┡┩╇├┤┼┴└┘┬┌┐-]*$")
_NAME = re.compile(r"\s*Model:\s*[\"“]?(?P<name>\w+)")


def read_summary(lines: Sequence[ArticleLine], start: int) -> tuple[Printout | None, int]:
    """Read a table of layers, of torchinfo, torchsummary or Keras, with the totals below it.

    Return it with the number of its lines; None if there is none at the start.
    """
    titles_line = lines[start].text[:LONGEST_LINE]
    if "Layer" not in titles_line or _COUNT_TITLE not in titles_line:
        return None, 0
    summary = _Summary(titles_line)
    end, blanks = start + 1, 0
    for line in lines[start + 1 : start + MOST_LINES]:
        blanks = 0 if line.text.strip() else blanks + 1
        if blanks > _MOST_BLANK or not summary.takes(line):
            break
        end += 1
    name = _name_before(lines, start)
    if summary.is_torchinfo and summary.modules:
        name = summary.modules[0].kind
    numbers = range(lines[start].number, lines[end - 1].number + 1)
    modules, sizes = tuple(summary.modules), _sizes_of_counts(summary.modules)
    return Printout(SUMMARY, name, numbers, modules, summary.totals, sizes), end - start


class _Summary:
    """A table of layers, read line by line."""

    def __init__(self, titles_line: str) -> None:
        self.is_torchinfo = "depth-idx" in titles_line or "var_name" in titles_line
        self.has_bars = titles_line.strip()[0] in _BARS
        self.titles = [title for title in _TITLES if title in titles_line]
        self.titles.sort(key=titles_line.index)
        self._count_place = titles_line.index(_COUNT_TITLE)
        self._indent = _indent_of(titles_line)
        self.modules: list[PrintedModule] = []
        self.totals: dict[str, tuple[CellNumber, ...]] = {}

    def takes(self, line: ArticleLine) -> bool:
        """Read a line; return whether it belongs to the table."""
        if not line.text.strip() or _RULE_LINE.match(line.text):
            return True
        total = _totals_on(line)
        self.totals.update(total)
        if total or self.totals:
            return bool(total)
        row = self._cells(line) if self.has_bars else self._columns(line)
        wrapped = _WRAPPED_CLASS.match(line.text)
        if wrapped and self.modules and self.has_bars:
            name = self.modules[-1].kind
            self.modules[-1] = self.modules[-1]._replace(kind=wrapped["kind"], name=name)
        elif row:
            self.modules.append(row)
        is_inside = _indent_of(line.text) > self._indent + _LEAST_INDENT
        return row is not None or is_inside or bool(_CONTINUED.match(line.text))

    def _columns(self, line: ArticleLine) -> PrintedModule | None:
        """Return the module of a row of which blanks part the columns."""
        text = line.text[:LONGEST_LINE]
        start = len(text) - len(text.lstrip(_MARKS))
        label = _LABEL.match(text, start)
        if label is None:
            return None
        columns = {}
        for title, value in zip(self.titles, _VALUE.finditer(text, label.end()), strict=False):
            columns[title] = Stretch(line.number, *value.span())
        count = self._count_below_title(text)
        if count:
            columns[_COUNT_TITLE] = Stretch(line.number, *count.span())
        depth = sum(map(text[:start].count, "│├└|+"))
        return self._module(line, label, columns, depth)

    def _count_below_title(self, text: str) -> re.Match[str] | None:
        """Return the count that stands below its title, whatever is in the columns before it."""
        end = self._count_place + len(_COUNT_TITLE)
        for value in re.finditer(r"\S+", text):
            is_below = value.start() < end and value.end() > self._count_place
            if is_below and _COUNT.fullmatch(value[0].strip("()")):
                return value
        return None

    def _cells(self, line: ArticleLine) -> PrintedModule | None:
        """Return the module of a row of which bars part the columns."""
        text = line.text[:LONGEST_LINE]
        bars = [match.start() for match in _BAR.finditer(text)]
        if len(bars) <= 1:
            return None
        spans = [Stretch(line.number, start + 1, end) for start, end in pairwise(bars)]
        start = spans[0].start
        start += len(text[start:]) - len(text[start:].lstrip(_MARKS))
        label = _LABEL.match(text, start, spans[0].end) or _NO_LABEL.match(text, start)
        columns = dict(zip(self.titles, spans[1:], strict=False))
        return label and self._module(line, label, columns, 0)

    def _module(
        self, line: ArticleLine, label: re.Match[str], columns: Mapping[str, Stretch], depth: int
    ) -> PrintedModule:
        """Return the module of a row with its numbers."""
        parts = label.groupdict()
        kind, name = parts.get("kind") or "", parts.get("name") or ""
        if not self.is_torchinfo and name:
            kind, name = name, kind
        numbers = {}
        for title in (_COUNT_TITLE, *_PATTERNS):
            number = _number_in(line, title, columns.get(title))
            if number:
                numbers[title] = number
        return PrintedModule(
            line.number,
            int(parts.get("depth") or depth),
            kind,
            name,
            parameters=numbers.pop(_COUNT_TITLE, None),
            shape=_shape_in(line, columns.get(_SHAPE_TITLE)),
            indices=integers(line, *label.span()),
            settings=_shape_in(line, columns.get("Input Shape"))
            + _shape_in(line, columns.get("Kernel Shape")),
            columns=numbers,
        )


def _indent_of(text: str) -> int:
    return len(text) - len(text.lstrip())


def _number_in(line: ArticleLine, title: str, at: Stretch | None) -> CellNumber | None:
    """Return the number in a column, if it has nothing else."""
    if at is None:
        return None
    # Parameters that are not trained stand in brackets.
    text = line.text[at.start : at.end].strip(" ()")
    if not _PATTERNS.get(title, _COUNT).fullmatch(text):
        return None
    return next(numbers_within(line.text, at), None)


def _shape_in(line: ArticleLine, at: Stretch | None) -> tuple[CellNumber, ...]:
    if at is None:
        return ()
    return integers(line, at.start, at.end)


def _name_before(lines: Sequence[ArticleLine], start: int) -> str:
    """Return the name of a Keras model, which stands above its table."""
    for line in reversed(lines[max(0, start - 3) : start]):
        name = _NAME.match(line.text)
        if name:
            return name["name"]
    return ""


def _totals_on(line: ArticleLine) -> dict[str, tuple[CellNumber, ...]]:
    """Return the numbers of a line such as "Total params: 109,482,240", by what they count."""
    label, colon, _ = line.text[:LONGEST_LINE].partition(":")
    if colon:
        for name, labels in printout_words()["totals"].items():
            if label.strip(" │|").startswith(tuple(labels)):
                at = Stretch(line.number, len(label) + 1, len(line.text[:LONGEST_LINE]))
                return {name: tuple(numbers_within(line.text, at))}
    return {}


def _sizes_of_counts(modules: Sequence[PrintedModule]) -> dict[str, int]:
    """Return the sizes that follow from the counts of embeddings and norms."""
    sizes = layers_among(modules)
    norms, tables = [], []
    for module in modules:
        if module.parameters and "Norm" in module.kind:
            norms.append(int(module.parameters.value))
        elif module.parameters and module.kind == "Embedding":
            tables.append(int(module.parameters.value))
    hidden = max(norms, key=norms.count, default=0) // 2
    # Without layers of one class, the width of a norm need not be that of the embeddings.
    if not (sizes and hidden and tables) or any(table % hidden for table in tables):
        return sizes
    rows = sorted((table // hidden for table in tables), reverse=True)
    sizes |= {"vocab_size": rows[0], "hidden_size": hidden}
    fields = ("max_position_embeddings", "type_vocab_size")
    return sizes | dict(zip(fields, rows[1:], strict=False))
