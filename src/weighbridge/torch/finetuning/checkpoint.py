"""The checkpoint of a run: one file, complete at any moment, that identifies its run.

A checkpoint is a safetensors file: the weights under ``model.``, the moments of AdamW under
``first.`` and ``second.``, and the best weights under ``best.`` if early stopping chose other
weights than the latest. Everything else is small and is JSON in the header: the step, the
measurements so far, and the fingerprint of the run.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from weighbridge.errors import UsageError, WeighbridgeError
from weighbridge.files import discard_part, write_durably

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from torch import Tensor

FILE = "checkpoint.safetensors"
RESULT = "training.json"
WEIGHTS = "model.safetensors"
CARD = "README.md"
MADE = (
    FILE,
    RESULT,
    WEIGHTS,
    CARD,
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)
"""All files that a run writes to its folder."""


class Checkpoint(NamedTuple):
    """The state of a run after some step."""

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
    """Have a function write a file atomically, even if the power fails.

    Raises:
        WeighbridgeError: the file cannot be written; the previous one is unchanged.
    """
    try:
        write_durably(path, write)
    except (OSError, SafetensorError) as error:
        if isinstance(error, OSError):
            reason = error.strerror
        else:
            reason = str(error).rpartition("I/O error: ")[2]
        hint = "free some disk space; the same command resumes from the latest checkpoint"
        raise WeighbridgeError(
            f"cannot be written: {reason}", where=os.fspath(path), hint=hint
        ) from None


def write_json(path: Path, content: object) -> None:
    """Write JSON atomically."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text atomically."""

    def write(part: str) -> None:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)

    write_file(path, write)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], **metadata: str) -> None:
    """Write tensors atomically."""
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_file(path, lambda part: save_file(contiguous, part, metadata=metadata))


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace the previous checkpoint.

    Raises:
        WeighbridgeError: it cannot be written; the previous one is unchanged.
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
        hint = "start again with --overwrite"
        values = {"reason": str(error)}
        raise UsageError(
            "is not the checkpoint of a run", where=os.fspath(path), values=values, hint=hint
        ) from None


def open_folder(
    folder: Path, fingerprint: Mapping[str, Any], *, overwrite: bool
) -> tuple[dict[str, Any] | None, bool]:
    """Prepare the folder of a run.

    Returns:
        The result of the run if it is finished, and whether it was started before.

    Raises:
        UsageError: the folder contains another run, or something else.
    """
    where = os.fspath(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise UsageError(
            f"is not a writable folder: {error.strerror}", where=where, hint="give another one"
        ) from None
    if overwrite:
        for name in MADE:
            (folder / name).unlink(missing_ok=True)
            discard_part(folder / name)
        return None, False
    done, begun = _result_in(folder), read_checkpoint(folder)
    if done:
        _check_same_run(done["fingerprint"], fingerprint, where)
        (folder / FILE).unlink(missing_ok=True)  # of a run that was killed as it ended
    elif begun:
        _check_same_run(begun.state["fingerprint"], fingerprint, where)
    elif taken := sorted(there & set(MADE)):
        hint = "give another folder, or add --overwrite"
        raise UsageError(
            "already contains a model", where=where, values={"found": taken[0]}, hint=hint
        )
    for name in MADE:  # of a run that was killed as it saved
        discard_part(folder / name)
    return done, begun is not None


def _check_same_run(before: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """Refuse a folder whose run has another fingerprint."""
    differing = {
        key: f"{before.get(key)}, now {value}"
        for key, value in now.items()
        if before.get(key) != value
    }
    if differing:
        hint = "give another folder, use the settings of that run, or start again with --overwrite"
        raise UsageError("contains another run", where=where, values=differing, hint=hint)


def _result_in(folder: Path) -> dict[str, Any] | None:
    try:
        result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if isinstance(result, dict) and isinstance(result.get("fingerprint"), dict):
        return result
    return None
