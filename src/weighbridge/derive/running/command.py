"""What `weighbridge derive` does: one family, a class of the user's, or many families to a folder."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO

from weighbridge.derive.running.address import family_of
from weighbridge.derive.running.folder import Folder, check_replaceable, home
from weighbridge.derive.running.runs import Done, Task, check_installed, reference, run
from weighbridge.errors import UsageError, WeighbridgeError, shorten
from weighbridge.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ALL = "all"
_BAR = 24  # characters


class Wish(NamedTuple):
    """What the user asked to derive, and how.

    ``subjects`` are families of transformers, `ALL`, or one class of the user's as
    ``package.module:Class``.
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

    @property
    def part(self) -> str:
        """What a file that is written has."""
        return "saved" if self.operations else "tensors"


def derive(wish: Wish, say: Callable[[str], None]) -> tuple[int, str]:
    """Return the exit status and the answer; notes are said on the way.

    Raises:
        WeighbridgeError: the wish cannot be fulfilled, or one subject alone cannot be derived.
    """
    _check(wish)
    if ":" in wish.subjects[0]:
        check_installed(own=True)
        return _own(wish, say)
    check_installed(own=False)
    known = reference().model_types()
    if list(wish.subjects) == [ALL]:
        return _many(known, wish)
    for family in wish.subjects:
        reference().check_family(family)
    if len(wish.subjects) > 1:
        return _many(list(dict.fromkeys(wish.subjects)), wish)
    return _one(wish, say)


def _check(wish: Wish) -> None:
    """Refuse what does not go together.

    Raises:
        UsageError: something does not.
    """
    own = [subject for subject in wish.subjects if ":" in subject]
    if wish.jobs < 1:
        raise UsageError(
            "--jobs is a number of processes", values={"jobs": wish.jobs}, hint="give 1 or more"
        )
    if not wish.limit_seconds > 0:
        raise UsageError(
            "--limit is a time in seconds",
            values={"limit": wish.limit_seconds},
            hint="give more than 0",
        )
    if own and len(wish.subjects) > 1:
        raise UsageError(
            "a class of your own is derived alone",
            values={"class": own[0]},
            hint="name it and no other",
        )
    if ALL in wish.subjects and len(wish.subjects) > 1:
        raise UsageError("all is every family", hint="name it alone, or name the families")
    for option, given in (
        ("--config", wish.config),
        ("--set", wish.fields),
        ("--family", wish.family),
    ):
        if given and not own:
            hint = "a class of your own is named as package.module:Class"
            raise UsageError(
                f"{option} is for a class of your own",
                values={"found": wish.subjects[0]},
                hint=hint,
            )
    if wish.operations and (len(wish.subjects) > 1 or ALL in wish.subjects):
        raise UsageError("--operations is for one family", hint="name one, or leave it out")
    if wish.classes and (len(wish.subjects) > 1 or ALL in wish.subjects):
        raise UsageError("--class is for one family", hint="name one, or leave it out")


def _one(wish: Wish, say: Callable[[str], None]) -> tuple[int, str]:
    """Derive one family: to a file, or as the answer."""
    family = wish.subjects[0]
    path = _path(wish.output, family, wish.part)
    done = _done(
        Task(family, classes=_classes(wish), seed=wish.seed, operations=wish.operations), wish, say
    )
    if path is None:
        return 0 if done.exact else 1, done.text
    return _written(path, done, say) or (0, f"{path}: {_state(done)}")


def _own(wish: Wish, say: Callable[[str], None]) -> tuple[int, str]:
    """Derive a class of the user's to a file, and return its total with its formula."""
    family = family_of(wish.subjects[0], wish.family)
    name = f"{family}.operations.toml" if wish.operations else f"{family}.toml"
    path = _path(wish.output or name, family, wish.part) or Path(name)
    task = Task(
        wish.subjects[0],
        wish.config,
        dict(wish.fields),
        family,
        _classes(wish),
        wish.seed,
        wish.operations,
    )
    done = _done(task, wish, say)
    return _written(path, done, say) or (
        0,
        f"{path}: {_state(done)}" if wish.operations else _summary(path),
    )


def _classes(wish: Wish) -> tuple[str, ...] | None:
    return None if wish.classes is None else tuple(wish.classes)


def _path(output: str | None, family: str, part: str) -> Path | None:
    """Return the file to write, before the work is done that would be in vain."""
    if output is None:
        return None
    path = Path(output).expanduser()
    path = path / f"{family}.toml" if path.is_dir() else path
    if not path.parent.is_dir():
        raise UsageError("there is no such folder", where=str(path.parent), hint="make it first")
    check_replaceable(path, family, part)
    return path


