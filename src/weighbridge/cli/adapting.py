"""The command about an adapter before it is made: lora."""

from __future__ import annotations

from weighbridge.cli.commands import Command
from weighbridge.cli.options import BY, CLASS, DTYPE, FORMS, MODEL, SET, Option, fields
from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.lora import Lora
    from weighbridge.cli.options import Addable


_PARTS = (
    Option(
        "--rank-pattern",
        metavar="PATTERN=N",
        action="append",
        default=[],
        help="another rank for modules whose path ends in this pattern",
    ),
    Option("--layers", metavar="LIST", help="adapt only these layers, as in 0,2,4-7"),
    Option("--save", metavar="NAMES", default="", help="modules to train and store whole"),
    Option(
        "--parameters",
        metavar="NAMES",
        default="",
        help="single parameters to adapt, such as experts.down_proj",
    ),
    Option("--exclude", metavar="NAMES", default="", help="modules that are not adapted"),
    Option(
        "--task-type",
        metavar="TASK",
        help="peft's name of the task; SEQ_CLS, TOKEN_CLS and QUESTION_ANS train the head too",
    ),
    Option(
        "--ties",
        action="store_true",
        help="keep a tied embedding and head tied (ensure_weight_tying)",
    ),
)
"""The options that name parts of the model."""


def _of_the_adapter() -> tuple[Option, ...]:
    """Return the options that are settings of the adapter, as peft's `LoraConfig` has them."""
    from weighbridge.costs.lora_settings import BIASES, DEFAULT_RANK, METHODS

    return (
        Option(
            "-r",
            "--rank",
            dest="rank",
            type=int,
            default=DEFAULT_RANK,
            metavar="N",
            help="the rank; 8 by default, as in peft",
        ),
        Option(
            "--targets",
            metavar="NAMES",
            help="the modules to adapt: names as peft takes them, q, k, v, o, gate, up or down, "
            "separated by commas; all-linear; or re: and a regular expression; by default peft's "
            "own for the model type",
        ),
        Option("--method", choices=METHODS, default=METHODS[0], help="LoRA, or DoRA"),
        Option(
            "--bias",
            choices=BIASES,
            default=BIASES[0],
            help="the biases to train: none, all, or those of adapted modules",
        ),
        *_PARTS,
    )


def _lora_options() -> Iterable[Addable]:
    from weighbridge.answers.lora import Lora

    return (
        MODEL,
        CLASS.but(
            help="the class to adapt; by default the config's class if it generates text, else the "
            "base class"
        ),
        SET,
        *_of_the_adapter(),
        Option(
            "--config",
            metavar="ADAPTER",
            help="the folder of an adapter that peft has saved, or its adapter_config.json: take "
            "the settings from there, and compare its file",
        ),
        DTYPE.but(help="the dtype of the adapter; by default float32, as peft has it"),
        Option(
            "--qlora",
            action="store_true",
            help="with the weights of the model in NF4, with double quantization",
        ),
        BY.but(choices=Lora.groupings, default=Lora.groupings[0]),
        FORMS,
    )


def _lora(options: argparse.Namespace) -> Lora:
    from weighbridge.answers.lora import lora, lora_saved
    from weighbridge.costs.lora_settings import rank_pattern

    if options.config:
        _refuse_settings(options)
        return lora_saved(
            options.config,
            options.model,
            options.class_name,
            dtype=options.dtype,
            qlora=options.qlora,
            fields=fields(options.fields),
        )
    return lora(
        options.model,
        options.class_name,
        r=options.rank,
        targets=options.targets,
        method=options.method,
        rank_pattern=rank_pattern(options.rank_pattern),
        layers=options.layers,
        bias=options.bias,
        save=options.save,
        parameters=options.parameters,
        exclude=options.exclude,
        task_type=options.task_type,
        ties=options.ties,
        dtype=options.dtype,
        qlora=options.qlora,
        fields=fields(options.fields),
    )


def _refuse_settings(options: argparse.Namespace) -> None:
    """Refuse a setting beside --config, which has them all."""
    for option in _of_the_adapter():
        value = getattr(options, option.destination)
        if value != option.absent:
            raise UsageError(
                "--config has the settings of the adapter",
                values={option.destination: value},
                hint="drop this option, or --config",
            )


COMMANDS = {"lora": Command(_lora_options, _lora, choices=("by",))}
