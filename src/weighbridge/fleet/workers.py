"""Engines on this machine: one process, or several that end when their parent does."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

from weighbridge.fleet.rows import died_row, row_dicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from weighbridge.fleet.listing import ListedCheckpoint

    Rows = list[dict[str, Any]]

_AT_ONCE = 25  # checkpoints: enough that sending them costs nothing
_AHEAD = 4  # tasks that wait for each worker


class OneProcess:
    """Reads in this process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(
        self, listed: Iterable[ListedCheckpoint]
    ) -> Iterator[tuple[list[ListedCheckpoint], Rows]]:
        """Yield some of the list with their rows, in order."""
        rest = iter(listed)
        while chunk := list(islice(rest, _AT_ONCE)):
            yield chunk, row_dicts(chunk)

    def layouts(self, found: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """Yield the row of each layout."""
        from weighbridge.fleet.comparing import layout_row  # noqa: PLC0415  # imports the solver

        for layout, path in found:
            yield layout_row(layout, path)


class Workers:
    """Reads in several processes. If one dies, only the checkpoint that it was reading is lost."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._workers, mp_context=context, initializer=_end_with_parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def run(
        self, listed: Iterable[ListedCheckpoint]
    ) -> Iterator[tuple[list[ListedCheckpoint], Rows]]:
        """Yield some of the list with their rows, in order."""
        rest = iter(listed)
        waiting: deque[tuple[list[ListedCheckpoint], Future[Rows]]] = deque()
        while True:
            while len(waiting) < _AHEAD * self._workers:
                chunk = list(islice(rest, _AT_ONCE))
                if not chunk:
                    break
                waiting.append((chunk, self._submit(chunk)))
            if not waiting:
                return
            chunk, future = waiting.popleft()
            try:
                yield chunk, future.result()
            except BrokenProcessPool:
                chunks = [chunk, *(other for other, _ in waiting)]
                waiting.clear()
                self._pool = self._new_pool()
                for chunk in chunks:
                    yield chunk, [row for one in chunk for row in self._one_by_one(one)]

    def _submit(self, chunk: list[ListedCheckpoint]) -> Future[Rows]:
        try:
            return self._pool.submit(row_dicts, chunk)
        except BrokenProcessPool as error:
            failed: Future[Rows] = Future()
            failed.set_exception(error)
            return failed

    def _one_by_one(self, one: ListedCheckpoint) -> Rows:
        """Read one checkpoint alone, so that it is known which one ends the process."""
        try:
            return self._submit([one]).result()
        except BrokenProcessPool:
            self._pool = self._new_pool()
            return [died_row(one)]

    def layouts(self, found: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """Yield the row of each layout."""
        from weighbridge.fleet.comparing import layout_row  # noqa: PLC0415  # imports the solver

        pairs = list(found)
        layouts, paths = [layout for layout, _ in pairs], [path for _, path in pairs]
        yield from self._pool.map(layout_row, layouts, paths)


def _end_with_parent() -> None:
    """End this process as soon as its parent does, even if that was killed.

    The parent's sentinel is the end of a pipe, which the system closes.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()
