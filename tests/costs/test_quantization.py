"""The bytes of quantised files: held against releases, and against files of the libraries."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write

import weighbridge as wb
from weighbridge import data
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.costs.quantization import (
    FileWeight,
    ModuleNames,
    Quantization,
    elements_bytes,
    stored_elements,
)
from weighbridge.models.quantization import UnreadQuantization, quantization_of
from weighbridge.readers import read

DATA = Path(__file__).parents[1] / "data"
RELEASED: dict[str, dict[str, Any]] = tomllib.loads((DATA / "released.toml").read_text())
MADE: dict[str, dict[str, Any]] = json.loads((DATA / "quantised.json").read_text())["made"]
RULES = data.read_toml("facts/quantizations.toml")
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "dtype": "bfloat16",
    "num_hidden_layers": 2,
}


def released(name: str) -> Weighing:
    """Return the weighing of a released model."""
    model = RELEASED[name]["model"]
    path = DATA / "real" / model
    return weigh(str(path) if path.exists() else model)


def held(weighing: Weighing) -> Counter[str]:
    """Return the elements of a checkpoint by dtype, with layers for multi-token prediction."""
    elements, layers = Counter(stored(weighing)), weighing.files.prediction_layers
    if layers is None:
        return elements
    assert layers.weights is not None
    if isinstance(weighing.files.quantization, Quantization):
        dtype = weighing.ledger.dtype
        return elements + Counter(
            stored_elements(layers.weights, weighing.files.quantization, dtype)
        )
    elements[weighing.ledger.dtype] += layers.parameters or 0
    return elements


def stored(weighing: Weighing) -> dict[str, int]:
    return weighing.files.elements(weighing.ledger)


def quantised(settings: dict[str, Any], **fields: Any) -> Weighing:
    return weigh({**LLAMA, **fields, "quantization_config": settings})


# Releases


@pytest.mark.parametrize("name", RELEASED)
def test_a_release_holds_what_its_config_says(name: str) -> None:
    entry, elements = RELEASED[name], held(released(name))
    if "total" in entry:
        assert elements.total() + entry["beside"] == entry["total"]
    else:
        elements["F32"] += entry["beside"]
        assert +elements == Counter(entry["elements"])
    if "files" in entry:
        headers = entry["files"] - elements_bytes(elements)
        assert 0 < headers < 100_000


def test_deepseek_v3_takes_641_gib() -> None:
    weighing = released("deepseek-ai/DeepSeek-V3")
    assert weighing.files.whole_size is not None
    assert round(weighing.files.whole_size / 2**30) == 641
    assert "641 GiB" in " ".join(weighing.notes)
    assert "627 GiB stored as FP8" in " ".join(weighing.text().split())


def test_the_catalogue_knows_how_a_release_is_stored() -> None:
    assert weigh("deepseek-ai/DeepSeek-V3").bytes == released("deepseek-ai/DeepSeek-V3").bytes


def test_qwen_2_5_7b_under_awq() -> None:
    config = json.loads((DATA / "real" / "Qwen__Qwen2.5-7B.json").read_text())
    weighing = weigh({**config, "torch_dtype": "float16", "quantization_config": AWQ})
    packed = 6_525_288_448  # the matrices of 28 layers
    assert stored(weighing) == {
        "F16": weighing.parameters - packed + packed // 128,
        "I32": packed // 8 + packed // 128 // 8,
    }
    assert weighing.bytes == 5_570_747_392
    assert "5.19 GiB stored as AWQ at 4 bits" in " ".join(weighing.text().split())


# Files of the libraries


@pytest.mark.parametrize("name", MADE)
def test_a_file_of_the_library_holds_what_its_config_says(name: str) -> None:
    weighing, tensors = weigh(MADE[name]["config"]), Counter[str]()
    for dtype, shape in MADE[name]["tensors"].values():
        tensors[dtype] += prod(shape)
    elements = Counter(stored(weighing))
    if weighing.to_dict()["quantization"]["exact"]:
        assert elements == tensors
        return
    for dtype, number in tensors.items():
        assert elements[dtype] == pytest.approx(number, rel=0.001)


@pytest.mark.parametrize("rule", [name for name in RULES if RULES[name]["packing"]])
def test_a_reader_recognises_what_a_rule_writes(rule: str, tmp_path: Path) -> None:
    weight = FileWeight(("l",), (256, 512), "Linear")
    if RULES[rule]["packing"] == "MXFP4":
        weight = FileWeight(("l",), (4, 512, 256), "expert")
    settings = settings_for(rule)
    quantization = quantization_of({"quantization_config": settings})
    assert isinstance(quantization, Quantization)
    (packing,) = quantization.packings
    tensors = {
        f"l{ending}": (dtype.replace("rest", "BF16"), shape)
        for ending, dtype, shape in packing.stored(weight)
    }
    config = {"quantization_config": settings}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = read(write(tmp_path / "model.safetensors", tensors))
    (packed,) = found.packed.values()
    assert packed.packing == RULES[rule]["packing"]
    assert packed.elements == prod(weight.shape)
    assert packed.shape in (None, weight.shape)
    assert sum(row.parameters for row in found.rows) == prod(weight.shape)


def settings_for(rule: str) -> dict[str, Any]:
    """Return settings that a rule is for."""
    entry = RULES[rule]
    match = {name: values[0] for name, values in entry.get("match", {}).items()}
    method = {"quant_method": entry["method"][0], "bits": 4, "group_size": 128, "type": "int"}
    settings = {**entry.get("defaults", {}), **method, **match}
    if entry["method"][0] not in ("compressed-tensors", "modelopt"):
        return settings
    names = ("bits", "type", "strategy", "group_size", "symmetric")
    weights = {name: settings.pop(name) for name in names if name in settings}
    weights["num_bits"] = weights.pop("bits")
    return {**settings, "config_groups": {"group_0": {"weights": weights, "targets": ["Linear"]}}}


def test_llama_3_1_8b_under_gptq_differs_only_by_biases_of_zeros() -> None:
    config = json.loads((DATA / "real" / "meta-llama__Llama-3.1-8B.json").read_text())
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}
    weighing, expected, biases = weigh({**config, "quantization_config": settings}), 0, 0
    for row in weighing.stored_rows:
        if not row.name.endswith("_proj.weight"):
            expected += row.bytes
            continue
        outputs, inputs = row.shape
        expected += outputs * inputs // 2 + 4 * inputs
        expected += inputs // 128 * (2 * outputs + outputs // 2)
        biases += outputs
    assert weighing.bytes == expected
    assert weighing.parameters + biases == 8_031_637_504, "as published"
    assert "about 5.34 GiB stored as GPTQ at 4 bits" in " ".join(weighing.text().split())


# What is packed, and what is kept


def kept(settings: dict[str, Any], **fields: Any) -> int:
    """Return the elements that a small Llama keeps in BF16."""
    return stored(quantised(settings, **fields))["BF16"]


HEAD = 32000 * 4096
MATRIX = 4096 * 4096
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def test_the_output_head_is_packed_only_if_a_list_leaves_it_out() -> None:
    assert kept(FP8) == kept({**FP8, "modules_to_not_convert": ["lm_head"]})
    assert kept(FP8) == kept({**FP8, "modules_to_not_convert": []}) + HEAD


@pytest.mark.parametrize(
    ("listed", "matrices"),
    [
        (["model.layers.0.self_attn.q_proj"], 1),
        (["self_attn.q_proj"], 2),
        (["q_proj"], 2),
        (["model.layers.1.self_attn"], 4),
        (["model.layers.*.self_attn"], 8),
        (["model.layers.11.self_attn", "self_attn.q"], 0),
        (["visual", "mlp.gate"], 0),
    ],
)
def test_modules_are_kept_by_path_end_and_pattern(listed: list[str], matrices: int) -> None:
    base = kept({**FP8, "modules_to_not_convert": []})
    assert kept({**FP8, "modules_to_not_convert": listed}) == base + matrices * MATRIX


def test_the_base_class_keeps_the_modules_that_the_config_lists_for_the_head() -> None:
    settings = {**FP8, "modules_to_not_convert": ["model.layers.0.self_attn", "lm_head"]}
    config = {**LLAMA, "quantization_config": settings}
    whole = stored(weigh(config))["BF16"]
    assert stored(weigh(config, "LlamaModel"))["BF16"] == whole - HEAD


def test_a_group_has_targets() -> None:
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
    group = {"weights": weights, "targets": ["re:.*self_attn.*"], "format": "pack-quantized"}
    settings = {"quant_method": "compressed-tensors", "config_groups": {"a": group}}
    words = stored(quantised(settings))["I32"]
    assert words == 2 * 4 * MATRIX // 8


def test_names_of_layers_and_experts() -> None:
    names = ModuleNames(numbered=("model.layers.0.mlp",))
    assert names.depends_on(["model.layers.{i}.mlp.experts.{j}.w1"]) == 1
    names = ModuleNames(numbered=("model.layers.0.mlp.experts.3",))
    assert names.depends_on(["model.layers.{i}.mlp.experts.{j}.w1"]) == 2
    assert ModuleNames().depends_on(["model.layers.{i}.mlp.experts.{j}.w1"]) == 0


def test_an_expert_may_be_kept_by_its_number() -> None:
    mixtral = {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "dtype": "bfloat16",
        "num_hidden_layers": 2,
        "num_local_experts": 4,
    }
    listed = ["lm_head", "model.layers.1.block_sparse_moe.experts.3.w2"]
    settings = [{**FP8, "modules_to_not_convert": names} for names in (["lm_head"], listed)]
    all_packed, one_kept = (weigh({**mixtral, "quantization_config": each}) for each in settings)
    more = stored(one_kept)["BF16"] - stored(all_packed)["BF16"]
    assert more == 4096 * 14336


def test_a_dtype_that_is_asked_for_is_that_of_unpacked_files() -> None:
    config = {**LLAMA, "quantization_config": AWQ}
    assert weigh(config, dtype="bf16").bytes == 2 * weigh(config).parameters
    assert "quantization" not in weigh(config, dtype="bf16").to_dict()


def test_without_a_dtype_the_rest_is_in_16_bits_and_the_size_approximate() -> None:
    config = {**LLAMA, "quantization_config": AWQ, "dtype": None}
    assert weigh(config).bytes == quantised(AWQ).bytes
    assert stored(weigh(config)) == stored(quantised(AWQ))


# What is not known


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"quant_method": "quanto"}, "no rule for this method"),
        ({"bits": 4}, "no rule for this method"),
        ({**AWQ, "version": "gemv"}, "version = 'gemv'"),
        ({**AWQ, "bits": "4"}, "bits = '4'"),
        ({**AWQ, "bits": 0}, "bits = 0"),
        ({**AWQ, "modules_to_not_convert": "visual"}, "a list of modules is not a list of texts"),
        ({**AWQ, "modules_to_not_convert": ["(a+)+$"]}, "the pattern '(a+)+$' is not read"),
        ({"quant_method": "gptq", "bits": 4, "lm_head": True}, "lm_head = true"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"-:x": {}}}, "the setting dynamic is not"),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": 1}}, "has no weights"),
        (
            {**FP8, "ignored_layers": ["model.layers.0.mlp"]},
            "the setting ignored_layers is not read",
        ),
        ({**AWQ, "bits": 5}, "bits = 5"),  # AutoAWQ packs 4
        ({"quant_method": "gptq", "bits": 5}, "bits = 5"),
        ({"quant_method": "fp8", "expert_dtype": "fp4"}, "expert_dtype = 'fp4'"),
    ],
)
def test_an_unknown_packing_is_said_to_be_unknown(settings: dict[str, Any], reason: str) -> None:
    quantization = quantization_of({"quantization_config": settings})
    assert isinstance(quantization, UnreadQuantization)
    assert reason in quantization.reason
    weighing = quantised(settings)
    assert weighing.bytes is None
    assert weighing.files.whole_size is None
    assert reason in " ".join(weighing.notes)
    assert "size in files not known" in " ".join(weighing.text().split())
    assert weighing.to_dict()["bytes"] is None
    assert weighing.to_dict()["quantization"]["reason"] == quantization.reason


@pytest.mark.parametrize("settings", [None, {}, [], ""])
def test_what_is_no_quantisation_changes_nothing(settings: object) -> None:
    config = {**LLAMA, "quantization_config": settings}
    assert quantization_of(config) is None
    assert weigh(config).bytes == weigh(LLAMA).bytes


@pytest.mark.parametrize("settings", ["awq", 4])
def test_settings_that_are_no_object_give_no_size(settings: object) -> None:
    weighing = weigh({**LLAMA, "quantization_config": settings})
    assert weighing.bytes is None
    assert f"quantization_config = {settings!r} is no object" in " ".join(weighing.notes)


@pytest.mark.parametrize("value", [0, -5, 10**9, True, "128", [128], None, 1.5])
def test_a_strange_group_size_gives_no_error(value: object) -> None:
    weighing = quantised({**AWQ, "group_size": value})
    assert weighing.bytes is None or weighing.bytes > 0


@pytest.mark.parametrize("value", [[0, 128], [128], ["a", 1], 128, [-1, 2]])
def test_blocks_that_are_none_give_no_size(value: object) -> None:
    assert quantised({**FP8, "weight_block_size": value}).bytes is None


def test_layers_under_another_name_give_no_size() -> None:
    weighing = quantised({**FP8, "modules_to_not_convert": ["transformer.h.0.mlp", "lm_head"]})
    assert weighing.bytes is None
    assert "the layers that it lists have other names" in " ".join(weighing.notes)


def test_a_weight_that_a_rule_does_not_cover_gives_no_size() -> None:
    fused = {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"]}
    weighing = weigh({**fused, "quantization_config": AWQ})
    assert weighing.bytes is None
    assert "the rule does not cover the shape of a weight" in " ".join(weighing.notes)


def test_json_has_the_elements() -> None:
    found = quantised(AWQ).to_dict()
    assert found["quantization"] == {
        "method": "awq",
        "packings": [{"name": "AWQ", "bits": 4}],
        "elements": stored(quantised(AWQ)),
        "exact": True,
    }
    assert found["bytes"] == elements_bytes(found["quantization"]["elements"])
    assert wb.weigh(LLAMA).to_dict().keys() == found.keys() - {"quantization"}
