"""Expressions in other languages: one table of operators, with a column for each language.

Every language uses the operator precedence of `expr.PRECEDENCE`, which decides where brackets are
needed. To add a language, add a column to the table.
"""

from __future__ import annotations

from functools import cache, reduce

from weighbridge.algebra.expr import (
    PRECEDENCE,
    SOURCE,
    Shown,
    infix,
    is_number,
    names_in,
    prefix,
    show,
    written_as_call,
    written_as_loop,
)
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Meaning, Tree

    Writing = str | Callable[..., Shown] | None
    """How an operator is written: by a pattern, by a function, or not at all."""

_MOST_FACTORS = 16  # SQL powers are written as products: not every dialect has a power operator


def identifiers(fields: Iterable[str], reserved: Iterable[str]) -> dict[str, str]:
    """Return an identifier for each field; no two are equal, even when case is ignored.

    Example:
        >>> identifiers(["text_config.width", "lambda", "LAMBDA_"], ["lambda"])
        {'text_config.width': 'text_config_width', 'lambda': 'lambda_', 'LAMBDA_': 'LAMBDA__'}
    """
    identifier_of, taken = dict[str, str](), {name.lower() for name in reserved}
    for field in fields:
        identifier = field.replace(".", "_")
        while identifier.lower() in taken:
            identifier += "_"
        taken.add(identifier.lower())
        identifier_of[field] = identifier
    return identifier_of


def code(tree: Tree, language: str, name: Callable[[str], str]) -> str:
    """Write an expression in a programming language; ``name`` writes its names.

    Raises:
        KeyError: the language has no such operator or literal.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> code(parse("floor(a / b) ** 2"), "python", str.upper)
        'math.floor(A / B) ** 2'
    """
    return show(tree, name, meaning_in(language), _LITERALS[language])


@cache
def meaning_in(language: str) -> Meaning:
    r"""Return the meaning whose values are text in a language; operators it lacks are left out.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> tree = parse("(a + 1) ** 2 != b")
        >>> for language in ("sql", "text", "latex"):
        ...     print(show(tree, str, meaning_in(language)))
        (a + 1) * (a + 1) <> b
        (a + 1)² != b
        (a + 1)^{2} \ne b
    """
    column = _LANGUAGES.index(language)
    meaning: dict[str, Callable[..., Shown]] = {}
    for kind, writings in _OPERATORS.items():
        writing = writings[column]
        if writing is not None:
            meaning[kind] = _writer(kind, writing)
    return meaning


def _writer(kind: str, writing: str | Callable[..., Shown]) -> Callable[..., Shown]:
    if not isinstance(writing, str):
        return writing
    if not writing:
        return SOURCE[kind]
    if kind not in PRECEDENCE:
        return written_as_call(writing)
    if writing.count("{}") == 1:
        return prefix(kind, writing)
    return infix(kind, writing)


# Python


def python_literal(value: Any) -> str:
    """Write a value as Python does; tuples are written as lists, as in a config.

    Example:
        >>> python_literal({"depths": (2, 18), "bias": True})
        "{'depths': [2, 18], 'bias': True}"
    """
    if hasattr(value, "keys"):
        items = (f"{key!r}: {python_literal(value[key])}" for key in value)
        return f"{{{', '.join(items)}}}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(python_literal, value))}]"
    return repr(value)


# SQL: the subset on which DuckDB, PostgreSQL and SQLite agree. They disagree on ``/``: for integers
# it gives an integer in two of them and a fraction in DuckDB, which a cast would round. So the
# remainder is subtracted first, and the division is always exact.


def is_portable(tree: Tree, values: Mapping[str, Any]) -> bool:
    """Whether an expression can be written in SQL, where its names are columns with these values.

    It must contain only numbers: no loops, no lists, and no remainders of fractions.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> [is_portable(parse(text), {"a": 7, "b": 0.5}) for text in ("a * b", "a % b", "sqrt(a)")]
        [True, False, False]
    """
    try:
        code(tree, "sql", str)
    except KeyError:
        return False
    if not all(is_number(values[name]) for name in names_in(tree)):
        return False
    return _divides_integers_only(tree, values)


def _divides_integers_only(tree: Tree, values: Mapping[str, Any]) -> bool:
    kind, *operands = tree
    if kind in ("name", "value"):
        return True
    if kind in ("//", "%") and not all(_is_integer(operand, values) for operand in operands):
        return False
    return all(_divides_integers_only(operand, values) for operand in operands)


def _is_integer(tree: Tree, values: Mapping[str, Any]) -> bool:
    kind, *operands = tree
    if kind == "name":
        return isinstance(values[operands[0]], int)
    if kind == "value":
        return isinstance(operands[0], int)
    if kind in ("int", "floor", "ceil"):
        return True
    return kind != "/" and all(_is_integer(operand, values) for operand in operands)


