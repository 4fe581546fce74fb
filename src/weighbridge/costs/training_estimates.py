"""Calibrated estimates of the time of a training step, beside the bound.

As for services (`costs/estimates.py`), an estimate is a sum of terms, each times a rate that
`tools/estimate.py` fitted to published measurements. `facts/estimate_training.toml` has the rates.
"""

from __future__ import annotations

from weighbridge import data
from weighbridge.costs.estimates import Score
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_ACTIVATION_BYTES = 2
_WHOLE, _DIVIDED = 10, 24
"""Of 34 bytes that a layer saves for a hidden number, those whole on each rank, and others.

Source: Korthikanti et al., 2022, section 4.2.1: s b h (10 + 24/t)."""


class StepWork(NamedTuple):
    """What each device does in a step, a pipeline's waiting included.

    FLOPs are those of matrices and of attention; ``state_bytes`` those of hidden states, each
    layer's once; ``link_seconds`` what sending takes at the links' full bandwidth;
    ``updated_bytes`` parameters, gradients and states of the optimizer; ``layers`` how many layers
    run, forward and back.
    """

    flops: float
    attention_flops: float
    state_bytes: float
    link_seconds: float
    updated_bytes: float
    layers: float


class TrainingCalibration(NamedTuple):
    """The rates of the estimate of training, and where they were scored, as in `Calibration`.

    ``least_tokens`` are those of a micro-batch.
    """

    date: str
    rows: int
    rates: Mapping[str, float]
    left_out: Mapping[str, Score]
    scored: tuple[str, ...]
    least_devices: int
    most_devices: int
    least_tokens: int
    most_sequence: int

    def seconds(self, work: StepWork, peak: float, bandwidth: float) -> float:
        """Return the estimated seconds of a step."""
        return sum(
            self.rates[name] * value for name, value in step_terms(work, peak, bandwidth).items()
        )


def training_calibration() -> TrainingCalibration:
    """Return the rates that weighbridge ships.

    Example:
        >>> shipped = training_calibration()
        >>> "H100" in shipped.scored, shipped.left_out["model"].median < 0.2
        (True, True)
    """
    facts = data.read_toml("facts/estimate_training.toml")
    left_out = {name: Score(**score) for name, score in facts["left_out"].items()}
    return TrainingCalibration(
        facts["date"],
        facts["rows"],
        facts["rates"],
        left_out,
        tuple(facts["scored"]),
        **facts["limits"],
    )


def step_terms(work: StepWork, peak: float, bandwidth: float) -> dict[str, float]:
    """Return what the rates of a step are multiplied by: least seconds, and a count.

    Example:
        >>> step_terms(StepWork(1e12, 1e12, 1e9, 0, 1e9, 8), 1e15, 1e12)["products"]
        0.001
    """
    return {
        "products": work.flops / peak,
        "attention": work.attention_flops / peak,
        "states": work.state_bytes / bandwidth,
        "links": work.link_seconds,
        "update": work.updated_bytes / bandwidth,
        "layers": work.layers,
    }


def hidden_bytes(tokens: float, width: int, tensor: int, *, sequence_parallel: bool) -> float:
    """Return the bytes of the hidden states of some tokens on a tensor-parallel rank.

    Without sequence parallelism a part of what a layer reads and writes is whole on every rank.

    Example:
        >>> hidden_bytes(10, 4, 1, sequence_parallel=False)
        80.0
    """
    divided = tokens * width * _ACTIVATION_BYTES / tensor
    if sequence_parallel:
        return divided
    return divided * (_WHOLE * tensor + _DIVIDED) / (_WHOLE + _DIVIDED)
