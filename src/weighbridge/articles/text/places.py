"""Finds where numbers and passages of an article stand in its original lines, with markup."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

from weighbridge.articles.text.tokens import with_plain_digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.articles.text.lines import NumberVerdict
    from weighbridge.articles.text.plain import PlainArticle

MOST_ALIGNED = 400
"""Numbers of a line that are aligned one by one; the time grows with their square."""
_NUMERAL = re.compile(r"\d+(?:(?:,|\{,\}|[\u2009\u202f\u00a0]| , )\d{3}(?!\d))*(?:\.\d+)?")
_DIGITS = re.compile(r"[\d.]+")


class PlacedNumber(NamedTuple):
    """A number with its verdict, and its columns in the original line, the last excluded."""

    start: int
    end: int
    verdict: NumberVerdict


def placed_numbers(
    plain: PlainArticle, numbers: Iterable[NumberVerdict]
) -> Mapping[int, Sequence[PlacedNumber]]:
    r"""Return the numbers of each line that are found in the original line, in its order.

    Example:
        >>> from weighbridge.articles import examine
        >>> from weighbridge.articles.text.source import Source
        >>> text = r"- **Layer**: $4 \times 2{,}304 = 9{,}216$"
        >>> examination = examine(Source("a.md", text, "utf-8", False))
        >>> (line,) = placed_numbers(examination.plain, examination.numbers).values()
        >>> [text[number.start : number.end] for number in line]
        ['4', '2{,}304', '9{,}216']
    """
    by_line: dict[int, list[NumberVerdict]] = {}
    for number in numbers:
        by_line.setdefault(number.at.line, []).append(number)
    return {
        line: list(_aligned(plain.original(line), verdicts)) for line, verdicts in by_line.items()
    }


def _aligned(original: str, verdicts: list[NumberVerdict]) -> Iterator[PlacedNumber]:
    """Yield the numbers that original and plain line have in the same order."""
    matches = list(_NUMERAL.finditer(with_plain_digits(original)))[:MOST_ALIGNED]
    written = [_digits(match[0]) for match in matches]
    wanted = [_digits(verdict.text) for verdict in verdicts[:MOST_ALIGNED]]
    blocks = SequenceMatcher(None, written, wanted, autojunk=False).get_matching_blocks()
    for block in blocks:
        for offset in range(block.size):
            start, end = matches[block.a + offset].span()
            verdict = verdicts[block.b + offset]
            yield PlacedNumber(start, end + _unit_length(original[end:], verdict.text), verdict)


def _unit_length(rest: str, text: str) -> int:
    """Return how much of the text after a number is its unit, such as 亿 or M."""
    unit = text.lstrip(_IN_NUMBERS)
    after = rest.lstrip(" ")
    if not unit or not after.startswith(unit):
        return 0
    return len(rest) - len(after) + len(unit)


_IN_NUMBERS = "0123456789.,  "


def _digits(text: str) -> str:
    """Return the digits of a number without grouping, its unit, and the power of ten after it."""
    return "".join(_DIGITS.findall(text.partition("×")[0]))


# Passages

_COMMAND = re.compile(r"\\[A-Za-z]+")


def place_of_passage(original: str, passage: str) -> tuple[int, int] | None:
    r"""Return the columns of a passage in an original line, which may have markup in it.

    Only letters and digits are compared.

    Example:
        >>> line = r"so we get **$3 \times H^2$** for it"
        >>> start, end = place_of_passage(line, "3*H^2")
        >>> line[start:end]
        '3 \\times H^2'
    """
    letters, columns = _letters(original)
    wanted, _ = _letters(passage)
    start = letters.find(wanted)
    if start < 0 or not wanted:
        return None
    first, end = columns[start], columns[start + len(wanted) - 1] + 1
    not_closed = original.count("(", first, end) - original.count(")", first, end)
    while not_closed > 0 and original.startswith(")", end):
        end += 1
        not_closed -= 1
    return first, end


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text in their plain form, and the column of each."""
    letters, columns = [], []
    for column, sign in enumerate(_COMMAND.sub(_blank, with_plain_digits(text))):
        for letter in normalize("NFKC", sign).lower():
            if letter.isalnum():
                letters.append(letter)
                columns.append(column)
    return "".join(letters), columns


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
