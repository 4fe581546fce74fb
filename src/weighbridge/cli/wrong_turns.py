"""Errors for a first word that is neither a command nor a model."""

from __future__ import annotations

from weighbridge import data
from weighbridge.cli.commands import COMMANDS
from weighbridge.errors import (
    UnknownNameError,
    UsageError,
    WeighbridgeError,
    either,
    nearest,
    shorten,
)
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_NEAR = 2  # number of commands with a name similar to a word


class LeftOverError(UsageError):
    """The command does not accept an option or a word."""


class TooManyWordsError(LeftOverError):
    """More words than the command accepts."""


class TooManyModelsError(LeftOverError):
    """More models than the command accepts."""


def explained(error: WeighbridgeError, words: Sequence[str]) -> WeighbridgeError:
    """Return an error that names commands similar to the first word, or else the same error.

    ``words`` is the command line, and the error is the result of weighing its first word.

    Example:
        >>> print(explained(TooManyWordsError("takes no bert"), ["memory", "bert"]))
        there is no command `memory`. Did you mean `cost` or `measure`?
    """
    if not words or words[0] in COMMANDS or words[0].startswith("-"):
        return error
    if isinstance(error, TooManyModelsError):
        return error
    word = shorten(words[0], str)
    commands = [f"`{command}`" for command in commands_near(words[0])]
    near = either(commands) if commands else ""
    hint = f"did you mean {near}?"
    if isinstance(error, TooManyWordsError) and not near:
        hint = f"`weighbridge --help` lists them; `weighbridge {word}` weighs one model"
    elif not near:
        return error
    if isinstance(error, LeftOverError):
        return UsageError(f"there is no command `{word}`", hint=hint)
    if isinstance(error, UnknownNameError):
        return UsageError(f"there is no command or model `{word}`", hint=hint)
    return error


def commands_near(word: str) -> list[str]:
    """Return the commands that a word may mean: first by meaning, then by spelling.

    Example:
        >>> commands_near("VRAM"), commands_near("wiegh"), commands_near("bert")
        (['serve', 'train', 'cost', 'measure'], ['weigh'], [])
    """
    meanings = data.read_toml("facts/commands.toml").get(word.lower(), [])
    return list(dict.fromkeys([*meanings, *nearest(COMMANDS, word, most=_MOST_NEAR)]))
