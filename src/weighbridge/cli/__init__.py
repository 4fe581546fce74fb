"""The command line: parse, one library call, report. No arithmetic.

Data goes to stdout, words about it to stderr. The exit status is 0 when done, 1 when the answer is
no (verify found a difference, guess nothing that fits exactly, reconcile no way, audit a slip,
measure a wrong count), 2 when it could not be answered.
"""

from __future__ import annotations

import argparse
import errno
import gc
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from weighbridge import __version__
from weighbridge.errors import UsageError, WeighbridgeError, nearest, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from weighbridge.answers.inspect import Inspection
    from weighbridge.answers.weigh import Weighing
    from weighbridge.models.find import Model
    from weighbridge.readers import Watch

    _Answer = tuple[int, str]

_MODEL = (
    "a name (bert-base-chinese), the path of a config.json or of a folder holding one, an address (hf://org/name), "
    "- for stdin, a family (bert), or a blueprint (mymodel.toml)"
)
_CHECKPOINT = (
    "a safetensors, GGUF, PyTorch, TensorFlow, Flax, ONNX or NumPy file, an index, a folder, or a pattern in quotes; "
    "or one elsewhere, of which only headers are fetched: https://…, hf://org/name@revision, s3://… (it needs "
    "weighbridge[remote])"
)
_RUNNABLE = (
    "a BERT: a folder with config.json, weights and a tokenizer, a file of weights in one, or one on the hub, "
    "hf://org/name@revision"
)
_ARTICLE = (
    "a text, Markdown or HTML file, the address of a page, https://…, or - for stdin; what is LaTeX in it needs "
    "weighbridge[audit]"
)
_DERIVE = (
    "Derive a blueprint by running a model's code on values that remember, and hold it on configs not seen before. "
    "A family is one of transformers. A class of your own is named as Python imports it, mypackage.mymodel:MyModel: "
    "this imports and runs the code that you name, again and again, with other values in its config. It runs in a "
    "process of its own, on torch's meta device, and needs torch; families need transformers too."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = _with_command(list(sys.argv[1:] if arguments is None else arguments))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        options = _parser(words[0] if words else "").parse_args(words)
        if _is_data(options) and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")
        status, answer = options.run(options)
        _write(answer if not answer or answer.endswith("\n") else f"{answer}\n")
    except WeighbridgeError as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt as stopped:
        _say(str(stopped) or "stopped")
        return 130
    return int(status)


def _with_command(words: list[str]) -> list[str]:
    """Return the words with the command that is meant where none is named: weigh."""
    first = words[0] if words else "--help"
    if first in COMMANDS or first in ("-h", "--help", "--version"):
        return words
    return ["weigh", *words]


def _is_data(options: argparse.Namespace) -> bool:
    """Whether the answer is for a program, and so UTF-8 whatever the terminal speaks."""
    form = getattr(options, "form", None) or getattr(options, "format", "text")
    return form != "text" or getattr(options, "json", False)


def run() -> int:
    """Run the command of this process, which ends with it: `main`, and no search for garbage on the way out."""
    status = main()
    gc.freeze()
    return status


def _write(answer: str) -> None:
    """Write to stdout, to the end; that a reader leaves before it is no error."""
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        sys.stdout.write(answer)
        sys.stdout.flush()
    except OSError as error:
        if (
            sys.stdout is not None
        ):  # what it still holds goes nowhere, or Python would try once more as it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise WeighbridgeError(
                f"cannot be written: {error.strerror}",
                where="stdout",
                hint="send it where it can be written",
            ) from None


def _say(words: str) -> None:
    """Say something about the answer on stderr; where nobody can be told, the exit status says enough."""
    try:
        if sys.stderr is not None:  # or print would take stdout
            print(f"weighbridge: {words}", file=sys.stderr)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


