"""Documents in Markdown, with mathematics as a site renders it.

GitHub, GitLab and Gitea render `` $`…`$ `` and blocks of ``math``, which need no spaces beside
Chinese characters. Zhihu, CSDN and Typora render ``$…$``, and ``$$`` on lines of their own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from weighbridge.render import math, terminal
from weighbridge.render.diagram import description
from weighbridge.render.document import (
    Annotated,
    Bullets,
    Chain,
    Code,
    Diagram,
    Document,
    Grid,
    Heading,
    LayerMap,
    Notes,
    Paragraph,
    Title,
    flat,
    shown_blocks,
)
from weighbridge.render.latex import chain_lines
from weighbridge.render.prose import Marks, Prose
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weighbridge.render.document import Block, Piece


def as_markdown(document: Document) -> str:
    """Write a document in Markdown for a Git forge."""
    prose = Prose(_MARKS, document.values)
    return "\n\n".join(filter(None, _markdown_blocks(document.blocks, prose, _FENCED)))


def as_markdown_with_dollars(document: Document) -> str:
    """Write a document in Markdown for Zhihu, CSDN and Typora."""
    prose = Prose(_MARKS._replace(math="${}$"), document.values)
    return "\n\n".join(filter(None, _markdown_blocks(document.blocks, prose, "$$\n{}\n$$")))


_FENCED = "```math\n{}\n```"


def _markdown_blocks(blocks: Iterable[Block], prose: Prose, equation: str) -> Iterator[str]:
    for block in flat(shown_blocks(blocks)):
        kind: type = type(block)
        if isinstance(block, Chain):
            yield equation.format(_chain(block, prose))
        else:
            yield _BLOCKS.get(kind, _as_in_terminal)(block, prose)


def escape(plain: str) -> str:
    """Escape what Markdown would read as markup, and what forges would make a link."""
    return _ADDRESS.sub(r"\\\g<0>", _MARKUP.sub(r"\\\g<0>", plain))


_MARKUP = re.compile(r"[\\`*_{}\[\]<>$|#&~]")
_ADDRESS = re.compile(r":(?=//)|(?<=www)\.|@", re.IGNORECASE)


_MARKS = Marks(style=math.LATEX, escape=escape, strong="**{}**", code="`{}`".format, math="$`{}`$")


def escape_cell(plain: str) -> str:
    r"""Escape the plain text of a cell; underscores inside words mean nothing, and stay.

    Example:
        >>> print(escape_cell("A_kv <b> a|b"))
        A_kv \<b\> a\|b
    """
    return _INSIDE_WORD.sub("_", escape(plain))


_INSIDE_WORD = re.compile(r"(?<=[^\W_])\\_(?=[^\W_])")


def _written_cell(written: str) -> str:
    """Escape the bars in Markdown, such as those of code, which would end a cell."""
    return _BAR.sub(r"\\|", written)


_BAR = re.compile(r"(?<!\\)\|")


def markdown_table(table: Table, write_cell: Callable[[str], str] = escape_cell) -> str:
    r"""Write a table in GitHub's Markdown; ``write_cell`` writes and escapes the text of a cell.

    Example:
        >>> print(markdown_table(Table(("part", "count"), (("a|b", "12"),), "<>")))
        | part | count |
        | :--- | ---: |
        | a\|b | 12 |
    """
    sides = {"<": ":---", ">": "---:"}
    head = [map(write_cell, table.header), [sides[side] for side in table.align]]
    body = [map(write_cell, row) for row in table.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*head, *body])


def _note_bullets(block: Notes, _: Prose) -> str:
    indent = "  " * block.level
    return "\n".join(f"{indent}- {escape(item)}" for item in block.items)


def _bullets(block: Bullets, prose: Prose) -> str:
    return "\n".join(f"- {prose.write(item)}" for item in block.items)


def _chain(block: Chain, prose: Prose) -> str:
    lines = " \\\\\n".join(chain_lines(block, prose))
    return f"\\begin{{gathered}}\n{lines}\n\\end{{gathered}}"


def _image(block: Diagram, prose: Prose) -> str:
    """Write a diagram as an image with a description, if it has a file."""
    if not block.file:
        return ""
    names = description(block.parts, prose.values, only_names=True)
    image = f"![{escape(f'{block.title}: {names}')}]({quote(block.file)})"
    return f"{image}\n\n{prose.write(block.caption)}"


# Somebody's text, with marks

_SIGNS = {"right": " ✓", "size": " ✓"}
"""Marks that have a sign in place of a note, and no others: a text has most of these."""
_WITH_NOTE = ("slip", "follows", "known", "unread")


def _annotated(block: Annotated, _: Prose) -> str:
    """Write somebody's text, with a tick for each right number and a footnote for most others.

    Numbers with the same reason share a footnote.
    """
    footnotes: dict[str, int] = {}
    paragraphs, paragraph = [], list[str]()
    for line in block.lines:
        written = _as_text("".join(_piece(piece, footnotes) for piece in line.pieces))
        in_place = {piece.reason for piece in line.pieces}
        for note in line.notes:
            if note.text not in in_place:
                written += _reference(note.text, footnotes)
        if written:
            paragraph.append(written)
        elif paragraph:
            paragraphs.append("  \n".join(paragraph))
            paragraph = []
    paragraphs.append("  \n".join(paragraph))
    notes = [f"[^{number}]: {escape(reason)}" for reason, number in footnotes.items()]
    legend = escape(" · ".join(block.legend.values()))
    title = f"## {escape(block.title)}"
    return "\n\n".join(filter(None, [title, legend, *paragraphs, "\n".join(notes)]))


def _piece(piece: Piece, footnotes: dict[str, int]) -> str:
    if piece.inner:
        written = "".join(_piece(inner, footnotes) for inner in piece.inner)
        return written + _reference(piece.reason, footnotes)
    written = escape(piece.text)
    if piece.minor:
        return written
    if piece.mark in _WITH_NOTE:
        return f"**{written}**{_reference(piece.reason, footnotes)}"
    return written + _SIGNS.get(piece.mark, "")


def _reference(reason: str, footnotes: dict[str, int]) -> str:
    number = footnotes.setdefault(reason, len(footnotes) + 1)
    return f"[^{number}]"


def _as_text(line: str) -> str:
    """Escape what Markdown would read as a list, a rule or a heading at the start of a line."""
    return _LIST.sub(r"\1\\\2", line.strip())


_LIST = re.compile(r"^(\d*)([-+=.)])")


def _as_in_terminal(block: Any, _: Prose) -> str:
    return _fenced("text", terminal.as_text(Document((block,))))


def _fenced(language: str, text: str) -> str:
    """Write text between fences that are longer than any run of backticks in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


_BLOCKS: dict[type, Callable[[Any, Prose], str]] = {
    Annotated: _annotated,
    Title: lambda block, _: f"**{escape(block.text)}**",
    Notes: _note_bullets,
    Table: lambda block, _: markdown_table(block),
    Heading: lambda block, prose: "#" * block.level + " " + prose.write(block.prose),
    Paragraph: lambda block, prose: prose.write(block.prose),
    Bullets: _bullets,
    Code: lambda block, _: _fenced("python", block.source),
    Grid: lambda block, prose: markdown_table(prose.table(block.table), _written_cell),
    Diagram: _image,
    LayerMap: lambda *_: "",
}
