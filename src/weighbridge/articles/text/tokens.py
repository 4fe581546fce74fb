"""Cuts the plain text of an article into tokens: numbers, names, signs, words and separators."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import takewhile
from typing import TYPE_CHECKING

from weighbridge.articles.text import terms
from weighbridge.articles.text.exact import Number
from weighbridge.articles.text.lines import Stretch
from weighbridge.articles.text.powers_of_ten import with_powers_of_ten
from weighbridge.articles.text.token import Token

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_DIGITS = 40  # of a number, far more than any count has; bounds the time of exact arithmetic
LONGEST_LINE = 20_000  # characters; a longer line is not prose, and takes long to read
_SHORTEST_RATE = 3  # tokens: 16 bytes/
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands for LaTeX that has no plain signs."""

_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵃᵇᵈᵉʰᵏᵐⁿᵗᵀ", "0123456789+-abdehkmntT")
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_SUBSCRIPT = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SUBSCRIPTS = re.compile("(?<=[A-Za-z])[₀-₉]+")
_FULL = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F) if chr(code) not in "，；：！？"}
_FULL[0x3000] = 0x20
_FULL_COMMA = re.compile(r"(?<=[０-９])，(?=[０-９]{3}(?![０-９]))")
_STOP_AS_POINT = re.compile(r"(?<=(?<![\d.,])\d)。(?=\d{1,2}[MKB万亿%])")
"""A full stop in place of a decimal point, as a page with other signs lost has it: 1。18M."""
_SPACED = re.compile(r"(?<== )\d{1,3}(?: , \d{3})+(?!\d)")
"""A number with spaces around its commas, as on some pages: = 23 , 835 , 648."""
_FIXED_BLANK = re.compile(r"(?<!\d)\u00a0|\u00a0(?!\d{3}(?!\d))")
"""A blank that does not break a line, and does not stand between the digits of one number."""
_PER_SECOND = re.compile(r"(?<=[A-Za-z]{2})/[sS](?:ec)?(?![A-Za-z0-9_])")
_EXPERT = r"\d{1,3}(?:\.\d+)?[BbMm](?![A-Za-z0-9])(?!\s*[=≈*/+×])"
_MIXTURE = rf"(?<![\d*/+^])\d{{1,3}}[xX×]{_EXPERT}"
"""The name of a mixture of experts, which is not a product: Mixtral 8x7B."""
_TIMES_X = re.compile(rf"(?<=[\d)])(\s?)[xX](?!{_EXPERT})(?=\s?[\d(])")
_BYTES = "[KMGTkmgt]i?B|[KMGT]b|[kmgt]i?b"
_PLAIN_BYTES = "bytes"
_COUNTS_BYTES = re.compile(r"\d{1,3}(?:,\d{3})+|\d+(?:_\d{3})+|\d{6,}")
"""A number so long that a B after it is bytes, not billions: 524,288 B."""
_OPERATIONS = "[KMGTP](?:FLOPs?|FLOPS|MACs?)"
"""Units of operations, which are not parameters."""
_CHINESE_UNIT = "百万|千万|十亿|万亿|亿|億|万|萬|千"
_UNIT = f"thousand|million|billion|mn|bn|{_BYTES}|{_OPERATIONS}|[kKmMbB]|%"
_TOKEN = re.compile(
    rf"(?P<mixture>{_MIXTURE})"
    rf"|(?P<number>"
    rf"(?:\d{{1,3}}(?:[,\u2009\u202f\u00a0]\d{{3}})+(?!\d)|\d+(?:_\d{{3}})+(?!\d)|\d+"
    rf"|(?<![\d.])(?=\.\d))(?:\.\d+)?"
    rf"(?:[eE][+-]?\d{{1,3}}(?![A-Za-z0-9]))?)"
    rf"(?P<unit>[ ]?(?:{_CHINESE_UNIT}|(?:{_UNIT})(?![A-Za-z0-9])))?"
    rf"|(?P<wide>[{terms.WIDE}]+)"
    r"|(?P<word>[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*(?:[-'’][A-Za-z]+)*)"
    r"|(?P<separator>(?<=\s)--(?=[A-Za-z])|(?<=[\dkKMB%万亿])[~∼](?=\d)|!=|<=|>=|=>|->|\+="
    r"|[→⇒⟶<>≤≥≠≪≫∈,;:.!?，。；：、！？|…—–\n\f])"
    r"|(?P<relation>:=|==?|[≈≃≅≒~∼≡])"
    r"|(?P<op>\*\*|[-+*/^×·⋅∙∗✕⨯÷−∕])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<other>\\[A-Za-z]+)"
    "|(?P<quote>[\"'`“”‘’「」『』《》&\\\\]+)"
    r"|(?P<space>\s+)|(?P<strange>.)"
)
_KINDS = {"strange": "other", "mixture": "word"}
_BYTES_UNIT = re.compile(_BYTES).fullmatch
_GOES_ON = re.compile(r"(?<!\d{4}),\s\d{3}(?![\d.]|\s?[*×·/+^])|\.\d|[A-Za-z]{2}(?![A-Za-z0-9_])")
"""What may belong to the number before it: 13, 476; 23.837.184; 2AB."""
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
    text = _STOP_AS_POINT.sub(".", text.replace("i.e.", " namely "))
    text = _FULL_COMMA.sub(",", text).translate(_FULL)
    text = _PER_SECOND.sub(lambda match: " " * len(match[0]), _FIXED_BLANK.sub(" ", text))
    text = _SPACED.sub(lambda match: match[0].replace(" ", ""), text)
    text = _SUPERSCRIPTS.sub(lambda match: f"^({match[0].translate(_SUPERSCRIPT)})", text)
    return _SUBSCRIPTS.sub(lambda match: match[0].translate(_SUBSCRIPT), text)


