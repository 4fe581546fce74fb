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
    """Draw attention, and say what the user should know of the picture.

    Args:
        attention: what to draw; one head is drawn large.
        form: ``"svg"``, ``"html"`` or ``"png"``.
        lang: ``"en"`` or ``"zh"``.

    Raises:
        UsageError: no such form or language; or a PNG cannot be rendered here.
    """
    words(lang)
    if form not in FORMS:
        raise UsageError(
            "no such form of a picture",
            values={"form": form},
            hint=f"use one of {', '.join(FORMS)}",
        )
    left_out = len(attention.tokens) - attention.drawn
    notes = []
    if left_out:
        notes.append(f"the first {attention.drawn} tokens are drawn, and {left_out} more are not")
    if form == "html":
        return Page(attention, lang).html().encode(), notes
    svg = Picture(attention, lang).svg()
    if form == "svg":
        return svg.encode(), notes
    return rendered(svg), notes + without_font(svg)


FORMS = ("html", "svg", "png")


def written(attention: Attention, path: object, lang: str = "en") -> str:
    """Say in a line what was written where."""
    sentence: str = data.read_toml(f"words/attention.{lang}.toml")["written"]
    numbers = {
        "layers": listed(attention.layers),
        "heads": listed(attention.heads),
        "tokens": attention.drawn,
    }
    return sentence.format(path=path, model=attention.name, **numbers)
