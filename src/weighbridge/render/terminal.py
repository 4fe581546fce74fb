"""Documents for a terminal: 80 columns, an empty line between blocks."""

from __future__ import annotations

from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.document import (
    NOTHING,
    Aligned,
    Bullets,
    Chain,
    Code,
    Comment,
    Definitions,
    Equalities,
    Grid,
    Heading,
    Lines,
    Notes,
    NumberedStep,
    Outline,
    Paragraph,
    Parts,
    Title,
    Together,
    WideTable,
)
from weighbridge.render.table import COLUMNS, GAP, LATEX, Table, lines_of, text, width, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from weighbridge.render.document import Block, Branch, Document, Leaf
    from weighbridge.render.prose import Prose


def as_text(document: Document) -> str:
    """Write a document for a terminal."""
    return "\n\n".join(_texts(document.blocks, document))


def _texts(blocks: Iterable[Block], document: Document) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Together):
            yield "\n".join(_texts(block.blocks, document))
        elif type(block) in _PROSE:
            yield _PROSE[type(block)](block, prose_of(document))
        elif block != NOTHING:
            yield _PLAIN[type(block)](block)


def prose_of(document: Document) -> Prose:
    """Return what writes the prose of a document as plain text."""
    from weighbridge.render import math  # noqa: PLC0415  # a report has no prose with marks
    from weighbridge.render.prose import Marks, Prose  # noqa: PLC0415

    marks = Marks(style=math.UNICODE, escape=str, strong="{}", code=str, math="{}")
    return Prose(marks, document.values)


# Reports


def _title(block: Title) -> str:
    return wrap(block.text) if block.wraps else block.text


_LEVEL = "  "


def _wide_table(block: WideTable) -> str:
    """Write a table in slices: the first column, and as many others as there is room for."""
    table = block.table
    header = tuple(map(_cut, table.header))
    rows = [(_cut(row[0]), *row[1:]) for row in table.rows]
    widths = [max(map(width, column)) for column in zip(header, *rows, strict=True)]
    slices = []
    for start, end in _slices(widths):
        cells = [(row[0], *row[start:end]) for row in (header, *rows)]
        align = table.align[0] + table.align[start:end]
        slices.append(text(Table(cells[0], tuple(cells[1:]), align)))
    return "\n\n".join(slices)


