"""Renders an SVG picture as PNG with resvg, and finds characters without a font."""

from __future__ import annotations

import re
import unicodedata
from html import escape, unescape
from typing import TYPE_CHECKING, Any

from weighbridge.errors import UsageError
from weighbridge.render.svg import FONTS, MARK, SVG, chunk

if TYPE_CHECKING:
    from collections.abc import Callable


def rendered(svg: str) -> bytes:
    """Render a picture at twice its size, for high-resolution screens, and mark it as ours."""
    png = bytes(_renderer()(svg_string=svg, zoom=2))
    mark = chunk(b"tEXt", b"Software\0" + MARK.encode())
    return png[:_AFTER_HEADER] + mark + png[_AFTER_HEADER:]


_AFTER_HEADER = 8 + 25  # the signature and IHDR


def _renderer() -> Callable[..., Any]:
    try:
        from resvg_py import svg_to_bytes  # noqa: PLC0415
    except ImportError:
        hint = "run pip install 'weighbridge[torch]', or write .svg or .html"
        raise UsageError(
            "a PNG needs a package that is not installed", values={"missing": "resvg_py"}, hint=hint
        ) from None
    renderer: Callable[..., Any] = svg_to_bytes
    return renderer


def without_font(svg: str) -> list[str]:
    """Return a note about characters of a picture that no font on this machine has.

    Raises:
        UsageError: this machine has no fonts.
    """
    render = _renderer()

    def drawn(character: str) -> bytes:
        text = f'<text x="8" y="32" font-size="24" font-family="{FONTS}">{escape(character)}</text>'
        svg_of_text = f'<svg xmlns="{SVG}" width="48" height="48">{text}</svg>'
        return bytes(render(svg_string=svg_of_text))

    blank = {drawn(" "), drawn(_NEVER_ASSIGNED)}
    shown = unescape("".join(re.findall(r">([^<]+)</t(?:ext|span)>", svg)))
    seen = [
        character
        for character in dict.fromkeys(shown)
        if unicodedata.category(character)[0] not in "CZM"
    ]
    lacking = [character for character in seen if drawn(character) in blank]
    if len(lacking) == len(seen):
        raise UsageError(
            "there is no font here to write with", hint="install one, or write .svg or .html"
        )
    listed = " ".join(
        f"{character} (U+{ord(character):04X})" for character in lacking[:_MOST_LISTED]
    )
    if len(lacking) > _MOST_LISTED:
        listed += f" and {len(lacking) - _MOST_LISTED} more"
    if not lacking:
        return []
    return [f"no font here has {listed}"]


# A character in an unused plane of Unicode: it is drawn as a missing glyph.
_NEVER_ASSIGNED = "\U0004fffd"
_MOST_LISTED = 10
