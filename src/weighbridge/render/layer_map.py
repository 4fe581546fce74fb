"""A map of layers in SVG: a row is a run of layers, and every area is in proportion.

The explorer's script draws the same areas (``web/src/strata.ts``), so that nothing moves when it
takes over from the map of its page.
"""

from __future__ import annotations

from html import escape

from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.render.svg import FONTS, SVG
from weighbridge.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.render.document import LayerMap, MapPart, MapRow

WIDTH, HEIGHT = 860, 620
_SHOWN_WIDTH = 720  # px on a wide screen
_FONTS = {"": 13, "small": 30}
"""Sizes of letters by the class of their group: usual, and for the small map of a telephone."""
_WIDEST_LETTER = 0.62  # of the size, about; a Chinese letter is as wide as it is high
_MARGINS = 14  # px: left and right of a name together
_CUT = 3  # px: the line between two rows
_LEAST_GAP = 2  # px: between two layers that are drawn apart

_STYLE = """<style>
.layer-map{color-scheme:light dark;--l:.83;--text:.27}
@media (prefers-color-scheme:dark){.layer-map{--l:.43;--text:.95}}
.layer-map .cell{fill:oklch(var(--l) var(--c) var(--h))}
.layer-map text{fill:oklch(var(--text) calc(var(--c) * .55) var(--h));
stroke:oklch(var(--l) var(--c) var(--h));stroke-width:4;stroke-linejoin:round;paint-order:stroke}
.layer-map .cut,.layer-map .gap{stroke:Canvas}
.layer-map .gap{stroke-width:.8;opacity:.55}
.layer-map .small{display:none}
@media (max-width:600px){.layer-map .name{display:none}.layer-map .small{display:initial}}
</style>"""
"""Colours for a map outside the explorer, whose page has a style of its own."""


class Area(NamedTuple):
    """The rectangle of a component in a row of the map."""

    row: MapRow
    part: MapPart
    x: float
    y: float
    width: float
    height: float


def areas(block: LayerMap, width: float = WIDTH, height: float = HEIGHT) -> Iterator[Area]:
    """Yield the rectangle of each part of each row, from the top left."""
    total = sum(row.each * row.layers for row in block.rows) or 1
    y = 0.0
    for row in block.rows:
        tall, x = row.each * row.layers / total * height, 0.0
        for part in row.parts:
            wide = part.each / row.each * width if row.each else 0.0
            yield Area(row, part, x, y, wide, tall)
            x += wide
        y += tall


def map_on_page(block: LayerMap) -> str:
    """Return the map for the explorer's page, which has a style for its classes."""
    return _picture(block, 'class="still"', "")


def map_file(block: LayerMap) -> str:
    """Return the map as a file: `map_svg` with the namespace that a page does without."""
    return map_svg(block).replace("<svg ", f'<svg xmlns="{SVG}" ', 1)


def map_svg(block: LayerMap) -> str:
    """Return the map with colours of its own, light or dark, for any page."""
    tall = round(_SHOWN_WIDTH * HEIGHT / WIDTH)
    look = f'width="{_SHOWN_WIDTH}" height="{tall}" style="max-width:100%;height:auto"'
    head = f'class="layer-map" {look} font-family="{FONTS}"'
    return _picture(block, f'{head} fill="none"', _STYLE)


def map_description(block: LayerMap) -> str:
    """Return the rows in words: their parameters, and the layers of each.

    Example:
        >>> from weighbridge.render.document import LayerMap, MapPart, MapRow
        >>> embed = MapRow("embed", 1, (MapPart("embedding", "embeddings", 1000),))
        >>> layers = MapRow("layers", 2, (MapPart("ffn", "FFN", 9),))
        >>> map_description(LayerMap("M", "", (embed, layers)))
        'embed: 1,000; layers × 2: 18'
    """
    texts = []
    for row in block.rows:
        times = f" × {row.layers}" if row.layers > 1 else ""
        texts.append(f"{row.path}{times}: {count(row.each * row.layers)}")
    return "; ".join(texts)


