"""Scans a made lake of checkpoints: CPU seconds, wall time, and memory from first to last.

usage: python bench/scan.py [--checkpoints 20000] [--lake FOLDER]

The lake has every format, hostile files, files that are cut short, and large ones that are holes.
Files are in the page cache, so the figures are of reading headers, not of a disk. CPU seconds are
those of the processes, whatever else runs on the machine. What two processes can gain at most is
the CPU time of one, divided by that of the busiest process of the two workers and their parent.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from lakes import make_lake, rows_in  # noqa: E402

SCAN = """
import json, resource, sys
from weighbridge.cli import main
if __name__ == "__main__":
    status = main(sys.argv[1:])
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps([one.ru_utime + one.ru_stime for one in used]), file=sys.stderr)
    sys.exit(status)
"""
_SAMPLES_PER_SECOND = 10
WORKERS = 2


def scanned(lake: Path, output: Path, *options: str) -> dict[str, Any]:
    """Scan in a process of its own; return its answer, and its memory while it read."""
    script = output.with_suffix(".py")
    script.write_text(SCAN)  # a file, which the processes of workers can import
    command = [sys.executable, str(script), "scan", str(lake), "-o", str(output), "--json"]
    begun = time.perf_counter()
    pipe = subprocess.PIPE
    process = subprocess.Popen([*command, *options], stdout=pipe, stderr=pipe, text=True)
    watched, memory = psutil.Process(process.pid), []
    while process.poll() is None:
        try:
            parts = len(list(output.glob("part-*.parquet")))
            memory.append((parts, watched.memory_info().rss))
        except psutil.Error:
            break
        time.sleep(1 / _SAMPLES_PER_SECOND)
    out, err = process.communicate()
    answer = json.loads(out)
    answer["cpu_of_parent"], answer["cpu_of_workers"] = json.loads(err.splitlines()[-1])
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
        both = scanned(lake, two, "--workers", str(WORKERS))
        again = scanned(lake, one)
        same = rows_in(one, compared=True) == rows_in(two, compared=True)
    print(f"{first['checkpoints']:,} checkpoints, {first['by_status']}")
    print(f"one process: {_times(first)}, {first['layouts_guessed']} layouts guessed")
    print(
        f"two processes: {_times(both)}: {first['wall_seconds'] / both['wall_seconds']:.2f} times"
    )
    busiest = max(both["cpu_of_parent"], both["cpu_of_workers"] / WORKERS)
    most = first["cpu_of_parent"] / busiest
    print(f"  parent {both['cpu_of_parent']:.1f} s, workers {both['cpu_of_workers']:.1f} s of CPU")
    print(f"  so that two processes with a core each can be {most:.2f} times as fast")
    print(f"again, nothing changed: {_times(again)}, {again['new']} read")
    mib = [first[name] / 2**20 for name in ("rss_first", "rss_last")]
    print(f"memory: {mib[0]:.0f} MiB at the first part, {mib[1]:.0f} MiB before the last")
    print(f"rows of one and of two processes are equal: {same}")


def _times(answer: dict[str, Any]) -> str:
    cpu = answer["cpu_of_parent"] + answer["cpu_of_workers"]
    return f"{cpu:.1f} s of CPU, {answer['wall_seconds']:.1f} s"


if __name__ == "__main__":
    main()
