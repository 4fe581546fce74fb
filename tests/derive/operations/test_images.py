"""Images among tokens: a small Llava on the CPU, and a real one on meta, do what is predicted.

The counts are torch's own, and saved bytes are those of a hook: nothing here records operations.
"""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

import weighbridge as wb
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.answers.images import image_size_called, images_of_run
from weighbridge.answers.recorded import recorded
from weighbridge.blueprint import operations
from weighbridge.derive.operations.workload import images_in
from weighbridge.errors import ModelError, UsageError

torch.set_num_threads(1)

LLAVA = Path(__file__).parents[2] / "data" / "real" / "llava-hf__llava-1.5-7b-hf.json"
CLASS = "LlavaForConditionalGeneration"
TOKEN = 7
SMALL: dict[str, Any] = {
    "model_type": "llava",
    "image_token_index": TOKEN,
    "text_config": {
        "model_type": "llama",
        "vocab_size": 90,
        "hidden_size": 32,
        "intermediate_size": 56,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 10,
    },
    "vision_config": {
        "model_type": "clip_vision_model",
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "image_size": 15,
        "patch_size": 5,
    },
}
TOKENS_OF_IMAGE = 9
OF_ANY_SIZE: dict[str, tuple[dict[str, Any], str]] = {
    "qwen2_vl": (
        {
            "model_type": "qwen2_vl",
            "image_token_id": TOKEN,
            "text_config": {
                "vocab_size": 90,
                "hidden_size": 64,
                "intermediate_size": 56,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10000.0,
                    "mrope_section": [4, 2, 2],
                },
            },
            "vision_config": {
                "depth": 3,
                "embed_dim": 48,
                "num_heads": 3,
                "hidden_size": 64,
                "mlp_ratio": 2,
                "patch_size": 5,
            },
        },
        "Qwen2VLForConditionalGeneration",
    ),
    "qwen3_vl": (
        {
            "model_type": "qwen3_vl",
            "image_token_id": TOKEN,
            "text_config": {
                "vocab_size": 90,
                "hidden_size": 48,
                "intermediate_size": 56,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "head_dim": 16,
            },
            "vision_config": {
                "depth": 5,
                "hidden_size": 72,
                "intermediate_size": 100,
                "num_heads": 3,
                "out_hidden_size": 48,
                "patch_size": 5,
                "num_position_embeddings": 49,
                "deepstack_visual_indexes": [1, 4],
            },
        },
        "Qwen3VLForConditionalGeneration",
    ),
}
RUNS_OF_ANY_SIZE = [(1, 40, 1), (2, 60, 3), (3, 31, 1), (1, 20, 0), (2, 12, 0)]
RUNS = [(1, 9, 1), (2, 30, 3), (3, 17, 1), (1, 20, 0), (2, 12, 0)]


def given(batch: int, sequence: int, images: int, side: int) -> dict[str, torch.Tensor]:
    tokens = torch.full((batch, sequence), TOKEN + 1)
    tokens[:, sequence - images * TOKENS_OF_IMAGE :] = TOKEN  # its images are at the end
    if not images:
        return {"input_ids": tokens}
    return {"input_ids": tokens, "pixel_values": torch.zeros(batch * images, 3, side, side)}


def storages(value: Any, found: dict[int, torch.UntypedStorage]) -> dict[int, Any]:
    if isinstance(value, torch.Tensor):
        found[value.untyped_storage()._cdata] = value.untyped_storage()
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            storages(item, found)
    elif hasattr(value, "__dict__"):
        storages(vars(value), found)
    return found


