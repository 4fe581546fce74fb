"""The checkpoint of a run: one file, whole at any moment, that says which run it is of.

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
"""All files that a run writes to its folder."""


class Checkpoint(NamedTuple):
    """A run as it stood after some step."""

    state: dict[str, Any]
    tensors: dict[str, Tensor]

    def part(self, part: str) -> dict[str, Tensor]:
        """Return the tensors of one part, by their own names."""
        prefix = f"{part}."
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
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


def write_json(path: Path, content: object) -> None:
    """Write JSON, whole."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    def write(part: str) -> None:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)

    write_file(path, write)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], **metadata: str) -> None:
    """Write tensors, whole."""
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_file(path, lambda part: save_file(contiguous, part, metadata=metadata))


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Put a checkpoint in the place of the one before.

    Raises:
        WeighbridgeError: it cannot be written; the one before is still there.
    """
    write_tensors(folder / FILE, checkpoint.tensors, state=json.dumps(checkpoint.state))


def read_checkpoint(folder: Path) -> Checkpoint | None:
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
            names = list(file.keys())
            return Checkpoint(state, {name: file.get_tensor(name) for name in names})
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
    done, begun = _result_in(folder), read_checkpoint(folder)
    if done:
        _check_same_run(done["fingerprint"], fingerprint, where)
    elif begun:
        _check_same_run(begun.state["fingerprint"], fingerprint, where)
    elif taken := sorted(there & set(MADE)):
        hint = "name another folder, or give --overwrite"
        raise UsageError(
            "holds a model already", where=where, values={"found": taken[0]}, hint=hint
        )
    return done, begun is not None


def _check_same_run(before: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """Refuse a folder whose run has another fingerprint."""
    differing = {
        key: f"{before.get(key)}, now {value}"
        for key, value in now.items()
        if before.get(key) != value
    }
    if differing:
        hint = "name another folder, give what that run was given, or begin anew with --overwrite"
        raise UsageError("another run is there", where=where, values=differing, hint=hint)


def _result_in(folder: Path) -> dict[str, Any] | None:
    try:
        result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if isinstance(result, dict) and isinstance(result.get("fingerprint"), dict):
        return result
    return None
