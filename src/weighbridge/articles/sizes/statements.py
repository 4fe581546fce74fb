"""Reads sizes in words: "隐藏层维度768", "a hidden size of 768", "12 layers", "768是隐藏维度"."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from weighbridge.articles.sizes.shapes import sizes_in_shapes
from weighbridge.articles.sizes.words import (
    NAME_WEIGHT,
    SizeCandidate,
    SizeWord,
    WholeNumber,
    any_of,
    has_word,
    is_called_inexact,
    is_count,
    is_plausible,
    lowered,
    sentence_of,
    size_words,
    stating,
    whole_numbers,
)
from weighbridge.articles.text import terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LONGEST_COUNT = 6  # characters: the last digits of a number and what parts it from its noun
_LONGEST_FACTOR = 12  # characters of a number and its sign before a noun
_LONGEST_LINK = 48  # characters between a name and its number
_MOST_FILLERS = 6  # words and spaces between a number and its noun
_LEAST_LOOSE = 128  # "64维" is a head's more often than a model's
_HEADS = ("num_attention_heads", "num_key_value_heads")
_LENGTH = "max_position_embeddings"

_COUNT_WEIGHT, _WEAK_WEIGHT = 2, 1  # of other ways to state a size than a name


def sizes_on_line(text: str) -> Iterator[SizeCandidate]:
    """Yield the sizes that a line states in words and shapes, the surest way first."""
    lower = lowered(text)
    words, numbers = size_words(lower), whole_numbers(lower)
    yield from sizes_in_shapes(lower)
    taken: set[int] = set()
    ways = (_listed, _after_names, _before_names, _counted)
    for way in ways:
        for candidate in way(lower, words, numbers):
            if candidate.number.start not in taken:
                taken.add(candidate.number.start)
                yield candidate


def _after_names(
    lower: str, words: Sequence[SizeWord], numbers: Mapping[int, WholeNumber]
) -> Iterator[SizeCandidate]:
    """Yield each number after a name: "hidden size (H): 768", "隐藏层维度768"."""
    starts = {word.start: word for word in words}
    for word in words:
        each = _EACH.match(lower, word.end)
        if word.field in _HEADS and each and each.end() in numbers:
            yield SizeCandidate("head_dim", numbers[each.end()], NAME_WEIGHT)
            continue
        number = _linked_number(lower, word, numbers)
        if number is None or _counts_others(lower, number, word, starts):
            continue
        if _is_size(lower, word, number):
            weight = NAME_WEIGHT
            if word.kind == "weak":
                weight = _WEAK_WEIGHT
            yield SizeCandidate(word.field, number, weight)


def _linked_number(
    lower: str, word: SizeWord, numbers: Mapping[int, WholeNumber]
) -> WholeNumber | None:
    """Return the number that only words without a meaning of their own part from a name."""
    link = _link_pattern().match(lower, word.end, word.end + _LONGEST_LINK)
    if link is None or word.kind == "loose":
        return None
    if word.kind == "counted" and not _SIGN.search(link[0]):
        return None
    if _FACTOR_BEFORE.search(lower, max(0, word.start - _LONGEST_FACTOR), word.start):
        return None
    has_number = _NUMBER_BEFORE.search(lower, max(0, word.start - _LONGEST_COUNT), word.start)
    if has_number and not _VERB.search(link[0]):  # 64 in "768 hidden units (64 for each head)"
        return None
    return numbers.get(link.end())


def _counts_others(
    lower: str, number: WholeNumber, word: SizeWord, starts: Mapping[int, SizeWord]
) -> bool:
    """Return whether a number counts a noun after it: the 24 of "隐藏层 24 层" are layers."""
    noun = _noun_after(lower, number, starts)
    if noun is None or noun.field == word.field:
        return False
    return noun.kind == "counted" and noun.field not in ("hidden_size", word.field)


def _before_names(
    lower: str, words: Sequence[SizeWord], numbers: Mapping[int, WholeNumber]
) -> Iterator[SizeCandidate]:
    """Yield each number before a name and a verb: "21128就是bert字典的大小"."""
    starts = {word.start: word for word in words}
    for number in numbers.values():
        link = _backward_pattern().match(lower, number.end)
        word = starts.get(link.end()) if link else None
        if word and word.kind in ("words", "symbols", "weak") and _is_size(lower, word, number):
            yield SizeCandidate(word.field, number, _COUNT_WEIGHT)


def _counted(
    lower: str, words: Sequence[SizeWord], numbers: Mapping[int, WholeNumber]
) -> Iterator[SizeCandidate]:
    """Yield each number before the noun that it counts: "12 layers", "12层、768维、12头"."""
    starts = {word.start: word for word in words if word.counts}
    loose: list[SizeCandidate] = []
    counted_fields = set()
    for number in numbers.values():
        word = _noun_after(lower, number, starts)
        if word is None or not _is_size(lower, word, number):
            continue
        if not is_count(lower, number, word.field):
            continue
        field = _meant_field(lower, word, number)
        if word.kind == "loose":
            loose.append(SizeCandidate(word.field, number, _WEAK_WEIGHT))
        else:
            counted_fields.add(word.field)
            yield SizeCandidate(field, number, _COUNT_WEIGHT)
    if counted_fields & {"num_hidden_layers", "num_attention_heads"}:
        likely = [size for size in loose if size.number.value >= _LEAST_LOOSE]
        yield from likely[:1]


def _meant_field(lower: str, word: SizeWord, number: WholeNumber) -> str:
    """Return the field of a counted noun: in "激活 2 个专家" they are the experts of a token."""
    for field, pattern in _changed_fields().get(word.field, ()):
        if pattern.search(lower, max(0, number.start - _LONGEST_LINK), number.start):
            return field
    return word.field


def _listed(
    lower: str, words: Sequence[SizeWord], numbers: Mapping[int, WholeNumber]
) -> Iterator[SizeCandidate]:
    """Yield sizes listed in the order of their names: "层数和隐藏维度分别为12和768"."""
    for match in _respectively().finditer(lower):
        clause_start = max(lower.rfind(mark, 0, match.start()) for mark in "。;；\n.") + 1
        listed = [word for word in words if clause_start <= word.start < match.start()]
        in_row = _numbers_in_row(lower, match.end(), numbers)
        if 1 < len(in_row) == len(listed):
            for word, number in zip(listed, in_row, strict=True):
                if is_plausible(word.field, number.value):
                    yield SizeCandidate(word.field, number, NAME_WEIGHT)


def _numbers_in_row(
    lower: str, start: int, numbers: Mapping[int, WholeNumber]
) -> list[WholeNumber]:
    """Return the numbers that follow one another from a column: "12、768和12"."""
    in_row: list[WholeNumber] = []
    while start in numbers:
        in_row.append(numbers[start])
        following = _NEXT_ITEM.match(lower, numbers[start].end)
        if following is None:
            break
        start = following.end()
    return in_row


def _is_size(lower: str, word: SizeWord, number: WholeNumber) -> bool:
    """Return whether a number beside a name is plausible, exact, and not that of some data."""
    is_weak = word.kind == "weak"
    if not is_plausible(word.field, number.value, is_weak=is_weak) or is_called_inexact(
        lower, number
    ):
        return False
    if _OPERATOR_BEFORE_NAME.search(lower, max(0, word.start - 3), word.start):
        return False
    is_field = "_" in lower[word.start : word.end]
    if word.field != _LENGTH or is_field:
        return True
    start, end = sentence_of(lower, number.start)
    return not has_word(lower[start:end], "training")


def _noun_after(lower: str, number: WholeNumber, starts: Mapping[int, SizeWord]) -> SizeWord | None:
    """Return the name that follows a number, perhaps after a few fillers: "12 BERT layers"."""
    end = number.end
    for _ in range(_MOST_FILLERS):
        if end in starts:
            return starts[end]
        filler = _filler_pattern().match(lower, end)
        if filler is None:
            return None
        end = filler.end()
    return starts.get(end)


_VERB = re.compile(r"[:：=＝]|(?<![a-z])is(?![a-z])|为|是")
_FACTOR_BEFORE = re.compile(r"[×*·]\s*\d+\s*$")  # 256 in "32 buckets × 8 heads = 256"
_NUMBER_BEFORE = re.compile(r"\d\s?[个-]?\s?$")
_SIGN = re.compile(r"[:：=＝(（]|(?<![a-z])is(?![a-z])|为|是")
_EACH = re.compile(
    r",?\s*(?:each\s*)?(?:of|with|having)\s+(?:an?\s+)?"
    r"(?:(?:size|dimension|dimensionality|dim|width)\s+(?:of\s+)?)?(?=\d)"
)
_NEXT_ITEM = re.compile(r"\s*(?:、|,|，|和|与|以及|及|and|/|;)\s*(?:and\s*)?")
_OPERATOR_BEFORE_NAME = re.compile(r"(?:[×·+/^÷]|(?<!\*)\*)\s*$")


@cache
def _link_pattern() -> re.Pattern[str]:
    """Return a pattern for what stands between a name and its number."""
    remark = r"[(（\[][^()（）\[\]\d|=:：]{0,40}[)）\]]"
    sign = r"[=＝:：)）|]|is\b|为|是"
    letter = rf"[(（]?\s*\$?(?<![a-z])[a-z](?:_[a-z]{{1,6}})?\$?(?=\s*(?:{sign}))"
    hidden = r"(?:d_?mod(?:el|le)|hidden_size|n_embd|h|d)"
    multiple = (  # "中间层大小为4h，即3072"
        rf"[,，(（]?\s*(?:即|为|是|[=＝])?\s*\d\s?[×*·]?\s?{hidden}\s*[,，=＝(（]\s*(?:即|为|是)?"
    )
    signs = r"[\s\"'`:：=＝)）(（]|\*\*|->|→"
    words = stating("links", "endings")
    return re.compile(f"(?:{remark}|{multiple}|{letter}|{words}|{signs}){{0,12}}+")


@cache
def _backward_pattern() -> re.Pattern[str]:
    return re.compile(rf"\s*[,，]?\s*{stating('backward')}\s*(?:{stating('between')}\s*){{0,3}}+")


@cache
def _filler_pattern() -> re.Pattern[str]:
    return re.compile(rf"[ \t-]|\*\*|{stating('fillers')}")


@cache
def _changed_fields() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return, for each field, those that its nouns mean after other words, and these words."""
    changed: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for field, size in terms.facts()["sizes"].items():
        for other, words in size.get("instead_of", {}).items():
            pattern = re.compile(rf"{any_of(tuple(words))}\s*(?:the\s*)?$")
            changed.setdefault(other, []).append((field, pattern))
    return changed


@cache
def _respectively() -> re.Pattern[str]:
    return re.compile(
        r"(?:分别(?:为|是|取|设为|设置为|等于)|依次(?:为|是)|\bare(?: set to)?)\s*[:：]?\s*"
    )
