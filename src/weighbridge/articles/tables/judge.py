"""Judges the sums of a table: right, wrong, following from a slip, or unread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.articles.tables import sums
from weighbridge.articles.tables.book import in_digits
from weighbridge.articles.tables.cells import names_one
from weighbridge.articles.tables.grid import is_among
from weighbridge.articles.tables.shares import as_written, is_rounding
from weighbridge.articles.text.lines import KNOWN, RIGHT, UNREAD

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from weighbridge.articles.tables.cells import CellNumber
    from weighbridge.articles.tables.grid import TableGrid

_FITTING = (sums.EXACT, sums.ROUNDED)


class SumJudge:
    """Judges the sums of one table."""

    def __init__(self, grid: TableGrid) -> None:
        self.grid, self.book = grid, grid.book

    def judge(self, stated: sums.StatedSum, label: str = "") -> tuple[sums.Addend, ...]:
        """Judge a sum with its label, and return the rows that it covers."""
        loose = None
        for reading in filter(_is_read, stated.readings()):
            how = sums.how_it_fits(stated.total, reading.stated, reading.slack)
            of_mended = sums.how_it_fits(stated.total, reading.mended, reading.slack)
            is_fitting = how in _FITTING or of_mended in _FITTING
            # Leaving out a small row changes a rounded sum no more than a wrong digit does.
            if is_fitting and not (reading.lenient and sums.may_be_rounded(stated.total)):
                self.fits(stated.total, reading, how, of_mended)
                self._equal_tied(stated, reading)
                return reading.rows
            if loose is None and (how or of_mended):
                loose = reading
        if loose is not None:
            self.book.say(stated.total, UNREAD, "table_rounding")
            return loose.rows
        nearest = stated.nearest()
        if nearest is None:
            return ()
        self._fits_not(stated, nearest, label)
        return nearest.rows

    def fits(self, total: CellNumber, reading: sums.SumReading, how: str, of_mended: str) -> None:
        """Say that a sum is right, or that it follows from a slip in its rows."""
        causes = [addend.number for addend, _ in reading.addends if addend.number]
        if how and reading.stated != reading.mended and not of_mended:
            self.book.follow(total, causes, reading.mended)
        else:
            rows = str(len(reading.addends))
            self.book.say(total, RIGHT, reading.reason, rows=rows, sum=in_digits(reading.stated))
        if how != sums.EXACT or reading.stated != reading.mended:
            return
        for number in causes:
            if number.number.text:
                self.book.say(number, RIGHT, "table_addend", line=str(total.at.line))

    def _equal_tied(self, stated: sums.StatedSum, reading: sums.SumReading) -> None:
        """Say of shared tensors that a sum leaves out that they equal a row of it."""
        used = {addend.value: addend for addend, _ in reading.addends}
        for addend in stated.open:
            number, twin = addend.number, used.get(addend.value)
            if not addend.tied or number is None or twin is None or twin.number in (None, number):
                continue
            if self.book.verdict(twin.number) == RIGHT:
                self.book.say(number, RIGHT, "table_tied", line=str(twin.number.at.line))

    def _fits_not(self, stated: sums.StatedSum, nearest: sums.SumReading, label: str) -> None:
        """Say what is wrong with a sum that no reading gives, as far as this is certain."""
        total, rows = stated.total, str(len(nearest.addends))
        if not nearest.is_read:
            self.book.say(total, UNREAD, "table_row_unread")
            return
        blamed = sums.to_blame(nearest, total, self._supports(total, nearest))
        are_rows_known = is_among(nearest.mended, self.grid.known)
        is_qualified = names_one(label, "qualified")
        if blamed:
            number, needed = blamed
            self.book.slip("wrong_row", number, needed)
            self.book.say(total, RIGHT, "table_sum", rows=rows, sum=total.number.text)
        elif is_among(total.value, self.grid.known):
            self.book.say(total, KNOWN, "table_known", rows=rows)
        elif is_qualified or not stated.is_certain(nearest, are_rows_known=are_rows_known):
            self.book.say(total, UNREAD, "table_no_reading", sum=in_digits(nearest.mended))
        else:
            shown = ""
            if sums.may_be_rounded(total):
                shown = as_written(nearest.mended, total)
            self.book.slip("wrong_sum", total, nearest.mended, shown)

    def _supports(
        self, total: CellNumber, nearest: sums.SumReading
    ) -> Callable[[CellNumber, Fraction], bool]:
        """Return a function for whether something else gives a row a value."""
        shares_fit_rows = True
        for addend, _ in nearest.addends:
            share = self.grid.shares.get(addend.number.at) if addend.number else None
            if share and not is_rounding(share, addend.value / nearest.stated):
                shares_fit_rows = False

        def supports(number: CellNumber, needed: Fraction) -> bool:
            if number.at in self.book.mended or self.book.verdict(number) == RIGHT:
                return False
            share = self.grid.shares.get(number.at)
            if share and not shares_fit_rows:
                fits_needed = is_rounding(share, needed / total.value)
                return fits_needed and not is_rounding(share, number.value / total.value)
            return is_among(needed, self.grid.known) and not is_among(number.value, self.grid.known)

        return supports


def _is_read(reading: sums.SumReading) -> bool:
    return reading.is_read
