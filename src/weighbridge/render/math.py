"""Formulas as people set them: one tree, written in Unicode, in LaTeX or in HTML.

A way of writing is a meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import units
from weighbridge.algebra.expr import PRECEDENCE, Shown, infix, prefix, show, source
from weighbridge.algebra.polynomial import TEXT, product

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weighbridge.algebra.expr import Meaning, Tree


class Style(NamedTuple):
    """How operators, names, numbers and texts are written."""

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
    if len(letter) == 1:
        return f"{letter}_{{{escape_latex(index)}}}" if index else letter
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
    subscript = f"<sub>{index}</sub>" if index and len(letter) == 1 else ""
    return f"<i>{letter if subscript else _unicode_name(name)}</i>{subscript}"


def _html_text(plain: str) -> str:
    return plain.translate({ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"})


def _index(container: str) -> str:
    """Return how an index is written after this in LaTeX, where one subscript cannot follow another."""
    return "_{{{}}}" if container[-1:] == "}" and "}_{" not in container else "[{}]"


def _function(name: str) -> Callable[..., Shown]:
    return lambda *operands: Shown(rf"\operatorname{{{name}}}({', '.join(operands)})")


_LATEX_SIGNS = {
    "==": "=", "!=": r"\ne", "<=": r"\le", ">=": r"\ge", "in": r"\in", "not in": r"\notin",
    "and": r"\land", "or": r"\lor",
}  # fmt: skip

UNICODE = Style(TEXT, _unicode_name, str)
LATEX = Style(
    {
        **TEXT,
        "*": product(letters=r"{}\,{}", numbers=r"{} \times {}", coefficient="{}{}"),
        "//": infix("//", "{}/{}"),
        "%": infix("%", r"{} \bmod {}"),
        "**": infix("**", "{}^{{{}}}"),
        **{kind: infix(kind, f"{{}} {sign} {{}}") for kind, sign in _LATEX_SIGNS.items()},
        "not": prefix("not", r"\lnot {}"),
        "if": lambda truth, then, otherwise: Shown(
            rf"({then} \text{{ if }} {truth} \text{{ else }} {otherwise})"
        ),
        "[]": lambda container, at: Shown(f"{container}{_index(container).format(at)}"),
        "sqrt": lambda inside: Shown(rf"\sqrt{{{inside}}}"),
        "floor": lambda inside: Shown(rf"\lfloor {inside} \rfloor"),
        "ceil": lambda inside: Shown(rf"\lceil {inside} \rceil"),
        "for": lambda index, rounds, each: Shown(
            rf"({each(Shown(index))})_{{0 \le {index} < {rounds}}}"
        ),
        "count": lambda index, rounds, holds: Shown(
            rf"\#\{{0 \le {index} < {rounds} \mid {holds(Shown(index))}\}}"
        ),
        "sum": lambda items: Shown(rf"\textstyle\sum {items}", PRECEDENCE["*"]),
        **{kind: _function(kind) for kind in ("abs", "int", "len", "log2", "max", "min", "round")},
    },
    _latex_name,
    lambda number: number.replace(",", "{,}"),
    lambda text: rf"\text{{\texttt{{{escape_latex(text)}}}}}",
)
HTML = Style(
    {
        **TEXT,
        "**": infix("**", "{}<sup>{}</sup>"),
        **{kind: infix(kind, f"{{}} {_html_text(kind)} {{}}") for kind in ("<", "<=", ">", ">=")},
    },
    _html_name,
    str,
    _html_text,
)


def formula(tree: Tree, style: Style) -> str:
    r"""Write a tree with its names.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> tree = parse("L*(4*H**2 + 4*H)")
        >>> formula(tree, UNICODE), formula(tree, LATEX)
        ('L·(4H² + 4H)', 'L\\,(4H^{2} + 4H)')
    """
    return show(tree, style.name, style.meaning, lambda value: _literal(value, style))


def numbers(tree: Tree, style: Style, values: Mapping[str, Any]) -> str:
    """Write a tree with numbers in place of its names; a name without a value stays.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> numbers(parse("L*(4*H**2 + 4*H)"), UNICODE, {"L": 12, "H": 768})
        '12×(4×768² + 4×768)'
    """

    def name(leaf: str) -> str:
        return _literal(values[leaf], style) if leaf in values else style.name(leaf)

    return show(tree, name, style.meaning, lambda value: _literal(value, style))


def _literal(value: Any, style: Style) -> str:
    """Write what stands for itself; a text in its quotes, which mark it off from a name."""
    if isinstance(value, bool | str | None):
        return style.text(source(("value", value)))
    return style.number(units.count(value) if isinstance(value, int) else str(value))
