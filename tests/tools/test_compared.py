"""The page that compares costs: its figures are those of today, and its reasons explain them."""

import json
from pathlib import Path
from typing import Any

import pytest

import weighbridge as wb

FILE = Path(__file__).parents[2] / "docs" / "costs-compared.json"
MODELS = json.loads(FILE.read_text(encoding="utf-8"))["models"]

every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model["model"])
DENSE = [model for model in MODELS if "expert" not in model["parts"]]
every_dense_model = pytest.mark.parametrize("model", DENSE, ids=lambda model: model["model"])


def products(counted: dict[str, Any]) -> int:
    flops: int = counted["flops"] - counted["others"]
    return flops


def test_there_are_twenty_models() -> None:
    assert len(MODELS) >= 20


@every_model
def test_the_figures_are_those_of_today(model: dict[str, Any]) -> None:
    cost = wb.cost(model["model"], sequence=model["tokens"])
    assert cost.forward_matmul_flops == model["flops"] == sum(model["parts"].values())
    assert cost.found.class_name == model["class"]


@every_model
def test_torch_counts_the_same(model: dict[str, Any]) -> None:
    counted = model["tools"]
    with_rule = counted.get("FlopCounterMode with a rule eager")
    if with_rule:
        assert counted["FlopCounterMode eager"]["flops"] < model["flops"]
    assert (with_rule or counted["FlopCounterMode eager"])["flops"] == model["flops"]
    if with_rule:
        missing = model["flops"] - counted["FlopCounterMode eager"]["flops"]
        assert missing == model["parts"]["expert"]


@every_dense_model
@pytest.mark.parametrize("tool", ["fvcore", "calflops"])
def test_tools_add_other_operations_and_miss_fused_attention(
    model: dict[str, Any], tool: str
) -> None:
    assert products(model["tools"][f"{tool} eager"]) == model["flops"]
    by_default = model["tools"][f"{tool} sdpa"]
    if "flops" in by_default:
        assert products(by_default) == model["flops"] - model["parts"]["attention"]


@every_dense_model
def test_fvcore_adds_5_for_each_element_of_a_layer_norm(model: dict[str, Any]) -> None:
    config = wb.weigh(model["model"]).model.fields
    others, norms = model["tools"]["fvcore eager"]["others"], 0
    if "bert" in model["class"].lower():
        norms = 2 * config.get("num_hidden_layers", config.get("n_layers")) + 1
    hidden = config.get("hidden_size", config.get("dim"))
    assert others == 2 * 5 * norms * model["tokens"] * hidden


@every_dense_model
def test_ptflops_doubles_what_calflops_adds(model: dict[str, Any]) -> None:
    added = model["tools"]["ptflops eager"]["flops"] - model["flops"]
    others = model["tools"]["calflops eager"]["others"]
    assert added == pytest.approx(2 * others, rel=0.1)


@every_dense_model
def test_llm_analysis_knows_one_feed_forward_size(model: dict[str, Any]) -> None:
    config = wb.weigh(model["model"]).model.fields
    layers = config.get("num_hidden_layers", config.get("n_layers"))
    hidden = config.get("hidden_size", config.get("dim"))
    counted = model["tools"]["llm-analysis"]["operators"]
    assert counted["matmul of feed-forward"] == 16 * layers * model["tokens"] * hidden**2
    assert counted["matmul of head"] == 2 * model["tokens"] * hidden * config["vocab_size"]
