"""Runs derivations, each in its own process.

If the code of one subject hangs or dies, that subject fails and the others go on. The result for a
subject does not depend on what else is derived, on the order, or on the number of processes.
"""

from __future__ import annotations

import contextlib
import gc
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

    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.probing.subject import Subject

LIMIT_SECONDS = 240  # time limit for one subject
_LONGEST_REASON = 300
_OBJECTS_BETWEEN_COLLECTIONS = 100_000  # Python's own number is 700
_COLLECTIONS_OF_YOUNG = 20  # before older objects are looked at
_HINT_OF_FAILURE = "check that the model can be built without weighbridge"


class Task(NamedTuple):
    """What to derive: a family of transformers, or a class with its config.

    A class is given as ``package.module:Class``.
    """

    subject: str
    config: str | None = None
    fields: Mapping[str, Any] = {}  # values for the user's own config
    family: str | None = None
    classes: tuple[str, ...] | None = None
    seed: int = 0
    operations: bool = False  # derive operations instead of the blueprint
    flow: bool = False  # derive the flow instead of the blueprint
    folder: str = ""  # of a model repository whose code is trusted; the subject is in it

    @property
    def is_own(self) -> bool:
        """Whether the subject is the user's own class."""
        return ":" in self.subject


class Done(NamedTuple):
    """The result of a task: the text of a blueprint and its holes, or an error."""

    task: Task
    text: str = ""
    exact: bool = False
    holes: tuple[str, ...] = ()
    error: WeighbridgeError | None = None
    seconds: float = 0


def run_tasks(
    tasks: Iterable[Task], jobs: int = 1, limit_seconds: float = LIMIT_SECONDS
) -> Generator[Done]:
    """Derive each task in its own process, ``jobs`` at a time; yield each result when it is done.

    A process that exceeds the time limit is killed. Closing the generator kills all processes.
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
            # the warning about forking a process with threads: the child needs none of them
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()

    def done(self) -> Done:
        """Return the result; kill the process if it is not done."""
        message: dict[str, Any] = {}
        with contextlib.suppress(EOFError, OSError, ValueError):
            if self.pipe.poll():
                message = json.loads(self.pipe.recv_bytes())
        late = not message and time.monotonic() >= self.end
        self.stop(gently=bool(message))
        seconds = time.monotonic() - self.began
        if "text" in message:
            text, exact, holes = message["text"], message["exact"], tuple(message["holes"])
            return Done(self.task, text, exact, holes, None, seconds)
        if "error" in message:
            return Done(self.task, error=WeighbridgeError(**message["error"]), seconds=seconds)
        return Done(self.task, error=self._failure(late=late), seconds=seconds)

    def _failure(self, *, late: bool) -> WeighbridgeError:
        where = self.task.subject
        if late:
            hint = "allow more time with --limit"
            return ModelError(
                f"was not derived within {self.limit_seconds:g} seconds", where=where, hint=hint
            )
        code = self.process.exitcode or 0
        what = f"its process exited with status {code}"
        if code < 0:
            what = f"its process was killed by signal {-code}"
        return ModelError(what, where=where, hint=_HINT_OF_FAILURE)

    def stop(self, *, gently: bool = False) -> None:
        """Kill the process; ``gently`` gives it time to exit first."""
        if gently:
            self.process.join(5)
        self.process.kill()
        self.process.join()
        self.pipe.close()


# In the child process


def _work(task: Task, pipe: Connection) -> None:
    """Derive a task and send the result."""
    # the parent is interrupted too, and kills this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _silence(own=task.is_own)
    try:
        message = _derived(task)
    except WeighbridgeError as error:
        message = {"error": _error_fields(error)}
    except (Exception, SystemExit) as error:  # whatever a model's own code raises
        raised = " ".join(f"{type(error).__name__}: {error}".split())
        reason = shorten(raised, str, _LONGEST_REASON).rstrip(".")
        failure = ModelError(
            f"deriving it raised {reason}", where=task.subject, hint=_HINT_OF_FAILURE
        )
        message = {"error": _error_fields(failure)}
    with contextlib.suppress(OSError):
        pipe.send_bytes(json.dumps(message).encode())


def _derived(task: Task) -> dict[str, Any]:
    import torch  # noqa: PLC0415

    from weighbridge.derive.derivation import derive  # noqa: PLC0415

    torch.set_num_threads(1)
    _collect_rarely()
    subject = subject_of(task)
    for class_name in task.classes or ():
        subject.check_class(class_name)
    if task.operations:
        return _operated(task, subject)
    if task.flow:
        return _flowed(task, subject)
    derived = derive(subject, classes=task.classes, seed=task.seed)
    return {"text": derived.text, "exact": derived.exact, "holes": list(derived.holes)}


def _collect_rarely() -> None:
    """Let Python look for unreachable cycles rarely, and never in what is imported so far.

    Modules are built and dropped all the time, and hardly any is part of a cycle.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, _COLLECTIONS_OF_YOUNG, _COLLECTIONS_OF_YOUNG)


