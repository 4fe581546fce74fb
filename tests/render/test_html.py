"""HTML: each kind of block is our own markup, and its content is escaped text."""

from __future__ import annotations

import typing
from html import escape
from typing import TYPE_CHECKING

import pytest
from notebooks import HOSTILE, Sanitised

from weighbridge.render import document
from weighbridge.render.diagram import Box
from weighbridge.render.document import Block, Document, plain
from weighbridge.render.html import as_page, fragment
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

FIGURES = ("7", HOSTILE)
LEAF = document.Leaf(HOSTILE, FIGURES)
END = document.Branch(HOSTILE, FIGURES, (), ())
TABLE = Table((HOSTILE, HOSTILE), ((HOSTILE, HOSTILE), (HOSTILE, HOSTILE)), "<>", 1)
PROSE_TABLE = Table((plain(HOSTILE),), ((plain(HOSTILE),),), "<")
BLOCKS: list[Block] = [
    document.Title(HOSTILE),
    document.Notes((HOSTILE,)),
    document.Notes((HOSTILE, HOSTILE)),
    document.Notes((HOSTILE,), 1),
    document.Lines(HOSTILE),
    document.Parts(((HOSTILE, "", HOSTILE),)),
    document.NumberedStep(1, HOSTILE, (HOSTILE,)),
    document.Equalities(HOSTILE, (HOSTILE, HOSTILE)),
    document.Definitions((HOSTILE,)),
    document.Comment((HOSTILE,), "# "),
    document.Aligned(((HOSTILE, (HOSTILE,)),)),
    document.Outline(HOSTILE, document.Branch(HOSTILE, FIGURES, (LEAF,), (END,)), (HOSTILE,)),
    document.Together((document.Title(HOSTILE), document.Notes((HOSTILE,)))),
    TABLE,
    document.WideTable(TABLE),
    document.Heading(1, plain(HOSTILE)),
    document.Paragraph(f"**{plain(HOSTILE)}** {plain(HOSTILE)}"),
    document.Bullets((plain(HOSTILE),)),
    document.Chain(("V*H",)),
    document.Code(HOSTILE),
    document.Grid(PROSE_TABLE),
    document.Annotated(
        HOSTILE,
        (
            document.AnnotatedLine(
                1,
                (
                    document.Piece(HOSTILE, "right", "a reason", HOSTILE),
                    document.Piece("", "slip", "a reason", inner=(document.Piece(HOSTILE),)),
                ),
                (document.LineNote("slip", HOSTILE),),
            ),
        ),
        {"right": "1 right"},
        "reasons",
    ),
    document.Diagram("boxes", "title", plain(HOSTILE), (Box(("word",)),)),
    document.LayerMap("title", HOSTILE, ()),
]


def texts_in(value: object) -> Iterator[str]:
    """Yield every text of a block."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from texts_in(item)


def test_every_kind_of_block_is_tried() -> None:
    assert {type(block) for block in BLOCKS} == set(typing.get_args(Block))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_the_content_of_a_block_is_text(block: Block) -> None:
    shown = "".join(Sanitised(fragment(Document((block,)), (HOSTILE,))).texts)
    held = " ".join(texts_in(block)).replace(plain(HOSTILE), HOSTILE)
    assert shown.count(HOSTILE) == held.count(HOSTILE) + 1  # and the note below it


def test_the_reasons_of_marks_are_text() -> None:
    line = document.AnnotatedLine(
        7,
        (document.Piece("768", "slip", HOSTILE, "769"),),
        (document.LineNote("slip", HOSTILE),),
        (("768", HOSTILE),),
    )
    block = document.Annotated(HOSTILE, (line,), {"slip": HOSTILE}, HOSTILE)
    page = as_page(Document((block,)))
    assert HOSTILE not in page
    assert page.count(escape(HOSTILE)) == 7
    assert '<p id="line-7">' in page


def test_a_page_has_the_title_of_its_document() -> None:
    for title in (document.Title("a < b"), document.Heading(1, "a < b")):
        assert "<title>a &lt; b</title>" in as_page(Document((document.Together((title,)),)))
