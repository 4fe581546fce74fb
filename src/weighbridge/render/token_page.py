"""A standalone page that follows one token through one layer, with the numbers of every step.

The page has no script: heads are chosen with radio buttons, and long lists open by themselves.
"""

from __future__ import annotations

import math
import re
from html import escape
from typing import TYPE_CHECKING

from weighbridge import data, units
from weighbridge.errors import printable, shorten
from weighbridge.render.html import LANGUAGE_TAGS
from weighbridge.render.strip import strip
from weighbridge.render.svg import MARK
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weighbridge.render.token_path import HeadPath, Linear, Norm, TokenPath, Vector


def token_page(path: TokenPath, lang: str = "en") -> str:
    """Return the page of a token; it needs no network.

    Raises:
        UsageError: the language is unknown.
    """
    words(lang)
    return _TokenPage(path, lang).html()


def describe_file(path: TokenPath, file: object, lang: str = "en") -> str:
    """Return a line that says what was written and where."""
    page = _TokenPage(path, lang)
    return str(page.words["written"]).format(path=file, **page.figures)


class _TokenPage:
    """The pieces of the page, in a language."""

    def __init__(self, path: TokenPath, lang: str) -> None:
        self.path, self.lang = path, lang
        self.words = data.read_toml(f"words/token.{lang}.toml")
        self.labels = [shorten(printable(token), str, 24) for token, _ in path.tokens]
        width, heads = len(path.entered), len(path.heads)
        self.size = width // heads
        self.figures = {
            "model": path.name,
            "class": path.class_name,
            "token": self.labels[path.place],
            "place": path.place,
            "layer": path.layer,
            "layers": path.layers,
            "before": path.layer - 1,
            "next": path.layer + 1,
            "H": units.count(width),
            "A": heads,
            "D": self.size,
            "F": units.count(len(path.activated)),
            "n": len(path.tokens),
            "root": _number(math.sqrt(self.size)),
            "activation": path.activation,
        }
        self.shown = _strongest(path)
        self.steps: list[tuple[str, str]] = []  # the ids and titles of the steps so far

    def say(self, key: str, **figures: object) -> str:
        """Return a sentence of the page, with its figures, escaped."""
        return escape(str(self.words[key]).format(**{**self.figures, **figures}))

    # The page

    def html(self) -> str:
        lang = LANGUAGE_TAGS.get(self.lang, self.lang)
        title, sections = self.say("title"), list(self.sections())
        chosen = "".join(
            f"#h{head}:checked~#p{head}{{display:block}}" for head in range(len(self.path.heads))
        )
        lines = [
            f'<!DOCTYPE html>\n<html lang="{lang}">\n<!-- {MARK} -->\n<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="color-scheme" content="light dark">\n<title>{title}</title>',
            f"<style>\n{data.read_text('pages/token.css')}{chosen}\n</style></head>\n<body>",
            f"<header>\n<h1>{title}</h1>",
            *self.opening(),
            "</header>",
            f'<main class="stream">\n{"".join(sections)}</main>',
            f"<footer>{self.ending()}</footer>",
            "</body></html>\n",
        ]
        return "\n".join(lines)

    def opening(self) -> Iterator[str]:
        yield from (
            f"<blockquote>{self.say('text', text=printable(text))}</blockquote>"
            for text in self.path.texts
        )
        tokens = "".join(
            f"<li{self.current(place)}>{escape(self.labels[place])}"
            f" <small>{self.path.tokens[place][1]}</small></li>"
            for place in range(len(self.labels))
        )
        yield f'<ol class="tokens" start="0" aria-label="{self.say("tokens")}">{tokens}</ol>'
        yield f"<p>{_code(self.say('followed'))}</p>"
        yield f'<p class="quiet">{self.say("sizes")}</p>'
        yield f'<p class="quiet">{self.say("strips")} {self.say("residual_line")}</p>'
        links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in self.steps)
        yield f'<nav aria-label="{self.say("contents")}"><ol>{links}</ol></nav>'

    def ending(self) -> str:
        if self.path.layer + 1 < self.path.layers:
            return f"<p>{_code(self.say('next'))}</p>"
        return f"<p>{self.say('last')}</p>"

    def current(self, place: int) -> str:
        if place == self.path.place:
            return ' aria-current="true"'
        return ""

    def sections(self) -> Iterator[str]:
        path = self.path
        if path.layer == 0:
            yield self.step("embedding", self.embedding(), kind="on")
        else:
            name = "entering_one" if path.layer == 1 else "entering"
            yield self.step(name, [self.vector("x", path.entered)], kind="on")
        yield self.step("projections", self.projections())
        yield self.step("heads", self.heads())
        yield self.step("joined", [self.vector("z", path.joined)])
        yield self.step("output", self.product(path.output, "W_O", "z", path.joined, "o"))
        yield self.step("residual", self.residual(path.attended, "r", "o", "x"), kind="on")
        yield self.step("norm", self.norm(path.attended, "r", "y"), kind="on")
        after = path.attended.result
        yield self.step("up", self.product(path.up, "W_1", "y", after, "u"))
        activated = self.vector("a", path.activated)
        known = "activated" if path.activation.startswith("gelu") else "activated_other"
        yield self.step(known, [self.example(self.activation()), activated])
        yield self.step("down", self.product(path.down, "W_2", "a", path.activated, "d"))
        yield self.step("residual_2", self.residual(path.left, "s", "d", "y"), kind="on")
        yield self.step("norm_2", self.norm(path.left, "s", "x′"), kind="on")

    def step(self, name: str, inside: Iterable[str], kind: str = "block") -> str:
        """Return a numbered section: its title, formula and text, and what is inside."""
        texts = {
            key: str(text).format(**self.figures) for key, text in self.words["step"][name].items()
        }
        self.steps.append((name, _symbols(texts["title"])))
        return "\n".join(
            [
                f'<section class="{kind}" id="{name}">',
                f"<h2><span>{len(self.steps)}</span> {_symbols(texts['title'])}</h2>",
                _formula(texts["formula"]),
                f"<p>{_symbols(texts['text'])}</p>",
                *inside,
                "</section>\n",
            ]
        )

    # The steps

    def embedding(self) -> Iterator[str]:
        embedded = self.path.embedded
        lines, vectors = [], []
        scale = _largest(embedded.rows)
        for symbol, (name, shape, row), vector in zip(
            ("E_w", "E_s", "E_p"), embedded.tables, embedded.rows, strict=True
        ):
            of = self.say("rows_of", row=row)
            lines.append(f"{_symbols(symbol)} {of} {_parameter(name)} {_bracketed(*shape)}")
            vectors.append(self.vector(f"{symbol}[{row}]", vector, scale))
        yield _list(lines)
        yield from vectors
        yield self.vector("Σ", embedded.norm.given)
        yield from self.norm(embedded.norm, "Σ", "x")

    def projections(self) -> Iterator[str]:
        head = self.path.heads[self.path.head]
        lines = []
        for symbol, linear in (("W_Q", head.query), ("W_K", head.key), ("W_V", head.value)):
            lines.append(self.matrix(symbol, linear))
        yield _list(lines)

    def matrix(self, symbol: str, linear: Linear) -> str:
        weight = f"{_parameter(linear.name + '.weight')} {_bracketed(*linear.shape)}"
        return f"{_symbols(symbol)} {weight}, {_parameter('.bias')} {_bracketed(linear.shape[0])}"

    def product(
        self, linear: Linear, symbol: str, given_name: str, given: Vector, result: str
    ) -> Iterator[str]:
        """Return a matrix product: its matrix, its first number as an example, its result."""
        yield _list([self.matrix(symbol, linear)])
        terms = _dot(linear.row, given, linear.bias)
        first = _number(linear.result[0])
        left = f"{result}[0] = {symbol}[0]·{given_name} + b[0]"
        yield self.example(f"{left} = {terms} = {first}")
        yield self.vector(result, linear.result)

    def residual(self, norm: Norm, result: str, made: str, before: str) -> Iterator[str]:
        """Return the sum of what a block made and what entered it; a norm takes it."""
        if made == "o":
            left, right = self.path.output.result, self.path.entered
        else:
            left, right = self.path.down.result, self.path.attended.result
        scale = _largest((left, right, norm.given))
        written = f"{_number(left[0])} + {_signed(_number(right[0]))} = {_number(norm.given[0])}"
        yield self.example(f"{result}[0] = {made}[0] + {before}[0] = {written}")
        yield self.vector(made, left, scale)
        yield self.vector(f"+ {before}", right, scale)
        yield self.vector(f"= {result}", norm.given, scale)

    def norm(self, norm: Norm, given: str, result: str) -> Iterator[str]:
        mean, deviation = _number(norm.mean), _number(norm.deviation)
        weight, bias = _bracketed(len(norm.weight)), _bracketed(len(norm.bias))
        yield _list([f"{_parameter(norm.name)} γ {weight}, β {bias}"])
        yield f"<p>{self.say('norm', mean=mean, deviation=deviation)}</p>"
        numbers = [norm.given[0], norm.mean, norm.weight[0], norm.bias[0], norm.result[0]]
        first, middle, scale, shift, normed = map(_number, numbers)
        normal = f"({first} − {_signed(middle)}) / {deviation}"
        written = f"{normal} · {_signed(scale)} + {_signed(shift)}"
        left = f"{result}[0] = ({given}[0] − μ) / σ · γ[0] + β[0]"
        yield self.example(f"{left} = {written} = {normed}")
        yield self.vector(result, norm.result)

    def activation(self) -> str:
        given, made = _number(self.path.up.result[0]), _number(self.path.activated[0])
        return f"a[0] = {self.path.activation}({given}) = {made}"

    # One head

    def heads(self) -> Iterator[str]:
        """Return a radio button and a panel for each head."""
        count = len(self.path.heads)
        yield f'<div class="heads" role="group" aria-label="{self.say("choose")}">'
        for number in range(count):
            checked = ' checked=""' if number == self.path.head else ""
            name = self.say("head", head=number)
            yield f'<input type="radio" name="head" id="h{number}"{checked}>'
            yield f'<label for="h{number}">{name}</label>'
        for at, head in enumerate(self.path.heads):
            yield f'<div class="panel" id="p{at}">'
            yield from self.part("query", self.own(at, head), first=at * self.size)
            yield from self.part("scores", self.scores(head))
            yield from self.part("mixed", self.mixed(at, head))
            yield "</div>"
        yield "</div>"

    def part(self, name: str, inside: Iterable[str], first: int = 0) -> Iterator[str]:
        """Return a part of a head's panel, with its title, formula and text."""
        of_all = len(self.path.entered)
        shape = f"[{of_all}, {of_all}]"
        figures = {**self.figures, "first": first, "last": first + self.size - 1, "shape": shape}
        texts = {key: text.format(**figures) for key, text in self.words["step"][name].items()}
        yield f"<h3>{_symbols(texts['title'])}</h3>{_formula(texts['formula'])}"
        yield f"<p>{_symbols(texts['text'])}</p>"
        yield from inside

    def own(self, at: int, head: HeadPath) -> Iterator[str]:
        """Return the head's slices of the three matrices, and the token's vectors from them."""
        first = at * self.size
        terms = _dot(head.query.row, self.path.entered, head.query.bias)
        left = f"q[0] = W_Q[{first}]·x + b_Q[{first}]"
        yield self.example(f"{left} = {terms} = {_number(head.query.result[0])}")
        scale = _largest((head.query.result, head.key.result, head.value.result))
        for symbol, linear in (("q", head.query), ("k", head.key), ("v", head.value)):
            yield self.vector(symbol, linear.result, scale)

    def scores(self, head: HeadPath) -> Iterator[str]:
        """Return a row for each token: its key, q·k, the score, and the attention."""
        scale = _largest((head.query.result, *head.keys))
        rows = []
        for place in self.shown:
            cells = [
                self.small(f"k {self.labels[place]}", head.keys[place], scale),
                _two_decimals(head.products[place]),
                _two_decimals(head.scores[place]),
                self.share(head.probabilities[place]),
            ]
            if head.scores[place] == -math.inf:
                cells[2] = self.say("masked")
            rows.append((place, cells))
        yield self.small_named("q", head.query.result, scale)
        header = ("k", "q·k", f"÷ √{self.size}", "softmax")
        yield self.table(header, rows, self.rest(head, 3))
        yield self.example(self.softmax(head))
        yield self.lists("k", head.keys)

    def softmax(self, head: HeadPath) -> str:
        """Return the attention to the token that gets most of it, written out."""
        seen = [place for place in self.shown if head.scores[place] != -math.inf]
        ranked = sorted(seen, key=head.probabilities.__getitem__, reverse=True)
        best = ranked[0]
        product, score = _number(head.products[best]), _number(head.scores[best])
        terms = [f"e^{_number(head.scores[place])}" for place in ranked[:_TERMS]]
        if len(ranked) > _TERMS:
            terms.append("…")
        return (
            f"q·k({self.labels[best]}) = {_dot(head.query.result, head.keys[best])} = {product}; "
            f"{product} / √{self.size} = {score}; e^{score} / ({' + '.join(terms)}) = "
            f"{units.percent(head.probabilities[best])}"
        )

    def mixed(self, at: int, head: HeadPath) -> Iterator[str]:
        """Return a row for each token: its attention, its value, and the product of both."""
        weighted = [
            tuple(share * number for number in value)
            for share, value in zip(head.probabilities, head.values, strict=True)
        ]
        of_values, scale = _largest(head.values), _largest((*weighted, head.mixed))
        rows = []
        for place in self.shown:
            label = self.labels[place]
            cells = [
                self.share(head.probabilities[place]),
                self.small(f"v {label}", head.values[place], of_values),
                self.small(f"p·v {label}", weighted[place], scale),
            ]
            rows.append((place, cells))
        yield self.table(("p", "v", "p·v"), rows, self.rest(head, 0, 3))
        strongest = sorted(self.shown, key=head.probabilities.__getitem__, reverse=True)[:_TERMS]
        terms = [
            f"{_number(head.probabilities[place])}·{_signed(_number(head.values[place][0]))}"
            for place in strongest
        ]
        if len(head.values) > len(strongest):
            terms.append("…")
        yield self.example(f"z[0] = {' + '.join(terms)} = {_number(head.mixed[0])}")
        yield self.vector(f"z_{at} = Σ p·v", head.mixed, scale)
        yield self.lists("v", head.values)

    def rest(self, head: HeadPath, column: int, columns: int = 4) -> str:
        """Return the last row of a long table: the attention of the tokens that have no row."""
        hidden = set(range(len(self.labels))) - set(self.shown)
        if not hidden:
            return ""
        cells = [""] * columns
        cells[column] = self.share(sum(head.probabilities[place] for place in hidden))
        name = self.say("others", count=len(hidden))
        return f'<tr><th scope="row">{name}</th>{_cells(cells)}</tr>'

    def table(
        self, header: Sequence[str], rows: Iterable[tuple[int, list[str]]], last: str = ""
    ) -> str:
        heads = "".join(
            f'<th scope="col">{_symbols(name)}</th>'
            for name in (self.words["token_header"], *header)
        )
        body = "".join(
            f'<tr{self.current(place)}><th scope="row">{escape(self.labels[place])}'
            f" <small>{place}</small></th>"
            f"{_cells(cells)}</tr>"
            for place, cells in rows
        )
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}{last}</tbody></table>"

    # Vectors

    def vector(self, name: str, values: Vector, scale: float = 0) -> str:
        """Return a vector: its name and shape, its strip, and all its numbers, which open."""
        few = ", ".join(map(_number, values[:_FEW]))
        summary = f"{few}, … · {self.say('numbers', count=units.count(len(values)))}"
        return (
            f'<div class="vector"><p><b>{_symbols(name)}</b> {_bracketed(len(values))}</p>'
            f"{self.small(name, values, scale)}"
            f"<details><summary>{summary}</summary>{_all(values)}</details></div>"
        )

    def small_named(self, name: str, values: Vector, scale: float) -> str:
        return f'<div class="vector"><p><b>{name}</b></p>{self.small(name, values, scale)}</div>'

    def small(self, name: str, values: Vector, scale: float = 0) -> str:
        """Return a strip of a vector, with a text for readers who do not see it."""
        low, high = _number(min(values)), _number(max(values))
        text = self.say("alt", count=len(values), minimum=low, maximum=high)
        return strip(values, scale or _largest((values,)), f"{escape(name)}: {text}")

    def lists(self, name: str, vectors: Sequence[Vector]) -> str:
        """Return all numbers of several tokens' vectors, which open."""
        inside = "".join(
            f"<p><b>{escape(self.labels[place])}</b></p>{_all(vectors[place])}"
            for place in self.shown
        )
        title = f"{name}: {self.say('all')}"
        return f"<details><summary>{title}</summary>{inside}</details>"

    def share(self, part: float) -> str:
        """Return an attention as a percentage with a bar."""
        bar = f'<i style="width:{100 * part:.1f}%"></i>' if math.isfinite(part) else ""
        return f'<span class="share"><b class="bar">{bar}</b>{units.percent(part)}</span>'

    def example(self, text: str) -> str:
        return f'<p class="example"><span>{self.say("example")}</span> {_symbols(text)}</p>'


