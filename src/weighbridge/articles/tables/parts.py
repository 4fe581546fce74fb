"""Checks rows of a table that belong together: a layer and all layers, a whole and its parts."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from weighbridge.articles.tables import cells, sums
from weighbridge.articles.tables.grid import LEAST_SUM
from weighbridge.articles.text.lines import RIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from weighbridge.articles.tables.book import Book
    from weighbridge.articles.tables.cells import CellNumber

_MOST_ABOVE = 6  # rows above a row such as "12 layers" of which one may be the layer


def check_layers(
    row: sums.Addend, above: Sequence[sums.Addend], layers: int, book: Book
) -> tuple[sums.Addend, ...]:
    """Check a row such as "12 layers" against the row above it that has one layer.

    Return that row, which the next sum does not contain.
    """
    stated = cells.times_in(row.label)
    times = stated or layers
    if row.number is None or times <= 1:
        return ()
    for addend in reversed(above[-_MOST_ABOVE:]):
        one = addend.number
        if one is None or addend.value < LEAST_SUM:
            continue
        is_one = addend.layer and (addend.is_sum or addend is above[-1])
        if _is_product(row.number, addend, times, book):
            return (addend,)
        if is_one and stated and _miscounts_layers(row.number, one, times, book):
            return (addend,)
    return ()


def _is_product(number: CellNumber, addend: sums.Addend, times: int, book: Book) -> bool:
    """Return whether a number is a row so many times, and say so."""
    one = addend.number
    product, mended = addend.value * times, addend.mended * times
    if one is None or number.value not in (product, mended):
        return False
    if number.value != mended:
        book.follow(number, [one], mended)
        return True
    book.say(number, RIGHT, "table_product", each=one.number.text, times=str(times))
    if product == mended:
        book.say(one, RIGHT, "table_factor", product=number.number.text)
    return True


def _miscounts_layers(number: CellNumber, one: CellNumber, times: int, book: Book) -> bool:
    """Claim that a row is not so many times the one of a layer; the smaller change mends it."""
    product = book.value(one) * times
    is_any_rounded = sums.may_be_rounded(number) or sums.may_be_rounded(one)
    if is_any_rounded or not sums.is_near(number.value, product):
        return False
    if sums.is_one_digit_off(one.value, number.value / times) and not book.verdict(one):
        book.slip("wrong_row", one, number.value / times)
    else:
        book.slip("wrong_product", number, product)
    return True


def check_parents(addends: Sequence[sums.Addend], book: Book) -> None:
    """Say of rows that equal the sum of the rows below or above them that they are right."""
    for position, covered in sums.parents(addends).items():
        family = [addends[member].number for member in (position, *covered)]
        parent, *children = [
            number for number in family if number and not sums.may_be_rounded(number)
        ]
        if len(children) < len(covered):
            continue
        rows = str(len(children))
        book.say(parent, RIGHT, "table_sum", rows=rows, sum=parent.number.text)
        for child in children:
            book.say(child, RIGHT, "table_addend", line=str(parent.at.line))


def check_parts(addends: Sequence[sums.Addend], book: Book) -> None:
    """Find the one part to blame, if parts do not add up to the right row above them."""
    for position, addend in enumerate(addends):
        whole = addend.number
        if addend.part or whole is None or book.verdict(whole) != RIGHT:
            continue
        parts = list(takewhile(lambda below: below.part, addends[position + 1 :]))
        if len(parts) > 1 and all(part.number for part in parts):
            _blame_part(whole, parts, book)


def _blame_part(whole: CellNumber, parts: Sequence[sums.Addend], book: Book) -> None:
    total = sum(part.value for part in parts)
    missing = whole.value - total
    if not sums.is_one_digit_off(whole.value, whole.value - missing):
        return
    blamed = [part for part in parts if _is_changed_digit(part.value, missing)]
    if len(blamed) == 1 and blamed[0].number:
        book.slip("wrong_row", blamed[0].number, blamed[0].value + missing)


def _is_changed_digit(value: Fraction, missing: Fraction) -> bool:
    """Return whether adding what is missing changes one digit of a value, without a carry."""
    digits, mended = str(value), str(value + missing)
    return len(digits) == len(mended) and sum(map(str.__ne__, digits, mended)) == 1
