"""Measures the cost of a process that runs `weighbridge weigh bert-base-chinese`.

It is compared with starting Python, and with transformers.

Run it as ``python bench/startup.py`` with the Python in which weighbridge is installed; the last
comparison needs transformers too.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from _pairs import machine, medians, processes, ratios

RUNS = 21
REFERENCE_RUNS = 3
WEIGH = ("weigh", "bert-base-chinese")
MODULE = (sys.executable, "-m", "weighbridge", *WEIGH)
SCRIPT = (str(Path(sys.executable).with_name("weighbridge")), *WEIGH)
NOTHING = (sys.executable, "-c", "pass")
# The same count, from the model built without weights.
REFERENCE = """
import torch, transformers
with torch.device("meta"):
    model = transformers.BertModel(transformers.BertConfig(vocab_size=21128))
print(sum(tensor.numel() for tensor in model.parameters()))
"""


def compare(title: str, a: tuple[str, ...], b: tuple[str, ...], runs: int) -> None:
    """Print how two commands compare over pairs of runs, in wall time and peak memory."""
    seconds, peak_kib = processes(a, b, runs)
    print(f"{title}, {runs} pairs")
    print(f"  wall time  × {ratios(seconds)}: {medians(seconds, 1e-3, 'ms')}")
    print(f"  peak RSS   × {ratios(peak_kib)}: {medians(peak_kib, 1024, 'MiB')}")


def main() -> None:
    """Print the three comparisons."""
    print(f"whole processes, alternately, ratios of pairs: median (min–max); {machine()}")
    if Path(SCRIPT[0]).exists():
        compare("weighbridge weigh bert-base-chinese / python -c pass", SCRIPT, NOTHING, RUNS)
    compare("python -m weighbridge weigh bert-base-chinese / python -c pass", MODULE, NOTHING, RUNS)
    if importlib.util.find_spec("transformers"):
        built = (sys.executable, "-c", REFERENCE)
        compare(
            "transformers on the meta device / python -m weighbridge", built, MODULE, REFERENCE_RUNS
        )


if __name__ == "__main__":
    main()
