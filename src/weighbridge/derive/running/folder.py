"""The folder of derived blueprints: overwrites only blueprints, and derives only what changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from weighbridge import data
from weighbridge.blueprint.law import LONGEST_BLUEPRINT
from weighbridge.derive.running.runs import Done, Task
from weighbridge.errors import UsageError
from weighbridge.files import write_whole

STATE = ".derived.json"
"""The file beside the blueprints that records what each was derived from."""


def check_replaceable(path: Path, family: str, part: str = "tensors") -> None:
    """Check that a file may be written: it does not exist, or holds this part of this family.

    Raises:
        UsageError: the file holds something else.
    """
    if not path.exists():
        return
    there: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        there = tomllib.loads(_text_of(path))
    if there.get("family") != family or part not in there:
        what = f"exists, and is not a blueprint of {family}"
        if part == "saved":
            what = f"exists, and does not hold operations of {family}"
        elif part == "flow":
            what = f"exists, and does not hold a flow of {family}"
        hint = "name another file with --output, or move this one"
        raise UsageError(what, where=str(path), hint=hint)


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(LONGEST_BLUEPRINT + 1).decode()


class BlueprintFolder:
    """A folder of blueprints, with a small file that records what each was derived from.

    Example:
        >>> import tempfile
        >>> folder = BlueprintFolder(Path(tempfile.mkdtemp()))
        >>> task = Task("bert")
        >>> folder.keep(Done(task, 'family = "bert"', exact=True))
        >>> folder.kept(task).exact, folder.kept(Task("bert", seed=1))
        (True, None)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            state = json.loads((path / STATE).read_text(encoding="utf-8"))
            if isinstance(state, dict):
                self._state = state

    def file(self, task: Task) -> Path:
        """Return the path of a family's blueprint."""
        return self.path / f"{task.subject}.toml"

    def keep(self, done: Done) -> None:
        """Write a blueprint, then what it was derived from.

        Raises:
            UsageError: one of them cannot be written.
        """
        write_whole(self.file(done.task), done.text)
        self._state[done.task.subject] = {
            **_origin(done.task),
            "file": _digest(done.text),
            "exact": done.exact,
            "holes": list(done.holes),
        }
        state = {name: self._state[name] for name in sorted(self._state)}
        write_whole(self.path / STATE, json.dumps(state, indent=1) + "\n")

    def kept(self, task: Task) -> Done | None:
        """Return the blueprint of an earlier run, if nothing that it depends on has changed."""
        known = self._state.get(task.subject)
        if not isinstance(known, dict) or any(
            known.get(key) != value for key, value in _origin(task).items()
        ):
            return None
        try:
            text = _text_of(self.file(task))
        except (OSError, ValueError):
            return None
        if known.get("file") != _digest(text):
            return None
        return Done(task, text, known.get("exact") is True, tuple(map(str, known.get("holes", ()))))


def _origin(task: Task) -> dict[str, Any]:
    """Return everything that a family's blueprint depends on."""
    return {"reference": _version(), "code": _code_digest(), "seed": task.seed}


@cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return f"transformers {version('transformers')}, torch {version('torch')}"
    except PackageNotFoundError:
        return ""


@cache
def _code_digest() -> str:
    """Return a digest of the code that derives."""
    here = Path(__file__).parents[1]
    facts = [Path(data.ROOT, "facts", name) for name in ("starts.toml", "tasks.toml")]
    files = sorted([*here.rglob("*.py"), *facts])
    return _digest("\0".join(f"{path.name}\0{path.read_text(encoding='utf-8')}" for path in files))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def home() -> Path:
    """Return the folder of the shipped blueprints, if this is a writable checkout.

    Raises:
        UsageError: this is not a writable checkout.
    """
    folder = Path(data.ROOT, "blueprints")
    checkout = Path(data.ROOT).parents[2]
    if (
        (checkout / "pyproject.toml").is_file()
        and (checkout / ".git").exists()
        and os.access(folder, os.W_OK)
    ):
        return folder
    raise UsageError(
        "weighbridge does not run from a writable checkout",
        where="derive",
        hint="name a folder with --output",
    )
