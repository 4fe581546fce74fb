"""Measures the search for a way of counting, for a number that no way of counting gives.

``python bench/reconcile.py`` searches in every shipped family, for a number of parameters and for a
number of bytes. It prints the median time, the slowest families, and how many times longer than
weighing the family the search takes.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import weighbridge as wb
from weighbridge.counting.reconciliation import read_number, reconcile_model
from weighbridge.models.find import find

if TYPE_CHECKING:
    from collections.abc import Callable

_SLOWEST = 5


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Measure each family."""
    for stated in ("123,456,789", "123MB"):
        wanted, taken, ratios = read_number(stated), list[tuple[float, str]](), list[float]()
        for family in wb.families():
            model = find(family)
            weighed = seconds(lambda model=model: wb.weigh(model.blueprint.family))  # type: ignore[misc]
            taken.append(
                (seconds(lambda model=model, wanted=wanted: reconcile_model(model, wanted)), family)
            )  # type: ignore[misc]
            ratios.append(taken[-1][0] / weighed)
        slow = ", ".join(
            f"{family} {spent:.2f} s" for spent, family in sorted(taken, reverse=True)[:_SLOWEST]
        )
        usual = statistics.median(spent for spent, _ in taken)
        times = statistics.median(ratios)
        print(f"{stated} in {len(taken)} families: median {usual * 1000:.0f} ms,")
        print(f"{times:.1f} times the time of weighing the same family; the slowest: {slow}")


if __name__ == "__main__":
    main()
