"""Records what is said of the numbers of tables and printouts, and the slips in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.arithmetic.figures import Follow, Slip
from weighbridge.articles.text.exact import number_text
from weighbridge.articles.text.lines import (
    FOLLOWS,
    SLIP,
    STRENGTH,
    UNREAD,
    NumberVerdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

    from weighbridge.articles.tables.cells import CellNumber
    from weighbridge.articles.text.lines import Stretch


def in_digits(value: Fraction) -> str:
    """Write a number in groups of three digits, with its decimals if there are any.

    Example:
        >>> from fractions import Fraction
        >>> in_digits(Fraction(12_413)), in_digits(Fraction(124_137, 10))
        ('12,413', '12,413.7')
    """
    if value.denominator == 1:
        return number_text(value)
    return f"{float(value):,.10g}"


class TableFindings(NamedTuple):
    """What is said of the numbers in tables.

    ``taken`` has the stretches that need no other reading; a number that is unread and is not among
    them may still be read otherwise. ``skipped`` has the first lines of what was too long to read.
    """

    verdicts: list[NumberVerdict]
    slips: list[Slip]
    taken: list[Stretch]
    skipped: list[int]


class Book:
    """What was said of each number so far, and the values of wrong ones as corrected."""

    def __init__(self, lines: Mapping[int, str]) -> None:
        self.lines = lines
        self.slips: list[Slip] = []
        self.skipped: list[int] = []
        self.mended: dict[Stretch, Fraction] = {}
        self._slip_of: dict[Stretch, Slip] = {}
        self._verdicts: dict[Stretch, NumberVerdict] = {}
        self._taken: dict[Stretch, None] = {}

    def say(self, number: CellNumber, verdict: str, reason: str, **values: str) -> None:
        """Give a number a verdict, unless it has a stronger one."""
        before = self._verdicts.get(number.at)
        if before is None or STRENGTH[before.verdict] < STRENGTH[verdict]:
            text = number.number.text
            self._verdicts[number.at] = NumberVerdict(number.at, text, verdict, reason, values)
            if verdict != UNREAD:
                self.take(number.at)

    def take(self, at: Stretch) -> None:
        """Mark a stretch that needs no other reading."""
        self._taken[at] = None

    def leave(self, at: Stretch) -> None:
        """Mark a stretch that needs another reading, for example the formula beside it."""
        self._taken.pop(at, None)

    def verdict(self, number: CellNumber) -> str:
        """Return the verdict of a number so far; "" if it has none."""
        verdict = self._verdicts.get(number.at)
        return verdict.verdict if verdict else ""

    def slip(self, kind: str, number: CellNumber, correct: Fraction, shown: str = "") -> None:
        """Add a slip, once for each number."""
        if number.at in self._slip_of:
            return
        line, text = number.at.line, self.lines.get(number.at.line, "").strip()
        slip = Slip(kind, line, text, number.number.text, shown or in_digits(correct))
        slip.shift = number.value - correct
        self.slips.append(slip)
        self.mended[number.at], self._slip_of[number.at] = correct, slip
        self.say(number, SLIP, kind, correct=slip.correct)

    def follow(self, number: CellNumber, causes: Iterable[CellNumber], mended: Fraction) -> None:
        """Say of a number that it follows from slips in others."""
        slips = [self._slip_of[cause.at] for cause in causes if cause.at in self._slip_of]
        for slip in slips:
            text = self.lines.get(number.at.line, "").strip()
            stated, correct = number.number.text, in_digits(mended)
            follow = Follow(number.at.line, text, stated, correct, number.value - mended)
            slip.follows.append(follow)
        if slips:
            self.mended[number.at], self._slip_of[number.at] = mended, slips[0]
            self.say(number, FOLLOWS, "table_follows", line=str(slips[0].line))

    def value(self, number: CellNumber) -> Fraction:
        """Return the value of a number with an error in it corrected."""
        return self.mended.get(number.at, number.value)

    def findings(self) -> TableFindings:
        """Return everything that was said, in the order of the article."""
        verdicts = sorted(self._verdicts.values(), key=lambda verdict: verdict.at)
        slips = sorted(self.slips, key=lambda slip: slip.line)
        return TableFindings(verdicts, slips, sorted(self._taken), self.skipped)
