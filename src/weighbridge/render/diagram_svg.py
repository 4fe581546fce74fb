"""Diagrams in SVG: a piece of a page in the colour of its text, or a file of its own."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from weighbridge.render import math
from weighbridge.render.diagram import (
    RING,
    Inscription,
    Polyline,
    Rectangle,
    Ring,
    description,
    layout,
)
from weighbridge.render.prose import Marks, Prose
from weighbridge.render.svg import DARK, FONTS, LIGHT, SVG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from weighbridge.render.diagram import Drawing
    from weighbridge.render.document import Diagram

_SCALE = 1.25  # on a wide screen


def inline_svg(diagram: Diagram, values: Mapping[str, Any]) -> str:
    """Write a diagram for a page: it takes the colour of the text around it."""
    drawing = layout(diagram.parts, values)
    style = 'style="max-width:100%;height:auto"'
    size = f'width="{drawing.width * _SCALE:.0f}" {style} {_view_box(drawing)}'
    return _whole(diagram, drawing, values, size)


def svg_file(diagram: Diagram, values: Mapping[str, Any], lang: str) -> str:
    """Write a diagram as a file, with a background of its own, light or dark like the page."""
    drawing = layout(diagram.parts, values)
    size = f'width="{drawing.width:.0f}" height="{drawing.height:.0f}" {_view_box(drawing)}'
    head = f'xmlns="{SVG}" xml:lang="{lang}" color="{LIGHT["ink"]}" {size}'
    ground = f'<rect class="ground" width="100%" height="100%" fill="{LIGHT["ground"]}"/>'
    return _whole(diagram, drawing, values, head, _STYLE + ground) + "\n"


_STYLE = (
    "<style>@media (prefers-color-scheme:dark)"
    f"{{svg{{color:{DARK['ink']}}}.ground{{fill:{DARK['ground']}}}}}</style>"
)


def _view_box(drawing: Drawing) -> str:
    return f'viewBox="0 0 {drawing.width:g} {drawing.height:g}"'


def _whole(
    diagram: Diagram, drawing: Drawing, values: Mapping[str, Any], head: str, more: str = ""
) -> str:
    prose = Prose(_MARKS, values)
    title = f"<title>{escape(diagram.title, quote=False)}</title>"
    told = escape(description(diagram.parts, values), quote=False)
    lines = [
        f'<svg {head} role="img" fill="none" stroke="currentColor" font-family="{FONTS}">',
        f"{title}<desc>{told}</desc>{more}",
    ]
    lines += [_WRITERS[type(shape)](shape, prose) for shape in drawing.shapes]
    return "\n".join([*lines, "</svg>"])


def _rectangle(shape: Rectangle, _: Prose) -> str:
    place = f'x="{shape.x:.4g}" y="{shape.y:.4g}"'
    size = f'width="{shape.width:.4g}" height="{shape.height:.4g}"'
    return f"<rect {place} {size} {_KINDS[shape.kind]}/>"


_KINDS = {
    "tensor": 'rx="3" fill="currentColor" fill-opacity=".08"',
    "step": 'rx="9" stroke-dasharray="3 2"',
    "frame": 'rx="5" stroke-opacity=".4"',
    "cell": 'rx="2" stroke-opacity=".6"',
}


def _polyline(shape: Polyline, _: Prose) -> str:
    points = " ".join(f"{x:.5g},{y:.5g}" for x, y in shape.points)
    line = f'<polyline points="{points}"/>'
    if not shape.has_head:
        return line
    x, y = shape.points[-1]
    corners = f"M{x:.5g} {y:.5g}l-3.5 -6h7z"
    if shape.points[-2][1] == y:  # it arrives from the left
        corners = f"M{x:.5g} {y:.5g}l-6 -3.5v7z"
    return f'{line}<path d="{corners}" fill="currentColor" stroke="none"/>'


def _ring(shape: Ring, _: Prose) -> str:
    x, y = shape.x, shape.y
    arms = f"M{x - RING / 2:.5g} {y:.5g}h{RING}M{x:.5g} {y - RING / 2:.5g}v{RING}"
    if shape.sign == "×":
        arms = f"M{x - 3:.5g} {y - 3:.5g}l6 6m0 -6l-6 6"
    return f'<circle cx="{x:.5g}" cy="{y:.5g}" r="{RING}"/><path d="{arms}"/>'


def _inscription(shape: Inscription, prose: Prose) -> str:
    place = f'x="{shape.x:.5g}" y="{shape.baseline:.5g}" font-size="{shape.size}"'
    look = 'fill="currentColor" stroke="none"'
    if shape.is_centred:
        look += ' text-anchor="middle"'
    if shape.is_name:
        look += ' font-weight="600"'
    return f"<text {place} {look}>{_spans(prose.write(shape.prose), shape.size)}</text>"


def _spans(marked: str, size: int) -> str:
    """Write the letters of mathematics in italics, and their indices lower and smaller."""
    pieces: list[str] = []
    for number, text in enumerate(marked.split(_MATHEMATICS)):
        if number % 2:
            pieces += _mathematics(text, size)
        else:
            pieces.append(escape(text, quote=False))
    return "".join(pieces)


def _mathematics(text: str, size: int) -> Iterator[str]:
    raised = ""  # what brings the baseline back after an index
    for letter, index, name, other in _NAMES.findall(text):
        if other:
            written = escape(other, quote=False)
            yield f"<tspan{raised}>{written}</tspan>" if raised else written
        else:
            yield f'<tspan font-style="italic"{raised}>{letter or name}</tspan>'
        raised = ""
        if index:
            yield f'<tspan font-size="{size * _SMALLER:.3g}" dy="{_LOWER}">{index}</tspan>'
            raised = f' dy="-{_LOWER}"'
    if raised:  # text after the mathematics; a space that takes no room carries the shift
        yield f"<tspan{raised}>\u200b</tspan>"


_MATHEMATICS = "\ue000"  # a private character, before and after mathematics
_NAMES = re.compile(r"(?<![A-Za-z_])([A-Za-z])_(\w+)|([^\W\d]\w*)|([\W\d]+)")
_SMALLER, _LOWER = 0.75, 3  # the font of an index, and the pixels by which it is lower

_MARKS = Marks(
    style=math.UNICODE,
    escape=str,
    strong="{}",
    code=str,
    math=f"{_MATHEMATICS}{{}}{_MATHEMATICS}",
)

_WRITERS: dict[type, Callable[[Any, Prose], str]] = {
    Rectangle: _rectangle,
    Polyline: _polyline,
    Ring: _ring,
    Inscription: _inscription,
}
