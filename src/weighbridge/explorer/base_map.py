"""The map without dials: what is stored, from top to bottom, every area in proportion.

A row is a layer; layers that follow on each other and are alike are one run, drawn once. The page's
script draws the same boxes (``web/src/strata.ts``), so that nothing moves when it starts.
"""

from __future__ import annotations

from html import escape
from math import prod

from weighbridge.blueprint.roles import component_of
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.render.words import label
from weighbridge.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Entry

WIDTH, HEIGHT = 860, 620
_FONTS = {"": 13, "small": 30}
"""Sizes of letters by the class of their group: usual, and for the small map of a telephone."""
_WIDEST_LETTER = 0.62  # of the size, about; a Chinese letter is as wide as it is high
_MARGINS = 14  # px: left and right of a name together
_LEAST_GAP = 2  # px: between two layers that are drawn apart


class TensorCell(NamedTuple):
    """A tensor of one layer: its name inside the layer, its entry, and its parameters there."""

    tensor: str
    entry: Entry
    each: int


class LayerRun(NamedTuple):
    """Layers that follow on each other and are alike: path, first index, their number, cells."""

    path: str
    first: int | None
    many: int
    cells: tuple[TensorCell, ...]

    @property
    def each(self) -> int:
        """The parameters of one layer."""
        return sum(cell.each for cell in self.cells)


class MapBox(NamedTuple):
    """A rectangle of the map: one tensor of one run."""

    run: LayerRun
    cell: TensorCell
    x: float
    y: float
    width: float
    height: float


def runs_of(ledger: Ledger) -> list[LayerRun]:
    """Return the runs of a ledger, from top to bottom.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> [(run.path, run.many, run.each) for run in runs_of(weigh("bert").ledger)]
        [('embeddings', 1, 23837184), ('encoder.layer', 12, 7087872), ('pooler', 1, 590592)]
    """
    runs: list[LayerRun] = []
    for path, rows in _rows_by_path(ledger).items():
        for index in sorted(rows, key=lambda index: -1 if index is None else index):
            cells = tuple(_by_component(rows[index]))
            last = runs[-1] if runs else None
            if last and last.path == path and _likeness(last.cells) == _likeness(cells):
                runs[-1] = last._replace(many=last.many + 1)
            else:
                runs.append(LayerRun(path, index, 1, cells))
    return runs


def _rows_by_path(ledger: Ledger) -> dict[str, dict[int | None, list[TensorCell]]]:
    prefix = ledger.blueprint.prefix(ledger.class_name)
    rows: dict[str, dict[int | None, list[TensorCell]]] = {}
    for entry in ledger.entries:
        name, size = entry.template.name, 0 if entry.tied else prod(entry.shape)
        if entry.template.repeat:
            path, _, rest = name.partition(".{")
            tensor = rest.partition("}.")[2]
            for index, inside in entry.indices.items():
                layers = rows.setdefault(path, {})
                layers.setdefault(index, []).append(TensorCell(tensor, entry, size * len(inside)))
            continue
        below = name.removeprefix(prefix)
        path = name.removesuffix(below) + below.partition(".")[0]
        tensor = name[len(path) + 1 :] or name
        rows.setdefault(path, {}).setdefault(None, []).append(TensorCell(tensor, entry, size))
    return rows


def _by_component(cells: list[TensorCell]) -> Iterator[TensorCell]:
    groups: dict[str, list[TensorCell]] = {}
    for cell in cells:
        groups.setdefault(component_of(cell.entry.template.role), []).append(cell)
    for group in groups.values():
        yield from group


def _likeness(cells: tuple[TensorCell, ...]) -> list[tuple[object, ...]]:
    return [(cell.tensor, cell.entry.shape, cell.entry.tied, cell.each) for cell in cells]


def boxes(runs: list[LayerRun], width: float = WIDTH, height: float = HEIGHT) -> Iterator[MapBox]:
    """Yield a box for each tensor of each run."""
    total = sum(run.each * run.many for run in runs) or 1
    y = 0.0
    for run in runs:
        tall, x = run.each * run.many / total * height, 0.0
        for cell in run.cells:
            wide = cell.each / run.each * width if run.each else 0.0
            yield MapBox(run, cell, x, y, wide, tall)
            x += wide
        y += tall


def map_svg(ledger: Ledger, lang: str) -> str:
    """Return the map as SVG; the classes and colours are those of the page's style."""
    runs = runs_of(ledger)
    drawn = list(boxes(runs))
    title = f"{ledger.class_name}: {count(ledger.parameters)}"
    labels = [text for kind in _FONTS for text in _labels(runs, drawn, lang, kind)]
    inside = "".join([*_areas(drawn), _cuts(runs, drawn), *labels])
    return (
        f'<svg class="still" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{inside}</svg>'
    )


def _component(box: MapBox) -> str:
    return component_of(box.cell.entry.template.role)


def _areas(drawn: list[MapBox]) -> Iterator[str]:
    """Yield one path for each component, in which its boxes of one run are one rectangle."""
    paths: dict[str, dict[int, MapBox]] = {}
    for box in drawn:
        if box.width > 0 and box.height > 0:
            runs = paths.setdefault(_component(box), {})
            first = runs.setdefault(id(box.run), box)
            if first is not box:
                runs[id(box.run)] = first._replace(width=box.x + box.width - first.x)
    for component, runs in paths.items():
        shapes = [
            f"M{box.x:.2f} {box.y:.2f}h{box.width:.2f}v{box.height:.2f}h-{box.width:.2f}z"
            for box in runs.values()
        ]
        yield f'<path class="cell" style="{paint(component)}" d="{"".join(shapes)}"/>'


def _cuts(runs: list[LayerRun], drawn: list[MapBox]) -> str:
    """Return a line above each run, and fine ones between its layers where there is room."""
    tops = {id(box.run): (box.y, box.height) for box in drawn}
    cuts, fine = [], []
    for run in runs:
        top, tall = tops[id(run)]
        cuts.append(f"M0 {top:.2f}h{WIDTH}")
        if tall / run.many > _LEAST_GAP:
            fine += [f"M0 {top + at * tall / run.many:.2f}h{WIDTH}" for at in range(1, run.many)]
    lines = (("cut", cuts), ("gap fine", fine))
    return "".join(f'<path class="{kind}" d="{"".join(paths)}"/>' for kind, paths in lines)


def _labels(runs: list[LayerRun], drawn: list[MapBox], lang: str, kind: str) -> Iterator[str]:
    """Yield one group of texts for each component: its name, in each run where there is room."""
    texts: dict[str, list[str]] = {}
    size = _FONTS[kind]
    for run in runs:
        groups: dict[str, list[MapBox]] = {}
        for box in drawn:
            if box.run is run:
                groups.setdefault(_component(box), []).append(box)
        for component, group in groups.items():
            texts.setdefault(component, []).append(_label(group, label(component, lang), size))
    for component, inside in texts.items():
        if any(inside):
            font = f'font-size="{size}" font-weight="600"'
            of = f"name {kind}".rstrip()
            yield f'<g class="{of}" style="{paint(component)}" {font}>{"".join(inside)}</g>'


def _label(group: list[MapBox], name: str, size: int) -> str:
    """Return the name on the boxes of a component, or nothing if there is no room."""
    first, width = group[0], sum(box.width for box in group)
    letters = sum(1 if letter > "⺀" else _WIDEST_LETTER for letter in name)
    if first.height < 1.4 * size or width <= letters * size + _MARGINS:
        return ""
    return f'<text x="{first.x + 9:.0f}" y="{first.y + 3 + size:.0f}">{escape(name)}</text>'


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
