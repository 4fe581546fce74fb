"""A picture of a pipeline's schedule: a row for each stage, a box for each pass, in SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.errors import printable
from weighbridge.render.svg import BOLD, MARGIN, STYLE, paragraphs, pixels, whole, writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Box = tuple[int, int, str, str]

_WIDTH, _ROW, _BAR, _FONT, _SMALL = 900, 30, 24, 13, 10
_GAP, _KEY = 12, 12
_NARROWEST = 2.0  # pixels of a tick, so that a box is seen


def timeline_picture(
    title: str,
    captions: Sequence[str],
    rows: Sequence[tuple[str, Sequence[Box]]],
    kinds: Mapping[str, tuple[str, str]],
) -> str:
    """Return an SVG file: a row of boxes for each stage, from left to right as time passes.

    Args:
        title: what the picture shows.
        captions: sentences below the title.
        rows: for each its name and its boxes: start, end, kind and text.
        kinds: the colour and the name of each kind of box.

    Example:
        >>> rows = [("stage 0", [(0, 1, "forward", "0"), (1, 3, "backward", "0")])]
        >>> kinds = {"forward": ("#56b4e9", "forward"), "backward": ("#e69f00", "backward")}
        >>> timeline_picture("1f1b", [], rows, kinds).count("<rect")
        5
    """
    title = printable(title)
    names = max(pixels(name, _FONT) for name, _ in rows)
    left = MARGIN + names + _GAP
    ticks = max(end for _, boxes in rows for _, end, _, _ in boxes)
    tick = max(_NARROWEST, (_WIDTH - MARGIN - left) / ticks)
    width = max(left + tick * ticks + MARGIN, pixels(title, 15) + 2 * MARGIN)
    drawn = [writing(MARGIN, MARGIN + 16, title, "ink", 15, weight=BOLD)]
    texts, y = paragraphs(captions, _WIDTH - 2 * MARGIN, MARGIN + 16)
    drawn += texts
    y += 2 * _GAP
    x = float(MARGIN)
    for colour, name in kinds.values():
        drawn += [
            _box(x, y - _KEY + 2, _KEY, _KEY, colour),
            writing(x + _KEY + 6, y + 1, name, "ink", _FONT),
        ]
        x += _KEY + 6 + pixels(name, _FONT) + 2 * _GAP
    y += _GAP
    for name, boxes in rows:
        drawn.append(writing(left - _GAP, y + _ROW / 2 + 5, name, "quiet", _FONT, "end"))
        top = y + (_ROW - _BAR) / 2
        for start, end, kind, text in boxes:
            length = tick * (end - start)
            drawn.append(_box(left + tick * start, top, length, _BAR, kinds[kind][0]))
            if pixels(text, _SMALL) + 2 <= length:
                middle = left + tick * (start + end) / 2
                drawn.append(_box_number(middle, y + _ROW / 2 + 4, text))
        y += _ROW
    return whole(width, y + MARGIN, drawn, title, f"<style>{STYLE}</style>")


def _box_number(x: float, y: float, text: str) -> str:
    # Black on both grounds: the colours of boxes are the same there.
    style = f'fill="#000000" font-size="{_SMALL}" text-anchor="middle"'
    return f'<text x="{x:.6g}" y="{y:.6g}" {style}>{text}</text>'


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    place = f'x="{x:.6g}" y="{y:.6g}" width="{width:.6g}" height="{height:.6g}"'
    return f'<rect {place} fill="{colour}" stroke="#ffffff" stroke-width="0.5"/>'
