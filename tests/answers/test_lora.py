"""`weighbridge lora` and `wb.lora`: the answer about an adapter before it is made."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from chinese import english_in

import weighbridge as wb
from weighbridge.answers.lora import lora_saved
from weighbridge.cli import main
from weighbridge.errors import UsageError, WeighbridgeError
from weighbridge.render.table import COLUMNS, width

if TYPE_CHECKING:
    from pathlib import Path

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


# As peft 0.21.2 saves it, without the fields that are null.
SAVED = {
    "alpha_pattern": {},
    "base_model_name_or_path": LLAMA,
    "bias": "none",
    "ensure_weight_tying": False,
    "fan_in_fan_out": False,
    "inference_mode": True,
    "init_lora_weights": True,
    "loftq_config": {},
    "lora_alpha": 8,
    "lora_bias": False,
    "lora_dropout": 0.0,
    "megatron_core": "megatron.core",
    "modules_to_save": None,
    "peft_type": "LORA",
    "peft_version": "0.21.2",
    "qalora_group_size": 16,
    "r": 16,
    "rank_pattern": {},
    "target_modules": ["v_proj", "q_proj"],
    "task_type": "CAUSAL_LM",
    "use_dora": False,
    "use_qalora": False,
}


def saved(folder: Path, **changed: Any) -> str:
    (folder / "adapter_config.json").write_text(json.dumps({**SAVED, **changed}))
    return str(folder)


def test_a_saved_adapter_is_weighed_with_its_base(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    adapter = lora_saved(folder)
    assert adapter.trainable_parameters == OF_QUERY_AND_VALUE
    assert adapter.all_parameters == wb.lora(LLAMA, r=16, targets="q,v").all_parameters
    assert adapter.to_dict()["file"] is None
    assert lora_saved(f"{folder}/adapter_config.json").to_dict() == adapter.to_dict()


def test_a_saved_adapter_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = saved(tmp_path)
    assert main(["weigh", folder]) == 0
    weighed = capsys.readouterr().out
    assert main(["lora", LLAMA, "--config", folder]) == 0
    assert capsys.readouterr().out == weighed
    assert f"{OF_QUERY_AND_VALUE:,}" in weighed
    assert main(["weigh", folder, "--by", "tensor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["by"] == "tensor"
    assert main(["weigh", folder, "--by", "layer"]) == 2
    assert "no such grouping" in capsys.readouterr().err
    assert main(["lora", LLAMA, "--config", folder, "--bias", "all"]) == 2
    assert "(bias = 'all'). Drop this option, or --config" in capsys.readouterr().err


def test_the_class_is_the_one_that_peft_builds_for_the_task(tmp_path: Path) -> None:
    for family, changed, expected in (
        ("bert", {"task_type": "SEQ_CLS", "target_modules": ["query"]}, "SequenceClassification"),
        ("gpt2", {"target_modules": ["c_attn"]}, "GPT2LMHeadModel"),
        ("t5", {"task_type": "SEQ_2_SEQ_LM", "target_modules": ["q"]}, "ConditionalGeneration"),
        (
            "bert",
            {
                "task_type": None,
                "auto_mapping": {"base_model_class": "BertForMaskedLM"},
                "target_modules": ["query"],
            },
            "BertForMaskedLM",
        ),
    ):
        folder = saved(tmp_path, base_model_name_or_path=family, **changed)
        assert lora_saved(folder).weighing.class_name.endswith(expected)


def test_a_file_that_is_not_what_its_config_says(tmp_path: Path) -> None:
    folder = saved(tmp_path, base_model_name_or_path="llama")
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    header = json.dumps({name: {"dtype": "F32", "shape": [2, 4096], "data_offsets": [0, 32768]}})
    content = len(header).to_bytes(8, "little") + header.encode() + bytes(32768)
    (tmp_path / "adapter_model.safetensors").write_bytes(content)
    adapter = lora_saved(folder)
    assert len(adapter.differences) == 32 * 2 * 2
    assert adapter.differences[0] == (name, (16, 4096), (2, 4096))
    assert adapter.differences[1].found_shape is None
    assert "differ from those that its config makes: 128" in adapter.notes[-1]
    assert "expected 16×4,096, found 2×4,096" in " ".join(adapter.text().split())
    assert not english_in(adapter.text("zh").replace(name, ""))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": ({"peft_type": "IA3"}, "of the type IA3 is not counted"),
    "biases of its own": ({"lora_bias": True}, r"are not known \(lora_bias = true\)"),
    "layers again": ({"layer_replication": [[0, 4], [2, 5]]}, "are not known"),
    "of a later version": ({"use_new_thing": {"a": 1}}, "are not known"),
    "no rank": ({"r": None}, "a rank is a positive integer"),
    "a pattern that is none": ({"target_modules": ".*("}, "no regular expression"),
    "no base": ({"base_model_name_or_path": None}, "names no base model that can be weighed"),
    "standard input": ({"base_model_name_or_path": "-"}, "names no base model"),
    "an address": ({"base_model_name_or_path": "https://a.b/c"}, "names no base model"),
    "a place elsewhere": ({"base_model_name_or_path": "/root/ckpt/base"}, "names no base model"),
    "an unknown name": ({"base_model_name_or_path": "me/mine-7b"}, "lora BASE --config ADAPTER"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_saved_adapter_that_is_refused(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed, expected = REFUSED[case]
    folder = saved(tmp_path, **changed)
    with pytest.raises(WeighbridgeError, match=expected):
        lora_saved(folder)
    assert main(["weigh", folder, "--lang", "zh"]) == 2
    assert not english_in(capsys.readouterr().err.replace(folder, ""))


@pytest.mark.parametrize("name", [*SAVED, "auto_mapping", "exclude_modules", "layers_to_transform"])
def test_odd_values_of_a_saved_adapter_are_read_or_refused(name: str, tmp_path: Path) -> None:
    for value in (
        None,
        True,
        -1,
        1.5,
        10**30,
        "",
        "-",
        "\n",
        [],
        [[]],
        [None],
        {},
        {"a": []},
        {"": 2},
    ):
        folder = saved(tmp_path, **{name: value})
        with contextlib.suppress(WeighbridgeError):
            assert lora_saved(folder).trainable_parameters
