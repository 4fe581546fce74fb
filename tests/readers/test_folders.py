"""Folders and configs that are not of a plain transformers model say what they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from checkpoints import write

import weighbridge as wb
from weighbridge.errors import CheckpointError, ModelError, WeighbridgeError
from weighbridge.models.find import find
from weighbridge.readers import read
from weighbridge.readers.folders import KINDS, explained_config

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = {
    "_class_name": "StableDiffusionPipeline",
    "_diffusers_version": "0.21.0",
    "scheduler": ["diffusers", "PNDMScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "text_encoder_2": [None, None],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
}
ADAPTER = {"base_model_name_or_path": "meta-llama/Llama-2-7b-hf", "peft_type": "LORA", "r": 8}
TIMM = {"architecture": "resnet50", "num_classes": 1000, "pretrained_cfg": {"tag": "a1_in1k"}}
PART = {"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.21.0"}
OWN_CODE = {
    "model_type": "frobnicator",
    "auto_map": {
        "AutoConfig": "configuration_frob.FrobConfig",
        "AutoModelForCausalLM": "org/name--modeling_frob.FrobForCausalLM",
    },
}
MODULES = [
    {"idx": 0, "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


def folder(path: Path, file: str, content: Any) -> str:
    path.mkdir(exist_ok=True)
    (path / file).write_text(json.dumps(content))
    return str(path)


def message(path: Any) -> str:
    with pytest.raises(ModelError) as caught:
        find(path)
    return str(caught.value)


def test_a_pipeline_names_its_parts_with_their_paths(tmp_path: Path) -> None:
    path = folder(tmp_path / "sd", "model_index.json", PIPELINE)
    expected = (
        f"{path}: is a diffusers pipeline (StableDiffusionPipeline), which is several models. "
        f"`weighbridge weigh` counts these parts: {path}/text_encoder; `weighbridge inspect` "
        f"counts the checkpoints of these: {path}/unet."
    )
    assert message(path) == message(f"{path}/") == expected
    for question in (wb.inspect, wb.guess):
        with pytest.raises(CheckpointError, match="is a diffusers pipeline"):
            question(path)


def test_an_adapter_names_its_base_model(tmp_path: Path) -> None:
    path = folder(tmp_path / "lora", "adapter_config.json", ADAPTER)
    write(tmp_path / "lora" / "adapter_model.safetensors", {"a.lora_A.weight": ("F32", (2, 3))})
    error = message(path)
    assert "is a PEFT adapter (LORA) for the base model meta-llama/Llama-2-7b-hf" in error
    assert "`weighbridge weigh meta-llama/Llama-2-7b-hf`" in error
    with pytest.raises(CheckpointError, match="is a PEFT adapter"):
        wb.guess(path)
    assert wb.verify("bert", path).status == 1, "BERT has no such module"
    assert wb.inspect(path).to_dict()["tensors"]


def test_an_adapter_without_a_base_model_is_named_too(tmp_path: Path) -> None:
    path = folder(tmp_path / "lora", "adapter_config.json", {"peft_type": "LORA"})
    assert "is a PEFT adapter (LORA), not a whole model" in message(path)


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (TIMM, "there is no blueprint for the timm architecture resnet50"),
        (PART, "is a diffusers model (UNet2DConditionModel), and there is no blueprint"),
    ],
    ids=["timm", "diffusers"],
)
def test_a_config_of_another_library_names_it(tmp_path: Path, config: Any, what: str) -> None:
    path = folder(tmp_path / "other", "config.json", config)
    write(tmp_path / "other" / "model.safetensors", {"conv1.weight": ("F32", (2, 3))})
    for error in (message(path), message(config)):
        assert what in error
        assert "`weighbridge inspect " in error
    with pytest.raises(CheckpointError, match="foreign: is a "):
        wb.guess(path)
    assert wb.inspect(path).to_dict()["tensors"]


def test_code_of_its_own_is_named_and_not_run(tmp_path: Path) -> None:
    path = folder(tmp_path / "own", "config.json", OWN_CODE)
    error = message(path)
    assert "the model_type frobnicator has its own code (modeling_frob.FrobForCausalLM)" in error
    assert "which weighbridge does not run" in error
    assert f"`weighbridge derive --trust-remote-code {path}`" in error
    assert f"`weighbridge inspect {path}`" in error


def test_a_known_family_is_weighed_whatever_code_came_with_it() -> None:
    assert wb.weigh({**OWN_CODE, "model_type": "bert"}).parameters == wb.weigh("bert").parameters


def test_sentence_transformers_are_their_transformer(tmp_path: Path) -> None:
    path = folder(tmp_path / "st", "modules.json", MODULES)
    inner = folder(tmp_path / "st" / "0_Transformer", "config.json", {"model_type": "bert"})
    write(tmp_path / "st" / "0_Transformer" / "model.safetensors", {"a": ("F32", (2, 3))})
    assert find(path).where == f"{inner}/config.json"
    assert read(path).files == (f"{inner}/model.safetensors",)


@pytest.mark.parametrize("inner", ["", "..", "a/b", 3, None])
def test_sentence_transformers_lead_to_no_other_folder(tmp_path: Path, inner: Any) -> None:
    path = folder(tmp_path / "st", "modules.json", [{"path": inner}])
    with pytest.raises(WeighbridgeError):
        find(path)


@pytest.mark.parametrize("content", ["", "[", "[]", "3", '{"_class_name": 3}', "\0", "[" * 9999])
@pytest.mark.parametrize("file", ["model_index.json", "adapter_config.json", "modules.json"])
def test_a_damaged_file_ends_in_one_message(tmp_path: Path, file: str, content: str) -> None:
    (tmp_path / file).write_text(content)
    for question in (find, wb.inspect, wb.guess):
        with pytest.raises(WeighbridgeError):
            question(str(tmp_path))


def test_a_folder_with_a_config_is_weighed_whatever_else_it_holds(tmp_path: Path) -> None:
    for kind in KINDS:
        (tmp_path / kind.file).write_text(json.dumps({"model_type": "bert"}))
    assert find(tmp_path).blueprint.family == "bert"


def test_a_folder_with_a_checkpoint_alone_names_guess(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", {"a": ("F32", (2, 3))})
    assert f"`weighbridge guess {tmp_path}`" in message(str(tmp_path))


def test_an_adapter_at_an_address_is_known_too() -> None:
    files = fsspec.filesystem("memory")
    files.pipe("/lora/adapter_config.json", json.dumps(ADAPTER).encode())
    try:
        assert "is a PEFT adapter" in message("memory://lora")
    finally:
        files.rm("/lora", recursive=True)


def test_a_config_without_a_family_is_not_sent_to_an_arbitrary_one() -> None:
    assert "--set model_type=llama." in message_of_config({"architectures": ["LlamaForCausalLM"]})
    error = message_of_config({"hidden_size": 3})
    assert "--set model_type=FAMILY; `weighbridge families` lists them" in error


def message_of_config(config: dict[str, Any]) -> str:
    assert explained_config(config, "config.json") is None
    with pytest.raises(WeighbridgeError, match="names no model_type") as caught:
        find(config)
    return str(caught.value)


def test_a_folder_that_may_not_be_listed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.listdir", denied)
    with pytest.raises(CheckpointError, match=r"unreadable: .*Permission denied"):
        wb.guess(tmp_path)
