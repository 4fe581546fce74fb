"""Reads articles that derive a count of parameters, and checks their arithmetic.

`source` reads the text, `markup` turns it into plain lines, `tokens`, `expressions` and `grammar`
find the statements in them, and `checks` compares these with exact arithmetic.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from weighbridge.articles import markup
from weighbridge.articles.checks import Findings, check_statements
from weighbridge.articles.grammar import Unread, statements
from weighbridge.articles.tokens import LONGEST_LINE, Token, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weighbridge.articles.source import Source

_SHOWN = 60  # characters of a line that is too long to read; they fit on one line of a terminal


def examine(article: Source) -> Findings:
    """Check an article's arithmetic.

    Example:
        >>> from weighbridge.articles.source import Source
        >>> text = "With $H = 768$ it is $4H^2 = 2{,}359{,}269$."
        >>> findings = examine(Source("a.md", text, "utf-8", False))
        >>> findings.slips[0].stated, findings.slips[0].correct
        ('2,359,269', '2,359,296')
    """
    if article.html:
        visible = markup.lines_of_html(article.text)
        lines = [""] * max((line for line, _ in visible), default=0)
        for line, text in visible:
            lines[line - 1] = f"{lines[line - 1]} {text}".strip()
        plain_lines = [(line, markup.plain_text(text, article.where)) for line, text in visible]
    else:
        lines = article.text.splitlines()
        plain_lines = list(_with_line_numbers(markup.plain_text("\n".join(lines), article.where)))
    long_lines: list[Unread] = []  # filled while the statements are read
    return check_statements(chain(statements(_tokens(plain_lines, long_lines)), long_lines), lines)


def _with_line_numbers(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number; a formula over several lines is one line."""
    number = 1
    for line in text.split("\n"):
        yield number, line
        number += 1 + line.count(markup.SOFT)


def _tokens(lines: Iterable[tuple[int, str]], unread: list[Unread]) -> Iterator[Token]:
    """Yield the tokens of lines, and record lines that are too long to read."""
    for first, text in lines:
        for number, line in enumerate(text.split(markup.SOFT), start=first):
            if len(line) > LONGEST_LINE:
                unread.append(Unread(number, line[:_SHOWN], "long_line"))
            else:
                yield from tokens(line, number)
        yield Token("separator", "\n", first)
