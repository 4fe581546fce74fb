"""Checks tables of components: their rows, sums and shares.

The reader is charitable: a number is right if a plausible reading of the table gives it. It is a
slip only if everything that it depends on was read and no reading gives it. The rest stays unread.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from weighbridge.articles.tables import cells
from weighbridge.articles.tables.book import Book, TableFindings
from weighbridge.articles.tables.grid import TableGrid
from weighbridge.articles.tables.rows import RowCheck
from weighbridge.articles.tables.shares import ShareCheck, pair_shares
from weighbridge.articles.tables.totals import SumCheck
from weighbridge.articles.text.lines import BOILERPLATE, UNREAD

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from weighbridge.articles.text.lines import ArticleLine


def check_tables(
    lines: Sequence[ArticleLine], sizes: Mapping[str, int], known: Container[int] = ()
) -> TableFindings:
    """Check the tables of an article.

    Args:
        lines: the lines, without markup. Rows of HTML have ``|`` between their cells.
        sizes: the sizes that the article states, by config field, for the letters in formulas.
        known: counts that the article's model has. A sum among them is no slip, whatever the rows
            are, and a row that should be one of them is to blame if the sum does not fit.

    Example:
        >>> from weighbridge.articles.text.lines import ArticleLine
        >>> text = "part | count;tokens | 23,440,896;pooler | 590,592;sum | 24,031,489"
        >>> lines = [ArticleLine(n, line) for n, line in enumerate(text.split(";"), start=1)]
        >>> [(slip.stated, slip.correct) for slip in check_tables(lines, {}).slips]
        [('24,031,489', '24,031,488')]
    """
    book = Book({line.number: line.text for line in lines})
    for table in cells.find_tables(lines):
        if not table.rows:
            book.skipped.append(table.line)
            continue
        grid = TableGrid(table, sizes, known, book)
        RowCheck(grid).run()
        pair_shares(grid)
        SumCheck(grid).run()
        ShareCheck(grid).run()
        _leave_the_rest(grid)
    return book.findings()


def _leave_the_rest(grid: TableGrid) -> None:
    """Say of the remaining numbers that nothing in the table checks them."""
    _leave_positions(grid)
    for cell in chain.from_iterable(grid.rows):
        for number in filter(None, (cell.main, *cell.others)):
            if not grid.book.verdict(number):
                grid.book.say(number, UNREAD, "table_unchecked")


def _leave_positions(grid: TableGrid) -> None:
    """Say of a first column with 1, 2, 3 that it counts the rows only."""
    positions = [row[0].main for row in grid.rows if row[0].main]
    values = [number.value for number in positions]
    if len(values) > 1 and values == list(range(1, len(values) + 1)):
        for number in positions:
            grid.book.say(number, BOILERPLATE, "table_position")
