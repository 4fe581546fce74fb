"""Completion in each installed shell; its script comes from the table of commands."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from weighbridge.cli import completion, main
from weighbridge.cli.commands import COMMANDS, load_command
from weighbridge.cli.completion import completed_commands, metavar

if TYPE_CHECKING:
    from pathlib import Path

FREE_TEXT = {
    "TEXT [SECOND]",
    *[
        "CLASS",
        "COLUMN",
        "CONDITION",
        "DEVICES",
        "DTYPE",
        "FIELD",
        "FIELD=VALUE",
        "FIELD=VALUES",
        "FIRST-LAST",
        "HOW",
        "HxW",
        "LETTERS",
        "LIST",
        "MODULE:NAME",
        "N",
        "NAME",
        "NAMES",
        "NORM",
        "PART",
        "PATTERN=N",
        "PRICE",
        "RANGE",
        "RATE",
        "SECOND",
        "SECONDS",
        "SETTINGS",
        "SHARE",
        "SIZE",
        "SIZES",
        "TASK",
        "TEXT",
        "TYPE",
        "URL",
    ],
}
"""The names of values that are not completed."""

# Code that calls the script's function as the shell does when Tab is pressed after the last word,
# and prints a line for each reply. For zsh's own functions it prints their arguments.
BASH = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
compopt() {{ echo "compopt $*"; }}
_weighbridge {program} "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
compdef() {{ }}
compset() {{ PREFIX=${{PREFIX#*=}} }}
_describe() {{ print -l -- ${{(P)@[-1]}} }}
_files() {{ print -l -- ${{PREFIX}}*(N) }}
compadd() {{ print -l -- ${{(M)${{(P)@[-1]}}:#(#i)$PREFIX*}} }}
setopt extendedglob
source {script}
words=({words})
words[1]={program}
CURRENT=$#words
PREFIX=$words[-1]
_weighbridge
"""
FISH = """
set -x PATH {folder} $PATH
source {script}
complete -C {line}
"""


