"""A table of components as a grid of cells, with what its rows and columns are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.articles.tables import cells, sums
from weighbridge.articles.tables.cells import COUNT, names_one, table_words

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from fractions import Fraction

    from weighbridge.articles.tables.book import Book
    from weighbridge.articles.tables.cells import ArticleTable, CellNumber
    from weighbridge.articles.text.lines import Stretch

LEAST_SUM = 1000
"""A smaller number that is called a total counts layers or the like."""


class TableGrid:
    """A table with all that is known of it, and the book of what is said of its numbers."""

    def __init__(
        self, table: ArticleTable, sizes: Mapping[str, int], known: Container[int], book: Book
    ) -> None:
        self.table, self.sizes, self.known, self.book = table, sizes, known, book
        self.width = max(len(table.titles), *(len(row.cells) for row in table.rows))
        self.rows = cells.aligned(table, self.width)
        self.is_sum = [is_sum(row.label) for row in table.rows]
        self.columns = [self._kind_of(column) for column in range(self.width)]
        self.products: dict[int, tuple[int, int]] = {}
        """The columns with the product of two others."""
        self.shares: dict[Stretch, CellNumber] = {}
        """The share beside each count."""

    @property
    def titles(self) -> list[str]:
        """The titles of all columns, in lower case; "" for one without a title."""
        return [self.table.title(column) for column in range(self.width)]

    @property
    def layers(self) -> int:
        """The number of layers that the article states; 0 if it states none."""
        return self.sizes.get("num_hidden_layers", 0)

    def _kind_of(self, column: int) -> str:
        """Return what most numbers of a column count; "" if it has none."""
        kinds = []
        for row in self.rows:
            main = row[column].main
            if main:
                kinds.append(main.kind)
        return max(kinds, key=kinds.count, default="")

    def label(self, row: int) -> str:
        """Return the words of a row."""
        return self.table.rows[row].label

    def is_named(self, column: int, words: str) -> bool:
        """Return whether the title of a column has one of some words."""
        return names_one(self.table.title(column), words)

    def main(self, row: int, column: int) -> CellNumber | None:
        """Return the number of a cell."""
        return self.rows[row][column].main

    def counts(self, row: int) -> list[tuple[int, CellNumber]]:
        """Return the counts of a row with their columns."""
        counts = []
        for column, cell in enumerate(self.rows[row]):
            if cell.main and cell.main.kind == COUNT:
                counts.append((column, cell.main))
        return counts

    def sum_number(self, row: int, column: int) -> CellNumber | None:
        """Return the sum of a column in a row, which may stand in a column of its own."""
        if not self.is_sum[row]:
            return None
        number = self.main(row, column)
        if number is None and len(self.counts(row)) == 1:
            other, candidate = self.counts(row)[0]
            elsewhere = [self.main(position, other) for position in range(len(self.rows))]
            if sum(item is not None for item in elsewhere) == 1:
                number = candidate
        if number and (number.value >= LEAST_SUM or sums.may_be_rounded(number)):
            return number
        return None


def is_sum(text: str) -> bool:
    """Return whether a row or a column is called a sum."""
    bare = text.strip(" *:：()（）[]").lower()
    return names_one(text, "sums") or bare in table_words()["sums"]["whole"]


def is_among(value: Fraction, known: Container[int]) -> bool:
    """Return whether a value is one of the counts that a model has."""
    return value.denominator == 1 and int(value) in known
