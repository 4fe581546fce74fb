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
    Notes,
    Paragraph,
    Title,
    flat,
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
    for block in flat(blocks):
        kind: type = type(block)
        if isinstance(block, Chain):
            yield equation.format(_chain(block, prose))
        else:
            yield _BLOCKS.get(kind, _as_in_terminal)(block, prose)


def escape(plain: str) -> str:
    """Escape what Markdown would read as markup."""
    return re.sub(r"([\\`*_{}\[\]<>$|#&~])", r"\\\1", plain)


_MARKS = Marks(style=math.LATEX, escape=escape, strong="**{}**", code="`{}`".format, math="$`{}`$")


def markdown_table(table: Table) -> str:
    r"""Write a table in GitHub's Markdown.

    Example:
        >>> print(markdown_table(Table(("part", "count"), (("a|b", "12"),), "<>")))
        | part | count |
        | :--- | ---: |
        | a\|b | 12 |
    """
    sides = {"<": ":---", ">": "---:"}
    head = [map(_cell, table.header), [sides[side] for side in table.align]]
    body = [map(_cell, row) for row in table.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*head, *body])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


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
    return f"```text\n{terminal.as_text(Document((block,)))}\n```"


_BLOCKS: dict[type, Callable[[Any, Prose], str]] = {
    Annotated: _annotated,
    Title: lambda block, _: f"**{escape(block.text)}**",
    Notes: _note_bullets,
    Table: lambda block, _: markdown_table(block),
    Heading: lambda block, prose: "#" * block.level + " " + prose.write(block.prose),
    Paragraph: lambda block, prose: prose.write(block.prose),
    Bullets: _bullets,
    Code: lambda block, _: f"```python\n{block.source}\n```",
    Grid: lambda block, prose: markdown_table(prose.table(block.table)),
    Diagram: _image,
}
