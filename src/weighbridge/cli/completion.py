"""Prints completion scripts for shells, made from the table of commands and options."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import data
from weighbridge.cli.commands import COMMANDS as LISTED
from weighbridge.cli.commands import Command, load_command
from weighbridge.cli.options import Option
from weighbridge.errors import UsageError
from weighbridge.render.messages import in_language

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weighbridge.answers.answer import Answer
    from weighbridge.cli.options import Addable

KINDS = {
    "MODEL": ("model", "file"),
    "OTHER": ("model", "file"),
    "[MODEL] NUMBER": ("model",),
    "CHECKPOINT": ("file",),
    "ADAPTER": ("file",),
    "ARTICLE": ("file",),
    "DATA": ("file",),
    "FILE": ("file",),
    "FOLDER": ("file",),
    "PATH": ("file",),
    "FAMILY": ("family",),
}
"""The completion of an option's or operand's value, by its metavar; free text otherwise."""

_FREE_TEXT = ("text",)
_FLAGS = ("store_true", "store_const", "help", "version")  # actions that take no value
_HELP = Option("-h", "--help", action="help", help="show this help message and exit")
_VERSION = Option("--version", action="version", help="show program's version number and exit")

_DESCRIPTION = (
    "Print a script that completes commands, options, their values, files and model names. "
    'bash: put eval "$(weighbridge completion bash)" into ~/.bashrc. '
    'zsh: put eval "$(weighbridge completion zsh)" into ~/.zshrc, after compinit. '
    "fish: weighbridge completion fish > ~/.config/fish/completions/weighbridge.fish"
)


class Completed(NamedTuple):
    """An option or operand, for completion.

    ``kinds`` are the kinds of its value: ``values``, a listed value; the name of a ``model`` or a
    ``family``; a ``file``; or ``text``, which is not completed. A flag has none.
    """

    names: tuple[str, ...]
    help: str
    kinds: tuple[str, ...]
    values: tuple[str, ...] = ()


class CompletedCommand(NamedTuple):
    """A command, for completion."""

    name: str
    help: str
    options: tuple[Completed, ...]
    operands: tuple[Completed, ...]

    @property
    def operand_kinds(self) -> tuple[str, ...]:
        """The kinds of its operands, each once."""
        kinds = [kind for operand in self.operands for kind in operand.kinds]
        return tuple(kind for kind in dict.fromkeys(kinds) if kind != "text")

    @property
    def operand_values(self) -> tuple[str, ...]:
        """The words that its operands can be."""
        return tuple(value for operand in self.operands for value in operand.values)


def completed_commands(lang: str) -> Iterator[CompletedCommand]:
    """Yield every command of the table, with its help in a language."""
    for name, listed in LISTED.items():
        options, operands = [], []
        for addable in (*load_command(name).every_option(), _HELP):
            for option in addable.each():
                completed = _completed(option, lang)
                if option.is_operand:
                    operands.append(completed)
                elif completed.help != argparse.SUPPRESS:
                    options.append(completed)
        help_text = in_language(listed.help, lang)
        yield CompletedCommand(name, help_text, tuple(options), tuple(operands))


def _completed(option: Option, lang: str) -> Completed:
    settings = option.settings
    help_text = in_language(settings.get("help", ""), lang)
    if settings.get("action") in _FLAGS:
        return Completed(option.names, help_text, ())
    if "choices" in settings:
        return Completed(option.names, help_text, ("values",), tuple(settings["choices"]))
    return Completed(option.names, help_text, KINDS.get(metavar(option), _FREE_TEXT))


def metavar(option: Option) -> str:
    """Return the name of an option's value in the help, as argparse chooses it."""
    shown: str = option.settings.get("metavar", option.destination.upper())
    return shown


# Scripts


def script(shell: str, lang: str) -> str:
    """Return the script for a shell, with its help in a language.

    Raises:
        UsageError: there is no script for this shell.
    """
    if shell not in SHELLS:
        hint = f"use one of {', '.join(SHELLS)}"
        raise UsageError("no such shell", values={"shell": shell}, hint=hint)
    commands = list(completed_commands(lang))
    first = [Completed((command.name,), command.help, ()) for command in commands]
    first += [_completed(option, lang) for option in (_HELP, _VERSION)]
    syntax = SHELLS[shell]
    marks = {
        "COMMANDS": syntax.between_commands.join(LISTED),
        "WORDS": syntax.words(first),
        "CASES": "\n".join(map(syntax.case, commands)),
    }
    text = data.read_text(f"completion/{shell}")
    for mark, replacement in marks.items():
        text = text.replace(f"@{mark}@", replacement)
    return text


def quoted(text: str) -> str:
    r"""Quote a text for bash and zsh, in which single quotes turn off special characters.

    Example:
        >>> print(quoted("a model's name"))
        'a model'\''s name'
    """
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


def _bash_words(words: Iterable[Completed]) -> str:
    return " ".join(name for word in words for name in word.names)


def _bash_case(command: CompletedCommand) -> str:
    return _posix_case(command, quoted(_bash_words(command.options)), _bash_list)


