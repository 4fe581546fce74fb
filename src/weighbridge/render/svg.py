"""SVG written by hand: texts, rectangles and images, for light and dark backgrounds."""

from __future__ import annotations

import math
import struct
import unicodedata
import zlib
from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING

from weighbridge.render.table import wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SVG = "http://www.w3.org/2000/svg"
MARK = "weighbridge attention"  # in every file that we write, so that it may be replaced later

COLOUR = (31, 111, 235)
FONTS = (
    "'Noto Sans', 'Noto Sans CJK SC', 'Noto Sans SC', 'Source Han Sans SC', 'PingFang SC', "
    "'Microsoft YaHei', 'Segoe UI', 'Helvetica Neue', 'Liberation Sans', 'DejaVu Sans', "
    "Arial, sans-serif"
)
LIGHT = {
    "ground": "#ffffff",
    "ink": "#1f2328",
    "quiet": "#59636e",
    "line": "#d1d9e0",
    "cell": "#f3f5f8",
    "number": "#000000",
}
DARK = {
    "ground": "#0d1117",
    "ink": "#e6edf3",
    "quiet": "#9aa4af",
    "line": "#3d444d",
    "cell": "#1b2129",
    "number": "#ffffff",
}
ON = "#ffffff"  # numbers on the darkest cells
DARKEST = 0.97  # attention above which white on the colour has more contrast than black


MARGIN = 24
REGULAR, BOLD = 400, 600  # font weights
TURN = 62  # degrees by which long tokens above a map are rotated


def whole(width: float, height: float, drawn: Iterable[str], title: str, style: str = "") -> str:
    """Return a whole picture, with its own background if it has its own style."""
    ground, role, mark = "", "group", ""
    if style:
        ground = f'<rect class="ground" width="100%" height="100%" fill="{LIGHT["ground"]}"/>'
        role, mark = "img", f"<!-- {MARK} -->"
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="{SVG}" {size} font-family="{FONTS}" role="{role}">'
    return "\n".join(
        [head + mark, f"<title>{escape(title)}</title>{style}{ground}", *drawn, "</svg>", ""]
    )


def writing(  # noqa: PLR0913  # what SVG asks of a text
    x: float,
    y: float,
    text: str,
    kind: str,
    size: int,
    anchor: str = "start",
    *,
    weight: int = REGULAR,
    turned: bool = False,
) -> str:
    """Return a text in a kind of ink; its start, middle or end is at a position."""
    place = f'x="{x:.6g}" y="{y:.6g}"'
    if turned:
        place = f'transform="translate({x:.4g} {y:.4g}) rotate(-{TURN})"'
    style = f'class="{kind}" fill="{LIGHT[kind]}" font-size="{size}"'
    if anchor != "start":
        style += f' text-anchor="{anchor}"'
    if weight != REGULAR:
        style += f' font-weight="{weight}"'
    return f"<text {place} {style}>{escape(text, quote=False)}</text>"


def rect(width: float, height: float) -> str:
    """Return the frame of a map and the background of its cells."""
    colours = f'fill="{LIGHT["cell"]}" stroke="{LIGHT["line"]}"'
    return f'<rect class="cell line" {colours} width="{width:g}" height="{height:g}"/>'


def image(
    values: Sequence[Sequence[float]], width: float, height: float = 0, name: str = ""
) -> str:
    """Return an image with one pixel per value."""
    settings = f'width="{width:g}" height="{height or width:g}" preserveAspectRatio="none"'
    if name:
        settings = f'id="{name}" {settings}'
    content = f"data:image/png;base64,{b64encode(png(values)).decode()}"
    return f'<image {settings} image-rendering="optimizeSpeed" href="{content}"/>'


def png(values: Sequence[Sequence[float]]) -> bytes:
    """Return a PNG in one colour whose opacity is the square root of each value."""
    return rgba_png([list(map(_shade, row)) for row in values])


def _shade(value: float) -> tuple[int, int, int, int]:
    return (*COLOUR, round(255 * math.sqrt(bounded(value))))


def rgba_png(rows: Sequence[Sequence[tuple[int, int, int, int]]]) -> bytes:
    """Return a PNG of pixels, each red, green, blue and opacity from 0 to 255.

    Source: Portable Network Graphics, https://www.w3.org/TR/png-3/, colour type 6 with 8 bits.
    """
    lines = bytearray()
    for row in rows:
        lines += b"\0"  # no filter
        for pixel in row:
            lines += bytes(pixel)
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 6, 0, 0, 0)
    pieces = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, of) for kind, of in pieces)


def chunk(kind: bytes, of: bytes) -> bytes:
    """Return a chunk of a PNG."""
    return struct.pack(">I", len(of)) + kind + of + struct.pack(">I", zlib.crc32(kind + of))


def bounded(value: float) -> float:
    """Limit a value to the range from 0 to 1; nan becomes 0."""
    if not math.isfinite(value):
        return 0.0
    return min(1.0, max(0.0, value))


def pixels(text: str, size: float) -> float:
    """Return the approximate width of a text; a wide character is as wide as it is high."""
    widths = [_WIDTHS.get(unicodedata.east_asian_width(character), 0.6) for character in text]
    return sum(widths) * size


_WIDTHS = {"W": 1.0, "F": 1.0}  # width of wide characters in font sizes; others take about 0.6


def wrapped(text: str, pixels: float, size: int) -> list[str]:
    """Break a text into lines of about this many pixels."""
    return wrap(text, int(pixels / (0.56 * size)), indent="").split("\n")


def paragraphs(texts: Iterable[str], width: float, y: int) -> tuple[list[str], int]:
    """Return paragraphs below one another, and the y coordinate of their end."""
    drawn = []
    for text in texts:
        y += 6
        for line in wrapped(text, width, 12):
            y += 18
            drawn.append(writing(MARGIN, y, line, "quiet", 12))
    return drawn, y


def _colours(colours: dict[str, str]) -> str:
    fills = "".join(
        f".{name}{{fill:{colours[name]}}}" for name in ("ground", "ink", "quiet", "cell", "number")
    )
    return f"{fills}.line{{stroke:{colours['line']}}}"


STYLE = (
    "image{image-rendering:pixelated}"
    f"@media (prefers-color-scheme:dark){{{_colours(DARK)}.on{{fill:{ON}}}}}"
)
"""The style on dark backgrounds; on light ones, the attributes apply."""
