"""Scans a made lake of checkpoints: seconds, memory from first to last, and what kills leave.

usage: python bench/scan.py [--checkpoints 20000] [--lake FOLDER]

The lake has every format, hostile files, files that are cut short, and large ones that are holes.
Files are in the page cache, so the figures are of reading headers, not of a disk.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from lakes import make_lake, rows_in  # noqa: E402

SCAN = "from weighbridge.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
_SAMPLES_PER_SECOND = 10


def scanned(lake: Path, output: Path, *options: str) -> dict[str, object]:
    """Scan in a process of its own; return its answer, and its memory while it read."""
    command = [sys.executable, "-c", SCAN, "scan", str(lake), "-o", str(output), "--json"]
    begun = time.perf_counter()
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE)
    watched, memory = psutil.Process(process.pid), []
    while process.poll() is None:
        try:
            parts = len(list(output.glob("part-*.parquet")))
            memory.append((parts, watched.memory_info().rss))
        except psutil.Error:
            break
        time.sleep(1 / _SAMPLES_PER_SECOND)
    answer = json.loads(process.communicate()[0])
    first = [rss for parts, rss in memory if parts == 1]
    last = [rss for parts, rss in memory if parts == memory[-1][0] - 1]
    answer["wall_seconds"] = time.perf_counter() - begun
    answer["rss_first"], answer["rss_last"] = max(first, default=0), max(last, default=0)
    return answer


def main() -> None:
    """Make the lake unless it is there, scan it three times, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=int, default=20_000)
    parser.add_argument("--lake", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = options.lake or Path(folder) / "lake"
        if not lake.exists():
            make_lake(lake, options.checkpoints)
        one, two = Path(folder) / "one.parquet", Path(folder) / "two.parquet"
        first = scanned(lake, one)
        both = scanned(lake, two, "--workers", "2")
        again = scanned(lake, one)
        count = first["checkpoints"]
        print(f"{count:,} checkpoints, {first['by_status']}")
        guessed = first["layouts_guessed"]
        print(f"one process: {first['wall_seconds']:.1f} s, {guessed} layouts guessed")
        ratio = first["wall_seconds"] / both["wall_seconds"]
        print(f"two processes: {both['wall_seconds']:.1f} s, {ratio:.2f} times as fast")
        print(f"again, nothing changed: {again['wall_seconds']:.1f} s, {again['new']} read")
        mib = [first[name] / 2**20 for name in ("rss_first", "rss_last")]
        print(f"memory: {mib[0]:.0f} MiB at the first part, {mib[1]:.0f} MiB before the last")
        same = rows_in(one, compared=True) == rows_in(two, compared=True)
        print(f"rows of one and of two processes are equal: {same}")


if __name__ == "__main__":
    main()
