"""A table, and the ways to write it: terminal, Markdown, CSV, HTML. It knows nothing of models."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


class Table(NamedTuple):
    """Cells as text: ``align`` holds ``<`` or ``>`` for each column, and the last ``totals`` rows are set apart."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    align: str
    totals: int = 0


_FIRST_WIDE = "\u1100"  # no character below is wide, and formulas use no combining ones


def width(text: str) -> int:
    """Return how many terminal columns a text takes: two for each wide East Asian character.

    Example:
        >>> width("V·H"), width("词嵌入")
        (3, 6)
    """
    if not text or max(text) < _FIRST_WIDE:
        return len(text)
    import unicodedata  # noqa: PLC0415  # plain English tables do without it

    return sum(
        2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1
        for c in text
    )


COLUMNS = 80  # of a terminal that nobody has widened


def wrap(paragraph: str, columns: int = COLUMNS, indent: str = "  ") -> str:
    """Break a paragraph at spaces, and between wide characters, into lines of at most so many terminal columns.

    A formula without a space in so many columns is broken after its factors; what else is so long,
    a path, stays whole.

    Example:
        >>> print(wrap("one two three", columns=9))
        one two
          three
    """
    lines, line = [], ""
    for word in (piece for whole in _words(paragraph) for piece in _factors(whole, columns)):
        if line.strip() and width(line + word.rstrip()) > columns:
            lines.append(line.rstrip())
            line = indent
        line += word
    return "\n".join([*lines, line.rstrip()])


def _factors(word: str, columns: int) -> list[str]:
    return [word] if width(word) <= columns else re.split(r"(?<=·)", word)


def _words(paragraph: str) -> list[str]:
    """Cut a paragraph after each space and around each wide character that may end a line."""
    if paragraph.isascii():
        return [f"{word} " for word in paragraph.split(" ")]
    words = [""]
    for at, character in enumerate(paragraph):
        words[-1] += character
        following = paragraph[at + 1 : at + 2]
        wide = width(character) == 2 or (following and width(following) == 2)
        if character == " " or (
            wide and following not in _NEVER_FIRST and character not in _NEVER_LAST
        ):
            words.append("")
    return words


_NEVER_FIRST = " ，。；：、？！）》」』】”’"
_NEVER_LAST = "（《「『【“‘"


_ADDITION = r"(?= [+-] )"
FORMULA = (_ADDITION, r"(?= \* )|(?<=[·×])", r"(?<= )", r"(?<=[._/])")
"""Where a formula may be broken: before an addition, else at a factor, else after a word, else inside a name."""
LATEX = (_ADDITION, r"(?<=\\,)")
CODE = (_ADDITION,)


def lines_of(formula: str, columns: int, breaks: Sequence[str] = FORMULA) -> list[str]:
    """Break a formula into lines of so many columns, outside of the braces of LaTeX.

    A piece between two of the first breaks that is too long for a line is broken at the next ones,
    on lines of its own.

    Example:
        >>> lines_of("V·H + L·(4H² + 4H) + H²", 11)
        ['V·H', '+ L·(4H²', '+ 4H) + H²']
        >>> lines_of("V·H + text_width·vision_width + H²", 14)
        ['V·H', '+ text_width·', 'vision_width', '+ H²']
    """
    lines, alone = [""], False
    for piece in _pieces(formula, breaks[0]):
        if breaks[1:] and width(piece.strip()) > columns:
            lines += lines_of(piece.lstrip(), columns, breaks[1:])
            alone = True
        elif alone or width(lines[-1] + piece.rstrip()) > columns:
            lines.append(piece.lstrip())
            alone = False
        else:
            lines[-1] += piece
    return [line.rstrip() for line in lines if line.strip()] or [""]


def _pieces(formula: str, at: str) -> list[str]:
    pieces, depth = list[str](), 0
    for piece in re.split(at, formula):
        pieces[-1:] = [pieces[-1] + piece] if depth else [*pieces[-1:], piece]
        depth += piece.count("{") - piece.count("}")
    return pieces


