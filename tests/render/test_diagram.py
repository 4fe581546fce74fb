"""Diagrams: everything fits in its box and in the picture, and labels are text."""

from __future__ import annotations

import unicodedata
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from notebooks import HOSTILE

from weighbridge.render.diagram import (
    RING,
    WIDTH,
    Apart,
    Beside,
    Box,
    Drawing,
    Flow,
    Frame,
    Inscription,
    Junction,
    Polyline,
    Rectangle,
    Residual,
    Ring,
    Strip,
    Strips,
    labels,
    layout,
    with_prose,
)
from weighbridge.render.diagram_svg import inline_svg, svg_file
from weighbridge.render.document import Diagram, Document, plain, write

if TYPE_CHECKING:
    from weighbridge.render.diagram import Part

VALUES = {"H": 768, "A_kv": 8}
SVG = "{http://www.w3.org/2000/svg}"

prose = st.sampled_from(
    ["norm", "归一化", "$H$ × $A_kv$\n+ $H$", "查询 $W_Q$", "$=H$", "a" * 20, "512 × 768\n+ 512"]
)
boxes = st.builds(
    Box, st.lists(prose, min_size=1, max_size=3).map(tuple), st.sampled_from(["tensor", "step"])
)
strips = st.integers(1, 13).flatmap(
    lambda cells: st.builds(
        lambda label: Strips((Strip("row", label, tuple((str(n), 1) for n in range(cells))),)),
        prose,
    )
)


def several(parts: st.SearchStrategy[Part]) -> st.SearchStrategy[tuple[Part, ...]]:
    return st.lists(parts, min_size=1, max_size=3).map(tuple)


parts = st.recursive(
    boxes | strips | st.just(Junction()),
    lambda below: (
        st.builds(Flow, several(below))
        | st.builds(Beside, several(boxes))
        | st.builds(Residual, several(below))
        | st.builds(Apart, several(below))
        | st.builds(Frame, st.just(("title",)), several(below))
    ),
    max_leaves=8,
)


