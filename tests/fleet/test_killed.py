"""A scan that is killed: resumed, it has each path once; and no worker outlives it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from lakes import make_lake, rows_in

from weighbridge.fleet.scan import scan

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL"),
]

KILLS = 20
# Parts of three checkpoints, so that a small lake has many.
SCAN = """
import sys
from weighbridge.fleet import scan, rows, workers
if __name__ == "__main__":
    scan.BATCH_ROWS = 3
    workers._AT_ONCE = 1
    scan.scan([sys.argv[1]], sys.argv[2], scan.ScanSettings(workers=int(sys.argv[3])))
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake") / "lake"
    make_lake(folder, 60, layers=1)
    return folder


def start(lake: Path, output: Path, folder: Path, workers: int) -> subprocess.Popen[bytes]:
    script = folder / "run.py"
    script.write_text(SCAN)
    command = [sys.executable, str(script), str(lake), str(output), str(workers)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def test_killed_twenty_times_and_resumed_it_equals_an_undisturbed_run(
    lake: Path, tmp_path: Path, seed: int
) -> None:
    output, undisturbed = tmp_path / "fleet.parquet", tmp_path / "undisturbed.parquet"
    scan([str(lake)], undisturbed)
    draw, kills, parts = random.Random(seed), 0, 0  # noqa: S311
    while kills < KILLS:
        process = start(lake, output, tmp_path, 1)
        deadline = time.monotonic() + 60
        wanted = parts + draw.choice([0, 1])
        while len(list(output.glob("part-*"))) < wanted and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(draw.random() * 0.02)
        finished = process.poll() is not None
        process.kill()
        process.communicate()
        assert not finished or process.returncode in {0, -signal.SIGKILL}
        kills += 1
        parts = len(list(output.glob("part-*")))
    scan([str(lake)], output)
    assert rows_in(output, compared=True) == rows_in(undisturbed, compared=True)
    assert not list(output.rglob("*.part")), "nothing half-written is left"
    paths = [row["path"] for row in rows_in(output)]
    assert len(paths) == len(set(paths))


def test_no_worker_outlives_a_killed_scan_by_two_seconds(lake: Path, tmp_path: Path) -> None:
    process = start(lake, tmp_path / "fleet.parquet", tmp_path, 2)
    watched = psutil.Process(process.pid)
    deadline = time.monotonic() + 60
    while len(watched.children(recursive=True)) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)  # two workers, and the tracker of multiprocessing's resources
    children = watched.children(recursive=True)
    assert len(children) >= 2
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=2)
    for child in alive:
        with contextlib.suppress(psutil.Error):
            child.kill()
    assert not alive


def test_a_worker_that_dies_costs_nothing_but_time(lake: Path, tmp_path: Path) -> None:
    output = tmp_path / "fleet.parquet"
    process = start(lake, output, tmp_path, 2)
    watched = psutil.Process(process.pid)
    deadline = time.monotonic() + 60
    while not list(output.glob("part-*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    workers = [child for child in watched.children() if "spawn_main" in " ".join(child.cmdline())]
    os.kill(workers[0].pid, signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    scan([str(lake)], tmp_path / "undisturbed.parquet")
    found = rows_in(output, compared=True)
    died = [row for row in found if row["rule"] == "worker-died"]
    assert not died
    assert found == rows_in(tmp_path / "undisturbed.parquet", compared=True)
