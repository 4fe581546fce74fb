"""Documents as files: the document, and the pictures that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.files import write_whole
from weighbridge.render.document import Diagram, Document, flat, write
from weighbridge.render.html import LANGUAGE_TAGS

if TYPE_CHECKING:
    from pathlib import Path

    from weighbridge.render.document import Block

FORMAT_BY_ENDING = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".tex": "latex",
    ".html": "html",
    ".htm": "html",
}
"""The format of a file by its ending; any other ending means text."""


def save(document: Document, path: Path, format_name: str = "") -> list[Path]:
    """Write a document to a file, and return the paths of all files written.

    In Markdown, each diagram is an SVG file beside it: ``bert-1-embeddings.svg`` for ``bert.md``.

    Args:
        document: the document to write.
        path: the file; an existing one is replaced.
        format_name: one of ``FORMATS``; if empty, the ending of the file decides.

    Raises:
        UsageError: a file cannot be written.
    """
    format_name = format_name or FORMAT_BY_ENDING.get(path.suffix.lower(), "text")
    pictures: dict[Path, str] = {}
    if format_name in ("markdown", "zhihu"):
        document, pictures = _with_pictures(document, path)
    write_whole(path, write(document, format_name) + "\n")
    for picture, svg in pictures.items():
        write_whole(picture, svg)
    return [path, *pictures]


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