_FEW = 4  # numbers that are visible before a vector is opened
_MOST_ROWS = 24  # tokens in a table


def _strongest(path: TokenPath) -> list[int]:
    """Return the positions with a row in the tables, in text order.

    Of a long text, these are the tokens that get the most attention in any head, and the token
    itself.
    """
    count = len(path.tokens)
    if count <= _MOST_ROWS:
        return list(range(count))
    most = [max(head.probabilities[place] for head in path.heads) for place in range(count)]
    most[path.place] = math.inf
    ranked = sorted(range(count), key=most.__getitem__, reverse=True)
    return sorted(ranked[:_MOST_ROWS])


def _largest(vectors: Iterable[Vector]) -> float:
    return max(max(map(abs, vector)) for vector in vectors) or 1.0


_TERMS = 3  # of a sum that is written out


def _dot(left: Vector, right: Vector, bias: float | None = None) -> str:
    """Write the first terms of a product of two vectors, and the bias that is added."""
    terms = [
        f"{_signed(_number(one))}·{_signed(_number(other))}"
        for one, other in zip(left[:_TERMS], right[:_TERMS], strict=True)
    ]
    if len(left) > _TERMS:
        terms.append("…")
    if bias is not None:
        terms.append(_signed(_number(bias)))
    return " + ".join(terms)


