"""Runs derivations, each in its own process: code that hangs or dies is one subject's failure, and the others go on.

What comes of a subject does not depend on what else is derived, in which order, or on how many
processes there are.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from functools import cache
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from weighbridge.errors import ModelError, UsageError, WeighbridgeError, shorten

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from weighbridge.derive.probing.subject import Subject

LIMIT_SECONDS = 240  # that one subject may take
_LONGEST_REASON = 300


class Task(NamedTuple):
    """What to derive: a family of transformers, or a class as ``package.module:Class`` with its config."""

    subject: str
    config: str | None = None
    fields: Mapping[str, Any] = {}  # of a config of the user's
    family: str | None = None
    classes: tuple[str, ...] | None = None
    seed: int = 0
    operations: bool = False  # in place of the blueprint

    @property
    def is_own(self) -> bool:
        """Whether it is the user's own class."""
        return ":" in self.subject


class Done(NamedTuple):
    """What came of a task: the text of a blueprint and what it lacks, or the error that there is instead."""

    task: Task
    text: str = ""
    exact: bool = False
    holes: tuple[str, ...] = ()
    error: WeighbridgeError | None = None
    seconds: float = 0


def run(
    tasks: Iterable[Task], jobs: int = 1, limit_seconds: float = LIMIT_SECONDS
) -> Generator[Done]:
    """Derive each task in a process of its own, this many at a time, and yield what comes of them as it comes.

    One that takes longer than the limit is ended. Where the generator is closed, all are.
    """
    waiting, running = deque(tasks), dict["Connection", _Worker]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                worker = _Worker(waiting.popleft(), limit_seconds)
                running[worker.pipe] = worker
            next_end = min(worker.end for worker in running.values())
            ready = wait(list(running), max(0, next_end - time.monotonic()))
            now = time.monotonic()
            for pipe in [
                pipe for pipe, worker in running.items() if pipe in ready or worker.end <= now
            ]:
                yield running.pop(pipe).done()
    finally:
        for worker in running.values():
            worker.stop()


class _Worker:
    """A process that derives one task."""

    def __init__(self, task: Task, limit_seconds: float) -> None:
        self.task, self.limit_seconds = task, limit_seconds
        self.began = time.monotonic()
        self.end = self.began + limit_seconds
        context = multiprocessing.get_context("fork" if hasattr(os, "fork") else None)
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_work, args=(task, theirs), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # a library's threads: none of them is needed there
            self.process.start()
        theirs.close()

    def done(self) -> Done:
        """Return what came of it; one that is not done is ended."""
        said: dict[str, Any] = {}
        with contextlib.suppress(EOFError, OSError, ValueError):
            if self.pipe.poll():
                said = json.loads(self.pipe.recv_bytes())
        late = not said and time.monotonic() >= self.end
        self.stop(gently=bool(said))
        seconds = time.monotonic() - self.began
        if "text" in said:
            return Done(self.task, said["text"], said["exact"], tuple(said["holes"]), None, seconds)
        return Done(
            self.task, error=_error(said.get("error")) or self._failure(late=late), seconds=seconds
        )

    def _failure(self, *, late: bool) -> WeighbridgeError:
        where = self.task.subject
        if late:
            hint = "give it longer with --limit"
            return ModelError(
                f"was not derived in {self.limit_seconds:g} seconds", where=where, hint=hint
            )
        code = self.process.exitcode or 0
        how = f"by signal {-code}" if code < 0 else f"with status {code}"
        return ModelError(
            f"its process ended {how}", where=where, hint="see that it can be built at all"
        )

    def stop(self, *, gently: bool = False) -> None:
        """End the process; gently, let it end by itself first."""
        if gently:
            self.process.join(5)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _error(said: Mapping[str, Any] | None) -> WeighbridgeError | None:
    """Return an error as another process had it."""
    return said and WeighbridgeError(
        said["what"], where=said["where"], values=said["values"], hint=said["hint"]
    )  # type: ignore[return-value]


