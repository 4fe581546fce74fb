"""The map of layers: areas true to parameters, rows that no line hides, and text that is text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from base64 import b64decode
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from notebooks import HOSTILE

import weighbridge as wb
from weighbridge.answers.layer_maps import layer_map
from weighbridge.data import LANGUAGES
from weighbridge.render.document import LayerMap, MapPart, MapRow
from weighbridge.render.layer_map import HEIGHT, WIDTH, map_file, map_on_page, paint
from weighbridge.render.words import label, words

FAMILIES = ["bert", "deepseek_v3", "jamba", "qwen3_next", "llava"]
SVG = "{http://www.w3.org/2000/svg}"
RECTANGLE = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z")


def drawn(family: str, lang: str = "en") -> ET.Element:
    text = map_file(layer_map(wb.weigh(family).ledger, lang))
    return ET.fromstring(text)  # noqa: S314  # ours


def rectangles(path: ET.Element) -> list[list[float]]:
    return [[float(number) for number in found] for found in RECTANGLE.findall(path.get("d", ""))]


def of_class(svg: ET.Element, kind: str) -> list[ET.Element]:
    return [element for element in svg.iter() if element.get("class") == kind]


def picture_in(html: str) -> ET.Element:
    """Return the last picture of a notebook's output."""
    content = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)[-1]
    return ET.fromstring(b64decode(content))  # noqa: S314  # ours


@pytest.mark.parametrize("family", FAMILIES)
def test_every_colour_has_the_share_of_its_components(family: str) -> None:
    expected, covered = Counter[str](), Counter[str]()
    weighing = wb.weigh(family)
    for component, parameters in weighing.by("component").items():
        expected[paint(component)] += parameters
    for path in of_class(drawn(family), "cell"):
        for _, _, width, height in rectangles(path):
            covered[path.get("style", "")] += width * height / (WIDTH * HEIGHT)
    for style, parameters in expected.items():
        assert covered[style] == pytest.approx(parameters / weighing.parameters, abs=2e-3)
    assert sum(covered.values()) == pytest.approx(1, abs=5e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_area_covers_another(family: str) -> None:
    every = [area for path in of_class(drawn(family), "cell") for area in rectangles(path)]
    for number, (x, y, width, height) in enumerate(every):
        for left, top, wide, tall in every[number + 1 :]:
            across = min(x + width, left + wide) - max(x, left)
            down = min(y + height, top + tall) - max(y, top)
            assert across < 0.03 or down < 0.03  # what rounding leaves


@pytest.mark.parametrize("family", FAMILIES)
def test_no_line_hides_a_row(family: str) -> None:
    svg = drawn(family)
    paths = of_class(svg, "cell")
    edges = sorted({y for path in paths for _, y, _, _ in rectangles(path)} | {float(HEIGHT)})
    thick = {}
    for cut in of_class(svg, "cut"):
        width = float(cut.get("style", "").removeprefix("stroke-width:"))
        for y in re.findall(r"M0 ([\d.]+)", cut.get("d", "")):
            thick[float(y)] = width
    for top, bottom in pairwise(edges):
        assert thick.get(top, 0) <= (bottom - top) / 3 + 0.02
        assert thick.get(bottom, 0) <= (bottom - top) / 3 + 0.02
    assert 0 < max(thick.values()) <= 3


def test_layers_that_differ_stay_in_order() -> None:
    block = layer_map(wb.weigh("jamba").ledger, "en")
    assert [row.path for row in block.rows[1:5]] == ["layers"] * 4
    assert len({row.each for row in block.rows[1:3]}) == 2
    assert sum(row.each * row.layers for row in block.rows) == wb.weigh("jamba").parameters


@pytest.mark.parametrize("lang", LANGUAGES)
def test_it_has_a_name_a_description_and_labels_in_the_language(lang: str) -> None:
    svg = drawn("bert-base-chinese", lang)
    assert (svg.get("role"), svg.get("aria-label")) == ("img", "BertModel: 102,267,648")
    assert [child.tag for child in svg][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert (svg[0].text, svg[1].text) == (
        "BertModel: 102,267,648",
        "embeddings: 16,622,592; encoder.layer × 12: 85,054,464; pooler: 590,592",
    )
    assert label("ffn", lang) in {text.text for text in svg.iter(f"{SVG}text")}


def test_names_are_text() -> None:
    rows = (MapRow(HOSTILE, 1, (MapPart("ffn", HOSTILE, 3),)), MapRow("", 2, ()))
    block = LayerMap(HOSTILE, HOSTILE, rows)
    for text in (map_file(block), map_on_page(block)):
        svg = ET.fromstring(text)  # noqa: S314  # ours
        assert {element.tag.removeprefix(SVG) for element in svg.iter()} <= {
            *("svg", "title", "desc", "style", "path", "g", "text"),
        }
        assert svg.get("aria-label") == HOSTILE


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_notebook_shows_the_map_of_a_weighing(lang: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weighbridge.answers.answer.Answer.lang", lang)
    weighing: Any = wb.weigh("bert-base-chinese")
    for html in (weighing._repr_html_(), weighing.html(by="role")):
        assert picture_in(html)[0].text == "BertModel: 102,267,648"
        assert words(lang)["layer_map"] in html
    assert "<figure>\n<svg" in weighing.page()
    for text in (weighing.text(), weighing.markdown(), weighing.latex()):
        assert words(lang)["layer_map"] not in text


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_of_an_article_shows_the_map(lang: str) -> None:
    article = wb.explain("llama", lang=lang)
    (found,) = re.findall(r'<svg[^>]*class="layer-map".*?</svg>', article.page(), re.DOTALL)
    assert ET.fromstring(found).get("aria-label") == "LlamaModel: 6,607,343,616"  # noqa: S314
    assert words(lang)["layer_map"] in article.page()
    for text in (article.text(), article.markdown(), article.latex()):
        assert words(lang)["layer_map"] not in text
