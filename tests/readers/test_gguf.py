"""GGUF files that the reference library writes, read as it reads them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge import readers
from weighbridge.errors import CheckpointError
from weighbridge.readers import read
from weighbridge.readers.gguf import TYPES
from weighbridge.units import DTYPES, stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = list(gguf.GGMLQuantizationType)
QUANTIZED = [kind for kind in KINDS if gguf.GGML_QUANT_SIZES[kind][0] > 1]


def write(path: Path, kinds: Iterable[Any] = KINDS, **options: Any) -> Path:
    """Write a tensor of each type, with three rows of two blocks, and a key of each type."""
    writer = gguf.GGUFWriter(path, "llama", **options)
    for number, kind in enumerate(
        ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
    ):
        getattr(writer, f"add_{kind}")(f"a.{kind}", number)
    writer.add_float32("a.float32", 0.5)
    writer.add_float64("a.float64", 0.25)
    writer.add_bool("a.bool", True)  # the library's own way
    writer.add_string("a.text", "token")
    writer.add_array("a.texts", ["x", "yy", ""] * 50)
    writer.add_array("a.numbers", [1, 2, 3])
    writer.add_array("a.flags", [True, False])
    writer.add_array("a.nested", [[1, 2], [3]])
    for kind in kinds:
        elements, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        shape, data = (3, 2 * elements), np.zeros((3, 2 * block_bytes), dtype=np.uint8)
        writer.add_tensor(f"blk.0.{kind.name}.weight", data, raw_shape=data.shape, raw_dtype=kind)
        assert shape
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def rows_of(paths: Iterable[Path]) -> list[tuple[Any, ...]]:
    """Return what the reference reads: name, shape (outermost first), type, elements, bytes."""
    tensors = [tensor for path in paths for tensor in gguf.GGUFReader(path).tensors]
    return [
        (
            each.name,
            tuple(map(int, reversed(each.shape))),
            each.tensor_type.name,
            int(each.n_elements),
            int(each.n_bytes),
        )
        for each in tensors
    ]


def rows(path: Path) -> list[tuple[Any, ...]]:
    found = read(path).rows
    return [
        (row.name, row.shape, row.dtype, row.count, stored_bytes(row.count, row.dtype))
        for row in found
    ]


def test_every_type_of_the_reference_is_known_with_its_blocks() -> None:
    assert {kind.value: kind.name for kind in KINDS} == TYPES
    assert {kind.name: tuple(DTYPES[kind.name]) for kind in KINDS} == {
        kind.name: gguf.GGML_QUANT_SIZES[kind] for kind in KINDS
    }


@pytest.mark.parametrize(
    "endianess", [gguf.GGUFEndian.LITTLE, gguf.GGUFEndian.BIG], ids=["little", "big"]
)
def test_every_type_is_read_as_the_reference_reads_it(tmp_path: Path, endianess: Any) -> None:
    path = write(tmp_path / "a.gguf", endianess=endianess)
    assert rows(path) == rows_of([path])
    assert len(rows(path)) == len(KINDS)
    metadata = read(path).metadata
    assert {
        key: metadata[f"a.{key}"]
        for key in ("uint8", "int64", "float32", "float64", "bool", "text")
    } == {
        "uint8": "0",
        "int64": "7",
        "float32": "0.5",
        "float64": "0.25",
        "bool": "true",
        "text": "token",
    }
    arrays = {
        "a.texts": "150 x text",
        "a.numbers": "3 x int32",
        "a.flags": "2 x bool",
        "a.nested": "2 x array",
    }
    assert {key: metadata[key] for key in arrays} == arrays
    assert metadata["general.architecture"] == "llama"


def test_a_released_model_is_read_as_the_reference_reads_it(smollm2: Path) -> None:
    assert rows(smollm2) == rows_of([smollm2])
    assert sum(row.count for row in read(smollm2).rows) == 134_515_008


def test_version_2_is_read_too(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", QUANTIZED)
    expected, whole = rows(path), path.read_bytes()
    path.write_bytes(whole[:4] + (2).to_bytes(4, "little") + whole[8:])
    assert rows(path) == expected


def test_another_alignment_is_respected(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_custom_alignment(256)
    writer.add_tensor("a", np.zeros((3, 5), dtype=np.float32))
    writer.add_tensor("b", np.zeros(7, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert [row[:3] for row in rows(tmp_path / "a.gguf")] == [
        ("a", (3, 5), "F32"),
        ("b", (7,), "F16"),
    ]


def test_all_parts_of_a_split_model_are_read_given_any_one(tmp_path: Path) -> None:
    write(tmp_path / "a.gguf", QUANTIZED, split_max_tensors=10)
    parts = sorted(tmp_path.iterdir())
    assert [path.name for path in parts] == [f"a-0000{at}-of-00003.gguf" for at in (1, 2, 3)]
    for path in (parts[0], parts[2], tmp_path):
        assert rows(path) == rows_of(parts)
        assert [Path(file).name for file in read(path).files] == [part.name for part in parts]
    parts[1].unlink()
    with pytest.raises(CheckpointError, match=r"gguf-split: .*missing = 'a-00002-of-00003.gguf'"):
        read(parts[0])


def test_a_long_vocabulary_is_skipped(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_token_list([f"token {at} {'x' * (at % 300)}" for at in range(9000)])
    writer.add_tensor("a", np.zeros(7, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = read(tmp_path / "a.gguf")
    assert found.header_bytes > 5 * 2**18, "it is longer than several pieces"
    assert found.metadata["tokenizer.ggml.tokens"] == "9000 x text"
    assert found.rows[0][:3] == ("a", (7,), "F16")


def test_a_file_without_the_suffix_is_recognised(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", QUANTIZED[:1])
    assert read(path.rename(tmp_path / "model")).format == "GGUF"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write(tmp_path_factory.mktemp("gguf") / "a.gguf", KINDS[:3]).read_bytes()


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path, small: bytes) -> None:
    path = tmp_path / "a.gguf"
    data_ends = len(small.rstrip(b"\0")) + 1
    for length in range(data_ends):
        path.write_bytes(small[:length])
        with pytest.raises(CheckpointError, match="gguf-"):
            read(path)


@given(at=st.integers(0, 1500), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, small: bytes, at: int, bit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "turned.gguf"
    at %= len(small)
    path.write_bytes(small[:at] + bytes([small[at] ^ 1 << bit]) + small[at + 1 :])
    with suppress(CheckpointError):  # and no other
        assert all(row.count >= 0 for row in readers.read(path).rows)
