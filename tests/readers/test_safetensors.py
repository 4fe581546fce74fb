"""The safetensors reader against the reference library: same tensors, and never laxer."""

import builtins
import json
import os
from math import prod
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save, save_file

from weighbridge import units
from weighbridge.errors import CheckpointError
from weighbridge.ledger.rows import Row
from weighbridge.readers import StoredCheckpoint, read, safetensors

NUMPY_DTYPES = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8")
SOUND = save(
    {"b": np.zeros((2, 3), "f4"), "a": np.zeros(5, "f2"), "n": np.array(7)}, {"format": "np"}
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("safetensors") / "model.safetensors"


def reference(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and dtype of each tensor according to the reference library."""
    with safe_open(path, framework="np") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, not a dict
        return {
            name: (tuple(found.get_shape()), found.get_dtype()) for name, found in slices.items()
        }


def ours(found: StoredCheckpoint) -> dict[str, tuple[tuple[int, ...], str]]:
    return {row.name: (row.shape, row.dtype) for row in found.rows}


def read_or_refuse(path: Path) -> StoredCheckpoint | None:
    """Return None if the file is refused; any other error fails the test."""
    try:
        return read(path)
    except CheckpointError:
        return None


arrays = st.sampled_from(NUMPY_DTYPES).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4), fill=st.nothing()
    )
)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=12).filter(lambda name: name != "__metadata__"), arrays, max_size=5
    )
)
@example({"scalar": np.array(1, "f4"), "empty": np.zeros((3, 0, 2), "f8")})
def test_rows_equal_the_report_of_the_reference(path: Path, tensors: dict[str, np.ndarray]) -> None:
    save_file(tensors, path)
    found = read(path)
    assert ours(found) == reference(path)
    assert ours(found).keys() == tensors.keys()
    for row in found.rows:
        assert row.count == row.parameters == tensors[row.name].size
        assert units.stored_bytes(row.count, row.dtype) == tensors[row.name].nbytes


def test_every_numpy_dtype_is_read(path: Path) -> None:
    save_file({dtype: np.zeros((2, 3), dtype) for dtype in NUMPY_DTYPES}, path)
    assert ours(read(path)) == reference(path)
    assert len({row.dtype for row in read(path).rows}) == len(NUMPY_DTYPES)


@pytest.mark.parametrize("dtype", units.DTYPE_BITS)
def test_a_dtype_is_as_wide_as_in_the_reference(path: Path, dtype: str) -> None:
    header = json.dumps(
        {"a": {"dtype": dtype, "shape": [8], "data_offsets": [0, units.DTYPE_BITS[dtype]]}}
    ).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(units.DTYPE_BITS[dtype]))
    assert ours(read(path)) == reference(path) == {"a": ((8,), dtype)}


def test_a_row_has_exactly_what_the_header_states(path: Path) -> None:
    path.write_bytes(SOUND)
    found = read(path)
    assert found.rows == (
        Row("n", (), "I64", role="", dims=(), count=1, parameters=1),
        Row("b", (2, 3), "F32", role="", dims=(), count=6, parameters=6),
        Row("a", (5,), "F16", role="", dims=(), count=5, parameters=5),
    )
    assert found.metadata == {"format": "np"}
    assert found.files == (str(path),)
    assert (found.duplicates, found.absent, found.unlisted, found.stated_bytes) == (
        {},
        {},
        (),
        None,
    )


def test_rows_keep_the_order_of_the_header_not_of_the_data(path: Path) -> None:
    header = (
        b'{"z":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},'
        b'"y":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}'
    )
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(3))
    assert [row.name for row in read(path).rows] == ["z", "y"]


@settings(deadline=None, max_examples=500)
@given(st.data())
def test_a_damaged_file_is_refused_or_the_reference_reads_the_same(
    path: Path, data: st.DataObject
) -> None:
    content = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(
        content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content
    )
    found = read_or_refuse(path)
    assert found is None or ours(found) == reference(path)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2**65)
    | st.floats()
    | st.sampled_from(["", "F32", "U8", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["dtype", "shape", "k"]), inner)
    ),
    max_leaves=4,
)


@settings(deadline=None, max_examples=300)
@given(
    st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "extra"]), json_values),
    json_values,
)
def test_a_header_of_any_json_is_refused_or_the_reference_reads_the_same(
    path: Path, changes: dict[str, object], metadata: object
) -> None:
    tensor = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2], **changes}
    header = json.dumps(
        {"a": tensor, "__metadata__": metadata if isinstance(metadata, dict) else {}}
    ).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
    found = read_or_refuse(path)
    assert found is None or ours(found) == reference(path)


@settings(deadline=None, max_examples=500)
@given(st.data())
def test_a_header_in_the_usual_form_gives_the_same_as_with_every_rule_checked(
    data: st.DataObject,
) -> None:
    header_bytes = int.from_bytes(SOUND[:8], "little")
    header, data_bytes = SOUND[8 : 8 + header_bytes].decode(), len(SOUND) - 8 - header_bytes
    for _ in range(data.draw(st.integers(0, 2))):
        at, until = sorted(data.draw(st.integers(1, len(header) - 1)) for _ in range(2))
        piece = data.draw(
            st.sampled_from(
                [header[at:until], *'{}[],:" \\0123abn', "__metadata__", "F16", "\\u0061"]
            )
        )
        header = header[:at] + piece + header[data.draw(st.sampled_from([at, at + 1, until])) :]
    usual = safetensors._usual(header.encode(), data_bytes, "a")
    assert usual is None or usual == safetensors._any(header.encode(), data_bytes, "a")


@pytest.mark.parametrize("metadata", [None, {"format": "pt", "quoted": '"'}])
def test_the_reference_writes_the_usual_form(metadata: dict[str, str] | None) -> None:
    content = save(
        {"层.weight": np.zeros((2, 3), "f4"), "b": np.zeros((), "?"), "c": np.zeros((0, 3))},
        metadata,
    )
    begin = 8 + int.from_bytes(content[:8], "little")
    assert safetensors._usual(content[8:begin], len(content) - begin, "a")


@pytest.mark.parametrize(
    "header",
    [
        '{"__metadata__":{"a":"\\ud800"},"a":TENSOR}',
        '{"__metadata__":{"a":1},"a":TENSOR}',
        '{"__metadata__":{},"__metadata__":TENSOR}',
        '{"a":TENSOR,}',
        '{"a":TENSOR,"a":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}',
        '{"a":TENSOR,',
        '{"a":TENSOR',
        '{"a":TENSOR}}',
        '{"__metadata__":{},',
        "{}",
        '{"a":{"dtype":"U8","shape":[02],"data_offsets":[0,2]}}',
        '{"a":{"dtype":"U9","shape":[2],"data_offsets":[0,2]}}',
        '{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    ],
)
def test_a_wrong_or_rare_header_is_not_in_the_usual_form(header: str) -> None:
    tensor = '{"dtype":"U8","shape":[2],"data_offsets":[0,2]}'
    assert safetensors._usual(header.replace("TENSOR", tensor).encode(), 2, "a") is None


def test_a_file_cut_anywhere_is_refused_by_the_rule_that_it_breaks(path: Path) -> None:
    header_bytes = int.from_bytes(SOUND[:8], "little")
    for length in range(len(SOUND)):
        path.write_bytes(SOUND[:length])
        rule = (
            "too-short"
            if length < 8
            else "header-cut"
            if length < 8 + header_bytes
            else "truncated"
        )
        with pytest.raises(CheckpointError, match=f": {rule}: "):
            read(path)
        with pytest.raises(SafetensorError):
            reference(path)


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the lengths of all reads from files that are opened from now on."""
    lengths: list[int] = []
    real_open = builtins.open

    class Counting:
        def __init__(self, *args: object, **kwargs: object) -> None:
            assert kwargs["buffering"] == 0, "a buffer would read some of the data"
            self.file = real_open(*args, **kwargs)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def fileno(self) -> int:
            return self.file.fileno()

        def read(self, size: int) -> bytes:
            found = self.file.read(size)
            lengths.append(len(found))
            return found

    monkeypatch.setattr(builtins, "open", Counting)
    return lengths


def test_only_the_header_of_a_huge_file_is_read(path: Path, bytes_read: list[int]) -> None:
    size = 2**36  # 64 GiB, but sparse: it takes no space
    header = json.dumps(
        {"a": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    ).encode()
    path.write_bytes(b"")
    bytes_read.clear()
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, len(header).to_bytes(8, "little") + header)
    os.ftruncate(descriptor, 8 + len(header) + size)
    os.close(descriptor)
    found = read(path)
    assert found.rows[0].count == 2**34
    assert sum(bytes_read) == found.header_bytes == 8 + len(header)
    path.unlink()


def test_minilm_is_read_from_its_header_alone(minilm: Path, bytes_read: list[int]) -> None:
    found = read(minilm)
    assert len(found.rows) == 104
    counts = {row.name: row.count for row in found.rows}
    assert counts.pop("embeddings.position_ids") == 512
    assert sum(counts.values()) == 22_713_216
    assert sum(bytes_read) == found.header_bytes == 8 + 11_408


@pytest.mark.parametrize("model", ["minilm", "bert_tiny"])
def test_released_models_read_as_the_reference_reads_them(
    model: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(model)
    found = read(folder)
    assert ours(found) == reference(folder / "model.safetensors")
    assert all(row.count == prod(row.shape) for row in found.rows)
    assert found.metadata == {"format": "pt"}
