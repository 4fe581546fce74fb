"""The command that trains a model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from weighbridge.cli.commands import Command
from weighbridge.cli.options import BATCH, DEVICE, JSON, SEED, Option
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


_SETTINGS = (
    _plain("--text", "COLUMN", "the column of texts; if not given text, sentence, 文本…"),
    _plain("--label", "COLUMN", "the column of labels; if not given label, class, 类别…"),
    _plain("--test", "FILE", "hold it against this file's texts, in place of a share of DATA"),
    _fraction("--held-out", "SHARE", "the share of DATA that is not trained on"),
    _integer("--epochs", "how often each text is seen"),
    _integer("--steps", "end after so many steps"),
    BATCH.but(help="texts of a step"),
    _integer(
        "--accumulate", "cut a batch into N pieces, one after the other: it takes less memory"
    ),
    _fraction("--learning-rate", "RATE", "the highest"),
    _fraction("--warmup", "SHARE", "the share of the steps in which it rises"),
    _fraction("--weight-decay", "RATE", "of matrices"),
    _fraction("--clip", "NORM", "the longest gradient"),
    _integer("--max-length", "tokens of a text; more are cut off"),
    _integer(
        "--patience", "stop when N evaluations in a row were no better, and keep the best weights"
    ),
    SEED.but(help="all that is random is drawn from it"),
    DEVICE.but(metavar="NAME", help="cpu, cuda or cuda:1"),
    _integer(
        "--checkpoint-every",
        "steps between checkpoints; there is one after each epoch besides",
    ),
)
"""The options whose defaults are those of the settings that they are named like."""


def _finetune_options() -> Iterable[Addable]:
    from weighbridge.torch.finetuning.settings import PRECISIONS, WATCHED, Settings

    return (
        Option(
            "data",
            metavar="DATA",
            help="texts and their labels: .csv, .tsv, or JSON lines in .jsonl",
        ),
        Option(
            "--from",
            dest="start",
            metavar="CHECKPOINT",
            required=True,
            help="the BERT to begin with",
        ),
        Option(
            "--out",
            metavar="FOLDER",
            required=True,
            help="where it goes; a run begun there is gone on with",
        ),
        *(_with_default(option, Settings) for option in _SETTINGS),
        Option(
            "--watch",
            choices=WATCHED,
            default=WATCHED[0],
            help="what --patience goes by, held out",
        ),
        Option(
            "--precision",
            choices=PRECISIONS,
            default=PRECISIONS[0],
            help="auto is bfloat16 on CUDA and float32 elsewhere",
        ),
        Option(
            "--skip-broken",
            action="store_true",
            help="leave broken and empty records out, and count them",
        ),
        Option(
            "--overwrite",
            action="store_true",
            help="begin anew where another run or a model is",
        ),
        JSON.but(help="write json: the scores, the history, all that was measured"),
    )


def _with_default(option: Option, settings: type) -> Option:
    """Return an option with the default of its setting, which its help names."""
    default = getattr(settings, option.names[0][2:].replace("-", "_"))
    help_ = option.settings["help"]
    if default is not None:
        help_ = f"{help_}; {default} if not given"
    return option.but(default=default, help=help_)


def _finetune(options: argparse.Namespace) -> Answer:
    from weighbridge.torch import check_torch_extra

    check_torch_extra("weighbridge finetune")
    from weighbridge.answers.answer import Message
    from weighbridge.torch.finetuning.command import finetune
    from weighbridge.torch.finetuning.settings import Settings

    names = Settings.__dataclass_fields__
    values = {name: value for name, value in vars(options).items() if name in names}
    finetuned = finetune(Settings(**values), partial(say, lang=options.lang), options.lang)
    if finetuned is None:  # another process answers
        options.form = "text"
        return Message("")
    return finetuned


COMMANDS = {"finetune": Command(_finetune_options, _finetune)}
