"""Checkpoints for tests: safetensors files with a hole for data, and GGUF files of zeros."""

import json
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path

import weighbridge as wb
from weighbridge.units import stored_bytes

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]  # dtype and shape by name


def write(path: Path, tensors: Tensors, metadata: Mapping[str, str] | None = None) -> Path:
    """Write a safetensors file with these tensors; its data takes no space on disk."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + stored_bytes(prod(shape), dtype)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return path


# Small models of several families, and the names of their tensors in GGUF

Stored = dict[str, tuple[str, tuple[int, ...]]]
Config = dict[str, object]

LLAMA: Config = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "head_dim": 16,
}
MIXTRAL = {
    **LLAMA,
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "num_local_experts": 4,
}
T5: Config = {
    "model_type": "t5",
    "d_model": 24,
    "d_ff": 48,
    "d_kv": 12,
    "num_heads": 2,
    "num_layers": 2,
    "vocab_size": 40,
}
BERT: Config = {
    "model_type": "bert",
    "hidden_size": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 40,
}


def as_gguf(config: Config, path: Path, architecture: str) -> Path:
    """Write a model's tensors to a GGUF file, with the names that the reference library uses."""
    import gguf
    import numpy as np

    named = config["architectures"]
    assert isinstance(named, list)
    layers = config.get("num_hidden_layers", config.get("num_layers"))
    assert isinstance(layers, int)
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(kinds[architecture], layers)
    stacks = dict[str, tuple[int, ...]]()
    for row in wb.weigh(config, named[0]).stored_rows:
        if row.tied_to:
            continue
        name, shape = row.name, row.shape
        if ".experts." in name:
            before, _, after = name.partition(".experts.")
            name, shape = f"{before}.experts.{after.partition('.')[2]}", (4, *shape)
        short = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert short or "pooler" in name, name
        if short:
            stacks[short] = shape
    writer = gguf.GGUFWriter(path, architecture)
    for name, shape in reversed({**stacks, "rope_freqs.weight": (8,)}.items()):
        writer.add_tensor(name, np.zeros(shape, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


GGUF: dict[str, tuple[str, Config]] = {
    "llama": ("llama", LLAMA),
    "mixtral": ("llama", MIXTRAL),
    "qwen2": ("qwen2", {**LLAMA, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}),
    "qwen3": ("qwen3", {**LLAMA, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}),
    "gemma2": ("gemma2", {**LLAMA, "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]}),
    "phi3": (
        "phi3",
        {**LLAMA, "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "pad_token_id": 0},
    ),
    "t5": ("t5", {**T5, "architectures": ["T5ForConditionalGeneration"]}),
    "bert": ("bert", {**BERT, "architectures": ["BertModel"], "intermediate_size": 48}),
}


def as_tensorflow(name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Return the name and the stored shape of a BERT tensor in Google's releases."""
    for ours, theirs in (
        ("cls.predictions.bias", "cls.predictions.output_bias"),
        ("seq_relationship.", "seq_relationship.output_"),
    ):
        name = name.replace(ours, theirs)
    path, _, last = name.rpartition(".")
    if "LayerNorm" in path:
        last = {"weight": "gamma", "bias": "beta"}[last]
    elif path.endswith("_embeddings"):
        return path.replace(".", "/"), shape
    elif last == "weight":
        last, shape = "kernel", shape[::-1]
    elif last == "output_weight":
        last = "output_weights"
    return f"{re.sub(r'[.](?=[0-9])', '_', path)}.{last}".replace(".", "/"), shape
