"""A standalone page of attention: the maps of all heads, each with a link to a large version.

Without its script the page shows everything that is drawn. With the script, one head or a mean of
heads is shown as lines or as a map, of any window of the text, from any sentence to any other.
"""

from __future__ import annotations

import json
import sys
from array import array
from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING

from weighbridge import data, units
from weighbridge.errors import printable, shorten
from weighbridge.render import html as as_html
from weighbridge.render.attention import MEAN
from weighbridge.render.picture import Picture
from weighbridge.render.svg import MARGIN, MARK, STYLE, bounded, pixels, whole
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weighbridge.render.attention import Attention, Place


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
        yield f"<style>{STYLE}\n{data.read_text('pages/attention.css')}</style></head>\n<body>"

    def _body(self) -> Iterator[str]:
        yield '<main id="all">'
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
        width = round(pixels(self.words["legend"], 12)) + _SCALE
        moved = [f'<g transform="translate({1 - MARGIN} 0)">', *self.scale(0), "</g>"]
        yield f'<div class="fit">{whole(width, _SCALE_HEIGHT, moved, self.words["legend"])}</div>'
        yield f'<p class="quiet">{escape(self.words["scale"])}</p>'
        if not is_alone:
            yield f"<p>{escape(self.words['rows'])} {escape(' · '.join(self.numbered()))}</p>"
        yield "</main>"
        values = json.dumps(self._values()).replace("<", r"\u003c")
        yield f'<script type="application/json" id="page">{values}</script>'
        yield f"<script>\n{data.read_text('pages/viewer.js')}</script>"

    def _one(self, layer: Place, head: Place) -> Iterator[str]:
        yield '<div class="static">'
        yield _framed(*self.large(layer, head), self.name(layer, head))
        yield f"<p>{escape(' '.join(self.explained()))}</p>"
        yield self.strongest(layer, head)
        yield "</div>"
        yield from self._viewer()

    # The viewer: it needs the script, which shows it

    def _values(self) -> dict[str, object]:
        """Return what the script needs: tokens, sentences, words and all values that fit."""
        start, end = self._held()
        return {
            "tokens": [printable(token) for token in self.of.tokens[start:end]],
            "sentences": self.of.sentences[start:end],
            "start": start,
            "layers": self.of.layers,
            "heads": self.of.heads,
            "averaged": self.of.averaged,
            "names": self.words["names"],
            "pair": self.words["pair"],
            "values": _as_text(self.of.probabilities.values(), slice(start, end)),
        }

    def _held(self) -> tuple[int, int]:
        """Return the range of the tokens whose values are in the page."""
        if holds_all_tokens(self.of):
            return 0, len(self.of.tokens)
        return self.of.first, self.of.last + 1

    def _viewer(self) -> Iterator[str]:
        words = {key: escape(str(text)) for key, text in self.words.items()}
        start, end = self._held()
        yield f'<section id="viewer" tabindex="-1" aria-label="{words["viewer"]}">'
        yield f'<h2 id="name">{words["viewer"]}</h2>'
        yield '<div class="controls">'
        yield self._choice("layer", words["layer"], self._numbered(self.of.layers))
        yield self._choice("head", words["head"], self._numbered(self.of.heads))
        sentences = self._sentences(start, end)
        kind = "" if len(sentences) > _ALL_AND_ONE else ' class="needless"'
        yield f"<span{kind}>"
        yield self._choice("from", words["from"], sentences)
        yield self._choice("to", words["to"], sentences)
        yield "</span><span>"
        limits = f'type="number" min="{start}" max="{end - 1}"'
        yield f'<label>{words["first"]} <input id="first" {limits} value="{self.of.first}"></label>'
        yield f'<label>{words["last"]} <input id="last" {limits} value="{self.of.last}"></label>'
        yield f'<button type="button" id="earlier" aria-label="{words["earlier"]}">←</button>'
        yield f'<button type="button" id="later" aria-label="{words["later"]}">→</button></span>'
        yield f'<span role="radiogroup" aria-label="{words["view"]}">'
        for name, checked in (("as_lines", ' checked=""'), ("as_map", "")):
            id_ = name.replace("_", "-")
            radio = f'<input type="radio" name="view" id="{id_}"{checked}>'
            yield f"<label>{radio} {words[name]}</label>"
        yield f'</span></div><p class="quiet">{words["hint"]} {words["keys"]}</p>'
        if end - start < len(self.of.tokens):
            figures = {"first": start, "last": end - 1, "tokens": len(self.of.tokens)}
            yield f'<p class="quiet">{escape(self.words["partial"].format(**figures))}</p>'
        yield '<output id="said"></output><div id="lines"></div><div id="map" hidden></div>'
        yield "</section>"

    def _choice(self, name: str, label: str, options: Iterable[tuple[str, str]]) -> str:
        listed_options = "".join(
            f'<option value="{value}">{escape(text)}</option>' for value, text in options
        )
        return f'<label>{label} <select id="{name}">{listed_options}</select></label>'

    def _numbered(self, numbers: Sequence[Place]) -> list[tuple[str, str]]:
        """Return the choices among layers or heads, with their mean if there are several."""
        options = [(str(number), str(number)) for number in numbers]
        if numbers == [MEAN]:
            return [(MEAN, self.words["mean"])]
        if len(numbers) > 1:
            options.append((MEAN, self.words["mean_of"].format(count=len(numbers))))
        return options

    def _sentences(self, start: int, end: int) -> list[tuple[str, str]]:
        """Return the choices among the sentences of the text, with their first tokens."""
        tokens: dict[int, list[str]] = {}
        for number, token in zip(
            self.of.sentences[start:end], self.of.tokens[start:end], strict=True
        ):
            tokens.setdefault(number, []).append(printable(token))
        options = [("all", self.words["all_sentences"])]
        for number, words in tokens.items():
            text = shorten(" ".join(words), str, 24)
            options.append((str(number), self.words["sentence"].format(number=number, words=text)))
        return options

    def _all(self, places: Iterable[tuple[Place, Place]]) -> Iterator[str]:
        yield f"<p>{escape(self.words['open'])}</p>"
        width, height, drawn = self.overview(linked=True)
        yield _framed(width, height, drawn, self.title(), "fit")
        tokens = "".join(self.around())
        defined = f'<defs><g id="tokens">{tokens}</g></defs>'
        yield f'<svg width="0" height="0" aria-hidden="true">{defined}</svg>'
        yield from self._viewer()
        yield from (self.section(layer, head) for layer, head in places)

    def section(self, layer: Place, head: Place) -> str:
        """Return one head large, with links to its neighbours; it is visible when linked to."""
        name = escape(self.name(layer, head))
        beside = (
            (_next(self.of.layers, layer, -1), head, "↑"),
            (layer, _next(self.of.heads, head, -1), "←"),
            (layer, _next(self.of.heads, head, 1), "→"),
            (_next(self.of.layers, layer, 1), head, "↓"),
        )
        ways = [
            f'<a href="#l{above}h{at}">{mark} {escape(self.name(above, at))}</a>'
            for above, at, mark in beside
            if above is not None and at is not None
        ]
        back = f'<a href="#all">{escape(self.words["all"])}</a>'
        navigation = f'<nav aria-label="{escape(self.words["navigation"])}">'
        explained = escape(" ".join(self.explained()))
        lines = [
            f'<section id="l{layer}h{head}" class="head" tabindex="-1">',
            f"<h2>{name}</h2>{navigation}{' '.join([back, *ways])}</nav>",
            _framed(*self.large(layer, head, self.small_side()), self.name(layer, head)),
            f"<p>{explained}</p>{self.strongest(layer, head)}</section>",
        ]
        return "\n".join(lines)

    def strongest(self, layer: Place, head: Place) -> str:
        """Return the token that each token attends to most, as a table that opens."""
        labels = self.numbered()
        rows = []
        for label, values in zip(labels, self.of.map(layer, head), strict=True):
            most = max(range(len(values)), key=values.__getitem__)
            rows.append((label, labels[most], units.fixed(100 * values[most], 1)))
        table = as_html.html_table(Table(tuple(self.words["strongest_header"]), tuple(rows), "<<>"))
        return f"<details><summary>{escape(self.words['strongest'])}</summary>{table}</details>"