_DIGITS_ALONE = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "01234567890123456789")


def with_plain_digits(text: str) -> str:
    """Return a line of the same length in which all digits are plain.

    Example:
        >>> with_plain_digits("４Ｈ²，３５９")
        '4H2，359'
    """
    return text.translate(_FULL).translate(_DIGITS_ALONE)


def tokens(text: str, line: int) -> Iterator[Token]:
    """Yield the tokens of a line.

    Example:
        >>> [(token.kind, token.text) for token in tokens("4H² 为 2,359,296。", 1)][:5]
        [('number', '4'), ('name', 'H'), ('op', '^'), ('open', '('), ('number', '2')]
    """
    written = _with_signs(_added_up(_tokens_as_written(plain_signs(text), line)))
    yield from with_powers_of_ten(_with_rates(written))


def _tokens_as_written(text: str, line: int) -> Iterator[Token]:
    text = _TIMES_X.sub(r"\1*", text)
    tight = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "space":
            tight = False
        elif kind != "quote":
            yield from _placed(list(_tokens_of(kind, match, line, tight=tight)), match)
            tight = True


def _placed(pieces: list[Token], match: re.Match[str]) -> Iterator[Token]:
    """Yield the tokens of one match with their columns."""
    if len(pieces) == 1:
        yield pieces[0]._replace(start=match.start(), end=match.end())
        return
    start = match.start()
    for token in pieces:
        yield token._replace(start=start, end=start + len(token.text))
        start += len(token.text)


def _added_up(written: Iterable[Token]) -> Iterator[Token]:
    """Yield tokens, with one number in place of two that are said together: 1亿948万."""
    before: Token | None = None
    for token in written:
        if before and _goes_with(before, token):
            before = _together(before, token)
            continue
        if before:
            yield before
        before = token
    if before:
        yield before


def _goes_with(before: Token, token: Token) -> bool:
    """Return whether the unit of a number is ten thousand times as large as the next number's."""
    if before.number is None or token.number is None or not token.tight:
        return False
    is_wide = bool(terms.has_wide(before.text) and terms.has_wide(token.text))
    return is_wide and before.number.shown_place >= 10**4 * token.number.shown_place


def _together(before: Token, token: Token) -> Token:
    first, second = before.number, token.number
    if first is None or second is None or first.at is None or second.at is None:
        return token
    text = before.text + token.text
    number = second._replace(
        value=first.value + second.value, text=text, at=first.at._replace(end=second.at.end)
    )
    return before._replace(text=text, number=number, end=token.end)


def _with_rates(written: Iterable[Token]) -> list[Token]:
    """Return tokens, with one word in place of a unit per something: 128,000 tokens/batch."""
    kept: list[Token] = []
    for token in written:
        if token.kind == "word" and token.tight and _ends_with_unit_per(kept):
            kept.pop()
            unit = kept.pop()
            token = unit._replace(text=f"{unit.text}/{token.text}", end=token.end)  # noqa: PLW2901
        kept.append(token)
    return kept


