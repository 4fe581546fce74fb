"""How long sweeps take: seconds, rows a second and memory, beside a fold of the same rows alone.

Run ``python bench/sweep.py`` on a quiet machine, with the extra ``fleet``. Each sweep is a process
of its own. ``range`` counts the rows of an empty grid of the same size in DuckDB; the ratio says
what the formulas cost.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

SWEEPS = {
    "llama, fold": (
        "llama",
        {
            "hidden_size": (1024, 16384, 128),
            "num_hidden_layers": (1, 128, 1),
            "intermediate_size": (1024, 34048, 512),
            "vocab_size": (32000, 129536, 1024),
        },
        "",
    ),
    "qwen3_next, fold": (
        "qwen3_next",
        {
            "num_hidden_layers": (8, 96, 1),
            "full_attention_interval": (1, 8, 1),
            "hidden_size": (1024, 8192, 256),
            "num_experts": (16, 512, 16),
            "moe_intermediate_size": (256, 2048, 64),
        },
        "",
    ),
}
SWEEPS["llama, to Parquet"] = (*SWEEPS["llama, fold"][:2], "sweep.parquet")

RUN = """
import json, resource, sys, time
import duckdb
from weighbridge.fleet.sweep import sweep
family, grid, output = json.loads(sys.argv[1])
axes = {name: range(first, last + 1, step) for name, (first, last, step) in grid.items()}
swept = sweep(family, axes)
begun = time.perf_counter()
if output:
    swept.write(output)
    rows = swept.points
else:
    rows = swept.configs
seconds = time.perf_counter() - begun
begun = time.perf_counter()
lengths = [len(values) for values in axes.values()]
sizes = " CROSS JOIN ".join(f"range({n}) AS a{i}(v{i})" for i, n in enumerate(lengths))
added = " + ".join(f"v{i}" for i in range(len(lengths)))
duckdb.execute("SET enable_progress_bar = false")
duckdb.execute(f"SELECT count(*), max({added}) FROM {sizes}").fetchone()
empty = time.perf_counter() - begun
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps([rows, seconds, empty, peak]))
"""


def main() -> None:
    """Run each sweep, and print a line for it."""
    print(f"{'sweep':<20}{'rows':>14}{'seconds':>9}{'million/s':>11}{'/ range':>9}{'GiB':>7}")
    for name, (family, grid, output) in SWEEPS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, output)) if output else ""
            asked = json.dumps([family, grid, path])
            done = subprocess.run(
                [sys.executable, "-c", RUN, asked], check=True, capture_output=True, text=True
            )
        rows, seconds, empty, peak = json.loads(done.stdout)
        print(
            f"{name:<20}{rows:>14,}{seconds:>9.2f}{rows / seconds / 1e6:>11.1f}"
            f"{seconds / empty:>9.1f}{peak:>7.2f}"
        )


if __name__ == "__main__":
    main()