_SCALE, _SCALE_HEIGHT = 310, 34  # pixels of the scale of colours beside its name
_MOST_VALUES = 4_000_000  # in a page, at two bytes each: some 10 MB
_ALL_AND_ONE = 2  # choices of sentences where there is only one


def holds_all_tokens(attention: Attention) -> bool:
    """Whether a page has the values of all tokens, not only of those that are drawn.

    Example:
        >>> from weighbridge.render.attention import Attention
        >>> holds_all_tokens(Attention("m", "BertModel", ("t",), ("a",) * 200, {(0, 0): []}, ()))
        True
    """
    return len(attention.probabilities) * len(attention.tokens) ** 2 <= _MOST_VALUES


def _as_text(maps: Iterable[list[list[float]]], held: slice) -> str:
    """Return values as text: each a share of 65,535, two bytes with the low one first."""
    shares = array("H")
    for rows in maps:
        for row in rows[held]:
            shares.extend(round(65535 * bounded(value)) for value in row[held])
    if sys.byteorder == "big":
        shares.byteswap()
    return b64encode(shares.tobytes()).decode()


def _next(numbers: Sequence[Place], number: Place, step: int) -> Place | None:
    at = numbers.index(number) + step
    return numbers[at] if 0 <= at < len(numbers) else None


def _framed(width: int, height: int, drawn: Iterable[str], title: str, kind: str = "wide") -> str:
    """Return a picture on the page, with room for the lines at its edges.

    A ``wide`` one scrolls where it is wider than the screen, one to ``fit`` shrinks.
    """
    moved = ['<g transform="translate(1 1)">', *drawn, "</g>"]
    return f'<div class="{kind}">{whole(width + 2, height + 2, moved, title)}</div>'
