"""A scan on Spark: a real master and two workers on this machine, which lack the package."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.request import urlopen

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
    pytest.mark.skipif(os.name != "posix", reason="the workers' Python is a shell script"),
]

COUNT = 60  # folders: two workers read them one a task, so a kill falls between two tasks
LIMIT = 180  # seconds, on a busy machine
JOB, LOST = '"Event":"SparkListenerJobStart"', '"Reason":"ExecutorLostFailure"'
READING = 4  # jobs: the list is dealt out and read, first a few checkpoints, then the rest
SOURCES = Path(__file__).parents[2] / "src"
JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLASSES = "org.apache.spark.deploy"
NEEDED = ("pyarrow", "numpy", "numpy.libs")
# Parts of one checkpoint, so that the first one shows that reading has begun.
SCAN = """
import sys
from weighbridge.cli import main
from weighbridge.fleet import scan, spark
scan.BATCH_ROWS, spark._FIRST, spark._IN_A_TASK = 1, 4, 1
spark = ["--engine", "spark", "--master", sys.argv[2]]
sys.exit(main(["scan", sys.argv[1], *spark, "-o", sys.argv[3]]))
"""
SETTINGS = """
spark.driver.host 127.0.0.1
spark.driver.memory 600m
spark.executor.memory 512m
spark.ui.enabled false
spark.sql.shuffle.partitions 2
spark.eventLog.enabled true
spark.eventLog.compress false
spark.eventLog.dir file://{events}
"""


class Cluster(NamedTuple):
    """The master's address, the workers, and what a driver needs in its environment."""

    address: str
    workers: list[subprocess.Popen[bytes]]
    environment: dict[str, str]
    events: Path


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def python_without_the_package(folder: Path) -> Path:
    """Return a Python that imports the packages that a worker needs, and no other."""
    packages = folder / "packages"
    packages.mkdir()
    import pyarrow as pa

    installed = Path(pa.__file__).parents[1]
    for name in NEEDED:
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name)
    launcher = folder / "python"
    launcher.write_text(
        "#!/bin/sh\n"
        f'export PYTHONPATH="$PYTHONPATH:{packages}"\n'
        f'exec "{sys.executable}" -S "$@"\n'  # -S: no site-packages
    )
    launcher.chmod(0o755)
    return launcher


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    events, settings = folder / "events", folder / "settings"
    events.mkdir()
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(SETTINGS.format(events=events))
    home = Path(pyspark.__file__).parent
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    (core,) = (home / "jars").glob("spark-core_*.jar")  # spark-core_2.13-4.3.0.jar
    environment["SPARK_SCALA_VERSION"] = core.name.split("_")[1].split("-")[0]
    driver = {
        **environment,
        "PYTHONPATH": str(SOURCES),
        "PYSPARK_PYTHON": str(python_without_the_package(folder)),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(settings),
    }
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    log = (folder / "cluster.log").open("wb")

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = ["java", *JAVA, "-cp", str(home / "jars" / "*"), f"{CLASSES}.{name}"]
        command += ["--host", "127.0.0.1", *arguments]
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)

    processes = [start("master.Master", "-p", str(port), "--webui-port", str(page))]
    try:
        wait_for_workers(0, page, folder / "cluster.log")
        for number in range(2):
            limits = ("-c", "1", "-m", "600M", "--webui-port", "0")
            work = ("-d", str(folder / f"worker{number}"))
            processes.append(start("worker.Worker", *limits, *work, master))
        wait_for_workers(2, page, folder / "cluster.log")
        yield Cluster(master, processes[1:], driver, events)
    finally:
        for process in processes:
            end(process)
        log.close()


def wait_for_workers(count: int, page: int, log: Path) -> None:
    """Wait until the page of the master shows so many workers."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        try:
            with urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
                if json.load(answer)["aliveworkers"] == count:
                    return
        except (OSError, ValueError):
            pass  # it does not answer yet, or not with its own page
        time.sleep(0.2)
    pytest.fail(f"the cluster did not start: {log.read_text(errors='replace')[-2000:]}")


def end(process: subprocess.Popen[Any]) -> None:
    """End a process with all that it started, as a machine that fails does."""
    if process.poll() is None:
        started = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for each in started:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
    process.wait()


def start_scan(
    cluster: Cluster, lake: str, output: Path, *, shared: tuple[int, ...] = ()
) -> subprocess.Popen[str]:
    """Start the driver; only it has the sources in its path."""
    script = output.with_suffix(".py")
    script.write_text(SCAN)
    return subprocess.Popen(
        [sys.executable, str(script), lake, cluster.address, str(output)],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=shared,
    )


@pytest.mark.sampled("src/weighbridge/fleet", "src/weighbridge/readers")
def test_a_folder_that_the_workers_do_not_see_is_no_success(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The path leads through a folder that the driver holds open, and only the driver."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("this system has no /proc")
    lake, output = tmp_path / "lake", tmp_path / "spark.parquet"
    make_lake(lake, 2, layers=1)
    held = os.open(lake, os.O_RDONLY)
    process = start_scan(cluster, f"/proc/self/fd/{held}/org00", output, shared=(held,))
    _, err = process.communicate(timeout=LIMIT)
    os.close(held)
    assert process.returncode == 2, err
    assert "the workers of Spark do not see files that are on the driver" in err
    assert not list(output.glob("part-*")), "no row was written"


@pytest.mark.sampled("src/weighbridge/fleet", "src/weighbridge/readers")
def test_a_worker_killed_in_the_middle_costs_no_row(cluster: Cluster, tmp_path: Path) -> None:
    python = cluster.environment["PYSPARK_PYTHON"]
    bare = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    importing = [python, "-c", "import pyarrow; import weighbridge"]
    found = subprocess.run(importing, env=bare, capture_output=True, text=True, check=False)
    assert "No module named 'weighbridge'" in found.stderr, "the workers lack the package"
    lake, output, local = tmp_path / "lake", tmp_path / "spark.parquet", tmp_path / "local.parquet"
    make_lake(lake, COUNT, layers=1)
    earlier = count_in(cluster.events, JOB)
    process = start_scan(cluster, str(lake), output)
    deadline = time.monotonic() + LIMIT
    while count_in(cluster.events, JOB) < earlier + READING and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)  # tasks of a fifth of a second, of which each worker has some forty
    end(cluster.workers[0])
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    assert count_in(cluster.events, LOST), "a task was running on the worker"
    scan([str(lake)], local)
    paths = [row["path"] for row in rows_in(output)]
    assert len(paths) == len(set(paths)) >= COUNT
    assert rows_in(output, compared=True) == rows_in(local, compared=True)


def count_in(events: Path, mark: str) -> int:
    """Return how often Spark's own log of events has a text."""
    logs = [file.read_text(errors="replace") for file in events.rglob("events_*")]
    return sum(text.count(mark) for text in logs)
