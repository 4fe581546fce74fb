"""The program: reads a command line, runs one command, and writes its answer."""

from __future__ import annotations

import gc
import os
import sys
from types import SimpleNamespace

from weighbridge.cli.commands import COMMANDS, load_command
from weighbridge.cli.language import language
from weighbridge.cli.output import is_data, say, write_answer
from weighbridge.errors import UsageError, WeighbridgeError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence
    from typing import Any

    from weighbridge.answers.answer import Answer

    Write = Callable[[Answer, Namespace], int]

_NOT_ANSWERED = 2
_FIRST_WORDS = (
    "`weighbridge bert-base-chinese` weighs a model; `weighbridge --help` lists the commands"
)
_STOPPED = 130  # the shell's status for a program that the user stops


def main(arguments: Sequence[str] | None = None, write: Write = write_answer) -> int:
    """Run one command and return its exit status; ``write`` gets the answer and the options."""
    if arguments is None:
        arguments = sys.argv[1:]
    typed = list(arguments)
    words = _with_command(typed)
    lang = language(words, os.environ)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        options = _plain(words, lang) or _parsed(words, lang)
        if is_data(options) and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")
        return write(options.command.answer(options), options)
    except WeighbridgeError as error:
        say(_message(error, typed, lang))
        return _NOT_ANSWERED
    except KeyboardInterrupt as stopped:
        say(str(stopped) or "stopped", lang)
        return _STOPPED


def _message(error: WeighbridgeError, typed: list[str], lang: str) -> str:
    from weighbridge.cli.wrong_turns import explained
    from weighbridge.render.messages import error_message

    return error_message(explained(error, typed), lang)


def _parsed(words: list[str], lang: str) -> Any:
    from weighbridge.cli.parser import parser

    if not words:
        raise UsageError("give a model or a command", hint=_FIRST_WORDS)
    return parser("".join(words[:1]), lang).parse_args(words)


def _plain(words: list[str], lang: str) -> Any:
    """Return the options of a command with operands only; None for other command lines.

    These are the most common, and importing argparse takes as long as weighing a model.
    """
    name, *operands = words or [""]
    if name not in COMMANDS or any(word.startswith("-") for word in operands):
        return None
    command = load_command(name)
    options = [option for given in command.every_option() for option in given.each()]
    places = [option for option in options if option.is_operand]
    if len(places) != len(operands) or any(option.is_checked for option in options):
        return None
    values = {option.destination: option.absent for option in options}
    values |= {option.destination: word for option, word in zip(places, operands, strict=True)}
    return SimpleNamespace(**{**values, "command": command, "form": "text", "lang": lang})


def _with_command(words: list[str]) -> list[str]:
    """Return the words with the default command, weigh, if they name none.

    Example:
        >>> _with_command(["bert"]), _with_command(["help", "cost"]), _with_command(["help"])
        (['weigh', 'bert'], ['cost', '--help'], ['--help'])
    """
    if words[:1] == ["help"]:
        return [*(word for word in words[1:] if word in COMMANDS or word[:1] == "-"), "--help"]
    if not words or words[0] in COMMANDS or words[0] in ("-h", "--help", "--version"):
        return words
    return ["weigh", *words]


def run() -> int:
    """Run the command of this process and exit, without garbage collection at the end."""
    status = main()
    gc.freeze()
    return status