class _Parser(argparse.ArgumentParser):
    """Errors are ours, and so is the width of help: asking the terminal costs as much as weighing a model."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=lambda prog: argparse.HelpFormatter(prog, width=80), **options
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see `{self.prog} --help`")

    def parse_args(self, words: Any = None, namespace: Any = None) -> Any:
        """Parse, and where something is left over say which: an option that is none, or a word too many."""
        options, left = self.parse_known_args(words, namespace)
        if left:
            near = nearest(COMMANDS, str(getattr(options, "model", "")), most=1)
            help_ = f"see `{self.prog} {words[0]} --help`"
            if left[0].startswith("-"):
                raise UsageError(f"there is no option {shorten(left[0], str)}", hint=help_)
            hint = f"did you mean `weighbridge {near[0]} {left[0]}`?" if near else help_
            raise UsageError("too many words", values={"left over": " ".join(left)}, hint=hint)
        return options

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        _write("")  # help and the version are still in its buffer
        super().exit(status, message)


def _parser(wanted: str) -> argparse.ArgumentParser:
    """Return a parser for the command that is wanted, or for all where it is none of them."""
    parser = _Parser(
        prog="weighbridge",
        description="Weigh a Transformer before you load it. `weighbridge MODEL` means `weighbridge weigh MODEL`.",
    )
    parser.add_argument("--version", action="version", version=f"weighbridge {__version__}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, prog="weighbridge"
    )
    for name in [wanted] if wanted in COMMANDS else COMMANDS:
        describe, run, add_options = COMMANDS[name]
        described = _DERIVE if name == "derive" else f"{describe[0].upper()}{describe[1:]}."
        command = commands.add_parser(name, help=describe, description=described)
        command.set_defaults(run=run)
        add_options(command)
    return parser


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=_MODEL)
    command.add_argument(
        "--class",
        dest="class_name",
        metavar="CLASS",
        help="the class to weigh; the base class if not given",
    )
    command.add_argument(
        "--set",
        dest="fields",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="replace a config field",
    )
    command.add_argument(
        "--blueprint",
        metavar="FILE",
        help="read the config by this blueprint, in place of a shipped one",
    )
    command.add_argument(
        "--via",
        choices=("transformers",),
        help="have transformers itself build the config, on the meta device: slow, but it knows every model type",
    )
    command.add_argument("--dtype", help="how an element is stored: float32, bf16, int8…")
    command.add_argument(
        "--strict", action="store_true", help="refuse a config with fields that nobody knows"
    )


def _add_lang(command: argparse.ArgumentParser) -> None:
    from weighbridge.data import LANGUAGES

    command.add_argument(
        "--lang", choices=LANGUAGES, default=LANGUAGES[0], help="the language of the report"
    )


def _weigh(options: argparse.Namespace) -> Weighing:
    """Weigh what the options name, and tell the notes about its config on stderr."""
    from weighbridge.answers.weigh import weigh

    weighing = weigh(options.model, options.class_name, **_given(options))
    _tell(weighing.model)
    return weighing


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that every question about a model takes."""
    return {
        "fields": _fields(options.fields),
        "dtype": options.dtype,
        "strict": options.strict,
        "blueprint": _blueprint(options),
    }


def _blueprint(options: argparse.Namespace) -> Any:
    """Return what to read the config by: a file, or what has transformers build it."""
    if not options.via:
        return options.blueprint
    if options.blueprint:
        raise UsageError(
            "--via builds the model, so no --blueprint says what it holds",
            hint="leave one of them out",
        )
    from weighbridge.derive.running.runs import check_installed, reference

    check_installed(own=False, why="--via transformers builds the model")
    reference()
    from weighbridge.derive.running.via_transformers import counted

    return counted


def _tell(model: Model) -> None:
    """Tell on stderr what the user should know of a config."""
    for note in model.notes:
        _say(f"note: {note}")


