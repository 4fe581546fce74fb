"""Runs `weighbridge derive`: for one family, a user's class, or many families to a folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO

from weighbridge.data import LANGUAGES
from weighbridge.derive.running.address import REMOTE, family_of
from weighbridge.derive.running.folder import BlueprintFolder, check_replaceable, home
from weighbridge.derive.running.runs import Done, Task, check_installed, reference, run_tasks
from weighbridge.errors import UsageError, WeighbridgeError, shorten
from weighbridge.files import write_whole
from weighbridge.readers.remote_code import remote_code_in
from weighbridge.render.messages import error_message, in_language

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ALL = "all"
_BAR = 24  # characters
_LONGEST_HOLE = 300  # characters of a hole that are shown


class DeriveRequest(NamedTuple):
    """What the user asked to derive, and how.

    ``subjects`` are families of transformers, `ALL`, one class of the user's own as
    ``package.module:Class``, or the folder of a model repository whose code is trusted.
    """

    subjects: Sequence[str]
    config: str | None = None
    fields: Mapping[str, Any] = {}
    family: str | None = None
    classes: Sequence[str] | None = None
    output: str | None = None
    jobs: int = 1
    seed: int = 0
    limit_seconds: float = 240
    again: bool = False
    operations: bool = False
    flow: bool = False
    trust_remote_code: bool = False
    lang: str = LANGUAGES[0]

    @property
    def part(self) -> str:
        """A table that the written file must have."""
        if self.flow:
            return "flow"
        return "saved" if self.operations else "tensors"


def run_request(request: DeriveRequest, say: Callable[[str], None]) -> tuple[int, str]:
    """Return the exit status and the answer; ``say`` reports notes meanwhile.

    Raises:
        WeighbridgeError: the request is wrong, or the only subject cannot be derived.
    """
    if request.trust_remote_code or os.path.isdir(request.subjects[0]):
        return _remote(request, say)
    _check_request(request)
    if ":" in request.subjects[0]:
        check_installed(own=True)
        return _own(request, say)
    check_installed(own=False)
    known = reference().model_types()
    if list(request.subjects) == [ALL]:
        return _many(known, request)
    for family in request.subjects:
        reference().check_family(family)
    if len(request.subjects) > 1:
        return _many(list(dict.fromkeys(request.subjects)), request)
    return _one(request, say)


def _check_request(request: DeriveRequest) -> None:
    """Check that the options have valid values and can be combined.

    Raises:
        UsageError: a value is invalid, or two options exclude each other.
    """
    if request.jobs < 1:
        raise UsageError(
            "--jobs must be a number of processes",
            values={"jobs": request.jobs},
            hint="give 1 or more",
        )
    if not request.limit_seconds > 0:
        values = {"limit": request.limit_seconds}
        raise UsageError(
            "--limit must be a time in seconds", values=values, hint="give more than 0"
        )
    is_many = len(request.subjects) > 1 or ALL in request.subjects
    _check_own(request)
    if request.operations and request.flow:
        hint = "derive one after the other"
        raise UsageError("--operations and --flow write separate files", hint=hint)
    if is_many and request.operations:
        hint = "name one family, or leave out --operations"
        raise UsageError("--operations works with one family only", hint=hint)
    if is_many and request.flow:
        hint = "name one family, or leave out --flow"
        raise UsageError("--flow works with one family only", hint=hint)
    if request.flow and request.classes:
        hint = "leave out --class"
        raise UsageError("--flow records the base class only", hint=hint)
    if is_many and request.classes:
        hint = "name one family, or leave out --class"
        raise UsageError("--class works with one family only", hint=hint)


def _check_own(request: DeriveRequest) -> None:
    """Check that a user's own class is the only subject, and that its options go with it.

    Raises:
        UsageError: there are other subjects, or options for a class without one.
    """
    own = [subject for subject in request.subjects if ":" in subject]
    if own and len(request.subjects) > 1:
        raise UsageError(
            "a class of your own must be the only subject",
            values={"class": own[0]},
            hint="name only this class",
        )
    if ALL in request.subjects and len(request.subjects) > 1:
        hint = "give either `all` or the names of families"
        raise UsageError("`all` already includes every family", hint=hint)
    options = {"--config": request.config, "--set": request.fields, "--family": request.family}
    for option, value in options.items():
        if value and not own:
            raise UsageError(
                f"{option} works only with a class of your own",
                values={"found": request.subjects[0]},
                hint="write your class as package.module:Class",
            )


def _one(request: DeriveRequest, say: Callable[[str], None]) -> tuple[int, str]:
    """Derive one family; write it to a file, or return it as the answer."""
    family = request.subjects[0]
    path = _path(request.output, family, request.part)
    done = _done(
        Task(
            family,
            classes=_classes(request),
            seed=request.seed,
            operations=request.operations,
            flow=request.flow,
        ),
        request,
        say,
    )
    if path is None:
        return int(not done.exact), done.text
    if not _write_if_exact(path, done, say):
        return 1, ""
    return 0, in_language(f"{path}: {_state(done)}", request.lang)


def _remote(request: DeriveRequest, say: Callable[[str], None]) -> tuple[int, str]:
    """Derive the class that a folder's config names, if its code is trusted.

    Raises:
        WeighbridgeError: it is not trusted, the folder has no code, or an option does not go with
            it.
    """
    folder, *others = request.subjects
    if others or request.config or request.family or request.operations or request.flow:
        raise UsageError(
            "--trust-remote-code takes one folder and derives its blueprint",
            hint="leave out other subjects, --config, --family, --operations and --flow",
        )
    code = remote_code_in(folder)
    if not request.trust_remote_code:
        raise UsageError(
            f"has its own code, in {' and '.join(code.files)}",
            where=folder,
            hint="if you trust all of that folder's code, run it with --trust-remote-code",
        )
    check_installed(own=False)
    module, _, name = code.model.rpartition(".")
    config_module, _, config_name = code.config.rpartition(".")
    own = request._replace(
        subjects=[f"{REMOTE}.{module}:{name}"],
        config=f"{REMOTE}.{config_module}:{config_name}" if config_name else None,
        family=code.family or None,
    )
    return _own(own, say, folder)


def _own(request: DeriveRequest, say: Callable[[str], None], folder: str = "") -> tuple[int, str]:
    """Derive a user's class to a file, and return its total with its formula."""
    family = family_of(request.subjects[0], request.family)
    name = f"{family}.toml"
    if request.operations or request.flow:
        name = f"{family}.{'operations' if request.operations else 'flow'}.toml"
    path = _path(request.output or name, family, request.part) or Path(name)
    task = Task(
        request.subjects[0],
        request.config,
        dict(request.fields),
        family,
        _classes(request),
        request.seed,
        request.operations,
        request.flow,
        folder,
    )
    done = _done(task, request, say)
    if not _write_if_exact(path, done, say):
        return 1, ""
    if request.operations or request.flow:
        return 0, in_language(f"{path}: {_state(done)}", request.lang)
    return 0, _summary(path, request.lang)


