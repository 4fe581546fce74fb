"""Bars beside the shares of a table, for terminals."""

from __future__ import annotations

from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.table import GAP, line_width, widths_of

if TYPE_CHECKING:
    from weighbridge.render.table import Table

_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")  # of a terminal column, from its left
_FULL = "█"
BLOCKS = "".join((*_EIGHTHS, _FULL))
"""The characters of bars."""

_NARROWEST, _WIDEST = 6, 24  # terminal columns of the longest bar: enough for comparison


def with_bars(table: Table, columns: int) -> Table:
    """Return a table with a column of bars beside its shares, if the terminal has room for it.

    The largest share has the longest bar, and totals have none.

    Example:
        >>> from weighbridge.render.table import Table, text
        >>> rows = (("a", "75%"), ("b", "25%"))
        >>> print(text(with_bars(Table(("part", "share"), rows, "<>", 0, (0.75, 0.25), 1), 20)))
        part  share
        a       75%  ███████
        b       25%  ██▍
    """
    longest = min(columns - line_width(widths_of(table)) - GAP, _WIDEST)
    largest = max(table.shares)
    if longest < _NARROWEST or largest <= 0:
        return table
    place, rows = table.share_column + 1, []
    for number, row in enumerate(table.rows):
        drawn = ""
        if number < len(table.shares):
            drawn = bar(table.shares[number] / largest, longest)
        rows.append((*row[:place], drawn, *row[place:]))
    return table._replace(
        header=(*table.header[:place], "", *table.header[place:]),
        rows=tuple(rows),
        align=f"{table.align[:place]}<{table.align[place:]}",
    )


def bar(fraction: float, longest: int) -> str:
    """Draw a fraction of a bar with a number of columns, to the nearest eighth of a column.

    Example:
        >>> bar(0.55, 8)
        '████▍'
    """
    full, eighths = divmod(round(fraction * longest * len(_EIGHTHS)), len(_EIGHTHS))
    return _FULL * full + _EIGHTHS[eighths]