def _fields(given: Sequence[str]) -> dict[str, Any]:
    """Read every ``--set``. As in a file, a field said twice with two values is refused."""
    fields: dict[str, Any] = {}
    said: dict[str, str] = {}
    for text in given:
        name, fields[name] = _field(text)
        if said.setdefault(name, text) != text:
            found = {"first": said[name], "then": text}
            raise UsageError(
                f"--set gives {shorten(name, str)} twice", values=found, hint="keep one of the two"
            )
    return fields


def _field(text: str) -> tuple[str, Any]:
    """Read one ``--set``: the value is JSON where it can be, else text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(
            "--set takes FIELD=VALUE",
            values={"found": text},
            hint="for example --set num_labels=14",
        )
    import json

    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _add_weigh(command: argparse.ArgumentParser) -> None:
    from weighbridge.ledger.ledger import GROUPINGS

    _add_model(command)
    _add_lang(command)
    _add_forms(command, GROUPINGS)


def _add_forms(command: argparse.ArgumentParser, groupings: Sequence[str]) -> None:
    command.add_argument(
        "--by", choices=groupings, default="component", help="what a line stands for"
    )
    form = command.add_mutually_exclusive_group()
    for name in ("json", "markdown", "csv"):
        form.add_argument(
            f"--{name}", dest="form", action="store_const", const=name, help=f"write {name}"
        )


def _run_weigh(options: argparse.Namespace) -> _Answer:
    return 0, _written(_weigh(options), options)


def _written(report: Weighing | Inspection, options: argparse.Namespace) -> str:
    """Write a report that can be grouped, in the form that is asked for."""
    if options.form == "json":
        return _json(report.to_dict(options.by))
    if options.form == "csv":
        return report.csv(options.by)
    if options.form == "markdown":
        return report.markdown(options.by, options.lang)
    return report.text(options.by, options.lang)


def _add_explain(command: argparse.ArgumentParser) -> None:
    from weighbridge.render.document import FORMATS

    _add_model(command)
    _add_lang(command)
    command.add_argument(
        "--format", choices=tuple(FORMATS), default="text", help="how the article is written"
    )


def _run_explain(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.explain import article

    return 0, article(_weigh(options), options.lang, options.format)


def _add_formula(command: argparse.ArgumentParser) -> None:
    from weighbridge.answers.formula import FORMS, GROUPINGS, NAMES

    _add_model(command)
    _add_lang(command)
    command.add_argument(
        "--by", choices=GROUPINGS, default="total", help="what has a formula of its own"
    )
    command.add_argument(
        "--format", choices=tuple(FORMS), default="text", help="how the formula is written"
    )
    command.add_argument(
        "--names", choices=NAMES, help="what stands in it; text has it in both, code in fields"
    )


def _run_formula(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.formula import closed_form

    return 0, closed_form(
        _weigh(options), options.format, by=options.by, names=options.names, lang=options.lang
    )


def _add_tree(command: argparse.ArgumentParser) -> None:
    _add_model(command)
    _add_lang(command)
    command.add_argument(
        "--depth", type=int, metavar="N", help="show N levels of modules below the model"
    )
    command.add_argument("--json", action="store_true", help="write json")


def _run_tree(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.tree import Tree

    tree = Tree(_weigh(options))
    return 0, _json(tree.to_dict(options.depth)) if options.json else tree.text(
        options.depth, options.lang
    )


def _add_verify(command: argparse.ArgumentParser) -> None:
    _add_model(command)
    command.add_argument("checkpoint", metavar="CHECKPOINT", help=_CHECKPOINT)
    _add_lang(command)
    command.add_argument(
        "--json", action="store_true", help="write json, with every difference on its own"
    )


def _run_verify(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.verify import Verification, verify

    with _watching() as watch:
        verification = verify(
            options.model, options.checkpoint, options.class_name, **_given(options), watch=watch
        )
    if isinstance(verification, Verification):
        _tell(verification.model)
    return verification.status, _json(
        verification.to_dict()
    ) if options.json else verification.text(options.lang)


def _add_inspect(command: argparse.ArgumentParser) -> None:
    from weighbridge.answers.inspect import GROUPINGS

    command.add_argument("checkpoint", metavar="PATH", help=_CHECKPOINT)
    _add_lang(command)
    _add_forms(command, GROUPINGS)


def _run_inspect(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.inspect import inspect

    with _watching() as watch:
        inspection = inspect(options.checkpoint, watch)
    return 0, _written(inspection, options)


def _add_audit(command: argparse.ArgumentParser) -> None:
    command.add_argument("article", metavar="ARTICLE", help=_ARTICLE)
    _add_lang(command)
    command.add_argument(
        "--json", action="store_true", help="write json, with every slip and all that was not read"
    )


def _run_audit(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.audit import audit

    found = audit(options.article)
    return found.status, _json(found.to_dict()) if options.json else found.text(options.lang)


def _add_text(command: argparse.ArgumentParser) -> None:
    """Add what every command that runs a model on a text takes."""
    command.add_argument("checkpoint", metavar="CHECKPOINT", help=_RUNNABLE)
    command.add_argument("text", metavar="TEXT", help="the text to read")
    command.add_argument("second", metavar="SECOND", nargs="?", help="the second text of a pair")
    command.add_argument(
        "--class",
        dest="class_name",
        metavar="CLASS",
        help="the class to run; the config's if not given",
    )
    command.add_argument("--layer", type=int, metavar="N", help="one layer, counted from 0")
    command.add_argument(
        "--head", type=int, metavar="N", help="one head of that layer, counted from 0"
    )
    _add_lang(command)


def _add_trace(command: argparse.ArgumentParser) -> None:
    _add_text(command)
    command.add_argument(
        "--json", action="store_true", help="write json, with the range of every step's values"
    )


def _add_attention(command: argparse.ArgumentParser) -> None:
    _add_text(command)
    command.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the file to write: a page, .html, or a picture, .svg or .png; one that is there is replaced only if it "
        "is such a file too",
    )


def _run_attention(options: argparse.Namespace) -> _Answer:
    from weighbridge.torch import check_installed

    check_installed("running a model")
    from weighbridge.torch.tracing import draw_attention

    asked = (options.checkpoint, options.text, options.second, options.class_name)
    places = {"layer": options.layer, "head": options.head}
    written, notes = draw_attention(options.output, *asked, lang=options.lang, **places)
    for note in notes:
        _say(f"note: {note}")
    return 0, written


def _run_trace(options: argparse.Namespace) -> _Answer:
    from weighbridge.torch import check_installed

    check_installed("running a model")
    from weighbridge.torch.tracing import trace

    texts = (options.text, options.second)
    found = trace(
        options.checkpoint, *texts, options.class_name, layer=options.layer, head=options.head
    )
    for note in found.notes:
        _say(f"note: {note}")
    return 0, _json(found.to_dict()) if options.json else found.text(options.lang)


@contextmanager
def _watching(what: str = "headers", unit: str = "file") -> Iterator[Watch | None]:
    """Give what draws a bar on stderr of what is done, and wipe it away; nothing where nobody watches."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bars: list[Any] = []

    def watch(done: int, files: int) -> None:
        if not bars:
            from tqdm import tqdm

            bars.append(tqdm(total=files, desc=what, unit=unit, file=sys.stderr, leave=False))
        bars[0].update(done - bars[0].n)

    try:
        yield watch
    finally:
        for bar in bars:
            bar.close()


