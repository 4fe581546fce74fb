"""A document as data: a list of blocks, which each format turns into text.

Answers put facts into blocks; `terminal`, `markdown`, `latex` and `html` lay out every kind of
block. They know nothing about models.

Blocks of a report hold plain text. Blocks of an article hold prose with three kinds of marks, the
same in all languages: ``**strong**``, `` `code` ``, and mathematics between dollar signs, which is
an expression in letters. ``$V*H$`` is shown as a formula, ``$#V*H$`` with numbers put in,
``$=V*H$`` as its value. A backslash makes the next character plain; `plain` adds it.
"""

from __future__ import annotations

from types import MappingProxyType

from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.render.safe import cell, each_text, lines
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.render.diagram import Part


class Aside(str):
    """A sentence that helps to read an answer, or gives its evidence; terminals dim it.

    Elsewhere it is ordinary text.
    """

    __slots__ = ()


# Blocks of a report: plain text


class Title(NamedTuple):
    """The subject of an answer. Lines that must stay whole, such as paths, do not wrap."""

    text: str
    wraps: bool = True


class Notes(NamedTuple):
    """Sentences, each on a new line, with an indent of some levels; empty without sentences."""

    items: tuple[str, ...]
    level: int = 0


class Lines(NamedTuple):
    """Text in lines that stay unchanged."""

    text: str


class Parts(NamedTuple):
    """Items with several parts each; parts share a line if there is room."""

    items: tuple[tuple[str, ...], ...]


class NumberedStep(NamedTuple):
    """A numbered step: a title with facts below it."""

    number: int
    title: str
    facts: tuple[str, ...]


class Equalities(NamedTuple):
    """A name with everything it equals, each as a formula in text."""

    name: str
    parts: tuple[str, ...]


class Definitions(NamedTuple):
    """Formulas as text, one per line; long ones continue on the next line."""

    items: tuple[str, ...]


class Comment(NamedTuple):
    """Sentences before code, each line a comment."""

    items: tuple[str, ...]
    mark: str


class Aligned(NamedTuple):
    """Equations as LaTeX source: a left side, and everything it equals."""

    equations: tuple[tuple[str, tuple[str, ...]], ...]


class Leaf(NamedTuple):
    """The end of a branch; if it refers to something, its text ends with ``= target``."""

    text: str
    figures: tuple[str, str]
    target: str = ""


class Branch(NamedTuple):
    """A line of an outline, its leaves and the branches below it.

    Its figures are on the right: a count, and a share or a number of copies.
    """

    text: str
    figures: tuple[str, str]
    leaves: tuple[Leaf, ...]
    branches: tuple[Branch, ...]


class Outline(NamedTuple):
    """A tree with a title and notes."""

    title: str
    root: Branch
    notes: tuple[str, ...]


class Together(NamedTuple):
    """Blocks that belong together: a terminal puts no empty line between them."""

    blocks: tuple[Block, ...]


class WideTable(NamedTuple):
    """A table with more columns than fit on a line, each with a short name.

    A terminal shows several tables, each with the first column, and cuts long names.
    """

    table: Table


class Piece(NamedTuple):
    """A piece of somebody's text; if it has a mark, with the reason for it.

    ``beside`` is shown next to the piece: what is right instead. A passage consists of ``inner``
    pieces, which together are its text. A format with few means leaves out a ``minor`` mark, such
    as that of an operand.
    """

    text: str
    mark: str = ""
    reason: str = ""
    beside: str = ""
    inner: tuple[Piece, ...] = ()
    minor: bool = False


class LineNote(NamedTuple):
    """A sentence about a line of somebody's text, with the mark of what it is about."""

    mark: str
    text: str


