"""A scan that is killed: resumed, it has each path once; and no worker outlives it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

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
WAIT = 120  # seconds, on a busy machine
# Parts of one checkpoint, so that a small lake has many. With a delay, the scan is killed that many
# seconds after its first part, and so while it reads or writes the next ones.
SCAN = """
import os, signal, sys, time
from threading import Thread
from weighbridge.fleet import scan, rows, workers

def kill_later(read):
    if delay is not None and read == 1:
        Thread(target=kill, daemon=True).start()

def kill():
    time.sleep(delay)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    scan.BATCH_ROWS = workers._AT_ONCE = 1
    delay = float(sys.argv[4]) if sys.argv[4] else None
    settings = scan.ScanSettings(workers=int(sys.argv[3]))
    scan.scan([sys.argv[1]], sys.argv[2], settings, kill_later)
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake") / "lake"
    make_lake(folder, 60, layers=1)
    return folder


@pytest.fixture(scope="module")
def undisturbed(lake: Path) -> list[dict[str, Any]]:
    """The rows of a scan that nothing disturbs."""
    scan([str(lake)], lake.parent / "undisturbed.parquet")
    return rows_in(lake.parent / "undisturbed.parquet", compared=True)


def start(
    lake: Path, output: Path, folder: Path, workers: int, delay: str = ""
) -> subprocess.Popen[bytes]:
    script = folder / "run.py"
    script.write_text(SCAN)
    command = [sys.executable, str(script), str(lake), str(output), str(workers), delay]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def test_killed_twenty_times_and_resumed_it_equals_an_undisturbed_run(
    lake: Path, undisturbed: list[dict[str, Any]], tmp_path: Path, seed: int
) -> None:
    output = tmp_path / "fleet.parquet"
    draw, parts = random.Random(seed), 0  # noqa: S311
    for _ in range(KILLS):
        process = start(lake, output, tmp_path, 1, str(draw.random() * 0.03))
        _, err = process.communicate(timeout=WAIT)
        assert process.returncode == -signal.SIGKILL, err
        assert len(list(output.glob("part-*"))) > parts, "it was killed after its first part"
        parts = len(list(output.glob("part-*")))
    assert parts < len(undisturbed), "every kill fell while something was left to read"
    scan([str(lake)], output)
    assert rows_in(output, compared=True) == undisturbed
    assert not list(output.rglob("*.part")), "nothing half-written is left"
    paths = [row["path"] for row in rows_in(output)]
    assert len(paths) == len(set(paths))


def test_no_worker_outlives_a_killed_scan_by_two_seconds(lake: Path, tmp_path: Path) -> None:
    process = start(lake, tmp_path / "fleet.parquet", tmp_path, 2)
    watched = psutil.Process(process.pid)
    deadline = time.monotonic() + WAIT
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


def test_a_worker_that_dies_costs_nothing_but_time(
    lake: Path, undisturbed: list[dict[str, Any]], tmp_path: Path
) -> None:
    output = tmp_path / "fleet.parquet"
    process = start(lake, output, tmp_path, 2)
    watched = psutil.Process(process.pid)
    deadline = time.monotonic() + WAIT
    while not list(output.glob("part-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no part came"
        time.sleep(0.005)
    workers = [child for child in watched.children() if "spawn_main" in " ".join(child.cmdline())]
    assert len(workers) == 2
    os.kill(workers[0].pid, signal.SIGKILL)
    _, err = process.communicate(timeout=WAIT)
    assert process.returncode == 0, err
    found = rows_in(output, compared=True)
    assert not [row for row in found if row["rule"] == "worker-died"]
    assert found == undisturbed
