"""Documents for a terminal: lines that fit its width, with empty lines between blocks."""

from __future__ import annotations

from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.document import (
    NOTHING,
    Aligned,
    Annotated,
    Aside,
    Bullets,
    Chain,
    Code,
    Comment,
    Definitions,
    Diagram,
    Equalities,
    Grid,
    Heading,
    LayerMap,
    Lines,
    Notes,
    NumberedStep,
    Outline,
    Paragraph,
    Parts,
    Title,
    Together,
    WideTable,
    shown_blocks,
)
from weighbridge.render.table import (
    BOLD,
    COLUMNS,
    DIM,
    GAP,
    LATEX,
    PLAIN,
    Table,
    lines_of,
    styled,
    text,
    width,
    widths_of,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from weighbridge.render.document import Block, Branch, Document, Leaf
    from weighbridge.render.prose import Prose
    from weighbridge.render.table import Screen


def as_text(document: Document, screen: Screen = PLAIN) -> str:
    """Write a document for a terminal, or for a file if there is no screen."""
    return "\n\n".join(_texts(shown_blocks(document.blocks), document, screen))


def _texts(blocks: Iterable[Block], document: Document, screen: Screen) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Annotated):
            continue
        if isinstance(block, Together):
            yield "\n".join(_texts(block.blocks, document, screen))
        elif type(block) in _PROSE:
            yield _PROSE[type(block)](block, prose_of(document), screen)
        elif block != NOTHING and not isinstance(block, Diagram | LayerMap):
            yield _REPORT[type(block)](block, screen)


def prose_of(document: Document) -> Prose:
    """Return a writer of the document's prose as plain text."""
    from weighbridge.render import math  # noqa: PLC0415  # a report has no prose with marks
    from weighbridge.render.prose import Marks, Prose  # noqa: PLC0415

    marks = Marks(style=math.UNICODE, escape=str, strong="{}", code=str, math="{}")
    return Prose(marks, document.values)


# Reports


def _title(block: Title, screen: Screen) -> str:
    title = block.text
    if block.wraps:
        title = wrap(title, screen.columns)
    return _bold(title, screen)


def _bold(lines: str, screen: Screen) -> str:
    return styled(lines, BOLD) if screen.is_styled else lines


def _sentence(sentence: str, lines: str, screen: Screen) -> str:
    """Return the lines of a sentence, dimmed if it is an aside."""
    if screen.is_styled and isinstance(sentence, Aside):
        return styled(lines, DIM)
    return lines


_LEVEL = "  "


def _wide_table(block: WideTable, screen: Screen) -> str:
    """Write a table in slices: the first column, and as many others as fit."""
    table = block.table
    header = tuple(map(_cut, table.header))
    rows = tuple((_cut(row[0]), *row[1:]) for row in table.rows)
    widths = widths_of(Table(header, rows, table.align))
    slices = []
    for start, end in _slices(widths, screen.columns):
        cells = [(row[0], *row[start:end]) for row in (header, *rows)]
        align = table.align[0] + table.align[start:end]
        slices.append(text(Table(cells[0], tuple(cells[1:]), align), screen))
    return "\n\n".join(slices)


