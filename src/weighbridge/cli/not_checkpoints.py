"""Errors for a word in the place of a checkpoint: the name of a model, or a config."""

from __future__ import annotations

import os
from contextlib import contextmanager

from weighbridge.errors import CheckpointError, UsageError, WeighbridgeError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_A_CONFIG = {"model_type", "architectures"}


@contextmanager
def reading(checkpoint: str, model: str | None = None) -> Iterator[None]:
    """Explain the error that ends this, if the word for the checkpoint is something else.

    ``model`` is the word before it, of a command that takes both.

    Raises:
        UsageError: the word is the name of a model or the path of a config.
    """
    try:
        yield
    except CheckpointError as error:
        raise _said_of(checkpoint, model, error) or error from None


def _said_of(checkpoint: str, model: str | None, error: CheckpointError) -> UsageError | None:
    if error.where != checkpoint:
        return None
    found = None
    if error.rule == "missing":
        found = _said_of_name(checkpoint)
    elif error.rule == "format" and _is_config(checkpoint):
        what, hint = "is a config, not a checkpoint", f"`weighbridge {checkpoint}` weighs its model"
        found = UsageError(what, where=checkpoint, hint=hint)
    if found is None or model is None:
        return found
    from weighbridge.readers import is_checkpoint

    if not is_checkpoint(model):
        return found
    return UsageError(
        "the model is the first word, and the checkpoint the second",
        values={"model": model, "checkpoint": checkpoint},
        hint=f"`weighbridge verify {checkpoint} {model}` compares them",
    )


def _said_of_name(word: str) -> UsageError | None:
    """Return the error for the name of a model or of a repository; None for other words."""
    from weighbridge.blueprint.schema import is_family
    from weighbridge.models.catalogue import entry_of

    hint = f"`weighbridge {word}` weighs the model of this name"
    known = entry_of(word)
    if known:
        name, _ = known
        if "/" in name:
            hint += f"; `hf://{name}` is its repository on the Hub"
    elif not is_family(word):
        return None
    return UsageError("is the name of a model, not a checkpoint", where=word, hint=hint)


def _is_config(path: str) -> bool:
    """Return whether a file is the config of a model, by its fields."""
    from weighbridge.readers.stores import read_object

    try:
        return os.path.isfile(path) and not _OF_A_CONFIG.isdisjoint(read_object(path))
    except WeighbridgeError:
        return False
