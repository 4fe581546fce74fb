"""An engine on Spark: the driver lists, its workers read, and rows come back as Arrow batches.

The driver writes the rows, as for every engine, so that each row is written once, whatever happens
to a worker, and a scan that was interrupted goes on. Workers need pyarrow, but not this package:
the driver sends it to them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weighbridge.errors import UsageError
from weighbridge.fleet.columns import checkpoint_schema, listing_schema, package
from weighbridge.fleet.listing import ListedCheckpoint, StoredFile
from weighbridge.fleet.rows import rows
from weighbridge.fleet.workers import OneProcess
from weighbridge.readers.paths import PARTIAL
from weighbridge.readers.rules import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

_FIRST = 20  # checkpoints of the first job: if a worker cannot see them, no other job starts
_IN_A_JOB = 20_000  # checkpoints; their rows come back to the driver together
_IN_A_TASK = 100
_NOT_SEEN = {"missing", "no-match", "shard-missing", "unreadable"}


class Spark:
    """Reads on the workers of a Spark cluster."""

    def __init__(self, master: str = "") -> None:
        package("pyspark", "spark")
        self._master = master
        self._folder = tempfile.TemporaryDirectory(prefix="weighbridge-")
        self._session: Any = None

    def __enter__(self) -> Self:
        if self._master.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        self._session = _session(self._master)
        self._session.sparkContext.addPyFile(_own_archive(Path(self._folder.name)))
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.stop()
        self._folder.cleanup()

    def run(
        self, listed: Iterable[ListedCheckpoint]
    ) -> Iterator[tuple[list[ListedCheckpoint], list[dict[str, Any]]]]:
        """Yield some of the list with their rows, in order.

        Raises:
            UsageError: the workers do not see files that the driver sees.
        """
        rest = iter(listed)
        size = _FIRST
        while chunk := list(islice(rest, size)):
            found = self._read(chunk)
            _check_seen(chunk, found)
            yield chunk, found
            size = _IN_A_JOB

    def layouts(self, found: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """Yield the row of each layout. There are few, so the driver makes them."""
        return OneProcess().layouts(found)

    def _read(self, chunk: list[ListedCheckpoint]) -> list[dict[str, Any]]:
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  # slow to import

        slices = -(-len(chunk) // _IN_A_TASK)
        frame = self._session.createDataFrame(as_table(chunk)).repartition(slices)
        types = from_arrow_schema(checkpoint_schema())
        table = frame.mapInArrow(read_batches, types).toArrow()
        found: list[dict[str, Any]] = table.to_pylist()
        return sorted(found, key=lambda row: row["path"])


def read_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows of listed checkpoints, both as Arrow batches: what a worker runs."""
    return rows(chain.from_iterable(map(from_batch, batches)))


def as_table(listed: Iterable[ListedCheckpoint]) -> Any:
    """Return listed checkpoints as an Arrow table."""
    records = []
    for one in listed:
        files = [file._asdict() for file in one.files]
        records.append({**one._asdict(), "files": files})
    return package("pyarrow").Table.from_pylist(records, schema=listing_schema())


def from_batch(batch: Any) -> Iterator[ListedCheckpoint]:
    """Yield the listed checkpoints in an Arrow batch or table."""
    for record in batch.to_pylist():
        files = tuple(StoredFile(**file) for file in record["files"])
        yield ListedCheckpoint(**{**record, "files": files})


def _session(master: str) -> Any:
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors.exceptions.base import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.appName("weighbridge scan")
    if master:
        builder = builder.master(master)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            "Spark does not start",
            values={"reason": reason},
            hint="Spark needs Java 17 or newer, and a master that answers",
        ) from None
    session.sparkContext.setLogLevel("ERROR")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_IN_A_TASK))
    return session


def _own_archive(folder: Path) -> str:
    """Return a zip archive of this package, which Python imports as it is."""
    import weighbridge  # noqa: PLC0415

    own = Path(weighbridge.__file__).parent
    if not own.is_dir():
        return str(own.parent)  # this one was imported from such an archive
    path = folder / "weighbridge.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(own.rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                archive.write(file, file.relative_to(own.parent))
    return str(path)


def _check_seen(chunk: list[ListedCheckpoint], found: list[dict[str, Any]]) -> None:
    """Refuse rows of files that are missing for a worker, but not for the driver.

    Raises:
        UsageError: there are such files.
    """
    missing = {row["listed_as"] for row in found if row["rule"] in _NOT_SEEN}
    suspects = [one for one in chunk if one.path in missing and one.kind != PARTIAL]
    unseen = [one.path for one in suspects if not is_remote(one.path) and _are_here(one)]
    if unseen:
        raise UsageError(
            "the workers of Spark do not see files that are on the driver",
            values={"files": len(unseen), "first": unseen[0]},
            hint="give a path that is mounted everywhere, or an address such as s3://…",
        )


def _are_here(one: ListedCheckpoint) -> bool:
    """Return whether all files of a checkpoint can be opened in this process."""
    return all(os.access(file.name, os.R_OK) for file in one.files)