def _slices(widths: Sequence[int], columns: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of columns that fit beside the first, each with at least one."""
    start, taken = 1, widths[0]
    for column in range(1, len(widths)):
        if column > start and taken + GAP + widths[column] > columns:
            yield start, column
            start, taken = column, widths[0]
        taken += GAP + widths[column]
    yield start, len(widths)


def _cut(name: str) -> str:
    while width(name) > _LONGEST_NAME:
        name = f"{name.removesuffix('…')[:-1]}…"
    return name


_LONGEST_NAME = 12  # terminal columns; a line then has room for a dozen numbers


def _notes(block: Notes, screen: Screen) -> str:
    indent = _LEVEL * block.level
    sentences = []
    for item in block.items:
        lines = wrap(item, screen.columns - len(indent)).replace("\n", f"\n{indent}")
        sentences.append(_sentence(item, indent + lines, screen))
    return "\n".join(sentences)


def _parts(block: Parts, screen: Screen) -> str:
    return "\n".join(_in_lines(parts, screen.columns) for parts in block.items)


def _in_lines(parts: Iterable[str], columns: int) -> str:
    """Put parts on one line, two spaces apart; parts that do not fit go to further lines."""
    lines = [""]
    for part in filter(None, parts):
        if lines[-1] and width(f"{lines[-1]}  {part}") > columns:
            lines.append("    ")
        lines[-1] += f"  {part}"
    return "\n".join(wrap(line, columns, indent="      ") for line in lines)


def _step(block: NumberedStep, screen: Screen) -> str:
    number = f"{block.number}. "
    indent = " " * len(number)
    lines = [wrap(f"{number}{block.title}", screen.columns, indent)]
    for fact in block.facts:
        wrapped = wrap(fact, screen.columns - len(indent), indent="").split("\n")
        lines += [indent + line for line in wrapped]
    return "\n".join(lines)


_EQUALS, _AFTER_EQUALS = "    = ", "      "


def _equalities(block: Equalities, screen: Screen) -> str:
    lines = [block.name]
    for part in block.parts:
        pieces = lines_of(part, screen.columns - len(_EQUALS))
        lines.append(_EQUALS + f"\n{_AFTER_EQUALS}".join(pieces))
    return "\n".join(lines)


def _definitions(block: Definitions, screen: Screen) -> str:
    return "\n".join(wrap(item, screen.columns, "    ") for item in block.items)


def _comment(block: Comment, screen: Screen) -> str:
    lines: list[str] = []
    for item in block.items:
        lines += wrap(item, screen.columns - _LONGEST_MARK).split("\n")
    return "\n".join(block.mark + line for line in lines)


_LONGEST_MARK = len("-- ")  # of comments in SQL


def _aligned(block: Aligned, screen: Screen) -> str:
    lines: list[str] = []
    for name, parts in block.equations:
        left = f"{name} &= "
        for part in parts:
            first, *rest = lines_of(part, screen.columns, LATEX)
            lines += [f"{left}{first}", *(rf"  &\quad {line}" for line in rest)]
            left = "  &= "
    body = " \\\\\n".join(lines)
    return f"\\begin{{align*}}\n{body}\n\\end{{align*}}"


# Outlines


def _outline(block: Outline, screen: Screen) -> str:
    """Write a tree with its figures aligned in one column, as far left as possible."""
    lines = list(_branch_lines(block.root, 0, screen.columns))
    needed = max(width(left) + len(_LEVEL) + width(right) for left, right in lines)
    columns = min(screen.columns, max(COLUMNS, needed))
    root, *below = [_line(left, right, columns) for left, right in lines]
    notes = [_sentence(note, wrap(note, screen.columns), screen) for note in block.notes]
    return "\n".join([_bold(block.title, screen), _bold(root, screen), *below, "", *notes])


def figures(count: str, share: str) -> str:
    """Write the figures of a branch so that all counts are right-aligned."""
    return f"{count} {share:>{_SHARE_COLUMNS}}"


_SHARE_COLUMNS = len("100.0%")


def _branch_lines(branch: Branch, level: int, columns: int) -> Iterator[tuple[str, str]]:
    """Yield a branch's line and those below it, each with its figures.

    Leaves are on the line of a branch without subbranches if they fit.
    """
    title, right = _LEVEL * level + branch.text, figures(*branch.figures)
    whole = f"{title} {', '.join(leaf.text for leaf in branch.leaves)}"
    if branch.leaves and not branch.branches and _fits(whole, right, columns):
        yield whole, right
        return
    yield title, right
    for leaf in branch.leaves:
        yield from _leaf_lines(leaf, _LEVEL * (level + 1), columns)
    for below in branch.branches:
        yield from _branch_lines(below, level + 1, columns)


def _leaf_lines(leaf: Leaf, indent: str, columns: int) -> Iterator[tuple[str, str]]:
    """Yield the line of a leaf, with its target on the next line if it does not fit."""
    whole, right = indent + leaf.text, figures(*leaf.figures)
    if not leaf.target or _fits(whole, right, columns):
        yield whole, right
        return
    reference = f"= {leaf.target}"
    yield whole.removesuffix(f" {reference}"), right
    deeper, room = indent + _LEVEL, columns - width(reference)
    if room >= 0:  # a smaller indent, if a long name then fits
        deeper = deeper[:room]
    yield deeper + reference, ""


def _fits(left: str, right: str, columns: int) -> bool:
    return width(left) + len(_LEVEL) + width(right) <= columns


def _line(left: str, right: str, columns: int) -> str:
    """Write a line with its figures on the right; text that does not fit goes below."""
    if not right:
        return left
    indent = " " * (len(left) - len(left.lstrip()) + 4)
    first, *rest = wrap(left, columns - width(right) - 2, indent).split("\n")
    return "\n".join([first + " " * max(2, columns - width(first) - width(right)) + right, *rest])


_REPORT: dict[type, Callable[[Any, Screen], str]] = {
    Title: _title,
    Notes: _notes,
    Lines: lambda block, _: block.text,
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


def _heading(block: Heading, prose: Prose, screen: Screen) -> str:
    title = prose.write(block.prose)
    lines = [_bold(wrap(title, screen.columns, indent=""), screen)]
    if block.level in _UNDERLINES:
        lines.append(_UNDERLINES[block.level] * min(width(title), screen.columns))
    return "\n".join(lines)


def _paragraph(block: Paragraph, prose: Prose, screen: Screen) -> str:
    lines = wrap(prose.write(block.prose), screen.columns, indent="")
    return _sentence(block.prose, lines, screen)


def _bullets(block: Bullets, prose: Prose, screen: Screen) -> str:
    return "\n".join(wrap(f"- {prose.write(item)}", screen.columns) for item in block.items)


def _chain(block: Chain, prose: Prose, screen: Screen) -> str:
    lines: list[str] = []
    mark = "    "
    for part in block.parts:
        pieces = lines_of(prose.mathematics(part), screen.columns - len(_NEXT_PART))
        lines.append(mark + _AFTER_NEXT_PART.join(pieces))
        mark = _NEXT_PART
    return "\n".join(lines)


_NEXT_PART = "      = "
_AFTER_NEXT_PART = "\n" + " " * len(_NEXT_PART)


def _code(block: Code, _: Prose, __: Screen) -> str:
    return "\n".join(f"    {line}" for line in block.source.splitlines())


_PROSE: dict[type, Callable[[Any, Prose, Screen], str]] = {
    Heading: _heading,
    Paragraph: _paragraph,
    Bullets: _bullets,
    Chain: _chain,
    Code: _code,
    Grid: lambda block, prose, screen: text(prose.table(block.table), screen),
}
