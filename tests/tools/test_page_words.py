"""The words of generated pages: none is missing, none is left over, and figures are the same."""

from __future__ import annotations

import html
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import page_words
import pytest

from weighbridge.data import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
OTHER_LANGUAGES = [lang for lang in LANGUAGES if lang != page_words.ENGLISH]
SAID = ("docs/questions.toml", "tools/robustness.toml", "bench/scoreboard.toml")
"""Files with texts of pages, beside the data that they are about."""
FIGURE = re.compile(r"(?<![A-Za-z0-9_.-])\d(?:[\d,.]*\d)?")
CHINESE = re.compile(r"[\u3000-\u9fff\uff00-\uffef]")
WORD = re.compile(r"[a-z]{3}")
ENTRIES = [
    (lang, page, english, words)
    for lang in OTHER_LANGUAGES
    for page, listed in page_words.translations(lang).items()
    for english, words in listed.items()
]
every_entry = pytest.mark.parametrize(("lang", "page", "english", "words"), ENTRIES)


def pattern(words: str) -> str:
    """Return words with values in braces as a regular expression."""
    return ".*?".join(map(re.escape, re.split(r"\{\w*\}", words)))


def said_on(page: str) -> str:
    """Return what a page says in English, and what its picture says if it has one."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    picture = ROOT / "docs" / f"{page}.svg"
    if picture.exists():
        drawn = re.sub("<[^>]*>", " ", picture.read_text(encoding="utf-8"))
        text += " ".join(html.unescape(drawn).split())
    return text


@every_entry
def test_words_are_those_of_the_page(lang: str, page: str, english: str, words: str) -> None:
    assert re.search(pattern(english), said_on(page)), (
        f"[{page}] of {lang}: {english!r} is left over"
    )
    assert sorted(re.findall(r"\{\w*\}", words)) == sorted(re.findall(r"\{\w*\}", english))
    assert set(FIGURE.findall(words)) == set(FIGURE.findall(english))


def test_words_that_are_missing_end_the_program() -> None:
    say = page_words.words_of("questions", "zh")
    with pytest.raises(SystemExit, match=r"\[questions\] has no words for 'no such'"):
        say("no such")


def texts(data: Any) -> Iterator[dict[str, str]]:
    """Yield the texts of a data file that have a language."""
    if isinstance(data, dict) and page_words.ENGLISH in data:
        yield data
    elif isinstance(data, dict | list):
        for part in data.values() if isinstance(data, dict) else data:
            yield from texts(part)


@pytest.mark.parametrize("name", SAID)
def test_a_text_says_the_same_in_every_language(name: str) -> None:
    found = list(texts(tomllib.loads((ROOT / name).read_text(encoding="utf-8"))))
    assert found
    for text in found:
        english = text["en"]
        assert set(text) == set(LANGUAGES), english
        assert set(FIGURE.findall(text["zh"])) == set(FIGURE.findall(english))
        assert re.findall("`.*?`", text["zh"]) == re.findall("`.*?`", english)
        assert CHINESE.search(text["zh"]) or not WORD.search(english), english