def text(table: Table) -> str:
    """Write a table for a terminal, columns two spaces apart, and in as many lines as its 80 columns ask for.

    Numbers stay whole, and so does a name at the head of a row: if it is too long for its column,
    the rest is below it.

    Example:
        >>> print(text(Table(("part", "count"), (("V·H", "12"), ("total", "12")), "<>", totals=1)))
        part   count
        V·H       12
        ------------
        total     12
    """
    rows = [table.header, *table.rows]
    widths = _fitting(
        [max(width(row[column]) for row in rows) for column in range(len(table.header))],
        table.align,
    )
    written = ["\n".join(_lines(row, widths, table.align)) for row in rows]
    if table.totals:
        written.insert(len(written) - table.totals, "-" * (sum(widths) + _GAP * (len(widths) - 1)))
    return "\n".join(written)


_GAP = 2


def _fitting(widths: list[int], align: str) -> list[int]:
    """Return the widths with the widest columns of text made as narrow as the terminal asks for."""
    fitting = list(widths)
    texts = [column for column, side in enumerate(align) if side == "<"]
    while sum(fitting) + _GAP * (len(fitting) - 1) > COLUMNS and texts:
        widest = max(texts, key=fitting.__getitem__)
        if fitting[widest] <= _NARROWEST:
            break
        fitting[widest] -= 1
    return fitting


_NARROWEST = 8  # of a column of text


def _lines(row: Sequence[str], widths: Sequence[int], align: str) -> Iterator[str]:
    """Yield a row's lines: most often one."""
    first, *rest = row
    cells = [
        lines_of(cell, room) if width(cell) > room else [cell]
        for cell, room in zip(row, widths, strict=True)
    ]
    if width(first) > widths[0] and " " not in first:
        yield first
        cells[0] = [""]
        if not any(rest):
            return
    for line in zip_longest(*cells, fillvalue=""):
        yield "  ".join(map(_pad, line, widths, align)).rstrip()


def _pad(cell: str, columns: int, side: str) -> str:
    space = " " * (columns - width(cell))
    return cell + space if side == "<" else space + cell


def markdown(table: Table) -> str:
    r"""Write a table in GitHub's Markdown.

    Example:
        >>> print(markdown(Table(("part", "count"), (("a|b", "12"),), "<>")))
        | part | count |
        | :--- | ---: |
        | a\|b | 12 |
    """
    marks = tuple(":---" if side == "<" else "---:" for side in table.align)
    head = [tuple(map(_escape_pipe, table.header)), marks]
    body = [tuple(map(_escape_pipe, row)) for row in table.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*head, *body])


def _escape_pipe(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def csv(rows: Iterable[Sequence[object]]) -> str:
    r"""Write rows as CSV (RFC 4180, lines ended by ``\r\n``).

    Example:
        >>> csv([("name", "count"), ('a "b", c', 3)])
        'name,count\r\n"a ""b"", c",3\r\n'
    """
    import csv as writer  # noqa: PLC0415
    import io  # noqa: PLC0415

    out = io.StringIO()
    writer.writer(out).writerows(rows)
    return out.getvalue()


def html(table: Table, cell: Callable[[str], str]) -> str:
    """Write a table in HTML; ``cell`` writes what stands in a cell, and escapes it."""
    sides = [f' style="text-align:{"left" if side == "<" else "right"}"' for side in table.align]

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{side}>{cell(found)}</{tag}>" for found, side in zip(cells, sides, strict=True)
        )

    last = len(table.rows) - table.totals
    body = [f"<tr>{line(row, 'td')}</tr>" for row in table.rows[:last]]
    foot = [f"<tr>{line(row, 'th')}</tr>" for row in table.rows[last:]]
    return "\n".join(
        [
            "<table>",
            f"<thead><tr>{line(table.header, 'th')}</tr></thead>",
            "<tbody>",
            *body,
            "</tbody>",
            *(["<tfoot>", *foot, "</tfoot>"] if foot else []),
            "</table>",
        ]
    )
