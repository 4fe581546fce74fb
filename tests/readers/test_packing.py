"""Packed weights in quantised checkpoints: every way of packing, and known totals of models."""

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import Tensors, write

import weighbridge as wb
from weighbridge import data
from weighbridge.errors import CheckpointError
from weighbridge.readers import read

REAL = Path(__file__).parents[1] / "data" / "real"

# For each packing: how it stores a weight with 64 outputs and 128 inputs, in groups of 32. The
# tensors have the shapes that the library in `source` gives them.
WAYS: dict[str, tuple[Tensors, float]] = {
    "GPTQ": (
        {
            "l.qweight": ("I32", (16, 64)),
            "l.qzeros": ("I32", (4, 8)),
            "l.scales": ("F16", (4, 64)),
            "l.g_idx": ("I32", (128,)),
        },
        4,
    ),
    "AWQ": (
        {"l.qweight": ("I32", (128, 8)), "l.qzeros": ("I32", (4, 8)), "l.scales": ("F16", (4, 64))},
        4,
    ),
    "EXL2": (
        {
            "l.q_weight": ("I32", (13, 64)),
            "l.q_scale": ("I32", (4, 8)),
            "l.q_scale_max": ("F16", (4,)),
            "l.q_groups": ("I16", (8,)),
            "l.q_invperm": ("I32", (128,)),
        },
        0,
    ),
    "bitsandbytes, 4 bits": (
        {
            "l.weight": ("U8", (4096, 1)),
            "l.weight.absmax": ("U8", (128,)),
            "l.weight.nested_absmax": ("F32", (1,)),
            "l.weight.nested_quant_map": ("F32", (256,)),
            "l.weight.quant_map": ("F32", (16,)),
            "l.weight.quant_state.bitsandbytes__nf4": ("U8", (90,)),
        },
        4,
    ),
    "bitsandbytes, 8 bits": (
        {"l.weight": ("I8", (64, 128)), "l.SCB": ("F32", (64,)), "l.weight_format": ("U8", ())},
        8,
    ),
    "NVFP4 of compressed-tensors": (
        {
            "l.weight_packed": ("U8", (64, 64)),
            "l.weight_scale": ("F8_E4M3", (64, 8)),
            "l.weight_global_scale": ("F32", (1,)),
            "l.input_global_scale": ("F32", (1,)),
        },
        4,
    ),
    "MXFP4 of compressed-tensors": (
        {"l.weight_packed": ("U8", (64, 64)), "l.weight_scale": ("U8", (64, 4))},
        4,
    ),
    "MXFP6 of compressed-tensors": (
        {"l.weight_packed": ("U8", (64, 96)), "l.weight_scale": ("U8", (64, 4))},
        6,
    ),
    "compressed-tensors, groups": (
        {
            "l.weight_packed": ("I32", (64, 16)),
            "l.weight_scale": ("BF16", (64, 4)),
            "l.weight_zero_point": ("I32", (8, 4)),
            "l.weight_shape": ("I64", (2,)),
        },
        4,
    ),
    "compressed-tensors": (
        {
            "l.weight_packed": ("I32", (64, 16)),
            "l.weight_scale": ("BF16", (64, 1)),
            "l.weight_shape": ("I64", (2,)),
        },
        4,
    ),
    "NVFP4 of ModelOpt": (
        {
            "l.weight": ("U8", (64, 64)),
            "l.weight_scale": ("F8_E4M3", (64, 8)),
            "l.weight_scale_2": ("F32", ()),
            "l.input_scale": ("F32", ()),
        },
        4,
    ),
    "BitNet": ({"l.weight": ("U8", (16, 128)), "l.weight_scale": ("BF16", (1,))}, 2),
    "8 bits with scales": (
        {"l.weight": ("F8_E4M3", (64, 128)), "l.weight_scale_inv": ("F32", (1, 1))},
        8,
    ),
    "8 bits with scales, experts in one": (
        {"e.up_proj": ("F8_E4M3", (4, 128, 16)), "e.up_proj_scale_inv": ("F32", (4, 1, 1))},
        8,
    ),
    "MXFP4": (
        {"e.up_proj_blocks": ("U8", (4, 16, 4, 16)), "e.up_proj_scales": ("U8", (4, 16, 4))},
        4,
    ),
    "MXFP4, MXFP8 or NVFP4 of MLX": (
        {"l.weight": ("U32", (64, 16)), "l.scales": ("U8", (64, 4))},
        4,
    ),
    "MLX": (
        {"l.weight": ("U32", (64, 16)), "l.scales": ("F16", (64, 4)), "l.biases": ("F16", (64, 4))},
        4,
    ),
    "Quanto, 2 or 4 bits": (
        {
            "l.weight._data._data": ("U8", (128, 32)),
            "l.weight._scale": ("F32", (256, 1)),
            "l.weight._shift": ("F32", (256, 1)),
        },
        4,
    ),
    "HQQ": (
        {
            "l.W_q": ("U8", (128, 32)),
            "l.scale": ("F16", (256, 1)),
            "l.zero": ("F16", (256, 1)),
            "l.shape": ("I64", (2,)),
            "l.nbits": ("I32", ()),
        },
        4,
    ),
    "HQQ, 3 bits": (
        {
            "l.W_q": ("I32", (26, 32)),
            "l.scale": ("F16", (256, 1)),
            "l.zero": ("F16", (256, 1)),
        },
        3,
    ),
    "HQQ, groups in columns": (
        {
            "l.W_q": ("I32", (4, 256)),
            "l.scale": ("F16", (1, 256)),
            "l.zero": ("F16", (1, 256)),
        },
        3,
    ),
    "torchao, 8 bits": (
        {
            "_l_qdata": ("I8", (64, 128)),
            "_l_scale": ("BF16", (64, 1)),
            "_l_zero_point": ("I8", (64, 1)),
        },
        8,
    ),
    "torchao, 4 bits": (
        {
            "_l_qdata": ("I32", (8, 1, 32, 4)),
            "_l_scale_and_zero": ("BF16", (4, 64, 2)),
        },
        4,
    ),
    "torchao, NVFP4 or MXFP4": (
        {
            "_l_qdata": ("U8", (64, 64)),
            "_l_scale": ("F8_E4M3", (64, 8)),
            "_l_per_tensor_scale": ("F32", ()),
        },
        4,
    ),
    "torchao, MXFP8": (
        {"_l_qdata": ("F8_E4M3", (64, 128)), "_l_scale": ("F8_E8M0", (64, 4))},
        8,
    ),
    "Quanto": (
        {
            "l.weight._data": ("I8", (64, 128)),
            "l.weight._scale": ("F32", (64, 1)),
            "l.input_scale": ("F32", ()),
        },
        8,
    ),
    "8 bits of ONNX": (
        {"m_quantized": ("I8", (128, 64)), "m_scale": ("F32", ()), "m_zero_point": ("I8", ())},
        8,
    ),
    "8 bits of ONNX, cast and scaled": ({"m_q": ("I8", (128, 64)), "m_scale": ("F32", (1, 64))}, 8),
    "4 bits of ONNX": (
        {"m_Q4": ("U8", (64, 4, 16)), "m_scales": ("F32", (256,)), "m_zero_points": ("U8", (128,))},
        4,
    ),
}
SHAPES = {
    "bitsandbytes, 4 bits": None,
    "Quanto, 2 or 4 bits": None,
    "HQQ": None,
    "HQQ, 3 bits": None,
    "HQQ, groups in columns": None,
    "8 bits with scales, experts in one": (4, 128, 16),
    "MXFP4": (4, 128, 16),
    "8 bits of ONNX": (128, 64),
    "8 bits of ONNX, cast and scaled": (128, 64),
    "4 bits of ONNX": (128, 64),
}
MLX = {"quantization": {"bits": 4, "group_size": 32}}
GROUPS = {
    "quantization_config": {
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32}}}
    }
}
OF_HQQ = {
    "quantization_config": {"quant_config": {"weight_quant_params": {"nbits": 3, "group_size": 32}}}
}
BITS = {
    "compressed-tensors": GROUPS,
    "compressed-tensors, groups": GROUPS,
    "HQQ, groups in columns": OF_HQQ,
    "MLX": MLX,
    "MXFP4, MXFP8 or NVFP4 of MLX": MLX,
}
TYPES = {
    "torchao, 8 bits": {"_type": "Int8Tensor"},
    "torchao, 4 bits": {"_type": "Int4TilePackedTo4dTensor", "_data": {"shape": [64, 128]}},
    "torchao, NVFP4 or MXFP4": {"_type": "NVFP4Tensor"},
    "torchao, MXFP8": {"_type": "MXTensor"},
}


