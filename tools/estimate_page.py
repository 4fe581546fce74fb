"""Writes the tables of docs/estimate.md and its translation: rates, and how far estimates are off.

The pages call these functions in blocks of cog. Needs numpy.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import estimate
import estimate_training
import numpy as np
from calibrate import Rates, ratios, score
from measured_page import markdown
from page_words import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PAGE = "estimate"


class Fit(NamedTuple):
    """Rates that were fitted to all rows, and the ratios of what other fits left out."""

    of: Rates
    rows: Sequence[Any]
    rates: dict[str, float]
    folds: Mapping[str, Sequence[tuple[Any, float]]]
    group_of: Mapping[str, Callable[[Any], str]]


def serving() -> Fit:
    """Return the fit of the estimate of `weighbridge serve`."""
    found = estimate.outcome()
    return Fit(estimate.RATES, found.rows, found.rates, found.folds, estimate.FOLDS)


def training() -> Fit:
    """Return the fit of the estimate of `weighbridge train`."""
    found, of = estimate_training.outcome(), estimate_training
    return Fit(of.RATES, of.rows(), found.rates, found.folds, of.FOLDS)


def scores_table(fit: Fit, lang: str) -> str:
    """Return how far estimates are off, by what is left out of the fit."""
    say = words_of(PAGE, lang)
    seen = ratios(fit.rows, np.array(list(fit.rates.values())))
    lines = []
    for name, fold in {"nothing": [(None, ratio) for ratio in seen], **fit.folds}.items():
        lines.append((say(name), *_score(score(ratio for _, ratio in fold))))
    return markdown(_said(say, "left out of the fit", "rows", "median", "p90"), lines)


def rates_table(fit: Fit, lang: str) -> str:
    """Return the rates, and what each is."""
    say = words_of(PAGE, lang)
    shares = [(f"{1 / fit.rates[name]:.2f}", say(text)) for name, (_, text) in fit.of.least.items()]
    counts = [(f"{fit.rates[name]:.3g}", say(text)) for name, (_, text) in fit.of.counts.items()]
    return markdown(_said(say, "rate", "what it is"), [*shares, *counts])


def fold_table(fit: Fit, name: str, lang: str) -> str:
    """Return how far estimates of each group are off that is left out of the fit."""
    groups: dict[str, list[float]] = {}
    for row, ratio in fit.folds[name]:
        groups.setdefault(fit.group_of[name](row), []).append(ratio)
    return _groups_table(groups, lang)


def kinds_table(lang: str) -> str:
    """Return how far estimates of services are off, by what was measured."""
    say, found = words_of(PAGE, lang), estimate.outcome()
    kinds = sorted({row.kind for row in found.rows})
    return _groups_table(
        {
            say(kind): [ratio for row, ratio in found.folds["model"] if row.kind == kind]
            for kind in kinds
        },
        lang,
    )


def _groups_table(groups: Mapping[str, Sequence[float]], lang: str) -> str:
    say = words_of(PAGE, lang)
    lines = []
    for group, some in groups.items():
        spread = say("{least} to {most}, median {middle}").format(
            least=f"{min(some):.2f}", most=f"{max(some):.2f}", middle=f"{median(some):.2f}"
        )
        lines.append((group, *_score(score(some)), spread))
    head = _said(say, "rows", "median off", "p90", "estimate / measured")
    return markdown(("", *head), lines)


def others_table(lang: str) -> str:
    """Return the estimates of steps of other engines, beside what was measured."""
    say, rates = words_of(PAGE, lang), np.array(list(estimate.outcome().rates.values()))
    lines = []
    for name, work, seconds in estimate.other_engines():
        guess = float(np.dot(work, rates))
        lines.append((name, f"{guess:.4f}", f"{seconds:.4f}", f"{guess / seconds:.2f}"))
    head = _said(say, "setting", "estimate, s", "measured, s", "ratio")
    return markdown(head, lines)


def _score(one: estimate.Score) -> tuple[str, ...]:
    return (str(one.rows), f"{one.median:.1%}", f"{one.p90:.1%}")


def _said(say: Callable[[str], str], *names: str) -> tuple[str, ...]:
    return tuple(map(say, names))