def width_of(text: str, size: float) -> float:
    """Return the width that a text takes at least, by the narrowest fonts in use."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return size * (wide + 0.5 * (len(text) - wide))


def extent(shape: object) -> tuple[float, float, float, float]:
    """Return the least and greatest x and y of a shape."""
    if isinstance(shape, Rectangle):
        return shape.x, shape.x + shape.width, shape.y, shape.y + shape.height
    if isinstance(shape, Ring):
        return shape.x - RING, shape.x + RING, shape.y - RING, shape.y + RING
    if isinstance(shape, Polyline):
        xs, ys = zip(*shape.points, strict=True)
        return min(xs), max(xs), min(ys), max(ys)
    assert isinstance(shape, Inscription)
    text = shape.prose.replace("$", "").replace("=H", "768")
    wide, left = width_of(text, shape.size), shape.x
    if shape.is_centred:
        left -= wide / 2
    return left, left + wide, shape.baseline - shape.size, shape.baseline + 3


def check_inside(drawing: Drawing) -> None:
    """Check that no shape leaves the picture, and that each text of a box is inside it."""
    for shape in drawing.shapes:
        left, right, top, bottom = extent(shape)
        assert left >= -1, shape
        assert right <= drawing.width + 1, shape
        assert top >= -3, shape
        assert bottom <= drawing.height + 4, shape


@settings(max_examples=150, deadline=None)
@given(several(parts))
def test_nothing_leaves_the_picture(drawn: tuple[Part, ...]) -> None:
    drawing = layout(drawn, VALUES)
    assert drawing.width >= WIDTH
    check_inside(drawing)


@settings(max_examples=60, deadline=None)
@given(boxes, st.integers(1, 4))
def test_the_lines_of_a_box_are_inside_it(box: Box, number: int) -> None:
    drawing = layout((Beside((box,) * number),), VALUES)
    rectangles = [shape for shape in drawing.shapes if isinstance(shape, Rectangle)]
    texts = [shape for shape in drawing.shapes if isinstance(shape, Inscription)]
    assert len(rectangles) == number
    for text in texts:
        left, right, top, bottom = extent(text)
        around = [
            rectangle
            for rectangle in rectangles
            if rectangle.x <= left
            and right <= rectangle.x + rectangle.width
            and rectangle.y <= top
            and bottom <= rectangle.y + rectangle.height
        ]
        assert len(around) == 1, text
    for before, after in pairwise(rectangles):
        assert before.x + before.width <= after.x


def test_lines_break_only_where_there_is_no_room() -> None:
    box = Box(("query", "4,096 × 4,096\n+ 4,096"))
    for number, lines in ((1, 2), (2, 2), (3, 3)):
        drawing = layout((Beside((box,) * number),), {})
        assert len([s for s in drawing.shapes if isinstance(s, Inscription)]) == number * lines
        assert drawing.width == WIDTH


def test_only_the_widest_boxes_are_broken() -> None:
    wide = Box(("output", "16,384 × 16,384\n+ 16,384"))
    narrow = Box(("norm", "512 × 512\n+ 512"))
    texts = [
        shape.prose
        for shape in layout((Beside((wide, narrow, wide)),), {}).shapes
        if isinstance(shape, Inscription)
    ]
    assert "512 × 512 + 512" in texts
    assert "16,384 × 16,384" in texts


def test_arrows_lead_from_part_to_part() -> None:
    three = Beside((Box(("a",)), Box(("b",)), Box(("c",))))
    arrows = [
        shape
        for shape in layout((Box(("x",)), three, Junction()), {}).shapes
        if isinstance(shape, Polyline) and shape.has_head
    ]
    assert len(arrows) == 4  # to each of three boxes, and to their sum
    apart = layout((Apart((Box(("a",)), Box(("b",)))),), {}).shapes
    assert not [shape for shape in apart if isinstance(shape, Polyline)]


def test_what_goes_around_is_added() -> None:
    shapes = layout((Residual((Frame(("a",), (Box(("b",)),)),)),), {}).shapes
    (around,) = [s for s in shapes if isinstance(s, Polyline) and len(s.points) == 4]
    (ring,) = [s for s in shapes if isinstance(s, Ring)]
    assert around.points[-1] == (ring.x - RING, ring.y)
    assert extent(around)[0] + 4 < min(s.x for s in shapes if isinstance(s, Rectangle))


DIAGRAM = Diagram(
    "name", HOSTILE, "caption", (Box((plain(HOSTILE), "$A_kv$ × $3*H$ + $H$")), Junction("×"))
)


@pytest.mark.parametrize("is_file", [True, False])
def test_the_svg_is_valid_and_its_labels_are_text(is_file: bool) -> None:
    svg = inline_svg(DIAGRAM, VALUES)
    if is_file:
        svg = svg_file(DIAGRAM, VALUES, "en")
    root = ET.fromstring(svg)  # noqa: S314  # ours
    found = ["".join(text.itertext()) for text in root.iter() if text.tag.endswith("text")]
    assert [text.replace("\u200b", "") for text in found] == [HOSTILE, "Akv × 3H + H"]
    named = {element.tag.removeprefix(SVG): element.text or "" for element in root}
    assert HOSTILE in named["title"]
    assert named["desc"] == f"{HOSTILE} A_kv × 3H + H → ×"
    assert "script" not in {element.tag for element in root.iter()}


def test_an_index_is_lower_and_the_rest_is_not() -> None:
    svg = inline_svg(DIAGRAM, VALUES)
    root = ET.fromstring(svg)  # noqa: S314  # ours
    shifts = [float(element.get("dy", 0)) for element in root.iter("tspan")]
    assert sum(shifts) == 0
    assert max(shifts) > 0


def test_a_diagram_takes_the_colour_of_its_page_but_a_file_has_its_own() -> None:
    assert 'stroke="currentColor"' in inline_svg(DIAGRAM, VALUES)
    assert "#" not in inline_svg(DIAGRAM, VALUES)
    svg = svg_file(DIAGRAM, VALUES, "zh-CN")
    assert "prefers-color-scheme:dark" in svg
    assert '<rect class="ground"' in svg
    assert 'xml:lang="zh-CN"' in svg


def test_terminals_and_markdown_on_stdout_leave_diagrams_out() -> None:
    document = Document((DIAGRAM, DIAGRAM), "en", VALUES)
    for form in ("text", "markdown", "zhihu"):
        assert write(document, form) == ""


@settings(max_examples=60, deadline=None)
@given(several(parts))
def test_labels_are_found_and_rewritten(drawn: tuple[Part, ...]) -> None:
    assert with_prose(drawn, str) == drawn
    assert labels((Strips((Strip("row", "heads", (("1", 1),)),)),)) == ["heads"]
    assert labels(with_prose(drawn, str.upper)) == [label.upper() for label in labels(drawn)]
