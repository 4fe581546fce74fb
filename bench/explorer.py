"""What pages of `explore` take: bytes, evaluating and painting a step of a dial, moves of cells.

Run it on a machine that does nothing else: python bench/explorer.py [MODEL …]. It needs Chromium,
node, and `npm ci` in web/. Each dial of a page is turned by four steps to each side. A step is
evaluated 20 times; it is painted when the second frame after the input event begins.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import weighbridge as wb
from weighbridge.blueprint import operations
from weighbridge.blueprint.schema import families

if TYPE_CHECKING:
    from collections.abc import Sequence

WEB = Path(__file__).parents[1] / "web"
MODELS = ("deepseek-ai/DeepSeek-V3", "qwen3_next")
BUDGET = 100_000  # bytes of a page
NEAR = 0.95


def at_share(values: Sequence[float], share: float) -> float:
    """Return the value that a share of the others do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def page_sizes() -> dict[str, int]:
    """Return the bytes of the page of every family, of its recorded class where there is one."""
    recorded, sizes = set(operations.available()), {}
    for family in families():
        class_name = operations.load_operations(family).base_class if family in recorded else None
        sizes[family] = len(wb.explore(family, class_name=class_name).html_page().encode())
    return sizes


def print_sizes() -> None:
    """Print the bytes of the pages of all families."""
    sizes = page_sizes()
    values = list(sizes.values())
    over = sorted((size, family) for family, size in sizes.items() if size > BUDGET)
    print(f"pages of {len(sizes)} families: median {at_share(values, 0.5):,.0f} bytes")
    print(f"  95% have at most {at_share(values, NEAR):,.0f}; the largest has {max(values):,}")
    print(
        f"  over {BUDGET:,}: {', '.join(f'{family} {size:,}' for size, family in over) or 'none'}"
    )


def print_dials(model: str, browser: str, folder: Path) -> None:
    """Print what the steps of the dials of a page take."""
    page = wb.explore(model).save(folder / "page.html")
    command = ["node", str(WEB / "tests" / "dials.mjs"), browser, str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    print(f"{model}: {len(rows)} steps of {len({row['dial'] for row in rows})} dials")
    for name, unit in (
        ("evaluated", "ms of CPU, evaluated"),
        ("cpu", "ms of CPU of the main thread, painted"),
        ("painted", "ms on the clock, painted"),
        ("moved", "px, the farthest move of a cell"),
    ):
        values = [row[name] for row in rows]
        middle, near, most = (at_share(values, share) for share in (0.5, NEAR, 1))
        print(f"  {middle:7.2f} median {near:7.2f} p95 {most:7.2f} most   {unit}")


def main() -> int:
    """Print the figures."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("bench/explorer.py needs Chromium")
    with tempfile.TemporaryDirectory(prefix="weighbridge-bench-") as scratch:
        for model in sys.argv[1:] or MODELS:
            print_dials(model, browser, Path(scratch))
    print_sizes()
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
