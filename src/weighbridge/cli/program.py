"""The program: read the words of a command line, run one command, write what it answers."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from weighbridge.cli.commands import COMMANDS
from weighbridge.cli.output import is_data, say, write_answer
from weighbridge.cli.parser import parser
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_ANSWERED = 2
_STOPPED = 130  # as a shell has it for a program that the user stops


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    if arguments is None:
        arguments = sys.argv[1:]
    words = _with_command(list(arguments))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        options = parser("".join(words[:1])).parse_args(words)
        if is_data(options) and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")
        return write_answer(options.command.answer(options), options)
    except WeighbridgeError as error:
        say(str(error))
        return _NOT_ANSWERED
    except KeyboardInterrupt as stopped:
        say(str(stopped) or "stopped")
        return _STOPPED


def _with_command(words: list[str]) -> list[str]:
    """Return the words with the command that is meant where none is named: weigh."""
    if not words or words[0] in COMMANDS or words[0] in ("-h", "--help", "--version"):
        return words
    return ["weigh", *words]


def run() -> int:
    """Run the command of this process, which ends with it: no search for garbage on the way out."""
    status = main()
    gc.freeze()
    return status
