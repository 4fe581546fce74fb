"""Checks the counts, totals and sizes in a summary of a model, as torchinfo and Keras write it."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from weighbridge.articles.tables import sums
from weighbridge.articles.tables.shares import as_written, byte_scales, is_rounding, unit_of
from weighbridge.articles.text.exact import number_text
from weighbridge.articles.text.lines import KNOWN, RIGHT, SIZE, UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.articles.printouts.lines import PrintedModule, Printout
    from weighbridge.articles.tables.book import Book
    from weighbridge.articles.tables.cells import CellNumber

_MEGABYTE = Fraction(10**6)
_LEAST_SIBLINGS = 2  # modules of one class with the same count, for another to be a slip
_SIZES = ("input_size", "pass_size", "params_size")


class SummaryCheck:
    """The check of one summary."""

    def __init__(self, printout: Printout, module_counts: Mapping[str, int], book: Book) -> None:
        self.printout, self.book = printout, book
        self.model_counts = set(module_counts.values())
        self.rows: list[tuple[PrintedModule, CellNumber]] = []
        self.same: Counter[tuple[str, Fraction]] = Counter()
        """How many modules of a class have the same count."""
        for module in printout.modules:
            if module.parameters:
                self.rows.append((module, module.parameters))
                self.same[module.kind, module.parameters.value] += 1

    def run(self) -> None:
        """Check the sum, what is trained of it, the sizes in bytes, and the columns."""
        total = self._number("total")
        if total:
            self._check_sum(total)
            self._check_trainable(total)
            self._check_sizes(total)
            self._check_operations()
            self._check_shares(total)
        for module, count in self.rows:
            if not self.book.verdict(count) and int(count.value) in self.model_counts:
                self.book.say(count, KNOWN, "printout_module", kind=module.kind)
        self._leave_the_rest()

    def _number(self, name: str) -> CellNumber | None:
        """Return the number of a line below the summary; None if there is no such line."""
        return next(iter(self.printout.totals.get(name, ())), None)

    # The sum

    def _check_sum(self, total: CellNumber) -> None:
        readings = [reading for reading in self._readings() if reading.addends]
        for reading in readings:
            if reading.stated == total.value:
                self._say_sum(total, reading)
                return
        blamed = readings and sums.to_blame(readings[0], total, self._supports)
        if blamed:
            number, needed = blamed
            self.book.slip("wrong_row", number, needed)
            reading = readings[0]
            rows = str(len(reading.addends))
            self.book.say(total, RIGHT, "table_sum", rows=rows, sum=total.number.text)
        elif readings and self._is_wrong(total, readings[0].stated):
            self.book.slip("wrong_sum", total, readings[0].stated)
        else:
            self.book.say(total, UNREAD, "printout_rows")

    def _readings(self) -> Iterator[sums.SumReading]:
        """Yield the rows that may add up to the total: all, or those without rows below them."""
        yield sums.SumReading.of(_addend(module, count) for module, count in self.rows)
        leaves = []
        for position, (module, count) in enumerate(self.rows):
            after = self.rows[position + 1 : position + 2]
            if not after or after[0][0].depth <= module.depth:
                leaves.append(_addend(module, count))
        yield sums.SumReading.of(leaves)

    def _say_sum(self, total: CellNumber, reading: sums.SumReading) -> None:
        rows = str(len(reading.addends))
        self.book.say(total, RIGHT, "table_sum", rows=rows, sum=total.number.text)
        for addend in reading.rows:
            if addend.number:
                self.book.say(addend.number, RIGHT, "table_addend", line=str(total.at.line))

    def _supports(self, number: CellNumber, needed: Fraction) -> bool:
        """Return whether something besides the sum gives a row another count."""
        for module, count in self.rows:
            if count is not number:
                continue
            siblings = self.same[module.kind, needed]
            if siblings >= _LEAST_SIBLINGS > self.same[module.kind, count.value]:
                return True
            if _fits_shape(module, needed) and not _fits_shape(module, count.value):
                return True
            is_model = int(needed) in self.model_counts
            return is_model and int(count.value) not in self.model_counts
        return False

    def _is_wrong(self, total: CellNumber, rows: Fraction) -> bool:
        """Return whether a total must be wrong, if the rows do not add up to it."""
        if sums.is_one_digit_off(total.value, rows) or sums.is_transposed(total.value, rows):
            return True
        trainable, frozen = self._number("trainable"), self._number("frozen")
        return bool(trainable and frozen and trainable.value + frozen.value == rows)

    def _check_trainable(self, total: CellNumber) -> None:
        """Check that the trainable and the other parameters add up to the total."""
        trainable, frozen = self._number("trainable"), self._number("frozen")
        if trainable is None or frozen is None:
            return
        whole = self.book.value(total)
        rows = {"rows": "2", "sum": number_text(whole)}
        if trainable.value + frozen.value == whole:
            self.book.say(total, RIGHT, "table_sum", **rows)
            for number in (trainable, frozen):
                self.book.say(number, RIGHT, "table_addend", line=str(total.at.line))
        elif self.book.verdict(total) != RIGHT:
            return
        elif trainable.value == whole:
            self.book.slip("wrong_row", frozen, whole - trainable.value)
        else:
            self.book.slip("wrong_row", trainable, whole - frozen.value)

    # Sizes in bytes, operations and shares

    def _check_sizes(self, total: CellNumber) -> None:
        """Check the sizes in brackets behind totals, and those in lines of their own."""
        for numbers in self.printout.totals.values():
            for size in numbers[1:]:
                self._check_size(numbers[0], size, Fraction(1), unit_of(size))
        params_size = self._number("params_size")
        if params_size:
            self._check_size(total, params_size, _MEGABYTE, _MEGABYTE)
        parts, whole = [self._number(name) for name in _SIZES], self._number("total_size")
        addends = [sums.Addend(part, "", self.book.value(part)) for part in parts if part]
        if whole and len(addends) == len(_SIZES):
            self._check_total_size(whole, sums.SumReading.of(addends))

    def _check_size(
        self, number: CellNumber, size: CellNumber, scale: Fraction, unit: Fraction
    ) -> None:
        """Check a size in bytes, at any width of a parameter; ``scale`` is that of its line."""
        exact = self.book.value(number) / scale
        for each in byte_scales(unit):
            if as_written(exact * each, size) == size.number.text:
                self.book.say(size, RIGHT, "table_bytes", part=number.number.text)
                return
        for each in byte_scales(unit):
            correct = as_written(exact * each, size)
            if self.book.verdict(number) == RIGHT and _is_slip_of(size.number.text, correct):
                self.book.slip("wrong_bytes", size, exact * each, correct)
                return
        self.book.say(size, UNREAD, "table_bytes_other", part=number.number.text)

    def _check_total_size(self, whole: CellNumber, reading: sums.SumReading) -> None:
        if reading.stated == whole.value:
            self._say_sum(whole, reading)
        elif reading.mended == whole.value:
            self.book.say(whole, RIGHT, "table_sum", rows="3", sum=number_text(reading.mended))
        elif abs(reading.stated - whole.value) <= 2 * reading.slack:
            self.book.say(whole, UNREAD, "table_rounding")
        elif _is_slip_of(whole.number.text, as_written(reading.stated, whole)):
            self.book.slip("wrong_sum", whole, reading.stated, as_written(reading.stated, whole))

    def _check_operations(self) -> None:
        """Check the sum of the operations, if the rows have them."""
        total, title = self._number("operations"), "Mult-Adds"
        rows = [module.columns[title] for module, _ in self.rows if title in module.columns]
        for number in rows:
            self.book.say(number, UNREAD, "printout_operations")
        whole = sum((number.value for number in rows), Fraction(0))
        if total is None or not rows:
            return
        if any(is_rounding(total, whole / 1000**power) for power in range(5)):
            self.book.say(total, RIGHT, "table_sum", rows=str(len(rows)), sum=number_text(whole))

    def _check_shares(self, total: CellNumber) -> None:
        """Check the column of shares."""
        whole = self.book.value(total)
        for module, count in self.rows:
            share = module.columns.get("Param %")
            if share is None or self.book.verdict(count) != RIGHT:
                continue
            values = {"part": count.number.text, "whole": number_text(whole)}
            exact = count.value / whole
            if as_written(exact, share) == share.number.text:
                self.book.say(share, RIGHT, "table_share", **values)
            elif is_rounding(share, exact):
                self.book.say(share, UNREAD, "table_cut")
            else:
                self.book.slip("wrong_share", share, exact, as_written(exact, share))

    def _leave_the_rest(self) -> None:
        """Say what the remaining numbers are, or that nothing checks them."""
        for module in self.printout.modules:
            for number in module.shape:
                self.book.say(number, SIZE, "printout_output")
            for number in module.columns.values():
                self.book.say(number, UNREAD, "table_unchecked")
            if module.parameters:
                self.book.say(module.parameters, UNREAD, "table_unchecked")
        for numbers in self.printout.totals.values():
            for number in numbers:
                self.book.say(number, UNREAD, "table_unchecked")


def _addend(module: PrintedModule, count: CellNumber) -> sums.Addend:
    return sums.Addend(count, module.kind, count.value)


def _fits_shape(module: PrintedModule, count: Fraction) -> bool:
    """Return whether a count may be that of a module with an output of its shape."""
    sizes = [int(number.value) for number in module.shape]
    if not sizes or not sizes[-1]:
        return False
    if "Norm" in module.kind:
        return count == 2 * sizes[-1]
    if module.kind.startswith(("Linear", "Dense", "Embedding")):
        return count % sizes[-1] == 0
    return False


def _is_slip_of(text: str, correct: str) -> bool:
    """Return whether a text differs from another in one sign, or in the order of its signs."""
    if len(text) != len(correct) or text == correct:
        return False
    return sum(map(str.__ne__, text, correct)) == 1 or sorted(text) == sorted(correct)
