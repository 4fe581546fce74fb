"""Pictures of attention in SVG: all heads small, or one head large with its tokens and numbers.

The map of a head is an image with one pixel for each pair of tokens. It has one colour, whose
opacity is the square root of the attention, so that it is readable on light and dark backgrounds.
Everything else in a picture is text and lines.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.errors import printable, shorten
from weighbridge.render.attention import MEAN
from weighbridge.render.svg import (
    BOLD,
    DARKEST,
    LIGHT,
    MARGIN,
    ON,
    REGULAR,
    STYLE,
    TURN,
    image,
    paragraphs,
    pixels,
    rect,
    whole,
    wrapped,
    writing,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weighbridge.render.attention import Attention, Place


class _Size(NamedTuple):
    """The measures of a large map, in pixels: a cell, the margins around, and their font."""

    cell: int
    left: int
    above: int
    right: int
    font: int
    turned: bool

    @property
    def has_numbers(self) -> bool:
        return self.cell >= _SMALLEST_WITH_NUMBERS


_SMALLEST_WITH_NUMBERS = 26
LEAST_WIDTH = 560
_ACROSS = 860  # pixels, the total width of the maps of a picture
_OF_ONE_LAYER = 4  # maps side by side
_MOST_LINES = 3  # of text above a picture
_TITLE = 20  # the font size of the title


class Picture:
    """The pieces of one picture."""

    def __init__(self, attention: Attention, lang: str) -> None:
        self.of, self.lang = attention, lang
        self.words: dict[str, Any] = data.read_toml(f"words/attention.{lang}.toml")
        self.labels = [shorten(label, str, 16) for label in attention.labels]
        self.size = _size(self.labels)

    # The texts around the maps

    def title(self) -> str:
        """Return the title of the picture."""
        return str(self.words["title"].format(model=self.of.name))

    def sizes(self) -> str:
        """Return a line on the layers, heads and tokens in the picture."""
        tokens = str(len(self.of.tokens))
        if self.of.drawn < len(self.of.tokens):
            tokens = self.words["cut"].format(first=self.of.first, last=self.of.last, tokens=tokens)
        numbers = {"layers": self.listed(self.of.layers), "heads": self.listed(self.of.heads)}
        return str(self.words["sizes"]).format(
            **{"class": self.of.class_name}, tokens=tokens, **numbers
        )

    def name(self, layer: Place, head: Place) -> str:
        """Return the name of a head, or of a mean of heads."""
        layers, heads = self.of.averaged
        names = {"layer": layer, "head": head, "layers": layers, "heads": heads}
        return str(self.words["names"][_kind(layer, head)].format(**names))

    def listed(self, numbers: Sequence[Place]) -> str:
        """Write the numbers of layers or heads as a range, or that they are a mean."""
        if MEAN in numbers:
            return str(self.words["mean"])
        return listed(numbers)

    def texts(self, pixels: float, size: int) -> list[str]:
        """Return the quoted texts, wrapped to a number of pixels, in at most three lines."""
        lines: list[str] = []
        for text in self.of.texts:
            lines += wrapped(self.words["quote"].format(text=printable(text)), pixels, size)
        if len(lines) > _MOST_LINES:
            lines[_MOST_LINES - 1 :] = [f"{lines[_MOST_LINES - 1]} …"]
        return lines

    # A standalone picture

    def svg(self) -> str:
        """Return a standalone picture: one head large, or all heads small."""
        places = list(self.of.probabilities)
        if len(places) == 1:
            width, height, inner = self.large(*places[0])
            sentences = self.explained()
            heading = [self.title(), self.name(*places[0])]
        else:
            width, height, inner = self.overview()
            sentences = [self.words["rows"], " · ".join(self.numbered())]
            heading = [self.title()]
        width = max(width, LEAST_WIDTH)
        head, top = self.heading(heading, width)
        legend, below = self.legend(top + height + 22)
        foot, bottom = paragraphs(sentences, width, below)
        drawing = [
            *head,
            f'<g transform="translate({MARGIN} {top})">',
            *inner,
            "</g>",
            *legend,
            *foot,
        ]
        return whole(
            width + 2 * MARGIN,
            bottom + MARGIN,
            drawing,
            " · ".join(heading),
            f"<style>{STYLE}</style>",
        )

    def heading(self, headings: list[str], width: int) -> tuple[list[str], int]:
        """Return the title, the texts and the sizes, and the y coordinate of their end."""
        lines = []
        for heading in headings:
            lines += [(line, _TITLE, "ink", BOLD) for line in wrapped(heading, width, _TITLE)]
        lines += [(line, 14, "ink", REGULAR) for line in self.texts(width, 14)]
        lines += [(line, 12, "quiet", REGULAR) for line in wrapped(self.sizes(), width, 12)]
        drawn, y = [], MARGIN - 6
        for line, size, kind, weight in lines:
            y += round(size * 1.3) + 4
            drawn.append(writing(MARGIN, y, line, kind, size, weight=weight))
        return drawn, y + 20

    def legend(self, y: int) -> tuple[list[str], int]:
        """Return the scale with its explanation, and the y coordinate of its end."""
        drawn = self.scale(y)
        return [*drawn, writing(MARGIN, y + 52, self.words["scale"], "quiet", 12)], y + 56

    def scale(self, y: int) -> list[str]:
        """Return the colours of some values."""
        x, cells, wide = MARGIN, 40, 7
        values = [[((at + 0.5) / cells) ** 2 for at in range(cells)]]
        drawn = [
            writing(x, y + 12, self.words["legend"], "ink", 12),
            f'<g transform="translate({x + pixels(self.words["legend"], 12) + 10:.0f} {y})">',
            rect(cells * wide, 14),
            image(values, cells * wide, 14),
        ]
        for value in (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1):
            at = math.sqrt(value) * cells * wide
            drawn.append(f'<path class="line" stroke="{LIGHT["line"]}" d="M{at:.1f} 14v4"/>')
            drawn.append(writing(at, 30, f"{value:.0%}", "quiet", 10, anchor="middle"))
        return [*drawn, "</g>"]

    def explained(self) -> list[str]:
        """Return an explanation of a large map."""
        sentences = [self.words["row"]]
        if self.of.drawn < len(self.of.tokens):
            sentences = [self.words["row_cut"]]
        if self.size.has_numbers:
            sentences.append(self.words["numbers"])
        return sentences

    def numbered(self) -> list[str]:
        """Return the tokens, each with its position."""
        return [f"{place} {label}" for place, label in enumerate(self.labels, self.of.first)]

    # All heads, small

    def overview(self, *, linked: bool = False) -> tuple[int, int, list[str]]:
        """Return the maps of all heads: their width, their height, and their elements.

        ``linked`` maps can be opened.
        """
        layers, heads = self.of.layers, self.of.heads
        if len(layers) == 1:
            return self.of_one_layer(linked=linked)
        left, top, gap, side = _LEFT, 40, 8, self.small_side()
        drawn = [
            writing(left, 12, f"{self.words['head']} →", "quiet", 12),
            writing(0, top - 6, f"{self.words['layer']} ↓", "quiet", 12),
        ]
        for column, head in enumerate(heads):
            drawn.append(
                writing(
                    left + column * (side + gap) + side / 2,
                    32,
                    str(head),
                    "ink",
                    12,
                    anchor="middle",
                )
            )
        for row, layer in enumerate(layers):
            y = top + row * (side + gap)
            drawn.append(writing(left - 12, y + side / 2 + 4, str(layer), "ink", 12, anchor="end"))
            for column, head in enumerate(heads):
                drawn += self.small(
                    layer, head, (left + column * (side + gap), y), side, linked=linked
                )
        return left + len(heads) * (side + gap) - gap, top + len(layers) * (side + gap) - gap, drawn

    def of_one_layer(self, *, linked: bool) -> tuple[int, int, list[str]]:
        """Return the maps of one layer, larger, each with its name."""
        layer, heads = self.of.layers[0], self.of.heads
        across = min(_OF_ONE_LAYER, len(heads))
        side, gap, line = self.small_side(), 16, 24
        drawn = []
        for at, head in enumerate(heads):
            x, y = at % across * (side + gap), at // across * (side + gap + line)
            drawn.append(writing(x, y + 14, self.name(layer, head), "ink", 12))
            drawn += self.small(layer, head, (x, y + line), side, linked=linked)
        rows = -(-len(heads) // across)
        return across * (side + gap) - gap, rows * (side + gap + line) - gap, drawn

    def small(
        self, layer: Place, head: Place, at: tuple[float, float], side: int, *, linked: bool
    ) -> Iterator[str]:
        """Yield one map at a position in the picture."""
        (x, y), name = at, ""
        title = escape(self.words["map"].format(name=self.name(layer, head), tokens=self.of.drawn))
        if linked:
            name = f"m{layer}-{head}"
            yield f'<a href="#l{layer}h{head}" aria-label="{title}">'
        yield f'<g transform="translate({x:g} {y:g})"><title>{title}</title>'
        yield rect(side, side)
        yield image(self.of.map(layer, head), side, name=name)
        yield "</g>"
        if linked:
            yield "</a>"

    # One head, large

    def large(self, layer: Place, head: Place, small: int = 0) -> tuple[int, int, list[str]]:
        """Return the map of one head with its tokens and numbers.

        On a page the tokens and the image, ``small`` pixels wide, are drawn once and then referred
        to.
        """
        size, side = self.size, self.of.drawn * self.size.cell
        values = self.of.map(layer, head)
        if small:
            scale = f'transform="scale({side / small:.6g})"'
            around, mapped = ['<use href="#tokens"/>'], f'<use href="#m{layer}-{head}" {scale}/>'
        else:
            around, mapped = list(self.around()), image(values, side)
        place = f'<g transform="translate({size.left} {size.above})">'
        inside = [place, rect(side, side), mapped]
        if size.has_numbers:
            inside += self.numbers(values)
        inside.append("</g>")
        return size.left + side + size.right, size.above + side, [*around, *inside]

    def around(self) -> Iterator[str]:
        """Yield the tokens on the left and above."""
        size = self.size
        for at, label in enumerate(self.labels):
            middle = (at + 0.5) * size.cell
            yield writing(
                size.left - 8,
                size.above + middle + size.font * 0.36,
                label,
                "ink",
                size.font,
                anchor="end",
            )
            x, y = size.left + middle, size.above - 8
            if size.turned:
                x += size.font * 0.3
                yield writing(x, y, label, "ink", size.font, turned=True)
            else:
                yield writing(x, y, label, "ink", size.font, anchor="middle")

    def numbers(self, rows: Sequence[Sequence[float]]) -> Iterator[str]:
        """Yield the numbers of each row, in percent."""
        cell = self.size.cell
        font = max(10, round(cell * 0.3))
        yield f'<g text-anchor="middle" font-size="{font}" fill="{LIGHT["number"]}" class="number">'
        for row, values in enumerate(rows):
            spans = []
            for column, value in enumerate(values):
                place = f'x="{(column + 0.5) * cell:g}"'
                if value >= DARKEST:
                    place += f' class="on" fill="{ON}"'
                if value >= _LEAST_WRITTEN:
                    spans.append(f"<tspan {place}>{100 * value:.0f}</tspan>")
            if spans:
                yield f'<text y="{(row + 0.5) * cell + font * 0.36:g}">{"".join(spans)}</text>'
        yield "</g>"

    def small_side(self) -> int:
        """Return the width of a small map."""
        heads = len(self.of.heads)
        if len(self.of.layers) == 1:
            across = min(_OF_ONE_LAYER, heads)
            return min(240, _ACROSS // across - 16)
        return max(40, min(120, (_ACROSS - _LEFT) // heads - 8))


_LEFT = 56  # pixels left of the maps of all heads, for the numbers of the layers


_LEAST_WRITTEN = 0.005


def _kind(layer: Place, head: Place) -> str:
    of_layer, of_head = ("mean" if place == MEAN else "one" for place in (layer, head))
    return f"{of_layer}_{of_head}"


def listed(numbers: Sequence[Place]) -> str:
    """Write a list of numbers as a range.

    Example:
        >>> listed([0, 1, 2]), listed([5])
        ('0–2', '5')
    """
    if len(numbers) == 1:
        return str(numbers[0])
    return f"{numbers[0]}–{numbers[-1]}"


def _size(labels: Sequence[str]) -> _Size:
    """Return the measures of a large map with these tokens."""
    cell = max(15, min(48, 760 // len(labels)))
    font = 13
    if cell < _LEAST_WITH_LARGE_FONT:
        font = 10
    longest = math.ceil(max(pixels(label, font) for label in labels))
    left = longest + 12
    if longest <= cell - 2:
        return _Size(cell, left, above=font + 14, right=0, font=font, turned=False)
    above, right = round(longest * _RISE) + font + 6, round(longest * _RUN)
    return _Size(cell, left, above, right, font, turned=True)


_LEAST_WITH_LARGE_FONT = 20  # pixels of a cell
_RISE = math.sin(math.radians(TURN))
_RUN = (1 - _RISE**2) ** 0.5
