"""What survives a kill: one file, whole at any moment, that says which run it is of.

A checkpoint is a safetensors file: the weights under ``model.``, the moments of AdamW under
``first.`` and ``second.``, and, where early stopping chose others than the latest, the best weights
under ``best.``. All else is small, and stands as JSON in its header: the step, what was measured so
far, and the fingerprint of the run.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from weighbridge.errors import UsageError, WeighbridgeError
from weighbridge.files import write_durably

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from torch import Tensor

FILE = "checkpoint.safetensors"
RESULT = "training.json"
WEIGHTS = "model.safetensors"
MADE = (
    FILE,
    RESULT,
    WEIGHTS,
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)
"""All that a run leaves in its folder, at some time or another."""


class Checkpoint(NamedTuple):
    """A run as it stood after some step."""

    state: dict[str, Any]
    tensors: dict[str, Tensor]

    def part(self, of: str) -> dict[str, Tensor]:
        """Return the tensors of one part, by their own names."""
        return {
            name.removeprefix(f"{of}."): held
            for name, held in self.tensors.items()
            if name.startswith(f"{of}.")
        }


def write_file(path: Path, write: Callable[[str], object]) -> None:
    """Have a function write a file whole, or not at all, even if the power fails.

    Raises:
        WeighbridgeError: it cannot be written; what was there before is still there.
    """
    try:
        write_durably(path, write)
    except (OSError, SafetensorError) as error:
        if isinstance(error, OSError):
            reason = error.strerror
        else:
            reason = str(error).rpartition("I/O error: ")[2]
        hint = "make room on the disk; the same command goes on from the latest checkpoint"
        raise WeighbridgeError(
            f"cannot be written: {reason}", where=os.fspath(path), hint=hint
        ) from None


def write_json(path: Path, found: object) -> None:
    """Write JSON, whole."""
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"

    def write(part: str) -> None:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)

    write_file(path, write)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], **said: str) -> None:
    """Write tensors, whole."""
    held = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_file(path, lambda part: save_file(held, part, metadata=said))


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Put a checkpoint in the place of the one before.

    Raises:
        WeighbridgeError: it cannot be written; the one before is still there.
    """
    write_tensors(folder / FILE, checkpoint.tensors, state=json.dumps(checkpoint.state))


def read(folder: Path) -> Checkpoint | None:
    """Return the checkpoint in a folder, if there is one.

    Raises:
        UsageError: it is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            state = json.loads((file.metadata() or {})["state"])
            return Checkpoint(state, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118  # no mapping
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        hint = "begin anew with --overwrite"
        values = {"reason": str(error)}
        raise UsageError(
            "is no checkpoint of a run", where=os.fspath(path), values=values, hint=hint
        ) from None


def open_folder(
    folder: Path, fingerprint: Mapping[str, Any], *, overwrite: bool
) -> tuple[dict[str, Any] | None, bool]:
    """Make a run's folder ready.

    Returns:
        What the run gave, if it is there and done; and whether it was begun before.

    Raises:
        UsageError: something else is there, or another run.
    """
    where = os.fspath(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise UsageError(
            f"is no folder to write to: {error.strerror}", where=where, hint="name another"
        ) from None
    if overwrite:
        for name in MADE:
            (folder / name).unlink(missing_ok=True)
        return None, False
    done, begun = _result(folder), read(folder)
    held = done["fingerprint"] if done else begun.state["fingerprint"] if begun else None
    if held is None:
        taken = sorted(there & set(MADE))
        if taken:
            hint = "name another folder, or give --overwrite"
            raise UsageError(
                "holds a model already", where=where, values={"found": taken[0]}, hint=hint
            )
        return None, False
    differing = {
        key: f"{held.get(key)}, now {now}"
        for key, now in fingerprint.items()
        if held.get(key) != now
    }
    if differing:
        hint = "name another folder, give what that run was given, or begin anew with --overwrite"
        raise UsageError("another run is there", where=where, values=differing, hint=hint)
    return done, begun is not None


def _result(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("fingerprint"), dict) else None
