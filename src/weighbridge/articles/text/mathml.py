r"""Reads a formula in MathML as LaTeX, for pages without its source.

A browser copies the MathML of a formula that KaTeX, MathJax or Wikipedia made, and leaves the
source out, since that is hidden. The elements are those of MathML Core; what another element holds
is reported as an unknown sign.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from weighbridge.articles.text.tokens import UNKNOWN

_MOST_LEVELS = 100
_MOST_CHARACTERS = 20_000  # of a formula, which is the limit of a line
_FORMS = {
    "msup": ("{{{}}}^{{{}}}", 2),
    "msub": ("{{{}}}_{{{}}}", 2),
    "msubsup": ("{{{}}}_{{{}}}^{{{}}}", 3),
    "mfrac": (r"\frac{{{}}}{{{}}}", 2),
    "munderover": ("{{{}}}_{{{}}}^{{{}}}", 3),
    "munder": ("{{{}}}_{{{}}}", 2),
    "mover": ("{}", 2),  # a bar or a hat
}
"""The LaTeX for an element with a fixed number of children."""
_ROWS = ("math", "semantics", "mrow", "mstyle", "mpadded", "mtd", "menclose", "merror", "none")
_TEXTS = ("mi", "mn", "mo", "mtext", "ms")
_TIMES = "\N{INVISIBLE TIMES}"
_INVISIBLE = re.compile("[\u2061\u2063\u2064\u200b]|\\s+")
_NO_LATEX = re.compile(r"[\\$]")  # signs that would end the formula or begin a command
_ESCAPED = re.compile(r"[#%&_{}]")
_WORD = re.compile(r"[A-Za-z]{2,}")


class _Element(NamedTuple):
    tag: str
    children: list[str]


class MathML:
    r"""Takes the tags and texts of one formula; `latex` is what they come to.

    Example:
        >>> formula = MathML()
        >>> for tag, text in (("mn", "4"), ("mo", "×"), ("mi", "H")):
        ...     formula.start(tag)
        ...     formula.text(text)
        ...     formula.end(tag)
        >>> formula.latex()
        '4×H'
    """

    def __init__(self) -> None:
        self._open = [_Element("math", [])]
        self._levels_left_out = 0

    def start(self, tag: str) -> None:
        """Begin an element; ``mspace`` and ``none`` are empty."""
        if len(self._open) == _MOST_LEVELS:
            if not self._levels_left_out:
                self._open[-1].children.append(UNKNOWN)
            self._levels_left_out += 1
        else:
            self._open.append(_Element(tag, []))

    def text(self, text: str) -> None:
        """Take a text, which only elements for texts have."""
        if self._open[-1].tag in _TEXTS and not self._levels_left_out:
            self._open[-1].children.append(text)

    def end(self, tag: str) -> None:
        """End an element, and those inside it that were not ended."""
        if self._levels_left_out:
            self._levels_left_out -= 1
            return
        if tag not in (element.tag for element in self._open[1:]):
            return
        while len(self._open) > 1:
            ended = self._open.pop()
            self._open[-1].children.append(_latex_of(ended))
            if ended.tag == tag:
                return

    def latex(self) -> str:
        """Return the formula in LaTeX; one that is too long or too deep is an unknown sign."""
        while len(self._open) > 1:
            self.end(self._open[-1].tag)
        return _latex_of(self._open[0])


def _latex_of(element: _Element) -> str:
    latex = _unlimited_latex_of(element)
    return latex if len(latex) <= _MOST_CHARACTERS else UNKNOWN


def _unlimited_latex_of(element: _Element) -> str:
    tag, children = element
    if tag in _TEXTS:
        return _text("".join(children), is_prose=tag in ("mtext", "ms"))
    if tag in _FORMS:
        form, many = _FORMS[tag]
        return form.format(*children) if len(children) == many else UNKNOWN
    if tag == "msqrt":
        return rf"\sqrt{{{''.join(children)}}}"
    if tag == "mtable":
        rows = r"\\".join(children)
        return rf"\begin{{aligned}}{rows}\end{{aligned}}"
    if tag == "mtr":
        return "&".join(children)
    if tag in ("mspace", "annotation", "annotation-xml", "mphantom"):
        return " "
    return "".join(children) if tag in _ROWS else UNKNOWN


def _text(text: str, *, is_prose: bool) -> str:
    text = _INVISIBLE.sub(" ", text.replace(_TIMES, "×")).strip()
    text = _ESCAPED.sub(r"\\\g<0>", _NO_LATEX.sub(UNKNOWN, text))
    if is_prose:
        return rf"\text{{ {text} }}" if text else " "
    return rf"\mathrm{{{text}}}" if _WORD.fullmatch(text) else text