def _done(task: Task, wish: Wish, say: Callable[[str], None]) -> Done:
    """Return what comes of one task, its holes told.

    Raises:
        WeighbridgeError: it came to nothing.
    """
    with contextlib.closing(run([task], 1, wish.limit_seconds)) as results:
        done = next(results)
    if done.error:
        raise done.error
    for hole in done.holes:
        say(f"{'hole' if done.exact else 'not proved'}: {_shown(hole)}")
    return done


def _written(path: Path, done: Done, say: Callable[[str], None]) -> tuple[int, str] | None:
    """Write a blueprint that was proved; return the answer where it was not."""
    if not done.exact:
        what = (
            "operations do not say what the code does"
            if done.task.operations
            else "blueprint does not give what the code builds"
        )
        say(f"{path} is not written: the {what}")
        return 1, ""
    write_whole(path, done.text)
    return None


def _summary(path: Path) -> str:
    from weighbridge.answers.weigh import weigh  # noqa: PLC0415
    from weighbridge.render.table import wrap  # noqa: PLC0415

    weighing = weigh(str(path))
    formula = weighing.ledger.formula().text({}, sorted(weighing.model.blueprint.repeats))
    configs = weighing.model.blueprint.proof["configs"]
    held = f"{path}: the blueprint, held against the code itself on {configs} unseen configs"
    told = (
        f"{weighing.class_name}: {weighing.parameters:,} parameters at the defaults",
        f"= {formula}",
        f"{held}; `weighbridge weigh {path} --set FIELD=VALUE` weighs it at other sizes",
    )
    return "\n".join(map(wrap, told))


# Many families


def _many(families: Sequence[str], wish: Wish) -> tuple[int, str]:
    """Derive families to a folder, those that would come out as they are there left alone; return what came of each."""
    folder = Folder(home() if wish.output is None else _folder(wish.output))
    tasks = [Task(family, seed=wish.seed) for family in families]
    for task in tasks:
        check_replaceable(folder.file(task), task.subject)
    kept = {task.subject: folder.kept(task) for task in tasks if not wish.again}
    found = {name: done for name, done in kept.items() if done is not None}
    progress = Progress(len(tasks), sys.stderr)
    progress.show("derived before" if found else "", len(found))
    left = [task for task in tasks if task.subject not in found]
    with contextlib.closing(run(left, wish.jobs, wish.limit_seconds)) as results, progress:
        for done in results:
            if done.error is None and done.exact:
                folder.keep(done)
            found[done.task.subject] = done
            progress.show(f"{done.task.subject}: {_state(done)}, {done.seconds:.0f} s", 1)
    return _report([found[task.subject] for task in tasks], folder.path)


def _folder(output: str) -> Path:
    path = Path(output).expanduser()
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        hint = "name a folder with --output"
        raise UsageError(
            f"is no folder to write to: {error.strerror}", where=output, hint=hint
        ) from None
    return path


def _state(done: Done) -> str:
    if done.error:
        return "failed"
    if not done.exact:
        return "not proved"
    return f"{len(done.holes)} hole{'s' if len(done.holes) > 1 else ''}" if done.holes else "exact"


def _report(results: Sequence[Done], folder: Path) -> tuple[int, str]:
    """Return the exit status and what came of each family."""
    failed = [done for done in results if done.error or not done.exact]
    holes = [done for done in results if done not in failed and done.holes]
    exact = len(results) - len(failed) - len(holes)
    lines = [
        f"{folder}: {exact} exact, {len(holes)} with holes, {len(failed)} failed, of {len(results)}"
    ]
    for done in holes:
        lines += [f"{done.task.subject}: {_shown(hole)}" for hole in done.holes]
    for done in failed:
        why = (
            _why(done.error) if done.error else f"not proved: {_shown(next(iter(done.holes), ''))}"
        )
        lines.append(f"{done.task.subject}: failed: {why}")
    return (1 if failed else 0), "\n".join(lines)


def _why(error: WeighbridgeError) -> str:
    return str(WeighbridgeError(error.what, values=error.values))


def _shown(hole: str) -> str:
    return shorten(hole, str, 300)


class Progress:
    r"""How far a run is: a bar that is redrawn on a terminal, a line for each family elsewhere.

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
        """Tell what is done, and how much more that is."""
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