def _slices(widths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the columns, from which to before which, that fit beside the first: at least one."""
    start, taken = 1, widths[0]
    for column in range(1, len(widths)):
        if column > start and taken + GAP + widths[column] > COLUMNS:
            yield start, column
            start, taken = column, widths[0]
        taken += GAP + widths[column]
    yield start, len(widths)


def _cut(name: str) -> str:
    while width(name) > _LONGEST_NAME:
        name = f"{name.removesuffix('…')[:-1]}…"
    return name


_LONGEST_NAME = 12  # columns of the terminal; a dozen numbers under shorter names fit on a line


def _notes(block: Notes) -> str:
    indent = _LEVEL * block.level
    lines: list[str] = []
    for item in block.items:
        lines += wrap(item, COLUMNS - len(indent)).split("\n")
    return "\n".join(indent + line for line in lines)


def _parts(block: Parts) -> str:
    return "\n".join(map(_in_lines, block.items))


def _in_lines(parts: Iterable[str]) -> str:
    """Put parts on one line, two spaces apart, or what does not fit there on further ones."""
    lines = [""]
    for part in filter(None, parts):
        if lines[-1] and width(f"{lines[-1]}  {part}") > COLUMNS:
            lines.append("    ")
        lines[-1] += f"  {part}"
    return "\n".join(wrap(line, indent="      ") for line in lines)


def _step(block: NumberedStep) -> str:
    number = f"{block.number}. "
    indent = " " * len(number)
    lines = [wrap(f"{number}{block.title}", indent=indent)]
    for fact in block.facts:
        wrapped = wrap(fact, COLUMNS - len(indent), indent="").split("\n")
        lines += [indent + line for line in wrapped]
    return "\n".join(lines)


_EQUALS, _AFTER_EQUALS = "    = ", "      "


def _equalities(block: Equalities) -> str:
    lines = [block.name]
    for part in block.parts:
        pieces = lines_of(part, COLUMNS - len(_EQUALS))
        lines.append(_EQUALS + f"\n{_AFTER_EQUALS}".join(pieces))
    return "\n".join(lines)


def _definitions(block: Definitions) -> str:
    return "\n".join(wrap(item, indent="    ") for item in block.items)


def _comment(block: Comment) -> str:
    lines: list[str] = []
    for item in block.items:
        lines += wrap(item, COLUMNS - _LONGEST_MARK).split("\n")
    return "\n".join(block.mark + line for line in lines)


_LONGEST_MARK = len("-- ")  # of a comment, SQL's


def _aligned(block: Aligned) -> str:
    lines: list[str] = []
    for name, parts in block.equations:
        left = f"{name} &= "
        for part in parts:
            first, *rest = lines_of(part, COLUMNS, LATEX)
            lines += [f"{left}{first}", *(rf"  &\quad {line}" for line in rest)]
            left = "  &= "
    body = " \\\\\n".join(lines)
    return f"\\begin{{align*}}\n{body}\n\\end{{align*}}"


# Outlines


def _outline(block: Outline) -> str:
    lines = [block.title, *_branch_lines(block.root, 0), "", *map(wrap, block.notes)]
    return "\n".join(lines)


def figures(count: str, share: str) -> str:
    """Write the figures of a branch; below one another, the counts end in one column."""
    return f"{count} {share:>{_SHARE_COLUMNS}}"


_SHARE_COLUMNS = len("100.0%")


def _branch_lines(branch: Branch, level: int) -> Iterator[str]:
    """Yield a branch's line and those below it.

    A branch without others has its leaves on its line if they fit.
    """
    title, right = _LEVEL * level + branch.text, figures(*branch.figures)
    whole = f"{title} {', '.join(leaf.text for leaf in branch.leaves)}"
    if branch.leaves and not branch.branches and _fits(whole, right):
        yield _line(whole, right)
        return
    yield _line(title, right)
    for leaf in branch.leaves:
        yield from _leaf_lines(leaf, _LEVEL * (level + 1))
    for below in branch.branches:
        yield from _branch_lines(below, level + 1)


def _leaf_lines(leaf: Leaf, indent: str) -> Iterator[str]:
    """Yield a leaf's line, and what it refers to below it where that does not fit."""
    whole, right = indent + leaf.text, figures(*leaf.figures)
    if not leaf.target or _fits(whole, right):
        yield _line(whole, right)
        return
    reference = f"= {leaf.target}"
    yield _line(whole.removesuffix(f" {reference}"), right)
    deeper, room = indent + _LEVEL, COLUMNS - width(reference)
    if room >= 0:  # a long name goes to the left if that helps
        deeper = deeper[:room]
    yield deeper + reference


def _fits(left: str, right: str) -> bool:
    return width(left) + len(_LEVEL) + width(right) <= COLUMNS


def _line(left: str, right: str) -> str:
    """Write a line with its figures on the right, and what has no room beside them below it."""
    indent = " " * (len(left) - len(left.lstrip()) + 4)
    first, *rest = wrap(left, COLUMNS - width(right) - 2, indent).split("\n")
    return "\n".join([first + " " * max(2, COLUMNS - width(first) - width(right)) + right, *rest])


_PLAIN: dict[type, Callable[[Any], str]] = {
    Title: _title,
    Notes: _notes,
    Lines: lambda block: block.text,
    Parts: _parts,
    NumberedStep: _step,
    Equalities: _equalities,
    Definitions: _definitions,
    Comment: _comment,
    Aligned: _aligned,
    Outline: _outline,
    Table: text,
    WideTable: _wide_table,
}


# Articles


_UNDERLINES = {1: "=", 2: "-"}


def _heading(block: Heading, prose: Prose) -> str:
    title = prose.write(block.prose)
    lines = [wrap(title, indent="")]
    if block.level in _UNDERLINES:
        lines.append(_UNDERLINES[block.level] * min(width(title), COLUMNS))
    return "\n".join(lines)


def _bullets(block: Bullets, prose: Prose) -> str:
    return "\n".join(wrap(f"- {prose.write(item)}") for item in block.items)


def _chain(block: Chain, prose: Prose) -> str:
    lines: list[str] = []
    mark = "    "
    for part in block.parts:
        pieces = lines_of(prose.mathematics(part), COLUMNS - len(_NEXT_PART))
        lines.append(mark + _AFTER_NEXT_PART.join(pieces))
        mark = _NEXT_PART
    return "\n".join(lines)


_NEXT_PART = "      = "
_AFTER_NEXT_PART = "\n" + " " * len(_NEXT_PART)


def _code(block: Code, _: Prose) -> str:
    return "\n".join(f"    {line}" for line in block.source.splitlines())


_PROSE: dict[type, Callable[[Any, Prose], str]] = {
    Heading: _heading,
    Paragraph: lambda block, prose: wrap(prose.write(block.prose), indent=""),
    Bullets: _bullets,
    Chain: _chain,
    Code: _code,
    Grid: lambda block, prose: text(prose.table(block.table)),
}
