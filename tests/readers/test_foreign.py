"""Formats without a reader are named as what they are, with what to do."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from weighbridge.errors import CheckpointError
from weighbridge.readers import foreign, read

if TYPE_CHECKING:
    from pathlib import Path


# The first bytes, the members or the files that each format has, by the schemas and sources of the
# projects: tensorflow/lite schema.fbs (file_identifier "TFL3"), executorch program.fbs ("ET12"),
# torch/export/pt2_archive/constants.py, openvino's serialize.cpp, coremltools, orbax.
BYTES = {
    "model.tflite": (b"\x1c\0\0\0TFL3" + bytes(24), "TensorFlow Lite"),
    "renamed.bin": (b"\x1c\0\0\0TFL3" + bytes(24), "TensorFlow Lite"),
    "unnamed": (b"\x1c\0\0\0TFL3" + bytes(24), "TensorFlow Lite"),
    "model.pte": (b"\x30\0\0\0ET12" + bytes(24), "ExecuTorch"),
    "model.xml": (b'<?xml version="1.0"?>\n<net name="a" version="11">\n</net>', "OpenVINO"),
    "model.mlmodel": (b"\x08\x07\x12\x02", "Core ML"),
    "model.pdparams": (b"\x80\x02}q\x00.", "Paddle"),
}


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read(path)
    assert caught.value.rule == "foreign-format"
    assert caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize("name", BYTES)
def test_a_file_is_named_as_what_it_is(tmp_path: Path, name: str) -> None:
    content, what = BYTES[name]
    (tmp_path / name).write_bytes(content)
    assert what in refusal(tmp_path / name)


@pytest.mark.parametrize("name", [name for name in BYTES if name.endswith(foreign.SUFFIXES)])
def test_a_folder_with_such_a_file_is_named_too(tmp_path: Path, name: str) -> None:
    content, what = BYTES[name]
    (tmp_path / name).write_bytes(content)
    assert what in refusal(tmp_path)


def test_the_data_of_openvino_is_recognised_beside_its_description(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(bytes(64))
    (tmp_path / "model.xml").write_bytes(BYTES["model.xml"][0])
    assert "OpenVINO" in refusal(tmp_path / "model.bin")
    assert "OpenVINO" in refusal(tmp_path)


@pytest.mark.parametrize("suffix", [".pt2", ".pt", ""])
def test_an_exported_program_is_not_called_damaged(tmp_path: Path, suffix: str) -> None:
    with zipfile.ZipFile(tmp_path / f"a{suffix}", "w") as archive:
        archive.writestr("a/models/model.json", "{}")
        archive.writestr("a/archive_format", "pt2")
    assert "torch.export" in refusal(tmp_path / f"a{suffix}")


@pytest.mark.parametrize(
    ("folder", "file", "what"),
    [
        ("a.mlpackage", "Manifest.json", "Core ML"),
        ("compiled", "coremldata.bin", "Core ML"),
        ("step_100", "_CHECKPOINT_METADATA", "Orbax"),
        ("default", "manifest.ocdbt", "Orbax"),
    ],
)
def test_a_folder_is_named_as_what_it_is(tmp_path: Path, folder: str, file: str, what: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / file).write_bytes(b"{}")
    assert what in refusal(tmp_path / folder)


def test_other_files_are_not_called_foreign(tmp_path: Path) -> None:
    for name, content in {"a.xml": b"<?xml version='1.0'?><svg/>", "b": bytes(300)}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CheckpointError) as caught:
            read(tmp_path / name)
        assert caught.value.rule == "format"
