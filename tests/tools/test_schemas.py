"""The published JSON Schemas say what commands print."""

import json
import tomllib

import pytest
import schemas

from weighbridge.cli.commands import COMMANDS

jsonschema = pytest.importorskip("jsonschema")

LISTED = tomllib.loads((schemas.ROOT / "tools" / "schemas.toml").read_text(encoding="utf-8"))
PUBLISHED = {path.stem: json.loads(path.read_text()) for path in schemas.SCHEMAS.glob("*.json")}
# They print the contract of a page, and the files of a site, which no other program reads.
WITHOUT = {"explore", "site"}
NO_JSON = {"explain", "attention", "derive", "completion"}
NEEDS = {
    "sweep": ("duckdb",),
    "scan": ("pyarrow",),
    "run": ("torch", "safetensors"),
    "trace": ("torch", "safetensors"),
    "finetune": ("torch", "safetensors", "sklearn"),
    "measure": ("torch", "transformers"),
}
# Outputs that the schemas were not learned from.
OTHERS = {
    "weigh": ("weigh qwen2-7b --by role", "weigh gemma2 --class Gemma2Model", "weigh clip"),
    "formula": ("formula bart", "formula qwen2_moe --by role", "formula gpt2 --of flops"),
    "tree": ("tree gpt2 --depth 3", "tree bart", "tree gpt2 --flow"),
    "cost": ("cost phi3 --seq 32 --train --by layer", "cost vit --train"),
    "cache": ("cache mixtral --context 100", "cache gemma2 --context 9000"),
    "serve": ("serve gpt2 --on 4xA100-80GB --context 100 --tp 4",),
    "train": ("train gpt2 --on 2xH100 --batch 2 --seq 64 --zero 1",),
    "compare": ("compare gpt2 bert t5",),
    "reconcile": ("reconcile gpt2 124439808", "reconcile bert 418MiB"),
    "families": ("families t5",),
    "measure": ("measure gpt2 --seq 6 --set n_embd=16 --set n_head=2 --set n_layer=1",),
    "run": ("run {made}/BertForMaskedLM 'a [MASK]' --each 'is [MASK]'",),
    "trace": ("trace {made}/BertForNextSentencePrediction 'a truck' 'is a' --head 1 --layer 0",),
}


def test_no_command_is_forgotten():
    others = {"blueprint", "operations", "flow", "weigh-pipeline", "verify-pipeline"}
    assert {*COMMANDS} == {*LISTED} - others | WITHOUT | NO_JSON
    assert {*PUBLISHED} == {*LISTED}


@pytest.mark.parametrize("name", LISTED)
def test_a_schema_is_valid_and_is_what_the_tool_writes(name):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    jsonschema.Draft202012Validator.check_schema(PUBLISHED[name])
    ((_, learned),) = schemas.schemas([name])
    assert learned == PUBLISHED[name]


@pytest.mark.parametrize("name", OTHERS)
def test_other_outputs_fit_the_schema(name):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    for line in OTHERS[name]:
        jsonschema.validate(schemas.printed(line), PUBLISHED[name])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": "1"}),
        ({"a": [{"b": 1}]}, {"a": [{}]}),
        ({"a": None}, {"a": 0.5}),
    ],
)
def test_a_key_that_is_lost_or_of_another_type_is_noticed(before, after):
    schema = schemas.learned([before])
    jsonschema.validate(before, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(after, schema)


def test_lists_that_hold_their_own_kind_are_defined_once():
    tree = {"modules": [{"name": "a", "modules": [{"name": "b"}]}]}
    schema = schemas.schema_of([tree], schemas.Shape(nested=frozenset({"modules"})))
    assert schema["properties"]["modules"]["items"] == {"$ref": "#/$defs/modules"}
    assert schema["$defs"]["modules"]["required"] == ["name"]
    jsonschema.validate(tree, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"modules": [{"name": "a", "modules": [{}]}]}, schema)
