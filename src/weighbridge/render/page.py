"""A standalone page of attention: the maps of all heads, each with a link to a large version.

Without its script the page shows everything. With the script, the arrow keys move through the
heads.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from weighbridge import data, units
from weighbridge.errors import printable
from weighbridge.render import html as as_html
from weighbridge.render.picture import LEAST_WIDTH, Picture
from weighbridge.render.svg import DARK, FONTS, LIGHT, MARGIN, MARK, STYLE, bounded, pixels, whole
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_META = (
    '<head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
)


class Page(Picture):
    """The pieces of a picture, and the page around them."""

    def html(self) -> str:
        """Return the page; a single head is large from the start."""
        return "\n".join([*self._head(), *self._body(), "</body></html>\n"])

    def _head(self) -> Iterator[str]:
        lang = as_html.LANGUAGE_TAGS.get(self.lang, self.lang)
        yield f'<!DOCTYPE html>\n<html lang="{lang}">\n<!-- {MARK} -->'
        yield _META
        yield '<meta name="color-scheme" content="light dark">'
        yield f"<title>{escape(self.title())}</title>"
        yield f"<style>{STYLE}{_PAGE_STYLE}</style></head>\n<body>"

    def _body(self) -> Iterator[str]:
        places = list(self.of.probabilities)
        is_alone = len(places) == 1
        heading = self.title()
        if is_alone:
            heading = f"{heading} · {self.name(*places[0])}"
        yield f"<h1>{escape(heading)}</h1>"
        yield from (f"<blockquote>{escape(printable(text))}</blockquote>" for text in self.of.texts)
        yield f"<p>{escape(self.sizes())}</p>"
        if is_alone:
            yield from self._one(*places[0])
        else:
            yield from self._all(places)
        drawn, height = self.legend(0)
        width = max(LEAST_WIDTH, 40 + round(pixels(self.words["scale"], 12)))
        moved = [f'<g transform="translate({1 - MARGIN} 0)">', *drawn, "</g>"]
        yield f'<div class="wide">{whole(width, height, moved, self.words["legend"])}</div>'
        if not is_alone:
            yield f"<p>{escape(self.words['rows'])} {escape(' · '.join(self.numbered()))}</p>"
            values = {
                "labels": self.labels,
                "pair": self.words["pair"],
                "cell": self.size.cell,
                "left": self.size.left + 1,
                "above": self.size.above + 1,
            }
            written = json.dumps(values).replace("<", r"\u003c")
            yield f'<script type="application/json" id="page">{written}</script>'
            yield f"<script>\n{data.read_text('pages/attention.js')}</script>"

    def _one(self, layer: int, head: int) -> Iterator[str]:
        yield _framed(*self.large(layer, head), self.name(layer, head))
        yield f"<p>{escape(' '.join(self.explained()))}</p>"
        yield self.strongest(layer, head)

    def _all(self, places: Iterable[tuple[int, int]]) -> Iterator[str]:
        keys = f' <span class="keys">{escape(self.words["keys"])}</span>'
        yield f"<p>{escape(self.words['open'])}{keys}</p>"
        width, height, drawn = self.overview(linked=True)
        yield f'<div id="all">{_framed(width, height, drawn, self.title())}</div>'
        tokens = "".join(self.around())
        defined = f'<defs><g id="tokens">{tokens}</g></defs>'
        yield f'<svg width="0" height="0" aria-hidden="true">{defined}</svg>'
        yield from (self.section(layer, head) for layer, head in places)

    def section(self, layer: int, head: int) -> str:
        """Return one head large, with links to its neighbours; it is visible when linked to."""
        name = escape(self.name(layer, head))
        beside = (
            (layer - 1, head, "↑"),
            (layer, head - 1, "←"),
            (layer, head + 1, "→"),
            (layer + 1, head, "↓"),
        )
        ways = [
            f'<a href="#l{above}h{at}" data-key="{mark}">{mark} {escape(self.name(above, at))}</a>'
            for above, at, mark in beside
            if (above, at) in self.of.probabilities
        ]
        back = f'<a href="#all" data-key="all">{escape(self.words["all"])}</a>'
        permille = [list(map(_permille, row)) for row in self.of.map(layer, head)]
        values = json.dumps(permille, separators=(",", ":"))
        navigation = f'<nav aria-label="{escape(self.words["navigation"])}">'
        explained = escape(" ".join(self.explained()))
        lines = [
            f'<section id="l{layer}h{head}" class="head" tabindex="-1" data-values="{values}">',
            f"<h2>{name}</h2>{navigation}{' '.join([back, *ways])}</nav>",
            _framed(*self.large(layer, head, self.small_side()), self.name(layer, head)),
            f"<output></output><p>{explained}</p>{self.strongest(layer, head)}</section>",
        ]
        return "\n".join(lines)

    def strongest(self, layer: int, head: int) -> str:
        """Return the token that each token attends to most, as a table that opens."""
        labels = self.numbered()
        rows = []
        for label, values in zip(labels, self.of.map(layer, head), strict=True):
            most = max(range(len(values)), key=values.__getitem__)
            rows.append((label, labels[most], units.fixed(100 * values[most], 1)))
        table = as_html.html_table(Table(tuple(self.words["strongest_header"]), tuple(rows), "<<>"))
        return f"<details><summary>{escape(self.words['strongest'])}</summary>{table}</details>"


def _permille(value: float) -> int:
    return round(1000 * bounded(value))


def _framed(width: int, height: int, drawn: Iterable[str], title: str) -> str:
    """Return a picture on the page, with room for the lines at its edges."""
    moved = ['<g transform="translate(1 1)">', *drawn, "</g>"]
    return f'<div class="wide">{whole(width + 2, height + 2, moved, title)}</div>'


_PAGE_STYLE = (
    f":root{{color-scheme:light dark;background:{LIGHT['ground']};color:{LIGHT['ink']}}}"
    f"body{{font-family:{FONTS};max-width:64rem;margin:1.5rem auto;padding:0 1rem;line-height:1.5}}"
    "h1{font-size:1.5rem}h2{font-size:1.25rem}"
    "blockquote{margin:.5rem 0;padding-left:1rem;border-left:4px solid #1f6feb}"
    ".wide{overflow-x:auto}svg{max-width:none}a{color:#0550ae}"
    "nav a{display:inline-block;margin-right:1rem}"
    "a:focus-visible{outline:3px solid #bf3989;outline-offset:2px}section:focus{outline:none}"
    "a:hover .cell{stroke:#bf3989;stroke-width:3}a:focus .cell{stroke:#bf3989;stroke-width:5}"
    ".head{display:none;border-top:1px solid;padding-bottom:1rem}.head:target{display:block}"
    "output{display:block;min-height:1.5em}.keys{display:none}.scripted .keys{display:inline}"
    "table{border-collapse:collapse}td,th{padding:.1rem .8rem .1rem 0}"
    "@media (prefers-color-scheme:dark){"
    f":root{{background:{DARK['ground']};color:{DARK['ink']}}}a{{color:#79c0ff}}}}"
)
