"""Writes the headers of a small quantised Llama, as the libraries themselves save it.

    python tests/support/quantised.py > tests/data/quantised.json

It needs transformers, accelerate, bitsandbytes and compressed-tensors. The tests read the file, so
that they need none of them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

SIZES: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
}


def main() -> None:
    """Print the headers of each way of packing, with the config that goes with them."""
    made = {
        "bitsandbytes nf4": _bitsandbytes(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
        "bitsandbytes nf4 twice": _bitsandbytes(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True
        ),
        "bitsandbytes int8": _bitsandbytes(load_in_8bit=True),
        "fp8": _on_meta_fp8(),
        **{name: _compressed(scheme) for name, scheme in _SCHEMES.items()},
    }
    json.dump({"versions": _versions(), "made": made}, sys.stdout, separators=(",", ":"))


_SCHEMES = {
    "compressed-tensors W4A16": "W4A16",
    "compressed-tensors W4A16_ASYM": "W4A16_ASYM",
    "compressed-tensors W8A16": "W8A16",
    "compressed-tensors W8A8": "W8A8",
    "compressed-tensors FP8": "FP8",
    "compressed-tensors FP8_DYNAMIC": "FP8_DYNAMIC",
    "compressed-tensors NVFP4": "NVFP4",
    "compressed-tensors MXFP4A16": "MXFP4A16",
}


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    names = ("torch", "transformers", "bitsandbytes", "compressed-tensors")
    return {name: version(name) for name in names}


def _llama() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, architectures=["LlamaForCausalLM"])).bfloat16()


def _bitsandbytes(**settings: Any) -> dict[str, Any]:
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    with tempfile.TemporaryDirectory() as folder:
        _llama().save_pretrained(folder)
        quantised = AutoModelForCausalLM.from_pretrained(
            folder, quantization_config=BitsAndBytesConfig(**settings), device_map="cpu"
        )
        quantised.save_pretrained(f"{folder}/quantised")
        return _saved(Path(folder, "quantised"))


def _compressed(scheme: str) -> dict[str, Any]:
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import (
        QuantizationConfig,
        QuantizationScheme,
        apply_quantization_config,
        preset_name_to_scheme,
    )

    group: QuantizationScheme = preset_name_to_scheme(scheme, ["Linear"])
    model = _llama()
    settings = QuantizationConfig(config_groups={"group_0": group}, ignore=["lm_head"])
    apply_quantization_config(model, settings)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        compressor.update_config(folder)
        return _saved(Path(folder))


def _on_meta_fp8() -> dict[str, Any]:
    """Return the tensors that transformers expects of an FP8 file; a GPU would write it."""
    import torch
    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import replace_with_fp8_linear

    settings = FineGrainedFP8Config()
    with torch.device("meta"):
        model = _llama()
        replace_with_fp8_linear(model, ["lm_head"], settings, pre_quantized=True)
    return _on_meta(model, settings)


def _on_meta(model: Any, settings: Any) -> dict[str, Any]:
    from weighbridge.units import dtype

    config = json.loads(model.config.to_json_string())
    return {
        "config": {**_short(config), "quantization_config": settings.to_dict()},
        "tensors": {
            name: [dtype(str(tensor.dtype).removeprefix("torch.")), list(tensor.shape)]
            for name, tensor in model.state_dict().items()
        },
    }


def _saved(folder: Path) -> dict[str, Any]:
    """Return the config and the header of a saved model."""
    data = (folder / "model.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    header.pop("__metadata__", None)
    config = json.loads((folder / "config.json").read_text())
    return {
        "config": _short(config),
        "tensors": {name: [entry["dtype"], entry["shape"]] for name, entry in header.items()},
    }


def _short(config: dict[str, Any]) -> dict[str, Any]:
    kept = {*SIZES, "architectures", "model_type", "dtype", "quantization_config"}
    return {name: value for name, value in config.items() if name in kept}


if __name__ == "__main__":
    main()
