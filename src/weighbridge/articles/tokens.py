"""An article's plain text as tokens: numbers, names, signs, words, and what separates them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles import terms
from weighbridge.articles.exact import Number

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DIGITS = 40  # of a number
LONGEST_LINE = 20_000  # characters
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands for LaTeX that has no plain signs."""


class Token(NamedTuple):
    """A token: its kind, its text, its line, whether it follows without a space, and the number where it is one.

    ``why`` says of a number why it is not read.

    Kinds are ``number``, ``name``, ``word``, ``op``, ``relation``, ``open``, ``close``,
    ``separator`` and ``other``. ``text`` of a sign is what it means: ``*`` for each sign of
    multiplication.
    """

    kind: str
    text: str
    line: int
    tight: bool = False
    number: Number | None = None
    why: str = ""


_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵃᵇᵈᵉʰᵏᵐⁿᵗᵀ", "0123456789+-abdehkmntT")
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_SUBSCRIPT = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SUBSCRIPTS = re.compile("(?<=[A-Za-z])[₀-₉]+")
_FULL = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F) if chr(code) not in "，；：！？"}
_FULL[0x3000] = 0x20
_FULL_COMMA = re.compile(r"(?<=[０-９])，(?=[０-９]{3}(?![０-９]))")
_SPACED = re.compile(
    r"(?<== )\d{1,3}(?: , \d{3})+(?!\d)"
)  # as some pages spell a formula: 23 , 835 , 648
_TIMES_X = re.compile(r"(?<=[\d)])(\s?)[xX](?=\s?[\d(])")
_PREFIXED = "[KMGTPkm]i?B|[KMGTP]b|[KMGTP](?:FLOPs?|FLOPS|MACs?)"  # bytes and operations, which are no parameters
_UNIT = f"百万|千万|十亿|亿|万|千|thousand|million|billion|mn|bn|{_PREFIXED}|[kKmMbB]|%"
_TOKEN = re.compile(
    rf"(?P<number>(?:\d{{1,3}}(?:[,\u2009\u202f\u00a0]\d{{3}})+(?!\d)|\d+(?:_\d{{3}})+(?!\d)|\d+)(?:\.\d+)?"
    rf"(?:[eE][+-]?\d{{1,3}}(?![A-Za-z0-9]))?)(?P<unit>[ ]?(?:{_UNIT})(?![A-Za-z0-9]))?"
    rf"|(?P<wide>[{terms.WIDE}]+)"
    r"|(?P<word>[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*(?:[-'’][A-Za-z]+)*)"
    r"|(?P<separator>!=|<=|>=|=>|->|\+=|[→⇒⟶<>≤≥≠≪≫∈,;:.!?，。；：、！？|…—–\n\f])"
    r"|(?P<relation>:=|==?|[≈≃≅≒~∼≡])"
    r"|(?P<op>\*\*|[-+*/^×·⋅∙∗✕⨯÷−∕])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<other>\\[A-Za-z]+)"
    "|(?P<quote>[\"'`“”‘’「」『』《》&\\\\]+)"
    r"|(?P<space>\s+)|(?P<strange>.)"
)
_MISGROUPED = re.compile(r",\d\d")
_OPS = {
    "**": "^",
    "×": "*",
    "·": "*",
    "⋅": "*",
    "∙": "*",
    "∗": "*",
    "✕": "*",
    "⨯": "*",
    "÷": "/",
    "∕": "/",
    "−": "-",
}
_RELATIONS = {"==": "=", ":=": "=", "≡": "="}
_SYMBOL = re.compile(r"[A-Za-z](?:\d*|_[A-Za-z0-9]+)|[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+")
_NO_SYMBOLS = ("a", "I", "i")  # a word of a sentence far more often
_PRODUCT = re.compile(r"(?=.*H)[VHLAPTFNS]{2,3}")
"""Letters of sizes side by side, the hidden size among them: VH, HF."""


