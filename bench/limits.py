"""What the expensive files of tests/readers/test_limits.py cost: CPU seconds, and MiB of memory.

Run ``python bench/limits.py`` in a checkout, on a quiet machine. The costliest comes first. A rule
names the limit that refuses the file.
"""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests" / "readers" / "test_limits.py"


def main() -> None:
    """Read each file in a process of its own, and print what it took."""
    tests = runpy.run_path(str(TESTS))
    costs = {}
    for name, (file_name, make, _) in tests["CASES"].items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, file_name)
            path.write_bytes(make())
            costs[name] = tests["cost"](path)
    print(f"{'file':<40}{'rule':<16}{'seconds':>8}{'work':>7}{'MiB':>7}")
    for name, cost in sorted(costs.items(), key=lambda item: -item[1].seconds):
        print(
            f"{name:<40}{cost.rule:<16}{cost.seconds:>8.2f}{cost.work:>7.1f}{cost.mebibytes:>7.0f}"
        )


if __name__ == "__main__":
    main()
