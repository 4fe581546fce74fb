"""Finds the model that each size belongs to, and the article's own model.

A size belongs to the model that its sentence names last before it, or else to the model of the
heading above it, or else to the article's own model.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from weighbridge.articles.sizes.words import (
    SizeCandidate,
    WholeNumber,
    elected,
    has_word,
    lowered,
    sentence_of,
    stating,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weighbridge.articles.sizes.model_names import ModelName
    from weighbridge.articles.text.lines import ArticleLine

_LONGEST_HEADING = 40  # characters
_WINDOW = 64  # characters between a name and the words that say what it is there for
_MOST_COMPARED = 4  # names before a number; only the last ones are looked at


def with_models(
    lines: Sequence[ArticleLine],
    names: Mapping[int, list[ModelName]],
    candidates: Iterable[SizeCandidate],
) -> list[SizeCandidate]:
    """Return the candidates with the model that each belongs to, and whether they are supposed."""
    texts = {line.number: line.text for line in lines}
    headings = _headings(lines, names)
    scoped = []
    for candidate in candidates:
        text, start = texts[candidate.line], candidate.number.start
        sentence = sentence_of(text, start)[0]
        model = candidate.model
        if model is None:
            model = _model_of(text, names[candidate.line], candidate.number, sentence)
        is_supposed = has_word(lowered(text[sentence:start]), "supposed")
        model = model or headings[candidate.line]
        scoped.append(candidate._replace(model=model, is_supposed=is_supposed))
    return scoped


def _model_of(
    text: str, names: Sequence[ModelName], number: WholeNumber, sentence: int
) -> ModelName | None:
    """Return the model that a sentence names last before a number, or right after it."""
    starts = [name.start for name in names]
    following = bisect_left(starts, number.start)
    for name in names[following : following + 1]:
        if _FOR.fullmatch(text, number.end, name.start):
            return name
    first_of_sentence = bisect_left(starts, sentence)
    before = names[first_of_sentence:following]
    if len(before) > 1 and _has_word_in(text, before[-1].end, number.start, "shared"):
        return None
    for name in before[:-_MOST_COMPARED:-1]:
        if not _has_word_in(text, max(sentence, name.start - _WINDOW), name.start, "compared"):
            return name
    if first_of_sentence and _pronouns().match(lowered(text), sentence):
        return names[first_of_sentence - 1]
    return None


def _has_word_in(text: str, start: int, end: int, name: str) -> bool:
    """Return whether one of the words that state sizes in this way stands between two columns."""
    return has_word(lowered(text[start : min(end, start + _WINDOW)]), name)


def _headings(
    lines: Sequence[ArticleLine], names: Mapping[int, list[ModelName]]
) -> dict[int, ModelName | None]:
    """Return the model of the last heading before each line; a short line with a name is one."""
    headings: dict[int, ModelName | None] = {}
    current = None
    for line in lines:
        line_names = names[line.number]
        if len(line_names) == 1 and _is_heading(line.text, line_names[0]):
            current = line_names[0]
        headings[line.number] = current
    return headings


def _is_heading(text: str, name: ModelName) -> bool:
    """Return whether a line announces a model: it is short, and the name ends or begins it."""
    text = text.strip(" \t*#_")
    if not text or len(text) > _LONGEST_HEADING or text[-1] in "。.,，;；!！?？":
        return False
    if name.class_name or name.release:
        return False
    rest = text.replace(name.text, "", 1)
    return text[-1] in ":：" or _heading_rest().fullmatch(rest) is not None


_FOR = re.compile(r"[^\d,，。;；|]{0,16}\s(?:for|in|of)\s+(?:the\s+)?|\s*[(（]\s*")


@cache
def _heading_rest() -> re.Pattern[str]:
    numbering = r"[\d\s.、:：()（）一二三四五六七八九十*#-]*"
    return re.compile(rf"{numbering}(?:{stating('headings')}|[\s:：()（）-])*", re.IGNORECASE)


@cache
def _pronouns() -> re.Pattern[str]:
    return re.compile(rf"\s*{stating('pronouns')}")


# The article's own model


_TITLE_LINES = 8  # lines with text among which the title is, on pages with a menu above it


def article_model(
    lines: Sequence[ArticleLine],
    names: Mapping[int, list[ModelName]],
    candidates: Sequence[SizeCandidate],
) -> ModelName | None:
    """Return the name of the article's model, as completely as the article has it."""
    all_names = [name for line in lines for name in names[line.number]]
    title = _title_name(lines, names, all_names)
    if title is None:
        return None
    real = [candidate for candidate in candidates if not candidate.is_supposed]
    unscoped = elected(candidate for candidate in real if candidate.model is None)
    counts: Counter[tuple[str, ...]] = Counter()
    spelled: dict[tuple[str, ...], ModelName] = {}
    for name in all_names:
        completed = _completed(title, name)
        if completed and not _contradicts(name, candidates, unscoped):
            counts[completed.words] += 1
            spelled.setdefault(completed.words, completed)
    if not counts:
        return title
    return spelled[counts.most_common(1)[0][0]]


def _completed(title: ModelName, name: ModelName) -> ModelName | None:
    """Return a name with more words than the title's, which it completes; None if it does not.

    A bare "base" completes "BERT", but not "Llama 2 7B", whose size is known.
    """
    if not name.is_bare:
        if set(name.words) > set(title.words):
            return name
        return None
    is_sized = not {"b", "m", *name.words}.isdisjoint(title.words)
    if title.release or is_sized:
        return None
    return name._replace(text=f"{title.text} {name.text}", words=(*title.words, *name.words))


def _title_name(
    lines: Sequence[ArticleLine],
    names: Mapping[int, list[ModelName]],
    all_names: Sequence[ModelName],
) -> ModelName | None:
    """Return the first name in the title, or else the model that is named most."""
    titles = [line for line in lines if line.text.strip()][:_TITLE_LINES]
    for line in titles:
        for name in names[line.number]:
            if not name.is_bare:
                return name
    counts = Counter(name.words[0] for name in all_names if not name.is_bare)
    for most_named, _ in counts.most_common(1):
        return next(name for name in all_names if name.words[0] == most_named)
    return None


def _contradicts(
    name: ModelName, candidates: Sequence[SizeCandidate], unscoped: Mapping[str, int]
) -> bool:
    """Return whether a model has other sizes than those that are stated without a model."""
    sizes = elected(size for size in candidates if size.model and size.model.words == name.words)
    return any(unscoped.get(field, value) != value for field, value in sizes.items())
