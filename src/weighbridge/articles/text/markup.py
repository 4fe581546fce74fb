"""Turns HTML, Markdown and LaTeX into plain lines: the words and signs that a reader sees.

They stay on the lines that they have in the source. pylatexenc parses LaTeX, and Python's own
library parses HTML. A command without a plain sign is written by its name, and is then reported as
an unknown sign.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from weighbridge.articles.text import terms
from weighbridge.articles.text.mathml import MathML
from weighbridge.articles.text.tokens import UNKNOWN
from weighbridge.errors import ArticleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LONGEST_FORMULA = 20_000  # characters of a piece of LaTeX; the limit of a line
MOST_FORMULAS = 10_000  # the limit of statements
SOFT = "\v"
"""The end of a line inside a formula, which does not separate statements."""
ROW = "\f"
"""The end of a row in a formula, which separates statements unless the next row continues one."""

# HTML


def lines_of_html(text: str) -> list[tuple[int, str]]:
    r"""Return the lines that a reader of a page sees, each with its line in the source.

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
_BLOCKS = frozenset(
    """
    address article aside blockquote body br caption center dd details div dl dt fieldset
    figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr html li main nav ol option p pre
    section summary table tbody tfoot thead title tr ul
    """.split()  # noqa: SIM905  # a name on each line hides the code
)
_CELLS = ("td", "th")
_RAISED = {"sup": "^(", "sub": "_"}


_DRAWN = ("katex-html", "MJX_Assistive_MathML")
"""The classes of what shows a formula again that is also there as TeX."""
_TEX = "annotation"
"""The element for a formula in TeX."""


def _hidden_until(tag: str, attributes: Mapping[str, str]) -> str:
    """Return the tag that ends an element with hidden text; "" if its text is visible.

    TeX also counts as hidden, under the tag `_TEX`, and is read as a formula.
    """
    is_script_of_tex = tag == "script" and "math/tex" in attributes.get("type", "")
    if tag == "annotation-tex" or is_script_of_tex:
        return _TEX
    is_annotation_of_tex = tag == _TEX and "tex" in attributes.get("encoding", "")
    css_class = attributes.get("class", "")
    is_drawn_formula = tag == "math" or any(drawn in css_class for drawn in _DRAWN)
    if is_annotation_of_tex or is_drawn_formula or tag in _HIDDEN:
        return tag
    return ""


