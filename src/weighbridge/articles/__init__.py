"""Articles that derive a count of parameters: their arithmetic is found among their sentences, and checked.

`source` reads the text, `markup` makes plain lines of it, `tokens` and `grammar` find what is said
to equal what, and `checks` holds that against exact arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.articles import markup
from weighbridge.articles.checks import Findings, check
from weighbridge.articles.grammar import Unread, statements
from weighbridge.articles.tokens import LONGEST_LINE, Token, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weighbridge.articles.source import Source

_SHOWN = 60  # characters of a line that is not read


def examine(article: Source) -> Findings:
    """Return what an article's arithmetic comes to.

    Example:
        >>> from weighbridge.articles.source import Source
        >>> found = examine(Source("a.md", "With $H = 768$ it is $4H^2 = 2{,}359{,}269$.", "utf-8", False))
        >>> found.slips[0].stated, found.slips[0].correct
        ('2,359,269', '2,359,296')
    """
    if article.html:
        visible = markup.lines_of_html(article.text)
        lines = [""] * max((line for line, _ in visible), default=0)
        for line, text in visible:
            lines[line - 1] = f"{lines[line - 1]} {text}".strip()
        plain = [(line, markup.plain(text, article.where)) for line, text in visible]
    else:
        lines = article.text.splitlines()
        plain = list(_numbered(markup.plain("\n".join(lines), article.where)))
    found: list[Unread] = []
    statements_ = statements(_tokens(plain, found))
    return check((item for group in (statements_, found) for item in group), lines)


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines, each with its number; one that a formula goes on over has several."""
    line = 1
    for whole in text.split("\n"):
        yield line, whole
        line += 1 + whole.count(markup.SOFT)


def _tokens(lines: Iterable[tuple[int, str]], unread: list[Unread]) -> Iterator[Token]:
    """Yield the tokens of lines, and note those that are too long to be read."""
    for line, whole in lines:
        for further, piece in enumerate(whole.split(markup.SOFT)):
            if len(piece) > LONGEST_LINE:
                unread.append(Unread(line + further, piece[:_SHOWN], "long_line"))
            else:
                yield from tokens(piece, line + further)
        yield Token("separator", "\n", line)
