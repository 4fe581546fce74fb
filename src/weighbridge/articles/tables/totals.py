"""Checks the sums of a table, down its columns and across its rows."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from weighbridge.articles.tables import cells, sums
from weighbridge.articles.tables.cells import BYTES, COUNT, SHARE, names_one
from weighbridge.articles.tables.grid import LEAST_SUM, is_sum
from weighbridge.articles.tables.judge import SumJudge
from weighbridge.articles.tables.parts import check_layers, check_parents, check_parts
from weighbridge.articles.tables.shares import as_written
from weighbridge.articles.text.exact import Number
from weighbridge.articles.text.lines import UNREAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weighbridge.articles.tables.cells import CellNumber
    from weighbridge.articles.tables.grid import TableGrid

_PART_MARKS = ("-", "└", "├", "–", "·", "•", "↳")


class SumCheck:
    """The check of the sums of a table."""

    def __init__(self, grid: TableGrid) -> None:
        self.grid, self.book, self.judge = grid, grid.book, SumJudge(grid)

    def run(self) -> None:
        """Check each column with sums, and a column that adds up the others."""
        for column, kind in enumerate(self.grid.columns):
            if kind in (COUNT, BYTES):
                ColumnSums(self.grid, column).run()
        self._check_rows_with_sums()
        if not self.grid.shares:
            self._check_hundred()

    def _check_rows_with_sums(self) -> None:
        """Check a column that adds up the other columns of its row."""
        columns = [column for column, kind in enumerate(self.grid.columns) if kind == COUNT]
        for column in columns:
            if column in self.grid.products or not is_sum(self.grid.table.title(column)):
                continue
            stated = self._across(column, columns)
            fits = [_fits_across(across) for across in stated]
            for across, is_right in zip(stated, fits, strict=True):
                if is_right or (any(fits) and not self.book.verdict(across.total)):
                    self.judge.judge(across)

    def _across(self, column: int, columns: Sequence[int]) -> list[sums.StatedSum]:
        """Return the sum of each row with the counts beside it."""
        stated = []
        for row in range(len(self.grid.rows)):
            total = self.grid.main(row, column)
            addends = []
            for other in columns:
                number = self.grid.main(row, other)
                if number and other != column:
                    title = self.grid.table.title(other)
                    addends.append(sums.Addend(number, title, self.book.value(number)))
            if total and len(addends) > 1 and total.value >= LEAST_SUM:
                stated.append(sums.StatedSum.of(total, addends))
        return stated

    def _check_hundred(self) -> None:
        """Check that the shares of a table without counts add up to their sum."""
        for column, kind in enumerate(self.grid.columns):
            addends: list[sums.Addend] = []
            for row in range(len(self.grid.rows)):
                number = self.grid.main(row, column)
                if number and kind == SHARE and self.grid.is_sum[row] and len(addends) > 1:
                    self._judge_hundred(number, sums.SumReading.of(addends))
                elif number:
                    addends.append(sums.Addend(number, "", number.value))

    def _judge_hundred(self, total: CellNumber, reading: sums.SumReading) -> None:
        if reading.stated == total.value:
            self.judge.fits(total, reading, sums.EXACT, sums.EXACT)
        elif sums.how_it_fits(total, reading.stated, reading.slack):
            self.book.say(total, UNREAD, "table_rounding")
        elif sums.is_near(total.value, reading.stated):
            correct = as_written(reading.stated, total)
            self.book.slip("wrong_sum", total, reading.stated, correct)


class ColumnSums:
    """The sums of one column, from the top.

    ``block`` has the rows since the last sum, ``open`` the rows and sums that no sum contains, and
    ``before`` all rows that are no sums. ``below`` has the positions of rows
    that a sum above them contains.
    """

    def __init__(self, grid: TableGrid, column: int) -> None:
        self.grid, self.column, self.book = grid, column, grid.book
        self.judge = SumJudge(grid)
        self.block: list[sums.Addend] = []
        self.open: list[sums.Addend] = []
        self.before: list[sums.Addend] = []
        self.below: set[int] = set()

    def run(self) -> None:
        """Check the column."""
        for row in range(len(self.grid.rows)):
            total = self.grid.sum_number(row, self.column)
            if total:
                self._add_sum(row, total)
                continue
            addend = self._addend(row)
            if addend and row not in self.below:
                layer = check_layers(addend, self.open, self.grid.layers, self.book)
                self._close([*layer, *self._rows_of(layer), *self._rows_of_each(addend)])
                for addends in (self.block, self.open, self.before):
                    addends.append(addend)
        check_parents(self.before, self.book)
        check_parts(self.before, self.book)

    def _add_sum(self, row: int, total: CellNumber) -> None:
        """Check a sum, which stands for its rows in the sums below it."""
        label = self.grid.label(row)
        is_layer = names_one(label, "layer")
        after = self._rows_after(row)
        above = (tuple(self.block), tuple(self.open), tuple(self.before))
        rows_after = tuple(below for _, below in after)
        stated = sums.StatedSum(total, *above, rows_after, self.grid.layers, is_layer)
        addend = sums.Addend(total, label, total.value, layer=is_layer, is_sum=True)
        covered = check_layers(addend, self.open, self.grid.layers, self.book)
        covered = covered or self.judge.judge(stated, label)
        self._close(covered)
        self.below.update(position for position, below in after if below in covered)
        self.open.append(addend._replace(mended=self.book.value(total)))
        self.block = []

    def _rows_of(self, layer: Sequence[sums.Addend]) -> list[sums.Addend]:
        """Return the rows that a row of one layer adds up."""
        rows: list[sums.Addend] = []
        for position, covered in sums.parents(self.open).items():
            if self.open[position] in layer:
                rows += self.open[covered.start : covered.stop]
        return rows

    def _rows_of_each(self, layers: sums.Addend) -> list[sums.Addend]:
        """Return the rows right above "12 layers" that one of these layers adds up."""
        rows: list[sums.Addend] = []
        times = cells.times_in(layers.label)
        missing = layers.value / times if times > 1 else sums.ZERO
        while missing > 0 and len(rows) < min(len(self.open), sums.MOST_ADDENDS):
            rows.append(self.open[-1 - len(rows)])
            missing -= rows[-1].value
        return rows if not missing and len(rows) > 1 else []

    def _close(self, covered: Sequence[sums.Addend]) -> None:
        """Drop rows that a sum or a product contains."""
        contained = set(covered)
        self.open = [addend for addend in self.open if addend not in contained]

    def _rows_after(self, row: int) -> list[tuple[int, sums.Addend]]:
        """Return the rows below a sum, up to the next one, with their positions."""
        addends = []
        for below in range(row + 1, min(len(self.grid.rows), row + 1 + sums.MOST_ADDENDS)):
            if self.grid.is_sum[below]:
                break
            addend = self._addend(below)
            if addend:
                addends.append((below, addend))
        return addends

    def _addend(self, row: int) -> sums.Addend | None:
        """Return what a row adds to the column; None if its cell is empty."""
        cell, label = self.grid.rows[row][self.column], self.grid.label(row)
        number = cell.main or self._calculated(cell)
        if number is None and not (cell.is_text or cell.formula):
            return None
        mended = Fraction(0)
        if number:
            mended = self.book.value(number)
        is_part = label.lstrip().startswith(_PART_MARKS)
        return sums.Addend(
            number,
            label,
            mended,
            self._times(row),
            part=is_part or names_one(label, "parts"),
            tied=names_one(label, "tied"),
            layer=names_one(label, "layer"),
        )

    def _calculated(self, cell: cells.TableCell) -> CellNumber | None:
        """Return the value of a calculation whose result is not stated."""
        value = None
        if cell.formula and not cell.is_shape:
            value = cells.calculated_value(cell, self.grid.sizes)
        if value is None:
            return None
        return cells.CellNumber(cell.at, Number(value, "", Fraction(1)), COUNT)

    def _times(self, row: int) -> Fraction:
        """Return how often a row says that it counts."""
        label, is_product = self.grid.label(row), self.column in self.grid.products
        for other, number in self.grid.counts(row):
            is_number = self.grid.is_named(other, "numbers") and other != self.column
            if is_number and not is_product and 1 < number.value <= LEAST_SUM:
                return number.value
        times = cells.times_in(label)
        if not times and names_one(label, "layer"):
            times = self.grid.layers
        return Fraction(times or 1)


def _fits_across(across: sums.StatedSum) -> bool:
    reading = across.plain()[0]
    return sums.how_it_fits(across.total, reading.stated, reading.slack) in (
        sums.EXACT,
        sums.ROUNDED,
    )
