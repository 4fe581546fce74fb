"""Writes the headers of small quantised checkpoints, as the libraries themselves store them.

    python tools/packed_files.py [NAME ...]

Each file of `tests/data/packed/` holds the dtype and shape of each tensor that a library has
written for one small Llama, or a whole ONNX model of a small BERT, and the number of parameters
that PyTorch counts in the model before it is packed. Readers need no more. The versions are in
each file. Needs transformers, accelerate, optimum-quanto, hqq, torchao, bitsandbytes,
compressed-tensors, onnx and onnxruntime.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import compressed_tensors.quantization
import onnx
import onnxruntime.quantization
import optimum.quanto
import torch
import torchao.quantization
from compressed_tensors.compressors import ModelCompressor
from hqq.core.quantize import BaseQuantizeConfig
from hqq.models.hf.base import AutoHQQHFModel
from onnxruntime.quantization import matmul_nbits_quantizer as blocks
from torchao.prototype import mx_formats
from transformers import (
    BertConfig,
    BertModel,
    BitsAndBytesConfig,
    LlamaConfig,
    LlamaForCausalLM,
    TorchAoConfig,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PACKED = Path(__file__).parents[1] / "tests" / "data" / "packed"
GROUP = 32
_NOT_CONFIG = ("quantization_config", "transformers_version", "dtype")


def llama(dtype: torch.dtype = torch.float32) -> LlamaForCausalLM:
    """Return a Llama whose sizes all differ, with biases."""
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=96,
        attention_bias=True,
    )
    return LlamaForCausalLM(config).to(dtype)


# Each function quantises the model and saves it in a folder.


def with_quanto(weights: str, folder: Path) -> None:
    """Save with optimum-quanto's own wrapper of transformers."""
    wrapper = optimum.quanto.QuantizedModelForCausalLM
    packed = wrapper.quantize(llama(), weights=getattr(optimum.quanto, weights), exclude="lm_head")
    packed.save_pretrained(folder)


def with_hqq(bits: int, axis: int, folder: Path) -> None:
    """Save with HQQ's own wrapper of transformers."""
    model = llama(torch.float16)
    quantisation = BaseQuantizeConfig(nbits=bits, group_size=GROUP, axis=axis)
    AutoHQQHFModel.quantize_model(model, quantisation, compute_dtype=torch.float16, device="cpu")
    AutoHQQHFModel.save_to_safetensors(model, str(folder))


def with_torchao(kind: str, folder: Path) -> None:
    """Save a model that transformers quantises with torchao as it loads it."""
    kinds: dict[str, Callable[[], Any]] = {
        "int8": torchao.quantization.Int8WeightOnlyConfig,
        "float8": torchao.quantization.Float8WeightOnlyConfig,
        "intx4": partial(torchao.quantization.IntxWeightOnlyConfig, weight_dtype=torch.int4),
        "int8-int4": torchao.quantization.Int8DynamicActivationIntxWeightConfig,
        "nvfp4": mx_formats.NVFP4WeightOnlyConfig,
        "mxfp8": mx_formats.MXDynamicActivationMXWeightConfig,
    }
    _loaded(TorchAoConfig(kinds[kind]()), torch.bfloat16).save_pretrained(folder)


def with_bitsandbytes(options: dict[str, Any], folder: Path) -> None:
    """Save a model that transformers quantises with bitsandbytes as it loads it."""
    _loaded(BitsAndBytesConfig(**options), torch.float16).save_pretrained(folder)


def with_compressed_tensors(scheme_name: str, folder: Path) -> None:
    """Save with one of the schemes that compressed-tensors names."""
    model = llama(torch.bfloat16)
    scheme = compressed_tensors.quantization.preset_name_to_scheme(scheme_name, targets=["Linear"])
    if scheme.weights.group_size:
        scheme.weights.group_size = min(scheme.weights.group_size, GROUP)
    compressed_tensors.quantization.apply_quantization_config(
        model,
        compressed_tensors.quantization.QuantizationConfig(
            config_groups={"group_0": scheme},
            ignore=["lm_head"],
            quantization_status=compressed_tensors.quantization.QuantizationStatus.FROZEN,
        ),
    )
    for name, parameter in model.named_parameters():
        if name.endswith("scale"):
            parameter.data.fill_(0.1)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(folder)
    compressor.update_config(str(folder))


def _loaded(quantisation: object, dtype: torch.dtype) -> LlamaForCausalLM:
    with tempfile.TemporaryDirectory() as folder:
        llama().save_pretrained(folder)
        return LlamaForCausalLM.from_pretrained(
            folder, quantization_config=quantisation, dtype=dtype
        )


# ONNX


def bert() -> BertModel:
    """Return a BERT without two equal tensors, which an export would merge."""
    config = BertConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        vocab_size=40,
        max_position_embeddings=8,
        attn_implementation="eager",
    )
    model = BertModel(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


class _Exported(torch.nn.Module):
    """A model whose forward pass takes only the two usual tensors."""

    def __init__(self, model: BertModel) -> None:
        super().__init__()
        self.bert = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)[1]


_TOKENS = torch.ones(1, 4, dtype=torch.long)
_INPUTS = ["input_ids", "attention_mask"]


