"""A picture of something that grows: a bar for each size, in SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.errors import printable
from weighbridge.render.svg import BOLD, COLOUR, MARGIN, STYLE, paragraphs, pixels, whole, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Bar = tuple[str, int, str]

_WIDTH, _ROW, _FONT = 640, 28, 13
_GAP = 12  # pixels between a bar and the texts beside it


def picture(title: str, caption: str, bars: Sequence[Bar]) -> str:
    """Return an SVG file: a title, a caption, and for each bar its name, its value and its label.

    Example:
        >>> drawn = picture("a cache", "bytes", [("1", 10, "10 B"), ("2", 20, "20 B")])
        >>> drawn.count("<rect"), "20 B" in drawn
        (3, True)
    """
    title = printable(title)
    drawn = [writing(MARGIN, MARGIN + 16, title, "ink", 15, weight=BOLD)]
    texts, y = paragraphs([caption], _WIDTH - 2 * MARGIN, MARGIN + 16)
    drawn += [*texts, *_bars(bars, y + _GAP)]
    width = max(_WIDTH, round(pixels(title, 15)) + 2 * MARGIN)
    height = y + _GAP + _ROW * len(bars) + MARGIN
    return whole(width, height, drawn, title, f"<style>{STYLE}</style>")


def _bars(bars: Sequence[Bar], y: float) -> Iterator[str]:
    names = max(pixels(name, _FONT) for name, _, _ in bars)
    labels = max(pixels(label, _FONT) for _, _, label in bars)
    left = MARGIN + names + _GAP
    longest = _WIDTH - MARGIN - labels - _GAP - left
    most = max(value for _, value, _ in bars) or 1
    for name, value, label in bars:
        length = longest * value / most
        base = y + _ROW / 2 + 5
        yield writing(left - _GAP, base, name, "quiet", _FONT, "end")
        yield (
            f'<rect x="{left:.6g}" y="{y + 5:.6g}" width="{length:.6g}" height="{_ROW - 10}" '
            f'fill="rgb{COLOUR}"/>'
        )
        yield writing(left + length + _GAP, base, label, "ink", _FONT)
        y += _ROW