class AnnotatedLine(NamedTuple):
    """A line of somebody's text: its number in the source, its pieces, and notes below it.

    ``reasons`` has the numbers of the line that have the same reason, and that reason.
    """

    number: int
    pieces: tuple[Piece, ...]
    notes: tuple[LineNote, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()


class Annotated(NamedTuple):
    """Somebody's text, line by line, with marks; and how often each mark occurs, in words.

    Marks are ``right``, ``slip``, ``follows``, ``known``, ``size``, ``boilerplate`` or ``unread``,
    and ``remark`` for a passage. ``reasons`` is the heading of the list of all reasons. A terminal
    leaves the text out: the report before it names the lines.
    """

    title: str
    lines: tuple[AnnotatedLine, ...]
    legend: Mapping[str, str]
    reasons: str


# Blocks of an article: prose with marks


class Heading(NamedTuple):
    """A heading; the title of the document has level 1."""

    level: int
    prose: str


class Paragraph(NamedTuple):
    """Running prose."""

    prose: str


class Bullets(NamedTuple):
    """A list of points in prose."""

    items: tuple[str, ...]


class Chain(NamedTuple):
    """A chain of equalities; its parts are marked as mathematics, without dollar signs."""

    parts: tuple[str, ...]


class Code(NamedTuple):
    """Code to run."""

    source: str


class Grid(NamedTuple):
    """A table whose cells are prose."""

    table: Table


class Diagram(NamedTuple):
    """A drawing of a model's parts, and a sentence about it; terminals leave it out.

    ``parts`` are those of `render.diagram`. ``file`` is the address of its picture, for Markdown,
    which leaves it out if it has none.
    """

    name: str
    title: str
    caption: str
    parts: tuple[Part, ...]
    file: str = ""


class MapPart(NamedTuple):
    """A component of a layer: its key, its name, and its parameters in one layer."""

    component: str
    name: str
    each: int


class MapRow(NamedTuple):
    """Layers that follow on each other and are alike: their path, their number, their parts."""

    path: str
    layers: int
    parts: tuple[MapPart, ...]

    @property
    def each(self) -> int:
        """The parameters of one layer."""
        return sum(part.each for part in self.parts)


class LayerMap(NamedTuple):
    """A map of layers, every area in proportion to its parameters; only HTML shows it."""

    title: str
    caption: str
    rows: tuple[MapRow, ...]


Block = (
    Title | Notes | Lines | Parts | NumberedStep | Equalities | Definitions | Comment | Aligned
    | Outline | Annotated | Together | Table | WideTable | Heading | Paragraph | Bullets | Chain
    | Code | Grid | Diagram | LayerMap
)  # fmt: skip

NOTHING = Notes(())
"""An empty block."""


def flat(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks one by one, for formats with equal space between all blocks."""
    for block in blocks:
        if isinstance(block, Together):
            yield from flat(block.blocks)
        elif block != NOTHING:
            yield block


def shown_blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    r"""Yield blocks without control characters, whatever the names in them are.

    Only text that has lines, such as code or prose, keeps its ends of lines.

    Example:
        >>> list(shown_blocks([Title("a\x1b[31m\nb"), Lines("a\x1b[31m\nb")]))
        [Title(text='a�[31m�b', wraps=True), Lines(text='a�[31m\nb')]
    """
    for block in blocks:
        if isinstance(block, Together):
            yield Together(tuple(shown_blocks(block.blocks)))
        elif isinstance(block, _OF_LINES):
            yield each_text(block, lines)
        else:
            yield each_text(block, cell)


_OF_LINES = (Lines, Aligned, Annotated, Paragraph, Bullets, Code, Diagram)

_NO_VALUES: Mapping[str, Any] = MappingProxyType({})


class Document(NamedTuple):
    """Blocks in order, their language, and the value of each letter."""

    blocks: tuple[Block, ...]
    lang: str = "en"
    values: Mapping[str, Any] = _NO_VALUES


_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\*`$"})


def plain(outside: str) -> str:
    r"""Return text as prose in which no character is a mark.

    Example:
        >>> plain("a$V"), write(Document((Paragraph(plain("a$V + $b")),)), "text")
        ('a\\$V', 'a$V + $b')
    """
    return outside.translate(_MARKS)


FORMATS = {
    "text": ("terminal", "as_text"),
    "markdown": ("markdown", "as_markdown"),
    "zhihu": ("markdown", "as_markdown_with_dollars"),
    "latex": ("latex", "as_latex"),
    "html": ("html", "as_page"),
}
"""The formats of a document, each with the function of this package that writes it."""


def write(document: Document, format_name: str) -> str:
    """Write a document in one of ``FORMATS``.

    Example:
        >>> prose = "In all **$=V*H$**, from `embeddings`."
        >>> document = Document((Paragraph(prose),), "en", {"V": 3, "H": 1000})
        >>> print(write(document, "text"))
        In all 3,000, from embeddings.
        >>> print(write(document, "markdown"))
        In all **3,000**, from `embeddings`.
    """
    name, function = FORMATS[format_name]
    # Import only the module of this format, without `importlib`, which is slower.
    module = __import__(f"weighbridge.render.{name}", fromlist=[function])
    text: str = getattr(module, function)(document)
    return text
