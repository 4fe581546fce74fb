"""NumPy archives that NumPy writes, read as it reads them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.errors import CheckpointError
from weighbridge.readers import read
from weighbridge.readers.npz import DTYPES
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from pathlib import Path

ways = pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
ARRAYS: dict[str, Any] = {
    **{f"of/{kind}": np.zeros((2, 3), dtype=kind) for kind in DTYPES},
    "big-endian": np.zeros(4, dtype=">f4"),
    "fortran": np.zeros((3, 4), order="F"),
    "scalar": np.float32(1),
    "empty": np.zeros((0, 7)),
    "large": np.zeros((300, 300), dtype=np.float16),
}


def rows(path: Path) -> list[tuple[Any, ...]]:
    found = read(path).rows
    return [
        (row.name, row.shape, row.dtype, row.count, stored_bytes(row.count, row.dtype))
        for row in found
    ]


@ways
def test_every_dtype_of_numpy_is_read(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "a.npz", **ARRAYS)
    with np.load(tmp_path / "a.npz") as loaded:
        expected = [
            (name, array.shape, DTYPES[array.dtype.str[1:]], array.size, array.nbytes)
            for name, array in loaded.items()
        ]
    assert rows(tmp_path / "a.npz") == expected
    assert len(expected) == len(ARRAYS)


@pytest.mark.parametrize(
    "array", [np.array([{}]), np.array(["a"]), np.zeros(2, dtype=[("a", "f4"), ("b", "i4")])]
)
def test_arrays_that_are_not_numbers_are_refused(tmp_path: Path, array: Any) -> None:
    np.savez(tmp_path / "a.npz", a=array)
    with pytest.raises(CheckpointError, match="npz-dtype"):
        read(tmp_path / "a.npz")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    np.savez(path, a=np.zeros(3), b=np.ones((2, 2), dtype=np.int8))
    return path.read_bytes()


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path, small: bytes) -> None:
    for length in range(len(small)):
        (tmp_path / "a.npz").write_bytes(small[:length])
        with pytest.raises(CheckpointError):
            read(tmp_path / "a.npz")


@given(at=st.integers(0, 2000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, small: bytes, at: int, bit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "turned.npz"
    at %= len(small)
    path.write_bytes(small[:at] + bytes([small[at] ^ 1 << bit]) + small[at + 1 :])
    with suppress(CheckpointError):  # and no other
        assert all(row.count >= 0 for row in read(path).rows)
