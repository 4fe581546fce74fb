"""Adapters before they are made: settings, targets and sizes, without PyTorch.

`tests/torch/test_lora.py` holds the tensors against those that peft makes.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import weighbridge as wb
from weighbridge.costs.lora import LoraAdapter, lora_tensors, safetensors_bytes
from weighbridge.costs.lora_settings import KEYS, LoraSettings, lora_settings, parse_lora
from weighbridge.errors import UsageError
from weighbridge.ledger.rows import Row

RESULTS = Path(__file__).parents[1] / "data" / "peft_results.tsv"
# Rows of peft's results whose method is stored as LORA, but is another one: what it trains differs.
OTHER_METHODS = {
    "MetaMathQA/lora--llama-3.2-3B-rank14-target-mlp-bdlora": "BD-LoRA: one matrix in blocks",
    "MetaMathQA/lora--llama-3.2-3B-rank32-mica": "MiCA: only one of the two matrices is trained",
}
# The base model is one of diffusers.
WITHOUT_BLUEPRINT = "image-gen/lora--flux2-klein-default"


def made(model: Any, class_name: str | None = None, **settings: Any) -> LoraAdapter:
    return lora_tensors(wb.weigh(model, class_name).ledger, lora_settings(**settings))


def results() -> list[dict[str, str]]:
    lines = [line for line in RESULTS.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t"))


def of_llama() -> list[dict[str, str]]:
    skipped = {*OTHER_METHODS, WITHOUT_BLUEPRINT}
    return [row for row in results() if row["case"] not in skipped]


@pytest.mark.parametrize("row", of_llama(), ids=lambda row: row["case"])
def test_adapters_that_peft_trained(row: dict[str, str]) -> None:
    method = "dora" if "dora" in row["case"] else "lora"
    adapter = made(
        row["base_model"],
        "LlamaForCausalLM",
        r=int(row["rank"]),
        targets=row["target_modules"],
        method=method,
    )
    assert adapter.trainable_parameters == int(row["trainable_parameters"])
    assert adapter.all_parameters == int(row["total_parameters"])
    assert adapter.file_bytes == int(row["adapter_file_bytes"])


@pytest.mark.parametrize("case", OTHER_METHODS)
def test_other_methods_are_other_methods(case: str) -> None:
    (row,) = (row for row in results() if row["case"] == case)
    adapter = made(row["base_model"], r=int(row["rank"]), targets=row["target_modules"])
    assert adapter.trainable_parameters > int(row["trainable_parameters"])


def test_all_linear_layers_of_llama() -> None:
    """Every linear layer of LLaMA 7B at rank 64: 7 matrices, in 32 layers."""
    adapter = made("llama", "LlamaForCausalLM", r=64, targets="all-linear")
    hidden, inner = 4096, 11008
    assert adapter.trainable_parameters == 32 * 64 * (4 * 2 * hidden + 3 * (hidden + inner))


SHORT = {
    "llama": {"q": ("q_proj",), "o": ("o_proj",), "gate": ("gate_proj",), "down": ("down_proj",)},
    "bert": {"q": ("query",), "v": ("value",), "o": ("attention.output.dense",)},
    "gpt2": {"q": ("c_attn",), "up": ("c_fc",), "down": ("mlp.c_proj",), "o": ("attn.c_proj",)},
    "phi3": {"q": ("qkv_proj",), "gate": ("gate_up_proj",), "down": ("down_proj",)},
    "mixtral": {"q": ("q_proj",), "gate": ("w1",), "up": ("w3",), "down": ("w2",)},
    "gpt_oss": {"gate": ("experts.gate_up_proj",), "down": ("experts.down_proj",)},
    "falcon": {"q": ("query_key_value",)},
    "bart": {"q": ("q_proj",), "up": ("fc1",)},
}


@pytest.mark.parametrize("family", SHORT)
def test_short_names(family: str) -> None:
    names = [*SHORT[family]]
    if family == "mixtral":
        names = ["q", "gate", "up", "down"]
    assert made(family, targets=names).chosen.meanings == SHORT[family]


def test_a_short_name_that_is_the_name_of_a_module_is_that_module() -> None:
    chosen = made("t5", targets="q,v").chosen
    assert chosen.meanings == {}
    assert chosen.told == ("q", "v")


def test_the_feed_forward_network_of_bert_has_no_name_of_its_own() -> None:
    chosen = made("bert", targets="down").chosen
    assert {module.role for module in chosen.modules} == {"ffn.down"}
    assert len(chosen.modules) == len(chosen.told) == 12


def test_fused_modules_are_said() -> None:
    adapter = made("gpt2", targets="q,v")
    assert adapter.chosen.fused == ("q", "v")
    assert adapter.trainable_parameters == 12 * 8 * (768 + 3 * 768)


def test_names_that_select_nothing_are_said() -> None:
    adapter = made(
        "llama",
        "LlamaForCausalLM",
        targets="q,c_attn",
        save="head",
        rank_pattern={"up_proj": 3},
    )
    assert adapter.unmatched == ("c_attn", "up_proj")  # lm_head ends in head
    assert made("llama", targets="q", save="no").unmatched == ("no",)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "rank": ({"r": 0}, "a rank is a positive integer"),
    "rank of some": ({"rank_pattern": {"q_proj": -1}}, "a rank is a positive integer"),
    "method": ({"method": "ia3"}, "no such method"),
    "bias": ({"bias": "some"}, "no such bias"),
    "task": ({"task_type": "DANCE"}, "no such task_type"),
    "dtype": ({"dtype": "float5"}, "no such dtype"),
    "layers": ({"targets": "q", "layers": "1-x"}, "layers are numbers"),
    "layers of a pattern": ({"targets": "re:.*q_proj", "layers": "1"}, "names of modules only"),
    "pattern": ({"targets": "re:.*("}, "no regular expression"),
    "no module": ({"targets": "c_attn"}, "select no module"),
    "a block": ({"targets": "mlp"}, "LlamaMLP cannot be adapted"),
    "a norm": ({"targets": "norm"}, "LlamaRMSNorm cannot be adapted"),
    "a vector": ({"targets": [], "parameters": "norm.weight"}, "two or three dims"),
    "DoRA of a parameter": (
        {"targets": [], "parameters": "q_proj.weight", "method": "dora"},
        "DoRA does not adapt",
    ),
    "targets of a wrong kind": ({"targets": 3}, "texts, or a list of texts"),
    "names of a wrong kind": ({"targets": ["q", 3]}, "texts, or a list of texts"),
    "layers of a wrong kind": ({"targets": "q", "layers": 1.5}, "layers are numbers"),
    "a task of a wrong kind": ({"task_type": 3}, "no such task_type"),
    "ranks of a wrong kind": ({"rank_pattern": ["q_proj"]}, "are a mapping"),
    "no tie": ({"targets": "lm_head", "ties": True}, "no module that is tied"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings(case: str) -> None:
    settings, message = WRONG[case]
    with pytest.raises(UsageError, match=message):
        made("llama", "LlamaForCausalLM", **settings)


def test_a_half_of_one_parameter_is_refused() -> None:
    with pytest.raises(UsageError, match="w1 and w3 are one parameter, gate_up_proj"):
        made("mixtral", targets="gate")


def test_experts_are_parameters_which_dora_does_not_adapt() -> None:
    with pytest.raises(UsageError, match="DoRA does not adapt single parameters"):
        made("mixtral", targets="all-linear", method="dora")


def test_state_space_models_have_modules_that_peft_refuses() -> None:
    with pytest.raises(UsageError, match="peft does not adapt out_proj"):
        made("mamba", targets="out_proj")


def test_depthwise_convolutions_are_refused() -> None:
    with pytest.raises(UsageError, match="a convolution in groups"):
        made("convnext", targets="depthwise_conv,dwconv")


def test_a_family_without_default_targets() -> None:
    with pytest.raises(UsageError, match="no default targets for the model type vit"):
        made("vit")


# One text


def test_one_text_has_every_setting() -> None:
    text = (
        "r=4,targets=q_proj,v_proj,method=dora,rank_pattern=q_proj:8,v_proj:2,layers=0,2-3,bias=all,"
        "save=lm_head,norm,exclude=layers.0.self_attn.q_proj,task_type=seq_cls,ties=true,dtype=bf16"
    )
    assert parse_lora(text) == LoraSettings(
        rank=4,
        targets=("q_proj", "v_proj"),
        method="dora",
        rank_pattern=(("q_proj", 8), ("v_proj", 2)),
        layers=(0, 2, 3),
        bias="all",
        saved=("lm_head", "norm"),
        excluded=("layers.0.self_attn.q_proj",),
        task_type="SEQ_CLS",
        ties=True,
        dtype="BF16",
    )
    given = {piece.partition("=")[0] for piece in text.split(",") if "=" in piece}
    assert {*KEYS} - given == {"parameters"}


def test_a_pattern_in_one_text_may_have_commas() -> None:
    assert parse_lora(r"targets=re:.*\.\d{1,2}\.q_proj,r=2").targets == r"re:.*\.\d{1,2}\.q_proj"
    assert parse_lora("targets=all-linear").targets == "all-linear"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Write it as in"),
        ("16", "Write it as in"),
        ("rank=16", "not understood"),
        ("r=16,17", "not understood"),
        ("r=x", "a rank is a positive integer"),
        ("r=1,r=2", "r is given twice"),
        ("ties=maybe", "no such ties"),
        ("rank_pattern=q_proj", "a pattern and a number"),
        ("target=q", "targets"),
    ],
)
def test_wrong_texts(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_lora(text)
    assert message in str(refused.value)


def test_the_header_is_sorted_and_padded(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    import numpy as np

    shapes = {"b": ("F16", (3,)), "a": ("F16", (5, 1)), "é": ("F32", ()), "z": ("F64", (2, 2))}
    dtypes = {"F16": "float16", "F32": "float32", "F64": "float64"}
    tensors = {name: np.zeros(shape, dtypes[dtype]) for name, (dtype, shape) in shapes.items()}
    path = tmp_path / "adapter_model.safetensors"
    numpy.save_file(tensors, path, metadata={"format": "pt"})
    rows = [
        Row(name, shape, dtype, "", (), tensors[name].size, 0)
        for name, (dtype, shape) in shapes.items()
    ]
    assert safetensors_bytes(rows) == path.stat().st_size
