"""The vocabulary of published derivations: words for "equal", for components and for sizes."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from weighbridge import data

WIDE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # characters of Chinese
_WIDE = re.compile(f"[{WIDE}]")


def facts() -> dict[str, Any]:
    """Return the whole table."""
    return data.read_toml("facts/article_terms.toml")


def mentions(text: str, words: list[str]) -> bool:
    """Return whether a text has one of these words; Latin words must be whole words.

    Example:
        >>> mentions("Their sum is", ["sum"]), mentions("We summarise", ["sum"])
        (True, False)
        >>> mentions("三项之和", ["之和"])
        True
    """
    return bool(_any_of(tuple(words)).search(text.lower()))


@cache
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    patterns = []
    for word in words:
        pattern = re.escape(word)
        if not _WIDE.search(word):
            pattern = rf"(?<![a-z]){pattern}(?![a-z])"
        patterns.append(pattern)
    return re.compile("|".join(patterns))


@cache
def relations() -> dict[str, str]:
    """Return the relation of each phrase that means "equal": "equals", "which equals"."""
    phrases = {}
    for relation, words in facts()["relations"].items():
        for word in words:
            phrases[word] = relation
            for filler in _fillers_before(word):
                phrases[filler + word] = relation
    return phrases


def _fillers_before(word: str) -> list[str]:
    """Return the words that may stand before a word for "equal": "which equals", 这可以简化为."""
    if _WIDE.search(word):
        fillers: list[str] = facts()["fillers"]["before_chinese"]
        return fillers
    return [f"{filler} " for filler in facts()["fillers"]["before"]]


@cache
def relation_at_end() -> re.Pattern[str]:
    """Return a pattern for such a phrase at the end of Chinese text, the longest first."""
    wide = sorted((word for word in relations() if _WIDE.search(word)), key=len, reverse=True)
    return re.compile(f"(?:{'|'.join(wide)})$")


def has_wide(text: str) -> bool:
    """Return whether a text has Chinese characters."""
    return bool(_WIDE.search(text))


@cache
def operator_words() -> re.Pattern[str]:
    """Return a pattern for the words for operations, the longest first."""
    words = [word for words in facts()["operators"].values() for word in words]
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile("|".join(map(_operator_pattern, longest_first)))


def _operator_pattern(word: str) -> str:
    return word if _WIDE.search(word) else rf"^{word}$"


@cache
def operator_of(word: str) -> str:
    """Return the sign of a word for an operation."""
    for sign, words in facts()["operators"].items():
        if word in words:
            return str(sign)
    return ""


@cache
def config_field_of(letter: str) -> str | None:
    """Return the config field for which derivations use a letter.

    Example:
        >>> config_field_of("H"), config_field_of("d_model"), config_field_of("q")
        ('hidden_size', 'hidden_size', None)
    """
    for field, size in facts()["sizes"].items():
        if letter in size["letters"]:
            return str(field)
    return None


def rank_of(letter: str) -> int:
    """Return the position of a letter among the factors of a term: V·H, not H·V."""
    fields = [*facts()["sizes"]]
    field = config_field_of(letter)
    if field is None:
        return len(fields)
    return fields.index(field)
