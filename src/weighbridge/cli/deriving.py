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
    "Derive a blueprint by running a model's code on values that remember, and hold it on configs "
    "not seen before. A family is one of transformers. A class of your own is named as Python "
    "imports it, mypackage.mymodel:MyModel: this imports and runs the code that you name, again "
    "and again, with other values in its config. It runs in a process of its own, on torch's meta "
    "device, and needs torch; families need transformers too."
)


def _derive_options() -> Iterable[Addable]:
    from weighbridge.derive.running.runs import LIMIT_SECONDS

    return (
        Option(
            "subjects",
            nargs="+",
            metavar="FAMILY",
            help="families of transformers, all, or one class: package.module:Class",
        ),
        Option(
            "--config",
            metavar="MODULE:NAME",
            help="the config of your class: a class, an object or a dict",
        ),
        SET.but(help="give your config a value"),
        FAMILY.but(
            metavar="NAME",
            help="the family of your class; its name in snake_case if not given",
        ),
        CLASS.but(
            dest="classes", action="append", help="derive this task class too, and no others"
        ),
        Option(
            "--operations",
            action="store_true",
            help="derive what its classes do when they run, in place of the blueprint: matrix "
            "products, forward and backward, and what is saved for backward",
        ),
        OUTPUT.but(
            help="the file to write; of several families the folder. Otherwise one family goes to "
            "stdout, a class of your own to FAMILY.toml, and several to the blueprints of a "
            "checkout",
        ),
        Option("--jobs", type=int, default=1, metavar="N", help="how many to derive at a time"),
        SEED.but(default=0, help="draw other random configs"),
        Option(
            "--limit",
            type=float,
            default=LIMIT_SECONDS,
            metavar="SECONDS",
            help=f"for each; {LIMIT_SECONDS} if not given",
        ),
        Option(
            "--again",
            action="store_true",
            help="derive what is there and would come out the same too",
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
    )
    status, text = run_request(request, partial(say, lang=options.lang))
    return Message(text, status)


COMMANDS = {
    "derive": Command(_derive_options, _derive, description=_DESCRIPTION, is_data=True),
}