def check_on_the_cpu(
    model: dict[str, Any], class_name: str, inputs: dict[str, torch.Tensor], **run: Any
) -> None:
    """Check what a run is predicted to take against a run on the CPU."""
    (batch, sequence) = inputs["input_ids"].shape
    run |= {"batch": batch, "sequence": sequence, "profile": "cuda-eager", "dtype": "f32"}
    cost = wb.cost(model, class_name, train=True, **run)
    values = {name: value for name, value in model.items() if name != "model_type"}
    config = transformers.AutoConfig.for_model(model["model_type"], **values)
    config._attn_implementation = "eager"
    module = getattr(transformers, class_name)(config).train()
    held = storages([*module.parameters(), *module.buffers()], {})
    saved: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in held:
            saved[storage._cdata] = storage
        return tensor

    with (
        FlopCounterMode(display=False) as counter,
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        labels = inputs["input_ids"].clone()
        loss = module(**inputs, labels=labels, use_cache=False).loss
    assert counter.get_total_flops() == cost.forward_matmul_flops
    assert sum(storage.nbytes() for storage in saved.values()) == cost.saved_for_backward_bytes
    with FlopCounterMode(display=False) as counter:
        loss.backward()
    assert counter.get_total_flops() == cost.backward_matmul_flops
    with torch.no_grad():
        cache = module.eval()(**inputs, use_cache=True).past_key_values
    used = wb.cost(model, class_name, **run)
    assert sum(storage.nbytes() for storage in storages(cache, {}).values()) == used.cache_bytes


@pytest.mark.parametrize(("batch", "sequence", "images"), RUNS)
def test_a_small_llava_on_the_cpu(batch: int, sequence: int, images: int) -> None:
    check_on_the_cpu(SMALL, CLASS, given(batch, sequence, images, 15), images=images or None)


@pytest.mark.parametrize(("batch", "sequence", "images"), RUNS_OF_ANY_SIZE)
@pytest.mark.parametrize("grid", [(4, 6), (2, 2), (10, 4)])
@pytest.mark.parametrize("family", OF_ANY_SIZE)
def test_images_of_any_size_on_the_cpu(
    family: str, grid: tuple[int, int], batch: int, sequence: int, images: int
) -> None:
    rows, columns = grid
    tokens = torch.full((batch, sequence), TOKEN + 1)
    marks = torch.zeros_like(tokens)
    of_image = rows * columns // 4
    for place in range(images):  # its images are at the end, with a token after each
        start = sequence - (place + 1) * (of_image + 1)
        tokens[:, start : start + of_image] = TOKEN
        marks[:, start : start + of_image] = 1
    inputs = {"input_ids": tokens}
    run: dict[str, Any] = {}
    if images:
        inputs["mm_token_type_ids"] = marks
        inputs["image_grid_thw"] = torch.tensor([[1, rows, columns]] * (batch * images))
        inputs["pixel_values"] = torch.rand(batch * images * rows * columns, 3 * 2 * 5 * 5)
        run = {"images": images, "image_size": (rows * 5, columns * 5)}
    model, class_name = OF_ANY_SIZE[family]
    check_on_the_cpu(model, class_name, inputs, **run)


@pytest.mark.parametrize("images", [0, 1, 2])
def test_a_real_llava_on_meta(images: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Both look at values, which the meta device does not have.
    monkeypatch.setattr(torch, "_check_tensor_all_with", lambda *_: None)
    monkeypatch.setattr(transformers.masking_utils, "find_packed_sequence_indices", lambda _: None)
    values = json.loads(LLAVA.read_text(encoding="utf-8"))
    cost = wb.cost(str(LLAVA), images=images or None, dtype="bf16")
    assert cost.run.sequence == 128 + images * 576
    with torch.device("meta"):
        config = transformers.LlavaConfig(**values)
        config._attn_implementation = "eager"
        module = transformers.LlavaForConditionalGeneration(config)
        inputs = {"input_ids": torch.zeros(1, cost.run.sequence, dtype=torch.long)}
        if images:
            inputs["pixel_values"] = torch.zeros(images, 3, 336, 336, dtype=module.dtype)
        with FlopCounterMode(display=False) as counter:
            module(**inputs, use_cache=False)
    assert counter.get_total_flops() == cost.forward_matmul_flops


QWEN = LLAVA.with_name("Qwen__Qwen3-VL-4B-Instruct.json")


def processors_size(height: int, width: int) -> tuple[int, int]:
    """Return the size that transformers' processor gives to an image, between its limits."""
    folder = Path(transformers.__file__).parent / "models" / "qwen2_vl"
    source = (folder / "image_processing_qwen2_vl.py").read_text(encoding="utf-8")
    (function,) = (
        node for node in ast.parse(source).body if getattr(node, "name", "") == "smart_resize"
    )
    names: dict[str, Any] = {"math": math}
    exec(ast.unparse(function), names)  # noqa: S102  # the processor itself needs torchvision
    size: tuple[int, int] = names["smart_resize"](height, width, 32, 0, 10**9)
    return size


@pytest.mark.parametrize("size", [(448, 448), (1080, 1920), (99, 1000), (32, 32), (70, 98)])
def test_an_image_is_as_large_as_the_processor_makes_it(size: tuple[int, int]) -> None:
    found = images_of_run(recorded(str(QWEN)), 3, size)
    height, width = processors_size(*size)
    assert found.size == (height, width)
    assert found.patches == height * width // 16**2
    assert found.tokens == 3 * (height * width // 32**2)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"images": 1}, "reads images of any size"),
        ({"image_size": (448, 448)}, "--image-size needs --images"),
        ({"images": 1, "image_size": (0, 448)}, "must be a positive integer"),
        ({"images": 2, "image_size": (448, 448), "sequence": 391}, "image_tokens = 392"),
    ],
)
def test_images_that_make_no_sense_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        wb.cost(str(QWEN), **asked)


def test_images_whose_size_the_config_states_have_no_other() -> None:
    with pytest.raises(UsageError, match="says how large its images are"):
        wb.cost(str(LLAVA), images=1, image_size=(336, 336))


@pytest.mark.parametrize(
    "text", ["448", "448x", "0x448", "axb", "448x448x3", "448x9999999", "-1x3"]
)
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no height and width"):
        image_size_called(text)


def test_layers_that_follow_to_be_of_another_type_are_refused() -> None:
    model, class_name = OF_ANY_SIZE["qwen2_vl"]
    windows = {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1}
    fields = {f"text_config.{name}": value for name, value in windows.items()}
    with pytest.raises(ModelError, match="sliding_attention"):
        wb.cost(model, class_name, fields=fields)
    with pytest.raises(ModelError, match="sliding_attention"):
        wb.cache(model, class_name, context=128, fields=fields)


def test_a_list_that_names_no_layer_is_refused() -> None:
    model, class_name = OF_ANY_SIZE["qwen3_vl"]
    listed = {"vision_config.deepstack_visual_indexes": [1, 5]}
    with pytest.raises(ModelError, match="recorded only with len"):
        wb.cost(model, class_name, fields=listed).to_dict()


def test_the_file_says_how_many_tokens_an_image_has() -> None:
    tokens = operations.load_operations("llava").image_tokens
    assert tokens == parse(images_in(CLASS)["tokens"])
    assert evaluate(tokens, operations.load_operations("llava").names({})) == 576


def test_a_sequence_shorter_than_its_images_is_refused() -> None:
    message = r"shorter than its images \(seq = 600, images = 2, image_tokens = 1152\)"
    with pytest.raises(UsageError, match=message):
        wb.cost(str(LLAVA), images=2, sequence=600)


@pytest.mark.parametrize(
    "parts",
    [{"text_config": {"model_type": "mistral"}}, {"vision_config": {"model_type": "dinov2"}}],
)
def test_other_parts_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="recorded only with its usual parts"):
        wb.cost({**parts, "model_type": "llava"}, images=1)


@pytest.mark.parametrize(
    "changed", [{"vision_feature_select_strategy": "full"}, {"vision_feature_layer": -1}]
)
def test_other_features_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="recorded only with vision_feature"):
        wb.cost({"model_type": "llava", **changed}, images=1)
