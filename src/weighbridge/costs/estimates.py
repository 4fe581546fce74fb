"""Calibrated estimates of time: what a pass takes on real devices, beside the bound.

An estimate is a sum of terms. Each is a least time, or a number of things that take time, times a
rate that `tools/estimate.py` fitted to published measurements. `facts/estimate.toml` has the rates,
their date, and how far off they are for models and devices that they were not fitted to.
"""

from __future__ import annotations

from weighbridge import data
from weighbridge.costs.bounds import ring_bytes
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_ACTIVATION_BYTES = 2
_SUMS_OF_A_LAYER = 2  # after attention and after the feed-forward network
_SIXTEEN_BITS = ("F16", "BF16")


class PassSetting(NamedTuple):
    """What runs a pass: a device's figures, the division, and the size of the model's layers.

    ``dtype`` is the one whose ``peak`` in FLOP/s products may reach. ``link`` is in bytes per
    second, ``width`` is that of the hidden states.
    """

    dtype: str
    peak: float
    bandwidth: float
    link: float | None
    ranks: int
    layers: int
    width: int


class PassWork(NamedTuple):
    """What each device does in a pass over all layers.

    Its ``tokens`` belong to some ``sequences`` that get a new token each. FLOPs are those of
    matrices and of attention over a prompt; bytes are those of weights and of the cache.
    """

    tokens: float
    sequences: float
    flops: float
    attention_flops: float
    weight_bytes: float
    cache_bytes: float


class Score(NamedTuple):
    """How far estimates are off where they were not fitted, as a part of what was measured."""

    rows: int
    median: float
    p90: float


class Calibration(NamedTuple):
    """The rates of an estimate: when and to what they were fitted, and how far off they are.

    ``scored`` has the devices, each with the dtypes of products that were measured on it; outside
    these, and outside ``least_batch`` to ``most_batch`` and ``most_context``, there is no estimate.
    """

    date: str
    source: str
    rows: int
    rates: Mapping[str, float]
    left_out: Mapping[str, Score]
    scored: Mapping[str, tuple[str, ...]]
    ranks: tuple[int, ...]
    least_batch: int
    most_batch: int
    most_context: int

    def seconds(self, work: PassWork, setting: PassSetting) -> float:
        """Return the estimated seconds of a pass."""
        return sum(self.rates[name] * value for name, value in terms(work, setting).items())

    def covers(self, device: str, dtype: str) -> bool:
        """Whether products in a dtype were measured on a device."""
        return rate_name(dtype) in self.scored.get(device, ())


def calibration() -> Calibration:
    """Return the rates that weighbridge ships.

    Example:
        >>> shipped = calibration()
        >>> shipped.covers("H100", "F8"), shipped.covers("P100", "F16")
        (True, False)
        >>> shipped.left_out["model"].median < 0.2
        True
    """
    return calibration_of(data.read_toml("facts/estimate.toml"))


def calibration_of(facts: Mapping[str, Any]) -> Calibration:
    """Return the rates of a table as in `facts/estimate.toml`."""
    limits = facts["limits"]
    return Calibration(
        facts["date"],
        facts["source"],
        facts["rows"],
        facts["rates"],
        {name: Score(**score) for name, score in facts["left_out"].items()},
        {name: tuple(dtypes) for name, dtypes in facts["scored"].items()},
        tuple(limits["ranks"]),
        limits["least_batch"],
        limits["most_batch"],
        limits["most_context"],
    )


def rate_name(dtype: str) -> str:
    """Return the name of a dtype among rates; those of 16 bits are one."""
    return "F16" if is_sixteen_bits(dtype) else dtype


def is_sixteen_bits(dtype: str) -> bool:
    """Whether products are in BF16 or F16."""
    return dtype in _SIXTEEN_BITS


def terms(work: PassWork, setting: PassSetting) -> dict[str, float]:
    """Return what the rates of a pass are multiplied by.

    The first are the least seconds of products, of attention over a prompt, of reading weights and
    cache, of writing and reading hidden states once in each layer, and of sending sums of them. The
    others are counts: layers, passes, sequences, and sums.

    Example:
        >>> one = PassSetting("F8", 1e15, 1e12, None, 1, 32, 4096)
        >>> terms(PassWork(8, 8, 1e12, 0, 1e9, 1e6), one)["F8"]
        0.001
    """
    states = work.tokens * setting.width * _ACTIVATION_BYTES
    is_divided = setting.ranks > 1
    sums = _SUMS_OF_A_LAYER * setting.layers if is_divided else 0
    sent = sums * ring_bytes(states, setting.ranks, reduce=True)
    return {
        rate_name(setting.dtype): work.flops / setting.peak,
        "attention": work.attention_flops / setting.peak,
        "weights": work.weight_bytes / setting.bandwidth,
        "cache": work.cache_bytes / setting.bandwidth,
        "states": setting.layers * states / setting.bandwidth,
        "links": sent / setting.link if sent and setting.link else 0.0,
        "layers": setting.layers,
        "passes": 1,
        "sequences": work.sequences,
        "sums": sums,
    }
