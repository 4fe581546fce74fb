"""Gives the words of what tools write into pages, in the language of the page.

A tool has its words in English. ``tools/page_words.zh.toml`` has them in Chinese, by page, so that
the same code makes a page and its translation from the same figures::

    say = words_of("census", "zh")
    say("under 100M")
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ENGLISH = "en"


@cache
def translations(lang: str) -> dict[str, dict[str, str]]:
    """Return the words of all pages in a language, by page and by the English words."""
    path = Path(__file__).with_suffix(f".{lang}.toml")
    listed: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return listed


def words_of(page: str, lang: str) -> Callable[[str], str]:
    """Return what gives the words of a page in a language; words without any end the program.

    Example:
        >>> words_of("questions", "en")("it fits"), words_of("questions", "zh")("it fits")
        ('it fits', '放得下')
    """
    if lang == ENGLISH:
        return str
    listed = translations(lang)[page]

    def say(words: str) -> str:
        if words not in listed:
            raise SystemExit(f"page_words.{lang}.toml: [{page}] has no words for {words!r}")
        return listed[words]

    return say
