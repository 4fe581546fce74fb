"""The estimate of the time of training: its rows, its rates, and its part of the page.

``tools/estimate.py`` writes ``facts/estimate_training.toml`` and the page. The rows are those of
``tests/data/costs_measured.tsv`` that say how long training took in 16 bits: MPT on llm-foundry,
and GPTs of up to 530B and Llama-3.1-405B on Megatron-LM and its kin.
"""

# ruff: noqa: E501  # paragraphs of the page, as long as those of other pages

from __future__ import annotations

from collections import Counter
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import measured
import numpy as np
from calibrate import Rates, ratios, score

from weighbridge.answers.estimating_training import work_of_step
from weighbridge.costs.bounds import peak_of
from weighbridge.costs.training_estimates import step_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weighbridge.costs.estimates import Score

FACTS = measured.ROOT / "src" / "weighbridge" / "data" / "facts" / "estimate_training.toml"
FEWEST = 10  # rows of a device, for an estimate to be printed
RATES = Rates(
    least={
        "products": (0.7, "of the peak by products of weights"),
        "attention": (0.4, "of the peak by attention, half of which is masked"),
        "links": (0.6, "of the links"),
    },
    counts={
        "states": (20.0, "times that hidden states are read or written in a layer"),
        "update": (3.0, "times that parameters, gradients and states are read or written"),
        "layers": (1e-4, "seconds of a layer, besides"),
    },
)


class Row(NamedTuple):
    """A measurement: of which model and device, and the terms of a step."""

    model: str
    device: str
    source: str
    devices: int
    tokens: int
    sequence: int
    seconds: float
    terms: tuple[float, ...]


@cache
def rows() -> list[Row]:
    """Return the trainings whose time was measured."""
    found = []
    for row, fit, seconds in measured.trainings():
        device, setting = fit.devices.device, fit.setting
        _, peak = peak_of(device, "BF16")
        terms = step_terms(work_of_step(fit), peak, device.bandwidth)
        found.append(
            Row(
                row["model"],
                device.name,
                row["source"].partition("@")[0],
                fit.devices.number,
                setting.micro_batch * setting.sequence,
                setting.sequence,
                seconds,
                tuple(terms[name] for name in RATES.names),
            )
        )
    return found


FOLDS: dict[str, Callable[[Row], str]] = {
    "model": lambda row: row.model.rpartition(" ")[2],  # 530B was measured by two
    "device": lambda row: row.device,
    "generation": lambda row: "Hopper" if row.device == "H100" else "Ampere",
    "source": lambda row: row.source,
}


class Outcome(NamedTuple):
    """A fit to all rows, and the ratios of what was left out of fits."""

    rates: dict[str, float]
    folds: dict[str, list[tuple[Row, float]]]

    @property
    def scores(self) -> dict[str, Score]:
        """The score of each way of leaving out."""
        return {name: score(ratio for _, ratio in fold) for name, fold in self.folds.items()}


@cache
def outcome() -> Outcome:
    """Fit to all rows, and to all but those of each model, device, generation and source."""
    fit = zip(RATES.names, RATES.fitted(rows()), strict=True)
    rates = {name: float(f"{rate:.3g}") for name, rate in fit}
    return Outcome(rates, {name: RATES.left_out(rows(), of) for name, of in FOLDS.items()})


def facts(found: Outcome, date: str) -> str:
    """Return the text of `facts/estimate_training.toml`."""
    counts = Counter(row.device for row in rows())
    scored = sorted(name for name, number in counts.items() if number >= FEWEST)
    lines = [
        "# The calibrated estimate of training: written by tools/estimate.py. docs/estimate.md explains it.",
        f'date = "{date}"',
        f"rows = {len(rows())}",
        f"scored = {scored}".replace("'", '"'),
        "",
        "[rates]",
        *(f"{name} = {rate!r}" for name, rate in found.rates.items()),
        "",
        "[left_out]",
        *(f"{name} = {score_text(one)}" for name, one in found.scores.items()),
        "",
        "[limits]",
        f"least_devices = {min(row.devices for row in rows())}",
        f"most_devices = {max(row.devices for row in rows())}",
        f"least_tokens = {min(row.tokens for row in rows())}",
        f"most_sequence = {max(row.sequence for row in rows())}",
    ]
    return "\n".join(lines) + "\n"


def score_text(one: Score) -> str:
    """Return a score as TOML."""
    return f"{{ rows = {one.rows}, median = {one.median:.3f}, p90 = {one.p90:.3f} }}"


def section(found: Outcome) -> str:
    """Return the part of the page about training."""
    fit = score(ratios(rows(), np.array(list(found.rates.values()))))
    lines = [
        (name, str(one.rows), f"{one.median:.1%}", f"{one.p90:.1%}")
        for name, one in {"nothing": fit, **found.scores}.items()
    ]
    shares = [(f"{1 / found.rates[name]:.2f}", text) for name, (_, text) in RATES.least.items()]
    counts = [(f"{found.rates[name]:.3g}", text) for name, (_, text) in RATES.counts.items()]
    parts = [
        _INTRO.format(rows=len(rows())),
        measured.markdown(("left out of the fit", "rows", "median", "p90"), lines),
        _MEANING,
        measured.markdown(("rate", "what it is"), [*shares, *counts]),
    ]
    for name in FOLDS:
        parts += [f"### Training, by {name} left out\n", _fold_table(name, found.folds[name])]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


_INTRO = """## Training

`weighbridge train` has an estimate, too. It is fitted to {rows} published measurements of training in 16 bits: MPT of 125M to 30B by llm-foundry,
GPTs of 22B and 530B by Megatron-LM, Llama-3.1-405B by Meta. It is scored in the same way; a source that is left out takes its software with it.
"""

_MEANING = """Generations are the weak point: H100 reached a smaller share of its peak in these measurements than A100 did, and one share for both makes
estimates too short for H100 and too long for A100. The estimate does not know a device's clock under load, nor how kernels got better since.
"""


def _fold_table(name: str, fold: Sequence[tuple[Row, float]]) -> str:
    groups: dict[str, list[float]] = {}
    for row, ratio in fold:
        groups.setdefault(FOLDS[name](row), []).append(ratio)
    lines = []
    for group, some in groups.items():
        one = score(some)
        spread = f"{min(some):.2f} to {max(some):.2f}, median {median(some):.2f}"
        lines.append((group, str(one.rows), f"{one.median:.1%}", f"{one.p90:.1%}", spread))
    head = ("", "rows", "median off", "p90", "estimate as a part of what was measured")
    return measured.markdown(head, lines)
