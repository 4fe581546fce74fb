"""A scan on Spark: a real master and two workers on this machine, which lack the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
import pytest
from lakes import make_lake, rows_in

from weighbridge.fleet.scan import scan

if TYPE_CHECKING:
    from collections.abc import Iterator

pyspark = pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed"),
]

COUNT, PORT = 60, 17077
MASTER = f"spark://127.0.0.1:{PORT}"
START = 90  # seconds
SOURCES = Path(__file__).parents[2] / "src"
CLASSES = "org.apache.spark.deploy"
SCAN = """
import sys
from weighbridge.cli import main
if sys.argv[1] == "slow":
    from weighbridge.fleet import spark
    spark._FIRST, spark._IN_A_TASK = 4, 2
spark = ["--engine", "spark", "--master", sys.argv[3]]
sys.exit(main(["scan", sys.argv[2], *spark, "-o", sys.argv[4]]))
"""


class Cluster(NamedTuple):
    environment: dict[str, str]
    workers: list[subprocess.Popen[bytes]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Start a master and two workers; their Python has pyarrow, and not this package's sources."""
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1"}
    without = {name: text for name, text in environment.items() if name != "PYTHONPATH"}
    launcher = str(home / "bin" / "spark-class")
    log = (tmp_path / "cluster.log").open("wb")

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [launcher, *arguments], env=without, cwd=tmp_path, stdout=log, stderr=log
        )

    where = ("--host", "127.0.0.1")
    processes = [start(f"{CLASSES}.master.Master", *where, "-p", str(PORT), "--webui-port", "0")]
    for number in range(2):
        folder = str(tmp_path / f"worker{number}")
        limits = ("-c", "1", "-m", "1200M", "-d", folder, "--webui-port", "0")
        processes.append(start(f"{CLASSES}.worker.Worker", *where, *limits, MASTER))
    deadline = time.monotonic() + START
    registered = 0
    try:
        while registered < 2:
            text = (tmp_path / "cluster.log").read_text(errors="replace")
            registered = text.count("Successfully registered with master")
            assert time.monotonic() < deadline, text[-2000:]
            time.sleep(0.2)
        yield Cluster(environment, processes[1:])
    finally:
        for process in processes:
            _end(process.pid)
            process.wait()
        log.close()


def _end(pid: int) -> None:
    """End a process of the cluster with all that it started, as a machine that fails does."""
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    for each in [process, *process.children(recursive=True)]:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue


def start_scan(cluster: Cluster, lake: Path, output: Path, how: str) -> subprocess.Popen[str]:
    """Start the driver; only it has the sources in its path."""
    script = output.with_suffix(".py")
    script.write_text(SCAN)
    return subprocess.Popen(
        [sys.executable, str(script), how, str(lake), MASTER, str(output)],
        env={**cluster.environment, "PYTHONPATH": str(SOURCES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_worker_killed_in_the_middle_costs_no_row(cluster: Cluster, tmp_path: Path) -> None:
    lake, output = tmp_path / "lake", tmp_path / "spark.parquet"
    make_lake(lake, COUNT, layers=1)
    process = start_scan(cluster, lake, output, "slow")
    worker, killed = psutil.Process(cluster.workers[0].pid), False
    deadline = time.monotonic() + START
    while process.poll() is None and not killed and time.monotonic() < deadline:
        children = worker.children(recursive=True)
        if any("pyspark.daemon" in " ".join(child.cmdline()) for child in children):
            _end(worker.pid)
            killed = True
        time.sleep(0.02)
    _, err = process.communicate(timeout=2 * START)
    assert killed, "the worker was reading"
    assert process.returncode == 0, err
    local = tmp_path / "local.parquet"
    scan([str(lake)], local)
    assert rows_in(output, compared=True) == rows_in(local, compared=True)


def test_a_folder_that_the_workers_do_not_see_is_no_success(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The driver sees the files under its own root of the file system, as a container would."""
    lake, output = tmp_path / "lake", tmp_path / "spark.parquet"
    make_lake(lake, 5, layers=1)
    # A path into the driver's own open folder: elsewhere, /proc/self is another process.
    script = output.with_suffix(".py")
    script.write_text(SCAN)
    held = os.open(lake, os.O_RDONLY)
    os.set_inheritable(held, True)
    process = subprocess.run(
        [sys.executable, str(script), "fast", f"/proc/self/fd/{held}/org00", MASTER, str(output)],
        env={**cluster.environment, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        pass_fds=(held,),
        timeout=2 * START,
        check=False,
    )
    os.close(held)
    assert process.returncode == 2, process.stderr
    assert "the workers of Spark do not see files that are on the driver" in process.stderr
    assert not list(output.glob("part-*")), "no row was written"
