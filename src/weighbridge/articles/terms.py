"""The words of published derivations, from the facts: how they say equal, and what they call parts and sizes."""

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


def said(text: str, words: list[str]) -> bool:
    """Whether one of these words stands in a text; a word of letters stands there alone.

    Example:
        >>> said("Their sum is", ["sum"]), said("We summarise", ["sum"]), said("三项之和", ["之和"])
        (True, False, True)
    """
    return bool(_any_of(tuple(words)).search(text.lower()))


@cache
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    each = (
        re.escape(word) if _WIDE.search(word) else rf"(?<![a-z]){re.escape(word)}(?![a-z])"
        for word in words
    )
    return re.compile("|".join(each))


@cache
def relations() -> dict[str, str]:
    """Return every word that says that two things are equal, or nearly, with the sign that it stands for."""
    known = {word: sign for sign, words in facts()["relations"].items() for word in words}
    before = facts()["fillers"]["before"]
    return {**known, **{f"{filler} {word}": known[word] for word in known for filler in before}}


@cache
def relation_at_end() -> re.Pattern[str]:
    """Return what finds such a word at the end of Chinese text, the longest first."""
    wide = sorted((word for word in relations() if _WIDE.search(word)), key=len, reverse=True)
    return re.compile(f"(?:{'|'.join(wide)})$")


@cache
def size_of(letter: str) -> str | None:
    """Return the config field of a letter that derivations use for it.

    Example:
        >>> size_of("H"), size_of("d_model"), size_of("q")
        ('hidden_size', 'hidden_size', None)
    """
    return next(
        (field for field, size in facts()["sizes"].items() if letter in size["letters"]), None
    )


def rank_of(letter: str) -> int:
    """Return the place of a letter among the factors of a term: V·H, not H·V."""
    fields = [*facts()["sizes"]]
    field = size_of(letter)
    return fields.index(field) if field else len(fields)
