"""Gives each number of an article one verdict.

Several modules say something of a number: it is the result of a step, a size, a part of a table, a
date. Here the strongest of these becomes its verdict. A number without any is looked up among the
numbers that the model has. What remains is unread, with the reason.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.articles.text.lines import (
    BOILERPLATE,
    KNOWN,
    STRENGTH,
    UNREAD,
    VERDICTS,
    ArticleLine,
    NumberVerdict,
    Stretch,
)
from weighbridge.articles.text.tokens import tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.articles.text.exact import Number
    from weighbridge.articles.text.token import Token

    Recognise = Callable[[Number], "Known | None"]

MOST_SMALL = 4
"""Numbers up to this one count things, such as the two norms of a layer."""


class Known(NamedTuple):
    """How a number is known: a reason, and the values of its text."""

    reason: str
    values: Mapping[str, Any]


def verdicts_of(
    lines: Sequence[ArticleLine],
    given: Iterable[NumberVerdict],
    recognise: Recognise,
    end: int,
) -> tuple[NumberVerdict, ...]:
    """Return a verdict for each number, in the order of the article.

    ``given`` are the verdicts of other modules. ``recognise`` looks a number up, with its line.
    Lines after ``end`` belong to the site.
    """
    strongest = _strongest(given)
    on_line: dict[int, list[NumberVerdict]] = {}
    for verdict in strongest.values():
        on_line.setdefault(verdict.at.line, []).append(verdict)
    verdicts: list[NumberVerdict] = []
    for line in lines:
        on_this_line = on_line.get(line.number, [])
        verdicts += (verdict for verdict in on_this_line if verdict.verdict != UNREAD)
        for token in _number_tokens(line):
            at = Stretch(line.number, token.start, token.end)
            before = [verdict for verdict in on_this_line if _overlap(at, verdict.at)]
            if _are_unread(before):
                looked_up = _verdict(token, at, line, recognise, end)
                verdicts.append(_better(looked_up, before))
    return tuple(sorted(verdicts, key=lambda verdict: verdict.at))


def _are_unread(verdicts: Sequence[NumberVerdict]) -> bool:
    return all(verdict.verdict == UNREAD for verdict in verdicts)


def _better(looked_up: NumberVerdict, before: Sequence[NumberVerdict]) -> NumberVerdict:
    """Return what was looked up, unless it only repeats that a number is unread."""
    if before and looked_up.verdict == UNREAD:
        return before[0]
    return looked_up


def counts_of(verdicts: Iterable[NumberVerdict]) -> dict[str, int]:
    """Return how many numbers have each verdict."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def _strongest(given: Iterable[NumberVerdict]) -> dict[Stretch, NumberVerdict]:
    """Return the strongest verdict of each stretch; one that overlaps a stronger one is dropped."""
    by_strength = sorted(given, key=lambda verdict: -STRENGTH[verdict.verdict])
    strongest: dict[Stretch, NumberVerdict] = {}
    by_line: dict[int, list[Stretch]] = {}
    for verdict in by_strength:
        stretches = by_line.setdefault(verdict.at.line, [])
        if not any(_overlap(verdict.at, other) for other in stretches):
            stretches.append(verdict.at)
            strongest[verdict.at] = verdict
    return strongest


def _overlap(at: Stretch, other: Stretch) -> bool:
    return at.start < other.end and other.start < at.end


def _number_tokens(line: ArticleLine) -> Iterator[Token]:
    for token in tokens(line.text, line.number):
        if token.number or token.why:
            yield token


def _verdict(
    token: Token, at: Stretch, line: ArticleLine, recognise: Recognise, end: int
) -> NumberVerdict:
    """Return the verdict of a number of which no module has said anything that counts."""
    if line.number > end:
        return NumberVerdict(at, token.text, BOILERPLATE, "after_the_end", {})
    if token.number is None:
        return NumberVerdict(at, token.text, UNREAD, token.why, {"about": ""})
    known = recognise(token.number)
    if known:
        return NumberVerdict(at, token.text, KNOWN, known.reason, known.values)
    if token.number.value <= MOST_SMALL and token.number.shown_place == 1:
        return NumberVerdict(at, token.text, KNOWN, "small", {})
    return NumberVerdict(at, token.text, UNREAD, "no_reading", {"about": ""})
