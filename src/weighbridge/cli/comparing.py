"""Commands that put models beside each other: compare, what-if."""

from __future__ import annotations

from weighbridge.cli.commands import Command
from weighbridge.cli.options import BY, CLASS, DTYPE, FORMS, MODEL, SET, Option, fields
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.compare import SideBySide
    from weighbridge.cli.options import Addable

_SEQUENCE = Option(
    "--seq",
    type=int,
    metavar="N",
    default=128,
    help="tokens of the cache and of the forward pass; 128 by default",
)


def _shared_options() -> Iterable[Addable]:
    from weighbridge.answers.compare import GROUPINGS

    return (
        CLASS.but(help="the class of every model; by default that of each, as for weigh"),
        DTYPE,
        _SEQUENCE,
        BY.but(choices=GROUPINGS, help="what each line of --csv is about"),
        FORMS,
    )


def _compare_options() -> Iterable[Addable]:
    models = Option(
        "models",
        nargs="+",
        metavar="MODEL",
        help="two or more: each a name, a config.json, a family or an address, as for weigh, or "
        "a checkpoint's file",
    )
    return (models, *_shared_options())


def _compare(options: argparse.Namespace) -> SideBySide:
    from weighbridge.answers.compare import compare

    return compare(
        *options.models,
        class_name=options.class_name,
        sequence=options.seq,
        dtype=options.dtype,
    )


def _what_if_options() -> Iterable[Addable]:
    change = SET.but(
        help="change a config field: to a value, or by an amount, as in num_hidden_layers=-2 or "
        "vocab_size=+1000",
    )
    return (MODEL, change, *_shared_options())


def _what_if(options: argparse.Namespace) -> SideBySide:
    from weighbridge.answers.compare import what_if

    return what_if(
        options.model,
        fields(options.fields),
        options.class_name,
        sequence=options.seq,
        dtype=options.dtype,
    )


COMMANDS = {
    "compare": Command(_compare_options, _compare, choices=("by",)),
    "what-if": Command(_what_if_options, _what_if, choices=("by",)),
}
