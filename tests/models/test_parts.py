"""Models made of models: a sub-config with the model type of another family."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from weighbridge import data
from weighbridge.answers.weigh import weigh
from weighbridge.blueprint import composition, law
from weighbridge.blueprint.schema import Blueprint, families
from weighbridge.errors import ConfigError, ModelError
from weighbridge.ledger.ledger import bind
from weighbridge.models.find import Model, find

TABLE = Path(__file__).parent.parent / "data" / "composed.tsv"


def rows() -> list[tuple[dict[str, Any], str, int]]:
    lines = TABLE.read_text().splitlines()[1:]
    split = [line.split("\t") for line in lines]
    return [(json.loads(config), name, int(count)) for config, name, count in split]


@cache
def listed(family: str) -> bool:
    """Whether the blueprint of a family lists its parts."""
    if family not in families():
        return False
    raw = data.read_toml(f"blueprints/{family}.toml")
    return any("parts" in section for section in (raw, *raw.get("classes", {}).values()))


def llava(**parts: str) -> Blueprint:
    """Return the blueprint of llava with its parts, whether or not its file lists them."""
    raw = dict(data.read_toml("blueprints/llava.toml"))
    raw["parts"] = {"vision_tower": "vision_config", "language_model": "text_config", **parts}
    return Blueprint(raw)


LLAVA = llava()
OTHER_LINE = "modeling_llama.py: LlamaMLP.__init__: `if config.mlp_bias:`"


def found(text_config: dict[str, Any], blueprint: Blueprint = LLAVA, **fields: Any) -> Model:
    config = {"model_type": "llava", "text_config": text_config, **fields}
    return find(config, blueprint=lambda *_: blueprint)


@pytest.mark.parametrize(("config", "class_name", "count"), rows())
def test_the_table_of_composed_models(config: dict[str, Any], class_name: str, count: int) -> None:
    family = config["model_type"]
    if family != "llava" and not listed(family):
        pytest.skip(f"the blueprint of {family} is older than the table [parts]")
    model = find(config, blueprint=lambda *_: LLAVA) if family == "llava" else find(config)
    assert bind(model.blueprint, class_name, model.fields).parameters == count


INNER = ["mistral", "qwen2", "gpt2", "mixtral", "gemma2", "deepseek_v3", "bert", "t5", "jamba"]


@pytest.mark.parametrize("family", INNER)
def test_a_composed_blueprint_keeps_the_law(family: str) -> None:
    raw = dict(found({"model_type": family}).blueprint.raw)
    assert raw.pop("composed") == {"text_config": family}
    law.check(raw)


def test_the_part_has_the_tensors_of_the_other_family() -> None:
    model = found({"model_type": "gpt2", "n_embd": 96, "n_head": 4, "n_layer": 2})
    ledger = bind(model.blueprint, "LlavaModel", model.fields)
    alone = find({"model_type": "gpt2", "n_embd": 96, "n_head": 4, "n_layer": 2})
    expected = bind(alone.blueprint, "GPT2Model", alone.fields)
    part = [row for row in ledger.rows if row.name.startswith("language_model.")]
    assert [row.name.removeprefix("language_model.") for row in part] == [
        row.name for row in expected.rows
    ]
    assert [row.shape for row in part] == [row.shape for row in expected.rows]
    assert [row.role for row in part] == [row.role for row in expected.rows]
    projector = {row.name: row.shape for row in ledger.rows}
    assert projector["multi_modal_projector.linear_2.weight"] == (96, 96)


def test_files_hold_the_part_as_its_own_family_stores_it() -> None:
    model = found({"model_type": "mixtral", "num_hidden_layers": 1})
    ledger = bind(model.blueprint, "LlavaForConditionalGeneration", model.fields)
    names = {row.name for row in ledger.stored_rows}
    assert "language_model.model.layers.0.block_sparse_moe.experts.0.w1.weight" in names
    assert ledger.stored.parameters == ledger.parameters


def test_an_attribute_map_gives_the_field_another_name() -> None:
    fields = found({"model_type": "gpt2", "hidden_size": 96, "n_head": 4}).fields
    assert fields["text_config.n_embd"] == 96


def test_a_part_inside_a_part() -> None:
    outer = llava()
    inner = {"model_type": "llava", "text_config": {"model_type": "qwen2"}}
    with pytest.raises(ModelError, match="llava with llava as its text_config"):
        found(inner, outer)


def test_ties_follow_the_fields_of_the_other_family() -> None:
    tied = found({"model_type": "qwen2", "tie_word_embeddings": True})
    name = "LlavaForConditionalGeneration"
    rows_by_name = {row.name: row for row in bind(tied.blueprint, name, tied.fields).rows}
    assert rows_by_name["lm_head.weight"].tied_to == "model.language_model.embed_tokens.weight"


def test_rules_of_the_other_family_hold_for_the_part() -> None:
    needed = r"text_config\.hidden_size % text_config\.num_attention_heads == 0"
    with pytest.raises(Exception, match=needed):
        found({"model_type": "bert", "hidden_size": 770})


@pytest.mark.parametrize(
    ("text_config", "message"),
    [
        ({"model_type": "nope"}, "there is no blueprint for the model_type nope of its"),
        ({"model_type": "resnet"}, "it uses text_config.hidden_size"),
    ],
)
def test_what_does_not_fit_is_refused(text_config: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError) as error:
        found(text_config)
    assert message in str(error.value)


def test_without_parts_another_model_type_is_refused() -> None:
    raw = {key: value for key, value in LLAVA.raw.items() if key != "parts"}
    with pytest.raises(ConfigError, match="covers only llama as its text_config"):
        found({"model_type": "mistral"}, Blueprint(raw))


def test_a_note_names_the_other_family() -> None:
    config = {"model_type": "llava", "text_config": {"model_type": "mistral"}}
    weighing = weigh(config, blueprint=lambda *_: LLAVA)
    assert any("text_config is weighed by the blueprint of mistral" in n for n in weighing.notes)


def test_older_model_types_of_a_part_are_read() -> None:
    raw = {**LLAVA.raw, "spelled": {"text_config.model_type": {"old_llama": "llama"}}}
    law.check(raw)
    blueprint = Blueprint(raw)
    assert found({"model_type": "old_llama"}, blueprint).blueprint is blueprint


EXPECTED = {  # in what each command prints
    "formula": "text_config.n_embd",
    "tree": "(language_model): GPT2Model",
    "explain": "429,325,056",
    "weigh": "429,325,056",
}


@pytest.mark.parametrize("command", EXPECTED)
def test_every_command_answers_for_a_composed_model(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if not listed("llava"):
        pytest.skip("the blueprint of llava is older than the table [parts]")
    from weighbridge.cli import main

    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llava", "text_config": {"model_type": "gpt2"}}))
    assert main([command, str(path)]) in (None, 0)
    assert EXPECTED[command] in capsys.readouterr().out


def test_guards_of_the_other_family_hold_for_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = {**data.read_toml("blueprints/qwen2.toml"), "guards": {"vocab_size != 7": "if seven:"}}
    monkeypatch.setattr(composition, "load", lambda *_: Blueprint(raw))
    guarded = Blueprint({**LLAVA.raw, "guards": {"text_config.vocab_size != 9": OTHER_LINE}})
    composed = found({"model_type": "qwen2"}, guarded).blueprint
    assert composed.guards == {"text_config.vocab_size != 7": "if seven:"}
    with pytest.raises(ConfigError, match="if seven"):
        found({"model_type": "qwen2", "vocab_size": 7}, guarded)
