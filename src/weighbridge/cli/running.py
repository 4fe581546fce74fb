"""Commands that run a model: run, trace, attention, measure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from weighbridge.cli.commands import Command
from weighbridge.cli.options import (
    BATCH,
    CLASS,
    DEVICE,
    DTYPE,
    FILE,
    HEAD,
    JSON,
    LAYER,
    MODEL,
    RUNNABLE,
    SET,
    Option,
    fields,
)
from weighbridge.cli.output import progress
from weighbridge.cli.watch import watching

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable


def _run_options() -> Iterable[Addable]:
    return (
        RUNNABLE,
        Option(
            "texts",
            nargs="*",
            metavar="TEXT [SECOND]",
            help="a text, or a text and the second one of a pair; for a multiple choice, a text "
            "and its choices",
        ),
        Option("--each", action="store_true", help="run each TEXT on its own"),
        FILE,
        CLASS.but(help="the class to run; by default the config's class"),
        Option("--pool", metavar="HOW", help="how to pool an embedding: cls, pooler or mean"),
        Option(
            "--top",
            type=int,
            default=5,
            metavar="N",
            help="the number of candidates for a [MASK]; 5 by default",
        ),
        JSON.but(help="write JSON, with every number of an embedding"),
    )


def _run(options: argparse.Namespace) -> Answer:
    _check_torch()
    from weighbridge.answers.run import Running
    from weighbridge.torch.running import asked, run_texts

    texts = asked(options.texts, options.file, each=options.each, class_name=options.class_name)
    with watching("texts", "texts", options.lang) as bar:
        watch = None
        if len(texts) > 1:
            watch = bar
        results = run_texts(
            options.checkpoint,
            texts,
            class_name=options.class_name,
            pool=options.pool,
            top=options.top,
            watch=watch,
        )
    return Running(results)


def _text_options() -> Iterable[Addable]:
    """Return the options of every command that runs a model on one text."""
    return (
        RUNNABLE,
        Option("text", metavar="TEXT", help="the text to read"),
        Option("second", metavar="SECOND", nargs="?", help="the second text of a pair"),
        CLASS.but(help="the class to run; by default the config's class"),
        LAYER,
        HEAD,
    )


def _trace_options() -> Iterable[Addable]:
    return (*_text_options(), JSON.but(help="write JSON, with the range of every step's values"))


def _trace(options: argparse.Namespace) -> Answer:
    _check_torch()
    from weighbridge.torch.tracing import trace

    return trace(
        options.checkpoint,
        options.text,
        options.second,
        options.class_name,
        layer=options.layer,
        head=options.head,
    )


def _attention_options() -> Iterable[Addable]:
    output = Option(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the file to write: a page (.html) or a picture (.svg, .png); an existing file is "
        "replaced only if it is one too",
    )
    return (*_text_options(), output)


def _attention(options: argparse.Namespace) -> Answer:
    _check_torch()
    from weighbridge.answers.answer import Message
    from weighbridge.torch.tracing import draw_attention

    written, notes = draw_attention(
        options.output,
        options.checkpoint,
        options.text,
        options.second,
        options.class_name,
        lang=options.lang,
        layer=options.layer,
        head=options.head,
    )
    return Message(written, notes=notes)


def _check_torch() -> None:
    from weighbridge.torch import check_torch_extra

    check_torch_extra("running a model")


def _measure_options() -> Iterable[Addable]:
    return (
        MODEL,
        CLASS.but(
            help="the class to run; by default the config's class if it generates text, else the "
            "base class"
        ),
        SET,
        BATCH.but(default=1, help="sequences in a batch; 1 by default"),
        Option(
            "--seq",
            type=int,
            default=128,
            metavar="N",
            help="tokens in each sequence; 128 by default",
        ),
        Option(
            "--train",
            action="store_true",
            help="with dropout and a backward pass; by default forward only, in evaluation mode",
        ),
        Option(
            "--attention",
            choices=("eager", "sdpa"),
            default="eager",
            help="the implementation of attention",
        ),
        DTYPE.but(
            choices=("float32", "bfloat16"),
            default="float32",
            help="the dtype of weights and activations",
        ),
        DEVICE.but(choices=("cpu", "cuda"), default="cpu", help="the device to run on"),
        Option(
            "--ours",
            action="store_true",
            help="run this package's class instead of the one in transformers",
        ),
        Option("--force", action="store_true", help="run even if the memory seems too small"),
        JSON,
    )


def _measure(options: argparse.Namespace) -> Answer:
    from weighbridge.derive.running.runs import check_installed

    extra, why = "derive", "measuring runs a class of transformers, or of this package with --ours"
    if options.ours:
        extra, why = "torch", "measuring runs a class of this package"
    check_installed(own=options.ours, why=why, extra=extra)
    from weighbridge.answers.measure import Measuring
    from weighbridge.torch.measure import MeasureRequest, measure
    from weighbridge.units import dtype

    request = MeasureRequest(
        model=options.model,
        class_name=options.class_name,
        fields=fields(options.fields),
        batch=options.batch,
        sequence=options.seq,
        train=options.train,
        attention=options.attention,
        dtype=dtype(options.dtype),
        device=options.device,
        ours=options.ours,
        force=options.force,
    )
    return Measuring(measure(request, partial(progress, lang=options.lang)))


COMMANDS = {
    "run": Command(_run_options, _run),
    "trace": Command(_trace_options, _trace),
    "attention": Command(_attention_options, _attention),
    "measure": Command(_measure_options, _measure),
}
