"""Which files are one checkpoint, and what happens where a path means several."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

import weighbridge as wb
from weighbridge.cli import main
from weighbridge.errors import CheckpointError
from weighbridge.readers import read, read_all
from weighbridge.readers.paths import paths_in_brief

if TYPE_CHECKING:
    from pathlib import Path


def save(folder: Path, **sizes: dict[str, int]) -> Path:
    """Write safetensors files; double underscores in their names are hyphens, as in numberings."""
    folder.mkdir(exist_ok=True)
    for name, tensors in sizes.items():
        arrays = {tensor: np.zeros(size, "f4") for tensor, size in tensors.items()}
        save_file(arrays, folder / f"{name.replace('__', '-')}.safetensors")
    return folder


def quantised(folder: Path, *kinds: gguf.GGMLQuantizationType) -> Path:
    """Write one model in several quantisations, as repositories of GGUF files have them."""
    for kind in kinds:
        writer = gguf.GGUFWriter(folder / f"model-{kind.name}.gguf", "llama")
        data = gguf.quantize(np.zeros((4, 64), np.float32), kind)
        writer.add_tensor("token_embd.weight", data, raw_dtype=kind)
        writer.add_tensor("output_norm.weight", np.zeros(64, np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return folder


def totals(path: Path | str) -> list[int]:
    return [sum(row.parameters for row in found.rows) for found in read_all(path)]


CASES = {
    "colliding names": ({"a": {"w": 1, "b": 2}, "b": {"w": 4}}, [3, 4]),
    "names that collide in files that differ in a number": (
        {"epoch_1": {"w": 1}, "epoch_2": {"w": 4}},
        [1, 4],
    ),
    "parts that differ in a number": ({"part1": {"a": 1}, "part2": {"b": 4}}, [5]),
    "two models without a common name": ({"unet": {"a": 1}, "vae": {"b": 4}}, [1, 4]),
    "a numbering": ({"x__1__of__2": {"a": 1}, "x__2__of__2": {"b": 4}}, [5]),
    "two numberings": (
        {
            "x__1__of__2": {"a": 1},
            "x__2__of__2": {"b": 2},
            "y__1__of__2": {"a": 4},
            "y__2__of__2": {"b": 8},
        },
        [3, 12],
    ),
    "one whole and one numbered": (
        {"whole": {"a": 1, "b": 2}, "x__1__of__2": {"a": 4}, "x__2__of__2": {"b": 8}},
        [3, 12],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_folder_has_as_many_checkpoints_as_its_files_say(tmp_path: Path, case: str) -> None:
    files, expected = CASES[case]
    folder = save(tmp_path / "folder", **files)
    assert totals(folder) == expected
    if len(expected) == 1:
        assert sum(row.parameters for row in read(folder).rows) == expected[0]
        return
    with pytest.raises(CheckpointError, match="several-checkpoints: ") as caught:
        read(folder)
    assert f"checkpoints = {len(expected)}, first = " in str(caught.value)
    for found, total in zip(read_all(folder), expected, strict=True):
        assert totals(found.path) == [total], "the path in the list means the same checkpoint"


def test_a_pattern_says_that_its_files_belong_together(tmp_path: Path) -> None:
    folder = save(tmp_path, unet={"a": 1}, vae={"b": 4})
    assert totals(folder / "*.safetensors") == [5]
    save(tmp_path, other={"b": 8})
    assert totals(folder / "*.safetensors") == [8, 1, 4]


def test_each_folder_has_checkpoints_of_its_own(tmp_path: Path) -> None:
    for number, tensors in enumerate(({"a": 1}, {"a": 2}, {"b": 4})):
        save(tmp_path / f"m000{number}", model=tensors)
    assert totals(tmp_path / "m000[01]" / "model.safetensors") == [1, 2]
    assert totals(tmp_path / "m000[12]" / "model.safetensors") == [2, 4], "whatever their names"
    with pytest.raises(CheckpointError, match=r"first = 'm0000/model\.safetensors'"):
        read(tmp_path / "m000[01]" / "model.safetensors")


def test_each_index_is_a_checkpoint(tmp_path: Path) -> None:
    for number in range(2):
        folder = save(tmp_path / f"m{number}", x__1__of__1={"a": 1 + number})
        index = {"weight_map": {"a": "x-1-of-1.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert totals(tmp_path / "m*" / "model.safetensors.index.json") == [1, 2]


def test_quantisations_of_one_model_are_listed_and_not_added_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = gguf.GGMLQuantizationType
    quantised(tmp_path, kinds.Q4_0, kinds.Q8_0)
    assert main(["inspect", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    sizes = [4 * 64 // 32 * (2 + 16) + 256, 4 * 64 // 32 * (2 + 32) + 256]
    assert [each["bytes"] for each in found["checkpoints"]] == sizes
    assert [each["parameters"] for each in found["checkpoints"]] == [320, 320]
    for command in (["guess"], ["verify", "llama"], ["verify", str(tmp_path / "model-Q4_0.gguf")]):
        assert main([*command, str(tmp_path)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "several-checkpoints: " in err
        assert "first = 'model-Q4_0.gguf', second = 'model-Q8_0.gguf'" in err
        assert "weighbridge inspect" in err


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_list_has_each_checkpoint_with_its_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lang: str
) -> None:
    save(tmp_path, first={"pooler.weight": 1500}, second={"pooler.weight": 7})
    assert main(["inspect", str(tmp_path), "--lang", lang]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["first.safetensors", "1", "1,500", "5.86", "KiB"] in lines
    assert ["second.safetensors", "1", "7", "28", "B"] in lines
    assert not any("1,507" in line for line in lines), "they are not added up"
    main(["inspect", str(tmp_path), "--by", "dtype", "--lang", lang])
    assert capsys.readouterr().out.count("F32") == 2
    main(["inspect", str(tmp_path), "--csv", "--by", "dtype", "--lang", lang])
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "checkpoint,dtype,tensors,parameters,elements,bytes"
    assert [row.partition(",F32,")[2] for row in rows] == ["1,1500,1500,6000", "1,7,7,28"]


def test_in_python_a_path_must_mean_one_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, first={"a": 1}, second={"a": 2})
    with pytest.raises(CheckpointError, match="`weighbridge inspect` lists each with its total"):
        wb.inspect(tmp_path)


def test_names_in_two_files_of_a_numbering_are_named(tmp_path: Path) -> None:
    save(tmp_path, x__1__of__2={"a": 1, "b": 2}, x__2__of__2={"b": 2})
    found = wb.inspect(tmp_path)
    assert found.parameters == 3
    assert "Stored in several files under the same name, and counted once (1): b." in found.text()


def test_paths_are_shortened_by_whole_folders() -> None:
    assert paths_in_brief(["a/m1.gguf", "a/m2.gguf"]) == ["m1.gguf", "m2.gguf"]
    assert paths_in_brief(["a/m1/x", "a/m2/x"]) == ["m1/x", "m2/x"]
    assert paths_in_brief(["hf://o/n@1/a/x", "hf://o/n@1/x"]) == ["a/x", "x"]
    assert paths_in_brief(["x", "y"]) == ["x", "y"]
