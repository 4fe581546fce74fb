"""The options that commands share, each declared once, and the reading of their values."""

from __future__ import annotations

from weighbridge.data import LANGUAGES
from weighbridge.errors import UsageError, shorten
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from typing import Any, Protocol

    class Addable(Protocol):
        """Anything that can be declared for a command."""

        def add_to(self, command: argparse._ActionsContainer, lang: str) -> None:
            """Add it to a command, with its help in a language."""

        def each(self) -> Iterator[Option]:
            """Yield the option, or the options in it."""


class Option:
    """An argument of a command line, in the terms of argparse."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names, self.settings = names, settings

    def but(self, **settings: Any) -> Option:
        """Return the same option with other settings, usually its help for one command."""
        return Option(*self.names, **{**self.settings, **settings})

    def add_to(self, command: argparse._ActionsContainer, lang: str) -> None:
        """Add it to a command, with its help in a language."""
        from weighbridge.render.messages import in_language

        settings = dict(self.settings)
        if "help" in settings:
            settings["help"] = in_language(settings["help"], lang)
        command.add_argument(*self.names, **settings)

    def each(self) -> Iterator[Option]:
        """Yield the option itself."""
        yield self

    @property
    def is_operand(self) -> bool:
        """Whether it is a positional argument, without a name that begins with a dash."""
        return not self.names[0].startswith("-")

    @property
    def is_checked(self) -> bool:
        """Whether a command line may be refused because of its absence or its value."""
        if self.is_operand:
            return not _CHECKED.isdisjoint(self.settings)
        return "required" in self.settings

    @property
    def destination(self) -> str:
        """The name of its value among the parsed arguments."""
        name: str = self.settings.get("dest", self.names[0].lstrip("-").replace("-", "_"))
        return name

    @property
    def absent(self) -> Any:
        """Its value if it is not given."""
        return self.settings.get("default", _ABSENT.get(self.settings.get("action", "")))


class OneOf(NamedTuple):
    """Options that exclude one another."""

    options: tuple[Option, ...]

    def add_to(self, command: argparse._ActionsContainer, lang: str) -> None:
        """Add them to a command, with their help in a language."""
        group = command.add_mutually_exclusive_group()
        for option in self.options:
            option.add_to(group, lang)

    def each(self) -> Iterator[Option]:
        """Yield the options."""
        yield from self.options


_ABSENT = {"store_true": False}
_CHECKED = frozenset(("choices", "nargs", "type"))  # settings that can lead to a refusal


MODEL_HELP = (
    "a name (bert-base-chinese), a config.json or the folder of one, an address (hf://org/name), "
    "- for stdin, a family (bert), or a blueprint (mymodel.toml)"
)
MODEL = Option("model", metavar="MODEL", help=MODEL_HELP)
CHECKPOINT = Option(
    "checkpoint",
    metavar="CHECKPOINT",
    help="a safetensors, GGUF, PyTorch, TensorFlow, Flax, ONNX, NumPy or Keras file, an index, a "
    "folder, or a pattern in quotes; or a remote one, whose headers alone are fetched: https://…, "
    "hf://org/name@revision, s3://… (needs weighbridge[remote])",
)
RUNNABLE = CHECKPOINT.but(
    help="a BERT: a folder with config.json, weights and a tokenizer, a weights file in such a "
    "folder, or a model on the hub, hf://org/name@revision",
)

CLASS = Option(
    "--class",
    dest="class_name",
    metavar="CLASS",
    help="the class to weigh; by default the config's class if it generates text, else the base "
    "class",
)
SET = Option(
    "--set",
    dest="fields",
    metavar="FIELD=VALUE",
    action="append",
    default=[],
    help="set a config field",
)
BLUEPRINT = Option(
    "--blueprint",
    metavar="FILE",
    help="use this blueprint instead of a shipped one",
)
VIA = Option(
    "--via",
    choices=("transformers",),
    help="let transformers build the model, on the meta device: slow, but it knows every model "
    "type",
)
DTYPE = Option("--dtype", help="the dtype of the elements: float32, bf16, int8…")
STRICT = Option(
    "--strict", action="store_true", help="refuse a config with fields of unknown effect"
)
EVIDENCE = Option("--evidence", action="store_true", help="say in full how the numbers are known")
OF_A_CONFIG = (SET, BLUEPRINT, VIA, DTYPE, STRICT, EVIDENCE)
OF_A_MODEL = (MODEL, CLASS, *OF_A_CONFIG)
"""The options of every command about a model."""

LANG = Option(
    "--lang",
    choices=LANGUAGES,
    default=LANGUAGES[0],
    help="the language of answers, errors and help; by default WEIGHBRIDGE_LANG or the locale "
    "decides",
)
BY = Option("--by", default="component", help="what each line of the table counts")
JSON = Option("--json", dest="form", action="store_const", const="json", help="write JSON")
MARKDOWN = Option(
    "--markdown", dest="form", action="store_const", const="markdown", help="write Markdown"
)
CSV = Option("--csv", dest="form", action="store_const", const="csv", help="write CSV")
FORMS = OneOf((JSON, MARKDOWN, CSV))
FORMAT = Option("--format", dest="form", default="text", help="the format of the article")

FAMILY = Option("--family", help="the family of the rows of a table that has no column for it")
PART = Option(
    "part", nargs="?", default="", metavar="PART", help="list only names that contain this"
)
LAYER = Option("--layer", type=int, metavar="N", help="one layer; the first is 0")
HEAD = Option("--head", type=int, metavar="N", help="one head of that layer; the first is 0")
FILE = Option(
    "--file",
    metavar="FILE",
    help="a file of texts, one per line, a second text after a tab; - for stdin",
)
TEXT_COLUMN = Option(
    "--text",
    metavar="COLUMN",
    help="the column of texts; by default text, sentence, 文本…, or the one that looks like texts",
)
ENCODING = Option(
    "--encoding",
    metavar="NAME",
    help="the encoding of the file, such as gb18030 or cp1252; by default UTF-8, UTF-16 and "
    "GB18030 are found out",
)
NO_HEADER = Option(
    "--no-header",
    action="store_true",
    help="the first line is a record; columns are numbered from 1",
)
SKIP_BROKEN = Option(
    "--skip-broken",
    action="store_true",
    help="skip broken and empty records, and count them",
)
OUTPUT = Option("--output", metavar="PATH")
PROFILE = Option("--profile", metavar="NAME")
SEED = Option("--seed", type=int, metavar="N")
BATCH = Option("--batch", type=int, metavar="N")
DEVICE = Option("--device")


def asked_of_model(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the options about a model, as keyword arguments."""
    return {
        "fields": fields(options.fields),
        "dtype": options.dtype,
        "strict": options.strict,
        "blueprint": _blueprint(options),
    }


