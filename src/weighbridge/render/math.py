"""Formulas in mathematical notation: a tree, written in Unicode, LaTeX or HTML.

The operators are those of `algebra.codegen`; names, numbers and texts are written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import units
from weighbridge.algebra.codegen import meaning_in
from weighbridge.algebra.expr import PRECEDENCE, Shown, bracketed, show, source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weighbridge.algebra.expr import Meaning, Tree


class Style(NamedTuple):
    """The notation of operators, names, numbers and texts."""

    meaning: Meaning
    name: Callable[[str], str]
    number: Callable[[str], str]
    text: Callable[[str], str] = str


_GREEK = {"beta": "β", "gamma": "γ"}


def _unicode_name(name: str) -> str:
    return _GREEK.get(name, name)


def _latex_name(name: str) -> str:
    letter, _, index = name.partition("_")
    if name in _GREEK:
        return f"\\{name}"
    if len(letter) == 1 and index:
        return f"{letter}_{{{escape_latex(index)}}}"
    if len(letter) == 1:
        return letter
    return rf"\mathit{{{escape_latex(name)}}}"


_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}",
    "Δ": r"\ensuremath{\Delta}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}  # fmt: skip


def escape_latex(plain: str) -> str:
    r"""Escape what LaTeX would read as markup.

    Example:
        >>> print(escape_latex("50% of x_1"))
        50\% of x\_1
    """
    return "".join(_LATEX_SPECIAL.get(character, character) for character in plain)


def _html_name(name: str) -> str:
    letter, _, index = name.partition("_")
    if index and len(letter) == 1:
        return f"<i>{letter}</i><sub>{index}</sub>"
    return f"<i>{_unicode_name(name)}</i>"


def _html_text(plain: str) -> str:
    return plain.translate({ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"})


def _root(operand: Shown) -> Shown:
    return Shown(f"√{bracketed(operand, PRECEDENCE['[]'])}")


UNICODE = Style({**meaning_in("text"), "sqrt": _root}, _unicode_name, str)
LATEX = Style(
    meaning_in("latex"),
    _latex_name,
    lambda number: number.replace(",", "{,}"),
    lambda text: rf"\text{{\texttt{{{escape_latex(text)}}}}}",
)
HTML = Style({**meaning_in("html"), "sqrt": _root}, _html_name, str, _html_text)


def with_names(tree: Tree, style: Style) -> str:
    r"""Write a tree with its names.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> tree = parse("L*(4*H**2 + 4*H)")
        >>> with_names(tree, UNICODE), with_names(tree, LATEX)
        ('L·(4H² + 4H)', 'L\\,(4H^{2} + 4H)')
    """
    return show(tree, style.name, style.meaning, lambda value: _value_text(value, style))


def numbers(tree: Tree, style: Style, values: Mapping[str, Any]) -> str:
    """Write a tree with numbers instead of names; names without a value stay.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> numbers(parse("L*(4*H**2 + 4*H)"), UNICODE, {"L": 12, "H": 768})
        '12×(4×768² + 4×768)'
    """

    def name(leaf: str) -> str:
        if leaf in values:
            return _value_text(values[leaf], style)
        return style.name(leaf)

    return show(tree, name, style.meaning, lambda value: _value_text(value, style))


def _value_text(value: Any, style: Style) -> str:
    """Write a constant; a text in quotes, to distinguish it from a name."""
    if isinstance(value, bool | str | None):
        return style.text(source(("value", value)))
    if isinstance(value, int):
        return style.number(units.count(value))
    return style.number(str(value))
