"""Plays turns in processes of their own, each of which ends with its turn.

So no family can stop the run, and what it allocates is freed. The processes are forks: torch and
transformers are imported once.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, NamedTuple

from attacking import reference, turns
from attacking.turns import STOPPED, Case

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from multiprocessing.connection import Connection

    from attacking.turns import Turn
    from attacking.verdicts import Scale

MOST_BYTES = 3 << 30
MOST_SECONDS = 180  # for a turn, with what it shrinks
_POLL_SECONDS = 1.0


class _Worker(NamedTuple):
    """A process that plays a turn, and where it sends the cases."""

    turn: Turn
    process: Any
    connection: Connection
    began: float


def cases(
    schedule: Iterator[Turn], seed: str, scale: Scale, *, jobs: int, seconds: float | None
) -> Generator[Case]:
    """Yield the cases of the turns as they come, until there is no turn left or no time."""
    began = time.monotonic()
    workers: list[_Worker] = []
    try:
        while True:
            is_over = seconds is not None and time.monotonic() - began >= seconds
            while len(workers) < jobs and not is_over:
                turn = next(schedule, None)
                if turn is None:
                    is_over = True
                else:
                    workers.append(_started(turn, seed, scale))
            if not workers:
                return
            yield from _received(workers)
            yield from _stopped(workers)
            workers = [worker for worker in workers if not worker.connection.closed]
    finally:
        for worker in workers:
            worker.process.kill()


def _started(turn: Turn, seed: str, scale: Scale) -> _Worker:
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_work, args=(turn, seed, scale, sender), daemon=True)
    process.start()
    sender.close()
    return _Worker(turn, process, receiver, time.monotonic())


def _work(turn: Turn, seed: str, scale: Scale, sender: Connection) -> None:
    reference.prepare()
    if scale.is_limited:
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    for case in turns.played(turn, seed, scale):
        sender.send(case)


def _received(workers: list[_Worker]) -> Iterator[Case]:
    ready = wait([worker.connection for worker in workers], timeout=_POLL_SECONDS)
    for connection in ready:
        try:
            yield connection.recv()
        except EOFError:
            connection.close()


def _stopped(workers: list[_Worker]) -> Iterator[Case]:
    """Stop the workers that take too long, and join those that have ended."""
    for worker in workers:
        if time.monotonic() - worker.began > MOST_SECONDS:
            worker.process.kill()
            worker.connection.close()
            reason = f"took more than {MOST_SECONDS} seconds"
            yield Case(worker.turn.family, STOPPED, [], {}, [], reason)
        if worker.connection.closed:
            worker.process.join()
