"""Keras weights: HDF5 files and ``.keras`` archives, as Keras writes them, and hostile ones."""

from __future__ import annotations

import builtins
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import weighbridge as wb
from weighbridge.errors import CheckpointError
from weighbridge.readers import keras, read
from weighbridge.units import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "data" / "keras"
LISTED: dict[str, Any] = json.loads((DATA / "variables.json").read_text())
FILES = ["mlp.h5", "mlp.keras", "mlp.weights.h5", "half.keras", "half.weights.h5"]


@pytest.mark.parametrize("name", FILES)
def test_the_parameters_are_the_weights_that_keras_counts(name: str) -> None:
    found = read(DATA / name)
    expected = [(tuple(shape), NAMES[dtype]) for shape, dtype in LISTED[name.partition(".")[0]]]
    rows = [row for row in found.rows if row.parameters]
    assert sorted((row.shape, row.dtype) for row in rows) == sorted(expected)
    assert sum(row.parameters for row in rows) == sum(int(np.prod(shape)) for shape, _ in expected)


@pytest.mark.parametrize("name", ["mlp.h5", "mlp.keras"])
def test_the_variables_of_the_optimizer_are_listed_and_add_nothing(name: str) -> None:
    rows = [row for row in read(DATA / name).rows if "optimizer" in row.name.partition("/")[0]]
    # Adam has two slots for each trainable variable, and two numbers of its own.
    trainable = len(LISTED["mlp"]) - 2
    assert len(rows) == 2 * trainable + 2
    assert not any(row.parameters for row in rows)


@pytest.mark.parametrize("name", FILES)
def test_inspect_reads_little_and_names_the_format(name: str) -> None:
    inspection = wb.inspect(DATA / name)
    assert inspection.checkpoint.format == ("Keras" if name.endswith(".keras") else "HDF5")
    assert str(inspection.parameters) in inspection.text().replace(",", "")
    if name.endswith(".keras"):
        assert inspection.checkpoint.metadata["keras_version"] == LISTED["keras"]


def test_a_large_tensor_is_not_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=np.ones(10_000_000, np.float32))
    found = read(tmp_path / "a.h5")
    assert [row[:3] for row in found.rows] == [("a", (10_000_000,), "F32")]
    assert found.header_bytes < 10_000


@pytest.mark.parametrize("dtype", [np.bool_, "<f2", ">f8", "<i1", "<u8", "<i4", "<c8"])
def test_dtypes_shapes_ties_and_compression(tmp_path: Path, dtype: Any) -> None:
    data = np.zeros((3, 4), dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("layer/up")
        group["kernel:0"] = data
        group.create_dataset("packed", data=data, chunks=(2, 2), compression="gzip")
        group.create_dataset("number", data=data[0, 0])
        file["tied"] = group["kernel:0"]
        file.attrs["backend"] = "numpy"
    found = read(tmp_path / "a.h5")
    rows = {row.name: row for row in found.rows}
    assert set(rows) == {"layer/up/kernel:0", "layer/up/packed", "layer/up/number", "tied"}
    assert rows["layer/up/number"].shape == ()
    assert rows["layer/up/packed"].bytes == data.nbytes
    assert rows["tied"].tied_to == "layer/up/kernel:0"
    assert sum(row.parameters for row in found.rows) == 25
    assert found.metadata == {"backend": "numpy"}


def _links_outside(file: Any) -> None:
    file["a"] = h5py.ExternalLink("/etc/passwd", "/x")


def _soft_link(file: Any) -> None:
    file["a"] = h5py.SoftLink("/b")


def _data_outside(file: Any) -> None:
    file.create_dataset("a", (4,), "f4", external=[("/etc/passwd", 0, 16)])


def _virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4,))
    file.create_virtual_dataset("a", layout)


def _circle(file: Any) -> None:
    file.create_group("a")["b"] = file["/"]


def _deep(file: Any) -> None:
    file["/".join("a" * 100)] = np.zeros(2)


def _texts(file: Any) -> None:
    file.create_dataset("a", (1,), h5py.string_dtype())


def _records(file: Any) -> None:
    file["a"] = np.zeros(2, [("x", "f4"), ("y", "i4")])


def _no_shape(file: Any) -> None:
    file["a"] = h5py.Empty("f4")


def _beyond_2_63(file: Any) -> None:
    file.create_dataset("a", (2**32, 2**31), "f4", chunks=(1, 1))


HOSTILE: dict[str, tuple[str, Callable[[Any], None]]] = {
    "external link": ("hdf5-link", _links_outside),
    "soft link": ("hdf5-link", _soft_link),
    "external data": ("hdf5-link", _data_outside),
    "virtual": ("hdf5-link", _virtual),
    "circle": ("hdf5-deep", _circle),
    "deep": ("hdf5-deep", _deep),
    "texts": ("hdf5-dtype", _texts),
    "records": ("hdf5-dtype", _records),
    "no shape": ("hdf5-shape", _no_shape),
    "2^63": ("hdf5-shape", _beyond_2_63),
}


def refusal(path: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_by_a_named_rule(tmp_path: Path, name: str) -> None:
    rule, write = HOSTILE[name]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        write(file)
    assert refusal(tmp_path / "a.h5").rule == rule


def test_a_file_of_many_members_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(keras, "MOST_OBJECTS", 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number in range(4):
            file[str(number)] = number
    assert refusal(tmp_path / "a.h5").rule == "hdf5-deep"


def test_a_size_that_the_file_does_not_have_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", track_order=False) as file:
        dataset = file.create_dataset("a", data=np.zeros(4, np.float32))
        at = dataset.id.get_offset()
    content = bytearray((tmp_path / "a.h5").read_bytes())
    place = content.index(at.to_bytes(8, "little") + (16).to_bytes(8, "little"))
    content[place + 8 : place + 16] = (2**40).to_bytes(8, "little")
    (tmp_path / "a.h5").write_bytes(content)
    assert refusal(tmp_path / "a.h5").rule in ("hdf5", "hdf5-size")


@pytest.mark.parametrize("name", ["mlp.weights.h5", "mlp.keras"])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, name: str) -> None:
    content = (DATA / name).read_bytes()
    for length in (0, 7, 8, 60, len(content) // 2, len(content) - 1):
        (tmp_path / name).write_bytes(content[:length])
        assert refusal(tmp_path / name).rule in ("hdf5", "zip-end")


@pytest.mark.parametrize("way", ["no weights", "deflated"])
def test_an_archive_needs_its_weights_stored(tmp_path: Path, way: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.json", "{}")
        if way == "deflated":
            archive.write(DATA / "mlp.weights.h5", "model.weights.h5")
    assert refusal(tmp_path / "a.keras").rule == "keras-weights"


def test_without_h5py_the_message_says_what_to_install(monkeypatch: Any) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "h5py":
            raise ModuleNotFoundError(name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    error = refusal(DATA / "mlp.keras")
    assert error.rule == "keras-extra"
    assert "pip install 'weighbridge[keras]'" in str(error)
