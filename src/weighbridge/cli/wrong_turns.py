"""What to say where the first word is no command, and is not meant for a model either."""

from __future__ import annotations

from weighbridge import data
from weighbridge.cli.commands import COMMANDS
from weighbridge.errors import UnknownNameError, UsageError, WeighbridgeError, nearest, shorten
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_NEAR = 2  # commands with a name that resembles a word


class LeftOverError(UsageError):
    """An option or a word that the command does not take."""


class TooManyWordsError(LeftOverError):
    """More words than the command takes."""


def explained(error: WeighbridgeError, words: Sequence[str]) -> WeighbridgeError:
    """Return the error that says which commands are near the first word; else the same error.

    ``words`` are those that were typed, and the error is what came of weighing the first of them.

    Example:
        >>> print(explained(TooManyWordsError("takes no bert"), ["memory", "bert"]))
        there is no command `memory`. Did you mean `measure` or `weigh`?
    """
    if not words or words[0] in COMMANDS or words[0].startswith("-"):
        return error
    word = shorten(words[0], str)
    near = " or ".join(f"`{command}`" for command in commands_near(words[0]))
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
    """Return the commands that a word may stand for: by what it means, then by its spelling.

    Example:
        >>> commands_near("VRAM"), commands_near("wiegh"), commands_near("bert")
        (['measure', 'weigh'], ['weigh'], [])
    """
    meanings = data.read_toml("facts/commands.toml").get(word.lower(), [])
    return list(dict.fromkeys([*meanings, *nearest(COMMANDS, word, most=_MOST_NEAR)]))
