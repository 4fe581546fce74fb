"""Indexes of TensorFlow checkpoints: one from TensorFlow, and others from a small writer."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import wheels
from hostile import field, saved_as, table, table_block, tf
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.errors import CheckpointError
from weighbridge.readers import read, tensorflow
from weighbridge.units import NAMES, stored_bytes

if TYPE_CHECKING:
    from pathlib import Path

# The types in tensorflow/core/framework/types.proto, including quantised ones, by PyTorch's names.
TYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    8: "complex64",
    9: "int64",
    10: "bool",
    11: "int8",
    12: "uint8",
    13: "int32",
    14: "bfloat16",
    15: "int16",
    16: "uint16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
    26: "float8_e4m3fnuz",
    28: "float8_e5m2fnuz",
}


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def rows(path: Path) -> list[tuple[Any, ...]]:
    return [(row.name, row.shape, row.dtype, row.count) for row in read(path).rows]


def test_a_released_model_fills_its_data_file_to_the_byte() -> None:
    folder = wheels.model(wheels.BASIC_PITCH)
    found = read(folder)
    assert (found.format, len(found.rows)) == ("TensorFlow", 73)
    assert found.rows[-2][:3] == ("optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE", (), "I64")
    kernels = [row for row in found.rows if "/kernel/" in row.name and "SLOT" not in row.name]
    assert [row.shape for row in kernels] == [
        *((3, 39, 8, 8), (5, 5, 8, 1), (7, 7, 1, 32)),
        *((5, 5, 8, 32), (7, 3, 32, 1), (3, 3, 33, 1)),
    ]
    (texts,) = found.metadata.values()
    in_all = sum(stored_bytes(row.count, row.dtype) for row in found.rows) + int(texts.split()[1])
    assert in_all == (folder / "variables.data-00000-of-00001").stat().st_size
    assert found.header_bytes == (folder / "variables.index").stat().st_size


def test_a_data_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    for path in wheels.model(wheels.BASIC_PITCH).iterdir():
        shutil.copy(path, tmp_path)
    data = tmp_path / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="tf-beyond"):
        read(tmp_path)
    data.unlink()
    assert len(read(tmp_path).rows) == 73


def test_every_type_is_read_in_the_order_of_the_names(tmp_path: Path) -> None:
    kinds = {kind: NAMES[name] for kind, name in TYPES.items()}
    assert kinds == tensorflow._TYPES
    pairs = [
        (
            f"bert/{kind:03}".encode(),
            saved_as(kind=kind, shape=(3, kind), size=stored_bytes(3 * kind, dtype)),
        )
        for kind, dtype in kinds.items()
    ]
    path = write(tmp_path / "a.index", tf(*pairs))
    assert rows(path) == [
        (f"bert/{kind:03}", (3, kind), dtype, 3 * kind) for kind, dtype in kinds.items()
    ]


def test_scalars_empty_tensors_texts_and_slices_are_read(tmp_path: Path) -> None:
    part = field(7, field(1, field(1, 0) + field(2, 2)))
    path = write(
        tmp_path / "a.index",
        tf(
            (b"\0\1emb", saved_as(shape=(2, 3), size=24)),
            (b"\0\1emb\2", saved_as(shape=(2, 3), size=24, offset=24)),
            (b"emb", saved_as(shape=(4, 3), size=0, more=part)),
            (b"empty", saved_as(shape=(0, 3), size=0)),
            (b"global_step", saved_as(kind=9, shape=(), size=8)),
            (b"graph", saved_as(kind=7, shape=(), size=99)),
        ),
    )
    assert rows(path) == [
        ("emb", (4, 3), "F32", 12),
        ("empty", (0, 3), "F32", 0),
        ("global_step", (), "I64", 1),
    ]
    assert read(path).metadata == {"graph": "text, 99 bytes"}


def test_the_state_of_a_training_is_not_counted(tmp_path: Path) -> None:
    names = (
        "a/kernel",
        "a/kernel/.OPTIMIZER_SLOT/opt/m/.ATTRIBUTES/VARIABLE_VALUE",
        "a/kernel/Adam",
        "a/kernel/Adam_1",
        "a/kernel/adam_m",
        "a/kernel/adam_v",
        "beta1_power",
        "global_step",
    )
    entries = [(name.encode(), saved_as(shape=(2, 3), size=24)) for name in names]
    found = read(write(tmp_path / "a.index", tf(*entries)))
    assert [row.name for row in found.rows if row.parameters] == ["a/kernel"]
    assert {row.role for row in found.rows} == {"", "training.optimizer", "training.state"}
    assert sum(row.count for row in found.rows) == 6 * len(names)


def test_several_blocks_and_data_files_are_read(tmp_path: Path) -> None:
    names = [b"layer_%04d/kernel" % at for at in range(300)]
    blocks = [
        table_block([(b"", field(1, 2)), *((name, saved_as(shard=0)) for name in names[:100])]),
        table_block([(name, saved_as(shard=1, offset=8)) for name in names[100:]]),
    ]
    path = write(tmp_path / "bert_model.ckpt.index", table(*blocks))
    assert [name for name, *_ in rows(path)] == [name.decode() for name in names]
    write(tmp_path / "bert_model.ckpt.data-00000-of-00002", bytes(8))
    write(tmp_path / "bert_model.ckpt.data-00001-of-00002", bytes(15))
    with pytest.raises(CheckpointError, match=r"tf-beyond: .*tensor = 'layer_0100/kernel'"):
        read(path)


def test_a_checkpoint_is_found_by_its_tensorflow_name(tmp_path: Path) -> None:
    path = write(tmp_path / "bert_model.ckpt.index", tf((b"a", saved_as())))
    found = read(tmp_path / "bert_model.ckpt")
    assert (found.files, found.rows) == ((str(path),), read(path).rows)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"bert_model.ckpt: missing: "):
        read(tmp_path / "bert_model.ckpt")


@pytest.mark.parametrize(("limit", "most"), [("LONGEST_KEYS", 62), ("LONGEST_INDEX_BYTES", 100)])
def test_too_long_files_and_keys_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    path = write(
        tmp_path / "a.index", tf(*((b"x" * 30 + b"%d" % at, saved_as()) for at in range(2)))
    )
    assert len(rows(path)) == 2
    monkeypatch.setattr(tensorflow, limit, most)
    with pytest.raises(CheckpointError, match="tf-key" if limit == "LONGEST_KEYS" else "tf-limit"):
        read(path)
    monkeypatch.undo()


def test_a_circular_link_in_place_of_the_data_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.index", tf((b"a", saved_as())))
    (tmp_path / "a.data-00000-of-00001").symlink_to("a.data-00000-of-00001")
    with pytest.raises(CheckpointError, match="unreadable"):
        read(path)


SMALL = tf((b"a", saved_as()), (b"b", saved_as(kind=9, shape=(2, 1), size=16, offset=8)))


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    for length in range(len(SMALL)):
        with pytest.raises(CheckpointError, match="tf-"):
            read(write(tmp_path / "a.index", SMALL[:length]))


@given(at=st.integers(0, len(SMALL) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_never_read_as_another_tensor(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "turned.index"
    whole = rows(write(path, SMALL))
    write(path, SMALL[:at] + bytes([SMALL[at] ^ 1 << bit]) + SMALL[at + 1 :])
    with suppress(CheckpointError):
        # No checksum covers the footer; it contains the handle of a block that is not needed.
        assert rows(path) == whole
