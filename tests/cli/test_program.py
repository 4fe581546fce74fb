"""Simple command lines are read without argparse, with the same result."""

from __future__ import annotations

import pytest

from weighbridge.cli import program
from weighbridge.cli.commands import COMMANDS
from weighbridge.cli.language import language
from weighbridge.cli.parser import parser

WORDS = {
    1: ["model"],
    2: ["model", "checkpoint"],
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("operands", WORDS.values(), ids=str)
def test_plain_words_are_read_as_argparse_reads_them(name: str, operands: list[str]) -> None:
    plain = program._plain([name, *operands], "en")
    if plain is None:
        return
    parsed = parser(name).parse_args([name, *operands])
    assert vars(plain).keys() == vars(parsed).keys()
    for option, value in vars(parsed).items():
        if option != "command":
            assert getattr(plain, option) == value, option
    assert plain.command.answer is parsed.command.answer


def test_the_commonest_commands_need_no_parser() -> None:
    for name in ("weigh", "explain", "formula", "tree", "inspect", "guess"):
        assert program._plain([name, "bert"], "en") is not None


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["weigh"],
        ["weigh", "-"],
        ["weigh", "bert", "gpt2"],
        ["weigh", "bert", "--json"],
        ["weigh", "--help"],
        ["conventions"],
        ["derive", "bert"],
        ["finetune", "texts.csv"],
        ["bert"],
    ],
    ids=" ".join,
)
def test_all_other_words_are_left_to_argparse(words: list[str]) -> None:
    plain = program._plain(words, "en")
    assert plain is None or words == ["conventions"]


def test_plain_words_do_not_import_argparse() -> None:
    import subprocess
    import sys

    script = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "from weighbridge.cli import main\n"
        "main(['weigh', 'bert-base-chinese'])\n"
        "loaded = set(sys.modules) - before\n"
        "print(*sorted(loaded & {'argparse', 'gettext', 'dataclasses', 'json'}), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert "102,267,648" in done.stdout
    assert done.stderr.strip() == ""


ENVIRONMENTS = [
    ({}, "en"),
    ({"LANG": "zh_CN.UTF-8"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
    ({"LANG": "de_DE.UTF-8", "LC_ALL": "zh_TW"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "WEIGHBRIDGE_LANG": "en"}, "en"),
    ({"LANG": "C", "WEIGHBRIDGE_LANG": "zh"}, "zh"),
    ({"WEIGHBRIDGE_LANG": "tlh"}, "en"),
]


@pytest.mark.parametrize(("environment", "spoken"), ENVIRONMENTS, ids=str)
def test_the_environment_chooses_the_language(environment: dict[str, str], spoken: str) -> None:
    assert language(["bert"], environment) == spoken
    for other in ("en", "zh"):
        assert language(["bert", "--lang", other], environment) == other
        assert language([f"--lang={other}", "bert"], environment) == other
    assert language(["bert", "--lang"], environment) == spoken
    assert language(["bert", "--lang", "tlh"], environment) == spoken


def test_every_command_speaks_the_language_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_LANG", "zh")
    assert program.main(["bert-base-chinese"]) == 0
    assert "自注意力" in capsys.readouterr().out
    for name in COMMANDS:
        with pytest.raises(SystemExit):
            program.main([name, "--help"])
        assert "用法：" in capsys.readouterr().out, name
