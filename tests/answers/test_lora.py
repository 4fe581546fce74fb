"""`weighbridge lora` and `wb.lora`: the answer about an adapter before it is made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chinese import english_in

import weighbridge as wb
from weighbridge.cli import main
from weighbridge.errors import UsageError
from weighbridge.render.table import COLUMNS, width

LLAMA = "meta-llama/Llama-3.1-8B"
OF_QUERY_AND_VALUE = 32 * 16 * ((4096 + 4096) + (4096 + 1024))


def test_the_memory_of_a_training() -> None:
    adapter = wb.lora(LLAMA, r=16, targets="q,v")
    assert adapter.trainable_parameters == OF_QUERY_AND_VALUE
    assert adapter.all_parameters == OF_QUERY_AND_VALUE + wb.weigh(LLAMA).parameters
    assert adapter.memory == {
        "base_bytes": wb.weigh(LLAMA).bytes,
        "parameter_bytes": 4 * OF_QUERY_AND_VALUE,
        "gradient_bytes": 4 * OF_QUERY_AND_VALUE,
        "optimizer_bytes": 8 * OF_QUERY_AND_VALUE + 4 * 32 * 2 * 2,
    }
    assert adapter.to_dict()["training_bytes"] == sum(adapter.memory.values())
    assert adapter.notes == []


def test_a_dtype_halves_what_is_trained() -> None:
    whole, half = (wb.lora(LLAMA, r=16, targets="q,v", dtype=dtype) for dtype in ("f32", "bf16"))
    assert whole.memory["parameter_bytes"] == 2 * half.memory["parameter_bytes"]
    assert "autocast" not in half.text()
    assert "autocast" in wb.lora(LLAMA).text()
    assert "autocast" not in wb.lora("bert").text()


def test_qlora_packs_the_linear_layers() -> None:
    """Four bits an element, with 8 bits for 64 of them and 32 for 256 of these."""
    adapter = wb.lora(LLAMA, targets="q,v", qlora=True)
    layers = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    others = wb.weigh(LLAMA).parameters - layers
    packed = layers * (1 / 2 + 1 / 64 + 4 / 64 / 256)
    assert adapter.base_bytes == pytest.approx(packed + 2 * others, rel=1e-4)
    assert adapter.base_bytes > packed + 2 * others
    assert adapter.all_parameters == wb.lora(LLAMA, targets="q,v").all_parameters


def test_qlora_does_not_pack_twice() -> None:
    packed = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config = {"model_type": "llama", "quantization_config": packed}
    assert wb.lora(config).base_bytes == wb.weigh(config).bytes
    with pytest.raises(UsageError, match="quantised already"):
        wb.lora(config, qlora=True)


@pytest.mark.parametrize("by", wb.lora("gpt2").groupings)
def test_groups_add_up(by: str) -> None:
    adapter = wb.lora(
        "gpt2", "GPT2LMHeadModel", targets="q,wte", method="dora", bias="all", save="ln_f"
    )
    records = adapter.records(by)
    assert sum(record["parameters"] for record in records) == adapter.trainable_parameters
    held = sum(record["bytes"] for record in records)
    assert held < adapter.adapter_bytes < held + 200 * len(adapter.adapter.tensors)


def answered(capsys: pytest.CaptureFixture[str], line: str) -> tuple[str, str]:
    assert main(line.split()) == 0
    printed = capsys.readouterr()
    return printed.out, printed.err


def test_the_json_is_what_peft_needs(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = answered(
        capsys, "lora mixtral -r 4 --targets q,gate,up,down --rank-pattern q_proj=2 --json"
    )
    told: dict[str, Any] = json.loads(out)
    assert told["target_modules"] == ["q_proj", "w1", "w3", "w2"]
    assert told["target_parameters"] == ["gate_up_proj", "down_proj"]
    assert told["rank_pattern"] == {"q_proj": 2, ".*\\.gate_up_proj": 8}
    assert told["short_names"]["up"] == ["w3"]
    assert [group["rank"] for group in told["groups"]] == [[2], [8], [4]]
    experts = (held for held in told["modules"] if held["module"].endswith("gate_up_proj"))
    names = [tensor["name"] for tensor in next(experts)["tensors"]]
    assert names == [
        "base_model.model.layers.0.mlp.experts.base_layer.lora_A.weight",
        "base_model.model.layers.0.mlp.experts.base_layer.lora_B.weight",
    ]
    assert told["trainable_share"] == told["trainable_parameters"] / told["all_parameters"]


@pytest.mark.parametrize("by", ["target", "module", "tensor"])
def test_text_fits_and_is_chinese(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"lora phi3 --targets q,down,no --method dora --bias all --qlora --by {by}"
    english, notes = answered(capsys, f"{line} --lang en")
    if by != "tensor":
        assert max(map(width, english.splitlines())) <= COLUMNS
    assert "q has no module of its own here; qkv_proj is adapted" in notes
    assert "no selects nothing" in notes
    assert english_in("".join(answered(capsys, f"{line} --lang zh"))) == []


def test_a_table_of_other_forms(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = answered(capsys, "lora gpt2 --csv")
    assert out.splitlines() == [
        "target,modules,rank,tensors,parameters,bytes",
        "c_attn,12,8,24,294912,1179648",
    ]
    out, _ = answered(capsys, "lora gpt2 --markdown --lang en")
    assert "| c_attn |" in out
