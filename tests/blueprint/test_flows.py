"""Files of flows: an error for each rule, what they say of a config, and their modules."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from weighbridge import data
from weighbridge.blueprint import flows
from weighbridge.blueprint import schema as blueprint
from weighbridge.blueprint.paths import is_under
from weighbridge.errors import BlueprintError, ModelError

RAW = data.read_toml("flows/deepseek_v3.toml")


def changed(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(RAW), **changes}


def with_steps(*steps: str) -> dict[str, Any]:
    return changed(flow={"": list(steps)}, variant=[])


def with_variant(**changes: Any) -> dict[str, Any]:
    return changed(variant=[{**RAW["variant"][0], **changes}])


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (changed(order=1), "keys: order is unknown"),
        ({key: value for key, value in RAW.items() if key != "proof"}, "keys: proof is missing"),
        (changed(proof={"by": "hand"}), "keys: proof must have"),
        (with_variant(unless="x"), "keys: a variant must have of, steps, when"),
        (changed(format=2), "format: this version reads format 1, not 2"),
        (changed(family=1), "types: family must be text"),
        (changed(bare=[]), "types: bare must be a table"),
        (changed(flow={"a": "b"}), "types: flow.a: there are no steps of b"),
        (changed(flow={"a": [1]}), "types: flow.a must be a list of texts"),
        (changed(functions={"f": 1}), "types: functions.f must be a list of texts"),
        (with_steps("v0 is x"), "lines: flow.: 'v0 is x' is no step"),
        (with_steps("v0 = f(a b)"), "lines: flow.: 'a b' is no argument"),
        (with_steps("  v0 = f(a)"), "lines: flow.: '  v0 = f(a)' is indented wrongly"),
        (with_steps("for {i}:"), "lines: flow.: 'for {i}:' has no steps"),
        (with_steps("return x", "v0 = f(x)"), "lines: flow.: a line after what is returned"),
        (with_steps("v0 = f(v1)"), "values: flow.: v1 is used before it is given"),
        (
            with_steps("for {i}:", "  v0 = f(x|v1)"),
            "values: flow.: x|v1 is given by no step of the loop",
        ),
        (with_variant(when="i >"), "conditions: variant.layers.{i}.self_attn: "),
        (with_variant(when="j > 0"), "conditions: variant.layers.{i}.self_attn: {j} is no index"),
        (with_steps("v0 = f(x) if k == 0"), "conditions: flow.: {k} is no index of it"),
        (changed(unused={"shared": "i == 0"}), "conditions: unused.shared: {i} is no index of it"),
    ],
)
def test_a_broken_rule_is_named(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        flows.check_flow(raw)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("family", flows.flow_families())
def test_every_flow_follows_the_law_and_was_proved(family: str) -> None:
    raw = data.read_toml(f"flows/{family}.toml")
    flows.check_flow(raw, family)
    known = blueprint.load(family)
    assert raw["family"] == family
    assert raw["class"] == known.base_class
    assert raw["source"] == known.source
    assert raw["proof"]["configs"] >= 3
    assert not raw["proof"]["holes"]


@pytest.mark.parametrize("family", flows.flow_families())
def test_a_flow_names_the_modules_of_the_blueprint_and_no_others(family: str) -> None:
    flow, known = flows.load_flow(family), blueprint.load(family)
    modules = known.modules(known.base_class)
    called, read = called_and_read(flow)
    assert called - modules.keys() <= flow.bare.keys()
    assert flow.bare.keys() <= called
    seen = set()
    templates = known.templates(known.base_class)
    for template in templates:
        module = template.name.rpartition(".")[0]
        runs = any(is_under(module, path) for path in called) or module == ""
        is_read = any(is_under(template.name, path) for path in read)
        if runs or is_read or module in flow.unused:
            seen.add(template.name)
    tied = {one.tie.to for one in templates if one.tie is not None and one.name in seen}
    assert {template.name for template in templates} - seen <= tied


def called_and_read(flow: flows.FamilyFlow) -> tuple[set[str], set[str]]:
    """Return the paths of all modules that are called, and those of all parameters that are read.

    What a function reads is that of a module that calls it.
    """
    called, read = set(), set()
    for path, variants in flow.variants.items():
        for variant in variants:
            for step in flows.all_steps(variant.steps):
                if step.kind == flows.MODULE:
                    called.add(flows.module_path(path, step.called))
                for argument in step.arguments:
                    name = argument.partition("|")[0]
                    if name.startswith(flows.SELF):
                        read.add(flows.module_path(path, name.removeprefix(flows.SELF)))
                    elif name.startswith(flows.ROOT):
                        read.add(name.removeprefix(flows.ROOT))
    return called, read


# What holds for a config


def test_the_steps_of_a_layer_depend_on_the_config() -> None:
    flow = flows.load_flow("deepseek_v3")
    names = flow.names({"first_k_dense_replace": 1, "q_lora_rank": None}, {})
    dense, sparse = (flow.steps("layers.{i}.mlp", {**names, "i": layer}) for layer in (0, 1))
    assert dense
    assert sparse
    assert [step.called for step in flows.all_steps(dense)][:1] == ["gate_proj"]
    assert [step.called for step in flows.all_steps(sparse)][:2] == ["gate", "experts"]
    attention = flow.steps("layers.{i}.self_attn", {**names, "i": 0})
    assert attention
    assert next(flows.all_steps(attention)).called == "q_proj"


def test_a_field_that_changes_no_shape_has_its_default() -> None:
    flow = flows.load_flow("deepseek_v3")
    assert flow.names({}, {})["norm_topk_prob"] is True
    assert flow.names({}, {"norm_topk_prob": False})["norm_topk_prob"] is False


def test_a_module_without_steps_has_none() -> None:
    assert flows.load_flow("llama").steps("embed_tokens", {}) is None


def test_held_fields_are_compared() -> None:
    flow = flows.load_flow("bert")
    assert flow.unheld({"add_cross_attention": True}) == {"add_cross_attention": True}
    assert flow.unheld({"add_cross_attention": False}) == {}


def test_the_text_of_a_step_is_read_back() -> None:
    lines = [
        "v0 = self.embed_tokens(input_ids)",
        "v1 = v0 + self.position_embeddings",
        "v2 = rotate_half(v1.0)",
        "v3 = root.shared(v2)",
        "return v3, v1",
    ]
    steps = flows.read_steps(lines, ["rotate_half"])
    assert [step.text for step in flows.all_steps(steps)] == lines
    kinds = [step.kind for step in flows.all_steps(steps)]
    assert kinds == ["module", "operation", "function", "module", "return"]


def test_a_family_without_a_flow_is_refused() -> None:
    with pytest.raises(ModelError, match="there is no flow for the family nothing"):
        flows.load_flow("nothing")


def test_a_flow_is_ready_for_json() -> None:
    described = flows.load_flow("llama").to_dict()
    assert described["modules"]["layers.{i}"][0]["steps"][2] == {
        "value": "v2",
        "kind": "operation",
        "called": "+",
        "arguments": ["hidden_states", "v1"],
        "when": "",
    }
    loop = described["modules"][""][0]["steps"][3]
    assert (loop["kind"], loop["index"]) == ("loop", "i")
