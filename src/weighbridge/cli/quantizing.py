"""The command that computes a quantised file before it is made: quantize."""

from __future__ import annotations

from weighbridge.cli.commands import Command
from weighbridge.cli.options import BY, CLASS, FORMS, MODEL, SET, Option, fields
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.quantize import Quantized
    from weighbridge.cli.options import Addable


def _quantize_options() -> Iterable[Addable]:
    from weighbridge.answers.quantize import GROUPINGS

    return (
        MODEL,
        Option(
            "--to",
            required=True,
            metavar="TYPE",
            help="a scheme of GGUF, as llama-quantize names it (q4_k_m, q8_0, iq4_xs, mxfp4_moe…), "
            "or a method with its default settings: awq, gptq, nf4, int8, fp8, mxfp4, mlx-4bit",
        ),
        CLASS.but(help="the class of the file; by default the one that generates text"),
        SET,
        Option(
            "--imatrix",
            action="store_true",
            help="llama-quantize has an importance matrix, by which it chooses a few types",
        ),
        BY.but(choices=GROUPINGS, default="type"),
        FORMS,
    )


def _quantize(options: argparse.Namespace) -> Quantized:
    from weighbridge.answers.quantize import quantize

    return quantize(
        options.model,
        options.to,
        options.class_name,
        imatrix=options.imatrix,
        fields=fields(options.fields),
    )


COMMANDS = {"quantize": Command(_quantize_options, _quantize, choices=("by",))}
