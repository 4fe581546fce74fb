"""Puts back the calculations of a page that lost its operators, and says what they come to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.lines import RIGHT, UNREAD, NumberVerdict, Stretch
from weighbridge.articles.lost import restore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.articles.lines import ArticleLine
    from weighbridge.articles.lost import Restored
    from weighbridge.counting.parts import PartIndex, PartName

_HEADS = "num_attention_heads"
_RUN = re.compile(r"(?<![\d.,])\d{4,}(?![\d.,])|\)\d|\d\(")
"""What a calculation without operators looks like: a long run of digits, or brackets beside one."""


class RestoredCalculation(NamedTuple):
    """A calculation that was put back: its line, how it reads, its value, and what that counts."""

    line: int
    text: str
    value: int
    part: PartName | None
    is_stated: bool


class Restorations(NamedTuple):
    """The calculations of an article that were put back, and the verdicts of their numbers."""

    calculations: tuple[RestoredCalculation, ...]
    verdicts: tuple[NumberVerdict, ...]


def restorations(
    lines: Sequence[ArticleLine], fields: Mapping[str, int], parts: Sequence[PartIndex]
) -> Restorations:
    """Put back the lost operators of all lines, with the sizes that the article states.

    A calculation is never called wrong: which operators were lost is a guess that its value
    confirms.
    """
    sizes = _sizes_and_shares(fields)
    known = {number: names[0] for number, names in _named(parts)}
    texts = {number: name.text() for number, name in known.items()}
    calculations: list[RestoredCalculation] = []
    verdicts: list[NumberVerdict] = []
    for line in lines:
        if sizes and _RUN.search(line.text):
            for restored in restore(line.text, sizes, fields.get(_HEADS), texts):
                verdicts += _verdicts(line, restored, known)
                if not restored.cut:
                    calculations.append(_calculation(line, restored, known))
    if calculations:
        verdicts += _left_over(lines, verdicts)
    return Restorations(tuple(calculations), tuple(verdicts))


def _left_over(
    lines: Iterable[ArticleLine], verdicts: Sequence[NumberVerdict]
) -> list[NumberVerdict]:
    """Return verdicts for the other long runs of digits on a page that lost its operators."""
    taken = {(verdict.at.line, column) for verdict in verdicts for column in _columns(verdict.at)}
    left = []
    for line in lines:
        for match in _LONG_RUN.finditer(line.text):
            if (line.number, match.start()) not in taken:
                at = Stretch(line.number, match.start(), match.end())
                left.append(NumberVerdict(at, match[0], UNREAD, "lost", {"about": ""}))
    return left


def _columns(at: Stretch) -> range:
    return range(at.start, at.end)


_LONG_RUN = re.compile(r"(?<![\d.,])\d{6,}(?![\d,])")


def _sizes_and_shares(fields: Mapping[str, int]) -> list[int]:
    """Return the sizes, with the size of a head if it is not stated."""
    sizes = list(fields.values())
    heads, hidden = fields.get(_HEADS), fields.get("hidden_size")
    if heads and hidden and hidden % heads == 0:
        sizes.append(hidden // heads)
    return sizes


def _named(parts: Iterable[PartIndex]) -> Iterator[tuple[int, tuple[PartName, ...]]]:
    seen: set[int] = set()
    for index in parts:
        for number in index.numbers:
            if number not in seen:
                seen.add(number)
                yield number, index.named(number)


def _calculation(
    line: ArticleLine, restored: Restored, known: Mapping[int, PartName]
) -> RestoredCalculation:
    part = known.get(restored.value)
    is_stated = restored.stated is not None
    return RestoredCalculation(line.number, restored.text, restored.value, part, is_stated)


def _verdicts(
    line: ArticleLine, restored: Restored, known: Mapping[int, PartName]
) -> Iterator[NumberVerdict]:
    at = Stretch(line.number, restored.start, restored.end)
    text = line.text[restored.start : restored.end]
    if restored.cut:
        yield NumberVerdict(at, text, UNREAD, "too_many_readings", {"about": ""})
        return
    values = {"calculation": restored.text, "part": known.get(restored.value, "")}
    reason = "restored_part" if restored.value in known else "restored"
    yield NumberVerdict(at, text, RIGHT, reason, values)
    if restored.stated:
        stated = at._replace(start=restored.stated[0], end=restored.stated[1])
        text = line.text[stated.start : stated.end]
        yield NumberVerdict(stated, text, RIGHT, "result", {})
