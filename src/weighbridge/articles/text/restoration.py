"""Puts back the calculations of a page that lost its operators, and says what they come to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.text import terms
from weighbridge.articles.text.lines import RIGHT, UNREAD, NumberVerdict, Stretch
from weighbridge.articles.text.lost import allowance_for_restoring, restore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.articles.text.allowance import Allowance
    from weighbridge.articles.text.lines import ArticleLine
    from weighbridge.articles.text.lost import Restored
    from weighbridge.counting.parts import PartIndex, PartName

    _Known = Mapping[int, tuple[PartName, ...]]

_HEADS = "num_attention_heads"
_RUN = re.compile(r"(?<![\d.])\d{4,}(?!\.?\d)|\)\d|\d\(")
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
    known = dict(_named(parts))
    calculations: list[RestoredCalculation] = []
    verdicts: list[NumberVerdict] = []
    allowance = allowance_for_restoring()
    for line in lines:
        if not sizes or not _RUN.search(line.text):
            continue
        for counted in _restored_on(line, sizes, fields.get(_HEADS), known, allowance):
            verdicts += _verdicts(line, counted)
            if not counted.restored.cut:
                calculations.append(_calculation(line, counted))
    if calculations:
        verdicts += _left_over(lines, verdicts)
    return Restorations(tuple(calculations), tuple(verdicts))


class _Counted(NamedTuple):
    """A calculation that was put back, and the part of the model that it counts."""

    restored: Restored
    part: PartName | None


def _restored_on(
    line: ArticleLine,
    sizes: Sequence[int],
    heads: int | None,
    known: _Known,
    allowance: Allowance,
) -> list[_Counted]:
    """Return what a line comes to: parts that it names, or else any part of the model.

    A calculation may come to several parts; the one that the line is about decides.
    """
    found: dict[tuple[int, int], _Counted] = {}
    likeliest = {number: names[0] for number, names in known.items()}
    for parts in (*_parts_named(line.text, known), likeliest):
        names = {number: part.text() for number, part in parts.items()}
        for restored in restore(line.text, sizes, heads, names, allowance):
            part = parts.get(restored.value) if restored.name else None
            counted = _Counted(restored, part)
            found.setdefault((restored.start, restored.end), counted)
    return list(found.values())


def _parts_named(text: str, known: _Known) -> Iterator[dict[int, PartName]]:
    """Yield the parts of each component that a line names; of one head, if it says so."""
    if _ONE_HEAD.search(text):
        yield _parts_that(lambda part: part.per == "head", known)
    for name, component in terms.facts()["components"].items():
        if terms.mentions(text, component["words"]):
            beginnings = _GROUPS.get(name, (name,))
            yield _parts_that(_is_of(beginnings), known)


def _is_of(beginnings: tuple[str, ...]) -> Callable[[PartName], bool]:
    return lambda part: part.per == "" and part.part.startswith(beginnings)


def _parts_that(is_wanted: Callable[[PartName], bool], known: _Known) -> dict[int, PartName]:
    """Return the likeliest of the wanted parts for each number."""
    parts: dict[int, PartName] = {}
    for number, names in known.items():
        for part in names:
            if is_wanted(part):
                parts.setdefault(number, part)
    return parts


_ONE_HEAD = re.compile(
    r"单个?(?:head|头)|每个?(?:head|头)|(?:one|single|per|each) head", re.IGNORECASE
)
_GROUPS = {"attention": ("attention", "qkv"), "embedding": ("embedding",), "norm": ("norm",)}
"""The beginnings of the names of a component's parts, where they differ from its own."""


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


def _calculation(line: ArticleLine, counted: _Counted) -> RestoredCalculation:
    restored = counted.restored
    is_stated = restored.stated is not None
    return RestoredCalculation(line.number, restored.text, restored.value, counted.part, is_stated)


def _verdicts(line: ArticleLine, counted: _Counted) -> Iterator[NumberVerdict]:
    restored = counted.restored
    at = Stretch(line.number, restored.start, restored.end)
    text = line.text[restored.start : restored.end]
    if restored.cut:
        yield NumberVerdict(at, text, UNREAD, "too_many_readings", {"about": ""})
        return
    values = {"calculation": restored.text, "part": counted.part}
    reason = "restored_part" if counted.part else "restored"
    yield NumberVerdict(at, text, RIGHT, reason, values)
    if restored.stated:
        stated = at._replace(start=restored.stated[0], end=restored.stated[1])
        text = line.text[stated.start : stated.end]
        yield NumberVerdict(stated, text, RIGHT, "result", {})
