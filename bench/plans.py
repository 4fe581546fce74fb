"""Measures how many plans `plan` tries in a second, with all that it needs to try them.

Run it as ``python bench/plans.py`` with the Python in which weighbridge is installed.
"""

from __future__ import annotations

from statistics import median
from time import process_time

from _pairs import machine

from weighbridge import plan

ROUNDS = 3
SEARCHES = (
    ("meta-llama/Meta-Llama-3.1-405B", "512xH100", 2048),
    ("deepseek-ai/DeepSeek-V3", "2048xH800", 8192),
)


def main() -> None:
    """Print the plans and the CPU time of each search."""
    print(f"one process, CPU time of a search: median (min–max); {machine()}")
    for model, on, batch in SEARCHES:
        seconds = []
        for _ in range(ROUNDS):
            start = process_time()
            tried = len(plan(model, on=on, batch=batch, sequence=4096).tried)
            seconds.append(process_time() - start)
        middle = median(seconds)
        print(f"{model} on {on}: {tried:,} plans, {tried / middle:,.0f} in a second")
        print(f"  CPU time  {middle:.2f} s ({min(seconds):.2f}–{max(seconds):.2f})")


if __name__ == "__main__":
    main()
