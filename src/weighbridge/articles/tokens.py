"""An article's plain text as tokens: numbers, names, signs, words, and what separates them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles import terms
from weighbridge.articles.exact import Number

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DIGITS = 40  # of a number, far more than a count has; bounds the time of exact arithmetic
LONGEST_LINE = 20_000  # characters; a longer one is no prose, and takes long to be read
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands for LaTeX that has no plain signs."""


class Token(NamedTuple):
    """A token of a line.

    ``tight`` says that no space stands before it. ``number`` is the number that it is, if it is
    one, and ``why`` the reason for which a number is not read.

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
_SPACED = re.compile(r"(?<== )\d{1,3}(?: , \d{3})+(?!\d)")
"""A number with spaces around its commas, as some pages have it: = 23 , 835 , 648."""
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
_NO_SYMBOLS = ("a", "I", "i")  # a word of a sentence far more often
_PRODUCT = re.compile(r"(?=.*H)[VHLAPTFNS]{2,3}")
"""Letters of sizes side by side, the hidden size among them: VH, HF."""


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
    """Yield the tokens of one match: several where words or letters have no space between them."""
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
    """Return the token of a number; of kind ``other``, with the reason, if it is not read."""
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
    """Return the digits of a number without what groups them, its exponent and its unit."""
    digits = re.sub(r"[,_\u2009\u202f\u00a0]", "", match["number"])
    mantissa, _, exponent = digits.lower().partition("e")
    return mantissa, exponent or "0", (match["unit"] or "").strip()


def _why_not_read(match: re.Match[str], exponent: str, unit: str) -> str:
    """Return the reason for which a number is not read, a key of the words of an audit, or ""."""
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
    """Return the power of ten of the last digit other than 0, or of the last decimal.

    Example:
        >>> _last_digit("1200"), _last_digit("1.20"), _last_digit("0")
        (2, -2, 0)
    """
    whole, _, decimals = mantissa.partition(".")
    if decimals or not whole.strip("0"):
        return -len(decimals)
    return len(whole) - len(whole.rstrip("0"))
