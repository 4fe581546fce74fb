"""Writes the tables of docs/measured-by-others.md and its translation.

The pages call these functions in blocks of cog. ``tools/measured.py`` holds predictions against
what others measured.
"""

from __future__ import annotations

from functools import cache
from statistics import median
from typing import TYPE_CHECKING

import measured
from page_words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from measured import Held

PAGE = "measured-by-others"


@cache
def held() -> dict[str, list[Held]]:
    """Return everything that is held against a prediction, by its part of the page."""
    megatron, others = measured.outcomes()
    return {"megatron": megatron, **{part: list(rows) for part, rows in others.items()}}


def of(quantity: str) -> list[Held]:
    """Return the rows of Megatron-LM of a quantity."""
    return [row for row in held()["megatron"] if row.quantity == quantity]


def summary_table(lang: str) -> str:
    """Return how far all predictions are off."""
    lines = [
        ("Megatron-LM, between steps", of("kept")),
        ("Megatron-LM, the most", of("most")),
        ("peaks with PyTorch", held()["torch"]),
        ("tokens in a cache", held()["caches"]),
    ]
    return _summaries(lines, lang)


def faster_than_bounds(lang: str) -> str:
    """Return how many measurements are faster than the bound, in a sentence."""
    bound = [row for row in held()["bounds"] if not row.reason]
    told = "Bounds on time: {number} measurements, {faster} of them faster than the bound."
    faster = sum(row.ratio > 1 for row in bound)
    return words_of(PAGE, lang)(told).format(number=len(bound), faster=faster)


def megatron_table(lang: str) -> str:
    """Return how far predictions of Megatron-LM's memory are off."""
    kinds = sorted({row.quantity for row in held()["megatron"]})
    return _summaries([(kind, of(kind)) for kind in kinds], lang)


def _summaries(lines: Iterable[tuple[str, Iterable[Held]]], lang: str) -> str:
    say = words_of(PAGE, lang)
    rows = []
    for name, some in lines:
        told = measured.summary(some)
        shares = (f"{share:.0%}" for share in (told.near, told.close, told.rough))
        offs = (f"{off:.1%}" for off in (told.median, told.p90, told.most))
        rows.append((say(name), str(told.number), *shares, *offs))
    head = ("rows", "within 2%", "within 5%", "within 12%", "median", "p90", "largest")
    return markdown(("", *map(say, head)), rows)


def megatron_tests(lang: str, above: float = -1.0) -> str:
    """Return the predictions of Megatron-LM's tests that are off by more than a share."""
    say = words_of(PAGE, lang)
    groups: dict[tuple[str, str], list[Held]] = {}
    for row in held()["megatron"]:
        if not row.reason and row.off > above:
            groups.setdefault((row.name, row.quantity), []).append(row)
    lines = []
    for (name, quantity), some in groups.items():
        ratios = sorted(row.ratio for row in some)
        middle = sorted(some, key=lambda row: row.ratio)[len(some) // 2]
        spread = f"{ratios[0]:.3f}–{ratios[-1]:.3f}" if len(some) > 1 else f"{ratios[0]:.3f}"
        sizes = (f"{size / 2**20:,.1f}" for size in (middle.predicted, middle.measured))
        lines.append((name, say(quantity), str(len(some)), *sizes, spread))
    names = ("test", "", "files", "predicted, MiB", "measured, MiB", "ratio")
    return markdown([say(name) if name else "" for name in names], lines)


def rows_table(part: str, lang: str) -> str:
    """Return each prediction of a part of the page."""
    say = words_of(PAGE, lang)
    lines = []
    for row in held()[part]:
        told = [f"{row.predicted:,.0f}", f"{row.measured:,.0f}", f"{row.ratio:.3f}"]
        if row.reason:
            told = [say(row.reason), f"{row.measured:,.0f}", ""]
        lines.append((row.name, row.where, *told))
    return markdown([*map(say, ("setting", "device", "predicted", "measured", "ratio"))], lines)


def bounds_table(lang: str) -> str:
    """Return the part of the measured time that bounds have, by model."""
    say = words_of(PAGE, lang)
    groups: dict[tuple[str, str], list[float]] = {}
    for row in held()["bounds"]:
        if not row.reason:
            model = row.name.partition(",")[0]
            groups.setdefault((model, row.quantity), []).append(row.ratio)
    lines = [
        (model, say(quantity), str(len(some)), f"{median(some):.2f}", f"{max(some):.2f}")
        for (model, quantity), some in groups.items()
    ]
    return markdown((say("model"), "", *map(say, ("rows", "median", "largest"))), lines)


def left_out_table(part: str, lang: str) -> str:
    """Return why rows of a part of the page have no prediction, and how many."""
    say = words_of(PAGE, lang)
    counts: dict[tuple[str, str], int] = {}
    for row in held()[part]:
        if row.reason:
            quantity = say(row.quantity) if part == "megatron" else ""
            key = (say(row.reason), quantity)
            counts[key] = counts.get(key, 0) + 1
    lines = [(*key, str(number)) for key, number in counts.items()]
    return markdown((say("reason"), "", say("rows")), lines)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
