"""Checks printouts of models: torchinfo, torchsummary, Keras, ``print(model)``, lists of shapes.

A printout is checked by itself: its sums, its sizes in bytes, its repetitions. With the ledger of
the article's model, its shapes are compared with the model's. A difference is a slip only if the
printout clearly is of that model and contradicts itself; a printout of another model has none.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

from weighbridge.articles.printouts.forms import read_printouts
from weighbridge.articles.printouts.lines import CALL, LISTING, SUMMARY, TREE, Printout, tensors_of
from weighbridge.articles.printouts.sums import SummaryCheck
from weighbridge.articles.tables.book import Book, TableFindings
from weighbridge.articles.text.lines import BOILERPLATE, KNOWN, RIGHT, SIZE, UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weighbridge.articles.printouts.lines import PrintedModule
    from weighbridge.articles.tables.cells import CellNumber
    from weighbridge.articles.text.lines import ArticleLine
    from weighbridge.ledger.ledger import Ledger

__all__ = ["check_printouts", "read_printouts"]

_LEAST_AGREEING = 0.9  # of the shapes in a printout, for it to be one of the model
_LEAST_REPEATED = 2  # times that a printout has the right size elsewhere, for another to be a slip


def check_printouts(lines: Sequence[ArticleLine], ledger: Ledger | None) -> TableFindings:
    """Check the printouts in an article.

    Args:
        lines: the lines, without markup.
        ledger: the ledger of the article's model; None if it is not known.

    Example:
        >>> from weighbridge.articles.text.lines import ArticleLine
        >>> text = "Layer (type)    Param #;Linear: 1-1    1,000;Total params: 1,001"
        >>> lines = [ArticleLine(n, line) for n, line in enumerate(text.split(";"), start=1)]
        >>> [(slip.stated, slip.correct) for slip in check_printouts(lines, None).slips]
        [('1,001', '1,000')]
    """
    book = Book({line.number: line.text for line in lines})
    shapes = Shapes(ledger)
    for printout in read_printouts(lines):
        if printout.form == SUMMARY:
            SummaryCheck(printout, shapes.module_counts, book).run()
        elif printout.form == CALL:
            _check_call(printout, ledger, book)
        elif printout.form in (TREE, LISTING):
            ShapeCheck(printout, shapes, book).run()
        _leave_aside(printout, book)
    return book.findings()


class Shapes:
    """The shapes of the tensors of a model, by their names, and the counts of its modules."""

    def __init__(self, ledger: Ledger | None) -> None:
        self.class_name = ""
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._by_end: dict[str, tuple[int, ...]] = {}
        self.module_counts: Counter[str] = Counter()
        if ledger is None:
            return
        self.class_name = ledger.class_name
        for row in ledger.rows:
            self._shapes[row.name] = row.shape
            self._by_end[row.name.partition(".")[2]] = row.shape
            parts = row.name.split(".")
            for length in range(len(parts)):
                self.module_counts[".".join(parts[:length])] += prod(row.shape)

    def of(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor; the prefix of a base model may be there or not."""
        _, _, end = name.partition(".")
        for shapes, key in ((self._shapes, name), (self._by_end, name), (self._shapes, end)):
            if key in shapes:
                return shapes[key]
        return None


