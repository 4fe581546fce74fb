"""A scan that is killed: resumed, it has each path once; and no worker outlives it."""

from __future__ import annotations

import contextlib
import json
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
# Parts of one checkpoint, so that a small lake has many.
SCAN = """
import sys
from weighbridge.fleet import scan, rows, workers

if __name__ == "__main__":
    scan.BATCH_ROWS = workers._AT_ONCE = 1
    scan.scan([sys.argv[1]], sys.argv[2], scan.ScanSettings(workers=2))
"""
# Each scan is a process of its own, which has what is imported here, and is killed some seconds
# after its first part: while it reads or writes the next ones.
KILLED_SCANS = """
import json, os, signal, sys, time
from pathlib import Path
from threading import Thread
import duckdb, pyarrow.parquet
from weighbridge.answers import weigh
from weighbridge.fleet import comparing, scan, workers

scan.BATCH_ROWS = workers._AT_ONCE = 1

def kill_later(read):
    if read == 1:
        Thread(target=kill, daemon=True).start()

def kill():
    time.sleep(delay)
    os.kill(os.getpid(), signal.SIGKILL)

for delay in json.loads(sys.argv[3]):
    child = os.fork()
    if not child:
        scan.scan([sys.argv[1]], sys.argv[2], watch=kill_later)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, len(list(Path(sys.argv[2]).glob("part-*"))))
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


def start(lake: Path, output: Path, folder: Path) -> subprocess.Popen[bytes]:
    script = folder / "run.py"
    script.write_text(SCAN)
    command = [sys.executable, str(script), str(lake), str(output)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


@pytest.mark.sampled("src/weighbridge/fleet", "src/weighbridge/readers")
def test_killed_twenty_times_and_resumed_it_equals_an_undisturbed_run(
    lake: Path, undisturbed: list[dict[str, Any]], tmp_path: Path, seed: int
) -> None:
    output = tmp_path / "fleet.parquet"
    draw = random.Random(seed)  # noqa: S311
    delays = json.dumps([draw.random() * 0.03 for _ in range(KILLS)])
    command = [sys.executable, "-c", KILLED_SCANS, str(lake), str(output), delays]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT, check=False)
    assert ran.returncode == 0, ran.stderr
    parts, kills = 0, 0
    for line in ran.stdout.splitlines():
        status, count = map(int, line.split())
        assert status == -signal.SIGKILL, ran.stderr
        assert count > parts, "it was killed after its first part"
        parts, kills = count, kills + 1
    assert kills == KILLS
    assert parts < len(undisturbed), "every kill fell while something was left to read"
    scan([str(lake)], output)
    assert rows_in(output, compared=True) == undisturbed
    assert not list(output.rglob("*.part")), "nothing half-written is left"
    paths = [row["path"] for row in rows_in(output)]
    assert len(paths) == len(set(paths))


def test_no_worker_outlives_a_killed_scan_by_two_seconds(lake: Path, tmp_path: Path) -> None:
    process = start(lake, tmp_path / "fleet.parquet", tmp_path)
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


@pytest.mark.sampled("src/weighbridge/fleet", "src/weighbridge/readers")
def test_a_worker_that_dies_costs_nothing_but_time(
    lake: Path, undisturbed: list[dict[str, Any]], tmp_path: Path
) -> None:
    output = tmp_path / "fleet.parquet"
    process = start(lake, output, tmp_path)
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
