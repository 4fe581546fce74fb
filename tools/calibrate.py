"""Fits the rates of an estimate to measurements, and scores them on what a fit did not see."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from weighbridge.costs.estimates import Score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PULL = 0.15  # how much a rate that rows do not determine is held near its start
_NEAR = 0.1  # logarithms that are off by less count quadratically
_SETTLED = 1e-9


class Measured(Protocol):
    """A measurement: its seconds, and the terms of which an estimate is the sum."""

    @property
    def seconds(self) -> float:
        """What was measured."""

    @property
    def terms(self) -> tuple[float, ...]:
        """What the rates are multiplied by."""


Row = TypeVar("Row", bound=Measured)


class Rates:
    """The rates of an estimate, by name, each with the value where a fit starts and what it is.

    Those of ``least`` times are shares of a peak at the start, and 1 over a share after the fit;
    ``counts`` are rates as they are.
    """

    def __init__(
        self,
        least: Mapping[str, tuple[float, str]],
        counts: Mapping[str, tuple[float, str]],
    ) -> None:
        self.least, self.counts = least, counts
        self.names = (*least, *counts)
        shares = [np.log(1 / share - 1) for share, _ in least.values()]
        self._starts = np.array([*shares, *(np.log(rate) for rate, _ in counts.values())])

    def rates_of(self, place: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the rates: of least times 1 and more, of counts more than 0."""
        rates: np.ndarray[Any, Any] = np.exp(place)
        rates[: len(self.least)] += 1
        return rates

    def fitted(self, some: Sequence[Measured]) -> np.ndarray[Any, Any]:
        """Return the rates of some rows: Huber's loss of the logarithms, by Gauss and Newton."""
        table, logs = np.array([row.terms for row in some]), _logs(some)
        start = place = self._starts
        damping, cost = 1.0, self._cost(start, table, logs)
        for _ in range(100):
            predicted = table @ self.rates_of(place)
            off = np.log(predicted) - logs
            slopes = table * np.exp(place) / predicted[:, None]
            weights = 1 / np.maximum(np.abs(off), _NEAR)
            curve = slopes.T @ (weights[:, None] * slopes) + 2 * PULL * np.eye(len(place))
            down = slopes.T @ (weights * off) + 2 * PULL * (place - start)
            step = np.linalg.solve(curve + damping * np.diag(np.diag(curve)), -down)
            tried = place + np.clip(step, -1, 1)
            lower = self._cost(tried, table, logs)
            if lower >= cost:
                damping *= 4
                continue
            place, damping = tried, max(damping / 3, 1e-4)
            if cost - lower < _SETTLED:
                break
            cost = lower
        return self.rates_of(place)

    def _cost(
        self,
        place: np.ndarray[Any, Any],
        table: np.ndarray[Any, Any],
        logs: np.ndarray[Any, Any],
    ) -> float:
        off = np.abs(np.log(table @ self.rates_of(place)) - logs)
        huber = np.where(off < _NEAR, off * off / (2 * _NEAR), off - _NEAR / 2)
        return float(huber.sum() + PULL * ((place - self._starts) ** 2).sum())

    def left_out(self, some: Sequence[Row], of: Callable[[Row], str]) -> list[tuple[Row, float]]:
        """Return the ratio of each row by a fit without any row of its model, or device."""
        found: list[tuple[Row, float]] = []
        for name in sorted({of(row) for row in some}):
            rest = [row for row in some if of(row) != name]
            tested = [row for row in some if of(row) == name]
            found += zip(tested, ratios(tested, self.fitted(rest)), strict=True)
        return found


def _logs(some: Sequence[Measured]) -> np.ndarray[Any, Any]:
    return np.log([row.seconds for row in some])


def ratios(some: Sequence[Measured], rates: np.ndarray[Any, Any]) -> list[float]:
    """Return the estimates of rows as parts of what was measured."""
    return [float(np.dot(row.terms, rates) / row.seconds) for row in some]


def score(some: Iterable[float]) -> Score:
    """Return how far ratios are off: the number, the median and the 90th percentile."""
    off = sorted(abs(ratio - 1) for ratio in some)
    return Score(len(off), median(off), off[min(len(off) - 1, int(0.9 * len(off)))])
