"""The published JSON Schemas say what commands print."""

import json
import tomllib

import pytest
import schemas

from weighbridge.cli.commands import COMMANDS

jsonschema = pytest.importorskip("jsonschema")

LISTED = tomllib.loads((schemas.ROOT / "tools" / "schemas.toml").read_text(encoding="utf-8"))
PUBLISHED = {path.stem: json.loads(path.read_text()) for path in schemas.SCHEMAS.glob("*.json")}
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
    "explore": (
        "explore Llama-3.1-8B",
        "explore deepseek-ai/DeepSeek-V3",
        "explore t5 --class T5ForConditionalGeneration",
        "explore bert --class BertForSequenceClassification --set num_labels=14",
        "explore tests/data/real/EleutherAI__pythia-14m.json --set rotary_pct=0.5",
        "explore bert-base-uncased bert-large-uncased",
    ),
    "measure": ("measure gpt2 --seq 6 --set n_embd=16 --set n_head=2 --set n_layer=1",),
    "run": ("run {made}/BertForMaskedLM 'a [MASK]' --each 'is [MASK]'",),
    "trace": ("trace {made}/BertForNextSentencePrediction 'a truck' 'is a' --head 1 --layer 0",),
}


def test_no_command_is_forgotten():
    others = {"blueprint", "operations", "flow", "weigh-pipeline", "verify-pipeline"}
    assert {*COMMANDS} == {*LISTED} - others | NO_JSON
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


def test_what_holds_its_own_kind_is_defined_once():
    tree = {"modules": [{"name": "a", "modules": [{"name": "b"}]}]}
    schema = schemas.schema_of([tree], schemas.Shape(defined={"modules": ["modules[]"]}))
    assert schema["properties"]["modules"]["items"] == {"$ref": "#/$defs/modules"}
    assert schema["$defs"]["modules"]["required"] == ["name"]
    jsonschema.validate(tree, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"modules": [{"name": "a", "modules": [{}]}]}, schema)


EXPRESSIONS = schemas.Shape(
    records={"tree": ["operator"]}, defined={"tree": ["tree[]", "held{}"]}, maps=["held"]
)


@pytest.mark.parametrize("wrong", [[1, "a"], ["+", ["*", [2, "b"]]], [], {"a": 1}, ["+", {}]])
def test_an_expression_holds_expressions_after_its_operator(wrong):
    schema = schemas.schema_of([{"held": {"a": ["+", ["*", 2, "b"], None]}}], EXPRESSIONS)
    jsonschema.validate({"held": {"b": ["-", 1, ["*", "a", ["-", 2]]], "c": None}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"held": {"b": wrong}}, schema)


def test_a_record_has_its_items_in_order():
    shape = schemas.Shape(records={"sizes[]": ["least", "most"], "run.sizes[]": ["name"]})
    value = {"sizes": [[1, 2], [1, 2, None]], "run": {"sizes": [["a", 1, 2]]}}
    schema = schemas.schema_of([value], shape)
    items = schema["properties"]["sizes"]["items"]
    assert [item["title"] for item in items["prefixItems"]] == ["least", "most"]
    assert (items["minItems"], items["items"]) == (2, {"type": "null"})
    jsonschema.validate(value, schema)
    for wrong in ([[1]], [["1", 2]], [[1, 2, 3]]):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**value, "sizes": wrong}, schema)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("fields", "hidden_size"), {"size": 1}),
        (("sizes", "hidden_size"), [1]),
        (("trees", 0), ["+", [1]]),
        (("flow", "programs", 0, 0), ["value", "o"]),
        (("run", "paths", 0), ["path"]),
        (("checks", 0), [{}, 1, 1]),
        (("held", "parameters"), 102267648),
    ],
)
def test_a_contract_with_a_fault_does_not_fit_its_schema(place, wrong):
    printed = schemas.printed("explore bert-base-chinese")
    *parents, last = place
    inner = printed["contracts"][0]
    for key in parents:
        inner = inner[key]
    jsonschema.validate(printed, PUBLISHED["explore"])
    inner[last] = wrong
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(printed, PUBLISHED["explore"])
