r"""Finds formulas that a copied text has several times in a row.

A page made with KaTeX holds each formula three times: hidden as MathML, hidden as its source in
LaTeX, and visible as HTML. Who copies the page gets all three on one line: ``4×7682`` ``4 \times
768^2`` ``4×7682``. MathJax leaves two or three of them. This module searches a line for a stretch
that reads as LaTeX and has the text that KaTeX shows for it on both sides.

All comparisons are of `_ComparedText`: without blanks and invisible signs, and with one sign for
all that look alike. `katex` knows what is shown for LaTeX.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.text.allowance import Allowance
from weighbridge.articles.text.katex import (
    LONGEST_FORMULA_COPIED,
    LatexText,
    ShownText,
    compared_sign,
)
from weighbridge.articles.text.tokens import LONGEST_LINE

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_STEPS = 20_000
"""The bound of a search for sources in one line, a fifth of a second. Articles take up to 1,000."""
_MOST_STEPS_IN_ALL = 300_000  # of the searches in all lines of an article
_MOST_PERIODS = 30  # lengths of a repeated text that are tried at a position; formulas need 10
_SHORTEST_WITHOUT_TAIL = 3  # characters of the text before a source that no text follows
_SHORTEST_EQUATION = 5  # characters of an equation that is there twice, such as H=768


class Copy(NamedTuple):
    r"""A formula that a line has several times in a row: ``line[start:end]``.

    ``line[source_start:source_end]`` is the stretch with the source, and ``plain`` is the LaTeX to
    read instead of the whole: the source without invisible signs. If the line has the shown text
    twice and no source, it is that text, with LaTeX's own signs escaped.
    """

    start: int
    end: int
    source_start: int
    source_end: int
    plain: str


def find_copies(
    line: str,
    page: bool,  # noqa: FBT001  # the caller's own flag
    allowance: Allowance | None = None,
) -> list[Copy]:
    r"""Return the formulas that a line has several times in a row, from left to right.

    Args:
        line: a line as it was copied.
        page: whether the text has other copies (`is_copied_page`). Only then are sources without
            a command of LaTeX found: 768 stands there as 768768768.
        allowance: the steps that are left for all lines of the article (`allowance_for_copies`).

    Example:
        >>> find_copies(r"即 2×H22 \times H^22×H2。", page=False)
        [Copy(start=2, end=22, source_start=6, source_end=18, plain='2 \\times H^2')]
    """
    if len(line) > LONGEST_LINE:
        return []
    allowance = allowance or allowance_for_copies()
    compared = _ComparedText.of(line)
    copies = _with_latex(compared, allowance, page=page)
    starts = [0, *(copy.end for copy in copies)]
    ends = [*(copy.start for copy in copies), len(line)]
    for start, end in zip(starts, ends, strict=True):
        copies += _without_latex(compared, (start, end), allowance, page=page)
    return sorted(copies)


def allowance_for_copies() -> Allowance:
    """Return the steps that the search may take in all lines of an article."""
    return Allowance(_MOST_STEPS_IN_ALL)


def is_copied_page(text: str) -> bool:
    r"""Return whether some line has a copy whose source has a command of LaTeX.

    Example:
        >>> is_copied_page("大小 H×HH \\times HH×H"), is_copied_page("大小 $H \\times H$")
        (True, False)
    """
    allowance = allowance_for_copies()
    for line in text.splitlines():
        is_candidate = len(line) <= LONGEST_LINE and _COMMAND.search(line)
        if is_candidate and _with_latex(_ComparedText.of(line), allowance, page=False):
            return True
    return False


# The text that is compared


class _ComparedText(NamedTuple):
    """A line as it is compared, with the column in the line of each sign."""

    line: str
    text: str
    columns: list[int]

    @classmethod
    def of(cls, line: str) -> _ComparedText:
        signs, columns = [], []
        for column, character in enumerate(line):
            sign = compared_sign(character)
            signs.append(sign)
            columns += [column] * len(sign)
        return cls(line, "".join(signs), columns)

    def position(self, column: int) -> int:
        """Return the position in the text of the first sign at a column or behind it."""
        return bisect_left(self.columns, column)

    def column_behind(self, position: int) -> int:
        """Return the column behind a stretch that ends before a position."""
        return self.columns[position - 1] + 1


class _Stretch(NamedTuple):
    """A copy in a `_ComparedText`: the positions of the text, the source, and the text again."""

    start: int
    source_start: int
    source_end: int
    end: int

    @property
    def has_tail(self) -> bool:
        return self.end > self.source_end


def _copy_at(compared: _ComparedText, stretch: _Stretch) -> Copy:
    source_start = compared.columns[stretch.source_start]
    source_end = compared.column_behind(stretch.source_end)
    source = compared.line[source_start:source_end]
    end = compared.column_behind(stretch.end)
    while end < len(compared.line) and _is_invisible(compared.line[end]):
        end += 1
    return Copy(
        compared.columns[stretch.start],
        end,
        source_start,
        source_end,
        "".join(sign for sign in source if not _is_invisible(sign)),
    )


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in {"Cf", "Co"}


_INSIDE_WORD = re.compile(
    r"(?<=[A-Za-z0-9_#])[A-Za-z0-9_]|(?<=[A-Za-z])\.[A-Za-z]|(?<=\d)[.,]\d|(?<=\d[.,])\d"
)


def _is_inside_word(line: str, column: int) -> bool:
    """Return whether a name or a number goes on at a column."""
    return bool(_INSIDE_WORD.match(line, column))


_FORMULA = re.compile(r"""(?=.*[A-Za-z0-9])[\w(]([^|"`]*[\w)\]}%'])?""")
"""What a copied formula without a command looks like; not cells, code or rules."""

# Sources with signs of LaTeX


def _with_latex(compared: _ComparedText, allowance: Allowance, *, page: bool) -> list[Copy]:
    """Return the copies whose source has signs of LaTeX."""
    if not page and not _COMMAND.search(compared.line):
        return []
    latex = LatexText(compared.line, allowance.lend(_MOST_STEPS))
    copies: list[Copy] = []
    column = after_copy = 0
    while mark := _FIRST_MARK.search(compared.line, column):
        stretches = _stretches_around(compared, latex, mark.start(), after_copy)
        plausible = [
            stretch for stretch in stretches if _is_plausible(compared, stretch, page=page)
        ]
        column = mark.end()
        if plausible:
            longest = max(plausible, key=_completeness)
            copies.append(_copy_at(compared, longest))
            column = after_copy = copies[-1].end
    allowance.take_back(latex.steps_left)
    return copies


_COMMAND = re.compile(r"\\[A-Za-z{|%]")
_FIRST_MARK = re.compile(r"(?<!')'*[_^]|\\|\{")
"""The first sign of LaTeX in a source, before which all signs are shown as they are."""


def _completeness(stretch: _Stretch) -> tuple[bool, int]:
    return stretch.has_tail, stretch.end - stretch.start


def _stretches_around(
    compared: _ComparedText, latex: LatexText, mark: int, earliest: int
) -> Iterator[_Stretch]:
    r"""Yield the stretches from `earliest` on whose source has its first sign of LaTeX at `mark`.

    The source is P + L, where L begins at that sign: ``4`` and ``\times 768^2``. If L shows the
    text R, the line reads P R P L P R. So R is searched before the sign, and what stands between
    is P; this bounds the search to a few places.
    """
    text, middle = compared.text, compared.position(mark)
    first = max(compared.position(earliest), middle - LONGEST_FORMULA_COPIED)
    before = text[first:middle]
    for column, shown in latex.formulas(mark):
        forms = sorted({form for form in shown if form in before})
        if not forms:
            return
        source_end = compared.position(column)
        for prefix, form in _readings(before, forms, latex):
            source_start = middle - len(prefix)
            start = source_start - len(prefix + form)
            end = _end_of_tail(text, source_end, prefix, shown)
            if end == source_end and text.endswith(prefix + form, first, start):
                start -= len(prefix + form)  # MathJax has both texts before the source
            yield _Stretch(start, source_start, source_end, end)


def _readings(before: str, forms: list[str], latex: LatexText) -> Iterator[tuple[str, str]]:
    """Yield each P and R for which a text ends with P R P and R is one of the forms."""
    for form in forms:
        end = len(before)
        while (start := before.rfind(form, 0, end)) >= 0 and latex.steps_left > 0:
            latex.steps_left -= 1
            prefix = before[start + len(form) :]
            if before.endswith(prefix, 0, start):
                yield prefix, form
            end = start + len(form) - 1


def _end_of_tail(text: str, position: int, prefix: str, shown: ShownText) -> int:
    """Return where the text of a formula ends that begins at a position, or the position."""
    for form in shown:
        if text.startswith(prefix + form, position):
            return position + len(prefix + form)
    return position


def _is_plausible(compared: _ComparedText, stretch: _Stretch, *, page: bool) -> bool:
    """Return whether a stretch is a copy, and not a text that happens to read as one."""
    line = compared.line
    shown = compared.text[stretch.start : stretch.source_start]
    if shown[-1] in _OPERATORS:
        return False  # in 768×768 \times 12, nothing ends at the sign
    start, source_start = compared.columns[stretch.start], compared.columns[stretch.source_start]
    source_end, end = map(compared.column_behind, (stretch.source_end, stretch.end))
    has_command = bool(_COMMAND.search(line[source_start:source_end]))
    if stretch.has_tail and has_command:
        return True
    if not _FORMULA.fullmatch(shown):
        return False
    if stretch.has_tail:
        return page and not _is_inside_word(line, start) and not _is_inside_word(line, end)
    touching = line[max(0, start - 1) : start] + line[source_end : source_end + 1]
    is_whole = len(shown) >= _SHORTEST_WITHOUT_TAIL and not _FORMULA_SIGN.search(touching)
    return has_command and is_whole


_OPERATORS = frozenset("×·*+-/÷")
_FORMULA_SIGN = re.compile(r"[A-Za-z0-9_^(){}\\]")

# Sources without a sign of LaTeX


def _without_latex(
    compared: _ComparedText, columns: tuple[int, int], allowance: Allowance, *, page: bool
) -> list[Copy]:
    """Return the copies between two columns whose source has no sign of LaTeX.

    They are the same text several times in a row, which also occurs by chance: 768768768. On a
    page with other copies, a text that is there three times is one. Elsewhere only an equation is,
    two or three times: ``a=ba=b`` means nothing else.
    """
    copies: list[Copy] = []
    after_copy = compared.position(columns[0])
    steps = allowance.lend(_MOST_STEPS)
    for stretch in islice(_repetitions(compared, *columns), steps):
        steps -= 1
        if stretch.start >= after_copy and _is_copied_formula(compared, stretch, page=page):
            copy = _copy_at(compared, stretch)
            copies.append(copy._replace(plain=_SPECIAL.sub(r"\\\g<0>", copy.plain)))
            after_copy = stretch.end
    allowance.take_back(steps)
    return copies


_SPECIAL = re.compile("[%#&_$]")
"""Signs that are not shown as they stand in LaTeX."""


def _repetitions(compared: _ComparedText, start: int, end: int) -> Iterator[_Stretch]:
    """Yield what stands twice or three times in a row between two columns, from left to right."""
    text = compared.text
    last = compared.position(end)
    for first in range(compared.position(start), last):
        column = compared.columns[first]
        if column > start and _is_inside_word(compared.line, column):
            continue
        for length in _periods(text, first, last):
            second, third, behind = (first + times * length for times in (1, 2, 3))
            if behind <= last and text.startswith(text[first:second], third):
                yield _Stretch(first, second, third, behind)
            else:
                yield _Stretch(first, first, second, third)


def _periods(text: str, start: int, last: int) -> Iterator[int]:
    """Yield the length of each text that begins at a position and is there again behind itself."""
    latest = start + min(LONGEST_FORMULA_COPIED, (last - start) // 2)
    again = start
    for _ in range(_MOST_PERIODS):
        again = text.find(text[start : start + 2], again + 1, latest + 2)
        if again < 0:
            return
        if text.startswith(text[start:again], again):
            yield again - start


def _is_copied_formula(compared: _ComparedText, stretch: _Stretch, *, page: bool) -> bool:
    """Return whether a repeated text is a formula that was copied."""
    line, columns = compared.line, compared.columns
    length = stretch.source_end - stretch.source_start
    shown = compared.text[stretch.start : stretch.start + length]
    if not _FORMULA.fullmatch(shown) or _is_inside_word(line, compared.column_behind(stretch.end)):
        return False
    for joint in range(stretch.start + length, stretch.end, length):
        between = line[columns[joint - 1] : columns[joint]]
        if any(character.isspace() for character in between):
            return False  # 768 768 768 are three numbers
    if "=" in shown and length >= _SHORTEST_EQUATION:
        return True
    is_thrice = stretch.end - stretch.start == 3 * length
    is_letter = length == 1 and shown.isalpha()
    return page and is_thrice and (is_letter or len(set(shown)) > 1)