def metadata(way: str) -> dict[str, str]:
    """Return what torchao writes into the header."""
    return {"l": json.dumps(TYPES[way])} if way in TYPES else {}


def say(folder: Path, config: object, name: str = "config.json") -> None:
    (folder / name).write_text(json.dumps(config))


def test_every_way_of_packing_is_tried() -> None:
    assert WAYS.keys() == data.read_toml("facts/packings.toml").keys()


@pytest.mark.parametrize("way", WAYS)
def test_a_packed_weight_has_its_logical_shape(way: str, tmp_path: Path) -> None:
    tensors, bits = WAYS[way]
    say(tmp_path, BITS.get(way, {}))
    stored_with_bias = {"l.bias": ("F32", (64,)), **tensors}
    found = read(write(tmp_path / "model.safetensors", stored_with_bias, metadata(way)))
    stored, *beside = tensors
    assert {name: of.packing for name, of in found.packed.items()} == {stored: way}
    of = found.packed[stored]
    assert of.shape == SHAPES.get(way, (64, 128))
    assert of.elements == 64 * 128
    assert of.bits == (bits or None)
    assert sorted(of.beside) == sorted(beside), "all tensors beside it are known"
    rows = {row.name: row for row in found.rows}
    assert rows["l.bias"].parameters == 64
    assert {name: rows[name].parameters for name in beside} == dict.fromkeys(beside, 0)
    assert all(rows[name].role.startswith("quantization.") for name in beside)
    assert sum(row.parameters for row in found.rows) == 64 * 128 + 64
    assert (
        sum(row.bytes for row in found.rows) + found.header_bytes
        == (tmp_path / "model.safetensors").stat().st_size
    )


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_the_bits_of_gptq_follow_from_its_shapes(bits: int, tmp_path: Path) -> None:
    tensors = {
        "l.qweight": ("I32", (96 * bits // 32, 64)),
        "l.qzeros": ("I32", (3, 64 * bits // 32)),
        "l.scales": ("F16", (3, 64)),
    }
    of = read(write(tmp_path / "a.safetensors", tensors)).packed["l.qweight"]
    assert (of.packing, of.shape, of.bits) == ("GPTQ", (64, 96), bits)


@pytest.mark.parametrize("way", BITS)
def test_unknown_bits_are_not_guessed(way: str, tmp_path: Path) -> None:
    tensors, _ = WAYS[way]
    found = wb.inspect(write(tmp_path / "model.safetensors", tensors))
    assert found.checkpoint.packed[next(iter(tensors))].elements is None
    words = next(iter(tensors.values()))[1]
    assert found.parameters == words[0] * words[1], "the stored words"
    assert "an unknown number of bits" in " ".join(found.text().split())


def test_a_module_may_have_bits_of_its_own(tmp_path: Path) -> None:
    say(
        tmp_path,
        {"quantization": {"bits": 4, "group_size": 32, "b": {"bits": 8, "group_size": 32}}},
    )
    of_each = {
        name.replace("l", path, 1): of for path in "ab" for name, of in WAYS["MLX"][0].items()
    }
    packed = read(write(tmp_path / "model.safetensors", of_each)).packed
    assert {name: of.shape for name, of in packed.items()} == {
        "a.weight": (64, 128),
        "b.weight": (64, 64),
    }


def test_groups_of_different_widths_determine_nothing(tmp_path: Path) -> None:
    groups = {str(bits): {"weights": {"num_bits": bits}} for bits in (4, 8)}
    say(tmp_path, {"quantization_config": {"config_groups": groups}})
    found = read(write(tmp_path / "model.safetensors", WAYS["compressed-tensors, groups"][0]))
    assert found.packed["l.weight_packed"].bits is None


@pytest.mark.parametrize(
    "stated",
    [{}, {"bits": "4"}, {"bits": 0}, {"bits": True}, {"bits": 10**6}, {"config_groups": [1]}],
)
def test_an_invalid_width_is_ignored(stated: dict[str, Any], tmp_path: Path) -> None:
    say(tmp_path, {"quantization_config": stated})
    found = read(write(tmp_path / "model.safetensors", WAYS["MLX"][0]))
    assert found.packed["l.weight"].bits is None


def test_a_config_that_is_too_long_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(" " * 2**21 + "{}")
    with pytest.raises(
        CheckpointError, match=r"config\.json: config-limit: a config may have at most"
    ):
        read(write(tmp_path / "a.safetensors", WAYS["MLX"][0]))


def test_a_needed_config_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    assert not read(write(tmp_path / "a.safetensors", {"a": ("F32", (2,))})).packed, (
        "the config is not needed"
    )
    with pytest.raises(CheckpointError, match=r"config\.json: json: the text must be valid JSON"):
        read(write(tmp_path / "a.safetensors", WAYS["MLX"][0]))


@pytest.mark.parametrize(
    "tensors",
    [
        {"l.qweight": ("I32", (16, 60)), "l.qzeros": ("I32", (4, 8)), "l.scales": ("F16", (4, 64))},
        {"l.qweight": ("I32", (16, 64)), "l.qzeros": ("I32", (4, 0)), "l.scales": ("F16", (4, 64))},
        {"l.qweight": ("I32", (16,)), "l.qzeros": ("I32", ()), "l.scales": ("F16", ())},
        {"l.qweight": ("F16", (16, 64)), "l.qzeros": ("I32", (4, 8)), "l.scales": ("F16", (4, 64))},
        {"l.weight": ("U8", (64, 64)), "l.scale": ("F32", (64, 8))},
        {"l.weight_scale": ("F32", (1,)), "l.weight": ("BF16", (64, 64))},
        {"l_blocks": ("U8", (2, 2)), "l_scales": ("U8", (2, 2))},
        {"_l_qdata": ("I8", (64, 128)), "_l_scale": ("F32", (64, 1))},
        {"l.W_q": ("U8", (30, 32)), "l.scale": ("F16", (256, 1)), "l.zero": ("F16", (256, 1))},
    ],
)
def test_tensors_that_only_look_packed_are_left_alone(tensors: Tensors, tmp_path: Path) -> None:
    found = read(write(tmp_path / "model.safetensors", tensors))
    assert not found.packed
    assert all(row.parameters == row.count and not row.role for row in found.rows)


@pytest.mark.parametrize(("bits", "packed_inputs"), [(3, 13), (3, 12), (5, 22), (5, 20), (6, 26)])
def test_the_last_word_of_a_row_may_not_be_full(
    bits: int, packed_inputs: int, tmp_path: Path
) -> None:
    weights = {"weights": {"num_bits": bits, "group_size": 32}}
    say(tmp_path, {"quantization_config": {"config_groups": {"group_0": weights}}})
    tensors = {
        "l.weight_packed": ("I32", (64, packed_inputs)),
        "l.weight_scale": ("BF16", (64, 4)),
    }
    packed = read(write(tmp_path / "model.safetensors", tensors)).packed["l.weight_packed"]
    assert (packed.shape, packed.bits) == ((64, 128), bits)


@pytest.mark.parametrize(
    "statement", ["{", "[1]", "{}", '{"_type": ["Int8Tensor"]}', "{" * 20_000, '{"_data": {}}']
)
def test_metadata_that_states_no_type_is_ignored(statement: str, tmp_path: Path) -> None:
    tensors, _ = WAYS["torchao, 8 bits"]
    assert not read(write(tmp_path / "a.safetensors", tensors, {"l": statement})).packed


def of_causal_lm(name: str) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in the files of a real language model."""
    config = json.loads((REAL / f"{name}.json").read_text())
    return {
        row.name: row.shape
        for row in wb.weigh(config, config["architectures"][0]).stored_rows
        if not row.tied_to
    }


def in_layers(name: str) -> bool:
    return name.startswith("model.layers.") and name.endswith("_proj.weight")


def test_llama_3_1_8b_under_gptq(tmp_path: Path) -> None:
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, shape in of_causal_lm("meta-llama__Llama-3.1-8B").items():
        if not in_layers(name):
            tensors[name] = ("BF16", shape)
            continue
        base, (outputs, inputs) = name.removesuffix("weight"), shape
        tensors[f"{base}qweight"] = ("I32", (inputs // 8, outputs))
        tensors[f"{base}qzeros"] = ("I32", (inputs // 128, outputs // 8))
        tensors[f"{base}scales"] = ("F16", (inputs // 128, outputs))
        tensors[f"{base}g_idx"] = ("I32", (inputs,))
        tensors[f"{base}bias"] = ("F16", (outputs,))
    found = wb.inspect(write(tmp_path / "model.safetensors", tensors))
    assert found.parameters == 8_031_637_504
    biases = sum(row.parameters for row in found.rows if row.name.endswith(".bias"))
    assert biases == 1_376_256
    assert "GPTQ at 4 bits × 224" in found.text()


def test_llama_3_3_70b_w4a16(tmp_path: Path) -> None:
    say(tmp_path, GROUPS)
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    # Llama 3.3 has the same shapes.
    for name, shape in of_causal_lm("meta-llama__Llama-3.1-70B").items():
        if not in_layers(name):
            tensors[name] = ("BF16", shape)
            continue
        base, (outputs, inputs) = name.removesuffix("weight"), shape
        tensors[f"{base}weight_packed"] = ("I32", (outputs, inputs // 8))
        tensors[f"{base}weight_scale"] = ("BF16", (outputs, inputs // 128))
        tensors[f"{base}weight_shape"] = ("I64", (2,))
    assert wb.inspect(write(tmp_path / "model.safetensors", tensors)).parameters == 70_553_706_496


def test_gpt_oss_20b_in_mxfp4(tmp_path: Path) -> None:
    # The larger model differs only in its layers and experts.
    larger = json.loads((REAL / "openai__gpt-oss-120b.json").read_text())
    config = {
        **larger,
        "num_hidden_layers": 24,
        "layer_types": larger["layer_types"][:24],
        "num_local_experts": 32,
    }
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for row in wb.weigh(config, "GptOssForCausalLM").stored_rows:
        if row.name.endswith(("gate_up_proj", "down_proj")):
            experts, inputs, outputs = row.shape
            tensors[f"{row.name}_blocks"] = ("U8", (experts, outputs, inputs // 32, 16))
            tensors[f"{row.name}_scales"] = ("U8", (experts, outputs, inputs // 32))
        else:
            tensors[row.name] = ("BF16", row.shape)
    assert wb.inspect(write(tmp_path / "model.safetensors", tensors)).parameters == 20_914_757_184
