"""Checks the rows of a table: calculations, shapes and products beside counts."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING

from weighbridge.articles.tables import cells, sums
from weighbridge.articles.tables.cells import COUNT
from weighbridge.articles.tables.grid import LEAST_SUM, is_sum
from weighbridge.articles.text import terms
from weighbridge.articles.text.lines import RIGHT, UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.articles.tables.cells import CellNumber, TableCell
    from weighbridge.articles.tables.grid import TableGrid


_MOST_COLUMNS = 12  # among which products are looked for
_MOST_EXAMPLES = 200  # rows that show what the columns of a table mean
_LEAST_HITS = 2  # rows and titles that show that a column is a product
_LEAST_DIMENSION = 32  # of a matrix; a smaller factor is how many there are
_MOST_MATRICES = 64  # of one shape that a row counts together


class RowCheck:
    """The check of the rows of a table."""

    def __init__(self, grid: TableGrid) -> None:
        self.grid, self.book = grid, grid.book

    def run(self) -> None:
        """Check each row by itself."""
        self._check_restated()
        self._check_formulas()
        self._check_products()

    def _check_restated(self) -> None:
        """Check counts that are repeated in brackets: 23,440,896 (23.4M)."""
        for row in self.grid.rows:
            for cell in row:
                for other in cell.others:
                    if cell.main and other.kind == cell.main.kind == COUNT:
                        self._check_again(cell.main, other)

    def _check_again(self, number: CellNumber, other: CellNumber) -> None:
        exact, rounded = sorted((number, other), key=lambda item: item.number.place)
        if not sums.may_be_rounded(rounded):
            return
        if sums.how_it_fits(rounded, exact.value, Fraction(0)):
            self.book.say(rounded, RIGHT, "table_rounds", exact=exact.number.text)
        elif sums.is_near(rounded.value, exact.value) and not sums.may_be_rounded(exact):
            self.book.say(rounded, UNREAD, "table_row")

    def _check_formulas(self) -> None:
        """Check calculations against the counts beside them."""
        doubts: list[tuple[int, int, TableCell, CellNumber, Fraction]] = []
        proved: dict[tuple[int, int], int] = {}
        for position, row in enumerate(self.grid.rows):
            for column, cell in enumerate(map(self._with_letter, row, self.grid.titles)):
                if not cell.formula:
                    continue
                target, count = self._beside(position, column)
                value = cells.calculated_value(cell, self.grid.sizes)
                if count is None:
                    continue
                if value is None:
                    self.book.leave(count.at)
                elif self._explains(position, cell, value, count):
                    proved[column, target] = proved.get((column, target), 0) + 1
                else:
                    doubts.append((column, target, cell, count, value))
        for column, target, cell, count, value in doubts:
            is_calculation = self._is_calculation(column, target, proved)
            self._doubt(cell, count, value, is_calculation=is_calculation)

    def _with_letter(self, cell: TableCell, title: str) -> TableCell:
        """Return a cell with its letter as a formula, in a column of shapes or formulas."""
        is_column = cells.names_one(title, "shapes") or cells.names_one(title, "formulas")
        if cell.is_text and is_column and terms.config_field_of(cell.text):
            return cell._replace(formula=cell.text)
        return cell

    def _beside(self, position: int, column: int) -> tuple[int, CellNumber | None]:
        """Return the count that a formula calculates, with its column: behind it, or before it."""
        own = self.grid.rows[position][column].main
        if own:
            return column, own
        counts = [
            item
            for item in self.grid.counts(position)
            if not self.grid.rows[position][item[0]].formula
        ]
        named = [item for item in counts if self.grid.is_named(item[0], "counts")]
        behind = [item for item in named or counts if item[0] > column]
        nearest = behind[:1] or (named or counts)[-1:]
        return nearest[0] if nearest else (column, None)

    def _is_calculation(
        self, column: int, target: int, proved: Mapping[tuple[int, int], int]
    ) -> bool:
        """Return whether a column's formulas calculate the counts of another one."""
        if column == target or self.grid.is_named(column, "formulas"):
            return True
        return proved.get((column, target), 0) > 0 and not self.grid.is_named(column, "shapes")

    def _explains(self, position: int, cell: TableCell, value: Fraction, count: CellNumber) -> bool:
        """Return whether a formula gives a count, perhaps times a number of the row."""
        for candidate, reason in self._meanings(position, cell, value, count):
            if not candidate or not sums.how_it_fits(count, candidate, Fraction(0)):
                continue
            if reason == "table_bias":
                self.book.say(count, UNREAD, reason, formula=cell.formula)
                self._take_formula(cell, UNREAD, "table_row")
                self.book.take(count.at)
                return True
            self.book.say(count, RIGHT, reason, formula=cell.formula)
            if not sums.may_be_rounded(count):
                self._take_formula(cell, RIGHT, "table_operand", result=count.number.text)
            return True
        return False

    def _take_formula(self, cell: TableCell, verdict: str, reason: str, **values: str) -> None:
        """Take the cell of a formula, and give the numbers in it a verdict."""
        self.book.take(cell.at)
        for number in cells.operands(cell):
            self.book.say(number, verdict, reason, **values)

    def _meanings(
        self, position: int, cell: TableCell, value: Fraction, count: CellNumber
    ) -> Iterator[tuple[Fraction, str]]:
        """Yield the values that a row with a formula may state."""
        yield value, "table_formula"
        factors = [number.value for _, number in self.grid.counts(position) if number is not count]
        factors += [
            Fraction(self.grid.layers),
            Fraction(cells.times_in(self.grid.label(position))),
        ]
        factors = [factor for factor in factors if 1 < factor <= LEAST_SUM]
        if cell.is_shape and self._is_matrix(position, cell):
            for bias in cells.shape_dims(cell) or _factors(cell.formula):
                yield value + bias, "table_bias"
                yield from (((value + bias) * factor, "table_bias") for factor in factors)
        yield from ((value * factor, "table_formula") for factor in factors)
        if cell.is_shape and self._is_matrix(position, cell):
            times = count.value / value
            if times.denominator == 1 and times <= _MOST_MATRICES:
                yield count.value, "table_multiple"

    def _is_matrix(self, position: int, cell: TableCell) -> bool:
        """Return whether a formula is the shape of a matrix, of which a row may count several."""
        dims = cells.shape_dims(cell) or _factors(cell.formula)
        column = [other.at for other in self.grid.rows[position]].index(cell.at)
        is_large = len(dims) == 2 and min(dims) >= _LEAST_DIMENSION
        return is_large and not self.grid.is_named(column, "formulas")

    def _doubt(
        self, cell: TableCell, count: CellNumber, value: Fraction, *, is_calculation: bool
    ) -> None:
        """Claim that a count is wrong, if its formula can only mean another one."""
        if cells.has_letters(cell):
            self.book.leave(count.at)
            return
        if is_calculation and sums.is_near(count.value, value):
            self.book.slip("wrong_row", count, value)
        else:
            self.book.say(count, UNREAD, "table_row")
            self.book.take(count.at)
        self._take_formula(cell, UNREAD, "table_row")

    def _check_products(self) -> None:
        """Check "one of them | how many | all of them"."""
        roles = self._product_columns()
        if roles is None:
            return
        each, number, both = roles
        self.grid.products[both] = (each, number)
        for row in range(len(self.grid.rows)):
            numbers = [self.grid.main(row, column) for column in roles]
            if all(numbers):
                self._check_product(*numbers)  # type: ignore[arg-type]

    def _product_columns(self) -> tuple[int, int, int] | None:
        """Return the columns of one, of how many and of their product, if the table has them."""
        hits: Counter[tuple[int, int, int]] = Counter()
        for row in range(min(len(self.grid.rows), _MOST_EXAMPLES)):
            hits.update(self._products_in(row))
        for each, number, both in hits:
            names = self.grid.is_named(each, "each") + self.grid.is_named(number, "numbers")
            hits[each, number, both] += names + is_sum(self.grid.table.title(both))
        columns, most = max(hits.items(), key=itemgetter(1), default=(None, 0))
        return columns if most >= _LEAST_HITS else None

    def _products_in(self, row: int) -> Iterator[tuple[int, int, int]]:
        """Yield the columns of which one is the product of the other two, and not trivially."""
        counts = self.grid.counts(row)
        if len(counts) > _MOST_COLUMNS:
            return
        numbers = [item for item in counts if 1 < item[1].value <= LEAST_SUM]
        products = [item for item in counts if item[1].value >= LEAST_SUM]
        for (number, times), (each, one) in product(numbers, counts):
            if number == each or sums.may_be_rounded(times):
                continue
            for column, both in products:
                value = one.value * times.value
                if column != each and sums.how_it_fits(both, value, Fraction(0)):
                    yield each, number, column

    def _check_product(self, one: CellNumber, times: CellNumber, both: CellNumber) -> None:
        value = self.book.value(one) * times.value
        slack = one.number.place / 2 * times.value if sums.may_be_rounded(one) else Fraction(0)
        factors = {"each": one.number.text, "times": times.number.text}
        how = sums.how_it_fits(both, one.value * times.value, slack)
        if how in (sums.EXACT, sums.ROUNDED):
            if value != one.value * times.value:
                self.book.follow(both, [one], value)
                return
            self.book.say(both, RIGHT, "table_product", **factors)
            if how == sums.EXACT:
                self.book.say(one, RIGHT, "table_factor", product=both.number.text)
                self.book.say(times, RIGHT, "table_factor", product=both.number.text)
        elif both.value == value:
            self.book.say(both, RIGHT, "table_product", **factors)
        elif how or not sums.is_near(both.value, value) or both.value == one.value:
            self.book.say(both, UNREAD, "table_row")
        else:
            self.book.slip("wrong_product", both, value)


def _factors(formula: str) -> tuple[int, ...]:
    """Return the factors of a product of numbers, such as 768 × 3072."""
    digits = [cells.without_commas(factor) for factor in cells.split_factors(formula)]
    if all(map(str.isdigit, digits)):
        return tuple(map(int, digits))
    return ()