def _add_reconcile(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "words",
        nargs="*",
        metavar="[MODEL] NUMBER",
        help=f"a published number: 108808704, 110M, 1.1亿, 418MiB; before it {_MODEL}. Without a model, the catalogue "
        "is searched",
    )
    command.add_argument(
        "--table",
        metavar="FILE",
        help="find one way of counting for all rows of a CSV file, whose first line names the columns",
    )
    command.add_argument(
        "--family", help="the family of the rows of a table, where no column says it"
    )
    command.add_argument(
        "--set",
        dest="fields",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="replace a config field",
    )
    command.add_argument("--blueprint", metavar="FILE", help="read the config by this blueprint")
    _add_lang(command)
    command.add_argument("--json", action="store_true", help="write json, with every way that fits")


def _run_reconcile(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.reconcile import reconcile
    from weighbridge.answers.reconcile_table import reconcile_table

    if (options.table is None) == (not options.words) or len(options.words) > 2:
        hint = "type weighbridge reconcile MODEL NUMBER, or NUMBER alone, or --table FILE"
        raise UsageError(
            "takes a number, and before it a model",
            values={"found": " ".join(options.words)},
            hint=hint,
        )
    if options.table is not None:
        of_table = reconcile_table(options.table, options.family)
        return of_table.status, _json(of_table.to_dict()) if options.json else of_table.text(
            options.lang
        )
    *model, stated = options.words
    fields = _fields(options.fields)
    found = reconcile(
        model[0] if model else None, stated, fields=fields, blueprint=options.blueprint
    )
    if found.of_model:
        _tell(found.of_model)
    return found.status, _json(found.to_dict()) if options.json else found.text(options.lang)


def _add_conventions(command: argparse.ArgumentParser) -> None:
    _add_lang(command)
    command.add_argument("--json", action="store_true", help="write json")


def _run_conventions(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.reconcile import rules
    from weighbridge.counting.conventions import table

    return 0, _json(dict(table())) if options.json else rules(options.lang)


def _add_guess(command: argparse.ArgumentParser) -> None:
    command.add_argument("checkpoint", metavar="CHECKPOINT", help=_CHECKPOINT)
    _add_lang(command)
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write json, with every candidate")
    form.add_argument(
        "--config",
        action="store_true",
        help="write the config.json of the likeliest, and nothing else",
    )


def _run_guess(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.guess import guess

    guessed = guess(options.checkpoint)
    if options.config:
        return guessed.status, _json(guessed.config)
    return guessed.status, _json(guessed.to_dict()) if options.json else guessed.text(options.lang)


def _add_measure(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=_MODEL)
    command.add_argument(
        "--class",
        dest="class_name",
        metavar="CLASS",
        help="the class to run; the base class if not given",
    )
    command.add_argument(
        "--set",
        dest="fields",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="replace a config field",
    )
    command.add_argument(
        "--batch", type=int, default=1, metavar="N", help="sequences at a time; 1 if not given"
    )
    command.add_argument(
        "--seq", type=int, default=128, metavar="N", help="tokens of each; 128 if not given"
    )
    command.add_argument(
        "--train",
        action="store_true",
        help="with dropout, and backward; otherwise forward, in evaluation mode",
    )
    command.add_argument(
        "--attention", choices=("eager", "sdpa"), default="eager", help="how attention is computed"
    )
    command.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32", help="of weights and results"
    )
    command.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="what it is run on"
    )
    command.add_argument(
        "--ours", action="store_true", help="run the class of this package, not transformers'"
    )
    command.add_argument(
        "--force", action="store_true", help="run it even if memory does not seem to hold it"
    )
    _add_lang(command)
    command.add_argument("--json", action="store_true", help="write json")


def _run_measure(options: argparse.Namespace) -> _Answer:
    from weighbridge.derive.running.runs import check_installed

    extra = "torch" if options.ours else "derive"
    whose = (
        "this package's class"
        if options.ours
        else "transformers' class (--ours: this package's own)"
    )
    check_installed(own=options.ours, why=f"measuring builds and runs {whose}", extra=extra)
    from weighbridge.answers.measure import Measuring
    from weighbridge.torch.measure import Wish, measure
    from weighbridge.units import dtype

    wish = Wish(
        model=options.model,
        class_name=options.class_name,
        fields=_fields(options.fields),
        batch=options.batch,
        sequence=options.seq,
        train=options.train,
        attention=options.attention,
        dtype=dtype(options.dtype),
        device=options.device,
        ours=options.ours,
        force=options.force,
    )
    found = Measuring(measure(wish, _progress))
    return found.status, _json(found.to_dict()) if options.json else found.text(options.lang)


def _progress(words: str) -> None:
    """Say what is being done, where somebody watches."""
    if sys.stderr is not None and sys.stderr.isatty():
        _say(words)


def _add_derive(command: argparse.ArgumentParser) -> None:
    from weighbridge.derive.running.runs import LIMIT_SECONDS

    command.set_defaults(form="toml")
    command.add_argument(
        "subjects",
        nargs="+",
        metavar="FAMILY",
        help="families of transformers, all, or one class: package.module:Class",
    )
    command.add_argument(
        "--config",
        metavar="MODULE:NAME",
        help="the config of your class: a class, an object or a dict",
    )
    command.add_argument(
        "--set",
        dest="fields",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="give your config a value",
    )
    command.add_argument(
        "--family",
        metavar="NAME",
        help="the family of your class; its name in snake_case if not given",
    )
    command.add_argument(
        "--class",
        dest="classes",
        metavar="CLASS",
        action="append",
        help="derive this task class too, and no others",
    )
    command.add_argument(
        "--operations",
        action="store_true",
        help="derive what its classes do when they run, in place of the blueprint: matrix products, forward and "
        "backward, and what is saved for backward",
    )
    command.add_argument(
        "--output",
        metavar="PATH",
        help="the file to write; of several families the folder. Otherwise one family goes to stdout, a class of your "
        "own to FAMILY.toml, and several to the blueprints of a checkout",
    )
    command.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="how many to derive at a time"
    )
    command.add_argument(
        "--seed", type=int, default=0, metavar="N", help="draw other random configs"
    )
    command.add_argument(
        "--limit",
        type=float,
        default=LIMIT_SECONDS,
        metavar="SECONDS",
        help=f"for each; {LIMIT_SECONDS} if not given",
    )
    command.add_argument(
        "--again", action="store_true", help="derive what is there and would come out the same too"
    )


