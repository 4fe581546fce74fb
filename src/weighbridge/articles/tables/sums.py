"""Compares a stated sum with the readings of the rows that it may add up.

A reading is a choice of rows and of how often each counts. If one of them gives the sum, it is
right. An error is claimed only if every row is read and no reading gives the sum.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.tables.cells import COUNT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from weighbridge.articles.tables.cells import CellNumber

MOST_ADDENDS = 400  # rows of one sum for which more than the plain readings are tried
_MOST_WINDOWS = 60  # rows of one sum for which each stretch of rows may be one layer
_LEAST_COUNT = 1000  # a smaller number in a table of components may be a size, such as 12 layers
_FACTOR = (
    2  # a sum that is further off from the rows is not a slip of digits; it counts other things
)
_LARGEST_SCALED = 10**40  # a difference that has no end as a decimal
ZERO = Fraction(0)


class Addend(NamedTuple):
    """A row of a sum: its number, None if it could not be read, and its value as corrected.

    ``times`` is how often its label or another column says that the row counts. A ``part`` is one
    of the row above it, a ``tied`` row shares its tensor with another one, and a ``layer`` row has
    what one layer has.
    """

    number: CellNumber | None
    label: str
    mended: Fraction
    times: Fraction = Fraction(1)
    part: bool = False
    tied: bool = False
    layer: bool = False
    is_sum: bool = False

    @property
    def value(self) -> Fraction:
        """The value as stated."""
        return self.number.value if self.number else ZERO


class SumReading(NamedTuple):
    """Rows that a sum may add up, each with how often it counts, and the reason to read it so.

    No error is claimed from a ``lenient`` reading: it explains a sum, and nothing else.
    """

    addends: tuple[tuple[Addend, Fraction], ...]
    reason: str = "table_sum"
    lenient: bool = False

    @classmethod
    def of(cls, addends: Iterable[Addend]) -> SumReading:
        """Return the reading in which each row counts once."""
        return cls(tuple((addend, Fraction(1)) for addend in addends))

    @property
    def rows(self) -> tuple[Addend, ...]:
        """The rows."""
        return tuple(addend for addend, _ in self.addends)

    @property
    def stated(self) -> Fraction:
        """The sum of the rows as they are stated."""
        return sum((addend.value * times for addend, times in self.addends), ZERO)

    @property
    def mended(self) -> Fraction:
        """The sum of the rows with errors in them corrected."""
        return sum((addend.mended * times for addend, times in self.addends), ZERO)

    @property
    def slack(self) -> Fraction:
        """How far the sum may be off because of rounded rows."""
        slack = ZERO
        for addend, times in self.addends:
            if addend.number and may_be_rounded(addend.number):
                slack += addend.number.number.place / 2 * times
        return slack

    @property
    def is_read(self) -> bool:
        """Whether the number of every row was read."""
        return all(addend.number for addend, _ in self.addends)


EXACT, LOOSE, ROUNDED = "exact", "loose", "rounded"
"""How a sum fits its rows: digit by digit, within the rounding of the rows, or itself rounded."""


def may_be_rounded(number: CellNumber) -> bool:
    """Return whether a number stands for others near it."""
    return number.number.rounded or number.number.place < 1


def how_it_fits(total: CellNumber, value: Fraction, slack: Fraction) -> str:
    """Return how a stated sum fits the sum of its rows; "" if it does not.

    Example:
        >>> from weighbridge.articles.tables.cells import read_cell
        >>> from weighbridge.articles.text.lines import Stretch
        >>> total = read_cell("109.5M", Stretch(1, 0, 6)).main
        >>> how_it_fits(total, Fraction(109_482_240), ZERO)
        'rounded'
        >>> how_it_fits(total, Fraction(109_400_000), ZERO)
        ''
    """
    if value == total.value:
        return EXACT
    if not (slack or may_be_rounded(total)):
        return ""
    lowest, highest = value - slack, value + slack
    fits = [total.number.fits(end, rounded=may_be_rounded(total)) for end in (lowest, highest)]
    if all(fits):
        return ROUNDED
    if any(fits):
        return LOOSE
    slack += total.number.place / 2 if may_be_rounded(total) else 0
    if slack and abs(value - total.value) <= slack:
        return LOOSE
    return ""


def is_near(stated: Fraction, value: Fraction) -> bool:
    """Return whether a stated number may be a slip for a value: near it, or one digit off.

    Example:
        >>> is_near(Fraction(909_482_240), Fraction(109_482_240))
        True
        >>> is_near(Fraction(12), Fraction(768))
        False
    """
    if stated <= 0 or value <= 0:
        return False
    if stated <= value * _FACTOR and value <= stated * _FACTOR:
        return True
    return is_one_digit_off(stated, value)


def is_one_digit_off(stated: Fraction, value: Fraction) -> bool:
    """Return whether one changed digit, in a number or in one that it adds, explains a difference.

    Example:
        >>> is_one_digit_off(Fraction(85_054_464), Fraction(85_154_464))
        True
        >>> is_one_digit_off(Fraction(85_054_464), Fraction(85_654_454))
        False
    """
    off = abs(stated - value)
    while off and off.denominator > 1:
        off *= 10
        if off.denominator > 1 and off > _LARGEST_SCALED:
            return False
    return len(str(off).rstrip("0")) == 1 and off > 0


def is_transposed(stated: Fraction, value: Fraction) -> bool:
    """Return whether two numbers have the same digits in another order.

    Example:
        >>> is_transposed(Fraction(109_482_204), Fraction(109_482_240))
        True
    """
    return stated != value and sorted(str(stated)) == sorted(str(value))


class StatedSum(NamedTuple):
    """A stated sum and its surroundings.

    ``block`` has the rows since the last sum, ``open`` the rows and sums that no sum contains,
    ``before`` all rows above that are no sums, and ``after`` the rows below. ``layers`` is the
    number of layers, 0 if it is not known.
    """

    total: CellNumber
    block: tuple[Addend, ...]
    open: tuple[Addend, ...]
    before: tuple[Addend, ...]
    after: tuple[Addend, ...]
    layers: int
    of_layer: bool = False
    """Whether it is called the sum of one layer."""

    @classmethod
    def of(cls, total: CellNumber, addends: Iterable[Addend]) -> StatedSum:
        """Return a sum of which only the rows are known."""
        above = tuple(addends)
        return cls(total, above, above, above, (), 0)

    def is_certain(self, nearest: SumReading, *, are_rows_known: bool = False) -> bool:
        """Return whether the sum must be wrong, if no reading gives it.

        A table may leave rows out, unless the sum is too small for that, a digit off, or its rows
        add up to a count of the article's model.
        """
        stated, rows = self.total.value, nearest.mended
        if nearest.slack and not may_be_rounded(self.total):
            return False
        if stated < _LEAST_COUNT and self.total.kind == COUNT:
            return False
        is_weighted = any(addend.times != 1 or addend.tied for addend in self.open)
        if is_weighted or (stated > rows and not are_rows_known):
            return is_one_digit_off(stated, rows) or is_transposed(stated, rows)
        return is_near(stated, rows)

    def readings(self) -> Iterator[SumReading]:
        """Yield the readings, the most natural first."""
        bases = self.plain()
        yield from bases
        for base in bases:
            if len(base.addends) <= MOST_ADDENDS:
                yield from self._weighted(base)
                yield from self._lenient(base)
        if len(self.after) > 1:
            yield SumReading.of(self.after)._replace(lenient=True)

    def plain(self) -> list[SumReading]:
        """Return the readings that an error may be claimed from."""
        above = [self.open, self.block, self.before]
        if not self.before:
            above = [self.after]
        choices: dict[tuple[Addend, ...], None] = {}
        for addends in above:
            choices.update(dict.fromkeys(self._choices(addends)))
        return [SumReading.of(choice) for choice in choices if len(choice) > 1]

    def _choices(self, addends: tuple[Addend, ...]) -> Iterator[tuple[Addend, ...]]:
        """Yield the rows among some that a sum may add up, each once."""
        if len(addends) > MOST_ADDENDS:
            yield addends
            return
        yield tuple(addend for addend in addends if addend.layer and self.of_layer)
        yield addends
        yield tuple(addend for addend in addends if not addend.part)
        yield tuple(addend for addend in addends if abs(addend.value) >= _LEAST_COUNT)
        yield _without_parents(addends)

    def nearest(self) -> SumReading | None:
        """Return the reading that is nearest to the stated sum, of those to claim an error from."""
        readings = self.plain()
        for base in self.plain():
            if len(base.addends) <= MOST_ADDENDS:
                readings += self._weighted(base)
                readings += self._untied(base)
        stated = self.total.value
        return min(readings, key=lambda reading: abs(reading.mended - stated), default=None)

    def _weighted(self, base: SumReading) -> Iterator[SumReading]:
        """Yield readings in which rows count as often as they say, or once for each layer."""
        addends = [addend for addend, _ in base.addends]
        if any(addend.times != 1 for addend in addends):
            yield SumReading(tuple((addend, addend.times) for addend in addends), "table_sum_times")
        if self.layers > 1:
            yield SumReading(
                tuple((addend, Fraction(self.layers)) for addend in addends), "table_sum_times"
            )

    def _lenient(self, base: SumReading) -> Iterator[SumReading]:
        """Yield readings that leave rows out, or of which a stretch is one layer."""
        yield from self._untied(base)
        addends = base.addends
        missing = self.total.value - base.stated
        for position, (addend, times) in enumerate(addends):
            if addend.value * times == -missing != 0 and len(addends) > 2:
                others = (*addends[:position], *addends[position + 1 :])
                yield SumReading(others, "table_sum_some", lenient=True)
        last_rows = ZERO
        for start in range(len(addends) - 1, 0, -1):
            addend, times = addends[start]
            last_rows += addend.value * times
            if last_rows == self.total.value and start < len(addends) - 1:
                yield SumReading(addends[start:], "table_sum_some", lenient=True)
        if self.layers > 1 and len(addends) <= _MOST_WINDOWS:
            yield from self._repeated(base, missing)

    def _untied(self, base: SumReading) -> Iterator[SumReading]:
        """Yield the reading without shared tensors, if there are any."""
        untied = tuple(item for item in base.addends if not item[0].tied)
        if 1 < len(untied) < len(base.addends):
            yield SumReading(untied, "table_sum_tied")

    def _repeated(self, base: SumReading, missing: Fraction) -> Iterator[SumReading]:
        """Yield readings in which a stretch of rows counts once for each layer."""
        more = missing / (self.layers - 1)
        for start in range(len(base.addends)):
            stretch = ZERO
            for end in range(start, len(base.addends)):
                stretch += base.addends[end][0].value
                if stretch == more:
                    repeated = [
                        (addend, times * self.layers)
                        for addend, times in base.addends[start : end + 1]
                    ]
                    addends = (*base.addends[:start], *repeated, *base.addends[end + 1 :])
                    yield SumReading(addends, "table_sum_times", lenient=True)


def _without_parents(addends: Sequence[Addend]) -> tuple[Addend, ...]:
    """Return rows without those that equal the sum of rows right below or above them."""
    covered = parents(addends)
    return tuple(addend for position, addend in enumerate(addends) if position not in covered)


def parents(addends: Sequence[Addend]) -> dict[int, range]:
    """Return the rows that are the sum of the rows below or above them, and which rows these are.

    Example:
        >>> from weighbridge.articles.tables.cells import read_cell
        >>> from weighbridge.articles.text.lines import Stretch
        >>> texts = ("3,000", "1,000", "2,000")
        >>> numbers = [read_cell(text, Stretch(1, 0, 5)).main for text in texts]
        >>> parents([Addend(number, "", number.value) for number in numbers])
        {0: range(1, 3)}
    """
    covered: dict[int, range] = {}
    if len(addends) > MOST_ADDENDS:
        return covered
    sums = [ZERO]
    for addend in addends:
        sums.append(sums[-1] + addend.value)
    places = {value: position for position, value in enumerate(sums)}
    for position, addend in enumerate(addends):
        value = addend.value
        if value < _LEAST_COUNT:
            continue
        below = places.get(sums[position + 1] + value, 0)
        above = places.get(sums[position] - value, len(addends))
        if below > position + 2:
            covered[position] = range(position + 1, below)
        elif above < position - 1:
            covered[position] = range(above, position)
    return covered


def to_blame(
    reading: SumReading, total: CellNumber, supports: Callable[[CellNumber, Fraction], bool]
) -> tuple[CellNumber, Fraction] | None:
    """Return the one row that is to blame for a sum that does not fit, and its correct value.

    ``supports`` tells whether something else in the article gives a value to a row.
    """
    blamed = []
    missing = total.value - reading.stated
    for addend, times in reading.addends:
        number = addend.number
        if number is None or may_be_rounded(number) or may_be_rounded(total):
            continue
        needed = addend.value + missing / times
        if needed > 0 and supports(number, needed):
            blamed.append((number, needed))
    if len(blamed) == 1:
        return blamed[0]
    return None
