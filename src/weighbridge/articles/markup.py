"""HTML, Markdown and LaTeX as plain lines: the words and signs that a reader sees, each on the line where it stands.

LaTeX is taken apart by pylatexenc, HTML by the parser of Python's own library. What has no plain
sign is named by its command, so that it is told as a sign that is not read.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from weighbridge.articles import terms
from weighbridge.articles.tokens import UNKNOWN
from weighbridge.errors import ArticleError

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_FORMULA = 20_000  # characters of one piece of LaTeX
MOST_FORMULAS = 10_000
SOFT = "\v"
"""The end of a line inside of a formula: it separates nothing."""
ROW = "\f"
"""The end of a row of a formula: it separates, unless the next one goes on."""

# HTML


def lines_of_html(text: str) -> list[tuple[int, str]]:
    r"""Return the lines that a reader of a page sees, each with the line of the source that it begins on.

    Example:
        >>> lines_of_html("<p>4H<sup>2</sup> = 2,359,296</p>\n<p>that &times; 12<br>and so</p>")
        [(1, '4H^(2) = 2,359,296'), (2, 'that × 12'), (2, 'and so')]
    """
    page = _Page()
    page.feed(text)
    page.close()
    page.end_line()
    return page.lines


_HIDDEN = ("script", "style", "template", "noscript", "svg", "head")
_BLOCKS = (
    *(
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "br",
        "caption",
        "center",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
    ),
    *(
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "html",
    ),
    *(
        "li",
        "main",
        "nav",
        "ol",
        "option",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "title",
    ),
    *("tr", "ul"),
)
_CELLS = ("td", "th")
_RAISED = {"sup": "^(", "sub": "_"}


class _Page(HTMLParser):
    """Gathers lines; of a formula that is there several times, in MathML and as TeX, the TeX."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[tuple[int, str]] = []
        self._line = ""
        self._at = 1
        self._hidden: list[str] = []
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "annotation" and "tex" in (given.get("encoding") or ""):
            self._hidden.append(tag)
        elif (
            tag == "script" and "math/tex" in (given.get("type") or "")
        ) or tag == "annotation-tex":
            self._hidden.append("annotation")
        elif tag in _HIDDEN or tag == "math" or "katex-html" in (given.get("class") or ""):
            self._hidden.append(tag)
        elif self._hidden:
            if tag == self._hidden[-1]:
                self._hidden.append(tag)
        elif tag in _BLOCKS:
            self.end_line()
            self._pre += tag == "pre"
            self._line += "|" if tag == "tr" else ""
        elif tag == "img" and given.get("eeimg"):
            self._add(f"${given.get('alt') or ''}$")
        else:
            self._add(_RAISED.get(tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            if tag == self._hidden[-1] or (tag == "script" and self._hidden[-1] == "annotation"):
                self._hidden.pop()
        elif tag in _BLOCKS:
            self.end_line()
            self._pre = max(0, self._pre - (tag == "pre"))
        elif tag in _CELLS:
            self._add(" |")
        elif tag == "sup":
            self._add(")")

    def handle_data(self, data: str) -> None:
        if self._hidden:
            if self._hidden[-1] == "annotation" and data.strip():
                self._add(f"${data.strip()}$")
            return
        if not self._pre:
            self._add(re.sub(r"\s+", " ", data), skipped=data)
            return
        for position, line in enumerate(data.split("\n")):
            if position:
                self.end_line()
            self._add(line, lines=position)

    def _add(self, text: str, skipped: str = "", lines: int = 0) -> None:
        if not self._line.strip() and text.strip():
            before = skipped[: len(skipped) - len(skipped.lstrip())]
            self._at = self.getpos()[0] + lines + before.count("\n")
        self._line += text

    def end_line(self) -> None:
        """Begin a new line; one without words was none."""
        if self._line.strip(" |"):
            self.lines.append((self._at, self._line.strip()))
        self._line, self._at = "", self.getpos()[0]


# Markdown

_ENVIRONMENT = r"(?:align|equation|gather|multline|eqnarray)\*?"
_FORMULA = re.compile(
    r"\$\$(?P<a>[^$]+)\$\$|\\\[(?P<b>(?:(?!\\\[).)+?)\\\]|\\\((?P<c>[^\n]{1,2000}?)\\\)"
    rf"|\\begin\{{(?P<env>{_ENVIRONMENT})\}}(?P<d>(?:(?!\\begin\{{{_ENVIRONMENT}).)+?)\\end\{{(?P=env)\}}"
    r"|(?<![\\$])\$(?P<e>[^$\n]+)\$(?!\d)",
    re.DOTALL,
)
_CODE = re.compile(r"`{1,3}([^`\n]{1,1000})`{1,3}")
_BULLET = re.compile(
    r"^([ >]*)(?:[-*•]|\d{1,3}[.)、）]|#{1,6}(?:\s+\d+(?:\.\d+)*\.?(?=\s))?)\s+", re.MULTILINE
)
_STRONG = re.compile(r"(?<![\w)\]*])\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*(?![\w(*])")
_EMPHASIS = re.compile(r"(?<![\w)\]*])\*(?=[^\s*])([^*\n]+?)(?<=[^\s*])\*(?![\w(*])")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^()\n]{0,1000}\)|<?https?://[^\s>)]+>?")
_RULE = re.compile(r"^(?:[ |:+*_-]|={3,}){3,}$|^={3,}$", re.MULTILINE)
_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?-->", re.DOTALL)
_TAG_UP = re.compile(r"<sup>([^<\n]*)</sup>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]*>")


