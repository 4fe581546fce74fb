"""A document as data: a list of blocks, which a writer for each format turns into text.

An answer puts its facts into blocks and lays nothing out; `terminal`, `markdown`, `latex` and
`html` each write every kind of block in their own way. None of them knows anything of models.

Blocks of a report hold plain text. Blocks of an article hold prose with three kinds of marks, in
every language the same: ``**strong**``, `` `code` `` and mathematics between dollar signs, which
is an expression in letters. ``$V*H$`` is shown as a formula, ``$#V*H$`` with numbers put in,
``$=V*H$`` as its value. A character after a backslash is that character and marks nothing;
`plain` writes it so.
"""

from __future__ import annotations

from types import MappingProxyType

from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any


class Aside(str):
    """A sentence that helps to read an answer, or says how it is known: a terminal dims it.

    Everywhere else it is a text like any other.
    """

    __slots__ = ()


# Blocks of a report: plain text


class Title(NamedTuple):
    """What an answer is about. A line that must not be broken, such as a path, does not wrap."""

    text: str
    wraps: bool = True


class Notes(NamedTuple):
    """Sentences, each from a new line and indented by so many levels; no sentences, no block."""

    items: tuple[str, ...]
    level: int = 0


class Lines(NamedTuple):
    """Text that is already in lines, and stays as it is."""

    text: str


class Parts(NamedTuple):
    """Items of several parts each: parts share a line where it has room for them."""

    items: tuple[tuple[str, ...], ...]


class NumberedStep(NamedTuple):
    """A numbered step: its title, and facts below it."""

    number: int
    title: str
    facts: tuple[str, ...]


class Equalities(NamedTuple):
    """Something with all that it is equal to, each as text that is a formula."""

    name: str
    parts: tuple[str, ...]


class Definitions(NamedTuple):
    """Formulas as text, one a line: what is too long for a line goes on below it."""

    items: tuple[str, ...]


class Comment(NamedTuple):
    """Sentences before code, each line behind the mark of a comment."""

    items: tuple[str, ...]
    mark: str


class Aligned(NamedTuple):
    """Equations in the source of LaTeX: what stands to the left, and all that it is equal to."""

    equations: tuple[tuple[str, tuple[str, ...]], ...]


class Leaf(NamedTuple):
    """The end of a branch; where it refers to something, its text ends with ``= target``."""

    text: str
    figures: tuple[str, str]
    target: str = ""


class Branch(NamedTuple):
    """A line of an outline, its leaves and the branches below it.

    On its right stand its figures: a count, and a share or a number of copies.
    """

    text: str
    figures: tuple[str, str]
    leaves: tuple[Leaf, ...]
    branches: tuple[Branch, ...]


class Outline(NamedTuple):
    """A tree under its title, and notes on it."""

    title: str
    root: Branch
    notes: tuple[str, ...]


class Together(NamedTuple):
    """Blocks that belong together: in a terminal no empty line stands between them."""

    blocks: tuple[Block, ...]


class WideTable(NamedTuple):
    """A table of more columns than a line has room for, each under a short name.

    A terminal shows it as several tables, each with the first column, and cuts long names.
    """

    table: Table


# Blocks of an article: prose with marks


class Heading(NamedTuple):
    """A heading; the document's title is of level 1."""

    level: int
    prose: str


class Paragraph(NamedTuple):
    """Running prose."""

    prose: str


class Bullets(NamedTuple):
    """Points, each a piece of prose."""

    items: tuple[str, ...]


class Chain(NamedTuple):
    """A chain of equalities, each part in the marks of mathematics without their dollar signs."""

    parts: tuple[str, ...]


class Code(NamedTuple):
    """Lines to type."""

    source: str


class Grid(NamedTuple):
    """A table whose cells are prose."""

    table: Table


Block = (
    Title | Notes | Lines | Parts | NumberedStep | Equalities | Definitions | Comment | Aligned
    | Outline | Together | Table | WideTable | Heading | Paragraph | Bullets | Chain | Code | Grid
)  # fmt: skip

NOTHING = Notes(())
"""A block that no format shows."""


def flat(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks one by one, for a format in which none are closer together than others."""
    for block in blocks:
        if isinstance(block, Together):
            yield from flat(block.blocks)
        elif block != NOTHING:
            yield block


_NO_VALUES: Mapping[str, Any] = MappingProxyType({})


class Document(NamedTuple):
    """Blocks in order, the language they are in, and the value of each letter."""

    blocks: tuple[Block, ...]
    lang: str = "en"
    values: Mapping[str, Any] = _NO_VALUES


_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\*`$"})


def plain(outside: str) -> str:
    r"""Return prose that says just this: any character from outside may be a mark.

    Example:
        >>> plain("a$V"), write(Document((Paragraph(plain("a$V + $b")),)), "text")
        ('a\\$V', 'a$V + $b')
    """
    return outside.translate(_MARKS)


FORMATS = {
    "text": ("terminal", "as_text"),
    "markdown": ("markdown", "as_markdown"),
    "latex": ("latex", "as_latex"),
    "html": ("html", "as_page"),
}
"""Every format that a document can be written in, and the function of this room that writes it."""


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
    # Only the module of this format is imported, and without `importlib`, which takes longer.
    module = __import__(f"weighbridge.render.{name}", fromlist=[function])
    text: str = getattr(module, function)(document)
    return text
