"""The result of a scan: a folder of Parquet files, each written whole or not at all.

``fleet.parquet/part-….parquet`` hold the checkpoints, ``fleet.parquet/_layouts/`` the layouts. The
parts are their own list of what is done: a scan that was killed goes on after the last part. A file
that has changed gets a new row; the latest row of a path counts.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weighbridge.errors import UsageError
from weighbridge.files import write_durably
from weighbridge.fleet.columns import SCHEMA, checkpoint_schema, layout_schema, package
from weighbridge.readers.rules import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.fleet.listing import ListedCheckpoint

_LAYOUTS = "_layouts"
_PARTS = "part-*.parquet"
_LOCK = ".lock"
_KEYS_AT_ONCE = 10_000
_ROW_GROUP = 100_000  # rows of a compacted part

# The latest row of each path. Two equal rows may stand there, if compacting was interrupted.
_LATEST = (
    "SELECT * FROM {parts} QUALIFY row_number() OVER "
    "(PARTITION BY path ORDER BY scanned_at DESC, stamp) = 1"
)


class FleetTable:
    """The folder of one result."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the folder, remove what a killed scan left half-written, and lock it meanwhile.

        Raises:
            UsageError: the folder cannot be made, is something else, or another scan writes to it.
        """
        if self.folder.exists() and not self.folder.is_dir():
            hint = "name a folder that does not exist yet, or one that a scan has written"
            raise UsageError("the result of a scan is a folder", where=str(self.folder), hint=hint)
        try:
            (self.folder / _LAYOUTS).mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR)
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            hint = "name a folder that can be written with --output"
            raise UsageError(what, where=str(self.folder), hint=hint) from None
        try:
            self._take(lock)
            for left in self.folder.rglob(".part-*.part"):
                shutil.rmtree(left, ignore_errors=True)
            yield
        finally:
            os.close(lock)  # the lock ends with it, also if the process is killed

    def _take(self, lock: int) -> None:
        try:
            import fcntl  # noqa: PLC0415  # Windows has none
        except ImportError:
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            hint = "wait for it, or name another folder with --output"
            raise UsageError(
                "another scan is writing there", where=str(self.folder), hint=hint
            ) from None

    # Writing

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows of checkpoints as one part, named by its keys."""
        keys = "".join(f"{row['path']}\n{row['stamp']}\n" for row in rows)
        self._write(self.folder, keys, rows, checkpoint_schema())

    def write_layouts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows of layouts as one part."""
        keys = "".join(row["layout"] for row in rows)
        self._write(self.folder / _LAYOUTS, keys, rows, layout_schema())

    def _write(self, folder: Path, keys: str, rows: Any, schema: Any) -> None:
        pyarrow, parquet = package("pyarrow"), package("pyarrow.parquet")
        table = pyarrow.Table.from_pylist(list(rows), schema=schema)
        digest = sha256(keys.encode()).hexdigest()[:16]
        path = folder / f"part-{digest}.parquet"
        write_durably(path, lambda part: parquet.write_table(table, part, compression="zstd"))

    # Reading

    @property
    def parts(self) -> list[str]:
        """The files of the checkpoints."""
        return sorted(map(str, self.folder.glob(_PARTS)))

    def connection(self) -> Any:
        """Return a DuckDB connection with the views ``checkpoints`` and ``layouts``.

        Raises:
            UsageError: DuckDB is not installed.
        """
        connection = package("duckdb").connect()
        connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
        latest = _LATEST.format(parts=self._relation(self.parts, checkpoint_schema(), connection))
        connection.execute(f"CREATE VIEW checkpoints AS {latest}")
        layout_parts = sorted(map(str, (self.folder / _LAYOUTS).glob(_PARTS)))
        layouts = self._relation(layout_parts, layout_schema(), connection)
        connection.execute(
            f"CREATE VIEW layouts AS SELECT * FROM {layouts} "
            f"WHERE schema = {SCHEMA} "
            "QUALIFY row_number() OVER (PARTITION BY layout) = 1"
        )
        return connection

    def _relation(self, parts: Sequence[str], schema: Any, connection: Any) -> str:
        """Return SQL for the rows of some parts; without parts, for an empty table."""
        if parts:
            quoted = ", ".join("'" + part.replace("'", "''") + "'" for part in parts)
            return f"read_parquet([{quoted}], union_by_name = true)"
        name = f"empty_{len(schema)}"
        connection.register(name, schema.empty_table())
        return name

    def unread(self, listed: Iterable[ListedCheckpoint]) -> Iterator[ListedCheckpoint]:
        """Yield what no row stands for yet: new files, and files that have changed.

        The keys of the rows are held by DuckDB, which takes a tenth of Python's memory for them.
        """
        connection = self.connection()
        connection.execute(
            "CREATE TEMP TABLE known AS SELECT DISTINCT listed_as, stamp FROM checkpoints "
            f"WHERE schema = {SCHEMA}"
        )
        chunk: list[ListedCheckpoint] = []
        for one in listed:
            chunk.append(one)
            if len(chunk) == _KEYS_AT_ONCE:
                yield from self._new(chunk, connection)
                chunk = []
        yield from self._new(chunk, connection)

    def _new(self, chunk: list[ListedCheckpoint], connection: Any) -> Iterator[ListedCheckpoint]:
        keys = _keys(chunk)
        connection.register("listed", keys.append_column("place", [range(len(chunk))]))
        new = connection.execute(
            "SELECT place FROM listed ANTI JOIN known USING (listed_as, stamp) ORDER BY place"
        ).fetchall()
        connection.unregister("listed")
        for (place,) in new:
            yield chunk[place]

    def new_layouts(self) -> list[tuple[str, str]]:
        """Return each layout without a description, with the path of a checkpoint that has it."""
        found: list[tuple[str, str]] = (
            self.connection()
            .execute(
                "SELECT layout, min(path) FROM checkpoints ANTI JOIN layouts USING (layout) "
                "WHERE status = 'ok' AND kind IN ('file', 'index', 'split') "
                "GROUP BY layout ORDER BY layout"
            )
            .fetchall()
        )
        return found

    # Tidying

    def prune(self, listed: Iterable[ListedCheckpoint]) -> int:
        """Drop old rows and those of files that are gone, and return how many."""
        connection = self.connection()
        connection.execute("CREATE TEMP TABLE kept (listed_as VARCHAR, stamp VARCHAR)")
        chunk: list[ListedCheckpoint] = []
        for one in listed:
            chunk.append(one)
            if len(chunk) == _KEYS_AT_ONCE:
                _keep(chunk, connection)
                chunk = []
        _keep(chunk, connection)
        before = _rows_in(connection, self._relation(self.parts, checkpoint_schema(), connection))
        return before - self._rewrite(connection, "SEMI JOIN kept USING (listed_as, stamp)")

    def compact(self) -> int:
        """Write all parts as one, in the order of paths, and return the number of rows."""
        return self._rewrite(self.connection(), "")

    def _rewrite(self, connection: Any, filtering: str) -> int:
        """Write the latest rows as one part, then remove the others; return the number of rows."""
        parquet = package("pyarrow.parquet")
        parts = self.parts
        if not parts:
            return 0
        selected = f"SELECT * FROM checkpoints {filtering} ORDER BY path"
        digest = sha256("\n".join((*parts, filtering)).encode()).hexdigest()[:16]
        path = self.folder / f"part-all-{digest}.parquet"
        rows = 0

        def write(part: str) -> None:
            nonlocal rows
            schema = checkpoint_schema()
            with parquet.ParquetWriter(part, schema, compression="zstd") as writer:
                for batch in connection.sql(selected).to_arrow_reader(_ROW_GROUP):
                    writer.write_table(_as_table(batch, schema))
                    rows += batch.num_rows

        write_durably(path, write)
        for part in parts:
            if Path(part) != path:
                Path(part).unlink()
        return rows


def _as_table(batch: Any, schema: Any) -> Any:
    pyarrow = package("pyarrow")
    return pyarrow.Table.from_batches([batch]).select(schema.names).cast(schema)


def _keys(chunk: Sequence[ListedCheckpoint]) -> Any:
    paths = [without_secrets(one.path) for one in chunk]
    stamps = [one.stamp for one in chunk]
    return package("pyarrow").table({"listed_as": paths, "stamp": stamps})


def _keep(chunk: Sequence[ListedCheckpoint], connection: Any) -> None:
    connection.register("listed", _keys(chunk))
    connection.execute("INSERT INTO kept SELECT DISTINCT listed_as, stamp FROM listed")
    connection.unregister("listed")


def _rows_in(connection: Any, relation: str) -> int:
    counted: int = connection.execute(f"SELECT count(*) FROM {relation}").fetchall()[0][0]
    return counted