def _picture(block: LayerMap, head: str, style: str) -> str:
    drawn = list(areas(block))
    labels = [text for kind in _FONTS for text in _labels(drawn, kind)]
    inside = "".join([*_area_paths(drawn), _cuts(drawn), *labels])
    title = escape(block.title)
    return (
        f'<svg {head} viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
        f"<title>{title}</title><desc>{escape(map_description(block))}</desc>{style}{inside}</svg>"
    )


def _area_paths(drawn: list[Area]) -> Iterator[str]:
    """Yield one path for each component, with a rectangle for each row that has it."""
    paths: dict[str, list[str]] = {}
    for area in drawn:
        if area.width > 0 and area.height > 0:
            wide = f"{area.width:.2f}"
            shape = f"M{area.x:.2f} {area.y:.2f}h{wide}v{area.height:.2f}h-{wide}z"
            paths.setdefault(area.part.component, []).append(shape)
    for component, shapes in paths.items():
        yield f'<path class="cell" style="{paint(component)}" d="{"".join(shapes)}"/>'


def _cuts(drawn: list[Area]) -> str:
    """Return a line between rows, and fine ones between layers where there is room.

    A line between rows is thinner than they are, so that it hides neither.
    """
    cuts: dict[str, list[str]] = {}
    fine = []
    above = 0.0
    for area in drawn:
        if area.part is not area.row.parts[0]:
            continue
        thick = min(_CUT, above / 3, area.height / 3)
        cuts.setdefault(f"{thick:.2f}", []).append(f"M0 {area.y:.2f}h{WIDTH}")
        above, each = area.height, area.height / area.row.layers
        if each > _LEAST_GAP:
            fine += [f"M0 {area.y + at * each:.2f}h{WIDTH}" for at in range(1, area.row.layers)]
    lines = [
        f'<path class="cut" style="stroke-width:{thick}" d="{"".join(paths)}"/>'
        for thick, paths in cuts.items()
        if float(thick)
    ]
    return "".join([*lines, f'<path class="gap fine" d="{"".join(fine)}"/>'])


def _labels(drawn: list[Area], kind: str) -> Iterator[str]:
    """Yield one group of texts for each component: its name, in each row where there is room."""
    texts: dict[str, list[str]] = {}
    for area in drawn:
        if text := _label(area, _FONTS[kind]):
            texts.setdefault(area.part.component, []).append(text)
    for component, inside in texts.items():
        font = f'font-size="{_FONTS[kind]}" font-weight="600"'
        name = f"name {kind}".rstrip()
        yield f'<g class="{name}" style="{paint(component)}" {font}>{"".join(inside)}</g>'


def _label(area: Area, size: int) -> str:
    """Return the name of a component on its area, or nothing if there is no room."""
    name = area.part.name
    letters = sum(1 if letter > "⺀" else _WIDEST_LETTER for letter in name)
    if area.height < 1.4 * size or area.width <= letters * size + _MARGINS:
        return ""
    return f'<text x="{area.x + 9:.0f}" y="{area.y + 3 + size:.0f}">{escape(name)}</text>'


_HUES = {
    "embedding": 255,
    "embedding.position": 232,
    "embedding.segment": 280,
    "attention": 160,
    "cross_attention": 135,
    "linear_attention": 195,
    "ssm": 205,
    "conv": 280,
    "ffn": 62,
    "expert": 40,
    "shared_expert": 88,
    "router": 20,
    "pooler": 315,
    "projector": 345,
    "head": 300,
}
_OTHER_HUE = 230


def paint(component: str) -> str:
    """Return the colour of a component: a hue for what it is for; what normalises is grey."""
    if "norm" in component:
        return "--h:250;--c:.012"
    hue = _HUES.get(component, _HUES.get(component.partition(".")[0], _OTHER_HUE))
    return f"--h:{hue};--c:.095"
