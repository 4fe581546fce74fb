"""The words of an audit, from `data/words/audit.*.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge import data, units
from weighbridge.answers.reconcile import ReconcileWords
from weighbridge.articles.verdicts import counts_of
from weighbridge.counting.parts import PartName
from weighbridge.counting.published import KnownClaim
from weighbridge.counting.reconciliation import Way
from weighbridge.errors import shorten
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weighbridge.articles.arithmetic.figures import Slip
    from weighbridge.articles.text.lines import NumberVerdict
    from weighbridge.articles.text.restoration import RestoredCalculation


class AuditWords:
    """The words of an audit in one language."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        words(lang)  # refuses an unknown language
        self._texts: dict[str, Any] = data.read_toml(f"words/audit.{lang}.toml")

    def __call__(self, key: str, /, **values: object) -> str:
        """Return a text with values in its braces."""
        text: str = self._texts[key]
        return text.format(**values)

    def mistake(self, slip: Slip) -> str:
        """Say what a slip states, and what is right."""
        kind: str = self._texts["kinds"][slip.kind]
        correct, about = slip.correct, label(slip.about, self.lang)
        if slip.kind == "words":
            correct, about = self.claim(slip.about), ""
        return kind.format(stated=slip.stated, correct=correct, mended=slip.mended, about=about)

    def reason(self, number: NumberVerdict) -> str:
        """Say why a number has its verdict."""
        values = {name: self._value(value) for name, value in number.values.items()}
        text: str = self._texts["reasons"].get(number.reason) or self._texts["why"][number.reason]
        return text.format(**values)

    def judgement(self, number: NumberVerdict) -> str:
        """Return the verdict on a number and the reason for it."""
        return f"{self.verdict(number.verdict)}{self('colon')}{self.reason(number)}"

    def read_as(self, calculation: RestoredCalculation) -> str:
        """Say how a calculation reads whose operators were put back."""
        key, part = "read_calculation", ""
        if calculation.part:
            key, part = "read_part", calculation.part.text(self.lang)
        value = units.count(calculation.value)
        return self(key, text=calculation.text, value=value, part=part)

    def _value(self, value: object) -> str:
        """Write a value of a reason in words."""
        if isinstance(value, PartName):
            return value.text(self.lang)
        if isinstance(value, Way):
            return ReconcileWords(self.lang).way(value)
        if isinstance(value, KnownClaim):
            return value.says[self.lang]
        return shorten(value, str)

    def verdict(self, verdict: str) -> str:
        """Return the name of a verdict."""
        text: str = self._texts["one_verdict"][verdict]
        return text

    def legend(self, numbers: Sequence[NumberVerdict]) -> dict[str, str]:
        """Return how many numbers have each verdict, in words, for the verdicts that occur."""
        legend = {}
        for verdict, count in counts_of(numbers).items():
            if count:
                form = "verdicts"
                if count == 1:
                    form = "verdict_of_one"
                name = self._texts[form][verdict]
                legend[verdict] = self("verdict_count", count=units.count(count), verdict=name)
        return legend

    def counts(self, numbers: Sequence[NumberVerdict]) -> str:
        """Return how many numbers there are, and how many have each verdict."""
        counts = self("and").join(self.legend(numbers).values())
        return self("numbers", numbers=self.count("number", len(numbers)), counts=counts)

    def claim(self, kind: str) -> str:
        """Say what is right in place of a statement in words."""
        text: str = self._texts["claims"][kind]
        return text

    def why(self, why: str, about: str) -> str:
        """Return the reason why something was not read."""
        text: str = self._texts["why"][why]
        return text.format(about=about)

    def count(self, noun: str, number: int) -> str:
        """Return a number of things."""
        form = "many"
        if number == 1:
            form = "one"
        text: str = self._texts[form][noun]
        return text.format(count=units.count(number))