# What runs in the process


def _work(task: Task, pipe: Connection) -> None:
    """Derive a task and send what comes of it."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # whoever started this is interrupted too, and ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _silence(own=task.is_own)
    try:
        said = _derived(task)
    except WeighbridgeError as error:
        said = {"error": _told(error)}
    except (Exception, SystemExit) as error:  # whatever a model's own code raises
        reason = shorten(
            " ".join(f"{type(error).__name__}: {error}".split()), str, _LONGEST_REASON
        ).rstrip(".")
        failure = ModelError(
            f"deriving it raised {reason}",
            where=task.subject,
            hint="see that it can be built at all",
        )
        said = {"error": _told(failure)}
    with contextlib.suppress(OSError):
        pipe.send_bytes(json.dumps(said).encode())


def _derived(task: Task) -> dict[str, Any]:
    import torch  # noqa: PLC0415

    from weighbridge.derive.derivation import derive  # noqa: PLC0415

    torch.set_num_threads(1)
    subject = subject_of(task)
    for class_name in task.classes or ():
        subject.check_class(class_name)
    if task.operations:
        return _operated(task, subject)
    found = derive(subject, classes=task.classes, seed=task.seed)
    return {"text": found.text, "exact": found.exact, "holes": list(found.holes)}


def _operated(task: Task, subject: Subject) -> dict[str, Any]:
    """Derive the operations of a subject; of a class of no family that has a blueprint, that first."""
    import tomllib  # noqa: PLC0415

    from weighbridge.blueprint import schema as blueprint  # noqa: PLC0415
    from weighbridge.derive.derivation import derive  # noqa: PLC0415
    from weighbridge.derive.operations.operate import operate  # noqa: PLC0415

    if subject.family not in blueprint.families():
        known = blueprint.Blueprint(
            tomllib.loads(derive(subject, classes=task.classes, seed=task.seed).text)
        )
    else:
        known = blueprint.load(subject.family)
    found = operate(subject, known, task.classes, task.seed)
    return {"text": found.text, "exact": found.exact, "holes": list(found.holes)}


def subject_of(task: Task) -> Subject:
    """Return what a task is about.

    Raises:
        WeighbridgeError: there is no such family or class, or it cannot be built.
    """
    if task.is_own:
        from weighbridge.derive.probing.own import OwnSubject  # noqa: PLC0415

        return OwnSubject(task.subject, task.config, task.fields, task.family)
    found: Subject = reference().FamilySubject(task.subject)
    return found


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, however it did."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _silence(*, own: bool) -> None:
    """Send what is printed nowhere; what a user's own code prints is words, and goes to stderr."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    sys.stdout = sys.stderr if own else open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # till the end
    os.dup2(2 if own else nowhere, 1)
    if not own:
        sys.stderr = sys.stdout
        os.dup2(nowhere, 2)


def _told(error: WeighbridgeError) -> dict[str, Any]:
    values = {
        name: value if _is_plain(value) else shorten(value) for name, value in error.values.items()
    }
    return {"what": error.what, "where": error.where, "values": values, "hint": error.hint}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


# What it needs


def check_installed(
    *, own: bool, why: str = "deriving runs the model's code", extra: str = "derive"
) -> None:
    """See that what runs a model's code is there.

    Args:
        own: the model is a user's own, and no family of transformers.
        why: what needs it, for the message.
        extra: the extra of this package that has it.

    Raises:
        UsageError: torch, NumPy or, for a family, transformers is missing.
    """
    needed = ("numpy", "torch") if own else ("numpy", "torch", "transformers")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{why}, which needs {' and '.join(missing)}",
            hint=f"`pip install torch==2.13.0`, then `pip install 'weighbridge[{extra}]'`",
        )


@cache
def reference() -> Any:
    """Return the module of transformers' families, imported; it fetches nothing from anywhere."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    with mock.patch.dict(os.environ, offline):
        return importlib.import_module("weighbridge.derive.probing.reference")
