"""Costs of real configs at full size, against torch's own counter on the meta device.

Nothing here is shared with what recorded the operations: FLOPs are counted by torch, saved bytes by
a hook, and the bytes of a cache by walking through it.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from attacking.running import COUNTED, storages
from torch.utils.flop_counter import FlopCounterMode

from weighbridge import data
from weighbridge.blueprint import operations
from weighbridge.costs import costs
from weighbridge.errors import ModelError
from weighbridge.models import find as models

REAL = Path(__file__).parents[2] / "data" / "real"
BATCH, SEQUENCE, TARGET, PAST = 1, 192, 96, 160
ONE_IN = 3
"""A run tries a third of the configs, which one depends on its seed."""
SKIPPED = ("auto_map", "dtype", "torch_dtype", "quantization_config", "architectures")


def is_recorded(values: dict[str, Any]) -> bool:
    """Whether the family of a config has operations of format 2."""
    family = values.get("model_type")
    known = family in operations.available()
    return known and data.read_toml(f"operations/{family}.toml")["format"] == 2


def values_of(name: str) -> dict[str, Any]:
    """Return a real config, or that of its text model where that one alone is recorded."""
    values: dict[str, Any] = json.loads((REAL / name).read_text(encoding="utf-8"))
    return values if is_recorded(values) else values.get("text_config", values)


def recorded() -> list[str]:
    """Return the real configs of families with operations, or with those of their text models."""
    return [path.name for path in sorted(REAL.glob("*.json")) if is_recorded(values_of(path.name))]


def config_of(values: dict[str, Any]) -> Any:
    values = dict(values)
    family = values.pop("model_type")
    values = {name: value for name, value in values.items() if name not in SKIPPED}
    return transformers.AutoConfig.for_model(family, **values)


def built(config: Any, class_name: str, dtype: str = "BF16") -> Any:
    config._attn_implementation = "eager"
    for field in dropouts(vars(config)):  # the meta device keeps other masks than CUDA
        setattr(config, field, 0.0)
    usual = torch.get_default_dtype()
    torch.set_default_dtype({"BF16": torch.bfloat16, "F32": torch.float32}[dtype])
    try:
        with torch.device("meta"):
            return getattr(transformers, class_name)(config)
    finally:
        torch.set_default_dtype(usual)


def dropouts(fields: dict[str, Any]) -> list[str]:
    return [name for name, value in fields.items() if "drop" in name and type(value) is float]


def read_by(config: Any, sequence: int, target: int) -> dict[str, Any]:
    """Return the inputs of a class: texts, or sounds or texts and what a decoder reads."""
    tokens = torch.zeros(BATCH, sequence, dtype=torch.long, device="meta")
    if not config.is_encoder_decoder:
        flags = {"use_cache": False} if hasattr(config, "use_cache") else {}
        return {"input_ids": tokens, "labels": tokens.clone(), **flags}
    after = torch.zeros(BATCH, target, dtype=torch.long, device="meta")
    given: dict[str, Any] = {"decoder_input_ids": after, "use_cache": False}
    given["labels"] = after.clone()
    if hasattr(config, "num_mel_bins"):
        shape = (BATCH, config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": torch.zeros(shape, device="meta", dtype=torch.bfloat16), **given}
    return {"input_ids": tokens, **given}


def trained(module: Any, given: dict[str, Any]) -> tuple[int, int]:
    """Return the FLOPs of a forward pass by torch's counter, and the bytes that it saves."""
    held = storages([*module.parameters(), *module.buffers()])
    saved: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in held:
            saved[storage._cdata] = storage  # kept, so that no other one gets its address
        return tensor

    with (
        FlopCounterMode(display=False, custom_mapping=COUNTED) as counter,
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        module(**given)
    return counter.get_total_flops(), sum(storage.nbytes() for storage in saved.values())


@pytest.mark.sampled("src/weighbridge/costs", "src/weighbridge/data/operations")
@pytest.mark.parametrize("name", recorded())
def test_a_real_config_costs_what_torch_counts(
    name: str, seed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if zlib.crc32(f"{seed} {name}".encode()) % ONE_IN:
        pytest.skip("left to another seed")
    values = values_of(name)
    (tmp_path / name).write_text(json.dumps(values), encoding="utf-8")
    if not check_full_size(models.find(str(tmp_path / name)), values, monkeypatch):
        pytest.skip("refused")


# Released models with what `[turned]` names, otherwise than their config class assumes.
TURNED = [
    "google/flan-t5-base",
    "nghuyong/ernie-3.0-base-zh",
    "facebook/opt-350m",
    "CohereForAI/c4ai-command-r-plus",
    "albert/albert-xlarge-v1",
    "zai-org/GLM-4.5",
    "EleutherAI/gpt-neox-20b",
    "microsoft/Phi-4-mini-instruct",
    "google/pegasus-xsum",
    "facebook/mbart-large-50-many-to-many-mmt",
]


@pytest.mark.sampled("src/weighbridge/costs", "src/weighbridge/data/operations")
@pytest.mark.parametrize("name", TURNED)
def test_a_release_unlike_its_config_class_costs_what_torch_counts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = models.find(name)
    assert data.read_toml("facts/running.toml")["turned"][found.blueprint.family]
    values = {**found.config, "model_type": found.blueprint.family}
    assert check_full_size(found, values, monkeypatch)


def check_full_size(
    found: models.Model, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Check a config against torch; return whether it is answered."""
    # They look at values, which the meta device does not have: each text is one sequence, and no
    # token of it is masked.
    masks = transformers.masking_utils
    ignores = masks._ignore_bidirectional_mask_sdpa
    monkeypatch.setattr(masks, "find_packed_sequence_indices", lambda _: None)
    monkeypatch.setattr(
        masks, "_ignore_bidirectional_mask_sdpa", lambda _, *more: ignores(None, *more)
    )
    monkeypatch.setattr(
        transformers.PreTrainedModel, "warn_if_padding_and_no_attention_mask", lambda *_: None
    )
    known = operations.load_operations(found.blueprint.family)
    config = config_of(values)
    rope = getattr(config, "rope_parameters", None) or {}
    turned = {"partial_rotary_factor": rope.get("partial_rotary_factor", 1.0)}
    fields = {**turned, **found.as_read}
    if known.unheld(fields):
        return False
    run = {"batch": BATCH, "sequence": SEQUENCE, "target": TARGET, "past": PAST}
    run |= {"dtype": "BF16", "device": "cuda"}
    names = known.names(fields, **run, **dict.fromkeys(dropouts(known.fields), 0.0))
    try:
        known.check_sizes(known.base_class, "saved", names)
    except ModelError:
        return False
    module = built(config, known.base_class).train()
    given = read_by(module.config, SEQUENCE, TARGET)
    flops, saved_bytes = trained(module, given)
    forward = known.bind(known.base_class, "forward", names)
    assert costs.matmul_flops(forward) == flops
    kept = known.bind(known.base_class, "saved", names)
    assert costs.saved_for_backward_bytes(kept, "BF16") == saved_bytes
    if not module.can_generate():
        return True
    prompt = read_by(module.config, SEQUENCE if "decoder_input_ids" in given else PAST, PAST)
    prompt = {
        name: tensor for name, tensor in prompt.items() if name not in ("labels", "use_cache")
    }
    cache = module.eval()(**prompt, use_cache=True).past_key_values
    with torch.no_grad():
        last = {name: tensor[:, :1] for name, tensor in prompt.items() if name.endswith("_ids")}
        if "decoder_input_ids" in last:
            last = {**prompt, "decoder_input_ids": last["decoder_input_ids"]}
        module(**last, past_key_values=cache, use_cache=True)
    stepped = known.bind(known.base_class, "stepped", names)
    held_now = storages(cache)
    assert costs.saved_for_backward_bytes(stepped, "BF16") == sum(held_now.values())
    return True


# The sizes of Qwen3.5-0.8B, Qwen3-Next and Kimi-Linear-48B-A3B, with four layers.
IN_CHUNKS: dict[str, dict[str, Any]] = {
    "qwen3_5_text": {
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "head_dim": 256,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "vocab_size": 248320,
        "tie_word_embeddings": True,
    },
    "qwen3_next": {
        "hidden_size": 2048,
        "intermediate_size": 5120,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "num_experts": 32,
        "num_experts_per_tok": 10,
        "head_dim": 256,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
    },
    "kimi_linear": {
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "moe_intermediate_size": 1024,
        "num_experts": 32,
        "num_experts_per_token": 8,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "num_attention_heads": 32,
        "vocab_size": 163840,
    },
}
ONE_KIND_OF_HEADS = ("kimi_linear",)
"""Those whose linear attention has as many heads of keys as of values."""
LENGTHS = ((1, 64, 63), (2, 128, 64), (1, 100, 2), (3, 200, 65))
"""Batches, sequences and pasts: whole chunks of 64 tokens, and others."""


@pytest.mark.sampled("src/weighbridge/costs", "src/weighbridge/data/operations")
@pytest.mark.parametrize(
    ("family", "dtype"),
    # torch's product of groups, that of the experts, takes BF16 alone on the meta device
    [
        ("qwen3_5_text", "BF16"),
        ("qwen3_5_text", "F32"),
        ("qwen3_next", "BF16"),
        ("kimi_linear", "BF16"),
    ],
)
@pytest.mark.parametrize("value_heads", [16, 32])
def test_linear_attention_in_chunks_costs_what_torch_counts(
    family: str, dtype: str, value_heads: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(transformers.masking_utils, "find_packed_sequence_indices", lambda _: None)
    heads = {"linear_num_key_heads": 16, "linear_num_value_heads": value_heads}
    fields: dict[str, Any] = {
        **IN_CHUNKS[family],
        "num_hidden_layers": 4,
        "layer_types": [*["linear_attention"] * 3, "full_attention"],
        **({"linear_num_heads": value_heads} if family in ONE_KIND_OF_HEADS else heads),
    }
    check_runs(family, fields, dtype, LENGTHS, partial_rotary_factor=0.25)


def check_runs(
    family: str, fields: dict[str, Any], dtype: str, lengths: Any, **read: float
) -> None:
    """Check runs of a config against torch; ``read`` is what its code reads besides its fields."""
    found = models.find({"model_type": family, **fields})
    known = operations.load_operations(family)
    module = built(transformers.AutoConfig.for_model(family, **fields), known.base_class, dtype)
    dtype_and_device = {"dtype": dtype, "device": "cuda"}
    for batch, sequence, past in lengths:
        run = {"batch": batch, "sequence": sequence, "target": sequence, "past": past}
        off = dict.fromkeys(dropouts(known.fields), 0.0)
        names = known.names({**read, **found.as_read}, **run, **dtype_and_device, **off)
        tokens = torch.zeros(batch, sequence, dtype=torch.long, device="meta")
        given = {"input_ids": tokens, "labels": tokens.clone()}
        flops, saved_bytes = trained(module.train(), {**given, "use_cache": False})
        forward = known.bind(known.base_class, "forward", names)
        kept = known.bind(known.base_class, "saved", names)
        assert costs.matmul_flops(forward) == flops
        assert costs.saved_for_backward_bytes(kept, dtype) == saved_bytes
        module.eval()
        with torch.no_grad():
            before = torch.zeros(batch, past, dtype=torch.long, device="meta")
            cache = module(input_ids=before, use_cache=True).past_key_values
            module(input_ids=tokens[:, :1], past_key_values=cache, use_cache=True)
        stepped = known.bind(known.base_class, "stepped", names)
        assert costs.saved_for_backward_bytes(stepped, dtype) == sum(storages(cache).values())


# Families of which no released config is kept here, with fewer layers.
OF_FEW_LAYERS: dict[str, dict[str, Any]] = {
    "exaone4": {"num_hidden_layers": 6, "sliding_window": 100, "sliding_window_pattern": 3},
    "codegen": {"n_layer": 3, "n_embd": 2048, "n_head": 16, "rotary_dim": 32},
    "gptj": {"n_layer": 3, "n_embd": 2048, "n_head": 16},
    "helium": {"num_hidden_layers": 3},
    "xglm": {"num_layers": 3},
}


@pytest.mark.sampled("src/weighbridge/costs", "src/weighbridge/data/operations")
@pytest.mark.parametrize("dtype", ["BF16", "F32"])
@pytest.mark.parametrize("family", OF_FEW_LAYERS)
def test_few_layers_cost_what_torch_counts(family: str, dtype: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(transformers.masking_utils, "find_packed_sequence_indices", lambda _: None)
    monkeypatch.setattr(
        transformers.PreTrainedModel, "warn_if_padding_and_no_attention_mask", lambda *_: None
    )
    lengths = ((1, 192, 160), (3, 77, 99), (2, 100, 100), (1, 101, 1))
    check_runs(family, OF_FEW_LAYERS[family], dtype, lengths)


@pytest.mark.sampled("src/weighbridge/costs", "src/weighbridge/data/operations")
@pytest.mark.parametrize("dtype", ["BF16", "F32"])
@pytest.mark.parametrize("sizes", [{}, {"image_size": 518, "patch_size": 14, "mlp_ratio": 3}])
def test_pictures_with_registers_cost_what_torch_counts(sizes: dict[str, Any], dtype: str) -> None:
    values = {"model_type": "dinov2_with_registers", "num_register_tokens": 7, **sizes}
    found = models.find(values)
    known = operations.load_operations("dinov2_with_registers")
    off = dict.fromkeys(dropouts(known.fields), 0.0)
    run = {"batch": 2, "dtype": dtype, "device": "cuda"}
    names = known.names(found.as_read, **run, **off)
    module = built(config_of(values), known.base_class, dtype).train()
    shape = (2, 3, module.config.image_size, module.config.image_size)
    pictures = torch.zeros(shape, dtype=module.dtype, device="meta")
    labels = torch.zeros(2, dtype=torch.long, device="meta")
    flops, saved_bytes = trained(module, {"pixel_values": pictures, "labels": labels})
    assert costs.matmul_flops(known.bind(known.base_class, "forward", names)) == flops
    kept = known.bind(known.base_class, "saved", names)
    assert costs.saved_for_backward_bytes(kept, dtype) == saved_bytes
