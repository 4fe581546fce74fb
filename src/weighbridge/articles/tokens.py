"""Cuts the plain text of an article into tokens: numbers, names, signs, words and separators."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles import terms
from weighbridge.articles.exact import Number

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DIGITS = 40  # of a number, far more than any count has; bounds the time of exact arithmetic
LONGEST_LINE = 20_000  # characters; a longer line is not prose, and takes long to read
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands for LaTeX that has no plain signs."""


class Token(NamedTuple):
    """A token of a line.

    ``tight`` is true if there is no space before it. ``number`` is the value of a number, and
    ``why`` the reason why a number cannot be read.

    Kinds are ``number``, ``name``, ``word``, ``op``, ``relation``, ``open``, ``close``,
    ``separator`` and ``other``. The ``text`` of a sign is its meaning: ``*`` for every
    multiplication sign.
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
_SPACED = re.compile(r"(?<== )\d{1,3}(?: , \d{3})+(?!\d)")
"""A number with spaces around its commas, as on some pages: = 23 , 835 , 648."""
_TIMES_X = re.compile(r"(?<=[\d)])(\s?)[xX](?=\s?[\d(])")
_PREFIXED = "[KMGTPkm]i?B|[KMGTP]b|[KMGTP](?:FLOPs?|FLOPS|MACs?)"
"""Units of bytes and of operations, which are not parameters."""
_UNIT = f"百万|千万|十亿|亿|万|千|thousand|million|billion|mn|bn|{_PREFIXED}|[kKmMbB]|%"
_TOKEN = re.compile(
    rf"(?P<number>"
    rf"(?:\d{{1,3}}(?:[,\u2009\u202f\u00a0]\d{{3}})+(?!\d)|\d+(?:_\d{{3}})+(?!\d)|\d+)(?:\.\d+)?"
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
_RELATIONS = {"=": "=", "==": "=", ":=": "=", "≡": "="}
_SYMBOL = re.compile(r"[A-Za-z](?:\d*|_[A-Za-z0-9]+)|[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+")
_NO_SYMBOLS = ("a", "I", "i")  # far more often a word of a sentence
_PRODUCT = re.compile(r"(?=.*H)[VHLAPTFNS]{2,3}")
"""Adjacent letters of sizes, including the hidden size: VH, HF."""


def plain_signs(text: str) -> str:
    """Return a line with plain signs for full-width signs, superscripts and subscripts.

    Example:
        >>> plain_signs("４Ｈ² ＝ ２，３５９，２９６，x₁")
        '4H^(2) = 2,359,296，x1'
    """
    text = text.replace("i.e.", " namely ")
    text = _FULL_COMMA.sub(",", text).translate(_FULL)
    text = _SUPERSCRIPTS.sub(lambda match: f"^({match[0].translate(_SUPERSCRIPT)})", text)
    return _SUBSCRIPTS.sub(lambda match: match[0].translate(_SUBSCRIPT), text)


def tokens(text: str, line: int) -> Iterator[Token]:
    """Yield the tokens of a line.

    Example:
        >>> [(token.kind, token.text) for token in tokens("4H² 为 2,359,296。", 1)][:5]
        [('number', '4'), ('name', 'H'), ('op', '^'), ('open', '('), ('number', '2')]
    """
    text = _SPACED.sub(lambda match: match[0].replace(" ", ""), plain_signs(text))
    text = _TIMES_X.sub(r"\1*", text)
    tight = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "space":
            tight = False
        elif kind != "quote":
            yield from _tokens_of(kind, match, line, tight=tight)
            tight = True


def _tokens_of(kind: str, match: re.Match[str], line: int, *, tight: bool) -> Iterator[Token]:
    """Yield the tokens of one match; several if there is no space between words or letters."""
    text = match[0]
    if kind in ("number", "unit"):
        yield _number_token(match, line, tight=tight)
    elif kind == "wide":
        relation = terms.relation_at_end().search(text)
        if relation and relation.start():
            yield Token("word", text[: relation.start()], line, tight)
            yield Token("word", relation[0], line, tight=True)
        else:
            yield Token("word", text, line, tight)
    elif kind == "word" and _PRODUCT.fullmatch(text):
        yield Token("name", text[0], line, tight)
        yield from (Token("name", letter, line, tight=True) for letter in text[1:])
    elif kind == "word":
        is_symbol = _SYMBOL.fullmatch(text) and (text not in _NO_SYMBOLS or tight)
        yield Token("name" if is_symbol else "word", text, line, tight)
    elif kind == "op":
        yield Token("op", _OPS.get(text, text), line, tight)
    elif kind == "relation":
        yield Token("relation", _RELATIONS.get(text, "≈"), line, tight)
    elif kind == "strange":
        yield Token("other", text, line, tight)
    else:
        yield Token(kind, text, line, tight)


def _number_token(match: re.Match[str], line: int, *, tight: bool) -> Token:
    """Return the token of a number; if it cannot be read, its kind is ``other``."""
    mantissa, exponent, unit = _number_parts(match)
    why = _why_not_read(match, exponent, unit)
    if why:
        return Token("other", match[0], line, tight, why=why)
    scale = Fraction(10) ** int(exponent)
    scale *= Fraction(1, 100) if unit == "%" else terms.facts()["units"].get(unit.lower(), 1)
    text = match[0].strip()
    place = scale * Fraction(10) ** _last_digit(mantissa)
    number = Number(Fraction(mantissa) * scale, text, place, rounded=bool(unit))
    return Token("number", text, line, tight, number)


def _number_parts(match: re.Match[str]) -> tuple[str, str, str]:
    """Return the digits of a number without grouping, its exponent and its unit."""
    digits = re.sub(r"[,_\u2009\u202f\u00a0]", "", match["number"])
    mantissa, _, exponent = digits.lower().partition("e")
    return mantissa, exponent or "0", (match["unit"] or "").strip()


def _why_not_read(match: re.Match[str], exponent: str, unit: str) -> str:
    """Return why a number cannot be read, as a key in the words of an audit; "" if it can."""
    if sum(map(str.isdigit, match["number"])) > MOST_DIGITS:
        return "digits"
    before = match.string[max(0, match.start() - 1)]
    if _MISGROUPED.match(match.string, match.end()) and before not in "([,":
        return "grouping"
    if abs(int(exponent)) > MOST_DIGITS:
        return "digits"
    if re.fullmatch(_PREFIXED, unit):
        return "bytes"
    return ""


def _last_digit(mantissa: str) -> int:
    """Return the power of ten of the last digit other than 0, or of the last decimal digit.

    Example:
        >>> _last_digit("1200"), _last_digit("1.20"), _last_digit("0")
        (2, -2, 0)
    """
    whole, _, decimals = mantissa.partition(".")
    if decimals or not whole.strip("0"):
        return -len(decimals)
    return len(whole) - len(whole.rstrip("0"))
