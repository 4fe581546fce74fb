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
    ENCODING,
    FILE,
    FORMAT,
    HEAD,
    JSON,
    LAYER,
    MODEL,
    NO_HEADER,
    RUNNABLE,
    SET,
    SKIP_BROKEN,
    TEXT_COLUMN,
    OneOf,
    Option,
    fields,
)
from weighbridge.cli.output import progress
from weighbridge.cli.watch import watching
from weighbridge.errors import UsageError

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
        Option(
            "--csv",
            dest="table",
            metavar="FILE",
            help="label the texts of a .csv, .txt or .tsv file with a classifier; needs --output",
        ),
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="with --csv, the file to write: the columns of the table, a label and its score",
        ),
        TEXT_COLUMN,
        ENCODING,
        NO_HEADER,
        SKIP_BROKEN,
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
    if options.table is not None:
        return _label(options)
    _check_alone(options, "--csv", _OF_A_TABLE)
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


def _label(options: argparse.Namespace) -> Answer:
    from weighbridge.torch.tables.labelling import LabelRequest, label_table

    _check_alone(options, "", _OF_TEXTS)
    if options.output is None:
        hint = "add --output with the file to write"
        raise UsageError("--csv needs --output", hint=hint)
    names = LabelRequest._fields
    request = LabelRequest(**{name: of for name, of in vars(options).items() if name in names})
    with watching("texts", "texts", options.lang) as bar:
        return label_table(request, bar)


_OF_A_TABLE = ("output", "text", "encoding", "no_header", "skip_broken")
_OF_TEXTS = ("texts", "file", "each", "pool")


def _check_alone(options: argparse.Namespace, needed: str, names: Iterable[str]) -> None:
    """Refuse options that belong to the other way of running: on texts, or on a table."""
    for name in names:
        if getattr(options, name):
            option = "TEXT" if name == "texts" else f"--{name.replace('_', '-')}"
            if needed:
                what, hint = f"{option} needs {needed}", f"add {needed} with a table"
            else:
                what, hint = f"--csv and {option} exclude each other", "drop one of the two"
            raise UsageError(what, hint=hint)


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
    return (
        *_text_options(),
        Option(
            "--token",
            type=int,
            metavar="N",
            help="with --format html: the token to follow, by its position; by default 1, the "
            "first after [CLS]",
        ),
        OneOf(
            (
                JSON.but(help="write JSON, with the range of every step's values"),
                FORMAT.but(
                    choices=("text", "html"),
                    help="html is a page that follows one token through one layer with all its "
                    "numbers: q·k, softmax and the weighted sum of each head, residuals and norms",
                ),
            )
        ),
        Option("-o", "--output", metavar="FILE", help="write the page to a file (.html)"),
    )


def _trace(options: argparse.Namespace) -> Answer:
    _check_torch()
    if options.output and options.form == "text":
        options.form = "html"
    if options.form == "html":
        return _trace_token(options)
    for name in ("token", "output"):
        if getattr(options, name) is not None:
            raise UsageError(
                f"--{name} needs --format html",
                values={name: getattr(options, name)},
                hint=f"add --format html, or drop --{name}",
            )
    from weighbridge.torch.tracing import trace

    return trace(
        options.checkpoint,
        options.text,
        options.second,
        options.class_name,
        layer=options.layer,
        head=options.head,
    )


def _trace_token(options: argparse.Namespace) -> Answer:
    """Return the page of one token, or a line that says where it was written."""
    from weighbridge.answers.answer import Message
    from weighbridge.torch.token_path import trace_token, write_page

    path = trace_token(
        options.checkpoint,
        options.text,
        options.second,
        options.class_name,
        layer=options.layer,
        head=options.head,
        token=options.token,
    )
    options.form = "text"  # what is written is the page itself
    if not options.output:
        return Message(path.page(options.lang), notes=path.notes)
    return Message(write_page(path, options.output, options.lang), notes=path.notes)


def _attention_options() -> Iterable[Addable]:
    output = Option(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the file to write: a page (.html) or a picture (.svg, .png); an existing file is "
        "replaced only if it is one too",
    )
    return (
        *_text_options(),
        Option(
            "--average",
            choices=("heads", "layers", "all"),
            help="the mean of all heads of each layer, of each head in all layers, or of all",
        ),
        Option(
            "--window",
            metavar="FIRST-LAST",
            help="the tokens to draw, by their positions, at most 64; by default the first. A page "
            "has the others too, unless the text is very long",
        ),
        output,
    )


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
        average=options.average,
        window=_window(options.window),
    )
    return Message(written, notes=notes)


def _window(text: str | None) -> tuple[int, int] | None:
    """Read the positions of the first and the last token, as in ``64-127``."""
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        raise UsageError(
            "--window takes FIRST-LAST", values={"found": text}, hint="for example --window 64-127"
        )
    return int(first), int(last)


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
            choices=("float32", "bfloat16", "float16"),
            help="the dtype of weights and activations; by default the config's",
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
        dtype=options.dtype and dtype(options.dtype),
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
