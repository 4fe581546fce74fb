"""Attention as a file: a page, a picture in SVG, or the same picture as PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.errors import UsageError
from weighbridge.render.page import Page, holds_all_tokens
from weighbridge.render.picture import Picture
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
    count = len(attention.tokens)
    notes = []
    if attention.drawn < count and not (form == "html" and holds_all_tokens(attention)):
        notes.append(
            f"only tokens {attention.first} to {attention.last} of {count} are drawn; "
            "--window FIRST-LAST draws others"
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
    picture = Picture(attention, lang)
    numbers = {
        "layers": picture.listed(attention.layers),
        "heads": picture.listed(attention.heads),
        "tokens": attention.drawn,
    }
    return str(picture.words["written"]).format(path=path, model=attention.name, **numbers)
