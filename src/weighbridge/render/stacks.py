"""A picture of what memory holds: for each moment a bar of parts, up to a limit, in SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.errors import printable
from weighbridge.render.svg import BOLD, MARGIN, STYLE, paragraphs, pixels, whole, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Stack = tuple[str, Mapping[str, int], str]

_WIDTH, _ROW, _BAR, _FONT = 720, 40, 24, 13
_GAP = 12  # pixels between a bar and the texts beside it
_KEY = 12  # pixels of a coloured square

# Okabe and Ito's colours, which people with any colour vision can tell apart
# (https://jfly.uni-koeln.de/color/).
_COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7", "#999999", "#d55e00")


def stacks_picture(
    title: str, caption: str, stacks: Sequence[Stack], limit: tuple[int, str]
) -> str:
    """Return an SVG file: a bar for each stack, its parts in colours, and a line at the limit.

    Args:
        title: what the picture shows.
        caption: a sentence below the title.
        stacks: for each its name, its parts by name, and its label; all have the same parts.
        limit: a value, and the label of the line that is drawn there.

    Example:
        >>> stacks = [("loss", {"weights": 3, "gradients": 1}, "4 B")]
        >>> drawn = stacks_picture("memory", "by moment", stacks, (5, "5 B"))
        >>> drawn.count("<rect"), "gradients" in drawn
        (5, True)
    """
    title = printable(title)
    drawn = [writing(MARGIN, MARGIN + 16, title, "ink", 15, weight=BOLD)]
    width = max(_WIDTH, round(pixels(title, 15)) + 2 * MARGIN)
    texts, y = paragraphs([caption], width - 2 * MARGIN, MARGIN + 16)
    drawn += texts
    parts = [name for name in stacks[0][1] if any(held[name] for _, held, _ in stacks)]
    colours = dict(zip(parts, _COLOURS, strict=False))
    keys, y = _legend(colours, width, y + 2 * _GAP)
    drawn += [*keys, *_bars(stacks, colours, limit, (width, y + _GAP))]
    height = y + _GAP + _ROW * (len(stacks) + 1) + MARGIN
    return whole(width, height, drawn, title, f"<style>{STYLE}</style>")


def _legend(colours: Mapping[str, str], width: float, y: float) -> tuple[list[str], int]:
    """Return a coloured square and a name for each part, in lines, and the end of the last."""
    drawn, x = [], float(MARGIN)
    for name, colour in colours.items():
        length = _KEY + 6 + pixels(name, _FONT) + 2 * _GAP
        if x > MARGIN and x + length > width - MARGIN:
            x, y = float(MARGIN), y + 20
        drawn.append(_rect(x, y - _KEY + 2, _KEY, _KEY, colour))
        drawn.append(writing(x + _KEY + 6, y + 1, name, "ink", _FONT))
        x += length
    return drawn, round(y)


def _bars(
    stacks: Sequence[Stack],
    colours: Mapping[str, str],
    limit: tuple[int, str],
    corner: tuple[float, float],
) -> Iterator[str]:
    """Yield the bars and the line at the limit; ``corner`` is their right and upper end."""
    width, y = corner
    names = max(pixels(name, _FONT) for name, _, _ in stacks)
    labels = max(pixels(label, _FONT) for _, _, label in stacks)
    left = MARGIN + names + _GAP
    longest = width - MARGIN - labels - _GAP - left
    most = max(limit[0], *(sum(held.values()) for _, held, _ in stacks)) or 1
    top = y
    for name, held, label in stacks:
        base = y + _ROW / 2 + 5
        yield writing(left - _GAP, base, name, "quiet", _FONT, "end")
        x = left
        for part, size in held.items():
            length = longest * size / most
            if size:
                yield _rect(x, y + (_ROW - _BAR) / 2, length, _BAR, colours[part])
            x += length
        yield writing(x + _GAP, base, label, "ink", _FONT)
        y += _ROW
    at = left + longest * limit[0] / most
    yield (
        f'<line x1="{at:.6g}" x2="{at:.6g}" y1="{top:.6g}" y2="{y:.6g}" class="quiet" '
        'stroke="currentColor" stroke-dasharray="4 3"/>'
    )
    yield writing(at, y + 16, limit[1], "quiet", _FONT, "end" if at > width / 2 else "start")


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.6g}" y="{y:.6g}" width="{width:.6g}" height="{height:.6g}" fill="{colour}"/>'
    )
