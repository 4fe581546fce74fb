"""The command that finds sizes for a budget: design."""

from __future__ import annotations

from weighbridge.cli.commands import Command
from weighbridge.cli.options import CLASS, DTYPE, FORMS, SET, Option, fields
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.design import DesignSearch
    from weighbridge.cli.options import Addable


def _design_options() -> Iterable[Addable]:
    return (
        Option(
            "--like",
            required=True,
            metavar="MODEL",
            help="the model or family that the design is like in all that is not chosen",
        ),
        Option(
            "--parameters",
            required=True,
            metavar="N",
            help="the parameters to have: 1.3B, 7e10 or all digits",
        ),
        *_size_options(),
        *_limit_options(),
        CLASS.but(help="the class to design; by default one that generates text, if there is one"),
        SET.but(help="set a config field of the model that it is like"),
        DTYPE.but(help="the dtype of the weights; BF16 by default"),
        FORMS,
    )


def _size_options() -> Iterable[Addable]:
    return (
        Option("--within", metavar="SHARE", default="0.5%", help="how far off; 0.5%% by default"),
        Option("--depth", metavar="SIZES", help="layers: 32, 16,32 or 16..48; 4..128 by default"),
        Option("--width", metavar="SIZES", help="widths; by default all that the budget allows"),
        Option("--head-dim", metavar="SIZES", help="head sizes; 64,128 by default"),
        Option("--kv-heads", metavar="SIZES", help="key-value heads; by default powers of two"),
        Option(
            "--multiple-of",
            type=int,
            default=128,
            metavar="N",
            help="what widths and feed-forward sizes are multiples of; 128 by default",
        ),
        Option(
            "--ratio",
            metavar="RANGE",
            default="0.25..8",
            help="feed-forward size for each unit of width; 0.25..8 by default",
        ),
        Option(
            "--solve-for",
            metavar="FIELD",
            help="the field that is solved for; by default the feed-forward size",
        ),
    )


def _limit_options() -> Iterable[Addable]:
    from weighbridge.answers.design import ORDERS

    return (
        Option("--fits", metavar="SIZE", help="bytes for weights and one sequence, as in 24GiB"),
        Option(
            "--serve-on", metavar="DEVICES", help="devices that must serve it, as in L4, 2xH100"
        ),
        Option(
            "--context",
            type=int,
            default=4096,
            metavar="N",
            help="tokens of a sequence for --fits and --serve-on; 4096 by default",
        ),
        Option(
            "--order",
            choices=ORDERS,
            default=ORDERS[0],
            metavar="NAME",
            help=f"what to order the designs by: {', '.join(ORDERS)}",
        ),
        Option(
            "--top", type=int, default=12, metavar="N", help="how many; 12 by default, 0 for all"
        ),
    )


def _design(options: argparse.Namespace) -> DesignSearch:
    from weighbridge.answers.design import design

    return design(
        options.like,
        options.class_name,
        parameters=options.parameters,
        within=options.within,
        head_dim=options.head_dim,
        multiple_of=options.multiple_of,
        depth=options.depth,
        width=options.width,
        kv_heads=options.kv_heads,
        ratio=options.ratio,
        solve_for=options.solve_for,
        fits=options.fits,
        serve_on=options.serve_on,
        context=options.context,
        order=options.order,
        top=options.top,
        dtype=options.dtype,
        fields=fields(options.fields),
    )


COMMANDS = {"design": Command(_design_options, _design)}
