"""Attention as a file: a page, a picture in SVG, or the same picture as PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge import data
from weighbridge.errors import UsageError
from weighbridge.render.page import Page
from weighbridge.render.picture import Picture, listed
from weighbridge.render.raster import rendered, without_font
from weighbridge.render.words import words

if TYPE_CHECKING:
    from weighbridge.render.attention import Attention


def draw(attention: Attention, form: str, lang: str = "en") -> tuple[bytes, list[str]]:
    """Draw attention, and return the picture with notes for the user.

    Args:
        attention: the maps to draw; a single head is drawn large.
        form: ``"svg"``, ``"html"`` or ``"png"``.
        lang: ``"en"`` or ``"zh"``.

    Raises:
        UsageError: the format or language is unknown, or a PNG cannot be rendered here.
    """
    words(lang)
    if form not in FORMS:
        raise UsageError(
            "there is no such picture format",
            values={"form": form},
            hint=f"use one of {', '.join(FORMS)}",
        )
    notes = []
    if attention.drawn < len(attention.tokens):
        notes.append(
            f"only the first {attention.drawn} of {len(attention.tokens)} tokens are drawn"
        )
    if form == "html":
        return Page(attention, lang).html().encode(), notes
    svg = Picture(attention, lang).svg()
    if form == "svg":
        return svg.encode(), notes
    return rendered(svg), notes + without_font(svg)


FORMS = ("html", "svg", "png")


def written(attention: Attention, path: object, lang: str = "en") -> str:
    """Return a line that says what was written and where."""
    sentence: str = data.read_toml(f"words/attention.{lang}.toml")["written"]
    numbers = {
        "layers": listed(attention.layers),
        "heads": listed(attention.heads),
        "tokens": attention.drawn,
    }
    return sentence.format(path=path, model=attention.name, **numbers)
