"""Measures the cost of a process that runs `weighbridge weigh`, or `weighbridge cost`.

Each is compared with starting Python, and the first also with transformers.

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
COST = ("cost", "meta-llama/Llama-3.1-8B")
START = (sys.executable, "-m", "weighbridge")
SCRIPT = str(Path(sys.executable).with_name("weighbridge"))
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
    """Print the comparisons."""
    print(f"whole processes, alternately, ratios of pairs: median (min–max); {machine()}")
    for words in (WEIGH, COST):
        said = " ".join(words)
        if Path(SCRIPT).exists():
            title = f"weighbridge {said} / python -c pass"
            compare(title, (SCRIPT, *words), NOTHING, RUNS)
        title = f"python -m weighbridge {said} / python -c pass"
        compare(title, (*START, *words), NOTHING, RUNS)
    if importlib.util.find_spec("transformers"):
        built = (sys.executable, "-c", REFERENCE)
        title = "transformers on the meta device / python -m weighbridge weigh"
        compare(title, built, (*START, *WEIGH), REFERENCE_RUNS)


if __name__ == "__main__":
    main()