def _operated(task: Task, subject: Subject) -> dict[str, Any]:
    """Derive the operations of a subject; derive its blueprint first if none is shipped."""
    from weighbridge.derive.operations.costing import cost_operations  # noqa: PLC0415
    from weighbridge.derive.operations.operate import operate  # noqa: PLC0415
    from weighbridge.derive.toml_text import operations_text  # noqa: PLC0415

    known = _blueprint(task, subject)
    if not task.is_own:
        raw, differences = cost_operations(subject, known, task.seed, task.classes)
        holes = [*raw["proof"]["holes"], *differences]
        return {"text": operations_text(raw), "exact": not differences, "holes": holes}
    operated = operate(subject, known, task.classes, task.seed)
    return {"text": operated.text, "exact": operated.exact, "holes": list(operated.holes)}


def _flowed(task: Task, subject: Subject) -> dict[str, Any]:
    """Derive the flow of a subject; derive its blueprint first if none is shipped."""
    from weighbridge.derive.flows.flowing import FlowDeriver  # noqa: PLC0415
    from weighbridge.derive.toml_text import flow_text  # noqa: PLC0415

    flowed = FlowDeriver(subject, _blueprint(task, subject), task.seed).derived()
    return {"text": flow_text(flowed.raw), "exact": flowed.exact, "holes": list(flowed.wrong)}


def _blueprint(task: Task, subject: Subject) -> Blueprint:
    """Return the blueprint of a subject; derive it if none is shipped."""
    import tomllib  # noqa: PLC0415

    from weighbridge.blueprint import schema  # noqa: PLC0415
    from weighbridge.derive.derivation import derive  # noqa: PLC0415

    if subject.family in schema.families():
        return schema.load(subject.family)
    derived = derive(subject, classes=task.classes, seed=task.seed)
    return schema.Blueprint(tomllib.loads(derived.text))


def subject_of(task: Task) -> Subject:
    """Return the subject of a task.

    Raises:
        WeighbridgeError: there is no such family or class, or it cannot be built.
    """
    if task.folder:
        from weighbridge.derive.probing.remote import RemoteSubject  # noqa: PLC0415

        return RemoteSubject(task)
    if task.is_own:
        from weighbridge.derive.probing.own import OwnSubject  # noqa: PLC0415

        return OwnSubject(task.subject, task.config, task.fields, task.family)
    subject: Subject = reference().FamilySubject(task.subject)
    return subject


def _end_with_parent() -> None:
    """Exit this process when its parent has ended, however that happened."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _silence(*, own: bool) -> None:
    """Discard printed output; send that of a user's own code to stderr."""
    if own:
        sys.stdout = sys.stderr
        os.dup2(2, 1)
        return
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    os.dup2(sys.stdout.fileno(), 1)
    os.dup2(sys.stdout.fileno(), 2)


def _error_fields(error: WeighbridgeError) -> dict[str, Any]:
    values = {
        name: value if _is_plain(value) else shorten(value) for name, value in error.values.items()
    }
    return {"what": error.what, "where": error.where, "values": values, "hint": error.hint}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


# Requirements


def check_installed(
    *, own: bool, why: str = "deriving runs the model's code", extra: str = "derive"
) -> None:
    """Check that the packages that run a model's code are installed.

    Args:
        own: the model is a user's own, not a family of transformers.
        why: what needs the packages, for the message.
        extra: the extra of this package that installs them.

    Raises:
        UsageError: torch, NumPy or, for a family, transformers is missing.
    """
    needed = ("numpy", "torch") if own else ("numpy", "torch", "transformers")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{why}; missing packages: {', '.join(missing)}",
            hint=f"run `pip install torch==2.13.0`, then `pip install 'weighbridge[{extra}]'`",
        )


@cache
def reference() -> Any:
    """Import and return the module for transformers' families; nothing is downloaded."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    with mock.patch.dict(os.environ, offline):
        return importlib.import_module("weighbridge.derive.probing.reference")
