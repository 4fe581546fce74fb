"""Images among tokens: a small Llava on the CPU, and a real one on meta, do what is predicted.

The counts are torch's own, and saved bytes are those of a hook: nothing here records operations.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

import weighbridge as wb
from weighbridge.algebra.expr import evaluate, parse
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


@pytest.mark.parametrize(("batch", "sequence", "images"), RUNS)
def test_a_small_llava_on_the_cpu(batch: int, sequence: int, images: int) -> None:
    run = {"batch": batch, "sequence": sequence, "images": images or None}
    settings = {"profile": "cuda-eager", "dtype": "f32"}
    cost = wb.cost(SMALL, CLASS, train=True, **run, **settings)
    config = transformers.LlavaConfig(**SMALL)
    config._attn_implementation = "eager"
    module = transformers.LlavaForConditionalGeneration(config).train()
    inputs = given(batch, sequence, images, 15)
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
    used = wb.cost(SMALL, CLASS, **run, **settings)
    assert sum(storage.nbytes() for storage in storages(cache, {}).values()) == used.cache_bytes


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
