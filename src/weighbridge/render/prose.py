"""Prose with marks, written in any format; `document` describes the marks."""

from __future__ import annotations

import re

from weighbridge.algebra import expr
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.render import math

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from weighbridge.render.table import Table

MARKS = re.compile(
    r"\\(?P<plain>.)|\*\*(?P<strong>(?:\\.|[^\\])+?)\*\*|`(?P<code>[^`]+)`|\$(?P<math>[^$]+)\$",
    re.DOTALL,
)
"""The marks of prose: a plain character, strong text, code or mathematics."""


class Marks(NamedTuple):
    """The functions of a format for mathematics, plain text and each kind of mark."""

    style: math.Style
    escape: Callable[[str], str]
    strong: str
    code: Callable[[str], str]
    math: str


class Prose(NamedTuple):
    """Writes the prose of a document, with the marks of a format and the values of letters."""

    marks: Marks
    values: Mapping[str, Any]

    def write(self, marked: str) -> str:
        """Write prose: escape plain text and translate marks."""
        pieces, start = [], 0
        for mark in MARKS.finditer(marked):
            pieces += [self.marks.escape(marked[start : mark.start()]), self._translate(mark)]
            start = mark.end()
        return "".join([*pieces, self.marks.escape(marked[start:])])

    def _translate(self, mark: re.Match[str]) -> str:
        if mark["plain"]:
            return self.marks.escape(mark["plain"])
        if mark["strong"]:
            return self.marks.strong.format(self.write(mark["strong"]))
        if mark["code"]:
            return self.marks.code(mark["code"])
        if mark["math"].startswith("="):  # in prose, a value is just a number
            return _mathematics(mark["math"], math.UNICODE, self.values)
        return self.marks.math.format(self.mathematics(mark["math"]))

    def mathematics(self, marked: str) -> str:
        """Write what stood between dollar signs, where it stands for itself."""
        return _mathematics(marked, self.marks.style, self.values)

    def table(self, table: Table) -> Table:
        """Return a table with the prose of its cells written."""
        rows = tuple(tuple(map(self.write, row)) for row in table.rows)
        return table._replace(header=tuple(map(self.write, table.header)), rows=rows)


def _mathematics(marked: str, style: math.Style, values: Mapping[str, Any]) -> str:
    """Write ``V*H`` as a formula, ``#V*H`` in numbers, ``=V*H`` as its value."""
    if marked.startswith("="):
        return math.with_names(("value", expr.evaluate(expr.parse(marked[1:]), values)), style)
    if marked.startswith("#"):
        return math.numbers(expr.parse(marked[1:]), style, values)
    return math.with_names(expr.parse(marked), style)
