"""Commands that read a checkpoint: inspect, verify, guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.cli.commands import Command
from weighbridge.cli.not_checkpoints import reading
from weighbridge.cli.options import (
    BY,
    CHECKPOINT,
    CLASS,
    EVIDENCE,
    FORMS,
    JSON,
    MODEL,
    OF_A_CONFIG,
    OneOf,
    Option,
    asked_of_model,
)
from weighbridge.cli.watch import watching

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable


def _inspect_options() -> Iterable[Addable]:
    from weighbridge.answers.inspect import GROUPINGS

    return (CHECKPOINT.but(metavar="PATH"), BY.but(choices=GROUPINGS), FORMS)


def _inspect(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.inspect import inspect_all

    with reading(options.checkpoint), watching(lang=options.lang) as watch:
        return inspect_all(options.checkpoint, watch)


def _verify_options() -> Iterable[Addable]:
    json = JSON.but(help="write JSON, with every single difference")
    class_name = CLASS.but(help="the class to compare; by default the one that fits best")
    return (MODEL, class_name, *OF_A_CONFIG, CHECKPOINT, json)


def _verify(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.pipeline import verify_pipeline
    from weighbridge.answers.verify import verify
    from weighbridge.readers.sentence import models_in, transformer_alone

    asked = asked_of_model(options)
    is_whole = not options.class_name and not asked["fields"] and not asked["blueprint"]
    described = models_in(options.model) if is_whole else None
    if described and not transformer_alone(described):
        dtype, strict = asked["dtype"], asked["strict"]
        with watching(lang=options.lang) as watch:
            return verify_pipeline(
                options.model, options.checkpoint, dtype=dtype, strict=strict, watch=watch
            )
    with reading(options.checkpoint, options.model), watching(lang=options.lang) as watch:
        return verify(
            options.model,
            options.checkpoint,
            options.class_name,
            **asked,
            watch=watch,
        )


def _guess_options() -> Iterable[Addable]:
    json = JSON.but(help="write JSON, with every candidate")
    config = Option(
        "--config",
        dest="form",
        action="store_const",
        const="config",
        help="print only the config.json of the best candidate",
    )
    return (CHECKPOINT, EVIDENCE, OneOf((json, config)))


def _guess(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.answer import Data
    from weighbridge.answers.guess import guess

    with reading(options.checkpoint):
        guessed = guess(options.checkpoint)
    if options.form == "config":
        options.form = "json"
        return Data(guessed.config, guessed.status)
    return guessed


COMMANDS = {
    "inspect": Command(_inspect_options, _inspect, choices=("by",)),
    "verify": Command(_verify_options, _verify),
    "guess": Command(_guess_options, _guess),
}