def _bash_list(values: Iterable[str]) -> str:
    return quoted(" ".join(values))


def _zsh_words(words: Iterable[Completed]) -> str:
    return "\n".join(f"            {described}" for described in _zsh_described(words))


def _zsh_described(words: Iterable[Completed]) -> Iterator[str]:
    for word in words:
        for name in word.names:
            yield quoted(f"{name}:{word.help}")


def _zsh_case(command: CompletedCommand) -> str:
    return _posix_case(command, f"({' '.join(_zsh_described(command.options))})", _zsh_list)


def _zsh_list(values: Iterable[str]) -> str:
    return f"({' '.join(map(quoted, values))})"


def _posix_case(
    command: CompletedCommand, options: str, written: Callable[[Iterable[str]], str]
) -> str:
    """Write the cases for each command and for the option before the word, in bash or zsh."""
    lines = [
        f"        ({command.name})",
        f"            options={options}",
        f"            operands={written(command.operand_kinds)}",
    ]
    if command.operand_values:
        lines.append(f"            values={written(command.operand_values)}")
    lines.append("            case $previous in")
    for option in command.options:
        if option.kinds:
            case = f"kinds={written(option.kinds)}"
            if option.values:
                case += f" values={written(option.values)}"
            lines.append(f"                ({'|'.join(option.names)}) {case} ;;")
    return "\n".join([*lines, "            esac", "            ;;"])


def _fish_words(words: Iterable[Completed]) -> str:
    lines = []
    for word in words:
        for name in word.names:
            described = f"-a {_fish_quoted(name)} -d {_fish_quoted(word.help)}"
            lines.append(f"complete -c weighbridge -n __weighbridge_first {described}")
    return "\n".join(lines)


def _fish_case(command: CompletedCommand) -> str:
    line = f"complete -c weighbridge -n '__weighbridge_is {command.name}'"
    lines = []
    for option in command.options:
        names, value = " ".join(map(_fish_name, option.names)), ""
        if "file" in option.kinds:
            value = " -r"
        elif option.kinds:
            value = " -x"  # requires a value that is not a file
        value += _fish_replies(option.kinds, option.values)
        lines.append(f"{line} {names}{value} -d {_fish_quoted(option.help)}")
    if command.operand_kinds:
        lines.append(line + _fish_replies(command.operand_kinds, command.operand_values))
    return "\n".join(lines)


def _fish_name(name: str) -> str:
    if name.startswith("--"):
        return f"-l {name[2:]}"
    return f"-s {name[1:]}"


def _fish_replies(kinds: Iterable[str], values: Iterable[str]) -> str:
    """Write the completion of a word: files, listed words, or the output of a call."""
    written, replies = "", list(values)
    for kind in kinds:
        if kind == "file":
            written = " -F"
        elif kind in _NAMED:
            replies.append(f"(__weighbridge_names {kind})")
    if replies:
        written += f" -a {_fish_quoted(' '.join(replies))}"
    return written


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


class Syntax(NamedTuple):
    """How the script of a shell writes the names of commands, a choice of words, and a command."""

    between_commands: str
    words: Callable[[Iterable[Completed]], str]
    case: Callable[[CompletedCommand], str]


SHELLS = {
    "bash": Syntax("|", _bash_words, _bash_case),
    "zsh": Syntax("|", _zsh_words, _zsh_case),
    "fish": Syntax(" ", _fish_words, _fish_case),
}


# Names, requested by a script as the user types


def model_names(prefix: str) -> list[str]:
    """Return the names of released models and families with this beginning, in any case.

    An empty text gives only the names of models without their organisations.

    Example:
        >>> model_names("bert-base-c")
        ['bert-base-cased', 'bert-base-chinese']
    """
    from weighbridge.models.catalogue import full_names

    released = set(full_names().values())
    names = {full_name.rpartition("/")[2] for full_name in released}
    if prefix:
        names |= released | set(family_names(prefix))
    return sorted(name for name in names if name.lower().startswith(prefix.lower()))


def family_names(prefix: str) -> list[str]:
    """Return the families with this beginning."""
    from weighbridge.blueprint.schema import families

    return [family for family in families() if family.startswith(prefix)]


_NAMED = {"model": model_names, "family": family_names}


def _completion_options() -> Iterable[Addable]:
    return (
        Option("shell", nargs="?", choices=tuple(SHELLS), help="the shell to write a script for"),
        Option("--names", nargs=2, metavar=("KIND", "PREFIX"), help=argparse.SUPPRESS),
    )


def _completion(options: argparse.Namespace) -> Answer:
    from weighbridge.answers.answer import Message

    if options.names:
        kind, prefix = options.names
        return Message("\n".join(_NAMED[kind](prefix)))
    if not options.shell:
        hint = f"use one of {', '.join(SHELLS)}"
        raise UsageError("completion needs the name of a shell", hint=hint)
    return Message(script(options.shell, options.lang))


COMMANDS = {
    "completion": Command(_completion_options, _completion, description=_DESCRIPTION, is_data=True),
}
