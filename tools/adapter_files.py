"""Writes the headers of small adapters, as PEFT stores them, with their configs.

    python tools/adapter_files.py [NAME ...]

Each file of `tests/data/adapters/` holds the dtype and shape of each tensor, the adapter's config,
that of its base model, and the number of parameters that PEFT trains. The versions are in each
file. Needs transformers, accelerate and peft.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from peft import IA3Config, LoHaConfig, LoraConfig, PromptTuningConfig, get_peft_model

if TYPE_CHECKING:
    from peft import PeftConfig

ADAPTERS = Path(__file__).parents[1] / "tests" / "data" / "adapters"
_LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
}
BASES: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": _LLAMA,
    "MixtralForCausalLM": {**_LLAMA, "num_local_experts": 4},
    "GPT2LMHeadModel": {
        "n_embd": 16,
        "n_layer": 1,
        "n_head": 2,
        "vocab_size": 40,
        "n_positions": 8,
    },
    "BertForSequenceClassification": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 40,
        "max_position_embeddings": 8,
    },
}
_CAUSAL = {"task_type": "CAUSAL_LM"}


def _lora(*targets: str, **options: Any) -> LoraConfig:
    return LoraConfig(target_modules=list(targets), **{"r": 4, **_CAUSAL, **options})


FILES: dict[str, tuple[str, PeftConfig]] = {
    "lora": ("LlamaForCausalLM", _lora("q_proj", "v_proj")),
    "dora": ("LlamaForCausalLM", _lora("q_proj", "down_proj", use_dora=True)),
    "lora-embedding": (
        "LlamaForCausalLM",
        _lora("embed_tokens", "q_proj", modules_to_save=["lm_head"], rank_pattern={"q_proj": 8}),
    ),
    "lora-classifier": (
        "BertForSequenceClassification",
        _lora("query", "value", task_type="SEQ_CLS", bias="lora_only"),
    ),
    "lora-conv1d": ("GPT2LMHeadModel", _lora("c_attn", fan_in_fan_out=True)),
    "lora-experts": (
        "MixtralForCausalLM",
        _lora("q_proj", target_parameters=["mlp.experts.gate_up_proj"]),
    ),
    "lora-tokens": ("LlamaForCausalLM", _lora("q_proj", trainable_token_indices=[1, 2])),
    "ia3": (
        "LlamaForCausalLM",
        IA3Config(
            target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], **_CAUSAL
        ),
    ),
    "loha": ("LlamaForCausalLM", LoHaConfig(r=4, target_modules=["q_proj"], **_CAUSAL)),
    "prompt": ("LlamaForCausalLM", PromptTuningConfig(num_virtual_tokens=5, **_CAUSAL)),
}


def adapter(name: str) -> dict[str, Any]:
    """Return what a test needs of an adapter."""
    class_name, options = FILES[name]
    torch.manual_seed(0)
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**BASES[class_name]))
    config = {"model_type": model.config.model_type, "architectures": [class_name]}
    adapted = get_peft_model(model, options)
    with tempfile.TemporaryDirectory() as folder:
        adapted.save_pretrained(folder)
        with (Path(folder) / "adapter_model.safetensors").open("rb") as file:
            stored = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        saved_config = json.loads((Path(folder) / "adapter_config.json").read_text())
    return {
        "made_by": {package: version(package) for package in ("peft", "transformers", "torch")},
        "trainable": adapted.get_nb_trainable_parameters()[0],
        "config": {**config, **BASES[class_name]},
        "adapter_config": saved_config,
        "metadata": stored.pop("__metadata__", {}),
        "tensors": {key: [value["dtype"], value["shape"]] for key, value in stored.items()},
    }


def main(names: list[str]) -> None:
    """Write the files of these names, or all."""
    ADAPTERS.mkdir(exist_ok=True)
    for name in names or FILES:
        text = json.dumps(adapter(name), separators=(",", ":"))
        (ADAPTERS / f"{name}.json").write_text(text.replace('],"', '],\n"') + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
