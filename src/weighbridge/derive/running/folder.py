"""Where derived blueprints are written: over nothing else, and not again where nothing changed."""

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
    """Check that a file may be written: nothing is there, or the same part of the same family.

    Raises:
        UsageError: something else is there.
    """
    if not path.exists():
        return
    there: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        there = tomllib.loads(_text_of(path))
    if there.get("family") != family or part not in there:
        hint = "name another file with --output, or move that one away"
        what = "is no blueprint" if part == "tensors" else "has no operations"
        raise UsageError(f"is there, and {what} of {family}", where=str(path), hint=hint)


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(LONGEST_BLUEPRINT + 1).decode()


class BlueprintFolder:
    """A folder of blueprints, and what each of them was derived from, in a small file of its own.

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
        """Return where a family's blueprint is."""
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
        """Return the blueprint of an earlier run, if it would be the same: nothing has changed."""
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
    """Return what a family's blueprint depends on."""
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
    """Return the folder of the shipped blueprints, if this is a checkout that can be written.

    Raises:
        UsageError: it is not.
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
        "there is no checkout to write to", where="derive", hint="name a folder with --output"
    )