def _run_derive(options: argparse.Namespace) -> _Answer:
    from weighbridge.derive.running.command import Wish, derive

    wish = Wish(
        subjects=options.subjects,
        config=options.config,
        fields=_fields(options.fields),
        family=options.family,
        classes=options.classes,
        output=options.output,
        jobs=options.jobs,
        seed=options.seed,
        limit_seconds=options.limit,
        again=options.again,
        operations=options.operations,
    )
    return derive(wish, _say)


def _add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("checkpoint", metavar="CHECKPOINT", help=_RUNNABLE)
    command.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT [SECOND]",
        help="a text, and the second one of a pair; of a multiple choice all that follow are its choices",
    )
    command.add_argument("--each", action="store_true", help="take every TEXT for one of its own")
    command.add_argument(
        "--file", metavar="FILE", help="texts, one a line, a tab before a second one; - for stdin"
    )
    command.add_argument("--class", dest="class_name", metavar="CLASS", help="run it as this class")
    command.add_argument(
        "--pool", metavar="HOW", help="what an embedding is made of: cls, pooler or mean"
    )
    command.add_argument(
        "--top", type=int, default=5, metavar="N", help="how many candidates a [MASK] gets"
    )
    _add_lang(command)
    command.add_argument(
        "--json", action="store_true", help="write json, with every number of an embedding"
    )