def _classes(request: DeriveRequest) -> tuple[str, ...] | None:
    return None if request.classes is None else tuple(request.classes)


def _path(output: str | None, family: str, part: str) -> Path | None:
    """Return the file to write; checked first, so that no work is wasted."""
    if output is None:
        return None
    path = Path(output).expanduser()
    if path.is_dir():
        path /= f"{family}.toml"
    if not path.parent.is_dir():
        raise UsageError("there is no such folder", where=str(path.parent), hint="create it first")
    check_replaceable(path, family, part)
    return path


def _done(task: Task, request: DeriveRequest, say: Callable[[str], None]) -> Done:
    """Return the result of one task; ``say`` reports its holes.

    Raises:
        WeighbridgeError: the task failed.
    """
    with contextlib.closing(run_tasks([task], 1, request.limit_seconds)) as results:
        done = next(results)
    if done.error:
        raise done.error
    label = "hole" if done.exact else "not proved"
    for hole in done.holes:
        say(f"{label}: {in_language(_shown_hole(hole), request.lang)}")
    return done


def _write_if_exact(path: Path, done: Done, say: Callable[[str], None]) -> bool:
    """Write a result if it was proved, and return whether it was."""
    if done.exact:
        write_whole(path, done.text)
        return True
    if done.task.operations:
        say(f"{path} was not written: the operations differ from what the code does")
    elif done.task.flow:
        say(f"{path} was not written: the flow differs from what the code does")
    else:
        say(f"{path} was not written: the blueprint differs from what the code builds")
    return False


def _summary(path: Path, lang: str) -> str:
    from weighbridge.answers.weigh import weigh  # noqa: PLC0415
    from weighbridge.render.table import wrap  # noqa: PLC0415

    weighing = weigh(str(path))
    blueprint = weighing.model.blueprint
    formula = weighing.ledger.formula().text({}, sorted(blueprint.repeats))
    configs = blueprint.proof["configs"]
    proved = f"{path}: the blueprint, proved against the code on {configs} unseen configs"
    usage = f"`weighbridge weigh {path} --set FIELD=VALUE` weighs it at other sizes"
    if not blueprint.fields:
        proved = f"{path}: the blueprint, without fields: no argument changes a tensor"
        usage = f"`weighbridge weigh {path}` weighs it"
    elif not configs:
        proved = f"{path}: the blueprint; no unseen config was left to prove it on"
    sentences = (
        f"{weighing.class_name}: {weighing.parameters:,} parameters at the defaults",
        f"= {formula}",
        f"{proved}; {usage}",
    )
    return "\n".join(wrap(in_language(sentence, lang)) for sentence in sentences)