class _Page(HTMLParser):
    """Collects the lines of a page; MathML is read where it holds no TeX, as browsers copy it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[tuple[int, str]] = []
        self._line = ""
        self._at = 1
        self._hidden: list[str] = []
        self._pre = 0
        self._formula: MathML | None = None  # the one that is open, while it holds no TeX

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        hidden_until = _hidden_until(tag, attributes)
        if hidden_until or self._hidden:
            self._start_hidden(tag, hidden_until)
        elif tag in _BLOCKS:
            self.end_line()
            if tag == "pre":
                self._pre += 1
            if tag == "tr":
                self._line += "|"
        elif tag == "img" and attributes.get("eeimg"):  # a formula as a picture
            self._add(f"${attributes.get('alt', '')}$")
        else:
            self._add(_RAISED.get(tag, ""))

    def _start_hidden(self, tag: str, hidden_until: str) -> None:
        if hidden_until:
            if tag == "math" and not self._hidden:
                self._formula = MathML()
            self._hidden.append(hidden_until)
        elif tag == self._hidden[-1]:
            self._hidden.append(tag)
        elif self._formula:
            self._formula.start(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            if tag == self._hidden[-1] or (tag == "script" and self._hidden[-1] == _TEX):
                self._hidden.pop()
                if not self._hidden:
                    self._end_formula()
            elif self._formula:
                self._formula.end(tag)
        elif tag in _BLOCKS:
            self.end_line()
            self._pre = max(0, self._pre - (tag == "pre"))
        elif tag in _CELLS:
            self._add(" |")
        elif tag == "sup":
            self._add(")")

    def handle_data(self, data: str) -> None:
        if self._hidden:
            if self._hidden[-1] == _TEX and data.strip():
                self._add(f"${data.strip()}$")
                self._formula = None
            elif self._formula:
                self._formula.text(data)
            return
        if not self._pre:
            self._add(re.sub(r"\s+", " ", data), skipped=data)
            return
        for position, line in enumerate(data.split("\n")):
            if position:
                self.end_line()
            self._add(line, lines=position)

    def _end_formula(self) -> None:
        latex = self._formula.latex().strip() if self._formula else ""
        if latex:
            self._add(f"${latex}$")
        self._formula = None

    def _add(self, text: str, skipped: str = "", lines: int = 0) -> None:
        if not self._line.strip() and text.strip():
            before = skipped[: len(skipped) - len(skipped.lstrip())]
            self._at = self.getpos()[0] + lines + before.count("\n")
        self._line += text

    def end_line(self) -> None:
        """Begin a new line, and drop the last one if it is empty."""
        if self._line.strip(" |"):
            self.lines.append((self._at, self._line.strip()))
        self._line, self._at = "", self.getpos()[0]


# Markdown

_ENVIRONMENT = r"(?:align|equation|gather|multline|eqnarray)\*?"
_FORMULA = re.compile(
    r"```math\n(?P<f>(?:(?!```).)+?)```|\$`(?P<g>[^`\n]+)`\$|\$\$(?P<a>[^$]+)\$\$"
    r"|\\\[(?P<b>(?:(?!\\\[).)+?)\\\]|\\\((?P<c>[^\n]{1,2000}?)\\\)"
    rf"|\\begin\{{(?P<env>{_ENVIRONMENT})\}}"
    rf"(?P<d>(?:(?!\\begin\{{{_ENVIRONMENT}).)+?)\\end\{{(?P=env)\}}"
    r"|(?<![\\$])\$(?P<e>[^$\n]+)\$(?!\d)",
    re.DOTALL,
)
_DRAWING = re.compile(  # its coordinates are no numbers of the article
    r"\\begin\{tikzpicture\}(?:(?!\\begin\{tikzpicture).)*?\\end\{tikzpicture\}", re.DOTALL
)
_CODE = re.compile(r"`{1,3}([^`\n]{1,1000})`{1,3}")
_BULLET = re.compile(
    r"^([ >]*)(?:[-*•]|\d{1,3}[.)、）]|#{1,6}(?:\s+\d+(?:\.\d+)*\.?(?=\s))?)\s+", re.MULTILINE
)
_STRONG = re.compile(r"(?<![\w)\]*])\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*(?![\w(*])")
_EMPHASIS = re.compile(r"(?<![\w)\]*])\*(?=[^\s*])([^*\n]+?)(?<=[^\s*])\*(?![\w(*])")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^()\n]{0,1000}\)|<?https?://[^\s>)]+>?")
_RULE = re.compile(r"^(?=.{3})(?:[ |:+*_-]|={3,}+)++$", re.MULTILINE)
_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?-->", re.DOTALL)
_TAG_UP = re.compile(r"<sup>([^<\n]*)</sup>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]*>")


def plain_text(text: str, where: str = "") -> str:
    r"""Return Markdown without its marks and with LaTeX as plain signs, on the same lines.

    Example:
        >>> plain_text(r"- **Layer**: $4H^2 \times 12$")
        'Layer: 4H^2 *12'
    """
    text = _DRAWING.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = _RULE.sub("", text)
    is_latex = bool(_DOCUMENT.search(text))
    pieces, position = [], 0
    for count, match in enumerate(_FORMULA.finditer(text)):
        if count == MOST_FORMULAS:
            raise ArticleError(
                f"an article may have at most {MOST_FORMULAS:,} formulas in LaTeX",
                where=where,
                hint="give a part of the article",
            )
        between = text[position : match.start()]
        pieces.append(_unmarked(between, first=position == 0, is_latex=is_latex))
        formula = _set_apart(plain_formula(_latex_in(match)), text, match)
        missing_lines = match[0].count("\n") - formula.count(SOFT)
        pieces.append(formula + SOFT * missing_lines)
        position = match.end()
    pieces.append(_unmarked(text[position:], first=position == 0, is_latex=is_latex))
    return "".join(pieces)


def _set_apart(formula: str, text: str, match: re.Match[str]) -> str:
    """Return a formula with one blank on each side: two blanks would separate cells of a table."""
    formula = formula.strip(" ")
    if match.start() and not text[match.start() - 1].isspace():
        formula = f" {formula}"
    if match.end() < len(text) and not text[match.end()].isspace():
        formula += " "
    return formula


def _latex_in(match: re.Match[str]) -> str:
    """Return the LaTeX between the marks of a formula."""
    latex = [match[group] for group in "abcdefg" if match[group] is not None]
    return latex[0]


_BROKEN_FORMULA = re.compile(r"[·*×+=/^].*[A-Za-z0-9_)]$")


def _without_bullet(match: re.Match[str]) -> str:
    """Return the indent of a bullet, or the bullet itself where it is the sign of a formula.

    A minus after a line that ends in a formula goes on with it.
    """
    before = match.string[: match.start()].removesuffix("\n").rpartition("\n")[2]
    is_sign = match[0].strip(" >") in ("-", "+", "*") and _BROKEN_FORMULA.search(before.rstrip())
    if is_sign and not _BULLET.match(before):
        return match[0]
    return match[1]


# Documents in LaTeX

_DOCUMENT = re.compile(r"\\begin\{document\}|\\(?:sub)*section\*?\{")
_PREAMBLE = re.compile(r"\A(?:(?!\\begin\{document\}).)*\\begin\{document\}", re.DOTALL)
_LATEX_COMMENT = re.compile(r"(?<!\\)%.*")
_LATEX_ROW = re.compile(r"^(?=.*(?<!\\)&)(.*?)(?:\\\\)?[ ]*$", re.MULTILINE)
_LATEX_BLOCK = re.compile(r"\\(?:begin|end)\{[^}\n]*\}(?:\{[^\n]*\}|\[[^\]\n]*\])?")
_ALLOW_BREAK = re.compile(r"\\allowbreak(?:\{\})?")
_ESCAPED = re.compile(r"\\([%_&#{}$])")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?|(?<!\\)[{}]|\\\\")


def _without_commands(text: str) -> str:
    """Return the text of a document in LaTeX, outside formulas, on the same lines.

    The cells of a row of a table are separated as in Markdown.
    """
    text = _PREAMBLE.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = _LATEX_COMMENT.sub("", text)
    text = _ALLOW_BREAK.sub("", _LATEX_BLOCK.sub("", text))
    text = _LATEX_ROW.sub(lambda match: f"| {match[1]} |", text)
    text = re.sub(r"(?<!\\)&", "|", text)
    return _ESCAPED.sub(r"\1", _COMMAND.sub(" ", text))


def _unmarked(text: str, *, first: bool, is_latex: bool) -> str:
    if is_latex:
        return _without_commands(text)
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = _LINK.sub(lambda match: match[1] or "", text)
    begins_line = first or text.startswith("\n")
    if not begins_line:  # there is no bullet after a formula
        text = "\0" + text
    text = _BULLET.sub(_without_bullet, text).removeprefix("\0")
    text = _TAG.sub("", _TAG_UP.sub(r"^(\1)", text))
    pieces = _CODE.split(text)  # every second piece is code
    pieces[::2] = [_EMPHASIS.sub(r"\1", _STRONG.sub(r"\1", piece)) for piece in pieces[::2]]
    return "".join(pieces)


# LaTeX


def plain_formula(latex: str) -> str:
    r"""Return a formula of LaTeX in plain signs.

    Example:
        >>> plain_formula(r"A \times 3 \times \frac{H}{A} \cdot H = 3H^{2} \approx 30{,}522")
        'A *3 *((H)/(A)) *H = 3H^(2) ≈30,522'
    """
    if len(latex) > LONGEST_FORMULA:
        return f" {UNKNOWN} "
    from pylatexenc.latexwalker import LatexWalker, LatexWalkerParseError  # noqa: PLC0415

    try:
        nodes, _, _ = LatexWalker(latex, tolerant_parsing=False).get_latex_nodes()
        return _BETWEEN_FACTORS.sub(r"\1*", _TeX().written(nodes))
    except (LatexWalkerParseError, RecursionError):
        return f" {UNKNOWN} " + SOFT * latex.count("\n")


_FACTOR = r"(?:(?<![A-Za-z_])[A-Za-z](?:_[A-Za-z0-9]+)?|\d|\))"
_UNIT_AT_END = r"(?<=[\d.]\d)[ \u2009][MB][ .,;)]*$"  # 110 M
_BETWEEN_FACTORS = re.compile(
    rf"(?!.{_UNIT_AT_END})({_FACTOR})[ \u2009]+(?=[A-Za-z](?![A-Za-z])|[A-Za-z]+_|\()"
)
"""Blanks between a factor and a letter or a bracket, which mean a product in a formula."""


class _TeX:
    """Writes the nodes of a formula in plain signs."""

    def written(self, nodes: Iterable[Any]) -> str:
        """Write nodes one after the other.

        An exponent of several characters gets brackets, and an index becomes part of the name.
        """
        text = ""
        for node in nodes:
            node_class = type(node).__name__
            written = str(getattr(self, f"_{node_class}", self._unknown)(node))
            is_single = node_class == "LatexCharsNode"
            if text.endswith("^") and not is_single:
                written = f"({written.strip()})"
            elif text.endswith("_") and not is_single:
                written = re.sub(r"[^A-Za-z0-9]", "", written)
            text += written
        return text

    def _LatexCharsNode(self, node: Any) -> str:  # noqa: N802
        return str(node.chars).replace("\n", SOFT).replace("~", " ")

    def _LatexCommentNode(self, node: Any) -> str:  # noqa: N802
        return SOFT * str(node.latex_verbatim()).count("\n")

    def _LatexGroupNode(self, node: Any) -> str:  # noqa: N802
        return self.written(node.nodelist)

    def _LatexSpecialsNode(self, node: Any) -> str:  # noqa: N802
        specials = str(node.specials_chars)
        return " " if specials in ("&", "~") else specials

    def _LatexEnvironmentNode(self, node: Any) -> str:  # noqa: N802
        return f"{ROW}{self.written(node.nodelist)}{ROW}"

    def _LatexMathNode(self, node: Any) -> str:  # noqa: N802
        return self.written(node.nodelist)

    def _LatexMacroNode(self, node: Any) -> str:  # noqa: N802
        name = node.macroname
        after = SOFT * str(node.macro_post_space).count("\n")
        given = (node.nodeargd and node.nodeargd.argnlist) or []
        arguments = [self.written([argument]) for argument in given if argument is not None]
        return self._macro(name, arguments) + after

    def _macro(self, name: str, arguments: list[str]) -> str:
        commands = terms.facts()["latex"]
        if name in commands["signs"]:
            return str(commands["signs"][name])
        for form, names in commands["forms"].items():
            if name in names:
                return str(form).format(*arguments, *[f" {UNKNOWN} "] * 2)
        if arguments or not name.isalpha():
            return f" {UNKNOWN} {' '.join(arguments)} "
        return f" {name} "

    def _unknown(self, node: Any) -> str:  # noqa: ARG002
        return f" {UNKNOWN} "
