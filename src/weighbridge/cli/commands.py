"""The table of commands: the help line of each, and its module."""

from __future__ import annotations

from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable


class Listed(NamedTuple):
    """A command's line in the help, and the module of this package that runs it."""

    help: str
    module: str


COMMANDS = {
    "weigh": Listed("count the parameters of a model by component, with formulas", "counting"),
    "explain": Listed("explain the count step by step, as an article", "counting"),
    "formula": Listed(
        "print the count in closed form: letters, fields, LaTeX, Python or SQL", "counting"
    ),
    "tree": Listed("print the module tree, with the shape and count of every tensor", "counting"),
    "explore": Listed(
        "write a page that shows a model, and lets its sizes be turned; or two models", "exploring"
    ),
    "compare": Listed(
        "compare models, configs and checkpoints: by component, and what each field is worth",
        "comparing",
    ),
    "what-if": Listed("say what a change of a config's fields would change", "comparing"),
    "design": Listed(
        "find all sizes of a family with a number of parameters, beside published rules",
        "designing",
    ),
    "cost": Listed(
        "compute what a run takes without running it: FLOPs, saved tensors, cache", "costing"
    ),
    "cache": Listed("compute what a cache of keys, values or states takes, as it grows", "costing"),
    "serve": Listed(
        "say whether a model fits on devices with its cache, and how fast it can be", "fitting"
    ),
    "train": Listed(
        "say whether training fits on devices, rank by rank, and how long it takes", "fitting"
    ),
    "plan": Listed(
        "search the plans of a cluster: those that fit, the best, and why others lose", "fitting"
    ),
    "devices": Listed("list accelerators: memory, bandwidth, peaks, links, sources", "fitting"),
    "lora": Listed(
        "say what an adapter trains, and what its file and training take, before it is made",
        "adapting",
    ),
    "quantize": Listed(
        "compute a quantised file before it is made, tensor by tensor: GGUF, AWQ, FP8", "quantizing"
    ),
    "inspect": Listed(
        "list what a checkpoint holds, from its header: tensors, dtypes, bytes", "checkpoints"
    ),
    "verify": Listed("check a checkpoint against a model, tensor by tensor", "checkpoints"),
    "scan": Listed("weigh every checkpoint below folders or in stores, into Parquet", "fleet"),
    "reconcile": Listed("find what a published number counts in a model", "articles"),
    "conventions": Listed(
        "list the ways of counting, each with an example and its source", "articles"
    ),
    "guess": Listed("recover the family, class and config of a checkpoint", "checkpoints"),
    "audit": Listed("check the arithmetic of a published derivation, step by step", "articles"),
    "site": Listed("build a static site that answers in the browser, without a server", "siting"),
    "run": Listed("run a BERT on texts: fill [MASK], classify, answer, embed", "running"),
    "trace": Listed(
        "follow a text through a BERT: shapes, parameters, FLOPs and values", "running"
    ),
    "attention": Listed("draw the attention of every layer and head", "running"),
    "measure": Listed("predict and measure what a run takes: FLOPs, bytes, seconds", "running"),
    "finetune": Listed("train a BERT to classify the texts of a CSV file", "finetuning"),
    "sweep": Listed(
        "compute a model at every point of a grid of configs, by SQL, to Parquet", "sweeping"
    ),
    "models": Listed("list the released models that weighbridge knows by name", "catalogue"),
    "families": Listed(
        "list the families that have a blueprint, with the evidence for each", "catalogue"
    ),
    "derive": Listed(
        "derive a blueprint from the code of a model: transformers' or yours", "deriving"
    ),
    "completion": Listed("print a completion script for bash, zsh or fish", "completion"),
}


class Command(NamedTuple):
    """A command: its options, and the function that answers it.

    ``choices`` lists the options that the answer's `to_dict`, `document` and `csv` take. With
    ``is_data``, even text output is for programs.
    """

    options: Callable[[], Iterable[Addable]]
    answer: Callable[[argparse.Namespace], Answer]
    choices: tuple[str, ...] = ()
    description: str = ""
    is_data: bool = False

    def every_option(self) -> tuple[Addable, ...]:
        """Return the command's own options, and the language, which all commands have."""
        from weighbridge.cli.options import LANG

        return (*self.options(), LANG)


def load_command(name: str) -> Command:
    """Return the command with a name, importing only its module.

    It does not use `importlib`, which takes longer to import.
    """
    path = f"weighbridge.cli.{COMMANDS[name].module}"
    commands: dict[str, Command] = __import__(path, fromlist=["COMMANDS"]).COMMANDS
    return commands[name]
