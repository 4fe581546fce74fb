"""Turns an article into its lines: copies of formulas folded, markup gone, torn names joined."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.text import markup
from weighbridge.articles.text.copies import allowance_for_copies, find_copies, is_copied_page
from weighbridge.articles.text.lines import ArticleLine
from weighbridge.articles.text.terms import WIDE
from weighbridge.articles.text.tokens import LONGEST_LINE, plain_signs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weighbridge.articles.text.copies import Copy
    from weighbridge.articles.text.lines import Stretch
    from weighbridge.articles.text.source import Source

MOST_READ = 200_000
"""Characters of an article, far more than a derivation has; bounds the time to some seconds."""
MOST_TORN_NAMES = 40
"""Names with an underscore that are looked for with blanks in them; bounds the time."""
_NAME = re.compile(r"(?<![A-Za-z_])[A-Za-z]+(?:_[A-Za-z]+)+(?![A-Za-z_])")


class PlainArticle(NamedTuple):
    """The lines of an article, as they are read and as they stand in the source.

    In ``originals``, a formula that was copied with its LaTeX stands once.

    Each line has a number of its own. In a page, several lines may stand on one line of the source:
    ``source_lines`` has the line in the source of each number. ``too_long`` are the numbers of
    lines that are too long to read. Of a long article, what begins with the line ``cut`` is not
    read; 0 if all of it is.
    """

    lines: tuple[ArticleLine, ...]
    originals: tuple[str, ...]
    source_lines: dict[int, int]
    too_long: tuple[int, ...]
    cut: int = 0

    def stretch(self, at: Stretch) -> str:
        """Return the text of a stretch, as it is read."""
        return self.lines[at.line - 1].text[at.start : at.end].strip()

    def source_line(self, number: int) -> int:
        """Return the line of the source on which a line stands."""
        return self.source_lines.get(number, number)

    def original(self, number: int) -> str:
        """Return a line as a reader of the source sees it."""
        return self.originals[number - 1]


def plain_article(article: Source) -> PlainArticle:
    r"""Return the lines of an article.

    Example:
        >>> from weighbridge.articles.text.source import Source
        >>> article = plain_article(Source("a.md", "**H²** is\n$768^2$", "utf-8", False))
        >>> [(line.number, line.text) for line in article.lines]
        [(1, 'H^(2) is'), (2, '768^2')]
    """
    if article.html:
        return _of_page(article)
    originals = article.text.splitlines()
    folded = _folded(originals, article.text)
    texts = markup.plain_text("\n".join(folded), article.where)
    return _numbered(_physical_lines(texts), folded, {})


def _of_page(article: Source) -> PlainArticle:
    visible = markup.lines_of_html(article.text)
    originals = [text for _, text in visible]
    folded = _folded(originals, article.text)
    texts: list[tuple[str, bool]] = []
    for text in folded:
        plain = markup.plain_text(text, article.where)
        texts.append((plain.replace(markup.SOFT, " "), False))
    source_lines = {number: line for number, (line, _) in enumerate(visible, start=1)}
    return _numbered(texts, folded, source_lines)


def _physical_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line of the source, and whether it continues the line before it."""
    for line in text.split("\n"):
        for position, part in enumerate(line.split(markup.SOFT)):
            yield part, position > 0


def _numbered(
    texts: Iterable[tuple[str, bool]], originals: list[str], source_lines: dict[int, int]
) -> PlainArticle:
    """Number the lines, and join torn names; a line that is too long becomes empty."""
    normal = [(plain_signs(text), continues) for text, continues in texts]
    if _groups_by_dots(normal):
        normal = [(_DOT_IN_GROUPS.sub(",", text), continues) for text, continues in normal]
    join = _joiner("\n".join(text for text, _ in normal))
    lines, too_long = [], []
    characters = cut = 0
    for number, (text, continues) in enumerate(normal, start=1):
        characters += len(text)
        if characters > MOST_READ:
            cut = cut or number
            text = ""  # noqa: PLW2901
        elif len(text) > LONGEST_LINE:
            too_long.append(number)
            text = ""  # noqa: PLW2901
        lines.append(ArticleLine(number, join(text), continues))
    return PlainArticle(tuple(lines), tuple(originals), source_lines, tuple(too_long), cut)


# Dots between groups of digits


_GROUPED_BY_DOTS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:\.\d{3}){2,}(?![.,]?\d)")
_GROUPED_BY_COMMAS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3}){2,}(?![.,]?\d)")
_DOT_IN_GROUPS = re.compile(r"(?<=\d)(?<!\b0)\.(?=\d{3}(?!\d))")
_LEAST_GROUPED = 2
"""Numbers such as 38.597.376 in an article that groups by dots; one alone may be an address."""


def _groups_by_dots(texts: Iterable[tuple[str, bool]]) -> bool:
    """Return whether an article writes 38.597.376, and nowhere 38,597,376."""
    grouped = 0
    for text, _ in texts:
        if _GROUPED_BY_COMMAS.search(text):
            return False
        grouped += len(_GROUPED_BY_DOTS.findall(text))
    return grouped >= _LEAST_GROUPED


# Copies of formulas


def _folded(lines: list[str], text: str) -> list[str]:
    """Return lines in which each formula that was copied twice or thrice stands once, as LaTeX."""
    page = is_copied_page(text)
    allowance = allowance_for_copies()
    return [_without_copies(line, find_copies(line, page, allowance)) for line in lines]


def _without_copies(line: str, copies: Iterable[Copy]) -> str:
    pieces, position = [], 0
    for copy in copies:
        pieces += [line[position : copy.start], f" ${copy.plain}$ "]
        position = copy.end
    return "".join([*pieces, line[position:]])


# Remarks


_REMARK = re.compile(r"(?<=[A-Za-z\d)\]])[ ]?\(([^()\n]{1,80})\)")
_WORD = re.compile(rf"[{WIDE}]|[A-Za-z]{{3}}")
_OPERAND = re.compile(r"[A-Za-z0-9]")
_CALCULATION = re.compile(r"[*/^×·⋅÷+=≈]")


def without_remarks(text: str) -> str:
    """Return a line with blanks in place of the remarks in brackets after names and numbers.

    Example:
        >>> without_remarks("V(词表大小)*h(指定向量维度,base中是768)+2*(h+1)").replace(" ", "")
        'V*h+2*(h+1)'
    """
    return _REMARK.sub(_blank_remark, text)


def _blank_remark(match: re.Match[str]) -> str:
    """Return blanks for a remark: words without a calculation, or a calculation in words alone."""
    inside = match[1]
    has_words = _WORD.search(inside)
    is_remark = has_words and (not _CALCULATION.search(inside) or not _OPERAND.search(inside))
    return " " * len(match[0]) if is_remark else match[0]


# Torn names


def _joiner(text: str) -> Callable[[str], str]:
    """Return a function that joins the torn names of an article: d_ff  n, where d_ffn is a name.

    A name is joined if it stands whole more often than the piece with which it begins.
    """
    counts = Counter(match[0] for match in _NAME.finditer(text))
    names = [name for name, _ in counts.most_common(MOST_TORN_NAMES)]
    if not names:
        return str
    torn = re.compile(
        r"(?<![A-Za-z_])(?:"
        + "|".join(r"\s{0,3}".join(map(re.escape, name)) for name in names)
        + r")(?![A-Za-z_])"
    )

    def whole(match: re.Match[str]) -> str:
        pieces = match[0].split()
        name = "".join(pieces)
        if len(pieces) > 1 and counts[name] <= counts[pieces[0]]:
            return match[0]
        return name

    return lambda line: torn.sub(whole, line)