def plain(text: str) -> str:
    """Return a line with full-width signs, superscripts and subscripts as the plain signs that mean the same.

    Example:
        >>> plain("４Ｈ² ＝ ２，３５９，２９６，x₁")
        '4H^(2) = 2,359,296，x1'
    """
    text = text.replace("i.e.", " namely ")
    text = _FULL_COMMA.sub(",", text).translate(_FULL)
    text = _SUPERSCRIPTS.sub(lambda found: f"^({found[0].translate(_SUPERSCRIPT)})", text)
    return _SUBSCRIPTS.sub(lambda found: found[0].translate(_SUBSCRIPT), text)


def tokens(text: str, line: int) -> Iterator[Token]:
    """Yield the tokens of a line.

    Example:
        >>> [(token.kind, token.text) for token in tokens("4H² 为 2,359,296。", 1)][:5]
        [('number', '4'), ('name', 'H'), ('op', '^'), ('open', '('), ('number', '2')]
    """
    text = _SPACED.sub(lambda found: found[0].replace(" ", ""), plain(text))
    text = _TIMES_X.sub(r"\1*", text)
    tight = False
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        kind = "number" if kind == "unit" else kind
        if kind in ("space", "quote"):
            tight = kind == "quote" and tight
            continue
        yield from _tokens_of(kind, found, line, tight=tight)
        tight = True


def _tokens_of(kind: str, found: re.Match[str], line: int, *, tight: bool) -> Iterator[Token]:
    text = found[0]
    if kind == "number":
        yield _number(found, line, tight=tight)
    elif kind == "wide":
        end = terms.relation_at_end().search(text)
        if end and end.start():
            yield Token("word", text[: end.start()], line, tight)
            yield Token("word", end[0], line, tight=True)
        else:
            yield Token("word", text, line, tight)
    elif kind == "word" and _PRODUCT.fullmatch(text):
        yield from (Token("name", letter, line, tight or at > 0) for at, letter in enumerate(text))
    elif kind == "word":
        symbol = _SYMBOL.fullmatch(text) and (text not in _NO_SYMBOLS or tight)
        yield Token("name" if symbol else "word", text, line, tight)
    elif kind == "op":
        yield Token("op", _OPS.get(text, text), line, tight)
    elif kind == "relation":
        yield Token("relation", _RELATIONS.get(text, "=" if text == "=" else "≈"), line, tight)
    else:
        yield Token("other" if kind == "strange" else kind, text, line, tight)


def _number(found: re.Match[str], line: int, *, tight: bool) -> Token:
    """Return the token of a number: with its unit, and with the place of its last digit."""
    digits = re.sub(r"[,_\u2009\u202f\u00a0]", "", found["number"])
    if sum(map(str.isdigit, digits)) > MOST_DIGITS:
        return Token("other", found[0], line, tight, why="digits")
    if (
        _MISGROUPED.match(found.string, found.end())
        and found.string[max(0, found.start() - 1)] not in "([,"
    ):
        return Token("other", found[0], line, tight, why="grouping")
    mantissa, _, exponent = digits.lower().partition("e")
    if abs(int(exponent or 0)) > MOST_DIGITS:
        return Token("other", found[0], line, tight, why="digits")
    unit = (found["unit"] or "").strip()
    if re.fullmatch(_PREFIXED, unit):
        return Token("other", found[0], line, tight, why="bytes")
    scale = Fraction(10) ** int(exponent or 0)
    scale *= Fraction(1, 100) if unit == "%" else terms.facts()["units"].get(unit.lower(), 1)
    whole, _, decimals = mantissa.partition(".")
    zeros = 0 if decimals else len(whole) - len(whole.rstrip("0")) if whole.strip("0") else 0
    place = scale * Fraction(10) ** (zeros - len(decimals))
    number = Number(Fraction(mantissa) * scale, found[0].strip(), place, bool(unit))
    return Token("number", found[0].strip(), line, tight, number)
