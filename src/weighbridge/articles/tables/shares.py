"""Checks the shares and the sizes in bytes of a table against the counts beside them.

Both are counts at a scale that is the same for the whole column: one over the sum for shares, and
bytes per parameter for sizes. The scale is the one that fits most rows.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from weighbridge.articles.tables import sums
from weighbridge.articles.tables.cells import BYTES, COUNT, SHARE
from weighbridge.articles.tables.grid import LEAST_SUM
from weighbridge.articles.text.exact import number_text
from weighbridge.articles.text.lines import FOLLOWS, RIGHT, UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weighbridge.articles.tables.cells import CellNumber
    from weighbridge.articles.tables.grid import TableGrid
    from weighbridge.articles.text.lines import Stretch

    Pairs = Sequence[tuple[CellNumber, CellNumber]]

_BYTES_EACH = (Fraction(4), Fraction(2), Fraction(8), Fraction(1), Fraction(1, 2))
_LEAST_EXAMPLES = 2  # rows that fit a scale, before another row is called wrong


def pair_shares(grid: TableGrid) -> None:
    """Find the count that each share belongs to: in its cell, or in a column before it."""
    for row in grid.rows:
        count = None
        for cell in row:
            if cell.main and cell.main.kind in (COUNT, BYTES):
                count = cell.main
            for number in (cell.main, *cell.others):
                if number and number.kind == SHARE and count:
                    grid.shares.setdefault(count.at, number)


class ShareCheck:
    """The check of the shares and the sizes of a table."""

    def __init__(self, grid: TableGrid) -> None:
        self.grid, self.book = grid, grid.book

    def run(self) -> None:
        """Check each column of counts against the shares and the sizes beside it."""
        counts: list[int] = []
        for column, kind in enumerate(self.grid.columns):
            if kind in (COUNT, BYTES):
                self._check_shares(column)
            if kind == COUNT:
                counts.append(column)
            if kind == BYTES and counts:
                self._check_bytes(counts[-1], column)

    def _check_shares(self, column: int) -> None:
        """Check the shares of a column of counts."""
        pairs = []
        for row in range(len(self.grid.rows)):
            number = self.grid.main(row, column)
            share = self.grid.shares.get(number.at) if number else None
            if number and share:
                pairs.append((number, share))
        self._check_scaled(pairs, [1 / whole for whole in self._wholes(column)], "share")

    def _wholes(self, column: int) -> list[Fraction]:
        """Return what shares may be shares of: the sums of a column, and the sum of its rows."""
        wholes: list[Fraction] = []
        rows = Fraction(0)
        for row in range(len(self.grid.rows)):
            total, number = self.grid.sum_number(row, column), self.grid.main(row, column)
            if total:
                wholes += [self.book.value(total), total.value]
            elif number and not self.grid.is_sum[row]:
                rows += self.book.value(number)
        return list(dict.fromkeys(whole for whole in (*reversed(wholes), rows) if whole > 0))

    def _check_bytes(self, counts: int, column: int) -> None:
        """Check sizes in bytes against the counts of the same rows."""
        pairs = []
        for row in range(len(self.grid.rows)):
            number, size = self.grid.main(row, counts), self.grid.main(row, column)
            if number and size and number.value >= LEAST_SUM:
                pairs.append((number, size))
        if pairs:
            self._check_scaled(pairs, byte_scales(unit_of(pairs[0][1])), "bytes")

    def _check_scaled(self, pairs: Pairs, scales: Sequence[Fraction], kind: str) -> None:
        """Check numbers that are counts at one scale."""
        if not pairs or not scales:
            return

        def fits(scale: Fraction) -> int:
            return sum(self._is_scaled(number, scaled, scale) for number, scaled in pairs)

        best = max(scales, key=fits)
        is_clear = fits(best) >= _LEAST_EXAMPLES and 2 * fits(best) > len(pairs)
        cut = _cut_off([(scaled, self.book.value(number) * best) for number, scaled in pairs])
        for number, scaled in pairs:
            is_known = self.book.verdict(number) in (RIGHT, FOLLOWS)
            is_other = any(self._is_scaled(number, scaled, scale) for scale in scales)
            if scaled.at in cut:
                self.book.say(scaled, UNREAD, "table_cut")
            elif is_clear and is_known and not (is_other or scaled.sign):
                self._misses(number, scaled, best, kind)
            else:
                self._fits(number, scaled, best, kind)

    def _fits(self, number: CellNumber, scaled: CellNumber, scale: Fraction, kind: str) -> None:
        values = {"part": number.number.text}
        if kind == "share":
            values["whole"] = number_text(1 / scale)
        if self._is_scaled(number, scaled, scale):
            self.book.say(scaled, RIGHT, f"table_{kind}", **values)
        elif self._may_round(number, scaled, scale):
            self.book.say(scaled, UNREAD, "table_rounding")
        else:
            self.book.say(scaled, UNREAD, f"table_{kind}_other", **values)

    def _misses(self, number: CellNumber, scaled: CellNumber, scale: Fraction, kind: str) -> None:
        exact = self.book.value(number) * scale
        if self._may_round(number, scaled, scale):
            self.book.say(scaled, UNREAD, "table_rounding")
        else:
            self.book.slip(f"wrong_{kind}", scaled, exact, as_written(exact, scaled))

    def _is_scaled(self, number: CellNumber, scaled: CellNumber, scale: Fraction) -> bool:
        return is_rounding(scaled, self.book.value(number) * scale)

    def _may_round(self, number: CellNumber, scaled: CellNumber, scale: Fraction) -> bool:
        """Return whether a number may be the count at a scale before this was rounded."""
        if not sums.may_be_rounded(number):
            return False
        off = abs(self.book.value(number) * scale - scaled.value)
        return off <= number.number.place * scale + scaled.number.place


def is_rounding(number: CellNumber, exact: Fraction) -> bool:
    """Return whether a number is an exact value, rounded or cut off as it is written.

    Example:
        >>> from weighbridge.articles.tables.cells import read_cell
        >>> from weighbridge.articles.text.lines import Stretch
        >>> share = read_cell("21.4%", Stretch(1, 0, 5)).main
        >>> is_rounding(share, Fraction(23_440_896, 109_482_240))
        True
    """
    if number.sign in ("<", "＜"):
        return exact < number.value
    return number.number.fits(exact, rounded=True)


def _cut_off(pairs: Iterable[tuple[CellNumber, Fraction]]) -> set[Stretch]:
    """Return the numbers that are cut off, if others with them are clearly rounded."""
    rounded, cut = set(), set()
    for number, exact in pairs:
        off, place = exact - number.value, number.number.place
        if place < 2 * off < 2 * place:
            cut.add(number.at)
        elif -place <= 2 * off < 0:
            rounded.add(number.at)
    return cut if rounded else set()


def unit_of(number: CellNumber) -> Fraction:
    """Return the value of the unit of a number: a million for 3.5M.

    Example:
        >>> from weighbridge.articles.tables.cells import read_cell
        >>> from weighbridge.articles.text.lines import Stretch
        >>> unit_of(read_cell("3.5M", Stretch(1, 0, 4)).main)
        Fraction(1000000, 1)
    """
    written = Fraction(_digits_of(number).replace(",", ""))
    return number.value / written if written else Fraction(1)


def byte_scales(unit: Fraction) -> list[Fraction]:
    """Return what one parameter may add to a size in a unit, in the order of likelihood.

    Authors write MB for MiB.
    """
    scales = []
    for binary in (Fraction(1024**power, 1000**power) for power in (0, 1, 2, 3)):
        if binary == 1 or unit * binary in (1024, 1024**2, 1024**3):
            scales += [each / binary for each in _BYTES_EACH]
    return scales


def _digits_of(number: CellNumber) -> str:
    text = number.number.text
    return text.rstrip("".join(set(text) - set("0123456789.,")))


def as_written(value: Fraction, number: CellNumber) -> str:
    """Write a value with the unit and the decimals of another number.

    Example:
        >>> from weighbridge.articles.tables.cells import read_cell
        >>> from weighbridge.articles.text.lines import Stretch
        >>> as_written(Fraction(1234, 10_000), read_cell("15.3%", Stretch(1, 0, 5)).main)
        '12.3%'
    """
    digits = _digits_of(number)
    decimals = len(digits.partition(".")[2])
    written = f"{float(value / unit_of(number)):,.{decimals}f}"
    return f"{written}{number.number.text[len(digits) :]}"
