"""Quantised checkpoints, as the libraries themselves have written them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write

import weighbridge as wb

PACKED = Path(__file__).parents[1] / "data" / "packed"
FILES = {path.stem: path for path in sorted(PACKED.glob("*.json"))}
ONE_OF_EACH = ("quanto-qint4", "hqq-4bit-axis1", "torchao-int8", "bitsandbytes-nf4")


def saved(name: str, folder: Path) -> dict[str, Any]:
    """Write a library's file again, with holes in place of numbers, and its config."""
    stored: dict[str, Any] = json.loads(FILES[name].read_text())
    tensors = {key: (dtype, tuple(shape)) for key, (dtype, shape) in stored["tensors"].items()}
    write(folder / "model.safetensors", tensors, stored["metadata"])
    quantisation = {"quantization_config": stored["quantization_config"]}
    (folder / "config.json").write_text(json.dumps({**stored["config"], **quantisation}))
    return stored


@pytest.mark.parametrize("name", FILES)
def test_a_packed_model_has_the_parameters_that_pytorch_counts(name: str, tmp_path: Path) -> None:
    stored = saved(name, tmp_path)
    inspection = wb.inspect(tmp_path)
    unknown = [of for of in inspection.checkpoint.packed.values() if of.elements is None]
    if unknown:
        assert "an unknown number of bits" in " ".join(inspection.text().split())
        differences = wb.verify(tmp_path, tmp_path).differences
        assert {difference.kind for difference in differences} <= {
            "unknown_size",
            "aside",
            "quantised",
        }
        return
    assert inspection.parameters == stored["parameters"]
    assert not inspection.unexplained
    verification = wb.verify(tmp_path, tmp_path)
    assert verification.status == 0, verification.text()


def test_few_packings_leave_the_bits_open(tmp_path: Path) -> None:
    without_bits = []
    for name in FILES:
        saved(name, tmp_path)
        packed = wb.inspect(tmp_path).checkpoint.packed.values()
        assert packed
        if any(weight.elements is None for weight in packed):
            without_bits.append(name)
    assert without_bits == [f"hqq-{bits}bit-axis0" for bits in (1, 2, 3, 4, 8)]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_packed_model_is_guessed(name: str, tmp_path: Path) -> None:
    stored = saved(name, tmp_path)
    guessed = wb.guess(tmp_path / "model.safetensors")
    assert guessed.status == 0, guessed.text()
    assert guessed.best is not None
    assert guessed.best.comparison.expected.parameters == stored["parameters"]
    assert guessed.best.sure["hidden_size"] == 64
    assert guessed.best.sure["intermediate_size"] == 160


def test_packed_checkpoints_are_compared_by_their_elements(tmp_path: Path) -> None:
    for name in ("bitsandbytes-nf4", "quanto-qint4"):
        (tmp_path / name).mkdir()
        saved(name, tmp_path / name)
    one, other = (
        tmp_path / name / "model.safetensors" for name in ("bitsandbytes-nf4", "quanto-qint4")
    )
    changes = wb.verify(one, other)
    assert changes.status == 0, changes.text()


def test_tensors_of_integers_without_a_packing_are_said_to_be_so(tmp_path: Path) -> None:
    tensors = {
        "model.layers.0.mlp.up_proj.codes": ("I16", (64, 16)),
        "model.layers.0.mlp.up_proj.codebooks": ("F16", (1, 256, 1, 8)),
        "model.norm.weight": ("F16", (64,)),
    }
    inspection = wb.inspect(write(tmp_path / "model.safetensors", tensors))
    assert [row.name for row in inspection.unexplained] == ["model.layers.0.mlp.up_proj.codes"]
    text = " ".join(inspection.text().split())
    assert "1 tensors of integers, 32.7% of the bytes, fit no packing that is known" in text
    assert "每个数都计为一个参数" in inspection.text("zh").replace("\n", "")
    assert inspection.to_dict()["unexplained"] == ["model.layers.0.mlp.up_proj.codes"]


ONNX_FILES = {path.name.partition(".")[0]: path for path in sorted(PACKED.glob("*.onnx.gz"))}
BERT = {
    "model_type": "bert",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 8,
}


@pytest.mark.parametrize("name", ONNX_FILES)
def test_a_quantised_onnx_model_has_the_parameters_of_its_model(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(gzip.decompress(ONNX_FILES[name].read_bytes()))
    assert wb.inspect(path).checkpoint.packed
    verification = wb.verify(BERT, path)
    assert verification.status == 0, verification.text()
    compared = verification.comparison
    assert compared.parameters == compared.expected.parameters
