"""Measures `weigh(config).parameters` and `cost(config)` in one process, with everything loaded.

The first is compared with the meta device, and for many layers; of the second it makes 1,000.

Run it as ``python bench/warm.py`` with the Python in which weighbridge is installed; the first
comparison needs transformers too.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from itertools import cycle, islice
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from _pairs import calls, machine, medians, ratios, seconds_each

from weighbridge import cost, released, weigh
from weighbridge.blueprint import operations
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = 15
COSTS = 1_000
ROUNDS = 5
MOST_TOKENS = 512  # which every model takes
MODEL = "google-bert/bert-base-chinese"


def count(config: dict[str, Any]) -> int:
    """Count the parameters by arithmetic."""
    return weigh(config).parameters


def reference(config: dict[str, Any]) -> Callable[[], int]:
    """Return a function that builds a model on the meta device and counts its parameters."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    fields = transformers.BertConfig(**config)

    def build() -> int:
        with torch.device("meta"):
            model = transformers.BertModel(fields)
        return sum(tensor.numel() for tensor in model.parameters())

    return build


def costed() -> list[dict[str, Any]]:
    """Return the configs of released models whose operations are recorded."""
    families, found = operations.available(), []
    for entry in released().values():
        config = {"model_type": entry["family"], **entry["config"]}
        if entry["family"] not in families:
            continue
        try:
            cost(config, sequence=MOST_TOKENS)
        except WeighbridgeError:  # recorded with other values only, or fewer positions
            continue
        found.append(config)
    return found


def seconds_of_costs(configs: list[dict[str, Any]], clock: Callable[[], float]) -> float:
    """Return the seconds of costs at as many configs and sequences, with all their figures."""
    start = clock()
    for number, config in enumerate(islice(cycle(configs), COSTS)):
        _ = cost(config, sequence=1 + number % MOST_TOKENS).figures
    return clock() - start


def main() -> None:
    """Print the comparisons, and the time of the costs."""
    config = {"model_type": "bert", **released()[MODEL]["config"]}
    weighing = seconds_each(partial(count, config))
    print(f"one process, warm, alternately, ratios of pairs: median (min–max); {machine()}")
    if importlib.util.find_spec("transformers"):
        build = reference(config)
        pairs = calls(seconds_each(build), weighing, PAIRS)
        print(f"BertModel on the meta device / weigh(config).parameters, {PAIRS} pairs")
        print(f"  wall time  × {ratios(pairs)}: {medians(pairs, 1e-3, 'ms')}")
        print(f"  both count {build():,} and {count(config):,}")
    for layers in (120, 1_200):
        pairs = calls(
            seconds_each(partial(count, {**config, "num_hidden_layers": layers})), weighing, PAIRS
        )
        print(f"weigh(config).parameters, {layers} layers / 12 layers, {PAIRS} pairs")
        print(f"  wall time  × {ratios(pairs)}: {medians(pairs, 1e-6, 'µs')}")
    configs = costed()
    print(f"{COSTS:,} cost(config, sequence=…), {len(configs)} configs, {ROUNDS} rounds")
    for name, clock in (("wall time", perf_counter), ("CPU time ", process_time)):
        rounds = [seconds_of_costs(configs, clock) for _ in range(ROUNDS)]
        print(f"  {name}  {median(rounds):.2f} s ({min(rounds):.2f}–{max(rounds):.2f})")


if __name__ == "__main__":
    main()
