"""Comparisons: of models, configs and checkpoints, and of a model with itself after a change."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest
from checkpoints import write
from chinese import english_in

from weighbridge.answers.compare import compare, what_if
from weighbridge.answers.weigh import weigh
from weighbridge.cli.program import main
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from pathlib import Path

SMALL = {"model_type": "bert", "hidden_size": 24, "num_attention_heads": 2, "vocab_size": 90}
SMALL |= {"intermediate_size": 48, "num_hidden_layers": 3, "max_position_embeddings": 32}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint with the tensors of a small BERT."""
    rows = {row.name: ("F32", row.shape) for row in weigh(SMALL).stored_rows}
    return write(tmp_path / "model.safetensors", rows)


def test_a_model_equals_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "bert-base-uncased", "bert-base-uncased"]) == 0
    assert "No number differs." in capsys.readouterr().out


def test_a_difference_is_exit_status_1() -> None:
    assert main(["compare", "bert-base-uncased", "bert-base-chinese", "--json"]) == 1


def test_a_checkpoint_is_compared_by_component(checkpoint: Path) -> None:
    same = compare(SMALL, str(checkpoint))
    assert same.status == 0
    assert same.shares == [None]
    assert same.sides[1].figures["bytes"] == weigh(SMALL).bytes
    assert same.sides[1].figures["forward_flops"] is None
    assert same.sides[1].missing["active"] == "a checkpoint has no config"
    larger = compare({**SMALL, "num_hidden_layers": 4}, checkpoint)
    assert larger.status == 1
    assert larger.difference < 0
    assert "a checkpoint has no config" in larger.text()


def test_two_checkpoints(checkpoint: Path) -> None:
    assert compare(checkpoint, checkpoint).status == 0


def test_a_bridge_leads_from_family_to_family() -> None:
    found = compare("Qwen/Qwen2.5-7B", "mistralai/Mistral-7B-v0.1")
    (bridge,) = found.bridges
    assert bridge is not None
    assert bridge.step_by_component == {"attention": -28 * (3584 + 2 * 512)}  # biases of q, k, v
    assert bridge.step + bridge.shares.difference == found.difference == -373_884_416


def test_families_whose_sizes_do_not_correspond_have_components_only() -> None:
    found = compare("bert", "t5")
    assert (found.shares, found.bridges) == ([None], [None])
    assert "component only" in found.text()


def test_three_models_are_each_compared_with_the_first() -> None:
    names = ("gpt2", "openai-community/gpt2-medium", "openai-community/gpt2-xl")
    found = compare(*names, class_name="GPT2LMHeadModel")
    for other, shares in zip(found.sides[1:], found.shares, strict=True):
        assert shares is not None
        assert shares.difference == other.parameters - found.sides[0].parameters
    assert [len(row) for row in found.data_table("component").rows] == [4] * len(found.components)


def test_active_parameters_are_those_of_experts() -> None:
    found = compare("mistralai/Mixtral-8x7B-v0.1", "mistralai/Mistral-7B-v0.1")
    active = [side.figures["active"] for side in found.sides]
    assert active == [weigh("mistralai/Mixtral-8x7B-v0.1").active, found.sides[1].parameters]
    assert "active per token" in found.text()
    assert "active per token" not in compare("bert", "bert").text()


def test_amounts_are_added_to_fields() -> None:
    found = what_if("bert-base-uncased", {"num_hidden_layers": -2, "vocab_size": "+1000"})
    changed = weigh(
        "bert-base-uncased", fields={"num_hidden_layers": 10, "vocab_size": 31522}
    ).parameters
    assert found.sides[1].parameters == changed
    assert found.status == 0
    assert sum(found.differences.values()) == changed - 109_482_240


def test_an_alias_and_a_value_are_changed_too() -> None:
    found = what_if("gpt2", {"num_hidden_layers": "-3", "tie_word_embeddings": False})
    assert found.sides[1].weighing is not None
    assert found.sides[1].weighing.model.fields["n_layer"] == 9


def test_csv_has_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "bert-base-uncased", "bert-large-uncased", "--csv", "--by"]
    for by in ("cell", "field"):
        assert main([*words, by]) == 1
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert sum(int(row["share"]) for row in rows) == 225_659_648
    assert main([*words, "component"]) == 1
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert sum(int(row["difference"]) for row in rows) == 225_659_648


def test_json_has_the_exact_fractions(capsys: pytest.CaptureFixture[str]) -> None:
    main(["compare", "Qwen/Qwen2.5-7B", "mistralai/Mistral-7B-v0.1", "--json"])
    (compared,) = json.loads(capsys.readouterr().out)["comparisons"]
    exact = {}
    for field in compared["bridge"]["shares"]["fields"]:
        exact |= dict.fromkeys(field["fields"], field["exact"])
    assert exact["hidden_size"] == "3001773568/3"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "bert"], "two models are compared, or more"),
        (["compare", "bert", "no-such-model"], "no-such-model"),
        (["compare", "bert", "no.safetensors"], "no.safetensors"),
        (["compare", "bert", "bert", "--seq", "0"], "--seq must be a positive integer"),
        (["what-if", "bert"], "no field is changed"),
        (["what-if", "bert", "--set", "hiden_size=-2"], "did you mean hidden_size?"),
        (["what-if", "bert", "--set", "hidden_act=+2"], "hidden_act"),
        (["what-if", "bert", "--set", "is_decoder=+2"], "only be added to an integer"),
        (["what-if", "bert", "--set", "hidden_size=+2"], "hidden_size % num_attention_heads"),
        (["what-if", "bert", "--set", "num_hidden_layers=-20"], "num_hidden_layers"),
    ],
)
def test_a_question_without_an_answer(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message.lower() in capsys.readouterr().err.lower()


@pytest.mark.parametrize(
    "models",
    [
        ("bert-base-uncased", "bert-large-uncased"),
        ("Qwen/Qwen2.5-7B", "mistralai/Mistral-7B-v0.1"),
        ("bert", "t5", "gpt2"),
    ],
)
def test_chinese(models: tuple[str, ...]) -> None:
    assert english_in(compare(*models).text("zh")) == []


def test_every_format_is_written() -> None:
    found = compare("bert-base-uncased", "bert-large-uncased")
    assert "| num" in found.markdown() or "num\\_hidden" in found.markdown()
    assert "<table" in found.page()
    assert "tabular" in found.latex() or "longtable" in found.latex()


def test_too_many_models() -> None:
    with pytest.raises(WeighbridgeError, match="too many models"):
        compare(*["bert"] * 27)