def _ends_with_unit_per(tokens: Sequence[Token]) -> bool:
    """Return whether the last tokens are a number, words for what it counts, and a slash."""
    if len(tokens) < _SHORTEST_RATE or tokens[-1].text != "/" or not tokens[-1].tight:
        return False
    kinds = [token.kind for token in reversed(tokens[:-1])]
    words = len([*takewhile(lambda kind: kind == "word", kinds)])
    return 0 < words < len(kinds) and kinds[words] == "number"


def _with_signs(written: Iterable[Token]) -> Iterator[Token]:
    """Yield tokens, with signs in place of words for operations between two operands."""
    pending: list[Token] = []  # an operand and the words after it
    for token in written:
        if token.kind == "word" and pending:
            pending.append(token)
            continue
        if token.kind in ("number", "name", "open"):
            yield from (pending[:1] + _words_as_signs(pending[1:])) if pending else ()
        else:
            yield from pending
        pending = []
        if token.kind in ("number", "name", "close"):
            pending = [token]
        else:
            yield token
    yield from pending


def _words_as_signs(words: list[Token]) -> list[Token]:
    """Return words in which the first one for an operation, if there is one, is its sign."""
    for position, token in enumerate(words):
        match = terms.operator_words().search(token.text.lower())
        if match:
            sign = terms.operator_of(match[0])
            start, end = match.span()
            pieces = [
                token._replace(text=token.text[:start], end=token.start + start),
                token._replace(
                    kind="op", text=sign, start=token.start + start, end=token.start + end
                ),
                token._replace(text=token.text[end:], start=token.start + end, tight=True),
            ]
            kept = [piece for piece in pieces if piece.text]
            return [*words[:position], *kept, *words[position + 1 :]]
    return words


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
        yield Token("op", _OPS.get(text, text), line, tight, doubt=text.startswith("*"))
    elif kind == "relation":
        yield Token("relation", _RELATIONS.get(text, "≈"), line, tight)
    else:
        yield Token(_KINDS.get(kind, kind), text, line, tight)


def _number_token(match: re.Match[str], line: int, *, tight: bool) -> Token:
    """Return the token of a number; if it cannot be read, its kind is ``other``."""
    mantissa, exponent, unit = _number_parts(match)
    if unit == "B" and _COUNTS_BYTES.fullmatch(match["number"]):
        unit = _PLAIN_BYTES
    why = _why_not_read(match, exponent, unit)
    if why:
        return Token("other", match[0], line, tight, why=why)
    scale = Fraction(10) ** int(exponent) * _scale_of(unit)
    text = match[0].strip()
    place = scale * Fraction(10) ** _last_digit(mantissa)
    at = Stretch(line, match.start(), match.end())
    is_power = "e" in match["number"].lower()
    is_torn = mantissa.isdigit() and mantissa.startswith("0") and Fraction(mantissa) > 0
    doubt = is_torn or bool(_GOES_ON.match(match.string, match.end()))
    shown = scale / 10 ** len(mantissa.partition(".")[2])
    number = Number(
        Fraction(mantissa) * scale,
        text,
        place,
        unit not in ("", _PLAIN_BYTES) or (is_power and "." in mantissa),  # 2.19e+06 is rounded
        at,
        shown,
        _byte_scales(unit),
        is_power,
    )
    return Token("number", text, line, tight, number, doubt=doubt)


def _scale_of(unit: str) -> Fraction:
    """Return the number that a unit stands for; of bytes, kB is 1,000 and KiB 1,024."""
    units, bytes_units = terms.facts()["units"], terms.facts()["bytes"]
    name = unit.lower()
    if unit == "%":
        return Fraction(1, 100)
    if _BYTES_UNIT(unit) and name in bytes_units["binary"]:
        return Fraction(1024 ** int(bytes_units["binary"][name]))
    if _BYTES_UNIT(unit):
        return Fraction(1000 ** int(bytes_units["decimal"][name]))
    return Fraction(units.get(name, 1))


def _byte_scales(unit: str) -> tuple[Fraction, ...]:
    """Return the factors by which a unit of bytes may be larger than it says."""
    if unit == _PLAIN_BYTES:
        return (Fraction(1),)
    if not _BYTES_UNIT(unit):
        return ()
    kilos = terms.facts()["bytes"]["decimal"].get(unit.lower())
    if kilos is None:
        return (Fraction(1),)
    return (Fraction(1), Fraction(1024, 1000) ** kilos)


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
    if re.fullmatch(_OPERATIONS, unit):
        return "operations"
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
