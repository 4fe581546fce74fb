"""A picture as PNG, rendered from its SVG by resvg; and which of its characters no font of this machine has."""

from __future__ import annotations

import re
import unicodedata
from html import escape, unescape
from typing import TYPE_CHECKING, Any

from weighbridge.errors import UsageError
from weighbridge.render.svg import FONTS, MARK, chunk

if TYPE_CHECKING:
    from collections.abc import Callable


def rendered(svg: str) -> bytes:
    """Render a picture, twice as large for screens of today, and mark it as ours."""
    found = bytes(_renderer()(svg_string=svg, zoom=2))
    return (
        found[:_AFTER_HEADER]
        + chunk(b"tEXt", b"Software\0" + MARK.encode())
        + found[_AFTER_HEADER:]
    )


_AFTER_HEADER = 8 + 25  # the signature and IHDR


def _renderer() -> Callable[..., Any]:
    try:
        from resvg_py import svg_to_bytes  # noqa: PLC0415
    except ImportError:
        hint = "type pip install 'weighbridge[torch]', or write .svg or .html"
        raise UsageError(
            "a PNG needs a package that is not installed", values={"missing": "resvg_py"}, hint=hint
        ) from None
    found: Callable[..., Any] = svg_to_bytes
    return found


def without_font(svg: str) -> list[str]:
    """Return a note of the characters of a picture that no font of this machine has.

    Raises:
        UsageError: there is no font at all.
    """
    render = _renderer()

    def drawn(character: str) -> bytes:
        text = f'<text x="8" y="32" font-size="24" font-family="{FONTS}">{escape(character)}</text>'
        return bytes(
            render(
                svg_string=f'<svg xmlns="http://www.w3.org/2000/svg" width="48" height="48">{text}</svg>'
            )
        )

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
    more = len(lacking) - _MOST_LISTED
    return (
        [f"no font here has {listed}{f' and {more} more' if more > 0 else ''}"] if lacking else []
    )


_NEVER_ASSIGNED = (
    "\U0004fffd"  # in a plane that nothing is in: drawn as what a font has for what it lacks
)
_MOST_LISTED = 10
