"""The estimate of the time of training: its rows and its rates.

``tools/estimate.py`` writes ``facts/estimate_training.toml``. The rows are those of
``tests/data/costs_measured.tsv`` that say how long training took in 16 bits: MPT on llm-foundry,
and GPTs of up to 530B and Llama-3.1-405B on Megatron-LM and its kin.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import measured
from calibrate import Rates, score

from weighbridge.answers.estimating_training import work_of_step
from weighbridge.costs.bounds import peak_of
from weighbridge.costs.training_estimates import step_terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from weighbridge.costs.estimates import Score

FACTS = measured.ROOT / "src" / "weighbridge" / "data" / "facts" / "estimate_training.toml"
WRITTEN = "written by tools/estimate.py. docs/estimate.md explains it."
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
        "layers": (1e-4, "more seconds for each layer"),
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
        f"# The calibrated estimate of training: {WRITTEN}",
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
