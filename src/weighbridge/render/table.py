"""A table as text for terminals and as CSV, and the wrapping of lines."""

from __future__ import annotations

from itertools import zip_longest

from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.render.safe import csv_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Table(NamedTuple):
    """Cells as text.

    ``align`` has ``<`` or ``>`` for each column. The last ``totals`` rows are set apart. ``shares``
    are the fractions in the column ``share_column``, row by row; a terminal draws them as bars.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    align: str
    totals: int = 0
    shares: tuple[float, ...] = ()
    share_column: int = 0


class Screen(NamedTuple):
    """The target of text: its width, and whether it shows styles and bars.

    Styles are escape sequences; they are added to finished lines and never count as width.
    """

    columns: int
    is_styled: bool = False
    has_bars: bool = False


COLUMNS = 80  # for files, pipes, notebooks, and terminals of unknown width
PLAIN = Screen(COLUMNS)

BOLD, DIM = "1", "2"  # parameters of the escape sequence that selects a style


def styled(text: str, style: str) -> str:
    r"""Put each line of a text between the sequences that start and end a style.

    Example:
        >>> styled("12\n24", BOLD)
        '\x1b[1m12\x1b[0m\n\x1b[1m24\x1b[0m'
    """
    return "\n".join(f"\x1b[{style}m{line}\x1b[0m" for line in text.split("\n"))


_FIRST_WIDE = "\u1100"  # no character below is wide, and formulas use no combining ones


def width(text: str) -> int:
    """Return the width of a text in terminal columns; wide East Asian characters take two.

    Example:
        >>> width("V·H"), width("词嵌入")
        (3, 6)
    """
    if not text or max(text) < _FIRST_WIDE:
        return len(text)
    import unicodedata  # noqa: PLC0415  # plain English tables do without it

    columns = 0
    for character in text:
        if unicodedata.east_asian_width(character) in "WF":
            columns += 2
        elif not unicodedata.combining(character):
            columns += 1
    return columns


def wrap(paragraph: str, columns: int = COLUMNS, indent: str = "  ") -> str:
    """Wrap a paragraph to a number of columns, at spaces and wide characters.

    A long formula without spaces is broken after its factors; other long words, such as paths, stay
    whole.

    Example:
        >>> print(wrap("one two three", columns=9))
        one two
          three
    """
    words: list[str] = []
    for word in _breakable(paragraph):
        if width(word.rstrip()) + len(indent) <= columns:
            words.append(word)
        else:
            import re  # noqa: PLC0415  # few words are that long

            words += re.split(r"(?<=·)", word)
    lines, line = [], ""
    for word in words:
        if line.strip() and width(line + word.rstrip()) > columns:
            lines.append(line.rstrip())
            line = indent
        line += word
    return "\n".join([*lines, line.rstrip()])


def _breakable(paragraph: str) -> list[str]:
    """Split a paragraph after each space and around each wide character that may end a line."""
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
FORMULA = (_ADDITION, r"(?= \* )|(?<=[·×])", r"(?<= )", r"(?<=[._/、-])")
"""The places to break a formula.

Before an addition, otherwise at a factor, after a word, or inside a name.
"""
LATEX = (_ADDITION, r"(?<=\\,)")
CODE = (_ADDITION,)


def lines_of(formula: str, columns: int, breaks: Sequence[str] = FORMULA) -> list[str]:
    """Break a formula into lines of a number of columns, outside the braces of LaTeX.

    A piece that is too long after the first kind of break is broken at the next kind, on its own
    lines.

    Example:
        >>> lines_of("V·H + L·(4H² + 4H) + H²", 11)
        ['V·H', '+ L·(4H²', '+ 4H) + H²']
        >>> lines_of("V·H + text_width·vision_width + H²", 14)
        ['V·H', '+ text_width·', 'vision_width', '+ H²']
    """
    if width(formula) <= columns:
        return [formula.rstrip()]
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
    import re  # noqa: PLC0415  # most formulas are short

    pieces, depth = list[str](), 0
    for piece in re.split(at, formula):
        if depth:
            pieces[-1] += piece
        else:
            pieces.append(piece)
        depth += piece.count("{") - piece.count("}")
    return pieces


def text(table: Table, screen: Screen = PLAIN) -> str:
    """Write a table for a terminal, with two spaces between columns.

    Numbers stay whole, and so do names at the head of a row: if a name is too long for its column,
    the rest of the row goes below it. Bars are shown if the screen has them and has room; totals
    are bold if the screen has styles.

    Example:
        >>> print(text(Table(("part", "count"), (("V·H", "12"), ("total", "12")), "<>", totals=1)))
        part   count
        V·H       12
        ------------
        total     12
    """
    if screen.has_bars and table.shares:
        from weighbridge.render.bars import with_bars  # noqa: PLC0415  # a pipe has none

        table = with_bars(table, screen.columns)
    widths = _fitting(widths_of(table), table.align, screen.columns)
    written = ["\n".join(_lines(row, widths, table.align)) for row in (table.header, *table.rows)]
    if table.totals:
        first_total = len(written) - table.totals
        if screen.is_styled:
            written[first_total:] = [styled(total, BOLD) for total in written[first_total:]]
        written.insert(first_total, "-" * line_width(widths))
    return "\n".join(written)


def widths_of(table: Table) -> list[int]:
    """Return the number of terminal columns that each column of a table needs."""
    columns = zip(table.header, *table.rows, strict=True)
    return [max(map(width, column)) for column in columns]


def line_width(widths: Sequence[int]) -> int:
    """Return the number of terminal columns for a line of cells with these widths."""
    return sum(widths) + GAP * (len(widths) - 1)


GAP = 2  # spaces between the columns of a table


def _fitting(widths: list[int], align: str, columns: int) -> list[int]:
    """Return the widths, with the widest columns of text narrowed to fit the screen."""
    fitting = list(widths)
    texts = [column for column, side in enumerate(align) if side == "<"]
    while line_width(fitting) > columns and texts:
        widest = max(texts, key=fitting.__getitem__)
        if fitting[widest] <= _NARROWEST:
            break
        fitting[widest] -= 1
    return fitting


_NARROWEST = len("attention")  # minimum width of a text column: common words stay whole


def _lines(row: Sequence[str], widths: Sequence[int], align: str) -> Iterator[str]:
    """Yield the lines of a row, usually one."""
    first, *rest = row
    cells = []
    for cell, room in zip(row, widths, strict=True):
        cells.append([cell])
        if width(cell) > room:
            cells[-1] = lines_of(cell, room)
    if width(first) > widths[0] and " " not in first:
        yield first
        cells[0] = [""]
        if not any(rest):
            return
    for line in zip_longest(*cells, fillvalue=""):
        yield "  ".join(map(_pad, line, widths, align)).rstrip()


def _pad(cell: str, columns: int, side: str) -> str:
    space = " " * (columns - width(cell))
    if side == "<":
        return cell + space
    return space + cell


def csv(rows: Iterable[Sequence[object]]) -> str:
    r"""Write rows as CSV (RFC 4180, lines end with ``\r\n``), with texts as `csv_cell` writes them.

    Example:
        >>> csv([("name", "count"), ('a "b", c', 3), ("=1+1", -3)])
        'name,count\r\n"a ""b"", c",3\r\n\'=1+1,-3\r\n'
    """
    import csv as writer  # noqa: PLC0415
    import io  # noqa: PLC0415

    out = io.StringIO()
    writer.writer(out).writerows(map(csv_cell, row) for row in rows)
    return out.getvalue()
