"""The parser of command lines, with our own errors and our own width for help."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from functools import partial
from typing import Any, NoReturn

from weighbridge import __version__
from weighbridge.cli.commands import COMMANDS, load_command
from weighbridge.cli.output import write_out
from weighbridge.cli.screen import screen_of
from weighbridge.cli.wrong_turns import (
    LeftOverError,
    TooManyModelsError,
    TooManyWordsError,
    commands_near,
)
from weighbridge.data import LANGUAGES
from weighbridge.errors import SeveralModelsError, UnknownNameError, UsageError, shorten
from weighbridge.render.messages import in_language
from weighbridge.render.table import width, wrap

_DESCRIPTION = (
    "Weigh a Transformer before you load it. `weighbridge MODEL` means `weighbridge weigh MODEL`."
)


_HEADING = re.compile("^([\u4e00-\u9fff]+):$", re.MULTILINE)
_NUMBERS = {"int": "an integer", "float": "a number"}


class CommandParser(argparse.ArgumentParser):
    """A parser that raises our own errors and writes help for the screen in any language."""

    def __init__(self, *, lang: str, **options: Any) -> None:
        formatter = partial(_HelpFormatter, lang=lang)
        super().__init__(formatter_class=formatter, add_help=False, **options)
        for group in (self._positionals, self._optionals):
            group.title = in_language(str(group.title), lang)
        text = in_language("show this help message and exit", lang)
        self.add_argument("-h", "--help", action="help", help=text)

    def error(self, message: str) -> NoReturn:
        """Raise our own error, with a hint."""
        for kind, named in _NUMBERS.items():
            start, invalid, value = message.partition(f"invalid {kind} value: ")
            if invalid:
                message = f"{start}{value} is not {named}"
        raise UsageError(message, hint=f"see `{self.prog} --help`")

    def parse_args(self, words: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse the rest: an unknown option, or an extra word."""
        options, rest = self.parse_known_args(words, namespace)
        if not rest:
            return options
        hint = f"see `{self.prog} {words[0]} --help`"
        unknown = next((word for word in rest if word.startswith("-")), None)
        if unknown is not None:
            raise LeftOverError(f"there is no option {shorten(unknown, str)}", hint=hint)
        if _is_model_in_words(options, rest):
            options.model = " ".join([options.model, *rest])
            return options
        if (mixed := self._mixed(words)) is not None:
            return mixed
        words_left = shorten(" ".join(rest), str)
        what = f"`weighbridge {words[0]}` does not take `{words_left}`"
        if models := _models_in(options, rest):
            hint = f"compare models with `weighbridge compare {shorten(shlex.join(models), str)}`"
            raise TooManyModelsError(what, hint=hint)
        raise TooManyWordsError(what, hint=hint)

    def _mixed(self, words: list[str]) -> argparse.Namespace | None:
        """Parse words with options between them, as in ``run bert --each first second``.

        Returns None if there are too many words in any order.
        """
        (commands,) = self._subparsers._group_actions  # type: ignore[union-attr]
        command: CommandParser = commands.choices[words[0]]  # type: ignore[index]
        options, rest = command.parse_known_intermixed_args(words[1:])
        return None if rest else options

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Write the rest of the output, and exit."""
        write_out("")  # help and the version are still in the buffer
        super().exit(status, message)


class _HelpFormatter(argparse.HelpFormatter):
    def __init__(self, prog: str, lang: str) -> None:
        super().__init__(prog, width=screen_of(sys.stdout).columns)
        self._lang = lang

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        if prefix is None:
            prefix = in_language("usage: ", self._lang)
        super().add_usage(usage, actions, groups, prefix)

    def _format_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any) -> str:
        """Return the usage, laid out by the columns of its prefix; argparse counts letters."""
        room = " " * width(prefix)
        return super()._format_usage(usage, actions, groups, room).replace(room, prefix, 1)

    def format_help(self) -> str:
        """Return the help; a Chinese heading ends in a colon of its own width."""
        return _HEADING.sub(r"\1：", super().format_help())

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width, indent="").split("\n")

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return wrap(indent + text, width, indent)


def parser(wanted: str, lang: str = LANGUAGES[0]) -> argparse.ArgumentParser:
    """Return a parser for the wanted command, or for all commands if it is unknown."""
    description = in_language(_DESCRIPTION, lang)
    whole = CommandParser(prog="weighbridge", description=description, lang=lang)
    version = in_language("show program's version number and exit", lang)
    whole.add_argument(
        "--version", action="version", version=f"weighbridge {__version__}", help=version
    )
    commands = whole.add_subparsers(
        title=in_language("commands", lang),
        metavar=in_language("COMMAND", lang),
        required=True,
        prog="weighbridge",
    )
    names = [wanted]
    if wanted not in COMMANDS:
        names = list(COMMANDS)
    for name in names:
        listed, command = COMMANDS[name], load_command(name)
        description = in_language(command.description, lang) or _as_sentence(listed.help, lang)
        subparser = commands.add_parser(
            name, help=in_language(listed.help, lang), description=description, lang=lang
        )
        for option in command.every_option():
            option.add_to(subparser, lang)
        subparser.set_defaults(command=command, form="text", lang=lang)
    return whole


def _is_model_in_words(options: argparse.Namespace, rest: list[str]) -> bool:
    """Whether the words left over belong to the model's name, as in ``weighbridge qwen2.5 7b``.

    Raises:
        UnknownNameError: several models have this name; or none has it, and the first word is
            neither a family nor near a command.
    """
    if not getattr(options, "model", "") or hasattr(options, "checkpoint"):
        return False
    if _models_in(options, rest):
        return False
    from weighbridge.blueprint.schema import is_family
    from weighbridge.models.catalogue import look_up

    try:
        look_up(" ".join([options.model, *rest]))
    except SeveralModelsError:
        raise
    except UnknownNameError:
        if is_family(options.model) or commands_near(options.model):
            return False
        raise
    return True


def _models_in(options: argparse.Namespace, rest: list[str]) -> list[str]:
    """Return the models of a command line with too many words; none if a word is no model.

    A model by itself is a family, a file, or a name in the catalogue.
    """
    from weighbridge.blueprint.schema import is_family
    from weighbridge.models.catalogue import entry_of

    if hasattr(options, "checkpoint"):
        return []
    taken = [getattr(options, name, None) or "" for name in ("model", "other")]
    words = [taken[0], *filter(None, taken[1:]), *rest]
    are_models = (is_family(word) or os.path.exists(word) or entry_of(word) for word in words)
    return words if all(are_models) else []


def _as_sentence(help_text: str, lang: str) -> str:
    """Return a command's line in the list as a sentence."""
    text = in_language(help_text, lang)
    if lang != LANGUAGES[0]:
        return f"{text}。"
    return f"{text[0].upper()}{text[1:]}."
