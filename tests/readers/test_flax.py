"""Flax checkpoints, written with msgpack as Flax writes them, and read without either."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import ml_dtypes
import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.errors import CheckpointError
from weighbridge.readers import flax, read
from weighbridge.units import NAMES

if TYPE_CHECKING:
    from pathlib import Path

ARRAY, COMPLEX, SCALAR = 1, 2, 3  # the kinds of flax/serialization.py


def packed(tree: Any) -> bytes:
    """Return the bytes that Flax writes for a tree."""

    def own(value: Any) -> msgpack.ExtType:
        if isinstance(value, complex):
            return msgpack.ExtType(COMPLEX, msgpack.packb((value.real, value.imag)))
        kind = SCALAR if isinstance(value, np.generic) else ARRAY
        array = np.asarray(value)
        return msgpack.ExtType(
            kind, msgpack.packb((array.shape, array.dtype.name, array.tobytes("C")))
        )

    return msgpack.packb(tree, default=own, strict_types=True)


def chunked(array: Any, chunk: int) -> dict[str, Any]:
    """Return an array in chunks of ``chunk`` elements, as Flax writes more than 2^30 bytes."""
    flat = array.reshape(-1)
    parts = [flat[at : at + chunk] for at in range(0, flat.size, chunk)]
    numbered = [{str(at): part for at, part in enumerate(each)} for each in (array.shape, parts)]
    return {"__msgpack_chunked_array__": True, "shape": numbered[0], "chunks": numbered[1]}


def write(path: Path, tree: Any) -> Path:
    path.write_bytes(packed(tree))
    return path


def rows(path: Path) -> list[tuple[Any, ...]]:
    return [(row.name, row.shape, row.dtype, row.count) for row in read(path).rows]


def test_every_dtype_of_numpy_and_jax_is_read(tmp_path: Path) -> None:
    arrays = {name: np.zeros((3, 4), dtype=getattr(ml_dtypes, name, name)) for name in NAMES}
    path = write(tmp_path / "flax_model.msgpack", {"of": arrays})
    assert [array.dtype.name for array in arrays.values()] == list(NAMES)
    assert rows(path) == [(f"of.{name}", (3, 4), dtype, 12) for name, dtype in NAMES.items()]


def test_names_are_joined_and_other_values_are_metadata(tmp_path: Path) -> None:
    tree = {
        "params": {
            "encoder": {
                "layer": {str(at): {"kernel": np.zeros((2, at), np.float32)} for at in (0, 1, 300)}
            },
            "scalar": np.float16(2),
            "empty": {},
        },
        "step": 70_000,
        "rate": 0.5,
        "less": -3,
        "on": True,
        "none": None,
        "name": "a" * 300,
        "of": [np.zeros(1, np.int8), "b"],
        "complex": 1j,
        "raw": b"123",
    }
    path = write(tmp_path / "a.msgpack", tree)
    kernels = [(f"params.encoder.layer.{at}.kernel", (2, at), "F32", 2 * at) for at in (0, 1, 300)]
    assert rows(path) == [*kernels, ("params.scalar", (), "F16", 1), ("of.0", (1,), "I8", 1)]
    metadata = {
        "step": "70000",
        "rate": "0.5",
        "less": "-3",
        "on": "true",
        "name": "a" * 300,
        "of.1": "b",
    }
    assert read(path).metadata == {**metadata, "complex": "19 bytes", "raw": "3 bytes"}


@pytest.mark.parametrize("length", [1, 20, 200, 300, 70_000])
def test_lengths_of_every_width_are_read(tmp_path: Path, length: int) -> None:
    tree = {
        "a" * min(length, 60_000): np.zeros(length, np.int8),
        **{f"{at:06}": at for at in range(length)},
    }
    path = write(tmp_path / "a.msgpack", tree)
    assert rows(path) == [("a" * min(length, 60_000), (length,), "I8", length)]
    assert list(read(path).metadata.items()) == [(f"{at:06}", str(at)) for at in range(length)]


def test_a_chunked_array_is_one_array(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.msgpack",
        {"a": {"b": chunked(np.zeros((5, 7), np.float16), 9), "c": np.zeros(2)}},
    )
    assert rows(path) == [("a.b", (5, 7), "F16", 35), ("a.c", (2,), "F64", 2)]


def test_data_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.msgpack", {name: np.zeros(10**6, np.float32) for name in "abc"})
    assert len(rows(path)) == 3
    assert 3 * 4096 <= read(path).header_bytes < 20_000


def test_the_index_of_a_split_model_names_its_tensors_with_slashes(tmp_path: Path) -> None:
    for at in (1, 2):
        write(
            tmp_path / f"flax_model-0000{at}-of-00002.msgpack",
            {"bert": {f"w{at}": {"kernel": np.zeros(at)}}},
        )
    listed = [f'"bert/w{at}/kernel": "flax_model-0000{at}-of-00002.msgpack"' for at in (1, 2)]
    (tmp_path / "flax_model.msgpack.index.json").write_text(
        '{"weight_map": {' + ", ".join(listed) + "}}"
    )
    found = read(tmp_path)
    assert [row.name for row in found.rows] == ["bert.w1.kernel", "bert.w2.kernel"]
    assert (found.absent, found.unlisted) == ({}, ())


def test_a_file_without_the_suffix_is_recognised(tmp_path: Path) -> None:
    assert read(write(tmp_path / "model", {"params": {"a": np.zeros(2)}})).format == "Flax"


def test_too_many_characters_in_nested_names_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.msgpack", {"a" * 100: {f"{at}": at for at in range(10)}})
    assert len(read(path).metadata) == 10
    monkeypatch.setattr(flax, "LONGEST_NAMES", 1000)
    with pytest.raises(CheckpointError, match="flax-names"):
        read(path)


def test_many_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.msgpack", {"a": [0] * 100})
    assert len(read(path).metadata) == 100
    monkeypatch.setattr(flax, "MOST_VALUES", 100)
    with pytest.raises(CheckpointError, match="flax-deep"):
        read(path)


SMALL = packed(
    {
        "a": np.zeros((2, 3), np.float32),
        "b": {"c": np.int8(1)},
        "d": chunked(np.zeros(4), 2),
        "e": [1, "f"],
    }
)


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    for length in range(len(SMALL)):
        (tmp_path / "a.msgpack").write_bytes(SMALL[:length])
        with pytest.raises(CheckpointError, match="flax-"):
            read(tmp_path / "a.msgpack")


@given(at=st.integers(0, len(SMALL) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "turned.msgpack"
    path.write_bytes(SMALL[:at] + bytes([SMALL[at] ^ 1 << bit]) + SMALL[at + 1 :])
    with suppress(CheckpointError):  # and no other
        assert all(row.count >= 0 for row in read(path).rows)