class ShapeCheck:
    """The check of the shapes in a printout."""

    def __init__(self, printout: Printout, shapes: Shapes, book: Book) -> None:
        self.printout, self.shapes, self.book = printout, shapes, book
        self.stated: Counter[int] = Counter()
        """How often each size stands in the printout."""

    def run(self) -> None:
        """Check repetitions, then sizes against the model or one another."""
        compared: list[tuple[CellNumber, int, str]] = []
        for module in self.printout.modules:
            self._check_times(module)
            self._check_count(module)
            self.stated.update(int(number.value) for number in _sizes_in(module))
            compared += self._compared(module)
        agreeing = sum(number.value == expected for number, expected, _ in compared)
        is_model = bool(compared) and agreeing >= _LEAST_AGREEING * len(compared)
        if is_model:
            for number, expected, name in compared:
                self._compare(number, expected, name)
        for module in self.printout.modules:
            for number in _sizes_in(module):
                self._say_size(number)

    def _check_times(self, module: PrintedModule) -> None:
        """Check a line such as "(0-11): 12 x BertLayer(" for its number."""
        times = module.arguments.get("times")
        if times is None:
            return
        numbers = [int(number.value) for number in module.indices]
        if len(numbers) == 2 and numbers[1] - numbers[0] + 1 != times.value:
            self.book.slip("wrong_times", times, Fraction(numbers[1] - numbers[0] + 1))
        else:
            self.book.say(times, RIGHT, "printout_times")

    def _check_count(self, module: PrintedModule) -> None:
        """Check the number of elements behind a shape."""
        if module.parameters is None or not module.shape:
            return
        product = Fraction(1)
        for number in module.shape:
            product *= number.value
        shape = ", ".join(number.number.text for number in module.shape)
        if product != module.parameters.value:
            self.book.slip("wrong_row", module.parameters, product)
            for number in module.shape:
                self.book.say(number, UNREAD, "table_row")
            return
        self.book.say(module.parameters, RIGHT, "table_formula", formula=f"({shape})")
        for number in module.shape:
            self.book.say(number, RIGHT, "table_operand", result=module.parameters.number.text)

    def _compared(self, module: PrintedModule) -> Iterator[tuple[CellNumber, int, str]]:
        """Yield each size of a module with the one of the model, and the name of the tensor."""
        for name, numbers in self._tensors(module).items():
            shape = self.shapes.of(name)
            if shape and len(shape) == len(numbers):
                for number, dim in zip(numbers, shape, strict=True):
                    yield number, dim, name

    def _tensors(self, module: PrintedModule) -> dict[str, tuple[CellNumber, ...]]:
        """Return the tensors of a line with their sizes."""
        if self.printout.form == LISTING:
            return {module.name: module.shape}
        tensors = {}
        first = ".".join(part.partition("-")[0] for part in module.name.split("."))
        for tensor, keys in tensors_of(module.kind).items():
            numbers = [module.arguments[key] for key in keys if key in module.arguments]
            tensors[f"{first}.{tensor}"] = tuple(numbers)
        return tensors

    def _compare(self, number: CellNumber, expected: int, name: str) -> None:
        """Compare a size with the model's."""
        if number.value == expected:
            self.book.say(number, RIGHT, "printout_shape", tensor=name)
            return
        is_same_class = self.printout.class_name in ("", self.shapes.class_name)
        is_repeated = self.stated[expected] >= _LEAST_REPEATED
        if is_same_class and is_repeated and self.stated[int(number.value)] == 1:
            self.book.slip("wrong_shape", number, Fraction(expected))
        else:
            self.book.say(number, UNREAD, "printout_other", tensor=name, size=str(expected))

    def _say_size(self, number: CellNumber) -> None:
        """Say of a size that is compared with nothing whether the printout repeats it."""
        if self.book.verdict(number):
            return
        hidden = self.printout.sizes.get("hidden_size", 0)
        is_stated = int(number.value) in self.printout.sizes.values()
        is_fused = hidden > 1 and int(number.value) in (2 * hidden, 3 * hidden)
        if is_stated or is_fused or self.stated[int(number.value)] >= _LEAST_REPEATED:
            self.book.say(number, SIZE, "printout_size")
        else:
            self.book.say(number, UNREAD, "printout_alone")


def _sizes_in(module: PrintedModule) -> Iterator[CellNumber]:
    """Yield the sizes that a line states."""
    yield from module.shape
    for key, number in module.arguments.items():
        if key != "times":
            yield number


def _check_call(printout: Printout, ledger: Ledger | None, book: Book) -> None:
    """Check the result of ``num_parameters()``."""
    for number in printout.totals["total"]:
        if ledger and number.value == ledger.parameters:
            book.say(number, RIGHT, "printout_total", name=ledger.class_name)
        elif ledger and number.value == ledger.parameters + ledger.tied:
            book.say(number, KNOWN, "printout_tied", name=ledger.class_name)
        else:
            book.say(number, UNREAD, "printout_call")


def _leave_aside(printout: Printout, book: Book) -> None:
    """Say of numbers of modules and settings that they count nothing."""
    for module in printout.modules:
        for number in module.indices:
            book.say(number, BOILERPLATE, "printout_index")
        for number in module.settings:
            book.say(number, BOILERPLATE, "printout_setting")