def _run_run(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.run import report, to_dict
    from weighbridge.torch import check_installed

    check_installed("running a model")
    from weighbridge.torch.running import asked, run

    texts = asked(options.texts, options.file, each=options.each, class_name=options.class_name)
    with _watching("texts", "text") as watch:
        found = run(
            options.checkpoint,
            texts,
            class_name=options.class_name,
            pool=options.pool,
            top=options.top,
            watch=watch if len(texts) > 1 else None,
        )
    for note in found.notes:
        _say(f"note: {note}")
    for number, answer in enumerate(found.answers, 1):
        for note in answer.notes:
            _say(f"note: text {number}: {note}")
    return 0, _json(to_dict(found)) if options.json else report(found, options.lang)


def _add_finetune(command: argparse.ArgumentParser) -> None:
    from weighbridge.torch.finetuning.settings import PRECISIONS, WATCHED, Settings

    command.add_argument(
        "data", metavar="DATA", help="texts and their labels: .csv, .tsv, or JSON lines in .jsonl"
    )
    command.add_argument(
        "--from", dest="start", metavar="CHECKPOINT", required=True, help="the BERT to begin with"
    )
    command.add_argument(
        "--out",
        metavar="FOLDER",
        required=True,
        help="where it goes; a run begun there is gone on with",
    )
    for flag, metavar, said in _TUNING:
        name = flag[2:].replace("-", "_")
        default = getattr(Settings, name)
        kind = _KINDS.get(metavar, str)
        about = said if default is None else f"{said}; {default} if not given"
        command.add_argument(flag, type=kind, default=default, metavar=metavar, help=about)
    command.add_argument(
        "--watch", choices=WATCHED, default=WATCHED[0], help="what --patience goes by, held out"
    )
    command.add_argument(
        "--precision",
        choices=PRECISIONS,
        default=PRECISIONS[0],
        help="auto is bfloat16 on CUDA and float32 elsewhere",
    )
    command.add_argument(
        "--skip-broken",
        action="store_true",
        help="leave broken and empty records out, and count them",
    )
    command.add_argument(
        "--overwrite", action="store_true", help="begin anew where another run or a model is"
    )
    _add_lang(command)
    command.add_argument(
        "--json",
        action="store_true",
        help="write json: the scores, the history, all that was measured",
    )


_KINDS: dict[str, type] = {"N": int, "RATE": float, "SHARE": float, "NORM": float}
_TUNING = (
    ("--text", "COLUMN", "the column of texts; if not given text, sentence, 文本…"),
    ("--label", "COLUMN", "the column of labels; if not given label, class, 类别…"),
    ("--test", "FILE", "hold it against this file's texts, in place of a share of DATA"),
    ("--held-out", "SHARE", "the share of DATA that is not trained on"),
    ("--epochs", "N", "how often each text is seen"),
    ("--steps", "N", "end after so many steps"),
    ("--batch", "N", "texts of a step"),
    ("--accumulate", "N", "cut a batch into N pieces, one after the other: it takes less memory"),
    ("--learning-rate", "RATE", "the highest"),
    ("--warmup", "SHARE", "the share of the steps in which it rises"),
    ("--weight-decay", "RATE", "of matrices"),
    ("--clip", "NORM", "the longest gradient"),
    ("--max-length", "N", "tokens of a text; more are cut off"),
    (
        "--patience",
        "N",
        "stop when N evaluations in a row were no better, and keep the best weights",
    ),
    ("--seed", "N", "all that is random is drawn from it"),
    ("--device", "NAME", "cpu, cuda or cuda:1"),
    ("--checkpoint-every", "N", "steps between checkpoints; there is one after each epoch besides"),
)


def _run_finetune(options: argparse.Namespace) -> _Answer:
    from weighbridge.torch import check_installed

    check_installed("weighbridge finetune")
    from weighbridge.torch.finetuning.command import finetune
    from weighbridge.torch.finetuning.settings import Settings

    given = {
        name: value
        for name, value in vars(options).items()
        if name in Settings.__dataclass_fields__
    }
    found = finetune(Settings(**given), _say, options.lang)
    if found is None:  # another process tells it
        return 0, ""
    return 0, _json(found.to_dict()) if options.json else found.text(options.lang)


def _add_models(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "part", nargs="?", default="", metavar="PART", help="only names that contain this"
    )
    command.add_argument(
        "--json", action="store_true", help="write json: config, parameters and source of each"
    )


def _run_models(options: argparse.Namespace) -> _Answer:
    from weighbridge.models.catalogue import released

    found = {
        name: entry for name, entry in released().items() if options.part.lower() in name.lower()
    }
    if not found:
        raise UsageError(
            "no model has that in its name",
            values={"part": options.part},
            hint="leave it out to see all",
        )
    if options.json:
        return 0, _json(found)
    from weighbridge.render.table import Table, text
    from weighbridge.units import count

    rows = tuple((name, count(entry["parameters"])) for name, entry in found.items())
    return 0, text(Table(("model", "parameters"), rows, "<>"))


def _add_families(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "part", nargs="?", default="", metavar="PART", help="only names that contain this"
    )
    command.add_argument(
        "--json", action="store_true", help="write json: classes, source, configs and holes of each"
    )


def _run_families(options: argparse.Namespace) -> _Answer:
    from weighbridge.answers.families import listed, report

    if options.json:
        return 0, _json([family.to_dict() for family in listed(options.part)])
    return 0, report(options.part)


def _json(found: object) -> str:
    import json

    return json.dumps(found, indent=2, ensure_ascii=False)


# Each command: what it does, what runs it (and returns the exit status and the answer), what adds
# its options.
COMMANDS: dict[
    str,
    tuple[str, Callable[[argparse.Namespace], _Answer], Callable[[argparse.ArgumentParser], None]],
] = {
    "weigh": ("every parameter of a model, by component, with its formula", _run_weigh, _add_weigh),
    "explain": (
        "the derivation of the count, step by step, as an article",
        _run_explain,
        _add_explain,
    ),
    "formula": (
        "the count in closed form: letters, fields, LaTeX, Python or SQL",
        _run_formula,
        _add_formula,
    ),
    "tree": (
        "the module structure, with the shape and count of every tensor",
        _run_tree,
        _add_tree,
    ),
    "inspect": (
        "what a checkpoint holds, from its header: tensors, dtypes, roles, bytes",
        _run_inspect,
        _add_inspect,
    ),
    "verify": (
        "a checkpoint's header held against the model, tensor by tensor",
        _run_verify,
        _add_verify,
    ),
    "reconcile": (
        "a published number: under which ways of counting it is right",
        _run_reconcile,
        _add_reconcile,
    ),
    "conventions": (
        "the ways of counting, each with an example and its source",
        _run_conventions,
        _add_conventions,
    ),
    "guess": (
        "what a checkpoint without a config is: family, class and config",
        _run_guess,
        _add_guess,
    ),
    "audit": (
        "a published derivation: each step of its arithmetic, and what rests on a slip",
        _run_audit,
        _add_audit,
    ),
    "run": (
        "what a BERT says of texts: words for [MASK], classes, an answer, an embedding",
        _run_run,
        _add_run,
    ),
    "trace": (
        "a text on its way through a BERT: shapes, parameters, FLOPs and values",
        _run_trace,
        _add_trace,
    ),
    "attention": (
        "a picture of who looks at whom, in every layer and head",
        _run_attention,
        _add_attention,
    ),
    "measure": (
        "what a run takes, predicted and measured: FLOPs, bytes, seconds",
        _run_measure,
        _add_measure,
    ),
    "finetune": (
        "a BERT trained to classify texts: a CSV file in, a checkpoint out",
        _run_finetune,
        _add_finetune,
    ),
    "models": ("the released models that weighbridge knows by name", _run_models, _add_models),
    "families": (
        "the families that have a blueprint, each with its evidence",
        _run_families,
        _add_families,
    ),
    "derive": (
        "a blueprint, from the code of a model: transformers' or your own",
        _run_derive,
        _add_derive,
    ),
}