class _Calibration:
    """Data for the static quantiser: one batch."""

    def __init__(self) -> None:
        self._batches = [dict.fromkeys(_INPUTS, _TOKENS.numpy())]

    def get_next(self) -> dict[str, Any] | None:
        return self._batches.pop() if self._batches else None


def onnx_static(form: str, source: Path, target: Path) -> None:
    """Quantise weights, biases and activations to 8 bits."""
    onnxruntime.quantization.quantize_static(
        source,
        target,
        _Calibration(),
        quant_format=onnxruntime.quantization.QuantFormat[form],
        per_channel=form == "QDQ",
    )


def onnx_dynamic(source: Path, target: Path) -> None:
    """Quantise weights to 8 bits, and activations as the model runs."""
    onnxruntime.quantization.quantize_dynamic(
        source, target, weight_type=onnxruntime.quantization.QuantType.QInt8
    )


def onnx_blocks(options: dict[str, Any], source: Path, target: Path) -> None:
    """Quantise matrices, or those that options say, in blocks."""
    options = {"block_size": 16, **options}
    if options.pop("as_qdq", False):
        options["quant_format"] = onnxruntime.quantization.QuantFormat.QDQ
    quantiser = blocks.MatMulNBitsQuantizer(
        onnx.load(source), algo_config=blocks.DefaultWeightOnlyQuantConfig(**options)
    )
    quantiser.process()
    quantiser.model.save_model_to_file(str(target))


_GATHERED = {"bits": 4, "op_types_to_quantize": ("MatMul", "Gather")}
FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    **{
        f"quanto-{weights}": ("optimum-quanto", partial(with_quanto, weights))
        for weights in ("qint2", "qint4", "qint8", "qfloat8")
    },
    **{
        f"hqq-{bits}bit-axis{axis}": ("hqq", partial(with_hqq, bits, axis))
        for axis in (0, 1)
        for bits in (1, 2, 3, 4, 8)
    },
    **{
        f"torchao-{kind}": ("torchao", partial(with_torchao, kind))
        for kind in ("int8", "float8", "intx4", "int8-int4", "nvfp4", "mxfp8")
    },
    **{
        f"bitsandbytes-{name}": ("bitsandbytes", partial(with_bitsandbytes, options))
        for name, options in {
            "int8": {"load_in_8bit": True},
            "nf4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
            "nf4-double": {
                "load_in_4bit": True,
                "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_use_double_quant": True,
            },
            "fp4": {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"},
        }.items()
    },
    **{
        f"compressed-tensors-{scheme}": (
            "compressed-tensors",
            partial(with_compressed_tensors, scheme),
        )
        for scheme in (
            *("W2A16", "W3A16", "W4A16", "W4A16_ASYM", "W5A16", "W8A16", "W8A8"),
            *("FP8", "FP8_BLOCK", "NVFP4", "MXFP4", "MXFP6A16", "MXFP8"),
        )
    },
}
ONNX_FILES: dict[str, Callable[[Path, Path], None]] = {
    "onnx-dynamic": onnx_dynamic,
    "onnx-qdq": partial(onnx_static, "QDQ"),
    "onnx-qoperator": partial(onnx_static, "QOperator"),
    "onnx-4bits": partial(onnx_blocks, {"bits": 4}),
    "onnx-4bits-symmetric": partial(onnx_blocks, {"bits": 4, "is_symmetric": True}),
    "onnx-8bits": partial(onnx_blocks, {"bits": 8}),
    "onnx-4bits-qdq": partial(onnx_blocks, {"bits": 4, "as_qdq": True}),
    "onnx-4bits-gather": partial(onnx_blocks, _GATHERED),
}


def header(name: str) -> dict[str, Any]:
    """Return what a test needs of a quantised Llama."""
    library, save = FILES[name]
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder))
        stored = json.loads(_header_of(Path(folder) / "model.safetensors"))
        saved_config = json.loads((Path(folder) / "config.json").read_text())
    whole = llama().config.to_diff_dict()
    return {
        "made_by": {name: version(name) for name in (library, "transformers", "torch")},
        "parameters": sum(parameter.numel() for parameter in llama().parameters()),
        "config": {key: value for key, value in whole.items() if key not in _NOT_CONFIG},
        "quantization_config": saved_config.get("quantization_config"),
        "metadata": stored.pop("__metadata__", {}),
        "tensors": {key: [value["dtype"], value["shape"]] for key, value in stored.items()},
    }


def _header_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(int.from_bytes(file.read(8), "little"))


def onnx_model(quantise: Callable[[Path, Path], None]) -> bytes:
    """Return a quantised BERT, compressed."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "plain.onnx", Path(folder) / "quantised.onnx"
        torch.onnx.export(
            _Exported(bert()),
            (_TOKENS, _TOKENS),
            str(source),
            dynamo=False,
            input_names=_INPUTS,
            opset_version=17,
        )
        quantise(source, target)
        return gzip.compress(target.read_bytes(), mtime=0)


def main(names: list[str]) -> None:
    """Write the files of these names, or all."""
    PACKED.mkdir(exist_ok=True)
    for name in names or (*FILES, *ONNX_FILES):
        print(name, flush=True)
        if name in FILES:
            text = json.dumps(header(name), separators=(",", ":"))
            (PACKED / f"{name}.json").write_text(text.replace('],"', '],\n"') + "\n")
        else:
            (PACKED / f"{name}.onnx.gz").write_bytes(onnx_model(ONNX_FILES[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
