"""A first word that is not a command: the commands near it, by spelling or meaning."""

from __future__ import annotations

import pytest

from weighbridge import data
from weighbridge.cli import main
from weighbridge.cli.commands import COMMANDS
from weighbridge.cli.wrong_turns import commands_near


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    return err.removeprefix("weighbridge: ").removesuffix("\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("memory", "bert"), "there is no command `memory`. Did you mean `cost` or `measure`?"),
        (("memory",), "there is no command or model `memory`. Did you mean `cost` or `measure`?"),
        (("FLOPs", "bert"), "there is no command `FLOPs`. Did you mean `cost` or `measure`?"),
        (("inspcet", "a.gguf"), "there is no command `inspcet`. Did you mean `inspect`?"),
        (("modles",), "there is no command or model `modles`. Did you mean `models`?"),
        (
            ("memory", "--batch", "8"),
            "there is no command `memory`. Did you mean `cost` or `measure`?",
        ),
        (("bert", "--jsn"), "there is no option --jsn. See `weighbridge weigh --help`."),
        (
            ("explain", "bert", "gpt2", "--jsn", "--lang", "en"),
            "there is no option --jsn. See `weighbridge explain --help`.",
        ),
        (("params", "bert", "--json"), "there is no command `params`. Did you mean `weigh`?"),
        (
            ("bert", "large", "one"),
            (
                "there is no command `bert`. `weighbridge --help` lists them; `weighbridge bert` "
                "weighs one model."
            ),
        ),
        (
            ("weigh", "bert", "large", "one"),
            "`weighbridge weigh` does not take `large one`. See `weighbridge weigh --help`.",
        ),
    ],
    ids=str,
)
def test_a_word_that_is_not_a_command_is_answered_with_similar_ones(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert error_of(capsys, *words) == message


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("qwen2.5", "7b"), "Qwen/Qwen2.5-7B"),
        (("deepseek", "v3", "--json"), "deepseek-ai/DeepSeek-V3"),
        (("tree", "llama", "2", "7b", "--depth", "0"), "meta-llama/Llama-2-7b-hf"),
    ],
    ids=str,
)
def test_the_words_of_a_name_need_no_quotes(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], name: str
) -> None:
    assert main(words) == 0
    assert name in capsys.readouterr().out


def test_words_that_begin_several_names_are_answered_with_these(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert error_of(capsys, "qwen", "3").startswith("'qwen 3': several models fit this name")
    assert error_of(capsys, "no", "such").startswith("'no such': no model, family or file")


def test_words_that_several_models_have_name_them(capsys: pytest.CaptureFixture[str]) -> None:
    message = error_of(capsys, "mistral", "7b")
    assert message.startswith("'mistral 7b': several models fit this name. Did you mean mistralai/")


@pytest.mark.parametrize("command", [(), ("weigh",), ("explain",)])
@pytest.mark.parametrize("models", [("bert", "gpt2"), ("bert-base-chinese", "roberta-base")])
def test_two_models_are_for_compare(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], models: tuple[str, str]
) -> None:
    message = error_of(capsys, *command, *models)
    assert message.endswith(f"Compare models with `weighbridge compare {' '.join(models)}`.")
    assert main(["compare", *models]) == 1


def test_models_that_a_command_has_taken_are_compared_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = error_of(capsys, "explore", "bert", "gpt2", "roberta")
    assert message.endswith("Compare models with `weighbridge compare bert gpt2 roberta`.")
    message = error_of(capsys, "verify", "bert", "gpt2", "roberta")
    assert message.endswith("See `weighbridge verify --help`.")


def test_a_word_near_no_command_is_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no model, family or file has this name" in error_of(capsys, "colourless")
    assert "no model, family or file has this name" in error_of(capsys, "weigh", "memory")


def test_a_model_that_exists_is_weighed_whatever_it_resembles() -> None:
    assert main(["bert"]) == 0


def test_every_word_means_commands_that_exist() -> None:
    for word, commands in data.read_toml("facts/commands.toml").items():
        assert word not in COMMANDS
        assert word == word.lower()
        assert commands
        assert set(commands) <= set(COMMANDS), word


def test_the_meaning_goes_before_the_spelling() -> None:
    assert commands_near("weight")[0] == "weigh"
    assert commands_near("") == []
    assert commands_near("x" * 10_000) == []


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "gpt2", "--lang", "en", "bert"),
        ("reconcile", "gpt2", "--lang", "en", "124439808"),
        ("what-if", "gpt2", "--set", "n_layer=+1"),
    ],
    ids=str,
)
def test_options_may_stand_between_words(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    status = main(words)
    mixed = capsys.readouterr().out
    assert mixed
    options = words.index(next(word for word in words if word.startswith("--")))
    in_order = [words[0], *words[options : options + 2], *words[1:options], *words[options + 2 :]]
    assert main(in_order) == status
    assert capsys.readouterr().out == mixed


def test_words_that_are_too_many_in_any_order_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = "`weighbridge cost` does not take `of it`. See `weighbridge cost --help`."
    assert error_of(capsys, "cost", "gpt2", "--seq", "8", "of", "it") == message
