"""Reads the meanings of letters: "H（隐藏层大小）", "let L be the number of layers", "头数A"."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from weighbridge.articles.sizes.words import (
    SizeWord,
    WholeNumber,
    ends_with,
    is_plausible,
    lowered,
    size_words,
    stating,
    whole_numbers,
)
from weighbridge.articles.text import terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_WINDOW = 48  # characters between a letter and its meaning, including the words between them
_LETTER = (
    r"(?<![A-Za-z0-9_\\])(?P<letter>[A-Za-z](?:_[A-Za-z]{1,8})?|[a-z]{1,4}_[a-z]{1,8}|d[a-z]{1,6})"
)
_FACTOR = re.compile(r"[A-Za-z]|\s[A-Za-z](?![A-Za-z])|\([\dA-Za-z]")  # the 2 of "2H" and of "2 H"
_LONGEST_FACTOR = 8  # characters before a letter in which another factor may stand
_NO_LETTERS = ("s", "a", "I")  # "layer(s)", "the size a model has"
_MULTIPLE = r"(?:\d\s?[*×·]?\s?(?:[Hhd]|d_model)\s*(?:=|＝)\s*)?"  # F = 4H = 3072
_ASSIGNED = re.compile(_LETTER + rf"\s*(?:=|＝|:=)\s*{_MULTIPLE}(?=\d)")
_IN_WORDS = re.compile(_LETTER + r"\s*(?:是|为|取|is)\s*(?=\d)")
_GLUED = re.compile(_LETTER + r"(?=\d)")
_FACTOR_BEFORE = re.compile(
    r"[×·*+/^÷−\d)）-]\s*$|\\(?:[,;:!]|[a-z]+)\s*$|(?:^|[^A-Za-z])[A-Za-z](?:_[a-z]{1,3})?\s+$"
)


def defined_letters(texts: Iterable[str]) -> dict[str, str]:
    """Return the config fields of the letters that an article defines, each with one meaning.

    Example:
        >>> defined_letters(["V(词表大小)*h(指定向量维度)", "let L be the number of layers"])
        {'V': 'vocab_size', 'h': 'hidden_size', 'L': 'num_hidden_layers'}
    """
    meanings: dict[str, set[str]] = {}
    in_rows: dict[str, set[str]] = {}
    weak: set[str] = set()
    for text in texts:
        for word in size_words(lowered(text)):
            for letter in (*_letter_before(text, word), *_letter_after(text, word)):
                meanings.setdefault(letter, set()).add(word.field)
                weak.update([letter] * (word.kind == "weak"))
            row = _ROW.fullmatch(text, 0, word.start)
            if row and _may_mean(row["letter"], word.field):
                in_rows.setdefault(row["letter"], set()).add(word.field)
    letters = {}
    for letter, fields in (in_rows | meanings).items():
        if len(fields) == 1:
            (letters[letter],) = fields
    return _with_embedding_size(letters, weak)


def _with_embedding_size(letters: dict[str, str], weak: set[str]) -> dict[str, str]:
    """Return letters in which the E of "embedding size E" is not the hidden size, if that is H.

    ``weak`` are the letters whose words may mean either.
    """
    hidden = {letter for letter, field in letters.items() if field == "hidden_size"}
    if hidden - weak:
        letters.update(dict.fromkeys(hidden & weak, "embedding_size"))
    return letters


def letter_sizes(text: str, letters: Mapping[str, str]) -> list[tuple[str, WholeNumber]]:
    """Return the letters that a line equates with numbers.

    Letters that the article defines, ``letters``, may have a word for the sign of equality. Other
    small letters only count if the line has several.

    Example:
        >>> line = "H=768, d_ff = 3072, 4*H = 3, x=2H, h 是 12"
        >>> sizes = letter_sizes(line, {"h": "num_attention_heads"})
        >>> [(letter, number.value) for letter, number in sizes]
        [('H', 768), ('d_ff', 3072), ('h', 12)]
    """
    numbers = whole_numbers(text)
    sizes = []
    for match in _ASSIGNED.finditer(text):
        number = numbers.get(match.end())
        before = text[max(0, match.start() - _LONGEST_FACTOR) : match.start()]
        if number and not _FACTOR.match(text, number.end) and not _FACTOR_BEFORE.search(before):
            sizes.append((match["letter"], number))
    if len(sizes) == 1 and sizes[0][0].islower() and len(sizes[0][0]) == 1:
        sizes = [(letter, number) for letter, number in sizes if letter in letters]
    return [*sizes, *_beside_letters(_IN_WORDS, text, letters)]


def glued_sizes(text: str, letters: Mapping[str, str]) -> list[tuple[str, WholeNumber]]:
    """Return the defined letters that stand right before a number, as "h12" without its sign.

    It is the value of the letter only if the article also states it elsewhere: "H100" is a device.
    """
    return _beside_letters(_GLUED, text, letters)


def _beside_letters(
    pattern: re.Pattern[str], text: str, letters: Mapping[str, str]
) -> list[tuple[str, WholeNumber]]:
    numbers = whole_numbers(text)
    sizes = []
    for match in pattern.finditer(text):
        number = numbers.get(match.end())
        if number and match["letter"] in letters:
            sizes.append((match["letter"], number))
    return sizes


def field_of_letter(
    letter: str, value: int, letters: Mapping[str, str], fields: Mapping[str, int]
) -> str:
    """Return the field of a letter with a value; "" if the letter stands for no size.

    The article's definition comes first, then a field that the article gives the same value in
    words, then the first usual meaning with a plausible value.
    """
    usual = _usual_fields().get(letter, [])
    if letter in letters:
        usual = [letters[letter]]
    plausible = [field for field in usual if is_plausible(field, value)]
    for field in plausible:
        if fields.get(field) == value:
            return field
    return next(iter(plausible), "")


def _letter_before(text: str, word: SizeWord) -> Iterator[str]:
    """Yield the letter that a name explains: "H（隐藏层大小）", "L is the number of layers"."""
    before = text[max(0, word.start - _WINDOW) : word.start]
    match = None
    last = before.rstrip()[-1:]
    if last in _SIGNS or last.isdecimal() or ends_with(before, "denotes", "between"):
        match = _before_pattern().search(before)
    if match is None:
        if word.kind == "counted":
            yield from _letter_counted(text, word)
        return
    is_explained = not match["number"] or word.kind == "words"  # in "K = 2 experts" K may be any
    if word.kind != "loose" and is_explained and _may_mean(match["letter"], word.field):
        yield match["letter"]


def _letter_counted(text: str, word: SizeWord) -> Iterator[str]:
    """Yield the letter right before a noun: "L layers", "num_heads个头"."""
    match = _COUNTED.search(text, max(0, word.start - _WINDOW), word.start)
    if match and word.field in _usual_fields().get(match["letter"], []):
        yield match["letter"]


def _letter_after(text: str, word: SizeWord) -> Iterator[str]:
    """Yield the letter that follows a name: "hidden size (H)", "词汇表大小为V"."""
    if word.kind == "loose":
        return
    match = _after_pattern().match(text, word.end, word.end + _WINDOW)
    if match is None:
        return
    letter = match["letter"]
    is_usual = word.field in _usual_fields().get(letter, []) and word.kind != "counted"
    if is_usual or (match["bracket"] and _may_mean(letter, word.field)):
        yield letter


def _may_mean(letter: str, field: str) -> bool:
    """Return whether a definition is believed; longer names such as d_ffn keep their meaning."""
    if letter in _NO_LETTERS:
        return False
    usual = _usual_fields().get(letter, [])
    return len(letter) == 1 or field in usual or (not usual and "_" in letter)


_SIGNS = tuple("(（:：=＝|")
_ROW = re.compile(rf"[\s|]*{_LETTER}\s*(?:\||\s\s)\s*(?:[^|\d]{{1,30}}(?:\||\s\s)\s*)?")
"""A row of a table from a letter to one of the next two cells: | F | hidden_dim | ffn size |."""
_COUNTED = re.compile(_LETTER + r"(?:\s|个|-)*$")


@cache
def _before_pattern() -> re.Pattern[str]:
    sign = (
        r"[(（:：=＝|]\s*(?:即|指|为|是)?|[,，]\s*(?:the|即|为)|(?P<number>[=＝]\s*[\d,]+\s*[(（]?)"
    )
    return re.compile(
        rf"{_LETTER}\s*(?:{sign}|{stating('denotes')})\s*(?:{stating('between')}\s*){{0,2}}$"
    )


@cache
def _after_pattern() -> re.Pattern[str]:
    endings, named = stating("endings"), stating("named")
    letter = _LETTER.replace(r"(?<![A-Za-z0-9_\\])", "")
    return re.compile(
        rf"(?:\s*{endings})?\s*(?:(?P<bracket>[(（|]\s*)|{named}\s*|,\s*)?\s*"
        rf"{letter}(?![A-Za-z0-9_])"
        r"(?(bracket)\s*[)）=＝|])"
    )


@cache
def _usual_fields() -> Mapping[str, list[str]]:
    """Return the fields that each letter may stand for, the most usual first."""
    usual: dict[str, list[str]] = {}
    for table in ("letters", "also"):
        for field, size in terms.facts()["sizes"].items():
            for letter in size.get(table, ()):
                fields = usual.setdefault(letter, [])
                if field not in fields:
                    fields.append(field)
    return usual


# Letters in a list: H | embedding_size | embedding size | 128

_CELL_BREAK = re.compile(r"\s*\|\s*|\s{2,}|\t")
_SYMBOL = re.compile(r"[A-Za-z](?:_[A-Za-z0-9]+)*|[a-z]+(?:_[a-z0-9]+)+")
_FIELD_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_.][a-z0-9]+)+")
_COUNT = re.compile(r"\d{1,3}(?:,\d{3})+|\d+")


def listed_letters(texts: Iterable[str]) -> dict[str, Fraction]:
    """Return the numbers of letters that a list gives with the config field of each.

    Example:
        >>> listed_letters(["| H_e | embedding_size | embedding size | 128 |"])
        {'H_e': Fraction(128, 1), 'embedding_size': Fraction(128, 1)}
    """
    values: dict[str, Fraction] = {}
    for text in texts:
        cells = [cell for cell in _CELL_BREAK.split(text.strip(" |")) if cell]
        if len(cells) < _LEAST_CELLS or not _COUNT.fullmatch(cells[-1]):
            continue
        letter, field = cells[:2]
        if _SYMBOL.fullmatch(letter) and _FIELD_NAME.fullmatch(field):
            number = Fraction(cells[-1].replace(",", ""))
            values.setdefault(letter, number)
            values.setdefault(field, number)
    return values


_LEAST_CELLS = 3
