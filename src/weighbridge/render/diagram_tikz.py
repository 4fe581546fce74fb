"""Diagrams in LaTeX, drawn by TikZ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.render.diagram import RING, Inscription, Polyline, Rectangle, Ring, layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from weighbridge.render.document import Diagram
    from weighbridge.render.prose import Prose

_PIXEL = 0.85  # points
_HIGHEST = 620  # points, which leaves room for a caption on the page


def tikz_picture(diagram: Diagram, prose: Prose) -> str:
    """Write a diagram as a ``tikzpicture``; ``prose`` writes its labels in LaTeX."""
    drawing = layout(diagram.parts, prose.values)
    pixel = min(_PIXEL, _HIGHEST / drawing.height)
    settings = f"x={pixel:.3g}pt,y=-{pixel:.3g}pt,>=stealth,line width=.4pt,inner sep=0pt"
    lines = [rf"\begin{{tikzpicture}}[{settings}]"]
    lines += [_WRITERS[type(shape)](shape, prose, pixel) for shape in drawing.shapes]
    return "\n".join([*lines, r"\end{tikzpicture}"])


def _point(x: float, y: float) -> str:
    return f"({x:.5g},{y:.5g})"


def _rectangle(shape: Rectangle, _: Prose, __: float) -> str:
    corner = _point(shape.x + shape.width, shape.y + shape.height)
    return rf"\draw[{_KINDS[shape.kind]}] {_point(shape.x, shape.y)} rectangle {corner};"


_KINDS = {
    "tensor": "rounded corners=2pt,fill=black!7",
    "step": "rounded corners=6pt,dash pattern=on 2pt off 1.5pt",
    "frame": "rounded corners=3pt,black!45",
    "cell": "rounded corners=1pt,black!70",
}


def _polyline(shape: Polyline, _: Prose, __: float) -> str:
    head = "[->]" if shape.has_head else ""
    points = " -- ".join(_point(x, y) for x, y in shape.points)
    return rf"\draw{head} {points};"


def _ring(shape: Ring, _: Prose, pixel: float) -> str:
    sign = r"$\times$" if shape.sign == "×" else "$+$"
    centre = _point(shape.x, shape.y)
    return rf"\draw {centre} circle [radius={RING * pixel:.3g}pt]; \node at {centre} {{{sign}}};"


def _inscription(shape: Inscription, prose: Prose, pixel: float) -> str:
    anchor = "base" if shape.is_centred else "base west"
    size = shape.size * pixel
    text = prose.write(shape.prose)
    if shape.is_name:
        text = rf"\textbf{{{text}}}"
    font = rf"\fontsize{{{size:.3g}}}{{{size * 1.2:.3g}}}\selectfont"
    return rf"\node[anchor={anchor}] at {_point(shape.x, shape.baseline)} {{{font} {text}}};"


_WRITERS: dict[type, Callable[[Any, Prose, float], str]] = {
    Rectangle: _rectangle,
    Polyline: _polyline,
    Ring: _ring,
    Inscription: _inscription,
}
