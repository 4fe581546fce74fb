"""The command that trains a model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from weighbridge.cli.commands import Command
from weighbridge.cli.options import (
    BATCH,
    DEVICE,
    ENCODING,
    JSON,
    NO_HEADER,
    SEED,
    SKIP_BROKEN,
    TEXT_COLUMN,
    Option,
)
from weighbridge.cli.output import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable


def _integer(flag: str, help_: str) -> Option:
    return Option(flag, type=int, metavar="N", help=help_)


def _fraction(flag: str, metavar: str, help_: str) -> Option:
    return Option(flag, type=float, metavar=metavar, help=help_)


def _plain(flag: str, metavar: str, help_: str) -> Option:
    return Option(flag, type=str, metavar=metavar, help=help_)


def _one_of(flag: str, choices: tuple[str, ...], help_: str) -> Option:
    return Option(flag, choices=choices, default=choices[0], help=help_)


_SETTINGS = (
    TEXT_COLUMN,
    _plain(
        "--label",
        "COLUMN",
        "the column of labels; by default label, class, 类别…, or the one that looks like labels",
    ),
    ENCODING,
    _plain("--test", "FILE", "evaluate on this file instead of a share of DATA"),
    _fraction("--held-out", "SHARE", "the share of DATA held out for evaluation"),
    _integer("--epochs", "the number of passes over the texts"),
    _integer("--steps", "stop after N steps"),
    BATCH.but(help="texts per step"),
    _integer("--accumulate", "split a batch into N pieces, processed in turn, to save memory"),
    _fraction("--learning-rate", "RATE", "the peak learning rate"),
    _fraction("--warmup", "SHARE", "the share of the steps in which the learning rate rises"),
    _fraction("--weight-decay", "RATE", "the weight decay of matrices"),
    _fraction("--clip", "NORM", "the maximum gradient norm"),
    _integer("--max-length", "the maximum number of tokens of a text"),
    _integer(
        "--patience", "stop after N evaluations without improvement, and keep the best weights"
    ),
    SEED.but(help="the seed of everything random"),
    DEVICE.but(metavar="NAME", help="cpu, cuda or cuda:1"),
    _integer(
        "--checkpoint-every",
        "steps between checkpoints, in addition to one after each epoch",
    ),
)
"""The options with the name and default of a setting."""


def _finetune_options() -> Iterable[Addable]:
    from weighbridge.torch.finetuning.settings import CLASS_WEIGHTS, PRECISIONS, WATCHED, Settings

    return (
        Option(
            "data",
            metavar="DATA",
            help="texts and their labels: a .csv, .txt, .tsv or .jsonl file",
        ),
        Option(
            "--from",
            dest="start",
            metavar="CHECKPOINT",
            required=True,
            help="the BERT to start from",
        ),
        Option(
            "--out",
            metavar="FOLDER",
            required=True,
            help="the output folder; an unfinished run in it is resumed",
        ),
        *(_with_default(option, Settings) for option in _SETTINGS),
        _one_of(
            "--watch", WATCHED, "the held-out metric for --patience: f1 counts every class alike"
        ),
        _one_of(
            "--class-weights",
            CLASS_WEIGHTS,
            "weights of the classes in the loss: balanced gives rare ones as much as frequent ones",
        ),
        _one_of("--precision", PRECISIONS, "auto means bfloat16 on CUDA and float32 elsewhere"),
        NO_HEADER,
        SKIP_BROKEN,
        Option(
            "--overwrite",
            action="store_true",
            help="start again in a folder with another run or a model",
        ),
        JSON.but(help="write JSON: the scores, the history and the measurements"),
    )


def _with_default(option: Option, settings: type) -> Option:
    """Return an option with the default of its setting, and add the default to its help."""
    default = getattr(settings, option.names[0][2:].replace("-", "_"))
    help_ = option.settings["help"]
    if default is not None:
        help_ = f"{help_}; {default} by default"
    return option.but(default=default, help=help_)


def _finetune(options: argparse.Namespace) -> Answer:
    from weighbridge.torch import check_torch_extra

    check_torch_extra("finetuning")
    from weighbridge.answers.answer import Message
    from weighbridge.torch.finetuning.command import finetune
    from weighbridge.torch.finetuning.settings import Settings

    names = Settings.__dataclass_fields__
    values = {name: value for name, value in vars(options).items() if name in names}
    finetuned = finetune(Settings(**values), partial(say, lang=options.lang), options.lang)
    if finetuned is None:  # another process writes the answer
        options.form = "text"
        return Message("")
    return finetuned


COMMANDS = {"finetune": Command(_finetune_options, _finetune)}