# Many families


def _many(families: Sequence[str], request: DeriveRequest) -> tuple[int, str]:
    """Derive families to a folder and return the result of each.

    A family is skipped if its blueprint is there and is up to date.
    """
    folder = BlueprintFolder(home() if request.output is None else _folder(request.output))
    tasks = [Task(family, seed=request.seed) for family in families]
    for task in tasks:
        check_replaceable(folder.file(task), task.subject)
    results: dict[str, Done] = {}
    for task in tasks:
        if not request.again and (kept := folder.kept(task)):
            results[task.subject] = kept
    progress = Progress(len(tasks), sys.stderr)
    before = in_language("derived before", request.lang) if results else ""
    progress.show(before, len(results))
    waiting = [task for task in tasks if task.subject not in results]
    running = contextlib.closing(run_tasks(waiting, request.jobs, request.limit_seconds))
    with running as finished, progress:
        for done in finished:
            if done.error is None and done.exact:
                folder.keep(done)
            results[done.task.subject] = done
            state = f"{done.task.subject}: {_state(done)}, {done.seconds:.0f} s"
            progress.show(in_language(state, request.lang), 1)
    return _report([results[task.subject] for task in tasks], folder.path, request.lang)


def _folder(output: str) -> Path:
    path = Path(output).expanduser()
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        hint = "name a folder with --output"
        raise UsageError(
            f"is not a folder that can be written to: {error.strerror}", where=output, hint=hint
        ) from None
    return path


def _state(done: Done) -> str:
    if done.error:
        return "failed"
    if not done.exact:
        return "not proved"
    if not done.holes:
        return "exact"
    return "1 hole" if len(done.holes) == 1 else f"{len(done.holes)} holes"


def _report(results: Sequence[Done], folder: Path, lang: str) -> tuple[int, str]:
    """Return the exit status, and the answer: a summary, all holes and all failures."""
    failed = [done for done in results if done.error or not done.exact]
    holes = [done for done in results if done not in failed and done.holes]
    exact = len(results) - len(failed) - len(holes)
    summary = (
        f"{folder}: {exact} exact, {len(holes)} with holes, {len(failed)} failed, of {len(results)}"
    )
    lines = [summary]
    for done in holes:
        lines += [
            f"{done.task.subject}: {in_language(_shown_hole(hole), lang)}" for hole in done.holes
        ]
    lines += [f"{done.task.subject}: failed: {_failure(done, lang)}" for done in failed]
    if seconds := [done.seconds for done in results if done.seconds]:
        lines.append(_times(seconds))
    return int(bool(failed)), "\n".join(in_language(line, lang) for line in lines)


def _times(seconds: Sequence[float]) -> str:
    """Return how long the families took that were derived in this run, each in its process."""
    families = "1 family" if len(seconds) == 1 else f"{len(seconds)} families"
    return f"{families} derived in {sum(seconds):.1f} s, {median(seconds):.1f} s in the median"


def _failure(done: Done, lang: str) -> str:
    """Return why a family failed."""
    if done.error:
        error = WeighbridgeError(done.error.what, values=done.error.values)
        return error_message(error, lang)
    hole = in_language(_shown_hole(next(iter(done.holes), "")), lang)
    return in_language(f"not proved: {hole}", lang)


def _shown_hole(hole: str) -> str:
    return shorten(hole, str, _LONGEST_HOLE)


class Progress:
    r"""The progress of a run: a bar on a terminal, elsewhere a line for each family.

    Example:
        >>> import io
        >>> shown = io.StringIO()
        >>> with Progress(2, shown) as progress:
        ...     progress.show("bert: exact", 1)
        >>> shown.getvalue()
        'weighbridge: 1/2 bert: exact\n'
    """

    def __init__(self, whole: int, stream: TextIO | None) -> None:
        self.whole, self.stream, self.done = whole, stream, 0
        self.is_terminal = stream is not None and stream.isatty()

    def show(self, what: str, more: int) -> None:
        """Show what was done, and advance by this much."""
        self.done += more
        if self.stream is None or (not what and not self.is_terminal):
            return
        if not self.is_terminal:
            self._write(f"weighbridge: {self.done}/{self.whole} {what}\n")
            return
        filled = _BAR * self.done // max(1, self.whole)
        line = f"[{'#' * filled}{'-' * (_BAR - filled)}] {self.done}/{self.whole} {what}"
        self._write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_terminal:
            self._write("\n")

    def _write(self, text: str) -> None:
        if self.stream is not None:
            with contextlib.suppress(OSError):
                self.stream.write(text)
                self.stream.flush()
