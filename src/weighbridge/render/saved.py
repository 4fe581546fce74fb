"""Documents as files: the document, and the pictures that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.errors import UsageError
from weighbridge.files import write_whole
from weighbridge.render.document import Diagram, Document, flat, write
from weighbridge.render.html import LANGUAGE_TAGS

if TYPE_CHECKING:
    from pathlib import Path

    from weighbridge.render.document import Block

FORMAT_BY_ENDING = {
    "": "text",
    ".txt": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".tex": "latex",
    ".html": "html",
    ".htm": "html",
}
"""The format of a file by its ending."""


def save(document: Document, path: Path, format_name: str = "") -> list[Path]:
    """Write a document to a file, and return the paths of all files written.

    In Markdown, each diagram is an SVG file beside it: ``bert-1-embeddings.svg`` for ``bert.md``.

    Args:
        document: the document to write.
        path: the file; an existing one is replaced.
        format_name: one of ``FORMATS``; if empty, the ending of the file decides.

    Raises:
        UsageError: a file cannot be written, or its ending is none of `FORMAT_BY_ENDING`.
    """
    format_name = format_name or _format_of(path)
    pictures: dict[Path, str] = {}
    if format_name in ("markdown", "zhihu"):
        document, pictures = _with_pictures(document, path)
    write_whole(path, write(document, format_name) + "\n")
    for picture, svg in pictures.items():
        write_whole(picture, svg)
    return [path, *pictures]


def _format_of(path: Path) -> str:
    format_name = FORMAT_BY_ENDING.get(path.suffix.lower())
    if format_name is None:
        raise UsageError(
            "the ending of the file names no format",
            where=str(path),
            values={"ending": path.suffix},
            hint="use .txt, .md, .tex or .html, or choose one with --format",
        )
    return format_name


def _with_pictures(document: Document, path: Path) -> tuple[Document, dict[Path, str]]:
    """Return a document whose diagrams name their files, and the content of these files."""
    from weighbridge.render.diagram_svg import svg_file  # noqa: PLC0415  # Markdown alone needs it

    blocks: list[Block] = []
    pictures: dict[Path, str] = {}
    lang = LANGUAGE_TAGS.get(document.lang, document.lang)
    for block in flat(document.blocks):
        drawn = block
        if isinstance(block, Diagram):
            name = f"{path.stem}-{len(pictures) + 1}-{block.name}.svg"
            pictures[path.with_name(name)] = svg_file(block, document.values, lang)
            drawn = block._replace(file=name)
        blocks.append(drawn)
    return document._replace(blocks=tuple(blocks)), pictures