def sql_literal(value: Any) -> str:
    """Write a number as SQL does.

    Raises:
        KeyError: it is not a number.
    """
    if not is_number(value):
        raise KeyError(value)
    return repr(value)


def _sql_fraction(left: Shown, right: Shown) -> Shown:
    return infix("/", "{} / {}")(Shown(f"CAST({left} AS DOUBLE PRECISION)"), right)


def _sql_quotient(left: Shown, right: Shown) -> Shown:
    without_remainder = SOURCE["-"](left, SOURCE["%"](left, right))
    return Shown(f"CAST({SOURCE['/'](without_remainder, right)} AS BIGINT)")


def _sql_minus(operand: Shown) -> Shown:
    """Write a minus sign, never two in a row: ``--`` begins a comment in SQL."""
    if operand.startswith("-"):
        operand = Shown(f"({operand})")
    return prefix("neg", "-{}")(operand)


def _sql_power(base: Shown, exponent: Shown) -> Shown:
    if not exponent.isdecimal() or not 0 < int(exponent) <= _MOST_FACTORS:
        raise KeyError("**")
    power: Shown = reduce(SOURCE["*"], [base] * int(exponent))
    return power


def _sql_choice(condition: Shown, then: Shown, otherwise: Shown) -> Shown:
    return Shown(f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END")


def _sql_extreme(sign: str) -> Callable[..., Shown]:
    def choose(left: Shown, right: Shown) -> Shown:
        return _sql_choice(SOURCE[sign](left, right), left, right)

    return lambda *operands: reduce(choose, operands)


def _sql_integer(beyond: str, back: str) -> Callable[[Shown], Shown]:
    """Return a function that writes floor or ceil; a cast alone may round either way."""

    def write(operand: Shown) -> Shown:
        cast = Shown(f"CAST({operand} AS BIGINT)")
        return Shown(f"({cast} {back} CASE WHEN {SOURCE[beyond](cast, operand)} THEN 1 ELSE 0 END)")

    return write


# For people to read: Unicode, LaTeX and HTML

_POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SUPERSCRIPTS = str.maketrans("0123456789", _POWERS)


def _product(letters: str, numbers: str, coefficient: str) -> Callable[[Shown, Shown], Shown]:
    """Return a function that writes products: V·H, 3×512, and 4H² after a coefficient.

    A name of several letters is separated from its coefficient: 3·width.
    """

    def write(left: Shown, right: Shown) -> Shown:
        pattern = letters
        if _ends_in_number(left):
            if right[0].isdecimal() or right[0] == "(":
                pattern = numbers
            elif right.strength >= PRECEDENCE["*"] and _begins_with_one_letter(right):
                pattern = coefficient
        return infix("*", pattern)(left, right)

    return write


def _begins_with_one_letter(text: str) -> bool:
    """Whether the first factor is H, H², β, <i>H</i> or H_{0}, but not width or x1."""
    text = text.removeprefix("<i>")
    letter, next_piece = text[:1], text[1:].removeprefix("_")[:1]
    is_letter = letter.isalnum() and not letter.isdecimal()
    return is_letter and (not next_piece.isalnum() or next_piece in _POWERS)


def _ends_in_number(text: str) -> bool:
    """Whether the last factor is a number: 3 and 12×3, but neither H² nor the field x1."""
    before = text.rstrip("0123456789,")
    return before != text and not (before[-1:].isalnum() or before[-1:] == "_")


def _superscript(base: Shown, exponent: Shown) -> Shown:
    """Write a power: H², or 2^n where the exponent is not a number."""
    if exponent.isdecimal():
        return infix("**", "{}{}")(base, Shown(exponent.translate(_SUPERSCRIPTS)))
    return infix("**", "{}^{}")(base, exponent)


def _remainder(pattern: str) -> Callable[[Shown, Shown], Shown]:
    """Return a function that writes a remainder: (-a) mod b differs from -(a mod b)."""

    def write(left: Shown, right: Shown) -> Shown:
        if left.startswith("-"):
            left = Shown(f"({left})")
        return infix("%", pattern)(left, right)

    return write


def _latex_choice(condition: Shown, then: Shown, otherwise: Shown) -> Shown:
    return Shown(rf"({then} \text{{ if }} {condition} \text{{ else }} {otherwise})")


def _latex_item(container: Shown, index: Shown) -> Shown:
    """Write an index as a subscript, or in brackets after another one: LaTeX forbids two."""
    if container[-1:] == "}" and "}_{" not in container:
        return Shown(f"{container}_{{{index}}}")
    return Shown(f"{container}[{index}]")


def _latex_items(index: str, rounds: Shown, body: Callable[[Shown], Shown]) -> Shown:
    return Shown(rf"({body(Shown(index))})_{{0 \le {index} < {rounds}}}")


def _latex_count(index: str, rounds: Shown, body: Callable[[Shown], Shown]) -> Shown:
    return Shown(rf"\#\{{0 \le {index} < {rounds} \mid {body(Shown(index))}\}}")


def _latex_sum(items: Shown) -> Shown:
    return Shown(rf"\textstyle\sum {items}", PRECEDENCE["*"])


_MINUS = prefix("*", "-{}")
_PLAIN_PRODUCT = _product(letters="{}·{}", numbers="{}×{}", coefficient="{}{}")
_LATEX_PRODUCT = _product(letters=r"{}\,{}", numbers=r"{} \times {}", coefficient="{}{}")
_PLAIN_REMAINDER = _remainder("{} mod {}")
_LATEX_REMAINDER = _remainder(r"{} \bmod {}")
_PYTHON_COUNT = written_as_loop("sum({})")
_SQL_MAX, _SQL_MIN = _sql_extreme(">="), _sql_extreme("<=")
_SQL_FLOOR, _SQL_CEILING = _sql_integer(">", "-"), _sql_integer("<", "+")

_LANGUAGES = ("python", "sql", "text", "latex", "html")
# Python, SQL, Unicode, LaTeX, HTML: "" is the form that `parse` reads; None means unsupported.
_OPERATORS: dict[str, tuple[Writing, Writing, Writing, Writing, Writing]] = {
    "if": ("", _sql_choice, "", _latex_choice, ""),
    "or": ("", "", "", r"{} \lor {}", ""),
    "and": ("", "", "", r"{} \land {}", ""),
    "not": ("", "", "", r"\lnot {}", ""),
    "==": ("", "{} = {}", "", "{} = {}", ""),
    "!=": ("", "{} <> {}", "", r"{} \ne {}", ""),
    "<": ("", "", "", "", "{} &lt; {}"),
    "<=": ("", "", "", r"{} \le {}", "{} &lt;= {}"),
    ">": ("", "", "", "", "{} &gt; {}"),
    ">=": ("", "", "", r"{} \ge {}", "{} &gt;= {}"),
    "in": ("", None, "", r"{} \in {}", ""),
    "not in": ("", None, "", r"{} \notin {}", ""),
    "+": ("", "", "", "", ""),
    "-": ("", "", "", "", ""),
    "*": ("", "", _PLAIN_PRODUCT, _LATEX_PRODUCT, _PLAIN_PRODUCT),
    "/": ("", _sql_fraction, "{}/{}", "{}/{}", "{}/{}"),
    "//": ("", _sql_quotient, "{}/{}", "{}/{}", "{}/{}"),
    "%": ("", "", _PLAIN_REMAINDER, _LATEX_REMAINDER, _PLAIN_REMAINDER),
    "**": ("", _sql_power, _superscript, "{}^{{{}}}", "{}<sup>{}</sup>"),
    "neg": ("", _sql_minus, _MINUS, _MINUS, _MINUS),
    "[]": ("", None, "", _latex_item, ""),
    "[:]": ("", None, "", "", ""),
    "list": ("", None, "", "", ""),
    "for": ("", None, "", _latex_items, ""),
    "count": (_PYTHON_COUNT, None, "", _latex_count, ""),
    "len": ("", None, "", r"\operatorname{{len}}({})", ""),
    "sum": ("", None, "", _latex_sum, ""),
    "max": ("", _SQL_MAX, "", r"\operatorname{{max}}({})", ""),
    "min": ("", _SQL_MIN, "", r"\operatorname{{min}}({})", ""),
    "abs": ("", None, "", r"\operatorname{{abs}}({})", ""),
    "int": ("", _SQL_FLOOR, "", r"\operatorname{{int}}({})", ""),
    "round": ("", None, "", r"\operatorname{{round}}({})", ""),
    "floor": ("math.floor({})", _SQL_FLOOR, "⌊{}⌋", r"\lfloor {} \rfloor", "⌊{}⌋"),
    "ceil": ("math.ceil({})", _SQL_CEILING, "⌈{}⌉", r"\lceil {} \rceil", "⌈{}⌉"),
    "sqrt": ("math.sqrt({})", None, "", r"\sqrt{{{}}}", ""),
    "log2": ("math.log2({})", None, "", r"\operatorname{{log2}}({})", ""),
}
_LITERALS = {"python": python_literal, "sql": sql_literal}
TEXT = meaning_in("text")
"""The meaning that writes a formula in plain Unicode."""

_RESERVED = (
    "all analyse analyze and any array as asc between by case cast check column config create cross"
    " current default desc distinct do else end except exists false for from full glob group having"
    " in index into is join left like limit natural not null offset on or order outer primary"
    " references returning right row rows select set some table then to true union unique update"
    " user using values when where window with checked holds"
)
SQL_WORDS = frozenset(_RESERVED.split())
"""Reserved words of DuckDB, PostgreSQL and SQLite, and the names in our own queries."""
