"""Measures the cost of `weigh(config).parameters` in one process, with everything loaded.

It is compared with the meta device, and for many layers.

Run it as ``python bench/warm.py`` with the Python in which weighbridge is installed; the first
comparison needs transformers too.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import TYPE_CHECKING, Any

from _pairs import calls, machine, medians, ratios, seconds_each

from weighbridge import released, weigh

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = 15
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


def main() -> None:
    """Print both comparisons."""
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


if __name__ == "__main__":
    main()
