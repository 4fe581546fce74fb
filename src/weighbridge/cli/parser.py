"""The parser of command lines: its errors are ours, and so is the width of its help."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from weighbridge import __version__
from weighbridge.cli.commands import COMMANDS, load_command
from weighbridge.cli.output import write_out
from weighbridge.errors import UsageError, nearest, shorten

_HELP_COLUMNS = 80  # asking the terminal costs as much as weighing a model


class CommandParser(argparse.ArgumentParser):
    """A parser that raises errors of ours, and writes help of a fixed width."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_formatter, **options)

    def error(self, message: str) -> NoReturn:
        """Raise an error of ours, with a hint."""
        raise UsageError(message, hint=f"see `{self.prog} --help`")

    def parse_args(self, words: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse what is left over: an unknown option, or a word too many."""
        options, rest = self.parse_known_args(words, namespace)
        if not rest:
            return options
        hint = f"see `{self.prog} {words[0]} --help`"
        if rest[0].startswith("-"):
            raise UsageError(f"there is no option {shorten(rest[0], str)}", hint=hint)
        for meant in nearest(COMMANDS, str(getattr(options, "model", "")), most=1):
            hint = f"did you mean `weighbridge {meant} {rest[0]}`?"
        raise UsageError("too many words", values={"left over": " ".join(rest)}, hint=hint)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Write what is still to be written, and end."""
        write_out("")  # help and the version are still in its buffer
        super().exit(status, message)


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=_HELP_COLUMNS)


def parser(wanted: str) -> argparse.ArgumentParser:
    """Return a parser for the command that is wanted, or for all where it is none of them."""
    whole = CommandParser(
        prog="weighbridge",
        description="Weigh a Transformer before you load it. "
        "`weighbridge MODEL` means `weighbridge weigh MODEL`.",
    )
    whole.add_argument("--version", action="version", version=f"weighbridge {__version__}")
    commands = whole.add_subparsers(
        title="commands", metavar="COMMAND", required=True, prog="weighbridge"
    )
    names = [wanted]
    if wanted not in COMMANDS:
        names = list(COMMANDS)
    for name in names:
        help_, command = COMMANDS[name].help, load_command(name)
        description = command.description or f"{help_[0].upper()}{help_[1:]}."
        subparser = commands.add_parser(name, help=help_, description=description)
        subparser.set_defaults(command=command, form="text")
        for option in command.options():
            option.add_to(subparser)
    return whole
