"""Finds the names of sizes, and the numbers that may be sizes, in a line."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.articles.text import terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weighbridge.articles.sizes.model_names import ModelName

_SEPARATOR = "[ _-]{0,2}"  # between the words of a name: hidden_size, hidden size, hiddensize
_MOST_LINES = 10_000  # whose names are kept, because several readers ask for them
_BEFORE = 32  # characters in which the words before a number are looked for
_NUMBER = re.compile(
    r"(?<!\d)(?<!\d[.。])(?:\d{1,3}(?:[,，]\d{3})+(?!\d)|\d{1,3}(?:_\d{3})+(?!\d)|\d+)"
)
_LATIN = re.compile("[A-Za-z]")
NAME_WEIGHT = 5
"""The weight of a number beside a name, against other ways to state a size."""
_KINDS = ("words", "symbols", "weak", "counted", "loose")
_LEAST_SYMBOL = 5  # characters; a shorter symbol is read as a letter
_LONGEST_SENTENCE = 600  # characters before and after a number; bounds the time of long lines
_MOST_DIGITS = 9  # of a size
_NO_SIZE_AFTER = re.compile(
    r"[.。]\d|[A-Za-z](?![A-Za-z])|\s*\\(?:times|cdot|div)|[eE][+-]?\d|(?:st|nd|rd|th)(?![a-z])"
    r"|\s*(?:[×✕·⋅∙÷+^²³%％]|\*(?!\*)|/\s*[\dA-Za-z(]|[xX](?=\s?[\d(])|[-–—~～]\s*\d)"
    r"|\s*(?:to|or|到|至|或|或者)\s*\d"
    r"|\s?(?:[kKMBGT]i?[bB]?(?![A-Za-z])|mn|bn|million|billion|thousand|[百千万亿])"
)
_OPERATOR_BEFORE = re.compile(r"(?:[×✕·⋅∙÷/+^−√<>≤≥~≈]|(?<!\*)\*|[A-Za-z\d)）]\s*-)\s*$")
_RANGE_BEFORE = re.compile(r"\d\s*(?:[-–—~～]|\bor\b|\bto\b|或|到|至)\s*$")
_RESULT_BEFORE = re.compile(r"[\d)）²]\s*=\s*$")


_SENTENCE_END = re.compile(r"[。;；!！?？]|\.(?=\s|$)")


class SizeWord(NamedTuple):
    """A name of a size in a line: its config field and its columns.

    ``kind`` is the table of the vocabulary that has the name: ``words``, ``symbols``, ``weak``,
    ``counted`` or ``loose``. ``counts`` is whether it may also stand after a number.
    """

    field: str
    start: int
    end: int
    kind: str
    counts: bool


class WholeNumber(NamedTuple):
    """A whole number in a line, which may be a size, with its columns."""

    value: int
    start: int
    end: int


class SizeCandidate(NamedTuple):
    """A number that states a size, with its weight against others, and its letter, if it has one.

    ``model`` is the model that it belongs to, if one is named; ``is_supposed`` is whether the
    article only supposes it.
    """

    field: str
    number: WholeNumber
    weight: int
    letter: str = ""
    line: int = 0
    model: ModelName | None = None
    is_supposed: bool = False


def lowered(text: str) -> str:
    """Return a line in lower case, with every character in its column."""
    lower = text.lower()
    if len(lower) != len(text):
        return text
    return lower


@lru_cache(maxsize=_MOST_LINES)
def size_words(lower: str) -> tuple[SizeWord, ...]:
    """Return the names of sizes in a line in lower case.

    Example:
        >>> [(word.field, word.kind) for word in size_words("ffn hidden size, 12 layers")]
        [('intermediate_size', 'words'), ('num_hidden_layers', 'counted')]
    """
    names: list[SizeWord] = []
    for match in _words_pattern().finditer(lower):
        if match[0] not in ambiguous_names():
            field, kind, counts = _meaning(match[0])
            names.append(SizeWord(field, match.start(), match.end(), kind, counts))
    return tuple(names)


def whole_numbers(text: str) -> dict[int, WholeNumber]:
    """Return the whole numbers in a line by their columns, without parts of calculations.

    Example:
        >>> [*whole_numbers("30,522×768, 12 heads, 110M, 1.5, 3万").values()]
        [WholeNumber(value=12, start=12, end=14)]
    """
    numbers = {}
    for match in _NUMBER.finditer(text):
        digits = re.sub(r"[,，_]", "", match[0])
        if len(digits) > _MOST_DIGITS or _NO_SIZE_AFTER.match(text, match.end()):
            continue
        before = text[max(0, match.start() - _BEFORE) : match.start()]
        if not _OPERATOR_BEFORE.search(before):
            numbers[match.start()] = WholeNumber(int(digits), match.start(), match.end())
    return numbers


def is_plausible(field: str, value: int, *, is_weak: bool = False) -> bool:
    """Return whether a model can have this value of a field; a weak name allows fewer values."""
    size = terms.facts()["sizes"][field]
    least, most = size["range"]
    if is_weak:
        least, most = size.get("weak_range", size["range"])
    return bool(least <= value <= most)


def is_count(lower: str, number: WholeNumber, field: str) -> bool:
    """Return whether a number before a noun counts it: not in "layer 12", "about 12", "6-12"."""
    before = lower[max(0, number.start - _BEFORE) : number.start]
    if re.search(r"[a-z_.#][-]?$", before) or _RANGE_BEFORE.search(before):
        return False
    if _RESULT_BEFORE.search(before) or ends_with(before, "ordinals", "rounded"):
        return False
    return field == "max_position_embeddings" or not ends_with(before, "limits")


def is_called_inexact(lower: str, number: WholeNumber) -> bool:
    """Return whether a word before a number says that it is not exact."""
    before = lower[max(0, number.start - _BEFORE) : number.start]
    return ends_with(before, "rounded")


@cache
def any_of(words: tuple[str, ...]) -> str:
    """Return a pattern for one of the words, the longest first; Latin words must be whole."""
    parts = []
    for word in sorted(words, key=len, reverse=True):
        part = re.escape(word).replace(r"\ ", r"\s?")
        if word[0].isascii() and word[0].isalpha():
            part = rf"(?<![a-z]){part}"
        if word[-1].isascii() and word[-1].isalpha():
            part = rf"{part}(?![a-z])"
        parts.append(part)
    return f"(?:{'|'.join(parts)})"


def stating(*names: str) -> str:
    """Return a pattern for one of the words that state sizes in these ways."""
    return any_of(_words_stating(*names))


@cache
def _words_stating(*names: str) -> tuple[str, ...]:
    words: list[str] = []
    for name in names:
        words += terms.facts()["stating"][name]
    return tuple(words)


def sentence_of(text: str, at: int) -> tuple[int, int]:
    """Return where the sentence of a column begins and ends.

    Example:
        >>> sentence_of("It is 3.5. A layer; no", 11)
        (10, 19)
    """
    start, end = max(0, at - _LONGEST_SENTENCE), min(len(text), at + _LONGEST_SENTENCE)
    for match in _SENTENCE_END.finditer(text, start, at):
        start = match.end()
    following = _SENTENCE_END.search(text, at, end)
    if following is None:
        return start, end
    return start, following.end()


def has_word(text: str, name: str) -> bool:
    """Return whether a text in lower case has one of the words that state sizes in this way."""
    words = _words_stating(name)
    return any(word in text for word in words) and bool(_whole_words(name).search(text))


def ends_with(text: str, *names: str) -> bool:
    """Return whether a text ends with one of the words that state sizes in these ways.

    Example:
        >>> ends_with("a vocabulary of about ", "rounded"), ends_with("thereabout", "rounded")
        (True, False)
    """
    text = text.rstrip()
    words = _words_stating(*names)
    if not text.endswith(words):
        return False
    for word in filter(text.endswith, words):
        before = text[: len(text) - len(word)][-1:]
        if not (_LATIN.match(before) and _LATIN.match(word)):
            return True
    return False


@cache
def _whole_words(name: str) -> re.Pattern[str]:
    return re.compile(stating(name))


def elected(candidates: Iterable[SizeCandidate]) -> dict[str, int]:
    """Return the value of each field that is stated with the most weight."""
    votes: dict[str, Counter[int]] = {}
    for candidate in candidates:
        votes.setdefault(candidate.field, Counter())[candidate.number.value] += candidate.weight
    return {field: values.most_common(1)[0][0] for field, values in votes.items()}


# The vocabulary


@cache
def _vocabulary() -> Mapping[str, tuple[str, str, bool]]:
    """Return the field, the kind and whether it counts, of each name without separators.

    The names with "_" are also listed as they are: `embedding_size` is not an embedding size.
    """
    vocabulary: dict[str, tuple[str, str, bool]] = {}
    for field, size in terms.facts()["sizes"].items():
        counted = {_normal(name) for name in (*size.get("counted", ()), *size.get("loose", ()))}
        for kind in _KINDS:
            for name in _names_of(size, kind):
                normal = _normal(name)
                vocabulary.setdefault(normal, (field, kind, normal in counted))
                if "_" in name:
                    vocabulary.setdefault(name.lower(), (field, kind, normal in counted))
    return vocabulary


def _meaning(name: str) -> tuple[str, str, bool]:
    """Return the field, the kind and whether it counts, of a name as it is spelled."""
    vocabulary = _vocabulary()
    return vocabulary.get(name) or vocabulary[_normal(name)]


def _names_of(size: Mapping[str, Any], kind: str) -> Iterable[str]:
    if kind == "words":
        return [*size["words"], *size["configs"]]
    if kind == "symbols":
        symbols = [*size["letters"], *size.get("also", ())]
        return [symbol for symbol in symbols if "_" in symbol or len(symbol) >= _LEAST_SYMBOL]
    names: list[str] = size.get(kind, [])
    return names


def _normal(name: str) -> str:
    return re.sub("[ _-]", "", name.lower())


@cache
def ambiguous_names() -> frozenset[str]:
    """Return the names that two fields share, as hidden_dim in different families."""
    configs = Counter(name for size in terms.facts()["sizes"].values() for name in size["configs"])
    return frozenset(name for name, count in configs.items() if count > 1)


@cache
def _words_pattern() -> re.Pattern[str]:
    """Return a pattern for all names, grouped by their first letters, which makes it fast."""
    by_letter: dict[str, set[str]] = {}
    for size in terms.facts()["sizes"].values():
        for kind in _KINDS:
            for name in _names_of(size, kind):
                by_letter.setdefault(name[0].lower(), set()).add(name.lower()[1:])
    groups = []
    for letter, rests in by_letter.items():
        parts = [_rest_pattern(rest) for rest in sorted(rests, key=_length, reverse=True)]
        boundary = ""
        if letter.isascii():
            boundary = "(?<![a-z])(?<![a-z]_)"
        groups.append(f"{boundary}{re.escape(letter)}(?:{'|'.join(parts)})")
    return re.compile("|".join(groups))


def _rest_pattern(rest: str) -> str:
    part = re.sub(r"\\?[ _-]", lambda _: _SEPARATOR, re.escape(rest))
    if rest and rest[-1].isascii():
        return f"{part}(?!_?[a-z])"
    return part


def _length(name: str) -> int:
    return len(_normal(name))