class Shell:
    """A shell with the script loaded, in a folder with two files."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        program = folder / "bin" / "weighbridge"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m weighbridge "$@"\n')
        program.chmod(0o755)
        self.program, self.script = program, folder / "bin" / "script"
        self.script.write_text(completion.script(name, "en"), encoding="utf-8")
        for file in ("config.json", "weights.safetensors"):
            (folder / file).touch()

    def replies(self, *words: str) -> list[str]:
        """Return the completions of the last word, without their descriptions."""
        source = {"bash": BASH, "zsh": ZSH, "fish": FISH}[self.name].format(
            script=shlex.quote(str(self.script)),
            program=shlex.quote(str(self.program)),
            folder=shlex.quote(str(self.program.parent)),
            words=" ".join(map(shlex.quote, self.cut(words))),
            line=shlex.quote(" ".join(words)),
        )
        options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[self.name]
        done = subprocess.run(
            [self.name, *options, "-c", source],
            cwd=self.folder,
            env={**os.environ, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        separator = {"bash": "\n", "zsh": ":", "fish": "\t"}[self.name]
        lines = [line.partition(separator)[0] for line in done.stdout.splitlines() if line]
        _, equals, value = words[-1].partition("=")
        typed = value.lower() if equals else words[-1].lower()
        return [line for line in lines if line.removeprefix("--by=").lower().startswith(typed)]

    def cut(self, words: tuple[str, ...]) -> list[str]:
        """Return the words as the shell gives them to a function: bash cuts at ``=``."""
        cut = list(words)
        if self.name == "bash" and "=" in words[-1]:
            option, _, value = cut.pop().partition("=")
            cut += [option, "=", value]
        return cut


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    if not shutil.which(request.param) or os.name == "nt":
        pytest.skip(f"{request.param} is not installed")
    return Shell(request.param, tmp_path)


def test_the_script_is_sound(shell: Shell) -> None:
    done = subprocess.run(
        [shell.name, "-n", str(shell.script)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_every_command_is_completed(shell: Shell) -> None:
    replies = shell.replies("weighbridge", "")
    assert set(COMMANDS) <= set(replies)
    assert "bert-base-chinese" in replies
    assert shell.replies("weighbridge", "expla") == ["explain"]


def test_every_option_of_every_command_is_completed(shell: Shell) -> None:
    for command in completed_commands("en"):
        names = {name for option in command.options for name in option.names}
        assert {"--lang", "--help"} < names
        replies = set(shell.replies("weighbridge", command.name, "--"))
        assert replies == {name for name in names if name.startswith("--")}, command.name


def test_a_model_without_a_command_is_weighed(shell: Shell) -> None:
    assert "--by" in shell.replies("weighbridge", "bert-base-chinese", "--b")


@pytest.mark.parametrize("typed", ["bert-base-chi", "BERT-base-chi"])
def test_models_are_completed_by_name(shell: Shell, typed: str) -> None:
    for words in (("weighbridge",), ("weighbridge", "tree"), ("weighbridge", "reconcile")):
        assert shell.replies(*words, typed) == ["bert-base-chinese"]
    assert shell.replies("weighbridge", "weigh", "google-bert/bert-base-chi") == [
        "google-bert/bert-base-chinese"
    ]


def test_choices_are_completed(shell: Shell) -> None:
    assert shell.replies("weighbridge", "weigh", "bert", "--by", "ro") == ["role"]
    assert shell.replies("weighbridge", "completion", "fi") == ["fish"]


def test_a_choice_is_completed_behind_an_equals_sign(shell: Shell) -> None:
    replies = shell.replies("weighbridge", "weigh", "bert", "--by=ro")
    assert [reply.removeprefix("--by=") for reply in replies] == ["role"]


def test_families_are_completed(shell: Shell) -> None:
    assert shell.replies("weighbridge", "derive", "llama4_t") == ["llama4_text"]


def test_files_are_completed_where_a_file_may_stand(shell: Shell) -> None:
    for words in (("weigh", "--blueprint"), ("inspect",), ("verify", "bert"), ("weigh",)):
        replies = shell.replies("weighbridge", *words, "conf")
        if shell.name == "bash" and replies == []:  # readline completes files if there is no reply
            assert "compopt +o default" not in shell.replies("weighbridge", *words, "compopt")
        else:
            assert replies == ["config.json"]
    for words in (("weigh", "--class"), ("weigh", "--by"), ("weigh", "--set")):
        assert shell.replies("weighbridge", *words, "conf") == []


def test_every_word_for_a_value_is_known_to_completion() -> None:
    for name in COMMANDS:
        for addable in load_command(name).every_option():
            for option in addable.each():
                settings = option.settings
                takes_a_word = "choices" not in settings and "action" not in settings
                if takes_a_word and option.names != ("--names",):
                    known = metavar(option) in completion.KINDS
                    assert known != (metavar(option) in FREE_TEXT), metavar(option)


@pytest.mark.parametrize("name", completion.SHELLS)
def test_the_script_of_each_shell_names_all_commands_and_no_mark(name: str) -> None:
    script = completion.script(name, "zh")
    assert "@" not in script.replace('"$@"', "").replace("[@]", "")
    for command in COMMANDS:
        assert command in script


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash", "--lang", "en"]) == 0
    assert capsys.readouterr().out == completion.script("bash", "en")
    assert main(["completion", "--names", "family", "albe"]) == 0
    assert capsys.readouterr().out == "albert\n"
    for words in (["completion"], ["completion", "tcsh"]):
        assert main(words) == 2
        assert "bash" in capsys.readouterr().err


def test_help_says_how_to_install_it_and_hides_what_scripts_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "--help"])
    text = capsys.readouterr().out
    for place in ("~/.bashrc", "~/.zshrc", "~/.config/fish/completions"):
        assert place in text
    assert "--names" not in text


def test_names_without_a_beginning_are_short() -> None:
    names = completion.model_names("")
    assert "bert-base-chinese" in names
    assert not any("/" in name for name in names)
    assert "llama" in completion.model_names("lla")


def test_quotes_in_help_stay_in_their_word() -> None:
    assert shlex.split(completion.quoted('a model\'s `name` $HOME "x"')) == [
        'a model\'s `name` $HOME "x"'
    ]
