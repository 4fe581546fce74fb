"""The settings of a fine-tuning run."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weighbridge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

PRECISIONS = ("auto", "float32", "bfloat16")
WATCHED = ("f1", "loss")
"""The metrics for early stopping, on held-out texts: the mean F1 of the classes, or the loss."""
CLASS_WEIGHTS = ("none", "balanced")
"""The weights of the classes in the loss: all 1, or inverse to the number of their texts."""


@dataclass(frozen=True)
class Settings:
    """The data, the checkpoint, the folder, and how to train.

    Names are the same as those of the command's options.
    """

    data: str
    start: str
    out: str
    text: str | None = None
    label: str | None = None
    encoding: str | None = None
    no_header: bool = False
    skip_broken: bool = False
    test: str | None = None
    held_out: float = 0.1
    epochs: int = 3
    steps: int | None = None
    batch: int = 32
    accumulate: int = 1
    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    max_length: int = 128
    patience: int | None = None
    watch: str = WATCHED[0]
    class_weights: str = CLASS_WEIGHTS[0]
    seed: int = 0
    precision: str = PRECISIONS[0]
    device: str = "auto"
    checkpoint_every: int = 200
    overwrite: bool = False


def check_settings(settings: Settings, processes: int = 1) -> None:
    """Refuse settings that are impossible.

    Raises:
        UsageError: an option has an invalid value, or two options do not fit together.

    Example:
        >>> check_settings(Settings("texts.csv", "bert", "out", epochs=0))
        Traceback (most recent call last):
        weighbridge.errors.UsageError: --epochs must be 1 or more (epochs = 0). Correct it.
    """
    for name, is_sound, rule in _RULES:
        value = getattr(settings, name)
        if value is not None and not is_sound(value):
            raise UsageError(
                f"--{name.replace('_', '-')} {rule}", values={name: value}, hint="correct it"
            )
    pieces = settings.accumulate * processes
    if settings.batch % pieces:
        values = {
            "batch": settings.batch,
            "accumulate": settings.accumulate,
            "processes": processes,
        }
        hint = f"use a --batch that is divisible by {pieces}"
        raise UsageError("a batch cannot be cut into equal pieces", values=values, hint=hint)
    if os.path.realpath(settings.out) == os.path.realpath(settings.start):
        hint = "give another folder with --out"
        raise UsageError("the checkpoint would be overwritten", where=settings.out, hint=hint)


def _from(least: float, most: float = math.inf) -> Callable[[Any], bool]:
    return lambda value: least <= value <= most and math.isfinite(value)


_POSITIVE = (lambda value: 0 < value < math.inf, "must be more than 0")
_WHOLE = (_from(1), "must be 1 or more")
_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("epochs", *_WHOLE),
    ("steps", *_WHOLE),
    ("batch", *_WHOLE),
    ("accumulate", *_WHOLE),
    ("patience", *_WHOLE),
    ("checkpoint_every", *_WHOLE),
    ("max_length", _from(3), "must be 3 or more: [CLS], a word and [SEP]"),
    ("held_out", lambda value: 0 < value < 1, "must be a share between 0 and 1"),
    ("learning_rate", *_POSITIVE),
    ("clip", *_POSITIVE),
    ("warmup", _from(0, 1), "must be a share from 0 to 1"),
    ("weight_decay", _from(0), "must be 0 or more"),
    ("seed", _from(0, 2**32 - 1), "must be from 0 to 4294967295"),
)
