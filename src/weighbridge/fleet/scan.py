"""A scan: every checkpoint below some paths, a row each, in Parquet. It can be resumed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from weighbridge import data, units
from weighbridge.answers.answer import Answer
from weighbridge.errors import UsageError, printable
from weighbridge.fleet.columns import package
from weighbridge.fleet.comparing import Comparisons
from weighbridge.fleet.listing import listed_in
from weighbridge.fleet.rows import BATCH_ROWS
from weighbridge.fleet.store import FleetTable
from weighbridge.fleet.workers import OneProcess, Workers
from weighbridge.readers.rules import without_secrets
from weighbridge.render.document import Aside, Document, Notes, Title, Together

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from weighbridge.fleet.listing import ListedCheckpoint

ENGINES = ("local", "spark")


class ScanEngine(Protocol):
    """Reads what is listed, wherever it likes."""

    def run(
        self, listed: Iterable[ListedCheckpoint]
    ) -> Iterator[tuple[list[ListedCheckpoint], list[dict[str, Any]]]]:
        """Yield some of the list with their rows, in order."""

    def layouts(self, found: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """Yield the row of each layout, given the path of a checkpoint that has it."""


class ScanSettings(NamedTuple):
    """How to scan: the processes, the engine, and what to do with the parts in the end."""

    workers: int = 1
    engine: str = ENGINES[0]
    master: str = ""
    compact: bool = False
    prune: bool = False


def scan(
    paths: Sequence[str],
    output: str | os.PathLike[str],
    settings: ScanSettings | None = None,
    watch: Callable[[int], None] | None = None,
) -> Scanned:
    """Read the header of every checkpoint below some paths into a folder of Parquet files.

    Args:
        paths: folders, checkpoints, patterns, or addresses of either.
        output: the folder of the result. What stands there already is not read again, unless its
            files have changed.
        settings: how to scan.
        watch: called after each part, with the number of checkpoints read so far.

    Raises:
        UsageError: a path or the folder does not exist, or a package is missing.
    """
    settings = settings or ScanSettings()
    for name in ("pyarrow", "duckdb"):
        package(name)
    begun, table, comparisons = time.perf_counter(), FleetTable(output), Comparisons()
    new = layouts = 0
    dropped = None
    with table.writing(), _engine(settings) as engine:
        for part in _completed_parts(engine, table.unread(listed_in(paths)), comparisons):
            table.write(part)
            new += len(part)
            if watch:
                watch(new)
        described = list(engine.layouts(table.new_layouts()))
        if described:
            table.write_layouts(described)
        layouts = len(described)
        if settings.prune:
            dropped = table.prune(listed_in(paths))
        if settings.compact:
            table.compact()
    seconds = time.perf_counter() - begun
    return Scanned(table, new, layouts, comparisons.count, dropped, seconds)


def _engine(settings: ScanSettings) -> AbstractContextManager[ScanEngine]:
    if settings.engine == "spark":
        from weighbridge.fleet.spark import Spark  # noqa: PLC0415  # needs another package

        return Spark(settings.master)
    if settings.workers < 1:
        raise UsageError(
            "there must be at least one worker",
            values={"workers": settings.workers},
            hint="give --workers 1 or more",
        )
    return OneProcess() if settings.workers == 1 else Workers(settings.workers)


def _completed_parts(
    engine: ScanEngine, listed: Iterable[ListedCheckpoint], comparisons: Comparisons
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in parts, each row compared with its config."""
    part: list[dict[str, Any]] = []
    for chunk, rows in engine.run(listed):
        by_path = {without_secrets(one.path): one for one in chunk}
        for row in rows:
            comparisons.complete(row, by_path[row["listed_as"]])
        part += rows
        if len(part) >= BATCH_ROWS:
            yield part
            part = []
    if part:
        yield part


class Scanned(Answer):
    """What `scan` returns: how much was read, and what stands in the folder now."""

    def __init__(
        self,
        table: FleetTable,
        new: int,
        layouts: int,
        compared: int,
        dropped: int | None,
        seconds: float,
    ) -> None:
        self.table, self.new, self.layouts, self.compared = table, new, layouts, compared
        self.dropped, self.seconds = dropped, seconds
        counted = table.connection().execute(
            "SELECT status, count(*) FROM checkpoints GROUP BY 1 ORDER BY 2 DESC, 1"
        )
        self.by_status: dict[str, int] = dict(counted.fetchall())

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, ready for JSON."""
        return {
            "output": str(self.table.folder),
            "checkpoints": sum(self.by_status.values()),
            "by_status": self.by_status,
            "new": self.new,
            "layouts_guessed": self.layouts,
            "layouts_compared": self.compared,
            "dropped": self.dropped,
            "seconds": self.seconds,
        }

    def document(self, lang: str = "en") -> Document:
        """Return the numbers in a few sentences."""
        texts = scan_words(lang)
        total = sum(self.by_status.values())
        where = printable(str(self.table.folder))
        title = Title(texts["scanned"].format(where=where, count=units.count(total)))
        statuses = []
        for status, count in self.by_status.items():
            statuses.append(texts["of_status"].format(name=texts[status], count=units.count(count)))
        notes = [texts["and"].join(statuses) + texts["stop"]] if statuses else []
        speed = units.count(round(self.new / self.seconds)) if self.seconds else "0"
        seconds = units.number(round(self.seconds, 1))
        read = {"new": units.count(self.new), "seconds": seconds, "speed": speed}
        notes.append(texts["read"].format(**read))
        counts = {"guessed": units.count(self.layouts), "compared": units.count(self.compared)}
        notes.append(Aside(texts["once"].format(**counts)))
        if self.dropped is not None:
            notes.append(texts["dropped"].format(count=units.count(self.dropped)))
        notes.append(Aside(texts["next"].format(where=where)))
        return Document((Together((title, Notes(tuple(notes)))),), lang)


def scan_words(lang: str) -> dict[str, str]:
    """Return the words of a scan in a language."""
    return data.read_toml(f"words/scan.{lang}.toml")