def plain(text: str, where: str = "") -> str:
    r"""Return Markdown without its marks and with LaTeX as plain signs, on as many lines.

    Example:
        >>> plain(r"- **Layer**: $4H^2 \times 12$")
        'Layer:  4H^2 *12 '
    """
    text = _RULE.sub("", text)
    pieces, at = [], 0
    for count, found in enumerate(_FORMULA.finditer(text)):
        if count == MOST_FORMULAS:
            raise ArticleError(
                f"an article may have at most {MOST_FORMULAS:,} formulas of LaTeX",
                where=where,
                hint="cut out a part",
            )
        inside = next(
            piece
            for name, piece in found.groupdict().items()
            if name != "env" and piece is not None
        )
        pieces += [
            _unmarked(text[at : found.start()], first=at == 0),
            f" {formula(inside, where)} ",
        ]
        missing = found[0].count("\n") - pieces[-1].count(SOFT)
        pieces[-1] += SOFT * missing
        at = found.end()
    return "".join([*pieces, _unmarked(text[at:], first=at == 0)])


def _unmarked(text: str, *, first: bool) -> str:
    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    text = _COMMENT.sub(blank, text)
    text = _LINK.sub(lambda found: found[1] or "", text)
    begins = (
        "" if first or text.startswith("\n") else "\0"
    )  # what follows on a formula begins no line
    text = _BULLET.sub(r"\1", begins + text).removeprefix("\0")
    text = _TAG.sub("", _TAG_UP.sub(r"^(\1)", text))
    return "".join(
        piece if position % 2 else _EMPHASIS.sub(r"\1", _STRONG.sub(r"\1", piece))
        for position, piece in enumerate(_CODE.split(text))
    )


# LaTeX


def formula(latex: str, where: str = "") -> str:
    r"""Return a formula of LaTeX in plain signs.

    Example:
        >>> formula(r"A \times 3 \times \frac{H}{A} \cdot H = 3H^{2} \approx 30{,}522")
        'A *3 *((H)/(A)) *H = 3H^(2) ≈30,522'
    """
    if len(latex) > LONGEST_FORMULA:
        return f" {UNKNOWN} "
    try:
        from pylatexenc.latexwalker import LatexWalker, LatexWalkerParseError  # noqa: PLC0415
    except ImportError:
        raise ArticleError(
            "the article has LaTeX, and a package is missing that reads it",
            where=where,
            values={"package": "pylatexenc"},
            hint="pip install 'weighbridge[audit]'",
        ) from None
    try:
        nodes, _, _ = LatexWalker(latex, tolerant_parsing=False).get_latex_nodes()
        return _TeX().written(nodes)
    except (LatexWalkerParseError, RecursionError):
        return f" {UNKNOWN} " + SOFT * latex.count("\n")


class _TeX:
    """Writes the nodes of a formula in plain signs."""

    def written(self, nodes: Iterable[Any]) -> str:
        """Write nodes one after the other; what stands behind ^ is bracketed, and what stands behind _ joins a name."""
        text = ""
        for node in nodes:
            found = str(getattr(self, f"_{type(node).__name__}", self._unknown)(node))
            if text.endswith("^"):
                found = found if type(node).__name__ == "LatexCharsNode" else f"({found.strip()})"
            elif text.endswith("_") and type(node).__name__ != "LatexCharsNode":
                found = re.sub(r"[^A-Za-z0-9]", "", found)
            text += found
        return text

    def _LatexCharsNode(self, node: Any) -> str:  # noqa: N802
        return str(node.chars).replace("\n", SOFT).replace("~", " ")

    def _LatexCommentNode(self, node: Any) -> str:  # noqa: N802
        return SOFT * str(node.latex_verbatim()).count("\n")

    def _LatexGroupNode(self, node: Any) -> str:  # noqa: N802
        return self.written(node.nodelist)

    def _LatexSpecialsNode(self, node: Any) -> str:  # noqa: N802
        return " " if node.specials_chars in ("&", "~") else str(node.specials_chars)

    def _LatexEnvironmentNode(self, node: Any) -> str:  # noqa: N802
        return f"{ROW}{self.written(node.nodelist)}{ROW}"

    def _LatexMathNode(self, node: Any) -> str:  # noqa: N802
        return self.written(node.nodelist)

    def _LatexMacroNode(self, node: Any) -> str:  # noqa: N802
        name = node.macroname
        after = SOFT * str(node.macro_post_space).count("\n")
        given = node.nodeargd.argnlist if node.nodeargd and node.nodeargd.argnlist else []
        arguments = [self.written([argument]) for argument in given if argument is not None]
        return self._macro(name, arguments) + after

    def _macro(self, name: str, arguments: list[str]) -> str:
        known = terms.facts()["latex"]
        if name in known["signs"]:
            return str(known["signs"][name])
        form = next((form for form, names in known["forms"].items() if name in names), "")
        if not form and name not in known["forms"][""]:
            return (
                f" {UNKNOWN} {' '.join(arguments)} "
                if arguments or not name.isalpha()
                else f" {name} "
            )
        return str(form).format(*arguments, *[f" {UNKNOWN} "] * 2)

    def _unknown(self, node: Any) -> str:  # noqa: ARG002
        return f" {UNKNOWN} "
