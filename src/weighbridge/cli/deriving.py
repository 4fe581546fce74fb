"""The command that derives a blueprint."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from weighbridge.cli.commands import Command
from weighbridge.cli.options import CLASS, FAMILY, OUTPUT, SEED, SET, Option, fields
from weighbridge.cli.output import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable

_DESCRIPTION = (
    "Derive a blueprint by running a model's code on values that remember how they were computed, "
    "and prove it on configs not seen before. FAMILY is a model type of transformers, or a class "
    "of your own, named as Python imports it: mypackage.mymodel:MyModel. Deriving imports and runs "
    "the code that you name, many times, with varying config values. It runs in a separate "
    "process, on torch's meta device, and needs torch; families need transformers too."
)


_INSTEAD = (
    Option(
        "--operations",
        action="store_true",
        help="instead of the blueprint, derive what its classes do when they run: matrix "
        "products, forward and backward, and the tensors saved for backward",
    ),
    Option(
        "--flow",
        action="store_true",
        help="instead of the blueprint, record in which order the modules of the base class "
        "run, and what flows between them",
    ),
)
"""The options for what is derived instead of a blueprint."""


def _derive_options() -> Iterable[Addable]:
    from weighbridge.derive.running.runs import LIMIT_SECONDS

    return (
        Option(
            "subjects",
            nargs="+",
            metavar="FAMILY",
            help="model types of transformers, `all`, or a class: package.module:Class",
        ),
        Option(
            "--config",
            metavar="MODULE:NAME",
            help="the config of your class: a config class, a config object or a dict",
        ),
        SET.but(help="set a field of your config"),
        FAMILY.but(
            metavar="NAME", help="the family of your class; by default its name in snake_case"
        ),
        CLASS.but(
            dest="classes", action="append", help="derive this task class too, and no others"
        ),
        Option(
            "--trust-remote-code",
            action="store_true",
            help="FAMILY is the folder of a model repository with code of its own: run that code, "
            "which may do anything that you may, and derive the class that its config.json names",
        ),
        *_INSTEAD,
        OUTPUT.but(
            help="the file to write, or for several families the folder. By default, one family "
            "goes to stdout, a class of your own to FAMILY.toml, and several families to the "
            "blueprints of this checkout",
        ),
        Option("--jobs", type=int, default=1, metavar="N", help="how many to derive at a time"),
        SEED.but(default=0, help="the seed of the random configs"),
        Option(
            "--limit",
            type=float,
            default=LIMIT_SECONDS,
            metavar="SECONDS",
            help=f"time limit for each family; {LIMIT_SECONDS} by default",
        ),
        Option(
            "--again",
            action="store_true",
            help="also derive families whose blueprint is up to date",
        ),
    )


def _derive(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.answer import Message
    from weighbridge.derive.running.command import DeriveRequest, run_request

    request = DeriveRequest(
        subjects=options.subjects,
        config=options.config,
        fields=fields(options.fields),
        family=options.family,
        classes=options.classes,
        output=options.output,
        jobs=options.jobs,
        seed=options.seed,
        limit_seconds=options.limit,
        again=options.again,
        operations=options.operations,
        flow=options.flow,
        trust_remote_code=options.trust_remote_code,
        lang=options.lang,
    )
    status, text = run_request(request, partial(say, lang=options.lang))
    return Message(text, status)


COMMANDS = {
    "derive": Command(_derive_options, _derive, description=_DESCRIPTION, is_data=True),
}
