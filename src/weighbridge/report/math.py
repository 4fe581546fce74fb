"""Formulas as people set them: one tree, written in Unicode, in LaTeX or in HTML. A way of writing is a meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import units
from weighbridge.expr import Shown, infix, show
from weighbridge.polynomial import TEXT, product

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weighbridge.expr import Meaning, Tree


class Style(NamedTuple):
    """How operators, names, numbers and the sign of equality are written."""

    meaning: Meaning
    name: Callable[[str], str]
    number: Callable[[str], str]
    equals: str = " = "


_GREEK = {"beta": "β", "gamma": "γ"}


def _unicode_name(name: str) -> str:
    return _GREEK.get(name, name)


def _latex_name(name: str) -> str:
    letter, _, index = name.partition("_")
    if name in _GREEK:
        return f"\\{name}"
    if len(letter) == 1:
        return f"{letter}_{{{index}}}" if index else letter
    return r"\mathit{" + name.replace("_", r"\_") + "}"


def _html_name(name: str) -> str:
    letter, _, index = name.partition("_")
    subscript = f"<sub>{index}</sub>" if index and len(letter) == 1 else ""
    return f"<i>{letter if subscript else _unicode_name(name)}</i>{subscript}"


UNICODE = Style(TEXT, _unicode_name, str)
LATEX = Style(
    {
        **TEXT,
        "*": product(letters=r"{}\,{}", numbers=r"{} \times {}", coefficient="{}{}"),
        "//": infix("//", "{}/{}"),
        "%": infix("%", r"{} \bmod {}"),
        "**": infix("**", "{}^{{{}}}"),
        "max": lambda *operands: Shown(rf"\max({', '.join(operands)})"),
        "min": lambda *operands: Shown(rf"\min({', '.join(operands)})"),
    },
    _latex_name,
    lambda number: number.replace(",", "{,}"),
)
HTML = Style({**TEXT, "**": infix("**", "{}<sup>{}</sup>")}, _html_name, str)


def formula(tree: Tree, style: Style) -> str:
    r"""Write a tree with its names.

    Example:
        >>> from weighbridge.expr import parse
        >>> tree = parse("L*(4*H**2 + 4*H)")
        >>> formula(tree, UNICODE), formula(tree, LATEX)
        ('L·(4H² + 4H)', 'L\\,(4H^{2} + 4H)')
    """
    return show(tree, style.name, style.meaning, lambda value: style.number(_number(value)))


def numbers(tree: Tree, style: Style, values: Mapping[str, Any]) -> str:
    """Write a tree with numbers in place of its names; a name without a value stays.

    Example:
        >>> from weighbridge.expr import parse
        >>> numbers(parse("L*(4*H**2 + 4*H)"), UNICODE, {"L": 12, "H": 768})
        '12×(4×768² + 4×768)'
    """

    def name(leaf: str) -> str:
        return style.number(_number(values[leaf])) if leaf in values else style.name(leaf)

    return show(tree, name, style.meaning, lambda value: style.number(_number(value)))


def _number(value: Any) -> str:
    return units.count(value) if isinstance(value, int) else str(value)
