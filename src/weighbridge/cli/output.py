"""Writes answers to stdout in the requested format, and messages to stderr."""

from __future__ import annotations

import errno
import os
import sys

from weighbridge.data import LANGUAGES
from weighbridge.errors import WeighbridgeError
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.safe import lines

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from weighbridge.answers.answer import Answer


SCHEMA_VERSION = 1
"""The version of what commands print as JSON: a key that is removed, renamed, or of another type
raises it, and a new key does not. Each key is in the command's schema, docs/reference/schemas."""


def write_answer(answer: Answer, options: argparse.Namespace) -> int:
    """Write an answer in the format of the options, and return its exit status."""
    for note in answer.notes:
        say(f"note: {note}", options.lang)
    status = answer.status
    text = _in_form(answer, options)
    if text and not text.endswith("\n"):
        text += "\n"
    write_out(text)
    return int(status)


def _in_form(answer: Any, options: argparse.Namespace) -> str:
    choices = {name: getattr(options, name) for name in options.command.choices}
    if options.form == "json":
        from weighbridge.render.safe import json_text

        value = answer.to_dict(**choices)
        if isinstance(value, dict) and not answer.keys_are_data:
            value = {"schema_version": SCHEMA_VERSION, **value}
        return json_text(value)
    if options.form == "csv":
        csv: str = answer.csv(**choices)
        return csv
    if getattr(options, "evidence", False):
        choices["evidence"] = True
    document = answer.document(options.lang, **choices)
    if sys.stdout is not None and sys.stdout.isatty() and not is_data(options):
        from weighbridge.cli.screen import screen_of
        from weighbridge.render.terminal import as_text

        return as_text(document, screen_of(sys.stdout))
    from weighbridge.render.document import write

    return write(document, options.form)


_FOR_PEOPLE = ("text", "config")  # guess writes a config with JSON's escapes


def is_data(options: argparse.Namespace) -> bool:
    """Whether the answer is for a program: UTF-8, whatever the encoding of the terminal."""
    is_code = getattr(options, "code", "text") != "text"
    return options.command.is_data or is_code or options.form not in _FOR_PEOPLE


def write_out(text: str) -> None:
    """Write all of a text to stdout; a closed pipe is not an error."""
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        if sys.stdout is not None:
            # Discard the rest of the buffer, or Python would try to write it again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise WeighbridgeError(
                f"cannot be written: {error.strerror}",
                where="stdout",
                hint="send it where it can be written",
            ) from None


def say(message: str, lang: str = LANGUAGES[0]) -> None:
    """Write a message to stderr; if that is closed, the exit status is enough.

    A terminal gets lines that fit. Other targets get each note or error on one line, so that
    programs can find it.
    """
    if lang != LANGUAGES[0]:
        from weighbridge.render.messages import in_language

        message = in_language(message, lang)
    try:
        if sys.stderr is not None:  # otherwise print would use stdout
            print(_fitting(f"weighbridge: {lines(message)}"), file=sys.stderr)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _fitting(message: str) -> str:
    if not is_watched():
        return message
    from weighbridge.cli.screen import screen_of
    from weighbridge.render.table import wrap

    columns = screen_of(sys.stderr).columns
    return "\n".join(wrap(line, columns) for line in message.split("\n"))


def progress(message: str, lang: str) -> None:
    """Report progress on stderr, if it is a terminal."""
    if is_watched():
        say(message, lang)


def is_watched() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()