def _blueprint(options: argparse.Namespace) -> Any:
    """Return what reads the config: a blueprint file, or a function that uses transformers."""
    if not options.via:
        return options.blueprint
    if options.blueprint:
        raise UsageError(
            "--via and --blueprint exclude each other",
            hint="drop one of the two",
        )
    from weighbridge.derive.running.runs import check_installed, reference

    check_installed(own=False, why="--via transformers builds the model")
    reference()
    from weighbridge.derive.running.via_transformers import blueprint_as_built

    return blueprint_as_built


def fields(assignments: Sequence[str]) -> dict[str, Any]:
    """Read all ``--set`` options; as in a file, two different values of a field are refused."""
    values: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for text in assignments:
        name, values[name] = _field(text)
        if texts.setdefault(name, text) != text:
            raise UsageError(
                f"--set gives {shorten(name, str)} twice",
                values={"first": texts[name], "then": text},
                hint="keep one of the two",
            )
    return values


def _field(text: str) -> tuple[str, Any]:
    """Read one ``--set``: its value is JSON if it can be parsed, otherwise text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(
            "--set takes FIELD=VALUE",
            values={"found": text},
            hint="for example --set num_labels=14",
        )
    import json

    from weighbridge.readers.rules import is_too_deep

    if is_too_deep(value.encode(errors="replace")):
        return name, value
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
