"""A table, and the ways to write it: terminal, Markdown, CSV, HTML. It knows nothing of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


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

    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


COLUMNS = 80  # of a terminal that nobody has widened


def wrap(paragraph: str, columns: int = COLUMNS, indent: str = "  ") -> str:
    """Break a paragraph at spaces, and between wide characters, into lines of at most so many terminal columns.

    Example:
        >>> print(wrap("one two three", columns=9))
        one two
          three
    """
    lines, line = [], ""
    for word in _words(paragraph):
        if line.strip() and width(line + word.rstrip()) > columns:
            lines.append(line.rstrip())
            line = indent
        line += word
    return "\n".join([*lines, line.rstrip()])


def _words(paragraph: str) -> list[str]:
    """Cut a paragraph after each space and around each wide character that may end a line."""
    if paragraph.isascii():
        return [f"{word} " for word in paragraph.split(" ")]
    words = [""]
    for at, character in enumerate(paragraph):
        words[-1] += character
        following = paragraph[at + 1 : at + 2]
        wide = width(character) == 2 or (following and width(following) == 2)
        if character == " " or (wide and following not in _NEVER_FIRST and character not in _NEVER_LAST):
            words.append("")
    return words


_NEVER_FIRST = " ，。；：、？！）》」』】”’"
_NEVER_LAST = "（《「『【“‘"


def text(table: Table) -> str:
    """Write a table for a terminal, columns two spaces apart.

    Example:
        >>> print(text(Table(("part", "count"), (("V·H", "12"), ("total", "12")), "<>", totals=1)))
        part   count
        V·H       12
        ------------
        total     12
    """
    lines = [table.header, *table.rows]
    widths = [max(width(line[column]) for line in lines) for column in range(len(table.header))]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    written = ["  ".join(map(_pad, line, widths, table.align)).rstrip() for line in lines]
    if table.totals:
        written.insert(len(written) - table.totals, rule)
    return "\n".join(written)


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
        return "".join(f"<{tag}{side}>{cell(found)}</{tag}>" for found, side in zip(cells, sides, strict=True))

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
