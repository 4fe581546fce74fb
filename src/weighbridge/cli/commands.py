"""The table of commands: what each one does, and the module that holds it."""

from __future__ import annotations

from importlib import import_module

from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable


class Listed(NamedTuple):
    """A command as the help lists it, and the module of this room that is imported to run it."""

    help: str
    module: str


COMMANDS = {
    "weigh": Listed("every parameter of a model, by component, with its formula", "counting"),
    "explain": Listed("the derivation of the count, step by step, as an article", "counting"),
    "formula": Listed(
        "the count in closed form: letters, fields, LaTeX, Python or SQL", "counting"
    ),
    "tree": Listed("the module structure, with the shape and count of every tensor", "counting"),
    "inspect": Listed(
        "what a checkpoint holds, from its header: tensors, dtypes, roles, bytes", "checkpoints"
    ),
    "verify": Listed(
        "a checkpoint's header held against the model, tensor by tensor", "checkpoints"
    ),
    "reconcile": Listed("a published number: under which ways of counting it is right", "articles"),
    "conventions": Listed("the ways of counting, each with an example and its source", "articles"),
    "guess": Listed(
        "what a checkpoint without a config is: family, class and config", "checkpoints"
    ),
    "audit": Listed(
        "a published derivation: each step of its arithmetic, and what rests on a slip", "articles"
    ),
    "run": Listed(
        "what a BERT says of texts: words for [MASK], classes, an answer, an embedding", "running"
    ),
    "trace": Listed(
        "a text on its way through a BERT: shapes, parameters, FLOPs and values", "running"
    ),
    "attention": Listed("a picture of who looks at whom, in every layer and head", "running"),
    "measure": Listed("what a run takes, predicted and measured: FLOPs, bytes, seconds", "running"),
    "finetune": Listed(
        "a BERT trained to classify texts: a CSV file in, a checkpoint out", "finetuning"
    ),
    "models": Listed("the released models that weighbridge knows by name", "catalogue"),
    "families": Listed("the families that have a blueprint, each with its evidence", "catalogue"),
    "derive": Listed(
        "a blueprint, from the code of a model: transformers' or your own", "deriving"
    ),
}


class Command(NamedTuple):
    """A command: what it can be given, and what answers it.

    ``choices`` are the options that the answer's `to_dict`, `document` and `csv` take. What is
    data is for a program, even as text.
    """

    options: Callable[[], Iterable[Addable]]
    answer: Callable[[argparse.Namespace], Answer]
    choices: tuple[str, ...] = ()
    description: str = ""
    is_data: bool = False

    def every_option(self) -> tuple[Addable, ...]:
        """Return the command's own options, and the language, which every command takes."""
        from weighbridge.cli.options import LANG

        return (*self.options(), LANG)


def load_command(name: str) -> Command:
    """Return the command of a name; only the module that holds it is imported."""
    command: Command = import_module(f"weighbridge.cli.{COMMANDS[name].module}").COMMANDS[name]
    return command
