"""A roofline: how fast products can be at most, by the FLOPs for each byte that they move, in SVG.

Williams, Waterman and Patterson, 2009, https://doi.org/10.1145/1498765.1498785.
"""

from __future__ import annotations

from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.errors import printable
from weighbridge.render.svg import BOLD, MARGIN, STYLE, paragraphs, pixels, whole, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WIDTH, _HEIGHT, _FONT, _LEFT = 760, 360, 12, 70
_LINE = 18  # pixels between names
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")


class Roof(NamedTuple):
    """The peak of a device in FLOP/s, its bandwidth in bytes/s, and a text for each."""

    peak: float
    bandwidth: float
    peak_text: str
    bandwidth_text: str

    def at(self, intensity: float) -> float:
        """Return the most FLOP/s that so many FLOPs for each byte allow."""
        return min(self.peak, intensity * self.bandwidth)


class _Axes(NamedTuple):
    """Where values stand on two axes of powers of ten; the lower left corner is at x and y."""

    first_x: int
    last_x: int
    first_y: int
    last_y: int
    y: float

    def place(self, intensity: float, flops: float) -> tuple[float, float]:
        across = (log10(intensity) - self.first_x) / (self.last_x - self.first_x)
        up = (log10(flops) - self.first_y) / (self.last_y - self.first_y)
        wide = _WIDTH - _LEFT - 2 * MARGIN
        return MARGIN + _LEFT + wide * across, self.y - _HEIGHT * up


def roofline_picture(
    title: str,
    captions: Sequence[str],
    points: Sequence[tuple[str, float]],
    roof: Roof,
    axes: tuple[str, str],
) -> str:
    """Return an SVG file: the roof of a device, and a point on it for each thing that is computed.

    Args:
        title: what the picture shows.
        captions: sentences below the title.
        points: for each its name and its FLOPs for each byte.
        roof: the device.
        axes: the names of the two axes, across and up.

    Example:
        >>> roof = Roof(1e15, 2e12, "1,000 TFLOP/s", "2 TB/s")
        >>> drawn = roofline_picture("roof", [], [("a", 1.0), ("b", 900.0)], roof, ("x", "y"))
        >>> drawn.count("<circle")
        4
    """
    title = printable(title)
    drawn = [writing(MARGIN, MARGIN + 16, title, "ink", 15, weight=BOLD)]
    texts, top = paragraphs(captions, _WIDTH - 2 * MARGIN, MARGIN + 16)
    drawn += texts
    scale = _scale(points, roof, top + 3 * MARGIN + _HEIGHT)
    drawn += _frame(scale, roof, axes)
    y = scale.y + 3 * MARGIN
    for number, (name, intensity) in enumerate(points):
        colour = _COLOURS[number % len(_COLOURS)]
        x, height = scale.place(intensity, roof.at(intensity))
        drawn.append(_dot(x, height, colour))
        drawn.append(_dot(MARGIN + 6, y - 4, colour))
        drawn.append(writing(MARGIN + 18, y, name, "ink", _FONT))
        y += _LINE
    width = max(_WIDTH, pixels(title, 15) + 2 * MARGIN)
    return whole(width, y + MARGIN, drawn, title, f"<style>{STYLE}</style>")


def _scale(points: Sequence[tuple[str, float]], roof: Roof, y: float) -> _Axes:
    """Return axes on which all points and the bend of the roof are."""
    across = [intensity for _, intensity in points] + [roof.peak / roof.bandwidth]
    up = [roof.at(intensity) for intensity in across]
    first_x, last_x = floor(log10(min(across))), ceil(log10(max(across)) + 0.2)
    first_y = floor(log10(min(up)))
    return _Axes(first_x, last_x, first_y, ceil(log10(roof.peak) + 0.1), y)


def _frame(scale: _Axes, roof: Roof, axes: tuple[str, str]) -> Iterator[str]:
    """Yield the powers of ten, the roof and the names of the axes."""
    left, right = 10.0**scale.first_x, 10.0**scale.last_x
    for power in range(scale.first_x, scale.last_x + 1):
        x, low = scale.place(10.0**power, 10.0**scale.first_y)
        _, high = scale.place(10.0**power, 10.0**scale.last_y)
        yield _polyline([(x, low), (x, high)], faint=True)
        yield writing(x, low + 16, f"{10.0**power:g}", "quiet", _FONT, "middle")
    for power in range(scale.first_y, scale.last_y + 1):
        x, y = scale.place(left, 10.0**power)
        yield _polyline([(x, y), (scale.place(right, 10.0**power)[0], y)], faint=True)
        yield writing(x - 8, y + 4, f"{10.0 ** (power - 12):g}", "quiet", _FONT, "end")
    bend = roof.peak / roof.bandwidth
    start = max(left, 10.0**scale.first_y / roof.bandwidth)
    corners = [(start, roof.at(start)), (bend, roof.peak), (right, roof.peak)]
    yield _polyline([scale.place(*corner) for corner in corners])
    x, y = scale.place(right, roof.peak)
    yield writing(x - 4, y - 6, roof.peak_text, "ink", _FONT, "end")
    x, y = scale.place(start, roof.at(start))
    yield writing(x + 14, y - 2, roof.bandwidth_text, "ink", _FONT)
    _, high = scale.place(left, 10.0**scale.last_y)
    yield writing(MARGIN, high - 10, axes[1], "quiet", _FONT)
    x, low = scale.place(right, 10.0**scale.first_y)
    yield writing(x, low + 34, axes[0], "quiet", _FONT, "end")


def _polyline(corners: Sequence[tuple[float, float]], *, faint: bool = False) -> str:
    path = " ".join(f"{x:.6g},{y:.6g}" for x, y in corners)
    colour, width = ("#8c959f", 0.4) if faint else ("#d55e00", 2)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.6g}" cy="{y:.6g}" r="5" fill="{colour}"/>'