def _number(value: float) -> str:
    return units.measured(value).replace("-", "−")


def _two_decimals(value: float) -> str:
    return units.fixed(value, 2).replace("-", "−")


def _signed(number: str) -> str:
    """Put a negative number in parentheses."""
    return f"({number})" if number.startswith("−") else number


def _symbols(text: str) -> str:
    """Escape a text in which W_Q means W with the index Q, and e^2.1 a power of e."""
    indexed = re.sub(r"\b([A-Za-z])_(\w+)", r"\1<sub>\2</sub>", escape(text))
    return re.sub(r"\be\^([−\d.e+]+)", r"e<sup>\1</sup>", indexed)


def _formula(text: str) -> str:
    lines = "<br>".join(map(_symbols, text.split("   ")))
    return f'<p class="formula">{lines}</p>' if text else ""


def _code(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def _parameter(name: str) -> str:
    broken = "<wbr>.".join(map(escape, name.split(".")))
    return f"<code>{broken}</code>"


def _bracketed(*sizes: int) -> str:
    return f'<span class="shape">[{", ".join(map(str, sizes))}]</span>'


def _list(lines: Iterable[str]) -> str:
    return f'<ul class="weights">{"".join(f"<li>{line}</li>" for line in lines)}</ul>'


def _cells(cells: Iterable[str]) -> str:
    return "".join(f"<td>{cell}</td>" for cell in cells)


def _all(values: Vector) -> str:
    return f'<p class="numbers">{" ".join(map(_number, values))}</p>'
