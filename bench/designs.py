"""What finding sizes and sharing differences cost, in CPU time: against enumeration and weighing.

Run ``python bench/designs.py`` in a checkout, on a quiet machine. Designs are counted by solving
for the feed-forward size, and by evaluating the total for every multiple of it. Pairs of configs
are those of ``tests/ledger/test_field_shares.py``.
"""

from __future__ import annotations

import runpy
import time
from pathlib import Path
from statistics import median

from weighbridge.answers.design import DesignSearch, design
from weighbridge.answers.weigh import weigh

ROOT = Path(__file__).parents[1]
LIKE = "meta-llama/Llama-3.1-8B"
BUDGETS = ("1.1e8", "1e9", "8e9", "7e10")
ENUMERATED = ("1.1e8", "1e9")
WEIGHINGS = 50


def main() -> None:
    """Print the costs of designs, then those of comparisons."""
    fields = {"num_hidden_layers": 48}
    start = time.process_time()
    for _ in range(WEIGHINGS):
        weigh(LIKE, fields=fields)
    weighing = (time.process_time() - start) / WEIGHINGS
    for budget in BUDGETS:
        start = time.process_time()
        search = design(LIKE, parameters=budget)
        shown = len(search.designs)
        seconds = time.process_time() - start
        print(
            f"{budget}: {search.number:,} designs, the best {shown} ordered and weighed: "
            f"{seconds:.2f} s of CPU, the time of {seconds / weighing:,.0f} weighings"
        )
        if budget in ENUMERATED:
            _enumerate(search, seconds)
    _compare()


def _enumerate(search: DesignSearch, seconds: float) -> None:
    """Evaluate the total for every multiple of the size, and print the ratio of the times."""
    space, found, points = search.space, 0, 0
    start = time.process_time()
    least, most = space.ratios
    for layout in search.layouts():
        width = layout[search.roles.width]
        # one bound that holds everything gives the slope and the rest of each number of layers
        everything = search.solver.solve([layout], space.layers, 0, 2**62, space.multiple_of)
        for line in everything:
            for size in range(space.multiple_of, int(most * width) + 1, space.multiple_of):
                if size >= least * width:
                    points += 1
                    found += space.least <= line.rest + line.slope * size <= space.most
    taken = time.process_time() - start
    print(
        f"  the same by enumeration: {found:,} of {points:,} points, "
        f"{taken / seconds:,.0f} times as long"
    )
    if found != search.number:
        raise SystemExit("the two do not agree")


def _compare() -> None:
    tests = runpy.run_path(str(ROOT / "tests" / "ledger" / "test_field_shares.py"))
    taken, ratios = [], []
    for family, class_name in tests["CLASSES"].items():
        ledgers = tests["drawn_ledgers"](family, 2 * tests["PAIRS_OF_A_FAMILY"])
        start = time.process_time()
        for _ in range(WEIGHINGS):
            weigh(family, class_name, fields={"vocab_size": 1000} if family != "vit" else None)
        weighing = (time.process_time() - start) / WEIGHINGS
        for before, after in zip(ledgers[::2], ledgers[1::2], strict=True):
            start = time.process_time()
            tests["shares_of"](before, after).rounded_by_player  # noqa: B018  # it is computed
            taken.append(time.process_time() - start)
            ratios.append(taken[-1] / (2 * weighing))
    print(
        f"{len(taken)} pairs of {len(tests['CLASSES'])} families: median "
        f"{1000 * median(taken):.1f} ms, slowest {1000 * max(taken):.0f} ms; the time of weighing "
        f"both {median(ratios):.1f} times (median), at most {max(ratios):.0f} times"
    )


if __name__ == "__main__":
    main()
