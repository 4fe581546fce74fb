"""The command that computes a model at every point of a grid: sweep."""

from __future__ import annotations

from weighbridge.cli.commands import Command
from weighbridge.cli.options import BATCH, CLASS, DTYPE, FORMS, MODEL, SET, Option, fields
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable


_OF_A_RUN = (
    BATCH.but(default=1, help="sequences in a batch, for columns about a run; 1 by default"),
    Option(
        "--seq",
        type=int,
        default=128,
        metavar="N",
        help="tokens of each sequence, for forward_matmul_flops; 128 by default",
    ),
    Option(
        "--context",
        type=int,
        default=128,
        metavar="N",
        help="tokens in the cache, for cache_bytes and memory_bytes; 128 by default",
    ),
)


def _sweep_options() -> Iterable[Addable]:
    return (
        MODEL,
        Option(
            "--grid",
            metavar="FIELD=VALUES",
            action="append",
            required=True,
            help="a field and its values: FIRST..LAST:STEP, both ends included, or values with "
            "commas; give it once for each field",
        ),
        CLASS,
        SET,
        Option(
            "--columns",
            metavar="NAMES",
            help="what to compute, with commas: parameters, active, weight_bytes, which are the "
            "default; forward_matmul_flops, cache_bytes, memory_bytes",
        ),
        Option(
            "--where",
            metavar="CONDITION",
            help='keep rows for which this holds, such as "parameters < 8000000000"',
        ),
        Option(
            "--order",
            metavar="NAME",
            help="list rows by a column, the least first; NAME:desc for the largest first",
        ),
        Option("--limit", type=int, default=10, metavar="N", help="rows to list; 10 by default"),
        *_OF_A_RUN,
        DTYPE.but(help="the dtype of weight_bytes: float32, bf16, fp8…; by default the config's"),
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="write all rows to a file: .parquet or .csv",
        ),
        Option("--sql", action="store_true", help="print the query instead of running it"),
        Option(
            "--dialect",
            choices=("duckdb", "spark"),
            default="duckdb",
            help="the dialect of --sql; duckdb by default",
        ),
        FORMS,
    )


def _sweep(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.answer import Message
    from weighbridge.fleet.sweep import sweep

    swept = sweep(
        options.model,
        options.grid,
        options.class_name,
        columns=options.columns.split(",") if options.columns else (),
        where=options.where,
        order=options.order,
        limit=options.limit,
        batch=options.batch,
        sequence=options.seq,
        context=options.context,
        fields=fields(options.fields),
        dtype=options.dtype,
    )
    if options.sql:
        return Message(swept.sql(options.dialect))
    if options.output:
        swept.write(options.output)
    return swept


COMMANDS = {"sweep": Command(_sweep_options, _sweep)}
